"""The page on training: its recipe trains, its table has every field."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
from doc_pages import files, page

from lethe.data.tables import load
from lethe.training.loop import default_layout, train_models
from lethe.training.models import load_recipe
from lethe.training.recipe import TorchRecipe, Treatment, Work

PAGE = page("training.md")


def test_the_recipe_on_the_page_learns(tmp_path: Path) -> None:
    ((name, text),) = files(PAGE).items()
    (tmp_path / name).write_text(text)
    data = load("digits", rows=300, seed=0)
    recipe = load_recipe(f"{tmp_path / name}:make", data)
    assert isinstance(recipe, TorchRecipe) and default_layout(recipe).kind == "alone"
    members = np.zeros((1, 300), bool)
    members[0, ::2] = True
    (outputs,) = train_models(
        Work(
            recipe,
            data.features,
            data.labels,
            members,
            np.ones(300, bool),
            Treatment(),
            [1],
            default_layout(recipe),
        )
    )
    assert (outputs.argmax(1) == data.labels)[~members[0]].mean() > 0.7


def test_every_field_is_in_the_table() -> None:
    told = {
        name
        for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert told == {field.name for field in fields(TorchRecipe)}
