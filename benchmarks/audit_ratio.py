"""Time of each audit against an earlier commit: CPU seconds of whole commands, start-up included.

    git worktree add --detach ../base COMMIT
    python benchmarks/audit_ratio.py ../base [--only NAME ...] [--rounds 3] [--out FILE]

Both trees run the same command on the same file, in turns, on one thread each, with reports as a
user gets them; the ratio is that of the medians. The time that the processor spent is compared,
for it depends least on what else a machine does. No figure stands here: they are in
results/audit_ratio.json.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
from common import RESULTS, load, save
from sklearn.linear_model import LogisticRegression

HERE = Path(__file__).resolve().parents[1]


def vectors(place: Path) -> list[str]:
    """6,000 vectors of 300 people in 32 dimensions, without a head."""
    rng, user = np.random.default_rng(0), np.arange(300).repeat(20)
    rows = rng.normal(size=(300, 32))[user] + 0.8 * rng.normal(size=(6000, 32))
    np.savez(place / "vectors.npz", representations=rows, user_ids=user)
    return ["embeddings", str(place / "vectors.npz")]


def vectors_with_labels(place: Path) -> list[str]:
    """4,000 vectors of 1,000 people in 64 dimensions, a head, and labels that it gives."""
    rng, user = np.random.default_rng(1), np.arange(1000).repeat(4)
    rows = rng.normal(size=(1000, 64))[user] + rng.normal(size=(4000, 64))
    labels = (rows[:, :4] @ rng.normal(size=(4, 5)) + rng.normal(size=(4000, 5))).argmax(axis=1)
    head = LogisticRegression(max_iter=300).fit(rows, labels)
    np.savez(place / "labelled.npz", representations=rows, user_ids=user, labels=labels)
    np.savez(place / "head.npz", w=head.coef_, b=head.intercept_)
    return ["embeddings", str(place / "labelled.npz"), "--head", str(place / "head.npz")]


def facts(people: int, items: int, each: int) -> pandas.DataFrame:
    """Facts of people about items, popularity falling as 1 / rank, lengths as in film ratings."""
    rng = np.random.default_rng(2)
    length = np.minimum(10 + rng.geometric(1 / each, people), items // 4)
    share = 1 / (10 + np.arange(items))
    share /= share.sum()
    taken = [rng.choice(items, size, replace=False, p=share) for size in length]
    item, person = np.concatenate(taken), np.repeat(np.arange(people), length)
    days = rng.integers(0, 2000, len(item))
    return pandas.DataFrame({
        "who": person, "what": item, "stars": rng.integers(1, 6, len(item)),
        "day": np.datetime64("2015-01-01") + days.astype("timedelta64[D]"),
    })  # fmt: skip


def records(place: Path) -> list[str]:
    """93,000 facts of 1,000 people about 2,000 items: a file of person and item."""
    facts(1000, 2000, 90)[["who", "what"]].to_csv(place / "pairs.csv", index=False)
    return ["records", str(place / "pairs.csv"), "--person", "who", "--item", "what"]


def records_with_dates(place: Path) -> list[str]:
    """The same with stars and dates."""
    facts(1000, 2000, 90).to_csv(place / "facts.csv", index=False)
    named = ["--person", "who", "--item", "what", "--value", "stars", "--time", "day"]
    return ["records", str(place / "facts.csv"), *named]


def people_of(count: int, seed: int) -> pandas.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 90, count)
    return pandas.DataFrame({
        "age": age, "sex": rng.choice(["f", "m"], count), "zip": rng.integers(0, 300, count),
        "school": rng.integers(0, 9, count), "illness": rng.integers(0, 12, count) + age // 30,
        "income": np.round(rng.lognormal(10, 0.6, count) + 100 * age, 0),
    })  # fmt: skip


def table(place: Path) -> list[str]:
    """20,000 people, four quasi-identifiers and a code that nobody should learn."""
    people_of(20_000, 3).drop(columns="income").to_csv(place / "people.csv", index=False)
    quasi = "age,sex,zip,school"
    return ["table", str(place / "people.csv"), "--quasi", quasi, "--sensitive", "illness"]


def synthetic(place: Path) -> list[str]:
    """2,000 synthetic rows beside as many original and control ones."""
    for name, seed in (("made", 4), ("original", 5), ("control", 6)):
        people_of(2000, seed).to_csv(place / f"{name}.csv", index=False)
    made, original, control = (str(place / f"{n}.csv") for n in ("made", "original", "control"))
    return ["synthetic", made, "--original", original, "--control", control]


def scores(place: Path) -> list[str]:
    """Logits of 64 models on 2,000 records."""
    rng = np.random.default_rng(7)
    half = rng.permuted(np.tile(np.arange(2000) < 1000, (32, 1)), axis=1)
    members = np.stack([half, ~half], 1).reshape(64, 2000)
    logits = rng.normal(size=2000) + 0.6 * members + rng.normal(size=members.shape)
    np.savez(place / "scores.npz", signals=logits, members=members)
    return ["scores", str(place / "scores.npz"), "--signal", "logit"]


def model(place: Path) -> list[str]:
    """64 models of a small network on 1,000 records of 20 numbers, three mitigations."""
    rng = np.random.default_rng(8)
    features = rng.normal(size=(1000, 20)).astype(np.float32)
    labels = (features[:, :3].sum(axis=1) + rng.normal(size=1000) > 0).astype(int)
    np.savez(place / "rows.npz", X=features, y=labels)
    (place / "own.py").write_text(
        "import functools\n"
        "from lethe.training.models import mlp\n"
        "from lethe.training.recipe import TorchRecipe\n"
        "def recipe():\n"
        "    return TorchRecipe(functools.partial(mlp, 20, (32,), 2), epochs=10, batch_size=64,\n"
        "                       learning_rate=1e-3, optimizer='adam')\n"
    )
    return ["model", str(place / "rows.npz"), "--recipe", f"{place / 'own.py'}:recipe"]


AUDITS = {
    one.__name__.replace("_", " "): one
    for one in (
        vectors, vectors_with_labels, records, records_with_dates, table, synthetic, scores, model,
    )
}  # fmt: skip


def seconds(tree: Path, command: Sequence[str], place: Path) -> float:
    """CPU seconds of a command of one tree and of the processes that it starts."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(place / tree.name)}
    with tempfile.TemporaryDirectory(dir=place) as out:
        call = [sys.executable, "-m", "lethe", "audit", *command, "--out", f"{out}/run", "--quiet"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            call, capture_output=True, text=True, cwd=place,
            env={**os.environ, **threads, **compiled, "PYTHONPATH": str(tree / "src")},
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 3) or not Path(out, "run", "report.html").exists():
            raise SystemExit(f"{tree}: {done.stdout}{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path, help="work tree of the earlier commit")
    parser.add_argument("--only", nargs="*", choices=tuple(AUDITS), default=tuple(AUDITS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS / "audit_ratio.json")
    asked = parser.parse_args()
    base = asked.base.resolve()
    commit = ["git", "-C", str(base), "rev-parse", "--short", "HEAD"]
    named = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    rows = {}
    for name in asked.only:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            command = AUDITS[name](place)
            # The first one writes bytecode, as an installation does, and does not count.
            rounds = [[seconds(tree, command, place) for tree in (base, HERE)]
                      for _ in range(1 + asked.rounds)][1:]  # fmt: skip
        before, now = (statistics.median(side) for side in zip(*rounds, strict=True))
        rows[name] = {
            "what": AUDITS[name].__doc__, "before": before, "now": now, "ratio": now / before,
            "rounds": rounds,
        }  # fmt: skip
        print(f"{name}: {before:.2f} s before, {now:.2f} s now, {now / before:.2f}", flush=True)
    save({"base": named, "load": load(), "audits": rows}, asked.out)


if __name__ == "__main__":
    main()
