"""Every attacker on released vectors, in one shape: what it holds, what it learns, whom it names.

An attacker enrols people by the mean of their earlier vectors and looks up whose is nearest to a
new one. What differs (distance, learned metric, noise-free enrolment, vectors known to be of one
person) is knowledge of the adversary, in `Attacker.knows`; a function of the release is a view.

Learned metrics: Hatch, Kajarekar and Stolcke 2006 (within-class covariance normalisation), Ioffe
2006 with Garcia-Romero and Espy-Wilson 2011 (probabilistic linear discriminant analysis), in two
person-disjoint folds, fitted on the release as the adversary sees it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.risk import RELEASE
from lethe.reidentification.by_user import Linear, mean_of_pools, scaled, share_of_users
from lethe.reidentification.gallery import (
    Index,
    Split,
    covariance_within,
    inverse_root,
    means,
    whitening_of,
)
from lethe.reidentification.geometry import nearest
from lethe.reidentification.ranks import Ranks, ranks
from lethe.reidentification.vectors import Float, one_blas_thread

T = TypeVar("T")
R = TypeVar("R")

# What lies before an adversary, and metrics learned from the vectors of other people.

LEARNED = ("within-class", "lda", "plda")
ALL = 0
"""Number of vectors that stands for all vectors of a person."""
_RIDGE = 1e-3
_KEPT = 0.95  # share of between-person variance that LDA keeps


@dataclass(frozen=True, eq=False)
class Sight:
    """What lies before an adversary: enrolled rows of known people, and rows of unknown owner."""

    rows: Float  # (R, d) enrolled rows; metrics are fitted on their scatter
    user: Index  # (R,) person 0..G-1 of each; everyone has a row
    gallery: Float  # (G, d) enrolled mean of each person, of as many rows
    probes: Float  # (P, d) rows whose owner is looked for; none of them is enrolled
    owner: Index  # (P,) person of each probe; everyone has a probe

    @property
    def counts(self) -> Float:
        """(G,) enrolled rows of each person."""
        return np.bincount(self.user, minlength=len(self.gallery)).astype(np.float64)

    def among(self, people: NDArray[np.bool_]) -> Sight:
        """Of some people (G,) alone, numbered anew in their order."""
        number = np.cumsum(people) - 1
        rows, probes = people[self.user], people[self.owner]
        return Sight(
            self.rows[rows],
            number[self.user[rows]],
            self.gallery[people],
            self.probes[probes],
            number[self.owner[probes]],
        )


def sight_of(vectors: NDArray[Any], split: Split) -> Sight:
    """Rows of a release as an adversary holds them.

    Args:
        vectors: (n, d) or (n,), every released row.
        split: who is enrolled with which rows, and which are probes.
    """
    table = np.asarray(vectors, np.float64).reshape(len(vectors), -1)
    gallery = means(table, split.gallery_rows, split.gallery_user, len(split.users))
    return Sight(
        table[split.gallery_rows],
        split.gallery_user,
        gallery,
        table[split.probe_rows],
        split.probe_user,
    )


def folds(users: int, seed: int = 0) -> NDArray[np.bool_]:
    """(G,) two person-disjoint halves by chance: a metric is learned on one, used on the other."""
    return np.asarray(np.random.default_rng([seed, 67]).permutation(users) % 2 == 0)


def pooled(probes: Float, owner: Index, vectors: int) -> tuple[Float, Index]:
    """Means (people, d) of the first `vectors` probes of each person, and whose they are."""
    order = np.argsort(owner, kind="stable")
    start = np.flatnonzero(np.diff(owner[order], prepend=-1))
    sizes = np.diff(np.append(start, len(order)))
    if vectors != ALL:
        place = np.arange(len(order)) - np.repeat(start, sizes)
        order, sizes = order[place < vectors], np.minimum(sizes, vectors)
        start = np.cumsum(sizes) - sizes
    summed = np.add.reduceat(probes[order], start, axis=0)
    return np.asarray(summed / sizes[:, None]), np.asarray(owner[order][start])


@dataclass(frozen=True, eq=False)
class Learned:
    """A metric: Euclidean distance after two affine maps.

    Attributes:
        shrink: (G, r) by which a mapped mean is drawn to the centre, for it is uncertain; or None.
    """

    matrix: Float  # (d, r)
    probe_centre: Float  # (d,) taken off probes; gallery_centre: (d,) off enrolled means
    gallery_centre: Float
    shrink: Float | None = None
    scale: Float | None = None  # (r,) that both are multiplied by; or None

    def probes(self, vectors: Float) -> Float:
        """(P, r)."""
        mapped = (vectors - self.probe_centre) @ self.matrix
        return mapped if self.scale is None else mapped * self.scale

    def gallery(self, vectors: Float) -> Float:
        """(G, r)."""
        mapped = (vectors - self.gallery_centre) @ self.matrix
        if self.shrink is not None:
            mapped = mapped * self.shrink
        return mapped if self.scale is None else mapped * self.scale


def learn(metric: str, sight: Sight, people: NDArray[np.bool_]) -> Learned:
    """Fit a metric on the pairs of some people, both of whose vectors the adversary knows.

    Args:
        metric: one of `LEARNED`.
        sight: as the adversary sees the release; probes already joined where it joins them.
        people: (G,) whose pairs are used; all others are not looked at but for their row counts.

    Raises NotMeasurable: fewer than 3 people, or pairs that do not differ.
    """
    if people.sum() < 3:
        raise NotMeasurable(f"a metric is learned from 3 people or more, got {people.sum()}.")
    inside = people[sight.owner]
    probes, owner = sight.probes[inside], sight.owner[inside]
    gallery, known = sight.gallery[people], np.cumsum(people) - 1
    place = known[owner]
    by_person, _ = pooled(probes, owner, ALL)
    probe_centre, gallery_centre = by_person.mean(axis=0), gallery.mean(axis=0)
    apart = (probes - probe_centre) - (gallery - gallery_centre)[place]
    if float(np.abs(apart).max()) <= 1e-12 * float(np.abs(gallery).max()):
        raise NotMeasurable("the vectors of each person are all equal, so nothing is to be learned")
    within = covariance_within(apart, len(apart) - 1)
    within[np.diag_indices_from(within)] *= 1 + _RIDGE
    root = inverse_root(within)
    if metric == "within-class":
        return Learned(root, probe_centre, gallery_centre)
    # What persists of a person from enrolment to probe: noise and drift are in neither product.
    left = (gallery - gallery_centre) @ root
    right = (by_person - probe_centre) @ root
    cross = left.T @ right / (len(left) - 1)
    size, turn = np.linalg.eigh((cross + cross.T) / 2)
    size, turn = np.maximum(size[::-1], 0), turn[:, ::-1]
    if not size[0] > 0:
        raise NotMeasurable("enrolled and new vectors of a person are not related in any direction")
    number = int((size > 1e-9 * size[0]).sum())
    if metric == "lda":
        number = int(np.searchsorted(np.cumsum(size), _KEPT * size.sum())) + 1
    kept, matrix = size[:number], root @ turn[:, :number]
    if metric == "lda":
        return Learned(matrix, probe_centre, gallery_centre)
    counts = sight.counts
    rows = sight.rows[people[sight.user]]
    user = known[sight.user[people[sight.user]]]
    noise = _row_variance((rows - gallery[user]) @ matrix, counts[people])
    enrolled = ((left @ turn[:, :number]) ** 2).mean(axis=0)
    # Variance of an enrolled mean of ever so many rows: never less than what persists.
    settled = np.maximum(enrolled - noise * (1 / counts[people]).mean(), kept)
    shrink = kept / (settled + noise / counts[:, None])
    arriving = (((probes - probe_centre) @ matrix) ** 2).mean(axis=0)
    left_over = arriving - shrink[people].mean(axis=0) * kept
    scale = 1 / np.sqrt(np.maximum(left_over, 0.05 * arriving + 1e-12))
    return Learned(matrix, probe_centre, gallery_centre, shrink, scale)


def _row_variance(within: Float, counts: Float) -> Float:
    """(r,) variance of a row about its person's mean; half of a pair's where all have one row."""
    freedom = float((counts - 1).sum())
    if freedom < 1:
        return np.full(within.shape[1], 0.5)
    return np.asarray((within**2).sum(axis=0) / freedom)


def whitened(seen: Sight) -> Learned:
    """The metric of the scatter within each person's enrolled rows."""
    matrix = whitening_of(seen.rows, seen.user, seen.gallery)
    centre = seen.gallery.mean(axis=0)
    return Learned(matrix, centre, centre)


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
_GUESSES = 10_000  # probes on which the agreement of two draws is looked at
_CHANCE_HITS = 100  # expected of a permuted control: enough to see a lift of 2
_CONTROL_PAIRS = 4e9  # of probes and people in all permutations of a control
_TOGETHER = 200_000  # probes that are ranked at once


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

    @property
    def paper(self) -> str:
        """Where its metric comes from."""
        return _PAPERS.get(self.metric, _PAPERS["cosine"])

    @property
    def knows(self) -> str:
        """What the adversary holds, in one line."""
        held = "without noise" if self.clean_gallery else "as released"
        parts = [f"earlier vectors of the same people, {held}"]
        if self.metric in LEARNED:
            parts.append("both vectors of other people, to learn the metric from")
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


def allowed(clean_gallery: bool = True, vectors: int = ALL) -> tuple[Attacker, ...]:
    """The attackers that a threat model allows.

    Args:
        clean_gallery: whether the adversary may hold vectors from before the noise.
        vectors: the most vectors of a person that it may know to belong together; `ALL` of them.

    >>> [attacker.name for attacker in allowed(clean_gallery=False, vectors=1)]
    ['cosine', 'l2', 'whitened', 'within-class', 'lda', 'plda']
    """
    return tuple(
        attacker
        for attacker in ATTACKERS
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
        for mine, probes, gallery, metric in self._mapped(attacker, seen, fits):
            user[mine] = nearest(probes, gallery, metric).user
        return user

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


@dataclass(frozen=True, eq=False)
class Tally:
    """Whom one attacker names in one view of a release.

    Attributes:
        agreement: share of probes, or of 10,000 of them, for which two draws name the same person;
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
        hits = np.minimum(self.hits, self.tries)
        found = share_of_users(hits, self.tries, confidence, alone)
        return scaled(found, len(self.hits))

    def linear(self) -> Linear:
        """Top-1 with each person's share in its error, to compare two of them in pairs."""
        total = float(self.tries.sum())
        share = float(self.hits.sum()) / total
        return Linear(share, (self.hits - share * self.tries) / total, 0.0, "t by users")


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

    Args:
        draws: of each draw the sight that metrics are learned on (the same object for several
            draws learns once) and the one that is attacked.
        clean: the release without noise, for those who hold it.
        views: further functions of the release, affine in a row; on them only attackers that are
            `projected` run.
        single: draws that attackers of single vectors get, who have more probes; all by default.
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
            run for run in runs if run.attacker.vectors != 1 or single is None or number < single
        ]
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
    lifts: list[float] = []
    if attacker.metric in LEARNED:
        for owner in others:
            permuted = replace(seen, owner=owner)
            found = panel.rank(attacker, permuted, panel.fits(attacker, permuted))
            lifts.append(users * float(first_credit(found).mean()))
    else:
        fits, at_once = panel.fits(attacker, seen), max(1, _TOGETHER // trials)
        for start in range(0, number, at_once):
            some = others[start : start + at_once]
            probes = np.tile(seen.probes, (len(some), 1))
            found = panel.rank(
                attacker, replace(seen, probes=probes, owner=np.concatenate(some)), fits
            )
            lifts += (users * first_credit(found).reshape(len(some), -1).mean(axis=1)).tolist()
    return mean_of_pools(lifts, confidence)
