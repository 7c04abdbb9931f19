"""A command and its Python function are one audit: equal findings in one folder."""

import contextlib
from pathlib import Path

import pytest
from small_runs import leaky_scores, people_files, token_files

import lethe
from lethe.api.vectors import audit_vector_files
from lethe.cli import run

pytestmark = pytest.mark.usefixtures("no_page")

TABLE = {"quasi": ("age", "town"), "sensitive": "sick", "ks": (2, 3), "population": "people.csv"}
MADE = {"original": "people.csv", "control": "control.csv", "quasi": ("age", "town")}
FACTS = {"person": "who", "item": "film", "targets": 20, "facts": 4}
TOKENS = {"scores": "model.csv", "base_scores": "base.csv", "canaries": "canaries.json"}
FRONTS = [
    (lethe.audit_table, "table", "people.csv", TABLE),
    (lethe.audit_records, "records", "films.csv", FACTS | {"aux": "films.csv"}),
    (lethe.audit_synthetic, "synthetic", "made.csv", MADE | {"attacks": 40}),
    (lethe.audit_scores, "scores", "scores.npz", {"attack": ("loss-threshold",)}),
    (lethe.audit_mechanism, "mechanism", "m.py:half", {"epsilon": 2.0, "bounds": "0,1"}),
    (
        lethe.audit_language_model,
        "language-model",
        None,
        TOKENS | {"texts": "texts.csv", "prefix": 4, "suffix": 4},
    ),
]
CODE = """
import numpy as np
import lethe

lethe.audit_table({"age": [1, 2, 2, 3]}, "age", save=False, quiet=True)

def half(data, seed):
    return round(np.clip(data, 0, 1).sum() + np.random.default_rng(seed).laplace(scale=0.5), 6)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fronts")
    people_files(folder)
    token_files(folder)
    leaky_scores(folder)
    (folder / "m.py").write_text(CODE)
    return folder


@pytest.mark.parametrize(
    ("function", "kind", "subject", "given"), FRONTS, ids=[front[1] for front in FRONTS]
)
def test_a_command_and_its_function_write_the_same(function, kind, subject, given, place, capsys):
    more = {"runs": 200} if kind == "mechanism" else {}
    with contextlib.chdir(place):
        found = function(subject, **given, **more, quiet=True)
        words = [] if subject is None else [subject]
        for name, value in (given | more).items():
            values = value if isinstance(value, tuple) else (value,)
            words += [f"--{name.replace('_', '-')}", *map(str, values)]
        before = {folder.name for folder in Path("lethe-runs").iterdir()}
        code = run(["audit", kind, *words, "--quiet", "--json"])
        assert code in (0, 1, 3)
        # The same content is one run; a second front goes on in its folder.
        assert {folder.name for folder in Path("lethe-runs").iterdir()} == before
    assert capsys.readouterr().out.encode() == found.to_bytes()


def test_what_a_command_asked_is_not_what_its_users_code_asks(place):
    """The file of a mechanism may audit something else when it is read."""
    with contextlib.chdir(place):
        assert run(["audit", "mechanism", "m.py:half", "--bounds", "0,1", "--runs", "100"]) == 0
        assert not [path for path in Path("lethe-runs").glob("table-*")]


def test_trained_from_python_no_command_goes_on(place):
    with pytest.raises(lethe.InputError, match="In Python use lethe.membership.by_hand"):
        lethe.audit(lambda: None, [[0.0], [1.0]], [0, 1], engine="by-hand", quiet=True)


def test_options_of_files_of_vectors_are_described():
    words = " ".join((audit_vector_files.__doc__ or "").split())
    assert "max_probes: vectors to be named" in words and "quiet: no progress" in words
