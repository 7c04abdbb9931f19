"""Every attacker's scores on one release: verification, and singling out by size and by vectors.

Each probe is scored with its owner's enrolment (mated) and with those of other people drawn at
random (non-mated). Log-likelihood ratios are calibrated on the people of the other fold, as an
adversary would who knows whose vectors those are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.of_vectors import (
    ByPeople,
    ByVectors,
    ClosedWorld,
    Grouping,
    Matched,
    Scored,
    SinglingOut,
    Verification,
    Worst,
)
from lethe.evidence.risk import RELEASE, AttackResult, Risk, family_confidence, risk_of
from lethe.reidentification.attack import measure
from lethe.reidentification.attackers import Panel
from lethe.reidentification.by_user import scaled, share_of_users
from lethe.reidentification.enrolled import MOST_PEOPLE, assigned
from lethe.reidentification.family import Attacker
from lethe.reidentification.gallery import Index, means
from lethe.reidentification.sight import Sight, pooled
from lethe.reidentification.sight import grouped as first_of
from lethe.reidentification.vectors import Float
from lethe.reidentification.verification import (
    FPRS,
    ScoredPairs,
    calibration,
    others,
    verify,
)

PAIRS = 50_000
"""Approximate number of non-mated pairs drawn; at most 50 a probe."""
_MOST = 50
METRICS = {
    "eer": ("eer", -1),
    "min-cllr": ("min_cllr", -1),
    "d-sys": ("linkability", 1),
    "disclosure": ("expected", 1),
}
"""Quantities of rules: field of `Verification`, and the direction in which it is worse."""
SIZES = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
VECTORS = (1, 2, 3, 5, 10, 20, 50)
CURVES = ("cosine", "plda")
"""Attackers whose curves are drawn."""
RANKS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def pairs_of(
    panel: Panel, attacker: Attacker, seen: Sight, seed: int = 0, owner: Index | None = None
) -> ScoredPairs:
    """Scores of an attacker on what it sees, calibrated across folds.

    Args:
        owner: (P,) whom each probe is claimed to be, for a control; by default its owner.

    Raises:
        InputError: zero vectors under cosine.
        NotMeasurable: too few people to learn from or to draw others from.
    """
    if owner is not None:  # in every part: also which fold a probe belongs to
        seen = replace(seen, owner=owner)
    claimed = seen.owner
    fits = panel.fits(attacker, seen)
    each = int(np.clip(PAIRS // len(claimed), 1, _MOST))
    whom = others(claimed, len(seen.gallery), each, seed)
    scores = panel.scores(attacker, seen, fits, np.concatenate([claimed[:, None], whom], axis=1))
    mated, rest = scores[:, 0], scores[:, 1:]
    ratios = np.empty_like(scores)
    for half in (False, True):
        mine = panel.fold[seen.owner] == half
        if not (mine.any() and (~mine).any()):
            raise NotMeasurable("calibration needs probes of people in both folds.")
        slope, offset = calibration(mated[~mine], rest[~mine].ravel())
        ratios[mine] = slope * scores[mine] + offset
    return ScoredPairs(
        mated,
        claimed,
        rest.ravel(),
        np.repeat(claimed, each),
        whom.ravel(),
        (ratios[:, 0], ratios[:, 1:].ravel()),
    )


@dataclass(frozen=True, eq=False)
class Scorer:
    """Scores releases with one panel and seed.

    Attributes:
        invalid: name of an attacker that does not count, and why.
    """

    panel: Panel
    confidence: float = 0.95
    seed: int = 0
    invalid: Mapping[str, str] = field(default_factory=dict)
    replicates: int = 100

    def scored(self, sight: Sight, clean: Sight, curve: bool = False) -> Scored:
        """All attackers on one release; intervals hold for all valid ones at once.

        Args:
            sight: the release, on which metrics are learned and people are verified.
            clean: the same without noise, for those who hold it.
            curve: also DET curves.
        """
        valid = sum(one.name not in self.invalid for one in self.panel.attackers)
        sure = family_confidence(self.confidence, max(valid, 1))

        def one(attacker: Attacker) -> Verification | str:
            try:
                pairs = pairs_of(
                    self.panel, attacker, self.panel.seen(attacker, sight, clean), self.seed
                )
                return verify(
                    pairs,
                    confidence=sure,
                    replicates=self.replicates,
                    seed=self.seed,
                    curve=curve,
                )
            except (InputError, NotMeasurable) as error:
                return str(error)

        ran = self.panel.each(one, self.panel.attackers)
        by_name = {a.name: found for a, found in zip(self.panel.attackers, ran, strict=True)}
        measured = {n: found for n, found in by_name.items() if isinstance(found, Verification)}
        skipped = {n: found for n, found in by_name.items() if isinstance(found, str)}
        rows = [
            replace(one, name=n, valid=n not in self.invalid, why=self.invalid.get(n, ""))
            for n, one in measured.items()
        ]
        drawn = FPRS if any(one.missed for one in rows) else ()
        return Scored(rows, self._worst(measured), skipped, drawn)

    def _worst(self, measured: Mapping[str, Verification]) -> dict[str, Worst]:
        worst: dict[str, Worst] = {}
        for quantity, (name, sign) in METRICS.items():
            results = [
                AttackResult(
                    attacker,
                    _signed(getattr(found, name), sign),
                    valid=attacker not in self.invalid,
                    why=self.invalid.get(attacker, ""),
                )
                for attacker, found in measured.items()
            ]
            if not results:
                worst[quantity] = Worst(None, Refusal("no attacker could be scored"))
                continue
            risk = risk_of(results)
            if isinstance(risk, Risk):
                found = _signed(risk.estimate, sign)
                sure = replace(found, confidence=self.confidence)
                worst[quantity] = Worst(risk.attack, sure)
            else:
                worst[quantity] = Worst(None, risk)
        return worst

    def controls(self, sight: Sight) -> dict[str, tuple[float, float, float]]:
        """Equal error rate of each attacker with permuted people, with limits.

        Whoever is claimed by chance must be told from other people no better than by chance: 0.5.
        What is learned is learned on these claims. Three permutations; the limits are their t.
        """
        sure = family_confidence(self.confidence, len(self.panel.attackers))
        rng = np.random.default_rng([self.seed, 92])
        users = len(sight.gallery)
        names = [rng.permutation(users) for _ in range(3)]

        def one(attacker: Attacker) -> tuple[float, float, float] | None:
            try:
                seen = self.panel.seen(attacker, sight, sight)
                every = []
                for name in names:
                    pairs = pairs_of(self.panel, attacker, seen, self.seed, name[seen.owner])
                    every.append(verify(pairs, confidence=sure, replicates=30, seed=self.seed).eer)
            except (InputError, NotMeasurable):
                return None
            values, lows, highs = (
                [x for x in (getattr(e, key) for e in every) if x is not None]
                for key in ("value", "low", "high")
            )
            middle = sorted(range(3), key=lambda at: values[at])[1]
            return values[middle], lows[middle], highs[middle]

        ran = self.panel.each(one, self.panel.attackers)
        return {
            a.name: result
            for a, result in zip(self.panel.attackers, ran, strict=True)
            if result is not None
        }


def closed_world(
    panel: Panel, results: Sequence[AttackResult], sight: Sight, clean: Sight, confidence: float
) -> ClosedWorld:
    """Assign the new vectors of each person to an enrolled person, one to one.

    The scores are those of the strongest attacker of all vectors of a person; limits hold for all
    that it was chosen from.

    Raises NotMeasurable: no such attacker, people without new vectors, or more than 5,000.
    """
    users = len(sight.gallery)
    joining = [a for a in panel.attackers if a.vectors != 1]
    lows = {
        result.attack: result.estimate.low or 0.0
        for result in results
        if result.valid and result.view == RELEASE and isinstance(result.estimate, Estimate)
    }
    able = [a for a in joining if a.name in lows]
    if not able or users > MOST_PEOPLE or len(np.unique(sight.owner)) < users:
        raise NotMeasurable(
            f"one-to-one assignment needs vectors known to be of one person, for everybody, and "
            f"{MOST_PEOPLE:,} people at most."
        )
    attacker = max(able, key=lambda a: lows[a.name])
    seen = panel.seen(attacker, sight, clean)
    scores = np.empty((users, users))
    for rows, table in panel.tables(attacker, seen, panel.fits(attacker, seen)):
        scores[rows] = table - table.max(axis=1, keepdims=True)
    hits = assigned(scores)
    share = share_of_users(hits, np.ones(users), family_confidence(confidence, len(able)))
    share = replace(share, confidence=confidence, method=f"{share.method}; one assignment of all")
    knows = f"{attacker.knows}; that everybody is in both periods (closed world)"
    return ClosedWorld(attacker.name, knows, share)


def _signed(one: Estimate, sign: int) -> Estimate:
    """The estimate, or its negative for metrics where lower is worse."""
    if sign > 0:
        return one
    value, low, high = (None if x is None else -x for x in (one.value, one.high, one.low))
    return Estimate(value, low, high, one.confidence, one.method, one.n)


def singling_out(
    panel: Panel, names: Sequence[str], sight: Sight, confidence: float = 0.95
) -> SinglingOut:
    """Curves of some attackers on a release, each point with limits by people (one at a time).

    Sizes are those up to G: Top-1 among a random subset that holds the owner follows exactly from
    the rank among all; nothing is extrapolated. Metrics stay learned on all people of a fold. An
    attacker with at most L vectors of a person has those there are, the first of each.

    Args:
        names: attackers of the panel that look at one new vector.
    """
    users = len(sight.gallery)
    sizes: list[ByPeople] = []
    matched: list[Matched] = []
    vectors: list[ByVectors] = []
    enrolled: list[ByVectors] = []
    fewer = [size for size in SIZES if size < users]
    tries, rows = np.bincount(sight.owner, minlength=users), sight.counts

    def ranked(attacker: Attacker, seen: Sight) -> Any:
        return panel.rank(attacker, seen, panel.fits(attacker, seen))

    def first(attacker: Attacker, seen: Sight) -> Estimate:
        order = ranked(attacker, seen)
        return measure(order, seen.owner, top=(1,), confidence=confidence).top[1]

    for attacker in (a for a in panel.attackers if a.name in names):
        order = ranked(attacker, panel.seen(attacker, sight, sight))
        ranks = tuple(k for k in RANKS if k <= users)
        whole = measure(order, sight.owner, top=ranks, common=fewer, confidence=confidence)
        tops = {**whole.common, users: whole.top[1]}
        sizes += [ByPeople(attacker.name, n, top, scaled(top, n)) for n, top in tops.items()]
        matched += [Matched(attacker.name, k, share) for k, share in whole.top.items()]
        for number in (n for n in VECTORS if n <= int(tries.max())):
            # One of each person too, so that all points count people alike.
            probes, owner = pooled(sight.probes, sight.owner, number)
            share = first(attacker, replace(sight, probes=probes, owner=owner))
            vectors.append(ByVectors(attacker.name, number, share))
        for number in (n for n in VECTORS if n <= int(rows.max())):
            kept = np.sort(first_of(sight.user, number)[0])
            few, user = sight.rows[kept], sight.user[kept]
            less = replace(sight, rows=few, user=user, gallery=means(few, user, users))
            share = first(attacker, less)
            enrolled.append(ByVectors(attacker.name, number, share))
    return SinglingOut(users, sizes, vectors, enrolled, matched)


def grouped(sight: Sight, seed: int = 0, confidence: float = 0.95) -> Grouping:
    """Cluster probes without any label by average cosine linkage, and compare with the people.

    The attacker knows how many people there are. The index is that of Hubert and Arabie 1985; the
    interval is a jackknife over people, with the clusters as they are. People are drawn at random
    with all of their vectors, up to 2,000 vectors.

    Raises NotMeasurable: fewer than 5 people with 2 probes.
    """
    tries = np.bincount(sight.owner, minlength=len(sight.gallery))
    people = np.flatnonzero(tries >= 2)
    order = np.random.default_rng([seed, 93]).permutation(people)
    drawn = order[: max(5, int((np.cumsum(tries[order]) <= 2000).sum()))]
    if len(people) < 5:
        raise NotMeasurable(f"clustering needs 5 people of 2 vectors, got {len(people)}.")
    mine = np.isin(sight.owner, drawn)
    rows, owner = sight.probes[mine], np.unique(sight.owner[mine], return_inverse=True)[1]
    from scipy.cluster.hierarchy import fcluster, linkage

    length = np.linalg.norm(rows, axis=1, keepdims=True)
    tree = linkage(rows / np.where(length > 0, length, 1.0), "average")
    cluster = fcluster(tree, len(drawn), "maxclust") - 1
    table = np.zeros((len(drawn), int(cluster.max()) + 1))
    np.add.at(table, (owner, cluster), 1)
    index = adjusted_rand(table)
    left_out = [adjusted_rand(np.delete(table, person, axis=0)) for person in range(len(table))]
    people_left = len(left_out)
    deviation = np.sqrt((people_left - 1) * np.var(left_out))
    from scipy.special import stdtrit

    half = float(stdtrit(people_left - 1, (1 + confidence) / 2) * deviation)
    method = f"jackknife over {people_left} people; n counts vectors"
    by_chance = np.zeros_like(table)
    np.add.at(by_chance, (np.random.default_rng([seed, 94]).permutation(owner), cluster), 1)
    return Grouping(
        Estimate(
            index, max(-1.0, index - half), min(1.0, index + half), confidence, method, len(rows)
        ),
        adjusted_rand(by_chance),
        len(rows),
        people_left,
    )


def adjusted_rand(table: Float) -> float:
    """Adjusted Rand index of a contingency table (classes, clusters) of counts.

    >>> adjusted_rand(np.diag([2.0, 3.0]))
    1.0
    >>> round(adjusted_rand(np.ones((2, 2))), 3)
    -0.5
    """

    def pairs(counts: Float) -> float:
        return float((counts * (counts - 1)).sum() / 2)

    total = float(table.sum())
    rows, columns = pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = rows * columns / max(total * (total - 1) / 2, 1.0)
    most = (rows + columns) / 2
    return 1.0 if most == expected else (pairs(table) - expected) / (most - expected)
