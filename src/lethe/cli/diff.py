"""`lethe diff`: what moved between two runs beyond its interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lethe.cli.options import AsJson

if TYPE_CHECKING:
    from lethe.assess.compare import Change, Comparison


def diff(
    run_a: Path,
    run_b: Path,
    /,
    *,
    fail_on: Literal["worse"] | None = None,
    every: Annotated[bool, Parameter(name="--all")] = False,
    as_json: AsJson = False,
) -> int:
    """Compare two finished runs: which risks, utilities, rules and proofs moved.

    A number has moved when the interval of its difference leaves out 0. The interval is made from
    both runs' limits as if they were independent; runs that share data or seed are not, and then
    it is too wide: fewer numbers count as moved. Exit code 0, whatever is found.

    Args:
        run_a: Run folder or findings.json, the one before.
        run_b: The one after, of the same kind of release.
        fail_on: "worse": exit code 1 if a number moved for the worse, a rule began to fail, or a
            proof got weaker or was lost.
        every: Print what stayed within its interval, and what neither run could measure, too.
        as_json: The whole comparison as JSON.
    """
    import json

    from lethe.assess.compare import compare_runs
    from lethe.evidence.findings import Findings

    before, after = Findings.load(run_a), Findings.load(run_b)
    found = compare_runs(before, after)
    if as_json:
        print(json.dumps(found.to_json(), indent=1, ensure_ascii=False))
    else:
        _print(found, every)
    return int(fail_on == "worse" and found.worse)


def _print(found: Comparison, every: bool) -> None:
    from lethe.assess.compare import MOVED, UNKNOWN, WITHIN
    from lethe.evidence.estimate import Estimate

    counts = {
        verdict: [one for one in found.changes if one.verdict == verdict]
        for verdict in (MOVED, UNKNOWN, WITHIN)
    }
    if found.data:
        print(
            f"different data ({', '.join(found.data)}): what moved may be the data and not the "
            "release"
        )
    for name, (a, b) in found.settings.items():
        print(f"differs: {name}: {_short(a)} -> {_short(b)}")
    for side, names in (("A", found.only_before), ("B", found.only_after)):
        if names:
            print(f"only in {side}: {', '.join(names)}")
    for verdict in (MOVED, UNKNOWN, WITHIN):
        for one in counts[verdict]:
            told = [
                side for side in (one.before, one.after) if isinstance(side, Estimate) and side.n
            ]
            if every or verdict == MOVED or (verdict == UNKNOWN and told):
                print(_line(one))
    for rule in found.rules:
        old, new = (rule[side] or "not a rule" for side in ("before", "after"))
        print(f"rule {rule['rule']} on {rule['candidate']}: {old} -> {new}")
    for proof in found.guarantees:
        word = {(True, False): "weaker", (False, True): "stronger", (True, True): "incomparable"}
        moved = word.get((proof["weaker"], proof["stronger"]), "changed")
        print(f"proof of {proof['candidate']}: {moved}")
    print(_summary(counts[MOVED], len(counts[WITHIN]), len(counts[UNKNOWN])))


def _line(one: Change) -> str:
    which = "" if one.worse is None else " (worse)" if one.worse else " (better)"
    sides = " -> ".join(
        "not measured" if side is None else str(side) for side in (one.before, one.after)
    )
    gap = "" if one.difference is None else f"; difference {one.difference}"
    return f"{one.verdict}{which}: {one.quantity} of {one.candidate}: {sides}{gap}"


def _summary(moved: list[Change], within: int, unknown: int) -> str:
    compared = len(moved) + within
    told = f"{len(moved)} of {compared} numbers moved beyond the interval of their difference"
    known = [one.difference for one in moved if one.difference is not None]
    if known:
        chance = compared * (1 - known[0].confidence)
        told += f" (by chance alone at most about {chance:.1f} would)"
    return f"{told}; {unknown} cannot be compared."


def _short(value: object) -> str:
    text = "none" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
