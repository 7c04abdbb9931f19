"""The page on one's own model: each file on it trains, each command on it ends well."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from doc_pages import files, page

from lethe.cli import main
from lethe.data.tables import load
from lethe.training.chunks import Spec, chunk_jobs, train_chunk
from lethe.training.models import load_recipe
from lethe.training.recipe import Treatment
from lethe.training.shadows import Shadows

pytestmark = pytest.mark.processes

PAGE = page("bring-your-own-model.md")
FILES = files(PAGE)
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    for line in block.splitlines()
    if "mine.py" not in line and "audit fitted" not in line  # these only show the form
]


def test_the_page_has_its_files_and_commands() -> None:
    assert PAGE.count("```python") == len(FILES) == 7
    assert len(COMMANDS) == 8
    assert all(command.startswith("lethe audit model ") for command in COMMANDS)
    assert {name for command in COMMANDS for name in re.findall(r"\w+\.py", command)} == set(FILES)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_recipe_trains_shadow_models(command: str, folder: Path) -> None:
    words = shlex.split(command)[3:]
    data = load(words[0], rows=120, seed=0)
    recipe = load_recipe(words[words.index("--recipe") + 1], data)
    pool = np.arange(120) < 96
    spec = Spec(data.features, data.labels, len(data.classes), pool, recipe, Treatment(), 0)
    jobs = chunk_jobs(spec, folder, 2, 2)
    assert train_chunk(jobs[0]) == 2
    shadows = Shadows.from_shards(jobs, data.ids)
    assert shadows.signals.shape == (2, 96) and np.isfinite(shadows.signals).all()
    # Two complementary halves: models that learned anything know their own records better.
    known = np.where(shadows.members, shadows.signals, 0).sum() / shadows.members.sum()
    strange = np.where(shadows.members, 0, shadows.signals).sum() / (~shadows.members).sum()
    assert known > strange
    assert shadows.population_merit is not None
    assert shadows.population_merit.mean() > (0.75 if data.classes else 0)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_ends_well(command: str, folder: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*shlex.split(command)[1:], "--quiet", "--out", "run"])
    assert ended.value.code == 0
    assert (folder / "run" / "report.html").is_file()
