"""Every way to make the release, measured alike: who is named, what the task keeps, what is proven.

The release as it is comes first, then isotropic noise at each level that was asked for, then the
other mechanisms of `mechanisms` at one level each, so that they stand on one frontier.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.guarantee import (
    SEED_KNOWN,
    Guarantee,
    empirical_only,
    from_seeded_noise,
)
from lethe.reidentification.certificates import Limit, pair_limits
from lethe.reidentification.clean import Clean
from lethe.reidentification.gallery import Split
from lethe.reidentification.geometry import nearest
from lethe.reidentification.mechanisms import (
    NO_NOISE,
    AdaptiveNoise,
    ClippedNoise,
    IsotropicNoise,
    LabelOnly,
    LogitOnly,
    SubspaceNoise,
    clip_norm,
)
from lethe.reidentification.radius import RadiusStudy
from lethe.reidentification.released import LinearHead, Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.surface import Curve, Judged, Level, OperatingPoint
from lethe.reidentification.sweep import Battery, Game, level_at
from lethe.reidentification.task import Task, TaskLevel
from lethe.reidentification.utility import equal_cost_levels
from lethe.reidentification.vectors import Float

BASELINE, RECOMMENDED = "baseline", "noise-recommended"
_DRAWS = 3  # of mechanisms whose noise is on every row
_FEW = 3  # logits below which a learned metric has nothing to turn


@dataclass(frozen=True, eq=False)
class Way:
    """One way to make the release.

    Attributes:
        name: unique for a model.
        mitigation: in words.
        settings: its numbers.
        judged: what all attackers find on it, and the strongest of them.
        task: what a head gets out of it; None without head or labels.
        guarantee: what it proves.
        further: other guarantees of the same release.
        limit: upper limit on Top-1 of every attacker who sees one released vector; None where
            nothing limits it.
        sigma: of isotropic noise; None of other mechanisms.
    """

    name: str
    mitigation: str
    settings: Mapping[str, float]
    judged: Judged
    task: TaskLevel | None
    guarantee: Guarantee
    further: tuple[Guarantee, ...] = ()
    limit: Limit | None = None
    sigma: float | None = None


@dataclass(frozen=True, eq=False)
class Bench:
    """What all ways of one model are measured with.

    Attributes:
        battery: all attackers on its vectors.
        game: what the certificates are about.
        task: head and labels, if there are any.
        clean: the attack on clean vectors.
        settings: of the audit.
        skipped: name and reason of ways that could not be taken; filled by `ways`.
    """

    battery: Battery
    game: Game
    task: Task | None
    clean: Clean
    settings: EmbeddingSettings
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def model(self) -> Released:
        """Clean vectors, their owners and the head."""
        return self.battery.model

    @property
    def split(self) -> Split:
        """Gallery and probes."""
        return self.battery.split

    def noise(self, name: str, sigma: float, level: Level) -> Way:
        """Isotropic noise at one level, with its certificates."""
        judged = level.judged
        assert judged is not None
        proofs = self.game.proofs(sigma, self.settings)
        task = None if self.task is None else self.task.at(sigma)
        if sigma == 0:
            words = "vectors as they are"
            nothing = empirical_only(voided_by=(NO_NOISE,))
            return Way(name, words, {}, judged, task, nothing, (), proofs.best, sigma)
        isotropic = IsotropicNoise(sigma, diameter=self.settings.diameter, source="as given")
        proven = [proofs.closed.guarantee]
        if proofs.optimal is not None:
            proven.append(proofs.optimal.guarantee)
        if self.settings.diameter is not None:
            proven.append(isotropic.guarantee(self.settings.delta))
        first = proofs.best.guarantee
        return Way(
            name,
            "isotropic Gaussian noise on each vector",
            {"sigma": sigma, **self._relative(sigma)},
            judged,
            task,
            first,
            tuple(one for one in proven if one is not first),
            proofs.best,
            sigma,
        )

    def _relative(self, sigma: float) -> dict[str, float]:
        """sigma in units that may be compared between models."""
        known: dict[str, float] = {}
        if self.clean.rms > 0:
            known["sigma_over_rms"] = _short(sigma / self.clean.rms)
        if "l2" in self.clean.nearest:
            pair = pair_limits(self.clean.nearest["l2"][1], sigma)
            known["mu_to_nearest_user"] = _short(pair.mu)
            known["auc_against_nearest_user"] = _short(pair.auc)
        return known


def _short(value: float) -> float:
    """To 4 digits: for the reader, nothing is computed from it."""
    return float(f"{value:.4g}")


def ways(bench: Bench, curve: Curve, recommended: float | None) -> Iterator[Way]:
    """All of them, the release as it is first; their noise comes from the audit's seed.

    Args:
        bench: what they are measured with.
        curve: the sweep.
        recommended: sigma of the operating point, if there is one.
    """
    for way in _ways(bench, curve, recommended):
        yield replace(
            way,
            guarantee=_of_an_audit(way.guarantee),
            further=tuple(_of_an_audit(label) for label in way.further),
        )


def _of_an_audit(label: Guarantee) -> Guarantee:
    return from_seeded_noise(label, given=True) if SEED_KNOWN in label.voided_by else label


def _ways(bench: Bench, curve: Curve, recommended: float | None) -> Iterator[Way]:
    for sigma in bench.settings.sigmas:
        name = BASELINE if sigma == 0 else f"noise-{sigma:g}"
        yield bench.noise(name, sigma, curve.at(sigma))
    if recommended is not None:
        level = level_at(bench.battery, recommended)
        yield bench.noise(RECOMMENDED, recommended, level)
    chosen = recommended or _typical(bench, curve)
    if chosen is None:
        bench.skipped["other mechanisms"] = "no noise level above 0 was asked for"
        return
    for make in (_subspace, _adaptive, _clipped, _logit, _label):
        try:
            yield make(bench, chosen)
        except (InputError, NotMeasurable) as error:
            bench.skipped[make.__name__.strip("_")] = str(error)


def _typical(bench: Bench, curve: Curve) -> float | None:
    """Where there is no operating point: the noise that privacy needs, or the most there is."""
    private = curve.private_from(bench.settings.lift)
    return private or max(bench.settings.sigmas) or None


def _vectors(bench: Bench) -> Float:
    return np.asarray(bench.model.representations, np.float64)


def _head(bench: Bench) -> LinearHead:
    if not isinstance(bench.model.head, LinearHead):
        raise InputError("needs a linear head.")
    return bench.model.head


def _subspace(bench: Bench, sigma: float) -> Way:
    mechanism = SubspaceNoise(_head(bench), sigma)
    judged = bench.battery.on_release(
        lambda seed: mechanism.release(_vectors(bench), seed), _vectors(bench), draws=_DRAWS
    )
    return Way(
        f"subspace-noise-{sigma:.3g}",
        "noise only where the linear head does not look",
        {"sigma": sigma},
        judged,
        None if bench.task is None else bench.task.at(0.0),
        mechanism.guarantee(),
        limit=mechanism.exposed(bench.game.known),
    )


def _adaptive(bench: Bench, sigma: float) -> Way:
    if bench.task is None or bench.task.norm is None:
        raise InputError("needs labels and a linear head of two classes, to be of equal cost.")
    gallery = bench.battery.sample.gallery
    near = nearest(gallery, gallery, "l2", own=np.arange(len(gallery))).distance
    middle = float(np.median(near))
    if middle == 0:
        raise NotMeasurable("half of the users have the same vector as another one.")
    # Far from everybody means easy to name: more noise there, within a factor of 2.
    shape = np.clip(near / middle, 0.5, 2.0)
    place, known = _places(bench)
    rows = np.flatnonzero(known)
    served = known[bench.task.rows]  # the rows that the task is measured on, of these people
    levels = equal_cost_levels(
        shape,
        place[bench.task.rows][served],
        bench.task.logits[served],
        bench.task.labels[served],
        bench.task.norm,
        sigma,
    )
    mechanism = AdaptiveNoise(levels)
    # People who are not in the attack get the uniform noise: the task is measured on all rows.
    each = np.full(len(place), sigma)
    each[rows] = levels[place[rows]]

    def release(seed: int) -> Float:
        made = _vectors(bench).copy()
        made[rows] = mechanism.release(made[rows], place[rows], seed)
        return made

    limit = None
    if bench.settings.plays:
        limit = mechanism.limit(
            bench.game.known, trials=bench.settings.plays, seed=bench.settings.seed
        )
    return Way(
        f"adaptive-noise-{sigma:.3g}",
        "noise by user, more for people far from others, at the accuracy of uniform noise",
        {"uniform_sigma": sigma, "least": _short(levels.min()), "most": _short(levels.max())},
        bench.battery.on_release(release, _vectors(bench), draws=_DRAWS),
        bench.task.drawn(bench.task.vectors, each[bench.task.rows]),
        mechanism.guarantee() if limit is None else limit.guarantee,
        () if limit is None else (mechanism.guarantee(),),
        limit,
    )


def _places(bench: Bench) -> tuple[np.ndarray, np.ndarray]:
    """(n,) position in the gallery of each row's owner, and whether there is one."""
    users, owner = bench.split.users, bench.model.user_ids
    place = np.minimum(np.searchsorted(users, owner), len(users) - 1)
    return place, users[place] == owner


def _clipped(bench: Bench, sigma: float) -> Way:
    if bench.settings.norm is None:
        raise InputError("no norm was given to clip to; it must be fixed without the data.")
    mechanism = ClippedNoise(bench.settings.norm, sigma)
    task = bench.task
    if task is not None:
        short = clip_norm(task.vectors, mechanism.norm)
        task_level = (
            task.drawn(short, sigma)
            if task.norm is None
            else task.closed(task.head.logits(short), sigma)
        )
    return Way(
        f"clipped-noise-{sigma:.3g}",
        f"vectors clipped to norm {mechanism.norm:g}, then isotropic noise",
        {"norm": mechanism.norm, "sigma": sigma},
        bench.battery.on_release(
            lambda seed: mechanism.release(_vectors(bench), seed),
            clip_norm(_vectors(bench), mechanism.norm),
            draws=_DRAWS,
        ),
        None if task is None else task_level,
        mechanism.guarantee(bench.settings.delta),
    )


def _logit(bench: Bench, sigma: float) -> Way:
    if bench.model.head is None:
        raise InputError("needs a head.")
    mechanism = LogitOnly(bench.model.head)

    def release(seed: int) -> Float:
        return mechanism.release(bench.model.representations, seed).reshape(
            len(_vectors(bench)), -1
        )

    return Way(
        "logit-only",
        "only the logits leave the house",
        {},
        bench.battery.on_release(release, projected=release(0).shape[1] < _FEW),
        None if bench.task is None else bench.task.at(0.0),
        mechanism.guarantee(),
        limit=mechanism.exposed(bench.game.known),
    )


def _label(bench: Bench, sigma: float) -> Way:
    classes = bench.model.classes
    if classes is None:
        raise InputError("needs a head.")
    mechanism = LabelOnly(bench.model.head, classes)

    def release(seed: int) -> Float:
        return np.eye(classes)[mechanism.release(bench.model.representations, seed)]

    task = None
    if bench.task is not None:
        binary = bench.task.logits.ndim == 1
        scores = release(0)[bench.task.rows, 1] - 0.5
        task = bench.task.of_scores(scores) if binary else bench.task.at(0.0)
    limit = mechanism.exposed(bench.game.known)
    return Way(
        "label-only",
        "only the predicted class leaves the house",
        {"classes": float(classes)},
        bench.battery.on_release(release, projected=True),
        task,
        limit.guarantee,
        (mechanism.guarantee(len(bench.split.users)),),
        limit,
    )


@dataclass(frozen=True, eq=False)
class Measured:
    """All that was measured on one model.

    Attributes:
        model: its vectors.
        split: who is known and who is to be named.
        clean: attack and controls without noise.
        curve: the attack by noise level.
        game: what the certificates are about.
        bounds: limit on every attacker's Top-1 in closed form, by sigma of the curve.
        task: head and labels, if there are any.
        utility: by effective sigma.
        radii: certified radii; None without a head.
        point: where to stand, under the rule of the settings.
        ways: the candidates, the release as it is first.
        skipped: name and reason of what could not be measured.
    """

    model: Released
    split: Split
    clean: Clean
    curve: Curve
    game: Game
    bounds: dict[float, float]
    task: Task | None
    utility: dict[float, TaskLevel]
    radii: RadiusStudy | None
    point: OperatingPoint
    ways: tuple[Way, ...]
    skipped: dict[str, str]
