"""What `lethe audit model` and `lethe shadow` are about: the data and the recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lethe.loaders import Dataset
    from lethe.training.recipe import Recipe


def load_subject(target: str, options: Mapping[str, Any], seed: int) -> tuple[Dataset, Recipe]:
    """Load the data and build the recipe that the options of `lethe audit model` name.

    Args:
        target: built-in data or a file.
        options: all options of the command; None where not given.
        seed: of the audit.
    """
    from lethe.loaders import load
    from lethe.training.models import default_recipe, load_recipe

    data = load(
        target,
        options["label"],
        id_column=options["id_column"],
        drop=options["drop"] or (),
        rows=options["rows"],
        seed=seed,
        missing=options["missing"] or "refuse",
        task=options["task"],
        group=options["group"],
    )
    if options["recipe"]:
        return data, load_recipe(options["recipe"], data)
    return data, default_recipe(len(data), int(data.features[0].size), len(data.classes))
