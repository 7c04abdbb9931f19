"""`lethe audit embeddings`: measure vectors that a model gives of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lethe.cli.options import (
    AS_USUAL,
    RunOptions,
    Subject,
    audited,
    content,
    given_in,
    grouped,
    merged,
    options_for,
    settings_of,
    subject_named,
)
from lethe.data.vectors import Cut, Names, read_embeddings, read_head
from lethe.errors import InputError
from lethe.reidentification.audit import audit_released
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.texts import Texts
from lethe.training.engines import choose_cluster
from lethe.training.models import load_callable
from lethe.training.users_code import users_code

_NAMES = {"sigmas": "sigma"}
if TYPE_CHECKING:
    VectorOptions = EmbeddingSettings
else:
    VectorOptions = options_for(
        EmbeddingSettings,
        names=_NAMES,
        leave=(
            *("surface", "pools", "precision", "refine", "repeats", "common", "radius_sigmas"),
            *("alpha", "backend"),
        ),
    )


@grouped
@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """What is done with the vectors.

    Parameters
    ----------
    head
        File with w and b (or W and b), for utility and radii; once for each model, in their
        order.
    layer
        Name of the head's layer, in a checkpoint that has several.
    encoder
        file.py:name or package.module:name of the function that made the vectors of texts: from a
        list of texts to vectors.
    candidates
        File of further texts that may be behind a vector, one a line.
    other
        A second release about the same people: a file as the first, with the same names. Those who
        are known in both (--known-share) show how one lies in the other.
    """

    head: Annotated[list[Path] | None, Parameter(negative=())] = None
    layer: str | None = None
    encoder: str | None = None
    candidates: Path | None = None
    other: Path | None = None


@grouped
@dataclass(frozen=True, kw_only=True)
class NameOptions:
    """What the arrays or columns of the files are called.

    Parameters
    ----------
    vectors
        Array or column of the vectors: an array (rows, dimensions), a column of lists, or what the
        names of its columns begin with, one column a dimension ("emb_" for emb_0, emb_1, ...).
        [representations, or the only one that fits]
    user
        Array or column that names the person of each row. [user_ids]
    label
        Array or column of classes, whole numbers from 0; without it there is no utility. [labels,
        where there are any]
    period
        Array or column of dates, or of names of periods. [period, where there is one]
    from_date
        Date that makes two periods of --period: vectors from before it are known, those from it on
        are to be named. 2024-03-01, 2024-03-01T12:00+01:00 or a year.
    table
        Table of the same rows in the same order that holds user, label and period, for vectors in a
        file of their own: csv, parquet, feather.
    attribute
        Column of what may be inferred of a person, such as sex or age group; may be repeated.
    texts
        Column of the text behind each row, to be found among all of them; needs --encoder.
    """

    vectors: str | None = None
    user: str | None = None
    label: str | None = None
    period: str | None = None
    from_date: Annotated[str | None, Parameter(name="--from")] = None
    table: Path | None = None
    attribute: Annotated[list[str] | None, Parameter(negative=())] = None
    texts: str | None = None


@grouped
@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """Where noise levels are attacked.

    Parameters
    ----------
    engine
        ray, a Ray of this machine's cores, or ray://HOST:PORT: one core a noise level. [processes:
        the threads of this command]
    engine_option
        address=HOST:PORT, or address=auto on a node of a cluster.
    """

    engine: str | None = None
    engine_option: Annotated[list[str] | None, Parameter(negative=())] = None


_PLAIN: dict[str, Any] = dict.fromkeys(
    ("head", "attribute", "texts", "table", "label", "period", "from_date")
)
"""Options of the first file that a second release is read without."""
HEADS, NAMES, VECTORS = HeadOptions(), NameOptions(), VectorOptions()
CLUSTERS = ClusterOptions()


def embeddings(
    *files: Path,
    names: NameOptions = NAMES,
    heads: HeadOptions = HEADS,
    settings: VectorOptions = VECTORS,
    clusters: ClusterOptions = CLUSTERS,
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit vectors: whose is this one, what noise stops that, and what no attacker can do.

    Each file is one model's: representations (rows, dimensions) and user_ids, perhaps labels,
    period and features, or arrays and columns of other names (--vectors, --user, --label,
    --period); npy with --table, npz, safetensors, pt, parquet, feather or csv. Nothing in a file is
    ever unpickled. Several models are compared side by side and must be of the same rows.

    Parameters
    ----------
    files
        One file a model.
    """
    named = subject_named(files, run.config, "audit embeddings")
    files = (Path(named),) if isinstance(named, str) else tuple(map(Path, named))
    options = merged(run.config, {**given_in(names, heads, settings, clusters), "out": run.out})
    chosen = settings_of(EmbeddingSettings, {**options, **_periods(options)}, _NAMES)
    cluster = choose_cluster(options["engine"], chosen.threads, options["engine_option"] or ())
    models = read_models(files, options)
    other = (
        None
        if options["other"] is None
        else read_models([Path(options["other"])], {**options, **_PLAIN})[0]
    )
    arrays = [
        array
        for one in (*models, *([] if other is None else [other]))
        for array in (one.representations, one.user_ids, one.labels, one.features)
        + tuple(one.attributes.values())
    ]
    subject = Subject(
        files[0].stem,
        content(*arrays, seed=chosen.seed),
        lambda folder, progress: audit_released(
            models, chosen, progress.say, folder, cluster, other
        ),
        tuple(note for model in models for note in model.notes),
    )
    command = {"command": "audit embeddings", "file": list(files), **options}
    return audited(subject, command, run)


def _periods(options: Mapping[str, Any]) -> dict[str, str]:
    """Which periods are known and which are to be named, where a date makes them."""
    if options["from_date"] is None:
        return {}
    if options["known"] is not None or options["later"] is not None:
        raise InputError(
            f"from={options['from_date']!s} names both periods; leave out --known and --later, or "
            "leave out --from."
        )
    cut = Cut(str(options["from_date"]))
    return {"known": cut.before, "later": cut.later}


def _names(options: Mapping[str, Any]) -> Names:
    """What the arrays are called; a file of options may hold anything."""
    for name in ("vectors", "user", "label", "period", "texts"):
        if not isinstance(options[name], str | None):
            raise InputError(
                f"{name}={options[name]!r} must be text, the name of an array or column."
            )
    date, table = options["from_date"], options["table"]
    return Names(
        options["vectors"],
        options["user"],
        options["label"],
        options["period"],
        None if date is None else Cut(str(date)),
        None if table is None else Path(table),
        tuple(
            [options["attribute"]]
            if isinstance(options["attribute"], str)
            else options["attribute"] or ()
        ),
        options["texts"],
    )


def read_models(files: Sequence[Path], options: Mapping[str, Any]) -> list[Released]:
    """One model a file, with its head.

    Args:
        files: see `read_embeddings`.
        options: of the command: `head` and `layer`, and those of `NameOptions`.

    Raises:
        InputError: a file is not readable or does not fit, or as many heads as files are not there.
    """
    given = options["head"] or []
    heads = [Path(one) for one in (given if isinstance(given, list) else [given])]
    if heads and len(heads) != len(files):
        raise InputError(
            f"files={len(files)} and heads={len(heads)}: give --head once for each "
            "file, in their order, or not at all."
        )
    names, models = _names(options), []
    for at, path in enumerate(files):
        read = read_embeddings(path, names)
        head = None
        if heads:
            found = read_head(heads[at], read.representations.shape[1], options["layer"])
            head = (found.weights, found.bias)
        models.append(
            Released(
                read.name,
                read.representations,
                read.user_ids,
                read.labels,
                head,
                read.period,
                read.features,
                read.notes,
                read.attributes,
                _texts(read.texts, options),
            )
        )
    return models


def _texts(of_rows: Any, options: Mapping[str, Any]) -> Texts | None:
    """The texts behind the rows, with the function that encodes them."""
    if of_rows is None:
        return None
    if options["encoder"] is None:
        raise InputError(
            f"texts={options['texts']!r} needs the function that made the vectors of texts: "
            "--encoder file.py:name."
        )
    encode = load_callable(options["encoder"])
    more: list[str] = []
    if options["candidates"] is not None:
        try:
            text = Path(options["candidates"]).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"candidates={options['candidates']}: {error}.") from error
        more = [line for line in text.splitlines() if line.strip()]

    def encoded(texts: Sequence[str]) -> Any:
        with users_code("encoder"):
            return encode(list(texts))

    return Texts(of_rows.tolist(), encoded, more)
