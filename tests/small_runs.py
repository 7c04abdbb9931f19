"""Finished runs of each kind of release, small and real, for the commands that read them."""

import json
from pathlib import Path

import numpy as np
from reidentification_people import population

from lethe.cli import run

ALL_RULES = {
    "model": ["auc<=0.9", "tpr@0.1<=0.9", "tau@0.1<=3", "top-t<=9"],
    "quasi": ["prosecutor<=1", "marketer<=1", "journalist<=1", "unique<=0.01", "certain<=1"],
    "records": ["top-1<=1", "match<=1", "exposed<=1", "false-match<=1"],
    "synthetic": ["singling-out<=1", "linkability<=1", "inference<=1"],
    "embeddings": ["lift<=99", "top-1<=1", "bound<=1"],
    "language-model": ["tpr@0.1<=0.5", "auc<=0.9", "extraction<=0.5", "epsilon-lower<=1"],
}


def as_options(rules: list[str]) -> list[str]:
    """As options."""
    return [word for rule in rules for word in ("--rule", rule)]


def token_files(folder: Path) -> list[str]:
    """Made-up log-probabilities of 240 texts of 120 people, and of 60 canaries, as options."""
    rng = np.random.default_rng(3)
    words = np.array("note call sent home new door late work form day week sick".split())
    member = np.repeat(np.arange(120) % 2 == 0, 2)
    lines = [f"{' '.join(rng.choice(words, 8))} {at}" for at in range(240)]
    table = [
        f"{text},{int(flag)},p{at // 2}"
        for at, (text, flag) in enumerate(zip(lines, member, strict=True))
    ]
    (folder / "texts.csv").write_text("text,member,who\n" + "\n".join(table) + "\n")
    coins = rng.random(60) < 0.5
    kept = {"kind": "random-token", "last": 0}
    canaries = [
        {"id": f"c{at}", "text": f"canary {at}", "repetitions": 1 + 3 * (at % 2), **kept}
        | {"inserted": bool(coin)}
        for at, coin in enumerate(coins)
    ]
    plan = {"format": "lethe-text-canaries/1", "seed": 1, "canaries": canaries}
    (folder / "canaries.json").write_text(json.dumps(plan))
    rows: dict[str, list[str]] = {"model": [], "base": []}
    names = [*map(str, range(1, 241)), *(one["id"] for one in canaries)]
    gains = np.concatenate([member * 0.25, coins * 0.8])
    for name, gain in zip(names, gains, strict=True):
        plain = rng.gamma(2.0, 1.0, 10) + 0.3
        moved = np.maximum(plain - gain - rng.normal(scale=0.6, size=10), 0.02)
        for side, loss in (("base", plain), ("model", moved)):
            for place, value in enumerate(loss, 1):
                rank = int(value > 1) + int(10 * max(value - 2, 0))
                rows[side].append(f"{name},{place},{-value:.6f},{-value - 1:.6f},1.5,{rank},-0.01")
    head = "text,position,logprob,mean,deviation,rank,top_mass\n"
    for side, listed in rows.items():
        (folder / f"{side}.csv").write_text(head + "\n".join(listed) + "\n")
    return [
        *("--scores", str(folder / "model.csv"), "--base-scores", str(folder / "base.csv")),
        *("--texts", str(folder / "texts.csv"), "--canaries", str(folder / "canaries.json")),
    ]


def leaky_scores(folder: Path, shift: float = 0.8, seed: int = 0) -> Path:
    """Signals of 16 models on 500 records; members lie `shift` higher, each record its own."""
    rng = np.random.default_rng(seed)
    half = rng.random((8, 500)) < 0.5
    members = np.concatenate([half, ~half])
    signals = rng.normal(size=members.shape) + members * shift * rng.gamma(2, 0.5, 500)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "scores.npz", signals=signals, members=members)
    return folder / "scores.npz"


def scores_run(folder: Path, *more: str, shift: float = 0.8, seed: int = 0) -> Path:
    """An audit of a model, of scores that were handed in."""
    file = leaky_scores(folder, shift, seed)
    out = folder / "run"
    few = ("--attack", "lira-online", "loss-threshold")
    assert run(["audit", "scores", str(file), "--out", str(out), "--quiet", *few, *more]) in (
        0,
        1,
        3,
    )
    return out


def people_files(folder: Path) -> None:
    """Rows with quasi-identifiers: originals, others, and made ones; and facts of people."""
    rng = np.random.default_rng(0)
    ages, towns = rng.integers(20, 70, 120), rng.choice(["a", "b", "c"], 120)
    sick = rng.integers(0, 2, 120)
    rows = [f"{a},{t},{s}" for a, t, s in zip(ages, towns, sick, strict=True)]
    draw = np.random.default_rng(1)  # films.csv keeps its own
    others = [f"{draw.integers(20, 70)},{draw.choice(['a', 'b', 'c'])},{k % 2}" for k in range(30)]
    made = rows[30:60] + others
    for name, part in (("people", rows[:60]), ("control", rows[60:]), ("made", made)):
        (folder / f"{name}.csv").write_text("\n".join(["age,town,sick", *part]) + "\n")
    facts = [
        f"{person},{item},{rng.integers(1, 6)},2020-01-{rng.integers(1, 29):02d}"
        for person in range(30)
        for item in rng.choice(40, 9, replace=False)
    ]
    (folder / "films.csv").write_text("\n".join(["who,film,stars,day", *facts]) + "\n")


def rows_run(folder: Path, kind: str, *more: str) -> Path:
    """An audit of rows: "quasi", "records" or "synthetic"."""
    people_files(folder)
    at = {name: str(folder / f"{name}.csv") for name in ("people", "control", "made", "films")}
    asked = {
        "quasi": [
            *(at["people"], "--quasi", "age,town", "--sensitive", "sick", "--ks", "2", "3"),
            *("--population", at["people"]),
        ],
        "records": [
            *(at["films"], "--person", "who", "--item", "film", "--value", "stars"),
            *("--time", "day", "--targets", "20", "--facts", "4"),
        ],
        "synthetic": [
            *(at["made"], "--original", at["people"], "--control", at["control"]),
            *("--quasi", "age,town", "--sensitive", "sick", "--attacks", "40"),
        ],
    }[kind]
    out = folder / f"run-{kind}"
    verb = {"quasi": "table"}.get(kind, kind)
    assert run(["audit", verb, *asked, "--out", str(out), "--quiet", *more]) in (0, 1, 3)
    return out


def language_run(folder: Path, *more: str) -> Path:
    """An audit of a language model by log-probabilities, with canaries."""
    asked = ["audit", "language-model", *token_files(folder), "--prefix", "4", "--suffix", "4"]
    assert run([*asked, "--out", str(folder / "run-language"), "--quiet", *more]) in (0, 1, 3)
    return folder / "run-language"


def vectors_run(folder: Path, *more: str) -> Path:
    """An audit of representations."""
    people = population()
    weight, bias = people.pop("head")
    np.savez(folder / "mlp.npz", **{k: v for k, v in people.items() if v is not None})
    np.savez(folder / "head.npz", w=weight, b=bias)
    few = [
        *("--sigma", "0.5", "2", "--averaged", "1", "--draws", "2", "--plays", "200"),
        *("--radius-points", "50", "--radius-draws", "100"),
    ]
    file, out = str(folder / "mlp.npz"), folder / "run"
    asked = ["audit", "embeddings", file, "--head", str(folder / "head.npz"), "--out", str(out)]
    assert run([*asked, "--quiet", *few, *more]) in (0, 1, 3)
    return out
