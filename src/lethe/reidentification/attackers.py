"""Run attackers on released vectors: learn their metrics, rank people, count right answers.

`family` lists the attackers. A view is a function of the release that they attack. Metrics are
learned in two person-disjoint folds, on the release as the adversary sees it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.risk import RELEASE
from lethe.reidentification.by_user import mean_of_repeats
from lethe.reidentification.enrolled import (
    ENROLLED,
    HISTOGRAM,
    NEAREST,
    SOFTMAX,
    Asked,
    Enrolment,
    enrol,
)
from lethe.reidentification.family import PLAIN, Attacker
from lethe.reidentification.gallery import Index
from lethe.reidentification.geometry import nearest
from lethe.reidentification.ranks import Ranks, ranks
from lethe.reidentification.sight import (
    PLDA,
    Learned,
    Sight,
    grouped,
    learn,
    onto_values,
    pooled,
    reading,
    within_reach,
)
from lethe.reidentification.tally import ENOUGH_HITS, TRIALS, Tally
from lethe.reidentification.vectors import Float
from lethe.training.environment import one_thread
from lethe.training.fingerprint import hash_array

T = TypeVar("T")
R = TypeVar("R")

Fits = tuple[Learned | Enrolment, ...]
"""What an attacker learned: nothing, a fit for all probes, or a fit for each fold."""
View = Callable[[Float], Float]
"""An affine function of released rows, (n, d) to (n, c): it maps means to means."""

Score = Callable[[NDArray[np.bool_], slice], Float]
"""From some probes (q,) and successive people to scores (chosen, people), higher = nearer."""

COHORT = 200
"""The nearest other people by whose scores a score is normalised."""
_CHANCE_HITS = 50  # expected of a permuted control: enough to see a lift of 2
_CONTROL_PAIRS = 4e9  # of probes and people in all permutations of a control
_AT_ONCE = 1_000_000  # numbers in a block of a table of scores
_SOME_PEOPLE = (128, 512)  # numbers of people that pilots are tried on first
_SLACK = 1e-9  # relative difference of scores that rounding may explain


@dataclass(frozen=True, eq=False)
class Panel:
    """Attackers that run on the same people."""

    attackers: tuple[Attacker, ...]
    fold: NDArray[np.bool_]  # (G,) see `folds`
    backend: str = "auto"  # see `ranks`
    workers: int = 1  # attackers that run at the same time
    fitted: dict[str, Enrolment] = field(default_factory=dict)
    pilots: frozenset[str] = frozenset()  # names of those that are tried on some people first
    unsound: frozenset[str] = frozenset()  # names of those whose self-check failed

    def seen(self, attacker: Attacker, sight: Sight, clean: Sight) -> Sight:
        """The release together with the other data that this attacker has."""
        if attacker.metric == HISTOGRAM and sight is not clean:
            sight = onto_values(sight, clean.rows)
        elif attacker.metric != "cosine" and not attacker.reads:
            sight, clean = within_reach(sight, clean, scale=attacker.metric != "l2")
        if attacker.clean_gallery:
            noise = ((sight.rows - clean.rows) ** 2).mean(axis=0)
            sight = replace(sight, rows=clean.rows, gallery=clean.gallery, noise=noise)
        if attacker.reads:
            sight = reading(sight, attacker.reads)
        elif attacker.metric in ENROLLED or attacker.vectors != 1:
            sight = sight.recentred
        if attacker.metric == PLDA or attacker.metric in ENROLLED:
            sight = sight.evened
        if attacker.vectors == 1:
            return sight
        if attacker.metric in ENROLLED:
            order, sizes = grouped(sight.owner, attacker.vectors)
            owner = sight.owner[order][np.cumsum(sizes) - sizes]
            return replace(sight, probes=sight.probes[order], owner=owner, sizes=sizes)
        probes, owner = pooled(sight.probes, sight.owner, attacker.vectors)
        return replace(sight, probes=probes, owner=owner)

    def each(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Results of `work` on every item, in their order, computed on the panel's threads."""
        if self.workers == 1:
            return [work(item) for item in items]
        with one_thread("blas"), ThreadPoolExecutor(self.workers) as threads:
            return list(threads.map(work, items))

    def fits(self, attacker: Attacker, seen: Sight) -> Fits:
        """Learn metrics for attacks on fold False and on fold True, each on the other fold.

        Raises NotMeasurable: too few people, or nothing to learn from.
        """
        if attacker.metric in PLAIN:
            return ()
        if attacker.metric == SOFTMAX:  # depends on the enrolled rows alone, often the same
            key = hash_array(seen.rows)
            if key not in self.fitted:
                self.fitted.clear()
                self.fitted[key] = enrol(attacker.metric, seen)
            return (self.fitted[key],)
        if attacker.metric in ENROLLED:
            return (enrol(attacker.metric, seen),)
        return tuple(learn(seen, self.fold != half) for half in (False, True))

    def rank(
        self,
        attacker: Attacker,
        seen: Sight,
        fits: Fits,
        others: Sequence[Index] = (),
        credit: Float | None = None,
    ) -> Ranks:
        """Rank of the owner of every probe that an attacker sees.

        Args:
            others: other owners (P,) of the probes.
            credit: (others, P) filled with the chance that each of them is named first.
        """
        closer, tied = (np.zeros(len(seen.owner), np.int64) for _ in range(2))
        if attacker.dense:
            for rows, scores in self.tables(attacker, seen, fits):
                true = scores[np.arange(len(rows)), seen.owner[rows]][:, None]
                slack = _SLACK * (1 + np.abs(true))
                closer[rows] = (scores > true + slack).sum(axis=1)
                tied[rows] = (scores >= true - slack).sum(axis=1) - closer[rows] - 1
                if credit is not None:
                    credit[:, rows] = named_first(scores, [owner[rows] for owner in others])
            return Ranks(closer, tied, len(seen.gallery))
        for chosen, probes, gallery, metric in self._mapped(attacker, seen, fits):
            owner_ranks = ranks(probes, gallery, seen.owner[chosen], metric, backend=self.backend)
            closer[chosen], tied[chosen] = owner_ranks.closer, owner_ranks.tied
        if credit is not None:
            for rows, scores in self.tables(attacker, seen, fits):
                credit[:, rows] = named_first(scores, [owner[rows] for owner in others])
        return Ranks(closer, tied, len(seen.gallery))

    def credit(
        self, attacker: Attacker, seen: Sight, fits: Fits, guess: Index | None = None
    ) -> Float:
        """(P,) chance that the owner is named first, ties broken at random.

        Args:
            guess: (P,) filled with the person that the attacker names; the first of tied people.
        """
        if not attacker.dense:
            order = self.rank(attacker, seen, fits)
            if guess is not None:
                guess[:] = seen.owner
                missed = (order.closer > 0) | (order.tied > 0)
                for mine, probes, gallery, metric in self._mapped(attacker, seen, fits):
                    if (asked := missed[mine]).any():
                        named = nearest(probes[asked], gallery, metric).user
                        guess[np.flatnonzero(mine)[asked]] = named
            return order.first
        credit, rest = np.zeros(len(seen.owner)), seen
        waiting = np.arange(len(seen.owner))
        if attacker.metric == NEAREST and seen.sizes is None and guess is None:
            (fit,) = fits
            assert isinstance(fit, Enrolment)
            probes, rows, owner = fit.pairs(seen)
            order = ranks(probes, rows, owner, "l2", backend=self.backend)
            credit[(order.closer == 0) & (order.tied == 0)] = 1.0
            tied = (order.closer == 0) & (order.tied > 0)  # tied rows may be of one person
            waiting, rest = np.flatnonzero(tied), seen.asking(tied)
        for part, score, blocks in self._scorers(attacker, rest, fits) if len(waiting) else ():
            credit[waiting[part]], named = _first(
                score, rest.owner[part], blocks, guess is not None
            )
            if guess is not None:
                guess[part] = named
        return credit

    def _scorers(
        self, attacker: Attacker, seen: Sight, fits: Fits
    ) -> Iterator[tuple[Index, Score, Sequence[slice]]]:
        """Blocks of probes, their scores as a function of some of them and of successive people."""
        if attacker.normalised:
            for rows, table in self.tables(attacker, seen, fits):
                of_table = functools.partial(lambda table, chosen, _: table[chosen], table)
                yield rows, of_table, [slice(0, len(seen.gallery))]
            return
        (fit,) = fits
        assert isinstance(fit, Enrolment)
        for rows, asked in fit.asked(seen):

            def score(chosen: NDArray[np.bool_], people: slice, asked: Asked = asked) -> Float:
                return fit.fit[1](asked.some(chosen), people)

            yield rows, score, fit.held.blocks

    def scores(self, attacker: Attacker, seen: Sight, fits: Fits, whom: Index) -> Float:
        """(P, k) scores of every probe with k enrolled people (P, k); higher = nearer.

        Raises InputError: zero vectors under cosine.
        """
        scores = np.empty(whom.shape)
        if attacker.dense:
            for rows, table in self.tables(attacker, seen, fits):
                scores[rows] = np.take_along_axis(table, whom[rows], axis=1)
            return scores
        for mine, probes, gallery, metric in self._mapped(attacker, seen, fits):
            rows, step = np.flatnonzero(mine), max(1, _AT_ONCE // (whom.shape[1] * len(gallery[0])))
            probes, gallery = _directions(metric, probes, gallery)
            for first in range(0, len(rows), step):
                part = rows[first : first + step]
                left, right = probes[first : first + step, None], gallery[whom[part]]
                if metric == "cosine":
                    scores[part] = (left * right).sum(axis=2)
                else:
                    scores[part] = -((left - right) ** 2).sum(axis=2)
        return scores

    def tables(self, attacker: Attacker, seen: Sight, fits: Fits) -> Iterator[tuple[Index, Float]]:
        """Blocks of probes (rows,) and their scores with all people (rows, G), higher = nearer."""
        if attacker.normalised:
            yield from self._normalised(attacker, seen, fits)
        elif fits and isinstance(fits[0], Enrolment):
            for rows, asked in fits[0].asked(seen, len(seen.gallery)):
                yield rows, fits[0].table(asked)
        else:
            for mine, probes, gallery, metric in self._mapped(attacker, seen, fits):
                probes, gallery = _directions(metric, probes, gallery)
                rows, step = np.flatnonzero(mine), max(1, _AT_ONCE // len(gallery))
                for first in range(0, len(rows), step):
                    table = _table(probes[first : first + step], gallery, metric)
                    yield rows[first : first + step], table

    def _normalised(
        self, attacker: Attacker, seen: Sight, fits: Fits
    ) -> Iterator[tuple[Index, Float]]:
        """Blocks of probes and their normalised scores (rows, G): adaptive symmetric norm.

        Probes of a fold are normalised by the enrolled people of the other fold, and each enrolled
        person by these people except itself.

        Raises NotMeasurable: fewer than 20 people in a fold.
        """
        for half in (False, True):
            mine = np.flatnonzero(self.fold[seen.owner] == half)
            cohort = np.flatnonzero(self.fold != half)
            if not len(mine):
                continue
            if len(cohort) < 20:
                raise NotMeasurable(f"normalising scores needs 20 other people, got {len(cohort)}.")
            fit, metric = fits[int(half)] if fits else None, attacker.metric
            probes, gallery = seen.probes[mine], seen.gallery
            if isinstance(fit, Learned):
                probes, gallery = fit.probes(probes), fit.gallery(gallery)
            probes, gallery = _directions(metric, probes, gallery)
            top = min(COHORT, len(cohort) - 1)
            between = _table(gallery, gallery[cohort], metric)
            between[cohort, np.arange(len(cohort))] = -np.inf
            mean, deviation = _of_nearest(between, top)
            step = max(1, _AT_ONCE // len(gallery))
            for first in range(0, len(mine), step):
                table = _table(probes[first : first + step], gallery, metric)
                row_mean, row_sd = _of_nearest(table[:, cohort], top)
                scores = (table - row_mean[:, None]) / row_sd[:, None] + (table - mean) / deviation
                yield mine[first : first + step], scores / 2

    def _mapped(
        self, attacker: Attacker, seen: Sight, fits: Fits
    ) -> Iterator[tuple[NDArray[np.bool_], Float, Float, str]]:
        """Mask of probes, probes and gallery in the coordinates of a metric, and its name."""
        every = np.ones(len(seen.owner), bool)
        if not fits:
            yield every, seen.probes, seen.gallery, attacker.metric
            return
        for half, fit in zip((False, True), fits, strict=False):
            assert isinstance(fit, Learned)
            mine = every if len(fits) == 1 else self.fold[seen.owner] == half
            if mine.any():
                yield mine, fit.probes(seen.probes[mine]), fit.gallery(seen.gallery), "l2"


def _first(score: Score, owner: Index, blocks: Sequence[slice], named: bool) -> tuple[Float, Index]:
    """(q,) chance that the owner has the highest score, ties broken at random; and who has it.

    A probe is compared with no more people once one of them is surely above its owner.

    Args:
        score: of some probes (q,) with successive people.
        owner: (q,) of each probe.
        blocks: of people.
        named: whether to compare each probe with all people, to know who is named.
    """
    every, number = np.ones(len(owner), bool), np.arange(len(owner))
    true, best, first = np.empty(len(owner)), np.full(len(owner), -np.inf), number * 0
    for block in blocks:
        chosen = (owner >= block.start) & (owner < block.stop)
        if chosen.any():
            theirs = score(chosen, block)
            true[chosen] = theirs[number[: len(theirs)], owner[chosen] - block.start]
    slack = _SLACK * (1 + np.abs(true))
    near, asked = np.zeros(len(owner)), every
    for block in blocks:
        scores, rows = score(asked, block), np.flatnonzero(asked)
        # Products of other numbers of probes round otherwise: an owner must not be above itself.
        mine = np.flatnonzero((owner[rows] >= block.start) & (owner[rows] < block.stop))
        scores[mine, owner[rows[mine]] - block.start] = true[rows[mine]]
        place = scores.argmax(axis=1)
        most = scores[number[: len(rows)], place]
        above = most > best[rows]
        best[rows[above]], first[rows[above]] = most[above], block.start + place[above]
        level = (true - slack)[rows]
        reach = np.flatnonzero(most >= level)
        near[rows[reach]] += (scores[reach] >= level[reach, None]).sum(axis=1)
        if not named and not (asked := best <= true + slack).any():
            break
    return np.where(best <= true + slack, 1 / np.maximum(near, 1), 0.0), first


def _directions(metric: str, *tables: Float) -> list[Float]:
    """Scale the vectors of tables to length 1 for cosine; else return them unchanged."""
    if metric != "cosine":
        return [*tables]
    lengths = [np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in tables]
    if not all(length.all() for length in lengths):
        raise InputError("a zero vector has no direction, so no cosine; use metric='l2'.")
    return [vectors / length for vectors, length in zip(tables, lengths, strict=True)]


def _table(left: Float, right: Float, metric: str) -> Float:
    """(n, m) scores: cosine, or minus the squared distance."""
    product = left @ right.T
    if metric == "cosine":
        return np.asarray(product)
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1)
    return np.asarray(2 * product - squares)


def _of_nearest(scores: Float, top: int) -> tuple[Float, Float]:
    """Mean and standard deviation of the `top` highest scores of each row."""
    best = -np.partition(-scores, top - 1, axis=1)[:, :top]
    return best.mean(axis=1), np.maximum(best.std(axis=1), 1e-12)


def tallies(
    panel: Panel,
    draws: Iterable[tuple[Sight, Sight]],
    clean: Sight,
    *,
    views: Mapping[str, View] = MappingProxyType({}),
    single: int | None = None,
    skipped: dict[str, str] | None = None,
    known: Mapping[str, Tally] = MappingProxyType({}),
) -> list[Tally]:
    """Run every attacker of a panel on draws of a release and on its views.

    An attacker stops drawing when its interval is within 1 % of its lift or hardly depends on the
    noise (stopping early moves the estimate by less than that), or when its upper limit is below
    the lower limit of another: then neither its value nor its limits can be those of the risk.
    Pilots of a panel run on some people first, and continue only if they may still find more than
    all others; the tallies of those that stop count like any other. They do not start while
    another attacker names all people rightly.

    Args:
        draws: for each draw the sight to learn metrics on (reused without learning again if it is
            the same object) and the sight to attack.
        clean: the release without noise, for attackers who have it.
        views: further functions of the release, affine in a row; only attackers that are
            `projected` run on them.
        single: draws for attackers of single vectors, which have more probes; all by default.
            They, and those that score every pair, stop at the draws that give 20 hits by chance.
        skipped: filled with the reason by name of each attacker that cannot run.
        known: tallies of attackers on the first draw of the release by name, if known.

    Returns: A tally of each attacker and view in their order, those of the release first.
    """
    users = len(clean.gallery)
    trials = len(np.unique(clean.owner)), len(clean.owner)
    enough = [max(2, -(-ENOUGH_HITS * users // number)) for number in trials]
    functions: dict[str, View | None] = {RELEASE: None, **views}

    def through(sight: Sight) -> dict[str, Sight]:
        return {
            view: sight.mapped(change) if change else sight for view, change in functions.items()
        }

    held = through(clean)
    order = np.random.default_rng(users).permutation(np.unique(clean.owner))

    def begun(attacker: Attacker, view: str) -> Tally:
        nothing = Tally(attacker, view, np.zeros(users), np.zeros(users), 0)
        return known.get(attacker.name, nothing) if view == RELEASE else nothing

    runs = [
        _Run(panel, held[view], begun(attacker, view))
        for view in functions
        for attacker in panel.attackers
        if view == RELEASE or attacker.projected
    ]

    def leave(run: _Run, why: str) -> None:
        runs.remove(run)
        if skipped is not None:
            skipped.setdefault(f"{run.attacker.name} on {run.tally.view}", why)

    last, source, best = None, held, 0.0
    for number, (learned_on, sight) in enumerate(draws):
        if learned_on is not last:
            last, source = learned_on, through(learned_on)
        least = max((run.tally.limits[0] for run in runs if run.counts), default=0.0)
        able = [
            run
            for run in runs
            if (run.attacker.vectors != 1 or single is None or run.tally.draws < single)
            and (not run.attacker.dense or run.tally.draws < enough[run.attacker.vectors == 1])
            and (run.attacker.vectors != 1 or run.tally.draws < enough[True])
            and run.tally.draws <= number
        ]
        running = [
            run
            for run in able
            if (run.whole or not run.pilot)
            and not run.tally.precise
            and not (run.tally.tries.sum() >= TRIALS and run.tally.limits[1] < least)
            and not (run.pilot and not run.may_exceed(best))
        ]
        pilots = [run for run in able if run.pilot and not run.whole]
        if not running and (best == 1 or not any(run.may_exceed(best) for run in pilots)):
            break
        work = functools.partial(_attack_once, source=source, looked=through(sight))

        def attack(some: Sequence[_Run], work: Callable[[_Run], str | None] = work) -> None:
            for run, why in zip(some, panel.each(work, some), strict=True):
                if why is not None:
                    leave(run, why)

        attack(running)
        best = max((run.tally.share for run in runs if run.counts and run.whole), default=0.0)
        # Most pilots find far less than the best attacker, which few people already show.
        for most in (*(most for most in _SOME_PEOPLE if 2 * most < len(order)), users):
            pilots = [run for run in pilots if run in runs and run.may_exceed(best)]
            if best == 1 or not pilots:
                break
            for run in pilots:
                run.asks_about(None if most == users else np.isin(np.arange(users), order[:most]))
            attack(pilots)
    for run in [run for run in runs if not run.tally.draws]:
        leave(run, "others name everybody")
    return [run.tally for run in runs]


@dataclass(eq=False)
class _Run:
    """An attacker on a view, draw after draw.

    Attributes:
        source: the sight that `fits` were learned on.
        guess: (P,) people named in the first draw, where draws are compared.
        some: (G,) people whose probes it attacks; None for all.
        seen: the last sight, where the next run attacks more people of it.
    """

    panel: Panel
    held: Sight  # the release without noise
    tally: Tally  # so far
    source: Sight | None = None
    fits: Fits = ()
    guess: Index | None = None
    some: NDArray[np.bool_] | None = None
    seen: Sight | None = None

    @property
    def attacker(self) -> Attacker:
        return self.tally.attacker

    @property
    def counts(self) -> bool:
        """Whether other attackers may be compared with it: its self-check passed."""
        return self.attacker.name not in self.panel.unsound

    def asks_about(self, people: NDArray[np.bool_] | None) -> None:
        """Restart with the probes of some people (G,), or of all."""
        nothing = np.zeros_like(self.tally.hits)
        self.tally = replace(self.tally, hits=nothing, tries=nothing, draws=0)
        self.some, self.guess = people, None

    @property
    def whole(self) -> bool:
        """Whether it has attacked all people."""
        return self.some is None and self.tally.draws > 0

    @property
    def pilot(self) -> bool:
        """Whether it is tried on some people first."""
        return self.attacker.name in self.panel.pilots

    def may_exceed(self, best: float) -> bool:
        """Whether the upper limit of its Top-1 reaches the best share of the others."""
        return self.tally.limits[1] >= best


def _attack_once(run: _Run, source: Mapping[str, Sight], looked: Mapping[str, Sight]) -> str | None:
    """Attack a further draw; returns the reason if that is impossible, else None."""
    panel, attacker, tally = run.panel, run.attacker, run.tally
    view, users = tally.view, len(tally.hits)
    try:
        seen = run.seen or panel.seen(attacker, looked[view], run.held)
        run.seen = None
        if run.source is not source[view]:
            run.source = source[view]
            # Readings of enrolled rows have means of their own, the same in all draws.
            same = attacker.reads and looked[view].rows is source[view].rows
            learned_on = seen if same else panel.seen(attacker, source[view], run.held)
            run.fits = panel.fits(attacker, learned_on)
        if run.some is not None:
            run.seen, seen = seen, seen.asking(run.some[seen.owner])
        compared = attacker.vectors != 1 and tally.draws < 2
        guess = np.zeros(len(seen.owner), np.intp) if compared else None
        credit = panel.credit(attacker, seen, run.fits, guess)
        agreement = tally.agreement
        if guess is not None:
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


def controlled(
    panel: Panel, attacker: Attacker, seen: Sight, seed: int = 0, confidence: float = 0.95
) -> tuple[Ranks, Estimate]:
    """Ranks of the owners, and the lift after random permutations of them, which must be 1.

    Metrics are learned on the permuted pairs. The expected Top-1 of a fixed metric is 1 / G, and
    one table of scores gives its ranks and its control. There are as many permutations as give 50
    hits by chance, so that a lift of 2 would be seen. Among very many people the control is of a
    random sample of them.

    Raises: as `Panel.fits`.
    """
    users, trials = len(seen.gallery), len(seen.owner)
    number = max(10, -(-_CHANCE_HITS * users // trials))
    rng, fits = np.random.default_rng([seed, 63]), panel.fits(attacker, seen)
    whole, pairs = None, number * users * trials
    if pairs > _CONTROL_PAIRS:
        whole, share = panel.rank(attacker, seen, fits), math.sqrt(_CONTROL_PAIRS / pairs)
        people = np.isin(np.arange(users), rng.permutation(users)[: max(100, int(share * users))])
        seen, panel = seen.among(people), replace(panel, fold=panel.fold[people])
        users, fits = len(seen.gallery), panel.fits(attacker, seen)
    others = [rng.permutation(users)[seen.owner] for _ in range(number)]
    credit = np.empty((number, len(seen.owner)))
    order = panel.rank(attacker, seen, fits, others, credit if attacker.fixed else None)
    for place, owner in enumerate(() if attacker.fixed else others):
        permuted = replace(seen, owner=owner)
        credit[place] = panel.credit(attacker, permuted, panel.fits(attacker, permuted))
    lift = mean_of_repeats((users * credit.mean(axis=1)).tolist(), confidence)
    return whole or order, lift


def named_first(scores: Float, owners: Sequence[Index]) -> Float:
    """(owners, q) chance that each of the owners (q,) has the highest score; ties are shared."""
    best, place = scores.max(axis=1, keepdims=True), np.arange(len(scores))
    first = scores >= best - _SLACK * (1 + np.abs(best))
    hits = np.stack([first[place, owner] for owner in owners])
    return np.asarray(hits / first.sum(axis=1))
