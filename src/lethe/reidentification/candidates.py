"""Every candidate release, measured alike: who is named, what the task keeps, what is proven.

First the release as it is, then isotropic noise at each level, then one level of each other
mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.guarantee import (
    SEED_KNOWN,
    Guarantee,
    empirical_only,
    from_seeded_noise,
)
from lethe.evidence.of_vectors import Beyond, VectorDetails
from lethe.evidence.risk import family_confidence
from lethe.reidentification.attributes import People, infer
from lethe.reidentification.by_user import scaled
from lethe.reidentification.certificates import Limit
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
from lethe.reidentification.scored import Scorer, closed_world
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.sight import sight_of
from lethe.reidentification.smoothing import smooth
from lethe.reidentification.surface import Curve, Judged, Level, OperatingPoint, tier
from lethe.reidentification.sweep import Battery, Game, level_at
from lethe.reidentification.task import Task, TaskLevel
from lethe.reidentification.transforms import (
    Erased,
    KSame,
    ShapedNoise,
    Transform,
    fitted,
)
from lethe.reidentification.utility import equal_cost_levels
from lethe.reidentification.vectors import Float

BASELINE, RECOMMENDED = "baseline", "noise-recommended"
_DRAWS = 3  # of mechanisms whose noise is on every row
_FEW = 3  # logits below which a learned metric has nothing to turn


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A candidate of a model, with its measurements for the section of the model.

    Attributes:
        limit: upper limit on Top-1 of every attacker who sees one released vector; None where
            there is no limit.
        release: its rows, until everything is measured on them.
    """

    candidate: Candidate  # named within its model; compared to the baseline of the model
    judged: Judged  # results of all attackers, and the strongest of them
    task: TaskLevel | None  # utility of a head; None without head or labels
    limit: Limit | None
    beaten: tuple[str, ...]  # attacks whose lower limit was above the limit, which is then dropped
    sigma: float | None  # of isotropic noise; None for other mechanisms
    release: Release | None = None


@dataclass(frozen=True, eq=False)
class Release:
    """The rows of a candidate.

    Attributes:
        clean: (n, c) the rows without noise, or the unchanged vectors that an adversary has; None
            where there are none.
    """

    rows: Callable[[int], Float]  # from a seed to (n, c)
    clean: NDArray[Any] | None = None
    projected: bool = False  # whether only attackers that can use few dimensions run
    erased: bool = False  # an attribute was erased


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything that the evaluation of a model's candidates has in common.

    Attributes:
        skipped: reason by name of mechanisms that could not be evaluated; filled by `evaluate`.
        people: people and their values of each attribute that can be attacked.
        untested: reasons why other attributes cannot be: a rule on them cannot pass.
        unsound: reason by name of attackers whose verification of permuted names beats chance.
    """

    battery: Battery  # all attackers on its vectors
    game: Game  # what the certificates are about
    task: Task | None  # head and labels, if there are any
    clean: Clean  # the attack on clean vectors
    settings: EmbeddingSettings  # of the audit
    skipped: dict[str, str] = field(default_factory=dict)
    people: tuple[People, ...] = ()
    untested: tuple[str, ...] = ()
    unsound: Mapping[str, str] = field(default_factory=dict)

    @property
    def model(self) -> Released:
        """Clean vectors, their owners and the head."""
        return self.battery.model

    @property
    def split(self) -> Split:
        """Gallery and probes."""
        return self.battery.split

    def evaluated(
        self,
        name: str,
        mitigation: str,
        settings: Mapping[str, float],
        judged: Judged,
        task: TaskLevel | None,
        guarantee: Guarantee,
        further: Sequence[Guarantee] = (),
        limit: Limit | None = None,
        sigma: float | None = None,
        release: Release | None = None,
    ) -> Evaluated:
        """A candidate from its measurements, not yet compared to the release as it is."""
        sure, lift = self.settings.confidence, judged.risk.estimate
        top_1 = scaled(lift, 1 / len(self.split.users))
        bound: Measured = Refusal("nothing limits what an attacker may do with this release")
        least = self.battery.least(judged)
        beaten: tuple[str, ...] = ()
        if limit is not None:
            beaten = tuple(name for name, low in least.items() if low > limit.success)
        labels = [guarantee, *further]
        if beaten:
            reason = (
                f"{', '.join(beaten)} beat the limit on every attacker: proof or attack is wrong"
            )
            labels = [
                label
                for label in labels
                if label.parameters.get("success", 1.0) >= max(least.values())
            ] or [empirical_only(voided_by=(reason,))]
            limit, bound = None, Refusal(reason)
        if limit is not None:
            bound = Estimate(None, None, limit.success, sure, "no attacker exceeds it", 0)
        details = VectorDetails(
            tier=tier(lift),
            top_1=top_1,
            bound=None if limit is None else limit.success,
            accuracy=None if task is None else task.accuracy,
        )
        candidate = Candidate(
            name,
            mitigation,
            settings,
            Estimate(None, None, None, sure, "not provided", 0) if task is None else task.value,
            judged.attacks,
            _of_an_audit(labels[0]),
            details=details,
            measures={"lift": lift, "top-1": top_1, "bound": bound, "utility-loss": None},
            further=tuple(_of_an_audit(label) for label in labels[1:]),
            chance=1.0,
            plants=judged.plants,
        )
        return Evaluated(candidate, judged, task, limit, beaten, sigma, release)

    def compared(self, other: Evaluated, base: Evaluated) -> Evaluated:
        """`other` with its utility and risk against those of `base`, paired."""
        # The strongest of each was chosen: the interval allows for that.
        joint = family_confidence(self.settings.confidence, len(other.judged.attacks))
        change = other.judged.strongest.less(base.judged.strongest, None, joint)
        loss = None
        if other.task is not None and base.task is not None and self.task is not None:
            loss = base.task.merit.less(other.task.merit, self.task.users, self.settings.confidence)
        candidate = replace(
            other.candidate,
            utility_loss=loss,
            risk_change=scaled(change, len(self.split.users)),
            measures={**other.candidate.measures, "utility-loss": loss},
        )
        return replace(other, candidate=candidate)

    def noise(self, name: str, sigma: float, level: Level) -> Evaluated:
        """Isotropic noise at one level, with its certificates."""
        judged = level.judged
        assert judged is not None
        proofs = self.game.proofs(sigma, self.settings)
        task = None if self.task is None else self.task.at(sigma)
        rows = self.model.representations  # no wider copy: of a million vectors half a gigabyte
        release = Release(lambda seed: smooth(rows, sigma, seed=seed), rows if sigma > 0 else None)
        if sigma == 0:
            words = "vectors as they are"
            nothing = empirical_only(voided_by=(NO_NOISE,))
            return self.evaluated(
                name, words, {}, judged, task, nothing, (), proofs.best, sigma, release
            )
        isotropic = IsotropicNoise(sigma, diameter=self.settings.diameter, source="as given")
        proven = [proofs.closed.guarantee]
        if proofs.optimal is not None:
            proven.append(proofs.optimal.guarantee)
        if self.settings.diameter is not None:
            proven.append(isotropic.guarantee(self.settings.delta, _vectors(self)))
        first = proofs.best.guarantee
        return self.evaluated(
            name,
            "isotropic Gaussian noise on each vector",
            {"sigma": sigma, **self._relative(sigma)},
            judged,
            task,
            first,
            tuple(label for label in proven if label is not first),
            proofs.best,
            sigma,
            release,
        )

    def _relative(self, sigma: float) -> dict[str, float]:
        """sigma in units that may be compared between models."""
        relative: dict[str, float] = {}
        if self.clean.rms > 0:
            relative["sigma_over_rms"] = _short(sigma / self.clean.rms)
        if "l2" in self.clean.nearest:
            # Noise on two given vectors: N(0, 1) against N(mu, 1), which the best test tells apart.
            mu = self.clean.nearest["l2"][1] / sigma
            relative["mu_to_nearest_user"] = _short(mu)
            relative["auc_against_nearest_user"] = _short(float(ndtr(mu / math.sqrt(2))))
        return relative


def _short(value: float) -> float:
    """To 4 digits: for the reader, nothing is computed from it."""
    return float(f"{value:.4g}")


def evaluate(context: Evaluation, curve: Curve, recommended: float | None) -> Iterator[Evaluated]:
    """All candidates, the release as it is first; their noise comes from the audit's seed.

    Args:
        recommended: sigma of the operating point, if there is one.
    """
    candidates = _candidates(context, curve, recommended)
    base = looked_further(context, next(candidates))
    yield base
    for other in candidates:
        yield context.compared(looked_further(context, other), base)


def looked_further(context: Evaluation, evaluated: Evaluated) -> Evaluated:
    """A candidate with verification and attribute inference, where they were asked for."""
    release, settings = evaluated.release, context.settings
    shown = evaluated.candidate.name in (BASELINE, RECOMMENDED, settings.release)
    wanted = settings.verification or context.people or context.untested
    if release is None or not (shown or wanted):
        return replace(evaluated, release=None)
    rows = release.rows(settings.seed)
    details, measures = evaluated.candidate.details, dict(evaluated.candidate.measures)
    panel = context.battery.panel(noise=release.clean is not None, projected=release.projected)
    sight = sight_of(rows, context.split)
    clean = sight if release.clean is None else sight_of(release.clean, context.split)
    if shown:
        results, sure = evaluated.candidate.attacks, settings.confidence
        try:
            closed = closed_world(panel, results, sight, clean, sure)
            details = replace(details, closed_world=closed)
        except (InputError, NotMeasurable) as error:
            context.skipped[f"closed world, {evaluated.candidate.name}"] = str(error)
    if settings.verification:
        scorer = Scorer(panel, settings.confidence, settings.seed, context.unsound)
        verification = scorer.scored(sight, clean, curve=evaluated.sigma == 0)
        details = replace(details, verification=verification)
        measures |= {quantity: worst.measured for quantity, worst in verification.worst.items()}
    for people in context.people:
        seen = infer(
            rows,
            people,
            context.model.features,
            erased=release.erased,
            confidence=family_confidence(settings.confidence, len(context.people)),
            seed=settings.seed,
        )
        details = replace(details, attributes=(*details.attributes, seen))
        worse = measures.get("attribute-gain")
        if worse is None or _upper(seen.gain) > _upper(worse):
            measures["attribute-gain"] = seen.gain
    if context.untested:
        gain = measures.get("attribute-gain")
        reason = Refusal("; ".join(context.untested))
        measures["attribute-gain"] = (
            replace(gain, high=None) if isinstance(gain, Estimate) else reason
        )
    candidate = replace(evaluated.candidate, details=details, measures=measures)
    return replace(evaluated, candidate=candidate, release=None)  # its rows are not kept


def _upper(measure: Measured | None) -> float:
    return measure.high or 0.0 if isinstance(measure, Estimate) else 0.0


def _of_an_audit(label: Guarantee) -> Guarantee:
    return from_seeded_noise(label, given=True) if SEED_KNOWN in label.voided_by else label


def _candidates(
    context: Evaluation, curve: Curve, recommended: float | None
) -> Iterator[Evaluated]:
    for sigma in context.settings.sigmas:
        name = BASELINE if sigma == 0 else f"noise-{sigma:g}"
        yield context.noise(name, sigma, curve.at(sigma))
    if recommended is not None:
        level = level_at(context.battery, recommended)
        yield context.noise(RECOMMENDED, recommended, level)
    # Without an operating point: the noise that privacy needs, or the most there is.
    private = curve.private_from(context.settings.lift)
    chosen = recommended or private or max(context.settings.sigmas) or None
    if chosen is None:
        context.skipped["other mechanisms"] = "no noise level above 0 was asked for"
        return
    for make in (_subspace, _adaptive, _clipped, _logit, _label):
        try:
            yield make(context, chosen)
        except (InputError, NotMeasurable) as error:
            context.skipped[make.__name__.strip("_")] = str(error)
    for name in context.settings.mitigations:
        try:
            yield _transformed(context, name, chosen)
        except (InputError, NotMeasurable) as error:
            context.skipped[name] = str(error)


def _vectors(context: Evaluation) -> Float:
    return np.asarray(context.model.representations, np.float64)


def _head(context: Evaluation) -> LinearHead:
    if not isinstance(context.model.head, LinearHead):
        raise InputError("needs a linear head.")
    return context.model.head


def _subspace(context: Evaluation, sigma: float) -> Evaluated:
    mechanism = SubspaceNoise(_head(context), sigma)
    release = Release(lambda seed: mechanism.release(_vectors(context), seed), _vectors(context))
    judged = context.battery.on_release(release.rows, release.clean, draws=_DRAWS)
    return context.evaluated(
        f"subspace-noise-{sigma:.3g}",
        "noise only where the linear head does not look",
        {"sigma": sigma},
        judged,
        None if context.task is None else context.task.at(0.0),
        mechanism.guarantee(),
        release=release,
    )


def _adaptive(context: Evaluation, sigma: float) -> Evaluated:
    if context.task is None or context.task.norm is None:
        raise InputError("needs labels and a linear head of two classes, to be of equal cost.")
    gallery = context.battery.sample.gallery
    near = nearest(gallery, gallery, "l2", own=np.arange(len(gallery))).distance
    middle = float(np.median(near))
    if middle == 0:
        raise NotMeasurable("half of the users have the same vector as another one.")
    # Far from everybody means easy to name: more noise there, within a factor of 2.
    shape = np.clip(near / middle, 0.5, 2.0)
    users, owner = context.split.users, context.model.user_ids
    place = np.minimum(np.searchsorted(users, owner), len(users) - 1)
    known = users[place] == owner  # rows of people in the attack
    rows = np.flatnonzero(known)
    served = known[context.task.rows]  # the rows that the task is measured on, of these people
    levels = equal_cost_levels(
        shape,
        place[context.task.rows][served],
        context.task.logits[served],
        context.task.labels[served],
        context.task.norm,
        sigma,
    )
    mechanism = AdaptiveNoise(levels)
    # People who are not in the attack get the uniform noise: the task is measured on all rows.
    sigmas = np.full(len(place), sigma)
    sigmas[rows] = levels[place[rows]]

    def release(seed: int) -> Float:
        table = _vectors(context).copy()
        table[rows] = mechanism.release(table[rows], place[rows], seed)
        return table

    limit = None
    if context.settings.plays:
        limit = mechanism.limit(
            context.game.known, trials=context.settings.plays, seed=context.settings.seed
        )
    return context.evaluated(
        f"adaptive-noise-{sigma:.3g}",
        "noise by user, more for people far from others, at the accuracy of uniform noise",
        {"uniform_sigma": sigma, "least": _short(levels.min()), "most": _short(levels.max())},
        context.battery.on_release(release, _vectors(context), draws=_DRAWS),
        context.task.drawn(context.task.vectors, sigmas[context.task.rows]),
        mechanism.guarantee() if limit is None else limit.guarantee,
        () if limit is None else (mechanism.guarantee(),),
        limit,
        release=Release(release, _vectors(context)),
    )


def _clipped(context: Evaluation, sigma: float) -> Evaluated:
    if context.settings.norm is None:
        raise InputError("no norm was given to clip to; it must be fixed without the data.")
    mechanism = ClippedNoise(context.settings.norm, sigma)
    task = context.task
    if task is not None:
        short = clip_norm(task.vectors, mechanism.norm)
        task_level = (
            task.drawn(short, sigma)
            if task.norm is None
            else task.closed(task.head.logits(short), sigma)
        )
    release = Release(
        lambda seed: mechanism.release(_vectors(context), seed),
        clip_norm(_vectors(context), mechanism.norm),
    )
    return context.evaluated(
        f"clipped-noise-{sigma:.3g}",
        f"vectors clipped to norm {mechanism.norm:g}, then isotropic noise",
        {"norm": mechanism.norm, "sigma": sigma},
        context.battery.on_release(release.rows, release.clean, draws=_DRAWS),
        None if task is None else task_level,
        mechanism.guarantee(context.settings.delta),
        release=release,
    )


def _logit(context: Evaluation, sigma: float) -> Evaluated:
    if context.model.head is None:
        raise InputError("needs a head.")
    mechanism = LogitOnly(context.model.head)

    def release(seed: int) -> Float:
        return mechanism.release(context.model.representations).reshape(len(_vectors(context)), -1)

    return context.evaluated(
        "logit-only",
        "only the logits leave the house",
        {},
        context.battery.on_release(release, projected=release(0).shape[1] < _FEW, views={}),
        None if context.task is None else context.task.at(0.0),
        mechanism.guarantee(),
        limit=mechanism.exposed(context.game.known),
        release=Release(release, projected=release(0).shape[1] < _FEW),
    )


def _label(context: Evaluation, sigma: float) -> Evaluated:
    classes = context.model.classes
    if classes is None:
        raise InputError("needs a head.")
    mechanism = LabelOnly(context.model.head, classes)

    def release(seed: int) -> Float:
        return np.eye(classes)[mechanism.release(context.model.representations)]

    task = None
    if context.task is not None:
        binary = context.task.logits.ndim == 1
        scores = release(0)[context.task.rows, 1] - 0.5
        task = context.task.of_scores(scores) if binary else context.task.at(0.0)
    limit = mechanism.exposed(context.game.known)
    return context.evaluated(
        "label-only",
        "only the predicted class leaves the house",
        {"classes": float(classes)},
        context.battery.on_release(release, projected=True),
        task,
        limit.guarantee,
        (mechanism.guarantee(len(context.split.users)),),
        limit,
        release=Release(release, projected=True),
    )


def _transformed(context: Evaluation, name: str, sigma: float) -> Evaluated:
    """A mitigation of `transforms`, attacked as all others are."""
    vectors, task = _vectors(context), context.task
    transform = fitted(
        name,
        vectors,
        context.model.user_ids,
        list(context.model.attributes.items()),
        sigma,
        context.settings.seed,
    )
    held = vectors if transform.noisy or transform.keeps_clean else None
    first = transform.release(vectors, context.settings.seed)
    release = Release(
        lambda seed: transform.release(vectors, seed),
        held,
        first.shape[1] < _FEW,
        isinstance(transform, Erased),
    )
    views = {
        view: lambda rows, read=read: read(transform.decode(rows))
        for view, read in context.battery.views.items()
    }
    why: dict[str, str] = {}
    judged = replace(context.battery, skipped=why).on_release(
        release.rows,
        release.clean,
        draws=_DRAWS if transform.noisy else 1,
        projected=release.projected,
        views=views,
    )
    for reason in dict.fromkeys(why.values()):
        who = [one.removesuffix(" on release") for one, text in why.items() if text == reason]
        context.skipped[f"{transform.name}: {', '.join(who)}"] = reason
    limit, labels = None, [transform.guarantee()]
    if isinstance(transform, KSame):
        limit = transform.exposed(context.game.known, context.split.users)
    elif isinstance(transform, ShapedNoise):
        limit = context.game.shaped_limit(transform, context.settings)
    if limit is not None:
        # With the chances that the attacks have; the own claim of k-same has people equally likely.
        labels.insert(0, limit.guarantee)
    return context.evaluated(
        transform.name,
        transform.words,
        {key: _short(value) for key, value in transform.settings.items()},
        judged,
        None if task is None else _decoded_task(task, transform, first),
        labels[0],
        labels[1:],
        limit,
        release=release,
    )


def _decoded_task(task: Task, transform: Transform, released: Float) -> TaskLevel:
    """What the head gets out of the released rows, as a consumer hands them to it."""
    if isinstance(transform, ShapedNoise) and isinstance(task.head, LinearHead) and task.norm:
        return task.closed(task.logits, transform.along(task.head.rows[0]) / task.norm)
    rows = transform.decode(released)[task.rows]
    return task.drawn(rows, 0.0) if task.norm is None else task.closed(task.head.logits(rows), 0.0)


@dataclass(frozen=True, eq=False)
class ModelAudit:
    """All that was measured on one model.

    Attributes:
        bounds: limit on every attacker's Top-1 in closed form, by sigma of the curve; levels
            where an attack beats it have none.
    """

    model: Released  # its vectors
    split: Split  # who is known and who is to be named
    clean: Clean  # attack and controls without noise
    curve: Curve  # the attack by noise level
    game: Game  # what the certificates are about
    bounds: dict[float, float]
    task: Task | None  # head and labels, if there are any
    utility: dict[float, TaskLevel]  # by effective sigma
    radii: RadiusStudy | None  # certified radii; None without a head
    point: OperatingPoint  # where to stand, under the rule of the settings
    candidates: tuple[Evaluated, ...]  # all that were evaluated, the release as it is first
    skipped: dict[str, str]  # name and reason of what could not be measured
    further: Beyond = Beyond()  # what was asked for beyond the attack
