"""`lethe audit table`: measure rows that are handed out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lethe.cli.options import options_of

_RENAMED = {"query": "queries", "people": "population"}


def table(
    file: Path | None = None,
    /,
    *,
    quasi: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    sensitive: str | None = None,
    population: Path | None = None,
    people: int | None = None,
    ks: Annotated[list[int] | None, Parameter(consume_multiple=True, negative=())] = None,
    suppress: float | None = None,
    most: int | None = None,
    distance: str | None = None,
    epsilon: Annotated[list[float] | None, Parameter(consume_multiple=True, negative=())] = None,
    delta: float | None = None,
    schema: Path | None = None,
    bins: int | None = None,
    synthetic: Path | None = None,
    control: Path | None = None,
    attacks: int | None = None,
    linked: Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())] = None,
    person: str | None = None,
    item: str | None = None,
    value: str | None = None,
    time: str | None = None,
    unit: str | None = None,
    keep: str | None = None,
    aux: Path | None = None,
    aux_columns: str | None = None,
    truth: Path | None = None,
    targets: int | None = None,
    phi: float | None = None,
    false_matches: float | None = None,
    facts: int | None = None,
    time_error: int | None = None,
    value_error: float | None = None,
    inside: str | None = None,
    memory: str | None = None,
    query: Annotated[list[str] | None, Parameter(negative=())] = None,
    predict: str | None = None,
    utility_model: str | None = None,
    held_out: float | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    release: str | None = None,
    margin: float | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    out: Path | None = None,
    keep_records: Annotated[bool | None, Parameter(negative=())] = None,
    pairs: Annotated[bool | None, Parameter(negative=())] = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Audit rows: whose is this one, what does it give away, and what would coarser rows change.

    Three kinds. With --quasi: one row a person, columns that somebody may know. With --person and
    --item: one row a fact, such as a rating, a purchase or a click. With --synthetic and
    --control: FILE holds the rows that synthetic ones were made from.

    Parameters
    ----------
    file
        csv, parquet, npz, a DuckDB file, or a SciPy sparse matrix (npz) of people and items.
    quasi
        Columns that somebody may know of a person: --quasi age,sex,zip.
    sensitive
        Column that nobody should learn.
    population
        File with the same columns of everybody the rows may be of: journalist risk.
    people
        Size of the population that the rows are a random sample of: an estimate under a model of
        how many unique rows are unique there.
    ks
        Smallest classes of the recoded candidates. [2 5 10]
    suppress
        Largest share of rows that recoding may leave out. [0.05]
    most
        Largest subset of columns that is searched for unique rows. [3]
    distance
        Of t-closeness: equal, or ordered. [equal]
    epsilon
        Also try synthetic rows made of noisy counts, differentially private: --epsilon 1 4. The
        rows that are measured are written to the run folder.
    delta
        Of the same. [1e-6]
    schema
        TOML file of types and possible values, for the same: `lethe schema FILE` writes a draft.
        Synthetic rows have its columns. Without it, it is read off FILE and taken to be public.
    bins
        Of a column whose schema has bounds, for the same. [32]
    synthetic
        Rows that were made from FILE.
    control
        Rows from the same source as FILE that nothing was made from.
    attacks
        Attempts of each attack on synthetic rows. [500]
    linked
        Columns that a second source holds, linked with --quasi through synthetic rows. [all others]
    person
        Column of the people, in a file of facts.
    item
        Column of the items.
    value
        Column of numbers, such as ratings.
    time
        Column of dates, ISO texts, or numbers since 1970.
    unit
        Of times that are numbers: days, seconds, milliseconds, microseconds, nanoseconds. [auto]
    keep
        Of several facts of a person about an item: first or last. [first]
    aux
        File of facts that somebody really has, or an earlier release: who of it is in FILE?
    aux_columns
        Its columns, if they have other names: person,item,value,time.
    truth
        csv or parquet with the columns aux and release: names of the same people in both.
    targets
        People that each simulated adversary looks for, at most. [300]
    phi
        Eccentricity from which on every attacker answers. [where --false-matches is met]
    false_matches
        Of people outside the release, the largest share that all attackers together may name: the
        default threshold of each is set so. [0.01]
    facts
        Facts that the strongest adversary knows; a quarter of them is wrong. [8]
    time_error
        Days by which known times may be off. [14]
    value_error
        By which known values may be off. [0]
    inside
        Name of the table in a DuckDB file.
    memory
        That may be used for FILE, such as 4GB; larger files are sorted on disk. [what is free]
    query
        SQL over the table "release" that it must still answer; may be repeated. Utility is 1 -
        the mean error. Without any it is the share of counts that stay right.
    predict
        Or: column that a model of the released rows predicts. Utility is its accuracy (of numbers
        R2) on rows that were held out.
    utility_model
        Or: file.py:name of a function of the released rows and of held-out original rows, that
        says how good the former are; higher = better.
    held_out
        Share of the rows that those two are tested on. [0.3]
    gate
        Rule that sets the exit code, such as "unique<=0.01"; may be repeated. Metrics, by kind:
        prosecutor, marketer, journalist, unique, certain; top-1, match, exposed, false-match;
        singling-out, linkability, inference, identical, closest, excess; and utility-loss and
        width(...) of each.
    release
        Candidate that the rules judge, such as k-5. [baseline]
    margin
        Loss of utility that counts as none. [0.05]
    confidence
        Of all intervals. [0.95]
    seed
        Of everything random. [0]
    out
        Run folder. [lethe-runs/FILE-HASH]
    keep_records
        Keep the table of exposed people in the run folder, and with --aux who was named as whom;
        it is personal data.
    pairs
        Also print who was named as whom, the first 20; needs --keep-records.
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know, for the report.
    as_json
        Print findings.json instead of the table.
    quiet
        No progress, only the result.
    """
    given = options_of(locals(), "file")
    from lethe.cli.options import finish, merged, run_folder, running, subject_named
    from lethe.cli.table_subject import subject_of

    file = Path(subject_named(file, config, "audit table"))
    options = merged(config, given)
    wanted = {
        _RENAMED.get(key, key): value for key, value in options.items() if key != "population"
    }
    subject = subject_of(file, options, wanted)
    folder = run_folder(options["out"], file.stem, subject.name)
    command = {"command": "audit table", "file": str(file), **options}
    with running(folder, subject.name, command, quiet) as (run, progress):
        for note in subject.notes:
            progress.say(note)
        code = finish(subject.audit(say=progress.say, folder=run), run, context, as_json)
        if options["pairs"] and not as_json:
            from lethe.cli.show_table import print_pairs

            print_pairs(run.path)
        return code
