"""Start-up stays light, and the public names are what they say."""

from __future__ import annotations

import subprocess
import sys

import pytest

import lethe

HEAVY = (
    "torch",
    "scipy.stats",
    "matplotlib",
    "sklearn",
    "pyarrow",
    "duckdb",
    "joblib",
    "ray",
    "fsspec",
)


@pytest.mark.parametrize(
    "code",
    [
        "import lethe",
        "from lethe.cli import run; run(['--help'])",
        "from lethe.cli import run; run(['audit', 'model', '--help'])",
        "from lethe.cli import run; run(['audit', 'embeddings', '--help'])",
        "from lethe.cli import run; run(['audit', 'records', '--help'])",
        "from lethe.cli import run; run(['plan', '--help'])",
        "from lethe.cli import run; run(['query', '--help'])",
        "from lethe.cli import run; run(['shadow', '--help'])",
        "from lethe.cli import run; run(['--version'])",
    ],
)
def test_nothing_heavy_is_imported(code):
    shown = f"[m for m in {HEAVY!r} if m in sys.modules]"
    probe = f"{code}\nimport sys\nprint({shown}, file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stderr.strip().endswith("[]"), done.stderr


def test_a_question_imports_no_more_than_its_noise_needs(tmp_path):
    from lethe.cli import run

    people = tmp_path / "people.csv"
    people.write_text("age,county\n" + "30,Kent\n41,Essex\n" * 50)
    assert run(["schema", str(people)]) == run(["register", str(people)]) == 0
    code = (
        "import sys; from lethe.cli import run; "
        "cost = ['--no-budget', '--epsilon', '1', '--delta', '1e-6']; "
        "assert run(['query', 'people.csv', 'mean(age) in [0, 99] by county', *cost]) == 0; "
        "heavy = ('sklearn', 'pandas', 'scipy.stats', 'torch', 'matplotlib'); "
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, cwd=tmp_path
    )
    assert done.stdout.endswith("[]\n"), done.stdout + done.stderr


def test_all_public_names_exist_and_no_other():
    assert sorted(lethe.__all__) == list(lethe.__all__) or set(lethe.__all__) == set(dir(lethe))
    for name in lethe.__all__:
        assert getattr(lethe, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = lethe.nonsense


def test_help_teaches(capsys):
    from lethe.cli import run

    assert run(["audit", "model", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for word in ("--rule", "tpr@0.001<=0.05", "--recipe", "digits"):
        assert word in text
