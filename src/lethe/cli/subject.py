"""Records and recipe of `lethe audit model`, `text`, `plan` and `shadow`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lethe.data.dataset import Dataset
    from lethe.membership.settings import AuditSettings
    from lethe.training.chunks import ChunkJob
    from lethe.training.folder import SettledRun
    from lethe.training.recipe import Recipe


def _load_texts(
    target: str,
    options: Mapping[str, Any],
    settings: AuditSettings,
    say: Callable[[str], None] | None,
) -> tuple[Dataset, Recipe]:
    """Read the texts of an autocoder, turn them into vectors once, and build the recipe."""
    from lethe.data.text import CACHE, encode, find_encoder, load_narratives
    from lethe.errors import InputError
    from lethe.training.models import load_recipe
    from lethe.training.text_recipe import EPOCHS, fine_tune_recipe, head_recipe

    if options["task"] not in (None, "classification"):
        raise InputError(
            f"task={options['task']!r} does not fit: an autocoder predicts classes. Leave it out."
        )
    if options["recipe"] and options["fine_tune"]:
        raise InputError("recipe and fine_tune exclude each other: leave one of them out.")
    # Before the file is read: a folder that is not there is refused at once.
    encoder = find_encoder(options["model"])
    smallest = options["min_class_size"]
    narratives = load_narratives(
        target,
        options["text"],
        options["label"],
        missing=options["missing"] or "refuse",
        min_class_size=1 if smallest is None else smallest,
        **_reading(options, settings),
    )
    vectors = encode(encoder, narratives.texts, Path(options["embeddings"] or CACHE), say)
    data = narratives.dataset(vectors, encoder.name)
    if options["recipe"]:
        return data, load_recipe(options["recipe"], data)
    if not options["fine_tune"]:
        return data, head_recipe(len(data), vectors.shape[1], len(data.classes))
    return data, fine_tune_recipe(
        encoder.folder,
        encoder.tokens_of(narratives.texts),
        narratives.labels,
        len(narratives.classes),
        encoder.content,
        EPOCHS if options["epochs"] is None else options["epochs"],
    )


def load_subject(
    target: str,
    options: Mapping[str, Any],
    settings: AuditSettings,
    say: Callable[[str], None] | None = None,
) -> tuple[Dataset, Recipe]:
    """Load the data and build the recipe that the options of `lethe audit model` or `text` name.

    Args:
        target: built-in data or a file.
        options: all options of the command; None where not given.
        settings: of the audit.
        say: progress, where reading takes minutes.
    """
    if options.get("command") == "audit text":
        return _load_texts(target, options, settings, say)
    from dataclasses import replace

    from lethe.data.columns import missing
    from lethe.data.tables import identifiers_of, load
    from lethe.training.models import default_recipe, load_recipe
    from lethe.training.recipe import SklearnRecipe

    def read(gaps: str, identifiers: str) -> Dataset:
        return load(
            target,
            options["label"],
            missing=options["missing"] or gaps,
            task=options["task"],
            identifiers=identifiers,
            **_reading(options, settings),
        )

    if options["recipe"]:
        data = read("impute", "leave-out")
        recipe = load_recipe(options["recipe"], data)
        if data.table is not None and isinstance(recipe, SklearnRecipe) and recipe.by_names():
            return _of_own_columns(data, options["group"]), replace(
                recipe, frame=frame_of(data.table)
            )
        # Its gaps and texts are its own; any other model gets numbers, and both are refused.
        table = data.table or {}
        odd = any(missing(column).any() for column in table.values()) or identifiers_of(table)
        return (read("refuse", "refuse") if odd else data), recipe
    data = read("refuse", "refuse")
    return data, default_recipe(len(data), int(data.features[0].size), len(data.classes))


def _reading(options: Mapping[str, Any], settings: AuditSettings) -> dict[str, Any]:
    """Collect the keywords of `lethe.load` from the options."""
    from lethe.data.schema import Schema
    from lethe.membership.audit import public_of

    path = options["schema"]
    schema = None if path is None else Schema.load(path)
    return {
        **{name: options[name] for name in ("id_column", "rows", "group", "holdout_by")},
        **{name: options[name] or () for name in ("drop", "slices")},
        "seed": settings.seed,
        "schema": schema,
        "public": public_of(settings, always=schema is not None),
    }


def _of_own_columns(data: Dataset, group: str | None) -> Dataset:
    """Drop notes on our encoding, for a model that reads the file's columns itself."""
    from dataclasses import replace

    from lethe.data.dataset import IDENTICAL, by_content, copies_note

    encoding = copies_note(data.features, data.labels, data.groups)
    ours = ("Column ", "Exact copies ")
    notes = [note for note in data.notes if not note.startswith(ours) and note != encoding]
    dataset = replace(data, notes=tuple(notes), own_columns=True)
    return by_content(replace(dataset, groups=None)) if group == IDENTICAL else dataset


def frame_of(table: Mapping[str, Any]) -> Any:
    """Columns of a file as a data frame; empty text is missing, as pandas reads it."""
    from lethe.data.columns import is_text
    from lethe.errors import require

    pandas = require("pandas", "pandas")
    gapped = {
        name: [text or None for text in column] if is_text(column) else column
        for name, column in table.items()
    }
    return pandas.DataFrame(gapped)


Options = defaultdict[str, Any]
"""Options of a command by name; None where not given."""


# A run that a command began, for `lethe shadow` and `forgotten`, wherever its data are now.


def settled_run(run: Path) -> tuple[SettledRun, Options]:
    """A run folder as it was begun, and the options of its audit; None where not given.

    Raises:
        InputError: no such run, or it was begun from Python.
    """
    from lethe.errors import InputError
    from lethe.runs.settings import read_toml
    from lethe.training.folder import SettledRun

    settled = SettledRun(run)
    asked = read_toml(run / "audit.toml") if (run / "audit.toml").is_file() else {}
    if not asked or str(asked.get("command")).startswith("lethe."):
        raise InputError(
            f"{run} holds no audit.toml of a command: its audit was begun from Python, which alone "
            "knows data and recipe. Ask from Python: lethe.membership.forgotten.judge_people, "
            "lethe.membership.by_hand.chunks_of and lethe.training.chunks.train_chunk."
        )
    return settled, defaultdict(lambda: None, asked)


@contextmanager
def elsewhere() -> Iterator[None]:
    """Say what to do where a file of the audit is not found any more."""
    from lethe.errors import InputError

    try:
        yield
    except InputError as error:
        raise InputError(
            f"{error} (audit.toml names files as they were seen from the folder where the audit "
            "was begun; start there, or use --data and --recipe.)"
        ) from error


def chunks_in(
    settled: SettledRun,
    asked: Options,
    candidate: str,
    data: str | None,
    recipe: str | None,
) -> tuple[Dataset, list[ChunkJob]]:
    """The records of a run, and the chunks of models that its audit asks for.

    Args:
        settled: see `settled_run`.
        asked: the options of its audit.
        candidate: whose chunks.
        data: place of the data now; None where audit.toml says it.
        recipe: the same of the recipe.

    Raises:
        InputError: data or recipe are elsewhere, or others.
    """
    from lethe.membership.by_hand import chunks_of
    from lethe.membership.settings import AuditSettings
    from lethe.runs.settings import settings_of

    with elsewhere():
        settings = settings_of(AuditSettings, asked)
        asked["recipe"] = recipe or asked["recipe"]
        target = data or str(asked["target"] or asked["file"])
        loaded, built = load_subject(target, asked, settings)
    return loaded, chunks_of(settled, loaded, built, settings, candidate)
