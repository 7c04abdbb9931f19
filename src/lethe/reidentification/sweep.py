"""The attack at every noise level, beside the limit on all attackers there."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.risk import RELEASE, AttackResult, family_confidence, risk_of
from lethe.evidence.sight import Plant, forbidden
from lethe.reidentification.attack import over_ties
from lethe.reidentification.attackers import Panel, View, tallies
from lethe.reidentification.certificates import (
    Known,
    Limit,
    closed_form,
    exact_limit,
    known,
    optimal_attacker,
)
from lethe.reidentification.enrolled import COVARIANCE, DENSITY, NEAREST
from lethe.reidentification.family import ATTACKERS, Attacker, allowed
from lethe.reidentification.gallery import MOST_PAIRS, Split, gallery_means
from lethe.reidentification.kept import read_tallies, write_tallies
from lethe.reidentification.planted import plants
from lethe.reidentification.ranks import ranks
from lethe.reidentification.released import LinearHead, Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.sight import ALL, Sight, folds, sight_of
from lethe.reidentification.smoothing import Sample, smooth, unit_noise
from lethe.reidentification.surface import (
    TIERS,
    Attack,
    Curve,
    Judged,
    Level,
    attack_curve,
)
from lethe.reidentification.tally import Tally
from lethe.reidentification.transforms import ShapedNoise
from lethe.reidentification.vectors import Float, effective_sigma, geometric_median
from lethe.training.fingerprint import digest, hash_array, versions

TOP = (1, 5, 10)
"""Measures of a level, in this order: Top-k by credit, then the reciprocal rank."""
LOGITS = "logits"
"""The view of an attacker who sees the outputs of the model's linear head."""
KEPT = (NEAREST, COVARIANCE, DENSITY)
"""Metrics of enrolled rows that model the noise of a probe."""
_CENTRE_ROWS = 20_000
_SLOW = 5.0  # seconds after which progress says how long the levels take

Say = Callable[[str], None]
Cluster = Callable[[Sequence[Any], Callable[[Any], Any]], Generator[tuple[int, Any], None, None]]
"""Runs jobs on several machines; yields number and result of each, as `RayEngine.results`."""


@dataclass(frozen=True, eq=False)
class Proofs:
    """Upper limits on every attacker's Top-1 at one noise level."""

    closed: Limit  # the bound in closed form
    optimal: Limit | None  # measured by running the best decoder; None where it was not run

    @property
    def best(self) -> Limit:
        """The lower of the two."""
        return min(self.closed, self.optimal or self.closed, key=lambda limit: limit.success)


@dataclass(frozen=True, eq=False)
class Game:
    """The game behind the certificates: one probe is released to an attacker who knows all.

    Every probe is equally likely, as in the gallery attack.
    """

    known: Known  # rows, owners and chances
    centres: tuple[Float, ...]  # candidate points of the closed form; any gives a valid limit

    def closed(self, sigma: float) -> Limit:
        """Closed-form limit on the Top-1 of every attacker; exact without noise."""
        if sigma == 0:
            return exact_limit(self.known, self.known.rows)
        bounds = (closed_form(self.known, sigma, centre) for centre in self.centres)
        return min(bounds, key=lambda limit: limit.success)

    def proofs(self, sigma: float, settings: EmbeddingSettings) -> Proofs:
        """Limits on Top-1 at one noise level, for one draw of a row."""
        closed = self.closed(sigma)
        if sigma == 0 or not settings.plays:
            return Proofs(closed, None)
        played = optimal_attacker(
            self.known,
            sigma,
            trials=settings.plays,
            confidence=settings.confidence,
            seed=settings.seed,
        )
        return Proofs(closed, played)

    def shaped_limit(self, noise: ShapedNoise, settings: EmbeddingSettings) -> Limit | None:
        """Limits of isotropic noise on rows in the coordinates in which it is isotropic.

        None where rounding on the way to these coordinates hides differences that the release
        shows.
        """
        lost = np.finfo(float).eps * float((np.abs(self.known.rows) @ np.abs(noise.white)).max())
        if lost > 1e-6 * noise.sigma:
            return None
        white = replace(self.known, rows=noise.whitened(self.known.rows))
        centres = tuple(noise.whitened(centre[None])[0] for centre in self.centres)
        best = Game(white, centres).proofs(noise.sigma, settings).best
        shape = (
            "the shape of the noise is known to the attacker and the same for every row; the limit "
            "is that of the coordinates in which it is isotropic"
        )
        label = best.guarantee
        return replace(best, guarantee=replace(label, assumptions=(*label.assumptions, shape)))


def game_of(model: Released, split: Split) -> Game:
    """The game behind the certificates, on the probes of a split."""
    rows = np.asarray(model.representations[split.probe_rows], np.float64)
    even = np.full(len(rows), 1 / len(rows))
    game = known(rows, split.probe_user, even)
    step = max(1, len(rows) // _CENTRE_ROWS)
    return Game(game, (game.weight @ game.rows, geometric_median(game.rows[::step])))


def sample_of(model: Released, split: Split) -> Sample:
    """Clean gallery means and probes."""
    return Sample(
        gallery_means(model.representations, split),
        np.bincount(split.gallery_user),
        np.asarray(model.representations[split.probe_rows], np.float64),
        split.probe_user,
    )


def gallery_hits(settings: EmbeddingSettings, metric: str | None = None) -> Attack:
    """The gallery attack as a function of a sample: (G, 4) hits by user, see `TOP`."""

    def hits(sample: Sample) -> Float:
        order = ranks(
            sample.probes,
            sample.gallery,
            sample.owner,
            metric or settings.metric,
            backend=settings.backend,
            workers=settings.threads,
        )
        position = np.arange(sample.users)
        tables = [(position < k).astype(float) for k in TOP] + [1 / (position + 1)]
        credits = [over_ties(table, order.closer, order.tied) for table in tables]
        return np.stack(
            [np.bincount(sample.owner, row, minlength=sample.users) for row in credits], axis=1
        )

    return hits


def sweep(battery: Battery, say: Say, cluster: Cluster | None = None) -> Curve:
    """Run all attackers at the requested levels, those of the surface, and near the thresholds.

    Args:
        cluster: runs the levels elsewhere, each as a job; by default threads of this process run
            several levels at once.
    """
    settings = battery.settings
    began: list[float] = []  # when the first level of the current round ended

    def judged(done: int, levels: int) -> None:
        now = time.perf_counter()
        if done == 1:
            began[:] = [now]
        elif done < levels and now - began[0] > _SLOW:
            left = (now - began[0]) / (done - 1) * (levels - done)
            time_left = f"{left:.0f} s" if left < 90 else f"{left / 60:.0f} min"
            say(f"all attackers at {done} of {levels} levels; about {time_left} for the others")

    def attacked(level: Level) -> Level:
        result = battery.on_noise(level)
        say(f"noise {level.sigma:g}: attacked")
        return result

    surface = [effective_sigma(s, m) for s in settings.surface for m in settings.averaged]
    return _curve_of(
        battery,
        [*settings.sigmas, *surface],
        attacked,
        thresholds=sorted({*TIERS, settings.lift}),
        extra=settings.refine,
        judged=judged,
        elsewhere=None if cluster is None else partial(_far_levels, cluster, battery, say),
    )


def _far_levels(
    cluster: Cluster, battery: Battery, say: Say, sigmas: Sequence[float]
) -> list[Level]:
    """Measure each level by a job with one core, which draws its noise from the seed."""
    alone = replace(battery, settings=replace(battery.settings, workers=1), folder=None)
    levels: dict[int, Level] = {}
    done = cluster([(alone, sigma) for sigma in sigmas], _far_level)
    with contextlib.closing(done):
        for place, (level, skipped) in done:
            levels[place] = level
            battery.skipped.update(skipped)
            say(f"noise {level.sigma:g}: all attackers; {len(levels)} of {len(sigmas)} levels")
    return [levels[place] for place in range(len(sigmas))]


def _far_level(job: tuple[Battery, float]) -> tuple[Level, dict[str, str]]:
    battery, sigma = job
    return level_at(battery, sigma, sigma in battery.settings.sigmas), battery.skipped


def level_at(battery: Battery, sigma: float, planted: bool = True) -> Level:
    """Run all attackers at a further level, with the same noise vectors as the sweep.

    Args:
        planted: whether to plant leaks, as on every candidate.
    """
    further = partial(battery.on_noise, planted=planted)
    return _curve_of(battery, [sigma], further, thresholds=()).levels[0]


def _curve_of(
    battery: Battery, sigmas: Sequence[float], further: Callable[[Level], Level], **options: Any
) -> Curve:
    """`attack_curve` with all attackers of a battery and its settings."""
    settings = battery.settings
    return attack_curve(
        gallery_hits(settings),
        battery.sample,
        sigmas,
        draws=battery.draws,
        confidence=settings.confidence,
        seed=settings.seed,
        further=further,
        **options,
    )


@dataclass(frozen=True, eq=False)
class Battery:
    """All attackers that a threat model allows, on the people of one model.

    Attributes:
        invalid: reason by name of each attacker whose self-check failed.
        deciding: attackers of releases without noise that may be the strongest on clean vectors:
            they attack noised vectors too.
        known: tallies of attackers on clean vectors, by name.
        skipped: filled with the reason by name of each attacker that cannot run.
        fitted: filled with what attackers learned from rows that do not change.
        folder: where finished noise levels are stored; None stores none.
    """

    model: Released  # its clean vectors
    split: Split  # rows of the gallery and of the probes
    sample: Sample  # the vectors of the split
    settings: EmbeddingSettings  # of the audit
    invalid: Mapping[str, str] = field(default_factory=dict)
    deciding: frozenset[str] = frozenset()
    known: Mapping[str, Tally] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    fitted: dict[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def draws(self) -> int:
        """Noise draws a level: those asked for, or those that give 2 billion pairs, 2 or more."""
        pairs = len(self.sample.probes) * self.sample.users
        return min(self.settings.draws, max(2, int(2 * MOST_PAIRS / pairs)))

    @cached_property
    def clean(self) -> Sight:
        """Vectors without noise."""
        return sight_of(self.model.representations, self.split)

    @property
    def views(self) -> dict[str, View]:
        """Views of a released vector by name: the outputs of a linear head, if it has fewer."""
        head = self.model.head
        if not isinstance(head, LinearHead) or len(head.rows) >= head.dimension:
            return {}
        return {LOGITS: lambda rows: head.logits(rows).reshape(len(rows), -1)}

    def panel(self, *, noise: bool = True, projected: bool = False) -> Panel:
        """The attackers to run.

        Args:
            noise: whether released vectors differ from clean ones. Duplicate attackers are left
                out: clean and released galleries without noise, all vectors where every person
                has one.
            projected: whether to keep only attackers that can use few dimensions.
        """
        settings, most = self.settings, int(self.sample.tries.max())
        every = allowed(settings.clean_gallery, settings.joined, settings.score_norm)
        chosen: dict[tuple[str, str, bool, int, bool], Attacker] = {}
        pilots: set[str] = set()
        for attacker in every:
            if attacker.noise not in (None, noise) and attacker.name not in self.deciding:
                continue
            if projected and not (attacker.projected or attacker.metric == NEAREST):
                continue
            joined = attacker.vectors
            if joined == ALL or joined > most:  # all vectors of a person
                joined = ALL if most > 1 else 1
            pilot = noise and (attacker.noise is False or attacker.metric == DENSITY)
            if pilot and attacker.metric in KEPT:  # they learn most from a clean gallery
                attacker = replace(attacker, clean_gallery=settings.clean_gallery)
            held = attacker.clean_gallery and noise
            if pilot:
                pilots.add(attacker.name)
            key = attacker.metric, attacker.reads, held, joined, attacker.normalised
            chosen.setdefault(key, replace(attacker, clean_gallery=held))
        fold = folds(len(self.split.users), settings.seed)
        panel = Panel(tuple(chosen.values()), fold, settings.backend, settings.threads, self.fitted)
        unsound = {attacker.name for attacker in panel.attackers if self._failed(attacker)}
        return replace(panel, pilots=frozenset(pilots), unsound=frozenset(unsound))

    def on_noise(self, level: Level, planted: bool = False) -> Level:
        """Run all attackers at a level of isotropic noise.

        Metrics are learned once a level, on a release with separate noise. Attackers of single
        vectors get half the draws. Leaks are planted at the levels that are candidates.
        """
        tries = level.draws * self.sample.tries
        panel = self.panel(noise=level.sigma > 0)
        first = next(a for a in panel.attackers if a.name == self.settings.metric)
        main = Tally(first, RELEASE, level.exposure * tries, tries.astype(float), level.draws)
        rest = tuple(a for a in panel.attackers if a.name != first.name)
        others = replace(panel, attackers=rest)
        path = self._path(level, others)
        results = None if path is None else read_tallies(path, rest, self.skipped)
        if results is None:
            results = tallies(
                others,
                self._noisy(level),
                self.clean,
                views=self.views,
                single=-(-level.draws // 2),
                skipped=self.skipped,
                known={} if level.sigma else self.known,
            )
            if path is not None:
                write_tallies(path, results, self.skipped)
        results = [main, *results]
        judged = self.judged(results)
        if planted or level.sigma in self.settings.sigmas:
            sight, _ = next(self._noisy(level))
            judged = replace(judged, plants=self._plants(panel, sight, results))
        return replace(level, judged=judged)

    def _path(self, level: Level, panel: Panel) -> Path | None:
        """File of the tallies of a level; None where they are not stored."""
        if self.folder is None or level.sigma == 0:
            return None
        names = repr((panel.attackers, sorted(panel.pilots), sorted(panel.unsound)))
        name = digest(self._audited, repr(level.sigma), hash_array(level.exposure), names)
        return self.folder / f"{name[:32]}.npz"

    @cached_property
    def _audited(self) -> str:
        """Hash of everything that tallies depend on, except noise level and attackers."""
        split, head = self.split, self.model.head
        arrays = [self.model.representations, split.gallery_rows, split.gallery_user]
        arrays += [split.probe_rows, split.probe_user]
        if isinstance(head, LinearHead):
            arrays += [head.rows, np.asarray(head.bias)]
        audit = repr(replace(self.settings, rule=(), workers=0, keep_records=False))
        code = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))]
        return digest(*map(hash_array, arrays), audit, str(versions("numpy", "scipy")), *code)

    def _plants(self, panel: Panel, sight: Sight, results: Sequence[Tally]) -> tuple[Plant, ...]:
        """Plant leaks of the sizes that rules need and of some more, and measure them."""
        valid = [tally for tally in results if not self._failed(tally.attacker)]
        sure = family_confidence(self.settings.confidence, max(len(valid), 1))
        users = len(sight.gallery)
        tops = {"top-1": (1.0, 1.0), "lift": (float(users), math.inf)}
        limits = [
            forbidden(rule.limit, tops[rule.metric][1]) / tops[rule.metric][0]
            for rule in self.settings.rules()
            if rule.metric in tops and not rule.on_width
        ]
        sizes = [limit for limit in limits if 0 < limit < 1]
        return tuple(plants(panel, sight, valid, sizes, sure, self.settings.seed))

    def _noisy(self, level: Level) -> Iterator[tuple[Sight, Sight]]:
        if level.sigma == 0:
            yield self.clean, self.clean
            return
        settings = self.settings
        vectors = self.model.representations
        learned_on = sight_of(smooth(vectors, level.sigma, seed=settings.seed), self.split)
        for draw in range(level.draws):
            seen = unit_noise(self.sample, draw, settings.seed).on(self.sample, level.sigma)
            yield learned_on, replace(learned_on, gallery=seen.gallery, probes=seen.probes)

    def on_release(
        self,
        release: Callable[[int], Float],
        clean: NDArray[Any] | None = None,
        *,
        draws: int = 1,
        projected: bool = False,
        views: Mapping[str, View] | None = None,
    ) -> Judged:
        """Run all attackers on a release of any kind, with noise on every row.

        Args:
            release: function of a seed that returns (n, c) released rows.
            clean: (n, c) rows without noise; None for a release without noise.
            draws: number of releases to average over; 1 for a deterministic release.
            projected: only attackers that can use few dimensions, and no further view.
            views: functions of a released row; by default those of a vector.
        """

        def each() -> Iterator[tuple[Sight, Sight]]:
            for draw in range(draws):
                sight = sight_of(release(self.settings.seed + draw), self.split)
                yield sight, sight

        exact = release(self.settings.seed) if clean is None else clean
        panel = self.panel(noise=clean is not None, projected=projected)
        results = tallies(
            panel,
            each(),
            sight_of(exact, self.split),
            views={} if projected else (self.views if views is None else views),
            skipped=self.skipped,
        )
        judged = self.judged(results)
        sight = sight_of(release(self.settings.seed), self.split)
        return replace(judged, plants=self._plants(panel, sight, results))

    def judged(self, found: Sequence[Tally]) -> Judged:
        """The worst of the tallies; limits hold for all valid ones at once (Bonferroni)."""
        why = {tally.attacker.name: self._failed(tally.attacker) for tally in found}
        valid = sum(not why[tally.attacker.name] for tally in found)
        sure = family_confidence(self.settings.confidence, max(valid, 1))
        method = f"at once for {valid} attacks"
        attacks = tuple(
            AttackResult(
                tally.attacker.name,
                replace(
                    lift, confidence=self.settings.confidence, method=f"{method}, {lift.method}"
                ),
                view=tally.view,
                knows=tally.attacker.knows,
                valid=not why[tally.attacker.name],
                why=why[tally.attacker.name],
            )
            for tally in found
            for lift in [tally.lift(sure)]
        )
        risk = risk_of(attacks, chance=1.0)
        if isinstance(risk, Refusal):
            raise NotMeasurable(risk.reason)
        strongest = next(
            tally
            for tally in found
            if (tally.attacker.name, tally.view) == (risk.attack, risk.view)
        )
        return Judged(attacks, risk, strongest.linear(), strongest.named)

    def least(self, judged: Judged) -> dict[str, float]:
        """Lower limit on Top-1 of each attack that uses one vector, as `Limit` has it."""
        settings = self.settings
        every = allowed(settings.clean_gallery, settings.joined, settings.score_norm)
        single = {attacker.name for attacker in every if attacker.vectors == 1}
        least: dict[str, float] = {}
        for result in judged.attacks:
            if result.attack in single and isinstance(result.estimate, Estimate):
                low = (result.estimate.low or 0.0) / self.sample.users
                least[result.attack] = max(low, least.get(result.attack, 0.0))
        return least

    def _failed(self, attacker: Attacker) -> str:
        """Why the self-check of an attacker or of its twin failed; empty if neither did."""
        if attacker.normalised or attacker.name in self.invalid:
            return self.invalid.get(attacker.name, "")
        twins = [
            a for a in ATTACKERS if (a.metric, a.vectors) == (attacker.metric, attacker.vectors)
        ]
        return next((self.invalid[a.name] for a in twins if a.name in self.invalid), "")
