"""`lethe budget report`: the ledger as a finished run, with findings and a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lethe.cli.options import options_of


def report(
    where: str,
    /,
    *,
    dataset: str | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    head: Annotated[list[str] | None, Parameter(negative=())] = None,
    anchor: Path | None = None,
    out: Path | None = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Write findings.json and report.html about what was answered and what it cost.

    Parameters
    ----------
    where
        The ledger: a file, or postgresql://...
    dataset
        Name in the ledger. [the only one]
    gate
        Rule that sets the exit code, such as "spent<=1.0"; may be repeated. Metrics: spent,
        share, delta, queries, raises.
    head
        Hash that was kept elsewhere; see `lethe budget verify`.
    anchor
        File of `lethe budget anchor --to`; without one, the guarantee assumes that the ledger was
        not rolled back.
    out
        Run folder. [lethe-runs/DATASET-HASH]
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know, for the report.
    as_json
        Print findings.json instead of the summary.
    """
    given = options_of(locals(), "where")
    from lethe.cli.budget_words import dataset_of, opened
    from lethe.cli.options import finish, merged, run_folder, running
    from lethe.files import for_owner
    from lethe.queries.ledger.document import compose
    from lethe.training.fingerprint import digest

    options = merged(config, given)
    with opened(where, options.get("anchor") and Path(options["anchor"])) as ledger:
        name = dataset_of(ledger, options["dataset"])
        findings = compose(ledger, name, options["gate"] or (), options["head"] or ())
    bound = digest("ledger", name, findings.reproduction["head"])
    folder = run_folder(options["out"], Path(name).stem, bound)
    # A ledger's URL may hold a password, so the place is not written down.
    command = {"command": "budget report", **options, "dataset": name}
    # The questions and their answers are in it.
    with for_owner(), running(folder, bound, command, quiet=True) as (run, _):
        return finish(findings, run, context, as_json)
