"""`lethe check`: judge finished runs by rules, for people and for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lethe.cli.options import AsJson

if TYPE_CHECKING:
    from lethe.assess.judged import Judged, WrittenRule
    from lethe.evidence.findings import Findings


def check(
    *runs: Path,
    rule: list[str] | None = None,
    rules: Path | None = None,
    release: str | None = None,
    junit: Path | None = None,
    sarif: Path | None = None,
    baseline: Path | None = None,
    write_baseline: Path | None = None,
    as_json: AsJson = False,
    quiet: bool = False,
) -> int:
    """Judge finished runs by rules; nothing is trained or measured.

    A rule passes when the upper limit of its metric meets it and fails when the lower limit
    breaks it. Exit codes: 1 if a rule fails, else 3 if one cannot be decided or if no attack on the
    candidate passed its self-checks, else 0. Rules that a run was not begun with are marked "fixed
    after the run".

    Args:
        runs: Run folders, or files findings.json.
        rule: Rule such as "tpr@0.001<=0.05"; may be repeated. It judges the runs whose kind of
            release has its metric. [the rules of the runs themselves]
        rules: TOML file with a table [rules] or with rule = [...]; the audit.toml of a run is one.
        release: Candidate to judge. [the one that the run judged]
        junit: Write JUnit XML here, one test case a rule.
        sarif: Write SARIF 2.1.0 here.
        baseline: File of --write-baseline: what failed then passes, unless its metric got worse
            beyond both intervals, which fails.
        write_baseline: Write down here where every rule stands, as known; then the exit code is 0.
        as_json: The result as JSON.
        quiet: Print only what does not pass.
    """
    import json

    from lethe.assess.judged import (
        against_baseline,
        judge_anew,
        judge_stored,
        metric_of,
        metrics_of,
        read_baseline,
        unsupported,
    )
    from lethe.assess.judged import write_baseline as write_down
    from lethe.errors import InputError
    from lethe.evidence.findings import Findings
    from lethe.evidence.plain import plain
    from lethe.evidence.rules import UNDECIDED, exit_code, joint_outcome, parse_rule

    if not runs:
        raise InputError("lethe check needs a finished run, such as lethe-runs/digits-1a2b3c4d.")
    asked = _written_rules(rule, rules)
    paths = [run / "findings.json" if run.is_dir() else run for run in runs]
    documents = [Findings.load(path) for path in paths]
    known = {name: what for findings in documents for name, what in metrics_of(findings).items()}
    for entry in asked:  # a rule whose metric no run has would judge nothing
        if metric_of(entry.text) not in known:
            parse_rule(entry.text, known)
    judged: list[Judged] = []
    for run, findings in zip(runs, documents, strict=True):
        if asked or release is not None:
            written = asked or _own(findings)
            judged += judge_anew(findings, str(run), written, release)
        else:
            judged += judge_stored(findings, str(run))
    void = [why for findings in documents if (why := unsupported(findings, release)) is not None]
    if not judged and not void:
        raise InputError(
            'there is no rule to check: the runs were given none. Give one: --rule "METRIC <= X".'
        )
    before = None if baseline is None else read_baseline(baseline)
    if write_baseline is not None:
        write_down(write_baseline, judged)
    judged = judged if before is None else against_baseline(judged, before)
    outcomes = [*(judgement.outcome for judgement in judged), *(UNDECIDED for _ in void)]
    code = 0 if write_baseline is not None else exit_code(outcomes)
    _write_files(
        judged, {str(run): path for run, path in zip(runs, paths, strict=True)}, junit, sarif
    )
    if as_json:
        document = {"outcome": joint_outcome(outcomes), "exit_code": code}
        print(json.dumps({**document, "rules": plain(judged), "void": void}, indent=1))
    else:
        for why in void:
            print(f"{UNDECIDED}: {why}")
        _print(judged, quiet)
    return code


def _written_rules(texts: list[str] | None, file: Path | None) -> list[WrittenRule]:
    from lethe.assess.judged import WrittenRule
    from lethe.errors import InputError, renamed
    from lethe.runs.settings import read_toml, rules_in

    written = [WrittenRule(text) for text in texts or ()]
    if file is None:
        return written
    listed = rules_in(renamed(read_toml(file)), str(file))
    if not listed:
        raise InputError(
            f'{file} holds no rules: write [rules] with entries such as tpr = "tpr@0.001 <= 0.05".'
        )
    return [*written, *listed]


def _own(findings: Findings) -> list[WrittenRule]:
    """The rules of a run, each once, whatever candidate they judged."""
    from lethe.assess.judged import WrittenRule

    rules = {rule["rule"]: rule for rule in findings.rules}.values()
    return [WrittenRule(r["rule"], r.get("name", ""), r.get("why", "")) for r in rules]


def _write_files(
    judged: list[Judged], paths: dict[str, Path], junit: Path | None, sarif: Path | None
) -> None:
    from importlib.metadata import version

    from lethe.files import write_whole

    if junit is not None:
        from lethe.report.ci import junit as junit_of

        write_whole(junit, junit_of(judged))
    if sarif is not None:
        from lethe.report.ci import sarif as sarif_of

        files = [paths[judgement.run].as_posix() for judgement in judged]
        write_whole(sarif, sarif_of(judged, version("lethe-privacy"), files))


def _print(judged: list[Judged], quiet: bool) -> None:
    from lethe.evidence.rules import PASS

    several = len({judgement.run for judgement in judged}) > 1
    for judgement in judged:
        if judgement.outcome != PASS or not quiet:
            named = f"{judgement.name}: " if judgement.name else ""
            where = f" in {judgement.run}" if several else ""
            rule = f"{named}{judgement.rule} on {judgement.candidate}{where}"
            print(f"{judgement.outcome}: {rule}\n  {judgement.words}")
            if judgement.why:
                print(f"  {judgement.why}")
