"""The attack at every noise level, beside what no attacker can exceed there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.reidentification.attack import over_ties
from lethe.reidentification.by_user import Linear, scaled, share_of_users
from lethe.reidentification.certificates import Limit, closed_form
from lethe.reidentification.gallery import Split, gallery_means
from lethe.reidentification.known import Known, known
from lethe.reidentification.optimal import exact_limit, optimal_attacker
from lethe.reidentification.pooled import Count, Hits, pooled_attack
from lethe.reidentification.ranks import choose_backend, ranks
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.smoothing import Sample
from lethe.reidentification.surface import TIERS, Attack, Batch, Curve, Level, attack_curve
from lethe.reidentification.vectors import Float, effective_sigma, geometric_median

TOP = (1, 5, 10)
"""Measures of a level, in this order: Top-k by credit, then the reciprocal rank."""
_CENTRE_ROWS = 20_000
_WORTH_COMPILING = 1_000_000  # pairs of a probe and a user

Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Proofs:
    """Upper limits on every attacker's Top-1 at one noise level.

    Attributes:
        closed: the bound in closed form.
        optimal: the best decoder, played; None where it was not.
    """

    closed: Limit
    optimal: Limit | None

    @property
    def best(self) -> Limit:
        """The lower of the two."""
        if self.optimal is None or self.closed.success <= self.optimal.success:
            return self.closed
        return self.optimal


@dataclass(frozen=True, eq=False)
class Game:
    """One row of somebody among the probes is released; the attacker knows all clean rows.

    Rows are as likely as in the gallery attack: each probe once. So its Top-1 may be set against
    the limits here.

    Attributes:
        known: rows, owners and chances.
        centres: points that the closed form may take; any is valid.
    """

    known: Known
    centres: tuple[Float, ...]

    def closed(self, sigma: float) -> float:
        """Limit on Top-1 of every attacker in closed form; exact without noise."""
        if sigma == 0:
            return exact_limit(self.known, self.known.rows).success
        return min(closed_form(self.known, sigma, centre=c).success for c in self.centres)

    def proofs(self, sigma: float, settings: EmbeddingSettings) -> Proofs:
        """Limits on Top-1 at one noise level, for one draw of a row."""
        if sigma == 0:
            return Proofs(exact_limit(self.known, self.known.rows), None)
        closed = min(
            (closed_form(self.known, sigma, centre=centre) for centre in self.centres),
            key=lambda limit: limit.success,
        )
        if not settings.plays:
            return Proofs(closed, None)
        played = optimal_attacker(
            self.known,
            sigma,
            trials=settings.plays,
            confidence=settings.confidence,
            seed=settings.seed,
        )
        return Proofs(closed, played)


def game_of(model: Released, split: Split) -> Game:
    """The game that the certificates are about, on the probes of a split."""
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
    """The gallery attack as the sweep wants it: (G, 4) hits by user, see `TOP`."""

    def hits(sample: Sample) -> Float:
        found = ranks(
            sample.probes,
            sample.gallery,
            sample.owner,
            metric or settings.metric,
            backend=settings.backend,
            workers=settings.workers,
        )
        return hits_of(sample.users)(found.closer[None], found.tied[None], sample.owner)

    return hits


def hits_of(users: int) -> Hits:
    """From ranks of some draws to (G, 4) hits by user, summed over draws; see `TOP`."""
    position = np.arange(users)
    tables = [(position < k).astype(float) for k in TOP] + [1 / (position + 1)]

    def hits(closer: Count, tied: Count, owner: NDArray[np.integer]) -> Float:
        credits = [over_ties(table, closer, tied).sum(axis=0) for table in tables]
        return np.stack([np.bincount(owner, one, minlength=users) for one in credits], axis=1)

    return hits


def fast_batch(sample: Sample, settings: EmbeddingSettings) -> Batch | None:
    """All draws of a pool at once with numba, where it counts and there is enough to do."""
    backend = choose_backend() if settings.backend == "auto" else settings.backend
    if backend != "numba" or len(sample.probes) * sample.users < _WORTH_COMPILING:
        return None
    return pooled_attack(
        gallery_hits(settings), hits_of(sample.users), settings.metric, settings.workers
    )


def sweep(sample: Sample, settings: EmbeddingSettings, say: Say) -> Curve:
    """The attack at all levels that were asked for, the surface's, and near the thresholds."""
    told: set[float] = set()

    def progress(sigma: float, drawn: int) -> None:
        if sigma not in told:
            told.add(sigma)
            say(f"noise {sigma:g}: attacked, {drawn} draws so far")

    surface = [effective_sigma(s, m) for s in settings.surface for m in settings.averaged]
    return attack_curve(
        gallery_hits(settings),
        sample,
        [*settings.sigmas, *surface],
        draws=settings.draws,
        pools=settings.pools,
        precision=settings.precision,
        thresholds=sorted({*TIERS, settings.lift}),
        extra=settings.refine,
        confidence=settings.confidence,
        seed=settings.seed,
        progress=progress,
        batch=fast_batch(sample, settings),
    )


def level_at(sample: Sample, sigma: float, settings: EmbeddingSettings) -> Level:
    """The attack at one more level, with the same noise vectors as the sweep."""
    curve = attack_curve(
        gallery_hits(settings),
        sample,
        [sigma],
        draws=settings.draws,
        pools=settings.pools,
        thresholds=(),
        confidence=settings.confidence,
        seed=settings.seed,
        batch=fast_batch(sample, settings),
    )
    return curve.levels[0]


def attack_release(
    release: Callable[[int], Float],
    split: Split,
    settings: EmbeddingSettings,
    *,
    metric: str | None = None,
    draws: int = 1,
) -> Level:
    """The gallery attack on a release of any kind; noise is on every row.

    Args:
        release: from a seed to (n, c) released rows.
        split: who is known and who is to be named.
        settings: of the attack.
        metric: another one than the settings'.
        draws: releases that are averaged over; 1 where there is no chance in it.
    """
    attack = gallery_hits(settings, metric)
    hits = np.zeros((len(split.users), len(TOP) + 1))
    for draw in range(draws):
        rows = release(settings.seed + draw)
        hits += np.asarray(
            attack(
                Sample(
                    gallery_means(rows, split),
                    np.bincount(split.gallery_user),
                    rows[split.probe_rows],
                    split.probe_user,
                )
            )
        )
    tries = draws * np.bincount(split.probe_user, minlength=len(split.users))
    hits = np.clip(hits, 0, tries[:, None])
    shares = [share_of_users(one, tries, settings.confidence) for one in hits.T]
    return Level(
        0.0,
        shares[0],
        scaled(shares[0], len(split.users)),
        None,
        draws,
        hits[:, 0] / tries,
        tuple(shares[1:]),
    )


def linear_share(level: Level, split: Split) -> Linear:
    """Top-1 of a level with each user's share in its error, to compare releases in pairs."""
    tries = np.bincount(split.probe_user, minlength=len(split.users))
    share = float((level.exposure * tries).sum() / tries.sum())
    return Linear(share, tries * (level.exposure - share) / tries.sum(), 0.0, "t by users")
