"""The attack on clean vectors, with its controls: the first half of the audit."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.of_vectors import OpenSet
from lethe.evidence.risk import RELEASE, family_confidence
from lethe.reidentification.attack import Attack, measure
from lethe.reidentification.attackers import Panel, controlled
from lethe.reidentification.by_user import mean_by_user
from lethe.reidentification.family import Attacker
from lethe.reidentification.gallery import (
    Split,
    check_users,
    gallery_means,
    sampled,
    split_periods,
    split_rows,
)
from lethe.reidentification.geometry import nearest
from lethe.reidentification.ranks import ranks
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.sight import Sight, sight_of
from lethe.reidentification.tally import Tally
from lethe.reidentification.vectors import Float, standardised

# What keeps the attack honest: strangers, copied inputs, and what ordinary float32 would say.


def open_set(
    representations: NDArray[Any],
    split: Split,
    *,
    metric: str = "cosine",
    false_match: float = 0.01,
    strangers: float = 0.5,
    seed: int = 0,
    confidence: float = 0.95,
) -> OpenSet:
    """Remove some people from the gallery and count how often their probes are named.

    The threshold is set on half of those strangers (`false_match` of their probes are named) and
    measured on the other half.

    Args:
        false_match: share of strangers' probes that may be named, in (0, 1).
        strangers: share of people who are taken out, in (0, 1).

    Raises:
        InputError: a share outside (0, 1).
        NotMeasurable: fewer than 2 people known or in each half of the strangers, or fewer
            strangers' probes than 1 / false_match.
    """
    for name, value in (("false_match", false_match), ("strangers", strangers)):
        check_between(name, value, 0, 1, open_low=True, open_high=True)
    users = len(split.users)
    order = np.random.default_rng([seed, 64]).permutation(users)
    out = round(strangers * users)
    chosen, measured, known = order[: out // 2], order[out // 2 : out], np.sort(order[out:])
    if min(len(chosen), len(measured), len(known)) < 2:
        raise NotMeasurable(
            f"of {users} people {len(known)} stay known and {out} are strangers in two halves; "
            "each group needs 2. Give more people."
        )
    position = np.full(users, -1)
    position[known] = np.arange(len(known))
    inside = position[split.gallery_user] >= 0
    enrolled = replace(
        split,
        users=split.users[known],
        gallery_rows=split.gallery_rows[inside],
        gallery_user=position[split.gallery_user[inside]],
    )
    gallery = gallery_means(representations, enrolled)
    nearest_person = nearest(representations[split.probe_rows], gallery, metric)
    to_choose, to_measure = (np.isin(split.probe_user, group) for group in (chosen, measured))
    needed = int(np.ceil(1 / false_match))
    if to_choose.sum() < needed:
        raise NotMeasurable(
            f"false_match={false_match:g} needs at least {needed} probes of strangers to set a "
            f"threshold, got {int(to_choose.sum())}. Ask for a higher rate."
        )
    threshold = float(np.quantile(nearest_person.distance[to_choose], false_match, method="lower"))
    named = nearest_person.distance <= threshold
    real = position[split.probe_user] >= 0
    right = named & (nearest_person.user == position[split.probe_user])

    def share(hit: NDArray[np.bool_], of: NDArray[np.bool_]) -> Estimate:
        return mean_by_user(hit[of].astype(float), split.probe_user[of], confidence)

    return OpenSet(
        threshold,
        false_match,
        out,
        share(named, to_measure),
        share(right, real),
        share(named & ~right, real),
    )


@dataclass(frozen=True)
class SharedInputs:
    """Inputs that are the same in all rows of a person.

    Attributes:
        columns: positions of the input columns that never differ within a person (and do differ
            between people).
        people: share of people with several rows whose rows are equal in all columns, in [0, 1].
    """

    columns: tuple[int, ...]
    people: float

    def __str__(self) -> str:
        if not self.columns:
            return "no input column is constant within every person"
        return (
            f"{len(self.columns)} input columns are constant within every person: the attack may "
            "measure how much of a copied input survives, not whether a person is recognised. "
            "Take the gallery from one period and the probes from a later one."
        )


def shared_inputs(features: NDArray[Any], user_ids: NDArray[Any]) -> SharedInputs:
    """Find inputs that are copied into every row of a person.

    Args:
        features: (n, p), what the encoder was given.

    Raises InputError: shapes differ, ids of mixed types, or nobody has two rows.

    >>> shared_inputs(np.array([[1, 5], [1, 6], [2, 5], [2, 7]]), np.array([0, 0, 1, 1])).columns
    (0,)
    """
    owner = np.unique(check_users(user_ids), return_inverse=True)[1]
    if features.ndim != 2 or len(features) != len(owner):
        raise InputError(
            f"features have shape {features.shape} for {len(owner)} rows; they must be "
            "(rows, inputs)."
        )
    order = np.argsort(owner, kind="stable")
    same_owner = np.diff(owner[order]) == 0
    if not same_owner.any():
        raise InputError("nobody has two rows, so nothing can be constant within a person.")
    within = np.unique(owner[order][1:][same_owner])
    columns, differing = [], np.zeros(owner.max() + 1, bool)
    for column in range(features.shape[1]):
        values = features[order, column]
        changed = (values[1:] != values[:-1]) & same_owner
        differing[owner[order][1:][changed]] = True
        if not changed.any() and bool((values != values[0]).any()):
            columns.append(column)
    return SharedInputs(tuple(columns), float(np.mean(~differing[within])))


BAD = 0.01
"""Share of sampled ranks that plain float32 may change before the vectors are ill-conditioned."""


@dataclass(frozen=True)
class Conditioning:
    """How well float32 distinguishes these vectors.

    Attributes:
        nearest: median distance from a sampled gallery vector to its nearest other one, in the
            metric's own unit (cosine: 1 - cosine similarity).
    """

    changed: float  # share of sampled probes whose rank plain float32 gets wrong, in [0, 1]
    plain_mrr: float  # mean reciprocal rank that it reports on the sample (ties in expectation)
    exact_mrr: float  # the true one
    nearest: float
    sample: int  # probes in the sample

    @property
    def ill(self) -> bool:
        """Whether other tools, which use plain float32, would misreport this attack."""
        return self.changed > BAD

    def __str__(self) -> str:
        return (
            f"plain float32 changes {self.changed:.1%} of {self.sample} sampled ranks "
            f"(MRR {self.plain_mrr:.4g} instead of {self.exact_mrr:.4g}); median distance to the "
            f"nearest other user {self.nearest:.3g}"
        )


def conditioning(
    probes: NDArray[Any],
    gallery: NDArray[Any],
    true_index: NDArray[np.integer[Any]],
    metric: str = "cosine",
    *,
    sample: int = 500,
    seed: int = 0,
) -> Conditioning:
    """Compare plain float32 distances with exact ranks on a sample of probes.

    What tools that do not decide doubtful pairs in float64, as `ranks` does, would have said.

    Args:
        probes: as for `ranks`; so are the others.
        sample: probes and gallery vectors that are looked at, at most.

    Raises InputError: as `ranks`.
    """
    check_at_least("sample", sample, 1)
    rng = np.random.default_rng([seed, 61])
    taken = np.sort(rng.permutation(len(probes))[:sample])
    some, owners = probes[taken], np.asarray(true_index)[taken]
    exact = ranks(some, gallery, owners, metric)
    distance = _plain_distances(some, gallery, metric)
    true = distance[np.arange(len(taken)), owners][:, None]
    plain_rank = 1 + (distance < true).sum(axis=1) + ((distance == true).sum(axis=1) - 1) / 2
    users = np.sort(rng.permutation(len(gallery))[:sample])
    closest = nearest(gallery[users], gallery, metric, own=users)
    return Conditioning(
        changed=float(np.mean(plain_rank != exact.rank)),
        plain_mrr=float(np.mean(1 / plain_rank)),
        exact_mrr=float(np.mean(1 / exact.rank)),
        nearest=float(np.median(closest.distance)),
        sample=len(taken),
    )


def _plain_distances(
    probes: NDArray[Any], gallery: NDArray[Any], metric: str
) -> NDArray[np.float32]:
    """Distances as usually computed: (sample, G) in float32 throughout."""
    left, right = probes.astype(np.float32), gallery.astype(np.float32)
    if metric == "cosine":
        left = left / np.linalg.norm(left, axis=1, keepdims=True)
        right = right / np.linalg.norm(right, axis=1, keepdims=True)
        return np.asarray(np.float32(1) - left @ right.T)
    squares = np.einsum("ij,ij->i", left, left)[:, None] + np.einsum("ij,ij->i", right, right)
    return np.asarray(squares - 2 * (left @ right.T))


RAW = "raw features"
INPUTS = (
    Attacker(RAW, "The inputs of the model, Euclidean distance", "l2"),
    Attacker(f"{RAW}, plda", "The inputs of the model, PLDA of other people", "plda"),
)
"""Attackers on the encoder's inputs; no candidate releases these."""
_CONTROL = 0.99  # of permuted identities: an alarm by chance leaves a safe release without verdict
Ran = tuple[Attack, Estimate | None]  # an attack, and the lift of its control if it has one
_NEIGHBOURS = 4000  # users whose nearest neighbour is looked up


@dataclass(frozen=True, eq=False)
class Clean:
    """Results of the attack without noise.

    Attributes:
        permuted: by name, its lift where people are looked for under other names: it must be 1.
        nearest: by metric the 5, 50 and 95 % quantiles over users of the distance from a user's
            mean vector to the nearest other user's.
    """

    attacks: dict[str, Attack]  # by name of the attacker, those on the raw input features last
    skipped: dict[str, str]  # name and reason of those that could not be run
    permuted: dict[str, Estimate]
    strangers: OpenSet | Refusal  # open-set rates, or why there are none
    shared: SharedInputs | None  # inputs copied into all rows of a person; None without features
    conditioning: Conditioning  # what plain float32 would have reported
    nearest: dict[str, tuple[float, float, float]]
    rms: float  # root mean square coordinate of the vectors about their mean
    tallies: dict[str, Tally]  # by name, whom the same attackers name; not those on raw features

    @property
    def deciding(self) -> frozenset[str]:
        """Attackers whose upper limit of Top-1 reaches the highest lower one of all."""
        top = {name: attack.top[1] for name, attack in self.attacks.items()}
        best = max((share.low or 0.0 for share in top.values()), default=0.0)
        return frozenset(name for name, share in top.items() if (share.high or 0.0) >= best)

    @property
    def invalid(self) -> dict[str, str]:
        """Attackers that find permuted people too often, with the result of their control."""
        return {
            name: f"permuted identities give a lift of {lift}, which must be 1"
            for name, lift in self.permuted.items()
            if lift.low is not None and lift.low > 1
        }


def split_of(model: Released, settings: EmbeddingSettings) -> Split:
    """Gallery and probes: within one period, or the gallery from one and the probes later.

    Or a random subset of them, where the settings have a limit.

    Raises:
        InputError: periods are named and the model has none.
        NotMeasurable: fewer than 2 users have enough rows.
    """
    if settings.known is None:
        split = split_rows(model.user_ids, settings.seed, settings.min_rows)
    elif model.period is None:
        raise InputError(
            f"known={settings.known!r} needs a period for each row; {model.name} has none."
        )
    else:  # half of what a split within one period asks for, in each of the two
        split = split_periods(
            model.user_ids, model.period, settings.known, settings.later, settings.min_rows // 2
        )
    return sampled(split, settings.max_people, settings.max_probes, settings.seed)


def attack_clean(model: Released, split: Split, panel: Panel, settings: EmbeddingSettings) -> Clean:
    """Every attack on the clean vectors, then the controls.

    Raises InputError: zero vectors under the metric that the sweep is to use.
    """
    vectors, users = model.representations, len(split.users)
    common = tuple(size for size in settings.common if size < users)
    attacks: dict[str, Attack] = {}
    permuted: dict[str, Estimate] = {}
    tallies: dict[str, Tally] = {}
    skipped: dict[str, str] = {}
    sure = family_confidence(_CONTROL, len(panel.attackers))

    def run(attacker: Attacker, sight: Sight, *, control: bool) -> Ran | Exception:
        seen = panel.seen(attacker, sight, sight)
        try:
            if control:
                order, lift = controlled(panel, attacker, seen, settings.seed, sure)
            else:
                order, lift = panel.rank(attacker, seen, panel.fits(attacker, seen)), None
            attack = measure(order, seen.owner, common=common, confidence=settings.confidence)
            if lift is None:
                return attack, lift
            hits = np.bincount(seen.owner, order.first, minlength=users).astype(float)
            tries = np.bincount(seen.owner, minlength=users).astype(float)
            tallies[attacker.name] = Tally(attacker, RELEASE, hits, tries, 1)
            return attack, lift
        except (InputError, NotMeasurable) as error:
            return error

    def run_all(attackers: Sequence[Attacker], sight: Sight, *, control: bool) -> None:
        ran = panel.each(functools.partial(run, sight=sight, control=control), attackers)
        for attacker, result in zip(attackers, ran, strict=True):
            if not isinstance(result, Exception):
                attacks[attacker.name], lift = result
                if lift is not None:
                    permuted[attacker.name] = lift
            elif attacker.name == settings.metric:
                raise result
            else:
                skipped[attacker.name] = str(result)

    run_all(panel.attackers, sight_of(vectors, split), control=True)
    shared = None
    if model.features is None:
        skipped[RAW] = "the file has no features: no baseline of what goes into the encoder"
    else:
        inputs = sight_of(standardised(model.features), split)
        run_all(INPUTS, inputs, control=False)
        shared = shared_inputs(model.features, model.user_ids)
    gallery = gallery_means(vectors, split)
    options: Any = {"metric": settings.metric, "seed": settings.seed}
    strangers: OpenSet | Refusal
    try:
        strangers = open_set(vectors, split, confidence=settings.confidence, **options)
    except NotMeasurable as error:
        strangers = Refusal(str(error))
    return Clean(
        attacks,
        skipped,
        permuted,
        strangers,
        shared,
        conditioning(vectors[split.probe_rows], gallery, split.probe_user, **options),
        _neighbours(gallery, settings.seed),
        float(np.sqrt(vectors.var(axis=0, dtype=np.float64).mean())),
        tallies,
    )


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
