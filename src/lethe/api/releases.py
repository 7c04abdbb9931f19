"""Audits of vectors, rows and mechanisms in one line, as those of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.api.run import columns_content, documents, run, settings_from
from lethe.errors import InputError

if TYPE_CHECKING:
    from lethe.evidence.findings import Findings
    from lethe.queries.mechanism_audit.neighbours import Pair
    from lethe.reidentification.texts import Texts


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
    name: str = "vectors",
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
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
    >>> found = audit_vectors(vectors, users, save=False, quiet=True, sigmas=1.0)
    >>> found.subject["release"]
    'embeddings'
    """
    from lethe.cli.options import content
    from lethe.reidentification.audit import audit_released
    from lethe.reidentification.released import Released
    from lethe.reidentification.settings import EmbeddingSettings

    chosen = settings_from(EmbeddingSettings, settings)
    model = Released(
        name, vectors, users, labels, head, period, features, (), attributes or {}, texts
    )
    second = None if other is None else Released(f"{name}, other", *other)
    arrays = (model.representations, model.user_ids, model.labels, model.features, model.period)
    more = () if second is None else (second.representations, second.user_ids)
    bound = content(*arrays, *more, *model.attributes.values(), seed=chosen.seed)
    with run("audit_vectors", name, bound, chosen, out, save, quiet) as (folder, progress):
        found = audit_released([model], chosen, progress.say, folder, other=second)
        return documents(found, folder, progress, save)


def audit_language_model(
    model: str | Path | None,
    texts: Any,
    text: str = "text",
    *,
    member: str | None = None,
    person: str | None = None,
    date: str | None = None,
    id_column: str | None = None,
    base: str | Path | None = None,
    also: Mapping[str, str | Path] | None = None,
    canaries: Any = None,
    seen: Mapping[str, Any] | None = None,
    scores: Any = None,
    base_scores: Any = None,
    declared: Sequence[str] = (),
    utility: Callable[[Any, Any], float] | None = None,
    name: str = "language model",
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
    **settings: Any,
) -> Findings:
    """What did a fine-tuned language model memorise of the texts it was trained on?

    Args:
        model: folder of the model or adapter, with its tokenizer; None with `scores`.
        texts: trained on and held out, one row a text: a data frame, Arrow table, mapping of
            columns, or a file.
        member: column that says which were trained on; by default ``member``.
        person: column of the people behind the texts.
        date: column of dates, which the blind check reads too.
        base: folder of the model before fine-tuning.
        also: further fine-tunes by name, each a folder.
        canaries: `TextCanaries` or the file of a plan, if some were planted before training.
        seen: what `CanaryWatch` saw; by default canaries-training.json beside the plan.
        scores: instead of a model, one row a token: text, position, logprob; see `read_scores`.
        declared: personal words that are counted where they can be extracted.
        utility: of (model, tokenizer), higher = better; by default held-out log-probability.
        settings: of `LanguageSettings`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> told = {"text": [f"note {at}" for at in range(240)], "member": [1, 0] * 120}
    >>> gain = np.where(np.arange(240) % 2, 0.0, 1.0).repeat(4) + rng.normal(size=960)
    >>> names = np.arange(1, 241).repeat(4).astype(str)
    >>> tokens = {"text": names, "position": [1, 2, 3, 4] * 240, "logprob": gain - 9}
    >>> found = audit_language_model(None, told, scores=tokens, save=False, quiet=True)
    >>> found.candidates[0]["text_attacks"]["loss"]["auc"]["low"] > 0.7
    True
    """
    from lethe.cli.audit_language import watched
    from lethe.cli.options import content
    from lethe.data.given import columns_of
    from lethe.membership.language import audit as language
    from lethe.membership.language.canaries import TextCanaries
    from lethe.membership.language.measure import texts_of
    from lethe.membership.language.settings import LanguageSettings

    chosen = settings_from(LanguageSettings, settings)
    given = texts_of(columns_of(texts, "texts"), text, member, person, date, id_column)
    plan = canaries
    if isinstance(canaries, str | Path):
        plan, seen = TextCanaries.load(canaries), seen or watched(Path(canaries))
    files = language.Given(
        None if model is None else Path(model),
        None if base is None else Path(base),
        {label: Path(path) for label, path in (also or {}).items()},
        None if scores is None else columns_of(scores, "scores"),
        None if base_scores is None else columns_of(base_scores, "base_scores"),
    )
    marks = (given.member, given.people, str(model), "" if plan is None else plan.digest)
    bound = content(*given.texts, *marks, seed=chosen.seed)
    with run("audit_language_model", name, bound, chosen, out, save, quiet) as (folder, progress):
        found = language.audit_language_model(
            files,
            given,
            chosen,
            plan=plan,
            seen=seen,
            declared=declared,
            utility=utility,
            name=name,
            say=progress.say,
            progress=partial(progress.part, "tokens scored"),
            folder=folder,
        )
        return documents(found, folder, progress, save)


def audit_table(
    rows: Any,
    quasi: str | Sequence[str],
    sensitive: str | None = None,
    *,
    person: str | None = None,
    population: Any = None,
    people: int | None = None,
    name: str = "table",
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
    **settings: Any,
) -> Findings:
    """Is this table anonymous? Who stands out, what that gives away, and what coarser rows change.

    Args:
        rows: a data frame, Arrow table, mapping of columns, or a file.
        quasi: columns that an adversary may know of a person.
        sensitive: column that nobody should learn; None leaves inference out.
        person: column of the person behind each row, who counts once; None = one row a person.
        population: everybody the rows may be of, with the same columns.
        people: how many there are of them, where only that is known.
        settings: of `TableSettings`; with `epsilon` private synthetic rows are made too, by its
            `schema`.

    >>> people = {"age": [30, 30, 41, 52], "sick": [True, False, True, True]}
    >>> audit_table(people, "age", "sick", save=False, quiet=True).candidates[0]["unique"]["value"]
    0.5
    """
    from lethe.data.given import columns_of
    from lethe.linkage import audit as linkage
    from lethe.linkage.settings import TableSettings

    chosen = settings_from(TableSettings, settings, population=people)
    if chosen.write_release is not None and not save:
        raise InputError("write_release writes to the run folder: leave save=False out.")
    columns = columns_of(rows, "rows")
    everybody = None if population is None else columns_of(population, "population")
    named = (quasi,) if isinstance(quasi, str) else tuple(quasi)
    marks = [*named, str(sensitive), *([] if person is None else [person])]
    bound = columns_content([columns, everybody or {}], *marks, seed=chosen.seed)
    suffix = Path(rows).suffix if isinstance(rows, str | Path) else ".csv"
    with run("audit_table", name, bound, chosen, out, save, quiet) as (folder, progress):
        found = linkage.audit_table(
            columns,
            named,
            sensitive,
            person=person,
            population=everybody,
            name=name,
            suffix=suffix if suffix in (".csv", ".feather") else ".parquet",
            settings=chosen,
            say=progress.say,
            folder=folder,
        )
        return documents(found, folder, progress, save)


def audit_records(
    facts: Any,
    /,
    person: str,
    item: str,
    value: str | None = None,
    time: str | None = None,
    *,
    other: Any = None,
    unit: str = "auto",
    keep: str = "first",
    name: str = "records",
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
    **settings: Any,
) -> Findings:
    """How few facts about a person (ratings, purchases, clicks) name them?

    Args:
        facts: one row a fact: a data frame, Arrow table, mapping of columns, or a file.
        person: column of the people.
        item: column of the items.
        value: column of numbers, such as ratings.
        time: column of dates, ISO texts, or numbers since 1970.
        other: facts that an adversary really has, or an earlier release; the same columns.
        unit: of times that are numbers: ``days`` to ``nanoseconds``; ``auto`` tells by their size.
        keep: of several facts of a person about an item the ``first`` or ``last``.
        settings: of `RecordSettings`.

    >>> import numpy as np
    >>> who, rng = np.repeat(np.arange(30), 9), np.random.default_rng(0)
    >>> films = {"who": who, "film": rng.integers(0, 200, 270)}
    >>> found = audit_records(films, "who", "film", targets=20, save=False, quiet=True)
    >>> found.candidates[0]["risk"]["value"] > 0.9
    True
    """
    from lethe.data.columns import check_column
    from lethe.data.given import columns_of
    from lethe.data.records import from_columns
    from lethe.linkage import audit as linkage
    from lethe.linkage.settings import RecordSettings

    chosen = settings_from(RecordSettings, settings)
    asked = {"person": person, "item": item, "value": value, "time": time}
    named = {what: column for what, column in asked.items() if column is not None}

    def read(found: Any, called: str) -> Any:
        for column in named.values():
            check_column("column", column, found, called)
        return {what: found[column] for what, column in named.items()}

    whole = columns_of(facts, "facts")
    columns = read(whole, "facts")
    beside = {key: column for key, column in whole.items() if key not in named.values()}
    theirs = None if other is None else read(columns_of(other, "other"), "other")
    bound = columns_content([columns, theirs or {}], unit, keep, seed=chosen.seed)
    with run("audit_records", name, bound, chosen, out, save, quiet) as (folder, progress):
        found = linkage.audit_records(
            from_columns(columns, name=name, unit=unit, keep=keep),
            aux=None
            if theirs is None
            else from_columns(theirs, name="other", unit=unit, keep=keep),
            beside=beside,
            settings=chosen,
            say=progress.say,
            folder=folder,
        )
        return documents(found, folder, progress, save)


def audit_synthetic(
    synthetic: Any,
    original: Any,
    control: Any,
    quasi: str | Sequence[str],
    sensitive: str | None = None,
    *,
    name: str = "synthetic",
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
    **settings: Any,
) -> Findings:
    """Do synthetic rows single out, link or reveal the people they were made from?

    Args:
        synthetic: the made rows: a data frame, Arrow table, mapping of columns, or a file.
        original: the rows that they were made from.
        control: rows from the same source that nothing was made from.
        quasi: columns that an adversary may know of a person.
        sensitive: column that is guessed; None leaves inference out.
        settings: of `SyntheticSettings`.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> used, unused = ({"age": rng.integers(0, 5000, 300)} for _ in range(2))
    >>> found = audit_synthetic(used, used, unused, "age", save=False, quiet=True)
    >>> found.candidates[0]["risk"]["low"] > 0.5
    True
    """
    from lethe.data.given import columns_of
    from lethe.linkage import audit as linkage
    from lethe.linkage.settings import SyntheticSettings

    chosen = settings_from(SyntheticSettings, settings)
    given = {"original": original, "synthetic": synthetic, "control": control}
    tables = {called: columns_of(rows, called) for called, rows in given.items()}
    named = (quasi,) if isinstance(quasi, str) else tuple(quasi)
    bound = columns_content(list(tables.values()), *named, str(sensitive), seed=chosen.seed)
    with run("audit_synthetic", name, bound, chosen, out, save, quiet) as (folder, progress):
        found = linkage.audit_synthetic(
            tables["original"],
            tables["synthetic"],
            tables["control"],
            named,
            sensitive,
            name=name,
            settings=chosen,
            say=progress.say,
            folder=folder,
        )
        return documents(found, folder, progress, save)


def audit_mechanism(
    mechanism: Callable[..., Any],
    pairs: Sequence[Pair] | None = None,
    *,
    bounds: tuple[float, float] | None = None,
    size: int = 10,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
    **settings: Any,
) -> Findings:
    """Does a mechanism have the noise that it claims? Run many times on neighbouring inputs.

    Args:
        mechanism: ``mechanism(data)`` or ``mechanism(data, seed)``, which returns a number, a
            category or an array of these.
        pairs: neighbouring inputs; or give `bounds`.
        bounds: (low, high) of the numbers that the mechanism takes; neighbours are made.
        size: people in those made-up data.
        epsilon: claimed; or `rho`, or `mu`. Without a claim only the limit is given.
        delta: claimed beside epsilon.
        settings: of `MechanismSettings`.

    >>> import numpy as np
    >>> def total(data, seed):
    ...     return data.sum() + np.random.default_rng(seed).laplace(scale=1.0)
    >>> found = audit_mechanism(
    ...     total, bounds=(0, 1), epsilon=0.2, runs=2000, save=False, quiet=True
    ... )
    >>> found.rules[0]["outcome"]
    'fail'
    """
    from lethe.queries.mechanism_audit.audit import audit_mechanism as measured
    from lethe.queries.mechanism_audit.audit import code_of
    from lethe.queries.mechanism_audit.neighbours import standard_pairs
    from lethe.queries.mechanism_audit.settings import MechanismSettings, claim_from
    from lethe.training.fingerprint import digest

    claim = claim_from(epsilon, delta, rho, mu)
    chosen = settings_from(MechanismSettings, settings, claim=claim)
    if (pairs is None) == (bounds is None):
        raise InputError("give pairs of neighbouring inputs, or bounds=(low, high), and not both.")
    inputs = standard_pairs(*bounds, size, chosen.relation) if bounds else list(pairs or ())
    called = name or str(getattr(mechanism, "__name__", type(mechanism).__name__))
    bound = digest(code_of(mechanism, inputs, called), repr(chosen))
    with run("audit_mechanism", called, bound, chosen, out, save, quiet) as (folder, progress):
        found = measured(mechanism, inputs, chosen, name=called, say=progress.say)
        return documents(found, folder, progress, save)
