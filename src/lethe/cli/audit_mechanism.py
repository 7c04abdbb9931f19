"""`lethe audit mechanism`: run a mechanism as a black box, and say what it gives away at least."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lethe.cli.options import options_of


def mechanism(
    function: str | None = None,
    /,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    bounds: str | None = None,
    size: int | None = None,
    beyond: Annotated[bool | None, Parameter(negative=())] = None,
    neighbours: str | None = None,
    relation: str | None = None,
    runs: int | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    out: Path | None = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Audit a mechanism that claims differential privacy: does it have too little noise?

    It is run many times on data sets that differ in one person. Whatever tells the answers apart
    bounds epsilon from below; a limit above the claim contradicts it (exit code 1). A limit below
    is no proof. The function runs in this process, as your own code.

    Parameters
    ----------
    function
        file.py:name or package.module:name of mechanism(data) or mechanism(data, seed), which
        returns a number, a category, or an array of them; an exception counts as an answer.
    epsilon
        Claimed; a rule that is judged. Without any claim only the limit is given.
    delta
        Claimed beside epsilon. [0]
    rho
        Claimed, of zero-concentrated differential privacy, in place of epsilon.
    mu
        Claimed, of Gaussian differential privacy, in place of epsilon. For Gaussian noise a claim
        of mu or rho needs far fewer runs than one of epsilon and delta.
    bounds
        LOW,HIGH: the mechanism takes a vector of numbers in this range, and neighbours are made.
    size
        People in those made-up data sets. [10]
    beyond
        Also try a value far outside the bounds, which a mechanism that clamps does not mind.
    neighbours
        file.py:name of a function that returns a list of (data, neighbour) or (name, data,
        neighbour), in place of --bounds.
    relation
        add/remove: the neighbour lacks one person; replace-one: it has another in that place.
        [add/remove]
    runs
        On each of both inputs of each pair, at least 100. [10000]
    confidence
        Of all limits together. [0.95]
    seed
        Of the seeds that the mechanism is given. [0]
    gate
        Rule that sets the exit code, such as "epsilon-lower<=0.5"; may be repeated. Metrics:
        epsilon-lower, rho-lower or mu-lower, as claimed, and reuse.
    out
        Run folder. [lethe-runs/NAME-HASH]
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know, for the report.
    as_json
        Print findings.json instead of the table.
    quiet
        No progress, only the result.
    """
    given = options_of(locals(), "function")
    from lethe.cli.mechanism_subject import subject_of
    from lethe.cli.options import finish, merged, run_folder, running, subject_named
    from lethe.queries.mechanism_audit.audit import audit_mechanism

    reference = str(subject_named(function, config, "audit mechanism"))
    options = merged(config, given)
    subject = subject_of(reference, options)
    folder = run_folder(options["out"], subject.title, subject.name)
    # The claim is a rule too, and was fixed before the run like any other.
    rules = [*(options["gate"] or ()), *map(str, subject.settings.claimed())]
    command = {"command": "audit mechanism", "target": reference, **options, "gate": rules}
    with running(folder, subject.name, command, quiet) as (run, progress):
        findings = audit_mechanism(
            subject.mechanism,
            subject.pairs,
            subject.settings,
            name=subject.title,
            say=progress.say,
        )
        return finish(findings, run, context, as_json)
