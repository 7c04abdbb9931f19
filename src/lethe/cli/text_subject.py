"""What `lethe audit text` is about: texts, their encoder, and how one autocoder is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lethe.data.dataset import Dataset
    from lethe.data.text import Narratives
    from lethe.training.recipe import Recipe

CACHE = Path("lethe-runs") / "encoded"


def load_text_subject(
    target: str,
    options: Mapping[str, Any],
    seed: int,
    say: Callable[[str], None] | None = None,
) -> tuple[Dataset, Recipe]:
    """Read the texts, turn them into vectors (once; they are kept), and build the recipe.

    Args:
        target: csv or parquet file.
        options: all options of the command; None where not given.
        seed: of the audit.
        say: progress.

    Raises:
        InputError: a column, a text or the encoder is not there, or an option does not fit.
    """
    from lethe.data.text import encode, find_encoder, load_narratives
    from lethe.errors import InputError
    from lethe.training.models import load_recipe
    from lethe.training.text_recipe import head_recipe

    if options["task"] not in (None, "classification"):
        raise InputError(
            f"task={options['task']!r} does not fit: an autocoder predicts classes. Leave it out."
        )
    if options["recipe"] and options["fine_tune"]:
        raise InputError("recipe and fine_tune exclude each other: leave one of them out.")
    # Before the file is read: a folder that is not there is refused at once.
    encoder = find_encoder(options["model"])
    smallest = options["min_class_size"]
    found = load_narratives(
        target,
        options["text"],
        options["label"],
        id_column=options["id_column"],
        drop=options["drop"] or (),
        rows=options["rows"],
        seed=seed,
        missing=options["missing"] or "refuse",
        group=options["group"],
        slices=options["slices"] or (),
        min_class_size=1 if smallest is None else smallest,
        holdout_by=options["holdout_by"],
    )
    vectors = encode(encoder, found.texts, Path(options["embeddings"] or CACHE), say)
    data = found.dataset(vectors, encoder.name)
    if options["recipe"]:
        return data, load_recipe(options["recipe"], data)
    if options["fine_tune"]:
        return data, _fine_tuned(found, encoder, options)
    return data, head_recipe(len(data), vectors.shape[1], len(data.classes))


def _fine_tuned(found: Narratives, encoder: Any, options: Mapping[str, Any]) -> Recipe:
    from lethe.training.text_recipe import EPOCHS, fine_tune_recipe

    epochs = options["epochs"]
    return fine_tune_recipe(
        encoder.folder,
        encoder.tokens_of(found.texts),
        found.labels,
        len(found.classes),
        encoder.content,
        EPOCHS if epochs is None else epochs,
    )
