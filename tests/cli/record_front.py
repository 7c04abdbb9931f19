"""Everything that a user sees of the commands and of the audits in Python, written into files.

    python tests/cli/record_front.py DIRECTORY

Run it before and after a change of the command line, then `diff -r` the two directories: the help
of every verb, what right and wrong inputs print, their exit codes, and the files of small runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "golden")]
os.environ["COLUMNS"] = "100"
os.environ.pop("LETHE_DEBUG", None)

import numpy as np  # noqa: E402  after the paths
from golden_runs import MECHANISM, RECIPE, _patients  # noqa: E402  after the paths
from reidentification_people import population  # noqa: E402  after the paths
from small_runs import leaky_scores, people_files, token_files  # noqa: E402  after the paths

import lethe  # noqa: E402  after the paths
from lethe.cli import run  # noqa: E402  after the paths

VERBS = (
    "demo|split|plan|shadow|canaries plant|canaries text|canaries audit|schema|register|"
    "budget create|budget grant|budget raise|budget show|budget verify|budget export|"
    "budget anchor|budget accept|budget report|budget forget-data|query|serve|token|report|"
    "context init|check|diff|forgotten|doctor|audit|audit model|audit scores|audit text|"
    "audit language-model|audit embeddings|audit table|audit records|audit synthetic|"
    "audit mechanism|canaries|budget|context"
).split("|")
TABLE = "audit table people.csv --quasi age,town --sensitive sick --ks 2 3"
RECORDS = "audit records films.csv --person who --item film --targets 20 --facts 4"
MADE = "audit synthetic made.csv --original people.csv --control control.csv --quasi age,town"
SCORES = "audit scores scores.npz --attack loss-threshold"
VECTORS = "audit embeddings mlp.npz --head head.npz --sigma 0.5 --averaged 1 --draws 2 --plays 200"
VECTORS += " --radius-points 50 --radius-draws 100"
MODEL = "audit model patients.csv --label kind --recipe recipe.py:model --models 4 --workers 1"
MODEL += " --attack loss-threshold --mitigations none"
LANGUAGE = "audit language-model --scores model.csv --base-scores base.csv --texts texts.csv"
LANGUAGE += " --canaries canaries.json --prefix 4 --suffix 4"
TRIAL = "audit mechanism mine.py:half --epsilon 2 --bounds 0,1 --runs 2000"
TYPED = f"""
{TABLE} --out table --quiet --keep-records --rule unique<=0.01
{TABLE} --out table --quiet --json
{TABLE} --population people.csv --person town
{TABLE} --epsilon 1 --quiet --out private --schema people.schema.toml
{TABLE} --hierarchy age=ages.csv --quiet --query 'SELECT count(*) FROM release'
{TABLE} --text age --group town --rule 'unique[town=a]<=0.5'
{TABLE} --hierarchy age
{TABLE} --bins 4
{TABLE} --release k-4
{TABLE} --memory 1GB --inside people
audit table people.csv
audit table people.csv --quasi age,nothing
audit table --quasi age
audit table nowhere.csv --quasi age
audit table --config table.toml --quiet
audit table people.csv --config table.toml --ks 3
audit table people.csv --config unknown.toml
audit table people.csv --config wrong.toml
audit table people.csv --config broken.toml
audit table people.csv --config nowhere.toml
audit table people.csv --config rules.toml --quiet --out ruled
audit table people.csv --quasi age --sensitiv sick
audit table people.csv --quasi age --ks few
audit table people.csv --quasi age --keep-records no
{RECORDS} --value stars --time day --out records --quiet
{RECORDS} --aux films.csv --pairs --keep-records --out pairs
{RECORDS} --pairs
{RECORDS} --aux films.csv --aux-columns who
{RECORDS} --unit week
audit records films.csv --person who
{MADE} --sensitive sick --attacks 40 --out made --quiet --rule 'singling-out<=1'
{MADE} --linked sick
audit synthetic made.csv --quasi age --original people.csv
audit synthetic made.csv --original people.csv
{SCORES} --out scores --quiet --rule 'auc<=0.9' --context people.toml
{SCORES} --signal prob
{SCORES} --config rules.toml
{SCORES} --attack lira
{SCORES} --accept copies
{VECTORS} --out vectors --quiet
{VECTORS} --from 2020-01-01 --known 1
{VECTORS} --vectors 3
{VECTORS} --engine slurm
{VECTORS} --head head.npz
{VECTORS} --texts words
audit embeddings
{LANGUAGE} --out language --quiet --rule 'auc<=0.9'
{LANGUAGE} --also tuned
{LANGUAGE} --member nothing
audit language-model --texts texts.csv
audit language-model tuned
{TRIAL} --out trial --quiet
{TRIAL} --neighbours mine.py:pairs
audit mechanism mine.py:half --bounds 0
audit mechanism mine.py:half --epsilon 1 --rho 1 --bounds 0,1
audit mechanism mine.py:half
audit mechanism
{MODEL} --out model --quiet --rule auc<=0.99 --slice town
{MODEL} --out model --keep-records --models 5
{MODEL} --missing drop
{MODEL} --engine slurm
{MODEL} --json --group town --quiet
{MODEL} --until auc
audit model nowhere.csv
audit model --config rules.toml
audit text patients.csv --text town --label kind --task regression
audit text patients.csv --text town --label kind --fine-tune --recipe recipe.py:model
plan patients.csv --label kind --recipe recipe.py:model --pilot 4
plan patients.csv --label kind --recipe recipe.py:model --precision 'tpr within'
shadow model --list
shadow model
shadow table --list
shadow model --index 99
forgotten scores --ids asked.csv
forgotten table --ids asked.csv
check table scores
check table --rule 'unique<=0.5' --json
check table --rule 'unknown<=0.5'
check
check ruled --release k-2 --quiet
diff table ruled --all
diff table scores
report table scores --out both.html --md both.md --title System
report nowhere
context init table
context init table
context init nowhere
schema people.csv
register people.csv
budget create b.db --data people.csv --epsilon 2 --delta 1e-6 --analyst ann=1
budget create b.db
budget create c.db --dataset x --epsilon 1 --rho 1
budget create c.db --dataset x --epsilon 1 --unit user --person who
budget create c.db --dataset x --epsilon 1 --relation sideways
query people.csv 'count()' --epsilon 0.5 --budget b.db --dry-run
query people.csv 'count()' --epsilon 0.5 --budget b.db --dry-run --explain --json
query people.csv 'mean(age)' --epsilon 0.5 --budget b.db
query people.csv 'count()' --epsilon 0.5
budget grant b.db bob 0.5 --queries 3
budget raise b.db 3 --reason 'more questions'
budget raise b.db 1 --reason less
budget show b.db
budget show b.db --json
budget verify b.db
budget verify b.db --head 00
budget anchor b.db --to heads
budget verify b.db --anchor heads
budget accept b.db --reason none
budget report b.db --out answers --rule spent<=1
budget report b.db --out answers --json --config budget.toml
budget forget-data people.csv
budget export nowhere.db
canaries plant breast-cancer --out canaries --count 40 --rows 200
canaries plant breast-cancer --out canaries
canaries plant breast-cancer --out other --kind odd
canaries audit canaries/canaries.safetensors --scores found.npz --epsilon 1
canaries audit canaries/canaries.safetensors --scores people.csv
split films.csv --person who --out halves.csv
split people.csv --share 2
serve serve.toml --host 0.0.0.0
serve budget.toml
token ann --revoke
token ann --expires soon
doctor --jsn
demo --models 1
audit
audti model
audit modl
audit table people.csv --quasi age extra
audit model digits --models
""".strip()
FILES = {
    "recipe.py": RECIPE,
    "mine.py": MECHANISM,
    "ages.csv": "".join(f"{age},{age // 10}0s,any\n" for age in range(20, 70)),
    "asked.csv": "id\n3\n4\n",
    "people.toml": 'author = "Ann"\n',
    "table.toml": 'file = "people.csv"\nquasi = ["age", "town"]\nsensitive = "sick"\nks = 2\n',
    "unknown.toml": 'quasi = ["age"]\nsensitiv = "sick"\n',
    "wrong.toml": 'quasi = ["age"]\nsuppress = "much"\n',
    "broken.toml": "quasi = [\n",
    "rules.toml": 'quasi = ["age"]\n[rules]\nu = {rule = "unique <= 0.01", why = "few"}\n',
    "budget.toml": 'dataset = "people.csv"\n',
    "serve.toml": 'budget = "b.db"\n[tables.people]\nfile = "people.csv"\n',
    "people.schema.toml": "",
}


def rows() -> dict[str, list[Any]]:
    """The table of `people.csv`, in memory."""
    lines = [line.split(",") for line in Path("people.csv").read_text().split()[1:]]
    age, town, sick = zip(*lines, strict=True)
    return {"age": list(map(int, age)), "town": list(town), "sick": list(map(int, sick))}


def half(data: Any, seed: int) -> float:
    """A mechanism with too little noise."""
    return round(float(data.sum() + np.random.default_rng(seed).laplace(scale=0.2)), 3)


def python_calls() -> list[Callable[[], Any]]:
    """Right and wrong calls of the audits in Python."""
    few, hidden = {"quiet": True}, {"quiet": True, "save": False}
    tokens = {"scores": "model.csv", "base_scores": "base.csv"}
    vectors = {k: v for k, v in population().items() if k in ("representations", "user_ids")}
    model = list(vectors.values())
    inside = np.random.default_rng(0).random((8, 200)) < 0.5
    signals = np.random.default_rng(1).normal(size=(8, 200)) + inside
    noise = {"sigmas": 0.5, "averaged": 1, "draws": 2, "plays": 200}
    return [
        lambda: lethe.audit_table(rows(), ["age", "town"], "sick", ks=2, **few),
        lambda: lethe.audit_table("people.csv", "age", population=rows(), **hidden),
        lambda: lethe.audit_table(rows(), "age", rule="unique<=0.1", name="own", out="own"),
        lambda: lethe.audit_table(rows(), "age", write_release="k-2", **hidden),
        lambda: lethe.audit_table(rows(), "age", kss=2, **hidden),
        lambda: lethe.audit_table(rows(), "age", population=5, **hidden),
        lambda: lethe.audit_table(rows(), "nothing", **hidden),
        lambda: lethe.audit_records("films.csv", "who", "film", targets=20, facts=4, **few),
        lambda: lethe.audit_records("films.csv", "who", "film", unit="week", **hidden),
        lambda: lethe.audit_records("films.csv", "who", "nothing", **hidden),
        lambda: lethe.audit_synthetic("made.csv", rows(), "control.csv", "age", "sick", **few),
        lambda: lethe.audit_synthetic("made.csv", rows(), "control.csv", "age", attacks=0),
        lambda: lethe.audit_vectors(*model, **noise, **few),
        lambda: lethe.audit_vectors(*model, sigma=1, **few),
        lambda: lethe.audit_scores(signals, inside, attack="loss-threshold", **few),
        lambda: lethe.audit_scores(signals, inside[:2], **hidden),
        lambda: lethe.audit_language_model(None, "texts.csv", **tokens, prefix=4, suffix=4, **few),
        lambda: lethe.audit_language_model(None, "texts.csv", **hidden),
        lambda: lethe.audit_mechanism(half, bounds=(0, 1), epsilon=1, runs=2000, **few),
        lambda: lethe.audit_mechanism(half, epsilon=1, **hidden),
        lambda: lethe.audit_text([""], [1], **hidden),
    ]


def shown(text: str) -> str:
    """Without what no two runs share: times, and the key of registered data."""
    text = re.sub(r"\b[0-9a-f]{64}\b", "HASH", text)
    return re.sub(r"\d+(\.\d+)? ?(ms|s|min|MB|kB|GB)\b", "AMOUNT", text)


def recorded(call: Callable[[], Any]) -> str:
    """What a call prints and returns."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            result = call()
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    if isinstance(result, lethe.Findings):
        result = hashlib.sha256(result.to_bytes()).hexdigest()[:16]
    parts = (f"-> {result}", "--- stdout", out.getvalue(), "--- stderr", err.getvalue())
    return shown("\n".join(parts))


def signature(function: Any) -> str:
    """What `help` shows of a function."""
    return f"{function.__name__}{inspect.signature(function)}\n\n{inspect.getdoc(function)}\n"


def main(place: Path) -> None:
    """Write everything into a folder."""
    place.mkdir(parents=True)
    for verb in VERBS:
        help_page = recorded(lambda verb=verb: run([*verb.split(), "--help"]))  # type: ignore[misc]
        (place / f"help-{verb.replace(' ', '-')}.txt").write_text(help_page)
    for name in (name for name in lethe.__all__ if name.startswith("audit")):
        (place / f"python-{name}.txt").write_text(signature(getattr(lethe, name)))
    with tempfile.TemporaryDirectory() as there, contextlib.chdir(there):
        folder = Path()
        people_files(folder)
        token_files(folder)
        leaky_scores(folder)
        _patients(folder / "patients.csv", 120)
        model = {key: value for key, value in population().items() if value is not None}
        weight, bias = model.pop("head")
        np.savez("mlp.npz", **model)
        np.savez("head.npz", w=weight, b=bias)
        np.savez("found.npz", scores=np.arange(40.0))
        for name, text in FILES.items():
            Path(name).write_text(text)
        Path("people.schema.toml").unlink()
        run(["schema", "people.csv", "--out", "people.schema.toml"])
        pages = [
            f"$ lethe {line}\n{recorded(lambda line=line: run(shlex.split(line)))}\n"  # type: ignore[misc]
            for line in TYPED.splitlines()
        ]
        (place / "commands.txt").write_text("\n".join(pages))
        calls = [f"$ call {at}\n{recorded(call)}\n" for at, call in enumerate(python_calls())]
        (place / "calls.txt").write_text("\n".join(calls))
        kept = ("findings.json", "audit.toml", "context.toml", "plan.json", "forgotten.json")
        files = [
            f"{file}  {hashlib.sha256(shown(file.read_text()).encode()).hexdigest()[:16]}"
            for file in sorted(folder.rglob("*"))
            if file.name in kept
        ]
        (place / "files.txt").write_text("\n".join(files) + "\n")
        asked = [f"{file}\n{file.read_text()}" for file in sorted(folder.rglob("audit.toml"))]
        (place / "audit-toml.txt").write_text("\n".join(asked))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
