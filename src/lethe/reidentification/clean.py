"""The attack on vectors as they are, with its controls: the first half of the audit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.risk import family_confidence
from lethe.reidentification.attack import Attack, measure
from lethe.reidentification.attackers import Attacker, Panel, permuted_lift
from lethe.reidentification.controls import (
    Conditioning,
    OpenSet,
    SharedInputs,
    conditioning,
    open_set,
    shared_inputs,
)
from lethe.reidentification.gallery import Split, gallery_means, split_periods, split_rows
from lethe.reidentification.learned import Sight, sight_of
from lethe.reidentification.nearest import nearest
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.vectors import Float

RAW = "raw features"
INPUTS = (
    Attacker(RAW, "The inputs of the model, Euclidean distance", "l2"),
    Attacker(f"{RAW}, plda", "The inputs of the model, PLDA of other people", "plda"),
)
"""Attackers on what goes into the encoder; no candidate releases it."""
_NEIGHBOURS = 4000  # users whose nearest neighbour is looked up


@dataclass(frozen=True, eq=False)
class Clean:
    """What the attack finds before any noise.

    Attributes:
        attacks: by name of the attacker, those on the raw input features last.
        skipped: name and reason of those that could not be run.
        permuted: by name, its lift where people are looked for under other names: it must be 1.
        strangers: open-set rates, or why there are none.
        shared: inputs copied into all rows of a person; None without features.
        conditioning: what plain float32 would have reported.
        nearest: by metric the 5, 50 and 95 % quantiles over users of the distance from a user's
            mean vector to the nearest other user's.
        rms: root mean square coordinate of the vectors about their mean.
    """

    attacks: dict[str, Attack]
    skipped: dict[str, str]
    permuted: dict[str, Estimate]
    strangers: OpenSet | Refusal
    shared: SharedInputs | None
    conditioning: Conditioning
    nearest: dict[str, tuple[float, float, float]]
    rms: float

    @property
    def invalid(self) -> dict[str, str]:
        """Attackers that find people under other names too often, and what their control gave."""
        return {
            name: f"permuted identities give a lift of {found}, which must be 1"
            for name, found in self.permuted.items()
            if found.low is not None and found.low > 1
        }


def split_of(model: Released, settings: EmbeddingSettings) -> Split:
    """Gallery and probes: within one period, or the gallery from one and the probes later.

    Raises:
        InputError: periods are named and the model has none.
        NotMeasurable: fewer than 2 users have enough rows.
    """
    if settings.known is None:
        return split_rows(model.user_ids, settings.seed, settings.min_rows)
    if model.period is None:
        raise InputError(
            f"known={settings.known!r} needs a period for each row; {model.name} has none."
        )
    # Half of what a split within one period asks for, in each of the two.
    return split_periods(
        model.user_ids, model.period, settings.known, settings.later, settings.min_rows // 2
    )


def attack_clean(model: Released, split: Split, panel: Panel, settings: EmbeddingSettings) -> Clean:
    """Every attack on the clean vectors, then the controls.

    Raises:
        InputError: zero vectors under the metric that the sweep is to use.
    """
    vectors, users = model.representations, len(split.users)
    common = tuple(size for size in settings.common if size < users)
    attacks: dict[str, Attack] = {}
    permuted: dict[str, Estimate] = {}
    skipped: dict[str, str] = {}
    sure = family_confidence(settings.confidence, len(panel.attackers))

    def run(attacker: Attacker, sight: Sight, *, control: bool) -> None:
        seen = panel.seen(attacker, sight, sight)
        try:
            found = panel.rank(attacker, seen, panel.fits(attacker, seen))
            attacks[attacker.name] = measure(
                found, seen.owner, common=common, confidence=settings.confidence
            )
            if control:
                permuted[attacker.name] = permuted_lift(panel, attacker, seen, settings.seed, sure)
        except (InputError, NotMeasurable) as error:
            if attacker.name == settings.metric:
                raise
            skipped[attacker.name] = str(error)

    sight = sight_of(vectors, split)
    for attacker in panel.attackers:
        run(attacker, sight, control=True)
    shared = None
    if model.features is None:
        skipped[RAW] = "the file has no features: no baseline of what goes into the encoder"
    else:
        inputs = sight_of(_standardised(model.features), split)
        for attacker in INPUTS:
            run(attacker, inputs, control=False)
        shared = shared_inputs(model.features, model.user_ids)
    gallery = gallery_means(vectors, split)
    return Clean(
        attacks,
        skipped,
        permuted,
        _measured(lambda: _strangers(model, split, settings)),
        shared,
        conditioning(
            vectors[split.probe_rows],
            gallery,
            split.probe_user,
            settings.metric,
            seed=settings.seed,
        ),
        _neighbours(gallery, settings.seed),
        float(np.sqrt(vectors.var(axis=0, dtype=np.float64).mean())),
    )


def _strangers(model: Released, split: Split, settings: EmbeddingSettings) -> OpenSet:
    return open_set(
        model.representations,
        split,
        metric=settings.metric,
        seed=settings.seed,
        confidence=settings.confidence,
    )


def _measured(call: Callable[[], OpenSet]) -> OpenSet | Refusal:
    try:
        return call()
    except NotMeasurable as error:
        return Refusal(str(error))


def _standardised(features: NDArray[Any]) -> Float:
    """Columns of mean 0 and sd 1: raw inputs come in units of their own."""
    wide = features.astype(np.float64)
    deviation = wide.std(axis=0)
    return np.asarray((wide - wide.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0))


def _neighbours(gallery: Float, seed: int) -> dict[str, tuple[float, float, float]]:
    rng = np.random.default_rng([seed, 65])
    some = np.sort(rng.permutation(len(gallery))[:_NEIGHBOURS])
    spread = {}
    for metric in ("cosine", "l2"):
        if metric == "cosine" and not gallery.any(axis=1).all():
            continue
        apart = nearest(gallery[some], gallery, metric, own=some).distance
        low, middle, high = np.quantile(apart, [0.05, 0.5, 0.95]).tolist()
        spread[metric] = (low, middle, high)
    return spread
