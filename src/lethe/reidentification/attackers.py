"""Every attacker on released vectors, in one shape: what it holds, what it learns, whom it names.

An attacker enrols people by the mean of their earlier vectors and looks up whose is nearest to a
new one. What differs (distance, learned metric, noise-free enrolment, vectors known to be of one
person) is knowledge of the adversary, in `Attacker.knows`; a function of the release is a view.

Metrics are learned in two person-disjoint folds, on the release as the adversary sees it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.risk import RELEASE
from lethe.reidentification.by_user import Linear, mean_of_pools, scaled, share_of_users
from lethe.reidentification.gallery import Index
from lethe.reidentification.geometry import nearest
from lethe.reidentification.ranks import Ranks, ranks
from lethe.reidentification.sight import ALL, LEARNED, Learned, Sight, learn, pooled, whitened
from lethe.reidentification.vectors import Float, one_blas_thread

T = TypeVar("T")
R = TypeVar("R")

View = Callable[[Float], Float]
"""A function of released rows (n, d) to (n, c), affine: of a mean it is the mean."""

PLAIN = ("cosine", "l2")
_PAPERS = {
    "cosine": "gallery and probe protocol of biometric identification (ISO/IEC 19795-1)",
    "whitened": "Mahalanobis distance; shrinkage by Ledoit and Wolf 2004",
    "within-class": "Hatch, Kajarekar and Stolcke 2006",
    "lda": "Fisher 1936; Belhumeur, Hespanha and Kriegman 1997",
    "plda": "Ioffe 2006; Garcia-Romero and Espy-Wilson 2011",
}
_GUESSES = 2500  # probes on which the agreement of two draws is looked at
_PRECISE = 0.01
"""Half an interval as a share of its value, from which on further draws would say nothing new."""
_CHANCE_HITS = 100  # expected of a permuted control: enough to see a lift of 2
_CONTROL_PAIRS = 4e9  # of probes and people in all permutations of a control
_TOGETHER = 200_000  # probes that are ranked at once
_AT_ONCE = 1_000_000  # numbers of a table of scores
_DENSE = 2  # noise draws of attackers who score every pair


@dataclass(frozen=True)
class Attacker:
    """One attacker: a distance and what the adversary holds.

    Attributes:
        metric: ``cosine``, ``l2``, ``whitened`` (scatter of enrolled rows), ``within-class``,
            ``lda`` or ``plda`` (learned from other people's pairs).
        vectors: new vectors that are known to be of one person and are averaged; `ALL` of them.
    """

    name: str  # unique in the registry; what rules, tables and findings call it
    title: str  # in words
    metric: str
    clean_gallery: bool = False  # people were enrolled before the noise was introduced
    vectors: int = 1
    projected: bool = False  # also runs on a view of fewer dimensions, such as the logits
    normalised: bool = False  # scores are normalised by those of other people (AS-norm)

    @property
    def paper(self) -> str:
        """Where its metric comes from."""
        paper = _PAPERS.get(self.metric, _PAPERS["cosine"])
        return f"{paper}; Matejka et al. 2017" if self.normalised else paper

    @property
    def knows(self) -> str:
        """What the adversary holds, in one line."""
        held = "without noise" if self.clean_gallery else "as released"
        parts = [f"earlier vectors of the same people, {held}"]
        if self.metric in LEARNED:
            parts.append("both vectors of other people, to learn the metric from")
        if self.normalised:
            parts.append("vectors of other people, to normalise scores by")
        joined = {1: "one new vector", ALL: "all new vectors of a person, known to be of one"}
        parts.append(joined.get(self.vectors, f"{self.vectors} new vectors of one person"))
        return "; ".join(parts)


ATTACKERS = (
    Attacker("cosine", "Nearest enrolled mean, cosine distance", "cosine"),
    Attacker("l2", "Nearest enrolled mean, Euclidean distance", "l2", projected=True),
    Attacker("whitened", "Nearest in the metric of the scatter within enrolment", "whitened"),
    Attacker("within-class", "Within-class covariance of other people's pairs", "within-class"),
    Attacker("lda", "Linear discriminants of other people", "lda"),
    Attacker("plda", "Probabilistic linear discriminants of other people", "plda"),
    Attacker("clean gallery", "Nearest clean mean, Euclidean distance", "l2", True),
    Attacker("2 vectors", "Mean of 2 vectors against clean means", "l2", True, 2),
    Attacker("5 vectors", "Mean of 5 vectors against clean means", "l2", True, 5),
    Attacker("all vectors", "Mean of all vectors against clean means", "l2", True, ALL, True),
    Attacker("plda, all vectors", "PLDA of the mean of all vectors", "plda", False, ALL),
    Attacker(
        "plda, clean gallery, all vectors",
        "PLDA of the mean of all vectors against clean means",
        "plda",
        True,
        ALL,
    ),
)
"""The registry: all are run on every candidate and every noise level."""
NORMALISED = (
    Attacker("cosine, as-norm", "Cosine, scores normalised", "cosine", normalised=True),
    Attacker("plda, as-norm", "PLDA, scores normalised", "plda", normalised=True),
)
"""Run where score normalisation is asked for."""
COHORT = 200
"""The nearest other people by whose scores a score is normalised."""


def allowed(
    clean_gallery: bool = True, vectors: int = ALL, normalised: bool = False
) -> tuple[Attacker, ...]:
    """The attackers that a threat model allows.

    Args:
        normalised: whether those of `NORMALISED` are among them.
        clean_gallery: whether the adversary may hold vectors from before the noise.
        vectors: the most vectors of a person that it may know to belong together; `ALL` of them.

    >>> [attacker.name for attacker in allowed(clean_gallery=False, vectors=1)]
    ['cosine', 'l2', 'whitened', 'within-class', 'lda', 'plda']
    """
    return tuple(
        attacker
        for attacker in (*ATTACKERS, *(NORMALISED if normalised else ()))
        if (clean_gallery or not attacker.clean_gallery)
        and (vectors == ALL or (attacker.vectors != ALL and attacker.vectors <= vectors))
    )


@dataclass(frozen=True, eq=False)
class Panel:
    """Attackers that look at the same people."""

    attackers: tuple[Attacker, ...]  # which
    fold: NDArray[np.bool_]  # (G,) see `folds`
    backend: str = "auto"  # see `ranks`
    workers: int = 1  # attackers that run at the same time

    def seen(self, attacker: Attacker, sight: Sight, clean: Sight) -> Sight:
        """The release with what this attacker holds beside it."""
        if attacker.clean_gallery:
            sight = replace(sight, rows=clean.rows, gallery=clean.gallery)
        if attacker.vectors == 1:
            return sight
        probes, owner = pooled(sight.probes, sight.owner, attacker.vectors)
        return replace(sight, probes=probes, owner=owner)

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """What `work` gives for every item, in their order, on the panel's threads."""
        if self.workers == 1:
            return [work(item) for item in items]
        with one_blas_thread(), ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(work, items))

    def fits(self, attacker: Attacker, seen: Sight) -> tuple[Learned, ...]:
        """Metrics to attack fold False and fold True with, each learned on the other.

        Raises NotMeasurable: too few people, or nothing to learn from.
        """
        if attacker.metric in PLAIN:
            return ()
        if attacker.metric == "whitened":
            return (whitened(seen),)
        return tuple(learn(attacker.metric, seen, self.fold != half) for half in (False, True))

    def rank(self, attacker: Attacker, seen: Sight, fits: Sequence[Learned]) -> Ranks:
        """Rank of the owner for every probe of what an attacker sees."""
        closer, tied = (np.zeros(len(seen.owner), np.int64) for _ in range(2))
        if attacker.normalised:
            for rows, scores in self._normalised(attacker, seen, fits):
                true = scores[np.arange(len(rows)), seen.owner[rows]][:, None]
                near = np.abs(scores - true) <= 1e-9 * (1 + np.abs(true))
                closer[rows] = ((scores > true) & ~near).sum(axis=1)
                tied[rows] = near.sum(axis=1) - 1
            return Ranks(closer, tied, len(seen.gallery), "numpy", 1.0)
        name, again = "", 0.0
        for mine, probes, gallery, metric in self._mapped(attacker, seen, fits):
            found = ranks(
                probes,
                gallery,
                seen.owner[mine],
                metric,
                backend=self.backend,
            )
            closer[mine], tied[mine] = found.closer, found.tied
            name, again = found.backend, again + found.decided_in_float64 * float(mine.mean())
        return Ranks(closer, tied, len(seen.gallery), name, again)

    def named(self, attacker: Attacker, seen: Sight, fits: Sequence[Learned]) -> Index:
        """(P,) whom an attacker names for every probe; of several at one distance the first."""
        user = np.zeros(len(seen.owner), np.intp)
        if attacker.normalised:
            for rows, scores in self._normalised(attacker, seen, fits):
                user[rows] = scores.argmax(axis=1)
            return user
        for mine, probes, gallery, metric in self._mapped(attacker, seen, fits):
            user[mine] = nearest(probes, gallery, metric).user
        return user

    def scores(
        self, attacker: Attacker, seen: Sight, fits: Sequence[Learned], whom: Index
    ) -> Float:
        """(P, k) scores of every probe with k enrolled people (P, k); higher = nearer.

        Raises InputError: zero vectors under cosine.
        """
        found = np.empty(whom.shape)
        if attacker.normalised:
            for rows, table in self._normalised(attacker, seen, fits):
                found[rows] = np.take_along_axis(table, whom[rows], axis=1)
            return found
        for mine, probes, gallery, metric in self._mapped(attacker, seen, fits):
            rows, step = np.flatnonzero(mine), max(1, _AT_ONCE // (whom.shape[1] * len(gallery[0])))
            if metric == "cosine":
                probes, gallery = _unit(probes), _unit(gallery)
            for first in range(0, len(rows), step):
                some = rows[first : first + step]
                left, right = probes[first : first + step, None], gallery[whom[some]]
                if metric == "cosine":
                    found[some] = (left * right).sum(axis=2)
                else:
                    found[some] = -((left - right) ** 2).sum(axis=2)
        return found

    def _normalised(
        self, attacker: Attacker, seen: Sight, fits: Sequence[Learned]
    ) -> Iterator[tuple[Index, Float]]:
        """Rows of probes and their normalised scores (rows, G): adaptive symmetric norm.

        Probes of one fold are normalised by enrolled people of the other, each enrolled person by
        the same without itself.

        Raises NotMeasurable: fewer than 20 people in a fold.
        """
        for half in (False, True):
            mine = np.flatnonzero(self.fold[seen.owner] == half)
            cohort = np.flatnonzero(self.fold != half)
            if not len(mine):
                continue
            if len(cohort) < 20:
                raise NotMeasurable(f"normalising scores needs 20 other people, got {len(cohort)}.")
            fit = fits[int(half)] if fits else None
            probes, gallery = seen.probes[mine], seen.gallery
            if fit is not None:
                probes, gallery = fit.probes(probes), fit.gallery(gallery)
            cosine = attacker.metric == "cosine"
            if cosine:
                probes, gallery = _unit(probes), _unit(gallery)
            top = min(COHORT, len(cohort) - 1)
            between = _table(gallery, gallery[cohort], cosine)
            between[cohort, np.arange(len(cohort))] = -np.inf
            mean, deviation = _of_nearest(between, top)
            step = max(1, _AT_ONCE // len(gallery))
            for first in range(0, len(mine), step):
                table = _table(probes[first : first + step], gallery, cosine)
                own_mean, own = _of_nearest(table[:, cohort], top)
                scores = (table - own_mean[:, None]) / own[:, None] + (table - mean) / deviation
                yield mine[first : first + step], scores / 2

    def _mapped(
        self, attacker: Attacker, seen: Sight, fits: Sequence[Learned]
    ) -> Iterator[tuple[NDArray[np.bool_], Float, Float, str]]:
        """Which probes, these and the gallery in the coordinates of a metric, and its name."""
        every = np.ones(len(seen.owner), bool)
        if not fits:
            yield every, seen.probes, seen.gallery, attacker.metric
            return
        for half, fit in zip((False, True), fits, strict=False):
            mine = every if len(fits) == 1 else self.fold[seen.owner] == half
            if mine.any():
                yield mine, fit.probes(seen.probes[mine]), fit.gallery(seen.gallery), "l2"


def _unit(vectors: Float) -> Float:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not length.all():
        raise InputError("a zero vector has no direction, so no cosine; use metric='l2'.")
    return np.asarray(vectors / length)


def _table(left: Float, right: Float, cosine: bool) -> Float:
    """(n, m) scores: cosine, or minus the squared distance."""
    product = left @ right.T
    if cosine:
        return np.asarray(product)
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    return np.asarray(2 * product - squares)


def _of_nearest(scores: Float, top: int) -> tuple[Float, Float]:
    """Mean and deviation of the highest scores of each row."""
    best = -np.partition(-scores, top - 1, axis=1)[:, :top]
    return best.mean(axis=1), np.maximum(best.std(axis=1), 1e-12)


@dataclass(frozen=True, eq=False)
class Tally:
    """Whom one attacker names in one view of a release.

    Attributes:
        agreement: share of probes, or of 2,500 of them, for which two draws name the same person;
            0 where it was not looked at, for there are many probes.
    """

    attacker: Attacker  # who attacks
    view: str  # ``release``, or the function of the release that is looked at
    hits: Float  # (G,) by person, over all draws; ties count by expectation
    tries: Float  # (G,) probes by person, over all draws
    draws: int  # noise draws behind it
    agreement: float = 0.0

    def lift(self, confidence: float) -> Estimate:
        """Top-1 over chance, 1 / G; interval by people."""
        # Where the noise changes little, another draw of the same probe is no further trial.
        alone = float(self.tries.sum()) / (1 + (self.draws - 1) * self.agreement)
        # Averages over ties may leave their range by a rounding.
        asked = self.tries > 0
        hits, tries = np.minimum(self.hits, self.tries)[asked], self.tries[asked]
        found = share_of_users(hits, tries, confidence, alone)
        return scaled(found, len(self.hits))

    @property
    def precise(self) -> bool:
        """Whether further draws would change nothing that is read."""
        if not self.draws:
            return False
        found = self.lift(0.95)
        return found.width is not None and found.width / 2 <= _PRECISE * (found.value or 0.0)

    def linear(self) -> Linear:
        """Top-1 with each person's share in its error, to compare two of them in pairs."""
        total = float(self.tries.sum())
        share, asked = float(self.hits.sum()) / total, self.tries > 0
        error = (self.hits - share * self.tries)[asked] / total
        return Linear(share, error, 0.0, "t by users")


def tallies(
    panel: Panel,
    draws: Iterable[tuple[Sight, Sight]],
    clean: Sight,
    *,
    views: Mapping[str, View] = MappingProxyType({}),
    single: int | None = None,
    skipped: dict[str, str] | None = None,
) -> list[Tally]:
    """Every attacker of a panel on some draws of one release and on its views.

    An attacker whose interval is within 1 % of its lift draws no more; looking in between moves
    the estimate by less than that.

    Args:
        draws: of each draw the sight that metrics are learned on (the same object for several
            draws learns once) and the one that is attacked.
        clean: the release without noise, for those who hold it.
        views: further functions of the release, affine in a row; on them only attackers that are
            `projected` run.
        single: draws that attackers of single vectors get, who have more probes; all by default.
            Those that normalise scores get 2 at most.
        skipped: filled with name and reason of attackers who cannot run.

    Returns: One tally an attacker and view, the release's first, in their order.
    """
    users = len(clean.gallery)
    functions: dict[str, View | None] = {RELEASE: None, **views}

    def through(sight: Sight) -> dict[str, Sight]:
        return {view: _through(function, sight) for view, function in functions.items()}

    held = through(clean)
    runs = [
        _Run(panel, held[view], Tally(attacker, view, np.zeros(users), np.zeros(users), 0))
        for view in functions
        for attacker in panel.attackers
        if view == RELEASE or attacker.projected
    ]
    last, source = None, held
    for number, (learned_on, sight) in enumerate(draws):
        if learned_on is not last:
            last, source = learned_on, through(learned_on)
        asked = [
            run
            for run in runs
            if (run.attacker.vectors != 1 or single is None or number < single)
            and (not run.attacker.normalised or number < _DENSE)
            and not run.tally.precise
        ]
        if not asked:
            break
        work = functools.partial(_attack_once, source=source, looked=through(sight))
        for run, why in zip(asked, panel.each(work, asked), strict=True):
            if why is not None:
                runs.remove(run)
                if skipped is not None:
                    skipped[f"{run.attacker.name} on {run.tally.view}"] = why
    return [run.tally for run in runs]


@dataclass(eq=False)
class _Run:
    """One attacker in one view, draw after draw.

    Attributes:
        source: what `fits` were learned on.
        guess: (P,) whom it named in the first draw, where that is looked at.
    """

    panel: Panel
    held: Sight  # the release without noise
    tally: Tally  # so far
    source: Sight | None = None
    fits: tuple[Learned, ...] = ()
    guess: Index | None = None

    @property
    def attacker(self) -> Attacker:
        return self.tally.attacker


def _attack_once(run: _Run, source: Mapping[str, Sight], looked: Mapping[str, Sight]) -> str | None:
    """Attack one more draw; why that cannot be, if it cannot."""
    panel, attacker, tally = run.panel, run.attacker, run.tally
    view, users = tally.view, len(tally.hits)
    try:
        if run.source is not source[view]:
            run.source = source[view]
            run.fits = panel.fits(attacker, panel.seen(attacker, source[view], run.held))
        seen = panel.seen(attacker, looked[view], run.held)
        credit = first_credit(panel.rank(attacker, seen, run.fits))
        agreement = tally.agreement
        if attacker.vectors != 1 and tally.draws < 2:
            few = slice(None, None, -(-len(seen.owner) // _GUESSES))
            some = replace(seen, probes=seen.probes[few], owner=seen.owner[few])
            guess = panel.named(attacker, some, run.fits)
            if run.guess is not None:
                agreement = float((guess == run.guess).mean())
            run.guess = guess
    except (InputError, NotMeasurable) as error:
        return str(error)
    run.tally = replace(
        tally,
        hits=tally.hits + np.bincount(seen.owner, credit, minlength=users),
        tries=tally.tries + np.bincount(seen.owner, minlength=users),
        draws=tally.draws + 1,
        agreement=agreement,
    )
    return None


def _through(view: View | None, sight: Sight) -> Sight:
    """The sight of one who looks at a function of the release alone."""
    if view is None:
        return sight
    return replace(
        sight, rows=view(sight.rows), gallery=view(sight.gallery), probes=view(sight.probes)
    )


def first_credit(found: Ranks) -> Float:
    """(P,) chance that the owner is named first, ties broken at random."""
    return np.asarray(np.where(found.closer == 0, 1 / (1 + found.tied), 0.0))


def permuted_lift(
    panel: Panel, attacker: Attacker, seen: Sight, seed: int = 0, confidence: float = 0.95
) -> Estimate:
    """Lift where every person's probes are those of another, by chance: it must be 1.

    Whatever is learned is learned on the permuted pairs. Top-1 is 1 / G in expectation for a fixed
    metric; permutations are as many as give 100 hits by chance, so that a lift of 2 would be seen.
    Among very many people it is tried on some of them, drawn by chance.
    """
    users, trials = len(seen.gallery), len(seen.owner)
    number = max(10, -(-_CHANCE_HITS * users // trials))
    rng = np.random.default_rng([seed, 63])
    if number * users * trials > _CONTROL_PAIRS:
        share = math.sqrt(_CONTROL_PAIRS / (number * users * trials))
        people = np.isin(np.arange(users), rng.permutation(users)[: max(100, int(share * users))])
        seen, panel = seen.among(people), replace(panel, fold=panel.fold[people])
        users, trials = len(seen.gallery), len(seen.owner)
    others = [rng.permutation(users)[seen.owner] for _ in range(number)]
    if attacker.metric not in LEARNED and not attacker.normalised:
        credit = _credit_of_others(panel, attacker, seen, others)
        return mean_of_pools((users * credit.mean(axis=1)).tolist(), confidence)
    lifts: list[float] = []
    for owner in others:
        permuted = replace(seen, owner=owner)
        found = panel.rank(attacker, permuted, panel.fits(attacker, permuted))
        lifts.append(users * float(first_credit(found).mean()))
    return mean_of_pools(lifts, confidence)


def _credit_of_others(
    panel: Panel, attacker: Attacker, seen: Sight, others: Sequence[Index]
) -> Float:
    """(m, P) `first_credit` of a fixed metric with each of m owners (P,) of the probes.

    Whom it names does not hang on who the owner is; probes with several nearest are ranked.
    """
    fits = panel.fits(attacker, seen)
    named = panel.named(attacker, seen, fits)
    found = panel.rank(attacker, replace(seen, owner=named), fits)
    rest = np.flatnonzero((found.closer > 0) | (found.tied > 0))
    credit: Float = (np.stack(others) == named).astype(np.float64)
    step = max(1, _TOGETHER // max(1, len(rest)))
    for start in range(0, len(others) if len(rest) else 0, step):
        some = [owner[rest] for owner in others[start : start + step]]
        probes = np.tile(seen.probes[rest], (len(some), 1))
        again = replace(seen, probes=probes, owner=np.concatenate(some))
        ranked = first_credit(panel.rank(attacker, again, fits))
        credit[start : start + step, rest] = ranked.reshape(len(some), -1)
    return credit
