"""What `lethe audit model`, `lethe plan` and `lethe shadow` are about: the data and the recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from lethe.data.dataset import Dataset
    from lethe.membership.settings import AuditSettings
    from lethe.training.recipe import Recipe


class Subject(NamedTuple):
    """What is audited, and the run folder that is its own.

    Attributes:
        data: the records.
        recipe: how one model is trained.
        name: content hash of the baseline, which a run folder is bound to.
        folder: as asked, or after the data and the hash.
    """

    data: Dataset
    recipe: Recipe
    name: str
    folder: Path


def find_subject(
    target: str,
    options: Mapping[str, Any],
    settings: AuditSettings,
    say: Callable[[str], None] | None = None,
) -> Subject:
    """Load what the options name, and check that the recipe can carry what is asked.

    Raises:
        InputError: data, recipe or mitigations cannot be had as asked.
    """
    from lethe.cli.options import run_folder
    from lethe.membership.audit import baseline_spec
    from lethe.membership.candidates import build_candidates

    data, recipe = load_subject(target, options, settings.seed, say)
    build_candidates(settings, recipe)
    name = baseline_spec(data, recipe, settings).hash()
    return Subject(data, recipe, name, run_folder(options["out"], data.name, name))


def load_subject(
    target: str,
    options: Mapping[str, Any],
    seed: int,
    say: Callable[[str], None] | None = None,
) -> tuple[Dataset, Recipe]:
    """Load the data and build the recipe that the options of `lethe audit model` or `text` name.

    Args:
        target: built-in data or a file.
        options: all options of the command; None where not given.
        seed: of the audit.
        say: progress, where reading takes minutes.
    """
    if "text" in options:  # a key that `lethe audit text` alone has
        from lethe.cli.text_subject import load_text_subject

        return load_text_subject(target, options, seed, say)
    from dataclasses import replace

    from lethe.data.columns import missing
    from lethe.data.tables import identifiers_of, load
    from lethe.training.models import default_recipe, load_recipe
    from lethe.training.recipe import SklearnRecipe

    def read(gaps: str, identifiers: str) -> Dataset:
        return load(
            target,
            options["label"],
            id_column=options["id_column"],
            drop=options["drop"] or (),
            rows=options["rows"],
            seed=seed,
            missing=options["missing"] or gaps,
            task=options["task"],
            group=options["group"],
            slices=options["slices"] or (),
            holdout_by=options["holdout_by"],
            identifiers=identifiers,
        )

    if options["recipe"]:
        data = read("impute", "leave-out")
        recipe = load_recipe(options["recipe"], data)
        if data.table is not None and isinstance(recipe, SklearnRecipe) and recipe.by_names():
            return _of_own_columns(data, options["group"]), replace(
                recipe, frame=_frame(data.table)
            )
        # Its gaps and texts are its own; any other model gets numbers, and both are refused.
        table = data.table or {}
        odd = any(missing(column).any() for column in table.values()) or identifiers_of(table)
        return (read("refuse", "refuse") if odd else data), recipe
    data = read("refuse", "refuse")
    return data, default_recipe(len(data), int(data.features[0].size), len(data.classes))


def _of_own_columns(data: Dataset, group: str | None) -> Dataset:
    """For a model that reads the file's columns: nothing is said of our encoding of them."""
    from dataclasses import replace

    from lethe.data.dataset import IDENTICAL, by_content, copies_note

    encoding = copies_note(data.features, data.labels, data.groups)
    ours = ("Column ", "Exact copies ")
    said = [note for note in data.notes if not note.startswith(ours) and note != encoding]
    own = replace(data, notes=tuple(said), own_columns=True)
    return by_content(replace(own, groups=None)) if group == IDENTICAL else own


def _frame(table: Mapping[str, Any]) -> Any:
    """Columns of a file as a data frame; empty text is missing, as pandas reads it."""
    from lethe.data.columns import is_text
    from lethe.errors import require

    pandas = require("pandas", "pandas")
    gapped = {
        name: [text or None for text in column] if is_text(column) else column
        for name, column in table.items()
    }
    return pandas.DataFrame(gapped)
