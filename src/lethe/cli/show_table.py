"""The result of an audit of rows on a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lethe.cli.show_candidates import print_candidates, terminal, titled
from lethe.cli.show_rest import print_rest
from lethe.evidence.findings import Findings

_COLUMNS = {
    "quasi": [("k", "k"), ("unique", "unique"), ("certain", "secret certain")],
    "records": [("match", "match"), ("exposed", "exposed"), ("false_match", "false match")],
    "synthetic": [("strongest", "strongest")],
}


_PAIRS = 20  # printed; the file has all


def _shown(found: Any) -> str:
    if not isinstance(found, dict):
        return "-" if found is None else str(found)
    if found.get("value") is None:
        return "-"
    value, low, high = (found[key] for key in ("value", "low", "high"))
    if low == high == value or low is high is None:  # counted, or without an interval
        return f"{value:.4f}"
    ends = ["-" if end is None else f"{end:.4f}" for end in (low, high)]
    return f"{value:.4f}\n{ends[0]} to {ends[1]}"


def print_table(findings: Findings, folder: str) -> None:
    """The candidates as a table, the words, and where the document lies."""
    from rich.text import Text

    console, risk = terminal(), str(findings.frontier["risk"])
    extra = [*_COLUMNS[str((findings.table or {})["kind"])]]
    if any("journalist" in one for one in findings.candidates):
        extra.insert(1, ("journalist", "journalist"))
    first = risk.split(":")[0] if ":" in risk else "excess"
    keys = ["risk", *(key for key, _ in extra), "utility", "utility_loss"]
    print_candidates(
        console,
        findings,
        [first, *(title for _, title in extra), "utility", "lost"],
        lambda candidate: [_shown(candidate.get(key)) for key in keys],
        16,
        "risk and utility",
    )
    proven = [one["candidate"] for one in findings.guarantees if one["guarantee"]["proven"]]
    said = "Nothing here is proven"
    if proven:
        said = f"Proven, as the report says, is {', '.join(proven)}; nothing else is"
    console.print(Text(f"{said}: k-anonymity, too, is measured only."))
    print_rest(console, findings, folder)


def print_pairs(folder: Path) -> None:
    """Who was named as whom, from the kept table of records: personal data, asked for."""
    from rich.text import Text

    from lethe.data.columns import read_columns

    kept = next(iter(sorted(folder.glob("records.*"))), None)
    columns = {} if kept is None else read_columns(kept)
    console = terminal()
    if "attacker" not in columns:
        console.print(Text("Nobody was named."))
        return
    decides = [at for at, one in enumerate(columns["decides"]) if str(one) in ("True", "1")]
    table = titled("who was named as whom (personal data)")
    for name in ("person", "record", "attacker", "score"):
        table.add_column(name)
    for at in decides[:_PAIRS]:
        names = [str(columns[name][at]) for name in ("person", "record", "attacker")]
        table.add_row(*names, f"{float(columns['score'][at]):.3g}")
    console.print(table)
    if len(decides) > _PAIRS:
        console.print(Text(f"and {len(decides) - _PAIRS} more in {kept}"))
