"""`lethe diff`: compare two runs and print what moved beyond its interval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from lethe.cli.options import AsJson


def diff(
    run_a: Path,
    run_b: Path,
    /,
    *,
    fail_on: Literal["worse"] | None = None,
    every: Annotated[bool, Parameter(name="--all")] = False,
    html: Path | None = None,
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
        html: Also write the comparison as a page that needs no other file.
        as_json: The whole comparison as JSON.
    """
    import json

    from lethe.assess.compare import compare_runs
    from lethe.evidence.findings import Findings
    from lethe.files import write_whole
    from lethe.report.history import comparison_lines, comparison_page

    before, after = Findings.load(run_a), Findings.load(run_b)
    comparison = compare_runs(before, after)
    if as_json:
        print(json.dumps(comparison.to_json(), indent=1, ensure_ascii=False))
    else:
        print("\n".join(comparison_lines(comparison, every)))
    if html is not None:
        write_whole(html, comparison_page(before, after, (run_a, run_b)).encode())
    return int(fail_on == "worse" and comparison.worse)
