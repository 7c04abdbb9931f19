"""Start-up stays light, and the public names are what they say."""

import subprocess
import sys

import pytest

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


HELP = ("", "audit model", "audit embeddings", "audit records", "plan", "query", "shadow")


def test_nothing_heavy_is_imported(tmp_path):
    """One process for all: what the first imports, the others would be blamed for too."""
    ledger = str(tmp_path / "b.db")
    asked = [["budget", "create", ledger, "--dataset", "x", "--epsilon", "1"]]
    asked += [["budget", "show", ledger], ["budget", "verify", ledger]]
    asked += [["--version"], *([*words.split(), "--help"] for words in HELP)]
    probe = (
        "import sys, lethe\nfrom lethe.cli import run\n"
        f"for words in [None, *{asked!r}]:\n    words is None or run(words)\n"
        f"    print(words, [m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stderr.splitlines() == [f"{words} []" for words in (None, *asked)]


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


@pytest.mark.slow
def test_the_main_job_loads_what_it_uses(tmp_path):
    """At most 100 modules of ours in the process that the command runs in."""
    words = ["audit", "model", "digits", "--models", "4", "--out", str(tmp_path / "run"), "--quiet"]
    code = (
        f"import sys; from lethe.cli import run; assert run({words!r}) == 0; "
        "print(*sorted(m for m in sys.modules if m.partition('.')[0] == 'lethe'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=900
    )
    loaded = done.stdout.splitlines()[-1].split()
    assert "lethe.membership.audit" in loaded
    assert len(loaded) <= 100, loaded
