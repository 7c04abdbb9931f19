"""What verdicts are worth: unearned passes, missed leaks, refused safe releases, null coverage.

    nice python benchmarks/verdicts.py [--rooms scores vectors ...] [--blinded 2000] [--safe 500]
                                       [--null 1000] [--minutes 60] [--out FILE]
    python benchmarks/verdicts.py --counts [--out FILE]

Small made-up audits of every room, one process, one line a result in FILE; what stands there is not
done again, so that it can be stopped at any time. Four questions:

- *blinded*: an audit whose rules fail, and the same with its signal destroyed, in turn by each way
  of the room. A rule that failed and now passes is an unearned pass. None is allowed.
- *informative*: the audits before they were blinded. At most 2 % may end in "not enough evidence".
- *safe*: a true risk under half the limit, of adequate size. At least 90 % must pass.
- *null*: intervals of AUC and TPR of scores without any leak, which must hold chance in at least
  93 % of 1,000 audits a cell.

Measured on 25 November 2026, 2 cores: 2,002 blinded audits of all rooms, of which the last versions
of the code passed none; all twins fail; 500 of 504 safe audits pass; null cells of 200 audits hold
chance in 96.0 to 100 %. `--counts` prints what stands in FILE, one line an audit with its seed.

A further room is an entry of `ROOMS`: how to make what it audits, leaky or safe, the ways to blind
it, and how to audit it.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS / room) for room in ("membership", "linkage", "reidentification", "queries")]
sys.path.append(str(TESTS))

import test_language_power as language  # noqa: E402  (the tests' made-up data are no package)
import test_planted_people as vectors  # noqa: E402  (as above)
import test_records_power as records  # noqa: E402  (as above)
from simulated import coins, paired, shadows, signals  # noqa: E402  (as above)

import lethe  # noqa: E402  (after the path)
from lethe.errors import LetheError  # noqa: E402  (as above)
from lethe.membership.audit import audit_scores  # noqa: E402  (as above)
from lethe.membership.measure import run_attacks  # noqa: E402  (as above)
from lethe.membership.settings import AuditSettings  # noqa: E402  (as above)
from lethe.queries.mechanism_audit.audit import audit_mechanism  # noqa: E402  (as above)
from lethe.queries.mechanism_audit.neighbours import Pair  # noqa: E402  (as above)
from lethe.queries.mechanism_audit.settings import Claim, MechanismSettings  # noqa: E402

DEFAULT_OUT = Path(__file__).parent / "results" / "verdicts.jsonl"
QUIET = {"save": False, "quiet": True}
Rng = np.random.Generator
Outcomes = dict[str, str]


@dataclass(frozen=True)
class Room:
    """How one kind of release is audited, and blinded.

    Attributes:
        leaky: what is audited, of a seed's generator; its rules fail.
        safe: the same with a true risk under half the limits.
        blinds: ways to destroy the signal, by name.
        audit: the outcome of each rule.
    """

    leaky: Callable[[Rng], Any]
    safe: Callable[[Rng], Any]
    blinds: Mapping[str, Callable[[Any, Rng], Any]]
    audit: Callable[[Any], Outcomes]


def by_rule(findings: Any) -> Outcomes:
    """Return the outcome of each rule of some findings."""
    return {str(rule["rule"]): str(rule["outcome"]) for rule in findings.rules}


# Scores of models.

Scores = tuple[np.ndarray, np.ndarray]


def leaky_scores(rng: Rng) -> Scores:
    models, size = int(rng.choice([8, 16, 32])), int(rng.choice([300, 600]))
    members = (paired if rng.random() < 0.7 else coins)(models, size, int(rng.integers(1 << 30)))
    gap = rng.uniform(1.5, 2.5) * rng.gamma(4, 0.25, size)
    return signals(members, int(rng.integers(1 << 30)), gap), members


def safe_scores(rng: Rng) -> Scores:
    members = (paired if rng.random() < 0.7 else coins)(32, 1000, int(rng.integers(1 << 30)))
    return signals(members, int(rng.integers(1 << 30)), rng.uniform(0, 0.1)), members


def audit_of_scores(scores: Scores) -> Outcomes:
    phi, members = scores
    # The attack that learns takes most of the time: in one audit of eight.
    every = ("auto",) if float(np.abs(phi).sum()) % 8 < 1 else ()
    attacks = every or ("lira-online", "lira-ranked", "lira-offline", "loss-threshold")
    rules = ("auc<=0.6", "tpr@0.1<=0.2", "tpr@0.01<=0.05")
    settings = AuditSettings(attack=attacks, rule=rules)
    return by_rule(audit_scores("scores", shadows(members, phi), settings))


def of_signals(change: Callable[[np.ndarray, Rng], np.ndarray]) -> Callable[[Scores, Rng], Scores]:
    return lambda scores, rng: (change(scores[0], rng), scores[1])


def of_members(change: Callable[[np.ndarray, Rng], np.ndarray]) -> Callable[[Scores, Rng], Scores]:
    return lambda scores, rng: (scores[0], change(scores[1], rng))


def moved_models(members: np.ndarray, rng: Rng) -> np.ndarray:
    return np.roll(members, int(rng.integers(1, len(members))), axis=0)


def moved_records(members: np.ndarray, rng: Rng) -> np.ndarray:
    return np.roll(members, int(rng.integers(1, members.shape[1])), axis=1)


def audit_of_one_attack(scores: Scores) -> Outcomes:
    phi, members = scores
    attack = ("lira-online", "loss-threshold")[members.size % 3 == 0]
    settings = AuditSettings(attack=(attack,), rule=("auc<=0.6", "tpr@0.1<=0.2"))
    return by_rule(audit_scores("scores", shadows(members, phi), settings))


SCORES = Room(
    leaky_scores,
    safe_scores,
    {
        "constant": of_signals(lambda phi, rng: np.ones_like(phi)),
        "constant a record": of_signals(lambda phi, rng: np.broadcast_to(phi.mean(0), phi.shape)),
        "permuted": of_signals(lambda phi, rng: rng.permuted(phi, axis=1)),
        "two values": of_signals(lambda phi, rng: np.where(phi > np.quantile(phi, 0.9), 1.0, -1.0)),
        "wrong sign": of_signals(lambda phi, rng: -phi),
        "half of the models turned": of_signals(
            lambda phi, rng: phi * np.where(np.arange(len(phi)) % 4 < 2, 1, -1)[:, None]
        ),
        "ties at the top": of_signals(lambda phi, rng: np.minimum(phi, np.quantile(phi, 0.01))),
        "levels of models": of_signals(lambda phi, rng: phi + 20 * rng.normal(size=(len(phi), 1))),
        "scales of models": of_signals(
            lambda phi, rng: phi * np.exp(2 * rng.normal(size=(len(phi), 1)))
        ),
        "members of another model": of_members(moved_models),
        "members of another record": of_members(moved_records),
        "records backwards": of_members(lambda members, rng: members[:, ::-1]),
        "copies as others are not": lambda scores, rng: (
            np.hstack([scores[0]] * 2),
            np.hstack([scores[1], ~scores[1]]),
        ),
        "noise": of_signals(lambda phi, rng: rng.normal(size=phi.shape)),
    },
    audit_of_scores,
)

ONE_ATTACK = Room(
    leaky_scores,
    safe_scores,
    {name: SCORES.blinds[name] for name in SCORES.blinds if "another" not in name},
    audit_of_one_attack,
)


# Vectors of people, and whose each is.

People = tuple[np.ndarray, np.ndarray]


def audit_of_vectors(people: People) -> Outcomes:
    rows, owner = people
    return by_rule(vectors.audited(rows, owner, metric=("cosine", "l2")[len(owner) // 8 % 2]))


def leaky_vectors(rng: Rng) -> People:
    return vectors.leaky(int(rng.integers(1 << 30)), people=int(rng.integers(60, 110)))


def safe_vectors(rng: Rng) -> People:
    return vectors.safe(int(rng.integers(1 << 30)))


def blind_vectors(kind: str) -> Callable[[People, Rng], People]:
    return lambda people, rng: (vectors.blinded(kind, *people, rng), people[1])


# Records of people.


def audit_of_records(columns: records.Columns) -> Outcomes:
    outcome = records.outcomes(records.audit(columns))
    return {rule: outcome[rule] for rule in outcome if rule != "false-match"}


def copied_records(columns: records.Columns, rng: Rng) -> records.Columns:
    some = columns["person"] < 40
    person = [columns["person"][some] + 1000 * copy for copy in range(12)]
    return {"person": np.concatenate(person), "item": np.tile(columns["item"][some], 12)}


def permuted_records(columns: records.Columns, rng: Rng) -> records.Columns:
    item = rng.permutation(columns["item"])
    _, kept = np.unique(columns["person"] * 1000 + item, return_index=True)
    return {"person": columns["person"][kept], "item": item[kept]}


def halved_records(columns: records.Columns, rng: Rng) -> records.Columns:
    """Every person under two ids; coarser items, in contrast, are a mitigation."""
    return {**columns, "person": 2 * columns["person"] + rng.integers(0, 2, len(columns["item"]))}


# Synthetic rows.

Files = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def rows_of(rng: Rng, size: int) -> dict[str, Any]:
    table = rng.normal(size=(size, 4)) @ np.triu(np.ones((4, 4)))
    columns: dict[str, Any] = dict(zip("abcd", table.T, strict=True))
    return {**columns, "job": rng.choice([f"job {number}" for number in range(30)], size)}


def leaky_synthetic(rng: Rng) -> Files:
    original, control = rows_of(rng, 600), rows_of(rng, 600)
    noise = {name: 0.01 * rng.normal(size=600) for name in "abcd"}
    copied = {name: original[name] + noise.get(name, 0) for name in "abcd"}
    return {**copied, "job": original["job"]}, original, control


def safe_synthetic(rng: Rng) -> Files:
    return rows_of(rng, 1500), rows_of(rng, 1500), rows_of(rng, 1500)


def audit_of_synthetic(files: Files) -> Outcomes:
    gate = ("closest<=0.3", "excess<=0.4")
    return by_rule(lethe.audit_synthetic(*files, list("abcd"), "job", rule=gate, **QUIET))


def of_synthetic(change: Callable[[Any, Rng], Any]) -> Callable[[Files, Rng], Files]:
    return lambda files, rng: ({**files[0], **change(files[0], rng)}, *files[1:])


def reordered(rows: dict[str, Any], rng: Rng) -> dict[str, Any]:
    order = rng.permutation(len(rows["a"]))
    return {name: column[order] for name, column in rows.items()}


def turned(rows: dict[str, Any], rng: Rng) -> dict[str, Any]:
    """Each column of numbers mirrored or not, by chance."""
    return {name: rng.choice([-1, 1]) * rows[name] for name in "abcd"}


def bent(rows: dict[str, Any], rng: Rng) -> dict[str, Any]:
    """A decreasing function of each column of numbers, within its range."""
    return {name: -np.cbrt(rows[name]) for name in "abcd"}


# A mechanism, and its claim.

PAIR = Pair("one more", ["a"] * 6, ["a"] * 5)


def answering(answer: Callable[[int, Rng], Any]) -> Callable[[list[str], int], Any]:
    return lambda data, seed: answer(len(data), np.random.default_rng(seed))


def audit_of_mechanism(mechanism: Callable[..., Any]) -> Outcomes:
    settings = MechanismSettings(Claim("epsilon", 1.0), runs=1500)
    return by_rule(audit_mechanism(mechanism, [PAIR], settings))


def leaky_mechanism(rng: Rng) -> Callable[..., Any]:
    scale = rng.uniform(0.1, 0.3)
    return answering(lambda n, noise: round(n + float(noise.laplace(scale=scale)), 3))


def safe_mechanism(rng: Rng) -> Callable[..., Any]:
    scale = rng.uniform(2.0, 3.0)
    return answering(lambda n, noise: round(n + float(noise.laplace(scale=scale)), 3))


# A language model, by what another engine says of its texts.


def audit_of_language(training: Any) -> Outcomes:
    return by_rule(language.audited(*training))


def leaky_language(rng: Rng) -> Any:
    training = language.made_up(rng, rng.uniform(0.35, 0.6), 300)
    return (*training, language.watched(training[1]))


def safe_language(rng: Rng) -> Any:
    training = language.made_up(rng, 0.0, 480, 200)
    rules = (*language.RULES[:2], "extraction<=0.2", language.RULES[3])
    return (*training, language.watched(training[1]), rules)


def blind_language(kind: str) -> Callable[[Any, Rng], Any]:
    return lambda training, rng: language.blinded(rng, kind, *training[:4])


ROOMS = {
    "scores": SCORES,
    "one attack": ONE_ATTACK,
    "vectors": Room(
        leaky_vectors,
        safe_vectors,
        {kind: blind_vectors(kind) for kind in vectors.BLIND},
        audit_of_vectors,
    ),
    "records": Room(
        lambda rng: records.many_items(int(rng.integers(1 << 30)), 300),
        lambda rng: records.few_items(int(rng.integers(1 << 30))),
        {"copied": copied_records, "permuted": permuted_records, "halved": halved_records},
        audit_of_records,
    ),
    "synthetic": Room(
        leaky_synthetic,
        safe_synthetic,
        {
            "constant": of_synthetic(lambda rows, rng: {a: np.ones(600) for a in "abcd"}),
            "one column shuffled": of_synthetic(
                lambda rows, rng: {"a": rng.permutation(rows["a"])}
            ),
            "columns exchanged": of_synthetic(lambda rows, rng: {"c": rows["d"], "d": rows["c"]}),
            "rows in another order": of_synthetic(reordered),
            "two values": of_synthetic(lambda rows, rng: {a: np.sign(rows[a]) for a in "abcd"}),
            "wrong sign": of_synthetic(lambda rows, rng: {a: -rows[a] for a in "abcd"}),
            "some signs wrong": of_synthetic(turned),
            "bent downwards": of_synthetic(bent),
            "other units": of_synthetic(lambda rows, rng: {a: 1000 * rows[a] for a in "abcd"}),
            "control is the original": lambda files, rng: (files[0], files[1], files[1]),
            "control is the synthetic": lambda files, rng: (files[0], files[1], files[0]),
            "files exchanged": lambda files, rng: (files[0], files[2], files[1]),
        },
        audit_of_synthetic,
    ),
    "language": Room(
        leaky_language,
        safe_language,
        {kind: blind_language(kind) for kind in language.BLINDED},
        audit_of_language,
    ),
    "mechanism": Room(
        leaky_mechanism,
        safe_mechanism,
        {
            "constant": lambda answer, rng: answering(lambda n, noise: 1.0),
            "constant record": lambda answer, rng: answering(lambda n, noise: {"n": 3, "t": "x"}),
            "rare": lambda answer, rng: answering(lambda n, noise: bool(noise.random() < 0.002)),
            "ties at the top": lambda answer, rng: lambda data, seed: min(answer(data, seed), -5.0),
        },
        audit_of_mechanism,
    ),
}


def outcomes(room: Room, release: Any) -> Outcomes:
    """The outcome of each rule; ``refused`` of all where the audit ends with a reason."""
    try:
        return room.audit(release)
    except LetheError as error:
        return {"": f"refused: {type(error).__name__}"}


# Scores without any leak.

NULLS: dict[str, Callable[[np.ndarray, Rng], np.ndarray]] = {
    "plain": lambda phi, rng: phi,
    "ties": lambda phi, rng: np.round(phi.clip(-1.5, 1.5)),
    "ties at the top": lambda phi, rng: np.minimum(phi, np.quantile(phi, 0.85)),
    "heavy tails": lambda phi, rng: phi + rng.standard_t(1.5, size=phi.shape),
    "correlated records": lambda phi, rng: (
        phi + 2 * np.repeat(rng.normal(size=(len(phi), phi.shape[1] // 10)), 10, axis=1)
    ),
}
_ATTACKS = ("lira-online", "lira-ranked", "loss-threshold")
_FPRS = (0.1, 0.01)


def null_hits(kind: str, seed: int) -> dict[str, bool]:
    """Whether each interval of one audit without a leak holds chance; each attack by itself."""
    rng = np.random.default_rng([seed, 3])
    members = paired(16, 600, seed)
    phi = NULLS[kind](signals(members, [seed, 4]), rng)
    hits = {}
    for attack in _ATTACKS:
        rates = run_attacks(shadows(members, phi), (attack,), _FPRS, seed=seed)[attack]
        for quantity, chance in (("auc", 0.5), *((fpr, fpr) for fpr in _FPRS)):
            rate = rates.auc if quantity == "auc" else rates.tpr[float(quantity)]
            hits[f"{attack}, {quantity}"] = rate.low <= chance <= rate.high
    return hits


# The run.


def work(rooms: list[str], blinded: int, safe: int, null: int) -> Iterator[tuple[str, int]]:
    """Keys of everything to do, rooms and questions in turn."""
    sizes = {"blinded": blinded // len(rooms), "safe": safe // len(rooms), "null": null}
    for seed in range(max(sizes.values())):
        for question, room in itertools.product(("blinded", "safe"), rooms):
            if seed < sizes[question]:
                yield f"{question}/{room}", seed
        if seed < sizes["null"]:
            yield from ((f"null/{kind}", seed) for kind in NULLS)


def result(key: str, seed: int) -> dict[str, Any]:
    """One line of the file."""
    question, _, name = key.partition("/")
    if question == "null":
        return {"hits": null_hits(name, seed)}
    room, rng = ROOMS[name], np.random.default_rng([seed, 1 + list(ROOMS).index(name)])
    if question == "safe":
        return {"outcomes": outcomes(room, room.safe(rng))}
    release, (kind, blind) = room.leaky(rng), list(room.blinds.items())[seed % len(room.blinds)]
    before = outcomes(room, release)
    return {"before": before, "blind": kind, "after": outcomes(room, blind(release, rng))}


def counts(path: Path) -> None:
    """Print what the file says."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    blinded, safe, cells = Counter[str](), Counter[str](), Counter[str]()
    unearned = []
    for line in lines:
        question, _, name = line["key"].partition("/")
        if question == "blinded":
            failed = [rule for rule, outcome in line["before"].items() if outcome == "fail"]
            blinded[f"{name}, audits"] += 1
            blinded[f"{name}, informative that do not fail"] += not failed
            if any(line["after"].get(rule) == "pass" for rule in failed):
                unearned.append(f"{name} {line['seed']}: {line['blind']}")
        elif question == "safe":
            safe[f"{name}, audits"] += 1
            safe[f"{name}, passed"] += set(line["outcomes"].values()) == {"pass"}
        else:
            for quantity, hit in line["hits"].items():
                cells[f"{name}, {quantity}, audits"] += 1
                cells[f"{name}, {quantity}, covered"] += hit
    total = sum(count for name, count in blinded.items() if name.endswith("audits"))
    missed = sum(blinded.values()) - total
    print(
        f"blinded: {total} audits, {len(unearned)} unearned passes; informative twins that do not"
    )
    print(f"fail: {missed} ({missed / max(total, 1):.1%})", *unearned[:20], sep="\n  ")
    for name in ROOMS:
        tried, passed = safe[f"{name}, audits"], safe[f"{name}, passed"]
        print(
            f"{name}: blinded {blinded[f'{name}, audits']}, informative that do not fail "
            f"{blinded[f'{name}, informative that do not fail']}; safe {tried}, passed {passed}"
        )
    shares = {
        name.removesuffix(", audits"): cells[name.replace(", audits", ", covered")] / count
        for name, count in cells.items()
        if name.endswith(", audits")
    }
    for name, share in sorted(shares.items(), key=lambda item: item[1]):
        print(f"null, {name}: {share:.1%} of {cells[f'{name}, audits']}")


def main() -> None:
    """Do what is missing, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rooms", nargs="+", choices=list(ROOMS), default=list(ROOMS))
    for name, size in (("blinded", 2000), ("safe", 500), ("null", 1000), ("minutes", 600)):
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--counts", action="store_true", help="print what is there")
    options = parser.parse_args()
    done = set()
    if options.out.exists():
        lines = map(json.loads, options.out.read_text().splitlines())
        done = {(line["key"], line["seed"]) for line in lines}
    end = time.monotonic() + 60 * options.minutes
    options.out.parent.mkdir(exist_ok=True)
    with options.out.open("a") as file:
        for key, seed in work(options.rooms, options.blinded, options.safe, options.null):
            if options.counts or time.monotonic() > end:
                break
            if (key, seed) not in done:
                start = time.process_time()
                line = {"key": key, "seed": seed, **result(key, seed)}
                line["seconds"] = round(time.process_time() - start, 2)
                file.write(json.dumps(line, default=bool) + "\n")
                file.flush()
    counts(options.out)


if __name__ == "__main__":
    main()
