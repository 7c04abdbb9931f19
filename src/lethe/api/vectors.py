"""Audits of vectors of people, from memory or from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError
from lethe.reidentification.settings import EmbeddingSettings
from lethe.runs.run import content, perform
from lethe.runs.settings import Run, audit_of, keywords_of

if TYPE_CHECKING:
    from lethe.data.vectors import Names
    from lethe.evidence.findings import Findings
    from lethe.reidentification.released import Released
    from lethe.reidentification.texts import Texts


@audit_of(EmbeddingSettings)
def audit_vectors(
    vectors: Any,
    users: Any,
    labels: Any = None,
    *,
    head: Any = None,
    features: Any = None,
    period: Any = None,
    attributes: Mapping[str, Any] | None = None,
    other: tuple[Any, Any] | None = None,
    texts: Texts | None = None,
    **settings: Any,
) -> Findings:
    """Attack released vectors: whose is this one, what noise stops that, what nobody can do.

    Args:
        vectors: (rows, dimensions) numbers, of any type and device.
        users: (rows,) the person of each row.
        labels: (rows,) classes, for utility.
        head: (w, b), (W, b), a torch module or a function from (rows, dimensions) to logits.
        features: (rows, p) what goes into the model: do people stand out there already?
        period: (rows,) period of each row, for the settings `known` and `later`.
        attributes: by name (rows,) values of what may be inferred of a person.
        other: vectors and users of a second release about the same people, to be linked.
        texts: the text behind each row, and their encoder.
        settings: of `EmbeddingSettings`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> users = np.arange(10).repeat(6)
    >>> vectors = rng.normal(size=(10, 4))[users] + rng.normal(size=(60, 4)) / 9
    >>> found = audit_vectors(vectors, users, save=False, quiet=True, sigmas=1.0, draws=2)
    >>> found.subject["release"]
    'embeddings'
    """
    from lethe.data.given import check_order
    from lethe.reidentification.released import Released

    how, asked = keywords_of(EmbeddingSettings, settings)
    name, known = how.name or "vectors", dict(attributes or {})
    check_order(
        **{"vectors": vectors, "users": users, "labels": labels},
        **{"period": period, "features": features},
        **{f"attributes[{key!r}]": values for key, values in known.items()},
    )
    model = Released(name, vectors, users, labels, head, period, features, (), known, texts)
    second = None if other is None else Released(f"{name}, other", *other)
    return _audited("audit_vectors", how, name, [model], second, asked)


@audit_of(EmbeddingSettings)
def audit_vector_files(
    files: str | Path | Sequence[str | Path],
    /,
    *,
    array: str | None = None,
    user: str | None = None,
    label: str | None = None,
    period: str | None = None,
    from_date: str | None = None,
    table: Any = None,
    attribute: str | Sequence[str] = (),
    texts: str | None = None,
    head: Sequence[Path] = (),
    layer: str | None = None,
    encoder: str | None = None,
    candidates: Any = None,
    other: Any = None,
    engine: str | None = None,
    engine_option: Sequence[str] = (),
    **settings: Any,
) -> Findings:
    """Attack the vectors of files, one a model of the same rows, as `audit_vectors` does.

    Args:
        files: representations (rows, dimensions) and user_ids, perhaps labels, period and features,
            or arrays and columns of other names; npy with a table, npz, safetensors, pt, parquet,
            feather or csv. Nothing in a file is ever unpickled.
        array: array or column of the vectors: an array (rows, dimensions), a column of lists, or
            what the names of its columns begin with, one column a dimension ("emb_" for emb_0,
            emb_1, ...). [representations, or the only one that fits]
        user: array or column that names the person of each row. [user_ids]
        label: array or column of classes, whole numbers from 0; without it there is no utility.
            [labels, where there are any]
        period: array or column of dates, or of names of periods. [period, where there is one]
        from_date: date that makes two periods of --period: vectors from before it are known, those
            from it on are to be named. 2024-03-01, 2024-03-01T12:00+01:00 or a year.
        table: table of the same rows in the same order that holds user, label and period, for
            vectors in a file of their own: csv, parquet, feather.
        attribute: column of what may be inferred of a person, such as sex or age group; may be
            repeated.
        texts: column of the text behind each row, to be found among all of them; needs --encoder.
        head: file with w and b (or W and b), for utility and radii; once for each model, in their
            order.
        layer: name of the head's layer, in a checkpoint that has several.
        encoder: file.py:name or package.module:name of the function that made the vectors of texts:
            from a list of texts to vectors.
        candidates: file of further texts that may be behind a vector, one a line.
        other: a second release about the same people: a file as the first, with the same names.
            Those who are known in both (--known-share) show how one lies in the other.
        engine: ray://HOST:PORT, or ray, a Ray of this machine's cores: one core a noise level.
            [processes: the threads of this command]
        engine_option: address=HOST:PORT, or address=auto on a node of a cluster.
        settings: of `EmbeddingSettings`.
    """
    from lethe.data.vectors import Cut, Names
    from lethe.training.engines import choose_cluster

    listed = [files] if isinstance(files, str | Path) else list(files)
    heads = [head] if isinstance(head, str | Path) else list(head)
    if heads and len(heads) != len(listed):
        raise InputError(
            f"files={len(listed)} and heads={len(heads)}: give --head once for each "
            "file, in their order, or not at all."
        )
    cut = None
    if from_date is not None:
        if "known" in settings or "later" in settings:
            raise InputError(
                f"from={from_date!s} names both periods; leave out --known and --later, or leave "
                "out --from."
            )
        cut = Cut(str(from_date))
        settings |= {"known": cut.before, "later": cut.later}
    called = {"vectors": array, "user": user, "label": label, "period": period, "texts": texts}
    for option, value in called.items():
        if not isinstance(value, str | None):  # a file of options may hold anything
            way = f" Vectors known to be of one person are joined={value}."
            raise InputError(
                f"{option}={value!r} must be text, the name of an array or column."
                f"{way if option == 'vectors' else ''}"
            )
    how, asked = keywords_of(EmbeddingSettings, settings)
    cluster = choose_cluster(engine, asked.threads, engine_option)
    attributes = (attribute,) if isinstance(attribute, str) else tuple(attribute)
    beside = None if table is None else Path(table)
    names = Names(array, user, label, period, cut, beside, attributes, texts)
    encode = _encoder(texts, encoder, candidates)
    models = [
        _read(Path(file), names, encode, place, layer)
        for file, place in zip(listed, heads or [None] * len(listed), strict=True)
    ]
    second = None if other is None else _read(Path(other), Names(array, user), encode)
    title = how.name or Path(listed[0]).stem
    return _audited("audit_vector_files", how, title, models, second, asked, cluster)


def _audited(
    command: str,
    how: Run,
    title: str,
    models: Sequence[Released],
    other: Released | None,
    asked: EmbeddingSettings,
    cluster: Any = None,
) -> Findings:
    from lethe.reidentification.audit import audit_released

    arrays = [
        array
        for model in (*models, *([] if other is None else [other]))
        for array in (model.representations, model.user_ids, model.labels, model.features)
        + (model.period, *model.attributes.values())
    ]
    return perform(
        command,
        how,
        title,
        content(*arrays, seed=asked.seed),
        asked,
        lambda run, progress: audit_released(models, asked, progress.say, run, cluster, other),
        notes=tuple(note for model in models for note in model.notes),
    )


def _read(
    file: Path,
    names: Names,
    encode: Callable[[Any], Texts | None],
    head: str | Path | None = None,
    layer: str | None = None,
) -> Released:
    """One model's vectors, with its head."""
    from lethe.data.vectors import read_embeddings, read_head
    from lethe.reidentification.released import Released

    read, weights = read_embeddings(file, names), None
    if head is not None:
        layers = read_head(Path(head), read.representations.shape[1], layer)
        weights = (layers.weights, layers.bias)
    return Released(
        read.name,
        read.representations,
        read.user_ids,
        read.labels,
        weights,
        read.period,
        read.features,
        read.notes,
        read.attributes,
        encode(read.texts),
    )


def _encoder(
    column: str | None, encoder: str | None, candidates: Any
) -> Callable[[Any], Texts | None]:
    """Return a function from the texts behind the rows to `Texts`, which hold the encoder."""
    from lethe.reidentification.texts import Texts
    from lethe.training.models import load_callable
    from lethe.training.users_code import users_code

    def texts_of(rows: Any) -> Texts | None:
        if rows is None:
            return None
        if encoder is None:
            raise InputError(
                f"texts={column!r} needs the function that made the vectors of texts: "
                "--encoder file.py:name."
            )
        encode = load_callable(encoder)

        def encoded(texts: Sequence[str]) -> Any:
            with users_code("encoder"):
                return encode(list(texts))

        more = [] if candidates is None else read_lines("candidates", candidates)
        return Texts(rows.tolist(), encoded, more)

    return texts_of


def read_lines(option: str, path: str | Path) -> list[str]:
    """Lines of a file that are not empty.

    Raises InputError: it cannot be read.
    """
    try:
        listed = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{option}={path} cannot be read: {error}.") from error
    return [line.strip() for line in listed if line.strip()]
