"""The short form of a report as Markdown: for a merge request, a wiki, a mail.

It holds the verdict, the criteria, the frontier, what is proven and the limits; everything else is
in the page. Words from data are escaped, so that they stay text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from lethe.evidence.findings import Findings
from lethe.report.several import glance, joint, title_of
from lethe.report.view import build

Json = Mapping[str, Any]

# A full stop or a hyphen begins a list only at the start of a line, where no word of ours stands.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


def markdown(
    runs: Sequence[tuple[Findings, Mapping[str, Any] | None]], title: str | None = None
) -> str:
    """The report in short.

    Args:
        runs: findings and manifest of each, as in `lethe.report.page.render_several`.
        title: of the system; the name of the first release without one.

    Returns:
        Markdown with tables (CommonMark with the tables of GitHub).
    """
    documents = [findings.to_json() for findings, _ in runs]
    lines = [f"# Privacy audit: {words(title or documents[0]['subject']['name'])}", ""]
    if len(runs) > 1:
        lines += [f"**{joint(documents)['word']}** on all releases together.", ""]
        lines += _table(
            ("release", "judged", "risk", "utility", "the one to take", "proven", "verdict"),
            [
                (
                    row["title"],
                    row["candidate"],
                    str(row["risk"]),
                    str(row["utility"]),
                    row["best"],
                    row["proven"],
                    row["outcome"]["word"],
                )
                for row in glance(documents)
            ],
        )
    for document, (_, manifest) in zip(documents, runs, strict=True):
        lines += _release(document, build(document, manifest or {}))
    return "\n".join(lines).rstrip() + "\n"


def words(text: str) -> str:
    r"""Text from data, with everything that Markdown or HTML would read as markup escaped.

    >>> words("a|b <script> *c*")
    'a\\|b &lt;script&gt; \\*c\\*'
    """
    flat = " ".join(str(text).split())
    escaped = _SPECIAL.sub(lambda m: f"\\{m[1]}" if m[1] not in "<>&" else m[1], flat)
    return re.sub(r"&", "&amp;", escaped).replace("<", "&lt;").replace(">", "&gt;")


def _release(document: Json, shown: Mapping[str, Any]) -> list[str]:
    lines = [f"## {words(title_of(document))}", ""]
    if document["subject"]["summary"]:
        lines += [words(document["subject"]["summary"]), ""]
    lines += [f"**Verdict: {shown['outcome']['word']}**", ""]
    lines += [f"- {words(sentence)}" for sentence in document["verdict"]["words"]]
    lines.append("")
    if shown["rules"]:
        lines += _table(
            ("criterion, fixed before the run", "candidate", "measured", "outcome"),
            [
                (r["rule"], r["candidate"], str(r["evidence"]), r["outcome"]["word"])
                for r in shown["rules"]
            ],
        )
    if shown["changes"]:
        lines += ["What would change this verdict:", ""]
        for rule, sentences in shown["changes"]:
            lead = [f"{rule}:"] if rule else []
            lines.append(f"- {words(' '.join([*lead, *sentences]))}")
        lines.append("")
    residual = shown["residual"]
    drafted = f" ({shown['drafted']})" if residual["drafted"] else ""
    lines += [f"Residual risk{drafted}: {words(' '.join(residual['sentences']))}", ""]
    if shown["candidates"]:
        frontier = document["frontier"]
        lines += [
            f"Risk: {words(frontier['risk'])}. Utility: {words(frontier['utility'])}.",
            "",
            *_table(
                ("candidate", "risk", "utility", "standing"),
                [
                    (c["name"], str(c["risk"]), str(c["utility"]), ", ".join(c["standing"]))
                    for c in shown["candidates"]
                ],
            ),
        ]
    if shown["guarantees"]:
        lines += _table(
            ("candidate", "label", "proven"),
            [
                (g["candidate"], g["kind"], "yes" if g["proven"] else "no")
                for g in shown["guarantees"]
            ],
        )
    failed = [c for c in document["checks"] if c["status"] != "pass"]
    for check in failed:
        lines.append(
            f"- Self-check {check['status']}: {words(check['name'])}: {words(check['detail'])}"
        )
    if shown["not_tested"]:
        lines += ["", "Not tested:", "", *(f"- {words(text)}" for text in shown["not_tested"])]
    lines += ["", "Limits:", "", *(f"- {words(limit)}" for limit in document["limits"]), ""]
    return lines


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [heads, ["---"] * len(heads), *([words(cell) or "–" for cell in row] for row in rows)]
    return [*("| " + " | ".join(line) + " |" for line in lines), ""]
