"""One small audit of every kind, made with the command line, and how two documents are compared.

    python tests/golden/golden_runs.py DIRECTORY [KIND ...]

writes `KIND.json` for every kind: run it before and after a rebuild, on one machine, and compare.
Kinds in `EVERYWHERE` give equal documents on every machine and stand beside this file; those in
`HERE` train networks in single precision, where another processor rounds otherwise.
"""

import contextlib
import json
import math
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
from small_runs import ALL_RULES, as_options, leaky_scores, people_files  # noqa: E402  after the paths

from lethe.cli import run  # noqa: E402  after the paths

RECIPE = """
from sklearn.linear_model import LogisticRegression

def model():
    return LogisticRegression(C=30.0, solver="newton-cholesky", max_iter=50)
"""
MECHANISM = """
import numpy as np

def half(data, seed):
    return round(np.clip(data, 0, 1).sum() + np.random.default_rng(seed).laplace(scale=0.5), 6)
"""
RAN = (0, 1, 3)
ANSWER = [{"value": 1.0, "low": 0.0, "high": 2.0}]
NOT_SHARED = {"versions": {"lethe-privacy": "0"}, "head": "0" * 64, "answer": ANSWER}
"""What no two runs share, and what stands in its place."""


def _lethe(*words: object) -> None:
    code = run([str(word) for word in words])
    assert code in RAN, f"lethe {' '.join(map(str, words))} ended with {code}"


def _patients(file: Path, rows: int = 240) -> Path:
    """A class, four numbers, the years of the records and the town, as csv."""
    rng = np.random.default_rng(7)
    numbers = rng.normal(size=(rows, 6)).round(4)
    odd = numbers[:, :2].sum(1) + rng.normal(scale=0.8, size=rows)
    kind = np.where(odd > 0.8, "high", np.where(odd > -0.8, "middle", "low"))
    town = rng.choice(["Ash", "Elm", "Oak"], rows)
    lines = ["a,b,c,d,e,f,kind,town"]
    for row, label, place in zip(numbers, kind, town, strict=True):
        lines.append(",".join(f"{value}" for value in row) + f",{label},{place}")
    file.write_text("\n".join(lines) + "\n")
    return file


def model(place: Path) -> Path:
    (place / "recipe.py").write_text(RECIPE)
    file = _patients(place / "patients.csv")
    asked = ["audit", "model", file, "--label", "kind", "--recipe", f"{place / 'recipe.py'}:model"]
    asked += ["--models", 16, "--workers", 1, "--quiet", "--keep-records", "--slice", "town"]
    asked += ["--attack", "lira-online", "rmia-online", "attack-r", "loss-threshold"]
    asked += ["--mitigations", "weighted", "removal", "label-only"]
    _lethe(*asked, *as_options(ALL_RULES["model"]), "--out", place / "model")
    return place / "model"


def network(place: Path) -> Path:
    file = _patients(place / "patients.csv")
    asked = ["audit", "model", file, "--label", "kind", "--drop", "town", "--models", 8]
    asked += ["--workers", 1, "--quiet", "--epsilon", 4, "--delta", 1e-3, "--local-epsilon", 4]
    asked += ["--mitigations", "weighted-noise", "early-stopping", "l2", "mixup", "dp-sgd"]
    asked += ["weighted-dp", "individual-dp", "swag-ppm", "swag-scalar", "model-averaging"]
    _lethe(*asked, *as_options(ALL_RULES["model"][:2]), "--out", place / "network")
    return place / "network"


def regression(place: Path) -> Path:
    asked = ["audit", "model", "diabetes", "--rows", 160, "--models", 8, "--workers", 1, "--quiet"]
    _lethe(*asked, "--mitigations", "weighted", "--out", place / "regression")
    return place / "regression"


def scores(place: Path) -> Path:
    file = leaky_scores(place)
    asked = ["audit", "scores", file, "--quiet", "--keep-records", *as_options(ALL_RULES["model"])]
    asked += ["--attack", "lira-online", "lira-offline", "lira-hierarchical", "bavaria-n"]
    asked += ["learned-ratio", "loss-threshold"]
    _lethe(*asked, "--out", place / "scores")
    return place / "scores"


def text(place: Path) -> Path:
    from tiny_encoder import BODY, CAUSE, tiny_encoder

    tiny_encoder(place / "encoder")
    rng = np.random.default_rng(0)
    lines = ["id,narrative,nature,state"]
    for row in range(160):
        code = 4 if row == 0 else int(rng.choice(4, p=[0.5, 0.3, 0.15, 0.05]))
        words = [*rng.choice(BODY, 4), "by", CAUSE[6 + code], CAUSE[code]]
        lines.append(f'r{row},"{" ".join(words)}",n{code},{rng.choice(["TX", "NY"])}')
    (place / "injuries.csv").write_text("\n".join(lines) + "\n")
    asked = ["audit", "text", place / "injuries.csv", "--text", "narrative", "--label", "nature"]
    asked += ["--model", place / "encoder", "--attack", "lira-offline", "--workers", 1]
    asked += ["--rows", 150, "--models", 8, "--mitigations", "early-stopping", "--slice", "state"]
    _lethe(*asked, "--quiet", "--out", place / "text")
    return place / "text"


def vectors(place: Path) -> Path:
    from reidentification_people import population

    people = population()
    weight, bias = people.pop("head")
    np.savez(place / "mlp.npz", **{k: v for k, v in people.items() if v is not None})
    np.savez(place / "head.npz", w=weight, b=bias)
    asked = ["audit", "embeddings", place / "mlp.npz", "--head", place / "head.npz", "--quiet"]
    asked += ["--sigma", 0.5, 2, "--averaged", 1, "--draws", 2, "--plays", 200]
    asked += ["--radius-points", 50, "--radius-draws", 100, "--keep-records"]
    _lethe(*asked, *as_options(ALL_RULES["embeddings"]), "--out", place / "vectors")
    return place / "vectors"


def table(place: Path) -> Path:
    people_files(place)
    asked = ["audit", "table", place / "people.csv", "--quasi", "age,town", "--sensitive", "sick"]
    asked += ["--ks", 2, 3, "--population", place / "people.csv", "--quiet", "--keep-records"]
    _lethe(*asked, *as_options(ALL_RULES["quasi"]), "--out", place / "table")
    return place / "table"


def records(place: Path) -> Path:
    people_files(place)
    films = (place / "films.csv").read_text().splitlines()
    some = [line for line in films[1:] if int(line.split(",")[0]) < 8][::2]
    (place / "aux.csv").write_text("\n".join([films[0], *some]) + "\n")
    asked = ["audit", "records", place / "films.csv", "--person", "who", "--item", "film"]
    asked += ["--value", "stars", "--time", "day", "--targets", 20, "--facts", 4, "--quiet"]
    asked += ["--aux", place / "aux.csv", "--keep-records"]
    _lethe(*asked, *as_options(ALL_RULES["records"]), "--out", place / "records")
    return place / "records"


def synthetic(place: Path) -> Path:
    people_files(place)
    asked = ["audit", "synthetic", place / "made.csv", "--original", place / "people.csv"]
    asked += ["--control", place / "control.csv", "--quasi", "age,town", "--sensitive", "sick"]
    asked += ["--attacks", 40, "--quiet", *as_options(ALL_RULES["synthetic"])]
    _lethe(*asked, "--out", place / "synthetic")
    return place / "synthetic"


def language(place: Path) -> Path:
    from small_runs import token_files

    asked = ["audit", "language-model", *token_files(place), "--person", "who", "--quiet"]
    asked += [*as_options(ALL_RULES["language-model"]), "--prefix", 4, "--suffix", 4]
    _lethe(*asked, "--keep-records", "--out", place / "language")
    return place / "language"


def mechanism(place: Path) -> Path:
    (place / "m.py").write_text(MECHANISM)
    asked = ["audit", "mechanism", f"{place / 'm.py'}:half", "--epsilon", 1, "--bounds", "0,1"]
    _lethe(*asked, "--runs", 1500, "--quiet", "--out", place / "mechanism")
    return place / "mechanism"


def ledger(place: Path) -> Path:
    data, db = place / "people.csv", place / "b.db"
    data.write_text("age\n" + "\n".join(str(18 + row % 60) for row in range(90)) + "\n")
    (place / "people.csv.schema.toml").write_text('[columns.age]\ntype = "whole"\n')
    _lethe("register", data)
    _lethe("budget", "create", db, "--data", data, "--epsilon", 3)
    for epsilon, question in ((0.5, "count()"), (0.25, "mean(age) in [18, 100]")):
        _lethe("query", data, question, "--epsilon", epsilon, "--budget", db)
    _lethe("budget", "report", db, "--rule", "spent<=0.5", "--out", place / "ledger")
    return place / "ledger"


Make = Callable[[Path], Path]
EVERYWHERE: dict[str, Make] = {
    "model": model,
    "scores": scores,
    "vectors": vectors,
    "table": table,
    "records": records,
    "synthetic": synthetic,
    "language": language,
    "mechanism": mechanism,
    "ledger": ledger,
}
HERE: dict[str, Make] = {"network": network, "regression": regression, "text": text}


def document_of(kind: str, place: Path) -> dict[str, Any]:
    """`findings.json` of a fresh run, but for what no two runs share."""
    make = EVERYWHERE.get(kind) or HERE[kind]
    with _standing_in(place):
        folder = make(place)
    found: dict[str, Any] = json.loads((folder / "findings.json").read_text())
    ledger = (found.get("queries") or {}).get("ledger") or {"burn": []}
    for part in (found["reproduction"], ledger, *ledger["burn"]):
        part.update({key: one for key, one in NOT_SHARED.items() if key in part})
    return found


@contextlib.contextmanager
def _standing_in(place: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(place)
    try:
        yield
    finally:
        os.chdir(before)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, word and empty place of a document, by its path."""
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from leaves(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def differences(before: Any, after: Any, tolerance: float = 0.0) -> list[str]:
    """What is not the same: paths that only one has, words, and numbers beyond a tolerance."""
    old, new = dict(leaves(before)), dict(leaves(after))
    found = [f"{path}: only before" for path in old if path not in new]
    found += [f"{path}: only after" for path in new if path not in old]
    for path in old.keys() & new.keys():
        first, second = old[path], new[path]
        if isinstance(first, float) or isinstance(second, float):
            same = math.isclose(first or 0.0, second or 0.0, rel_tol=tolerance, abs_tol=tolerance)
            same = same and (first is None) == (second is None)
        else:
            same = first == second
        if not same:
            found.append(f"{path}: {first!r} -> {second!r}")
    return sorted(found)


def main(folder: Path, kinds: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for kind in kinds or [*EVERYWHERE, *HERE]:
        with tempfile.TemporaryDirectory() as place:
            found = document_of(kind, Path(place))
        text = json.dumps(found, ensure_ascii=False, indent=1)
        (folder / f"{kind}.json").write_text(text + "\n")
        print(kind, len(list(leaves(found))), "values", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
