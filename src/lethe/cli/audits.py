"""`lethe audit KIND`: the audits of `lethe.api` as commands; their arguments are the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from lethe.errors import InputError
from lethe.runs.settings import descriptions

if TYPE_CHECKING:
    from lethe.evidence.findings import Findings


class Audit(NamedTuple):
    """One kind of audit, as a command; arguments without a default must be given."""

    does: str  # one line
    takes: str  # what its argument is
    examples: tuple[str, ...]  # three, for the top of its help
    # "module:name" of functions and dataclasses whose arguments and fields are its options; the
    # first one is called.
    sources: tuple[str, ...]
    about: str = "file"  # name of its argument
    leave: tuple[str, ...] = ()  # arguments and fields that are no options
    names: Mapping[str, str] = {}  # of options that are not those of their field
    others: Mapping[str, str] = {}  # headings of options that mean something else here
    commas: tuple[str, ...] = ()  # options whose values may be separated by commas
    pairs: Mapping[str, str] = {}  # options of the form KEY=VALUE, with what that is
    lacks: str = "a file to audit"  # what is missing where nothing is named


TRAINED = ("lethe.data.tables:load", "lethe.api.models:audit")
NOT_ASKED = ("X", "y", "members", "groups", "ids", "identifiers", "public", "predictions")
NOT_OF_SCORES = (
    *("ids", "labels", "groups", "targets", "models", "margin", "holdout"),
    *("mitigations", "noise", "alpha", "beta", "until", "release"),
    *("onion", "epsilon", "delta", "clip", "dp_batch_size", "dp_epochs", "predictions"),
    *("dp_learning_rate", "dp_optimizer", "local_epsilon"),
)
AUDITS = {
    "model": Audit(
        "A trained model: who was in its training?",
        "Built-in data (digits, breast-cancer, diabetes) or a file (csv, parquet, npz). [as "
        "--config names it]",
        (
            "lethe audit model digits",
            "lethe audit model people.csv --label income --group person",
            "lethe audit model people.csv --label income --recipe mine.py:make --models 16",
        ),
        ("lethe.cli.audit_model:model", *TRAINED),
        about="target",
        leave=NOT_ASKED,
    ),
    "fitted": Audit(
        "A fitted model: what lies in its file, and who was in its training?",
        "The model (.skops, .onnx, .safetensors with --recipe, a Hugging Face folder) and a table "
        "of its members and others drawn like them.",
        (
            "lethe audit fitted model.skops people.csv --members trained_on --label income",
            "lethe audit fitted model.safetensors people.csv --members m --recipe mine.py:build",
            "lethe audit fitted tuned/ notes.csv --members m --text note --label code",
        ),
        ("lethe.cli.audit_model:fitted", "lethe.api.models:audit_scores"),
        about="files",
        leave=(*NOT_OF_SCORES, "signal"),
        lacks="a model and a table",
    ),
    "scores": Audit(
        "Scores that you computed, of models trained elsewhere.",
        "npz or safetensors with signals (models, records) and members (models, records), or "
        "parquet or csv with the columns model, record, signal, member. Models marked by targets "
        "(models,), or a column target, are attacked with all others as references. Records that "
        "no model was trained on stand for people outside.",
        (
            "lethe audit scores scores.npz",
            "lethe audit scores scores.csv --signal loss",
            "lethe audit scores scores.npz --attack rmia-online lira-online --rule 'auc<=0.6'",
        ),
        ("lethe.api.models:audit_scores",),
        leave=("members", *NOT_OF_SCORES),
    ),
    "text": Audit(
        "An autocoder: a model that gives codes to free text.",
        "csv, parquet, Excel, SPSS or Stata, one record a row.",
        (
            "lethe audit text injuries.parquet --text narrative --label code",
            "lethe audit text injuries.csv --text narrative --label code --min-class-size 50",
            "lethe audit text injuries.csv --text narrative --label code --model encoder/",
        ),
        ("lethe.cli.audit_model:text", "lethe.cli.audit_model:model", *TRAINED),
        leave=NOT_ASKED,
    ),
    "language-model": Audit(
        "A fine-tuned language model: what of its texts comes out?",
        "Folder of the model or of an adapter on --base, with its tokenizer.",
        (
            "lethe audit language-model tuned/ --texts split.csv --text note --base base/",
            "lethe audit language-model adapter/ --texts split.csv --base base/ \\\n"
            "      --person customer --unit person --canaries plan/canaries.json --epsilon 8",
            "lethe audit language-model --scores tokens.parquet --texts split.csv",
        ),
        ("lethe.api.language:audit_language_model",),
        about="model",
        leave=("seen",),
        names={"claimed_epsilon": "epsilon", "claimed_delta": "delta"},
        others={
            "epsilon": "Claim",
            "delta": "Claim",
            "unit": "Attacks",
            "precision": "Running",
            "epochs": "Mitigations",
            "base": "Model",
        },
        pairs={"also": "NAME=FOLDER, each name once"},
    ),
    "embeddings": Audit(
        "Vectors of people: whose is this one?",
        "One file a model.",
        (
            "lethe audit embeddings vectors.npz --head head.npz",
            "lethe audit embeddings vectors.npy --table people.csv --user person",
            "lethe audit embeddings visits.parquet --period day --from 2024-03-01 --known 3",
        ),
        ("lethe.api.vectors:audit_vector_files",),
        about="files",
        leave=(
            *("surface", "pools", "precision", "refine", "repeats", "common", "radius_sigmas"),
            *("alpha", "backend"),
        ),
        names={"array": "vectors", "sigmas": "sigma"},
    ),
    "table": Audit(
        "Rows, one a person: who stands out?",
        "csv, parquet, npz, Excel, SPSS, Stata or DuckDB.",
        (
            "lethe audit table people.csv --quasi age,sex,zip --sensitive diagnosis",
            "lethe audit table people.csv --quasi age,sex,zip --population register.csv",
            "lethe audit table people.csv --quasi age,sex --epsilon 1 --schema people.toml",
        ),
        ("lethe.api.rows:audit_table",),
        leave=("ruled_out",),
        names={"queries": "query", "hierarchies": "hierarchy"},
        others={"epsilon": "Mitigations", "delta": "Mitigations"},
        commas=("quasi", "text", "group", "hierarchy"),
        pairs={"hierarchy": "COLUMN=FILE, such as age=age.csv"},
    ),
    "records": Audit(
        "Facts about people: how few name a person?",
        "csv, parquet or a DuckDB file of one row a fact, or a SciPy sparse matrix (npz) of people "
        "and items.",
        (
            "lethe audit records films.csv --person user --item film --time when",
            "lethe audit records films.csv --person user --item film --value stars",
            "lethe audit records new.csv --person user --item film --aux old.csv --pairs",
        ),
        ("lethe.api.rows:audit_records",),
        leave=(
            *("value_scale", "time_scale", "support", "popular", "share", "pseudonyms"),
            *("sought", "predict"),
        ),
        names={"queries": "query"},
    ),
    "synthetic": Audit(
        "Synthetic rows: do they reveal their originals?",
        "The synthetic rows: csv or parquet.",
        (
            "lethe audit synthetic made.csv --original used.csv --control unused.csv \\\n"
            "      --quasi age,sex --sensitive diagnosis",
            "lethe audit synthetic made.csv --original used.csv --control unused.csv \\\n"
            "      --quasi age,sex --attacks 500",
            "lethe audit synthetic made.csv --original used.csv --control unused.csv \\\n"
            "      --quasi age,sex --predict diagnosis",
        ),
        ("lethe.api.rows:audit_synthetic",),
        leave=("columns", "neighbours", "tolerance"),
        names={"queries": "query"},
        commas=("quasi", "linked", "text"),
    ),
    "mechanism": Audit(
        "Noise of your own: does it keep its epsilon?",
        "file.py:name or package.module:name of mechanism(data) or mechanism(data, seed). Whatever "
        "it returns, raises, warns, logs or prints is its answer.",
        (
            "lethe audit mechanism mine.py:count --epsilon 1 --bounds 0,100",
            "lethe audit mechanism mine.py:noisy --mu 1 --bounds 0,1 --runs 50000",
            "lethe audit mechanism mine.py:noisy --epsilon 1 --neighbours mine.py:pairs",
        ),
        ("lethe.api.mechanisms:audit_mechanism",),
        about="function",
        leave=("claim",),
        names={"pairs": "neighbours"},
        others={"epsilon": "Claim", "delta": "Claim"},
    ),
}


def __getattr__(name: str) -> Any:
    """The command of a kind of audit, made when it is called."""
    kind = name.replace("_", "-")
    if kind not in AUDITS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return command_of(kind)


def command_of(kind: str) -> Callable[..., int]:
    """The function that cyclopts reads: the argument of an audit, and its options."""
    from cyclopts import Parameter

    from lethe.cli.options import RunOptions, options_for

    audit = AUDITS[kind]
    sources = [_loaded(source) for source in audit.sources]
    options = options_for(
        *sources, RunOptions, names=audit.names, leave=audit.leave, others=audit.others
    )

    def command(*subjects: str, flags: Any = None) -> int:
        subject = subjects if audit.about == "files" else next(iter(subjects), None)
        return audited(kind, sources[0], subject, asdict(flags or options()))

    several, flags = inspect.signature(command).parameters.values()
    about: Any = several.replace(name=audit.about)
    hint: Any = str
    if audit.about != "files":
        about, hint = inspect.Parameter(about.name, about.POSITIONAL_ONLY, default=None), str | None
    hint = Annotated[hint, Parameter(help=audit.takes)]
    command.__annotations__ = {about.name: hint, "flags": options, "return": int}
    signature = inspect.Signature([about, flags.replace(default=options())])
    command.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    return command


def _loaded(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def audited(
    kind: str, function: Callable[..., Findings], subject: Any, flags: dict[str, Any]
) -> int:
    """Call an audit with what was typed, print its result; the exit code."""
    from lethe.cli.options import command_line, merged
    from lethe.cli.options import show as shown
    from lethe.runs.run import Asked, code_of

    audit = AUDITS[kind]
    config, context, as_json, quiet = map(flags.pop, ("config", "context", "as_json", "quiet"))
    release, *others = inspect.signature(function).parameters.values()
    needs = "" if "None" in str(release.annotation) else f"audit {kind} needs {audit.lacks}"
    subject, options = merged(flags, config, subject, needs)
    values = {**options, **{key: split_names(options[key]) or None for key in audit.commas}}
    for argument in others:
        if argument.default is argument.empty and values.get(argument.name, "") is None:
            what = descriptions(function)[argument.name].rstrip(".")
            raise InputError(f"lethe audit {kind} needs --{argument.name}: {what}.")
    for name, form in audit.pairs.items():
        values[name] = _pairs(name, values[name] or (), form) or None
    fields = {option: name for name, option in audit.names.items()}
    arguments = {
        fields.get(key, key): value
        for key, value in values.items()
        if value is not None and key != "rules"
    }

    def show(findings: Findings, folder: Path) -> None:
        shown(findings, folder, bool(as_json))
        if options.get("pairs") and not as_json:
            _print_pairs(folder)

    named = {} if subject is None else {"file" if "file" in audit.about else "target": subject}
    written = {"command": f"audit {kind}", **named, **options}
    asked = Asked(command_line(), written, context, show)
    return code_of(function(subject, **arguments, quiet=bool(quiet), asked=asked))


def split_names(names: Sequence[str] | str | None) -> tuple[str, ...]:
    """Names that are separated by commas, by blanks, or given one by one.

    >>> split_names(["age,sex", "zip"])
    ('age', 'sex', 'zip')
    """
    listed = [names] if isinstance(names, str) else list(names or ())
    return tuple(name.strip() for text in listed for name in text.split(",") if name.strip())


def _pairs(option: str, listed: Sequence[str], form: str) -> dict[str, str]:
    """KEY=VALUE, each key once."""
    pairs: dict[str, str] = {}
    for text in [listed] if isinstance(listed, str) else listed:
        key, sign, value = str(text).partition("=")
        if not sign or not key or key in pairs:
            raise InputError(f"{option}={text!r} must be {form}.")
        pairs[key] = value
    return pairs


_PAIRS = 20  # printed; the file has all


def _print_pairs(folder: Path) -> None:
    """Print who was named as whom, from the kept table of records: personal data, asked for."""
    from lethe.cli.tables import print_tables
    from lethe.data.columns import read_columns

    kept = next(iter(sorted(folder.glob("records.*"))), None)
    columns = {} if kept is None else read_columns(kept)
    if "attacker" not in columns:
        print_tables(["Nobody was named."])
        return
    decides = [row for row, cell in enumerate(columns["decides"]) if str(cell) in ("True", "1")]
    names = ("person", "record", "attacker")
    rows = [
        [*(str(columns[name][row]) for name in names), f"{float(columns['score'][row]):.3g}"]
        for row in decides[:_PAIRS]
    ]
    more = [f"and {len(decides) - _PAIRS} more in {kept}"] * (len(decides) > _PAIRS)
    title = "who was named as whom (personal data)"
    print_tables([], ([*names, "score"], rows), after=more, title=title)
