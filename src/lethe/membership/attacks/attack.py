"""What an attack is, what it finds, and what it may use against one target.

Leave-one-out: every shadow model in turn is the target. Or targets are given, and all shadow models
are references.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from lethe.errors import InputError
from lethe.membership.leave_one_out import References, check_signals, leave_one_out, moments
from lethe.training.design import partners
from lethe.training.shadows import Shadows
from lethe.training.signals import check_table as check_table

# What attacks with more than one score a record check first, and how they part the targets.


def check_varies(name: str, table: NDArray[Any]) -> None:
    """Refuse a table whose entries are all the same: it tells no record from another.

    Raises InputError: they are.
    """
    first = table.flat[0]
    if bool((table == first).all()):
        raise InputError(
            f"{name} are all {first!s}; constant signals cannot show membership: "
            "give the outputs of trained models."
        )


Float = NDArray[np.float64]

MINIMUM_POPULATION = 30
"""Records that no model has seen, without which attacks that need them are refused."""


@dataclass(frozen=True)
class Available:
    """What data and recipe give an attack to read; known before anything is trained."""

    task: str | None  # ``classification`` or ``regression``; None where signals came without one
    population: int  # records that no model is trained on
    predicted_labels: bool  # whether models say which label they would give
    features: bool  # whether the records themselves are there
    population_features: bool  # whether those of the population are
    references: bool  # whether there are models beside the one that is attacked
    queries: bool = False  # whether models were asked about changed copies of each record

    @staticmethod
    def of(shadows: Shadows) -> Available:
        """What these models give."""
        return Available(
            shadows.task,
            shadows.population.shape[1] if shadows.population.size else 0,
            shadows.correct is not None,
            shadows.features is not None,
            shadows.population_features is not None,
            not shadows.alone,
            shadows.queries is not None,
        )


_NEEDED = {
    "predicted_labels": "the predicted labels",
    "features": "the records themselves",
    "population_features": "the held-out records themselves",
    "queries": "answers on changed copies of each record, as a recipe with augmentation gives",
}


@dataclass(frozen=True)
class Knowledge(References):
    """Everything that an attack on one target may use: moments of phi IN and OUT, and these.

    Attributes:
        p_in: (N,) mean of sigmoid(phi) over models that trained on each record; empty if not
            asked for.
    """

    phi: Float  # (N,) its signals, higher = better known
    p_in: Float
    p_out: Float  # (N,) the same over models that did not
    population: Float  # (H,) its signals on records that no model has seen
    p_population: Float  # (H,) mean of sigmoid(phi) of the reference models on these


@dataclass(frozen=True)
class Trial:
    """Targets under attack, and the models that the attacker holds beside them.

    Attributes:
        given: T targets on the same records, whose membership no attack may read; None where
            every reference model is the target in turn, and is then no reference of its own.
        setting: (T,) what `Attack.choose` chose for each target; None without one.
    """

    references: Shadows  # K models on N records
    given: Shadows | None
    rule: str  # variance rule of LiRA, not ``auto``
    seed: int  # of what is left out with a target (see `leave_one_out`), of folds and draws
    setting: Float | None = None

    @property
    def targets(self) -> Shadows:
        """The T models under attack."""
        return self.references if self.given is None else self.given

    @property
    def likely(self) -> bool:
        """Whether signals are log-odds of the true label."""
        return self.references.task != "regression"

    def knowledge(self, probabilities: bool = True) -> Iterator[Knowledge]:
        """What is known against each target that can be scored."""
        if self.given is None:
            return each_left_out(self.references, self.seed, probabilities)
        return given_targets(self.references, self.given)


Scorer = Callable[[Knowledge], Float]
"""(N,) scores of one target, higher = member; what cannot be scored may be anything."""


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        score: scores of a trial's targets, higher = member: a function of what is known against
            one of them; or (T, N) at once, where an attack does not go target by target.
        choose: (K,) a setting for each shadow model under attack, chosen on others by a seed,
            see `Trial.setting`; of given targets all get the mean.
        reference_free: whether it asks no other model; the cells that others cannot score are
            left out all the same, to compare like with like.
        learns: whether one half of the records is scored by what is learnt from the other.
        by_formula: whether it is quick enough to be run anew at every stop of early stopping.
        log_ratio: whether scores are log-likelihood ratios, to be summed over a person's records.
    """

    name: str  # as in ``--attack``
    title: str  # for readers
    paper: str  # where it comes from
    threat: str  # what the attacker has
    score: Callable[[Trial], Scorer | Float]
    choose: Callable[[Shadows, int], Float] | None = None
    probabilities: bool = False  # whether signals must be log-odds of the true label
    population: bool = False  # whether records are needed that no model has seen
    variance: bool = False  # whether it follows the variance rule
    reference_free: bool = False
    needs: tuple[str, ...] = ()  # fields of `Available` without which it cannot be run
    learns: bool = False
    by_formula: bool = True
    log_ratio: bool = True

    def lacks(self, available: Available) -> str | None:
        """Why it cannot be run on what is available; None if it can."""
        if not (self.reference_free or available.references):
            return "it compares the model with others trained alike, and there is one model alone"
        if self.probabilities and available.task == "regression":
            return "it compares probabilities of the true class, which a regression does not have"
        if self.population and available.population < MINIMUM_POPULATION:
            return (
                f"it needs the signals of at least {MINIMUM_POPULATION} records that no "
                f"model was trained on, and there are {available.population}"
            )
        for field in self.needs:
            if not getattr(available, field):
                return f"it needs {_NEEDED[field]}, which are not known here"
        return None


WITH = "the attacker trains models with and without the person's record"
WITHOUT = "the attacker only has models that never saw the person's record"


def signals_alone(shadows: Shadows, columns: NDArray[np.intp]) -> Shadows:
    """Some of the records, with what attacks that ask references read."""
    return replace(
        Shadows(shadows.signals[:, columns], shadows.members[:, columns], shadows.ids[columns]),
        population=shadows.population,
        task=shadows.task,
        queries=None if shadows.queries is None else shadows.queries[:, columns],
    )


def each_left_out(
    shadows: Shadows,
    seed: int = 0,
    probabilities: bool = True,
    targets: Container[int] | None = None,
) -> Iterator[Knowledge]:
    """Every scorable shadow model as the target; see `leave_one_out` for what is left out with it.

    Args:
        probabilities: whether the means of sigmoid(phi) are wanted.
        targets: only these, where not all are wanted.
    """
    signals, members = shadows.signals, shadows.members
    empty = np.zeros(0)
    means = _left_out_means(shadows.population, members) if probabilities else empty
    # Equal seeds leave out equal models, so both walk over the same references.
    chances = leave_one_out(expit(signals), members, seed, targets) if probabilities else None
    for left_out in leave_one_out(signals, members, seed, targets):
        p_in = p_out = empty
        if chances is not None:
            chance = next(chances)
            p_in, p_out = chance.inside.mean, chance.outside.mean
        yield Knowledge(
            left_out.target,
            left_out.inside,
            left_out.outside,
            np.asarray(signals[left_out.target], np.float64),
            p_in,
            p_out,
            _row(shadows.population, left_out.target),
            _row(means, left_out.target),
        )


def given_targets(references: Shadows, targets: Shadows) -> Iterator[Knowledge]:
    """Targets that are no shadow models; all shadow models are references."""
    check_signals(references.signals, references.members)
    check_signals(targets.signals, targets.members)
    signals, members = references.signals, references.members
    inside, outside = moments(signals, members), moments(signals, ~members)
    chance = expit(np.asarray(signals, np.float64))
    p_in, p_out = moments(chance, members).mean, moments(chance, ~members).mean
    means = expit(np.asarray(references.population, np.float64)).mean(axis=0)
    for target in range(targets.models):
        yield Knowledge(
            target,
            inside,
            outside,
            np.asarray(targets.signals[target], np.float64),
            p_in,
            p_out,
            _row(targets.population, target),
            means,
        )


def _row(table: NDArray[np.floating], target: int) -> Float:
    """(H,) a model's row, empty where there is no population."""
    return np.asarray(table[target], np.float64) if table.size else np.zeros(0)


def _left_out_means(population: NDArray[np.floating], members: NDArray[np.bool_]) -> Float:
    """(K, H) mean p(z) of all models but each target and its complementary partner."""
    if population.size == 0:
        return np.zeros((0, 0))
    probability = expit(np.asarray(population, np.float64))
    total, partner = probability.sum(axis=0), partners(members)
    paired = (partner >= 0)[:, None]
    left = total - probability - np.where(paired, probability[partner], 0.0)
    return np.asarray(np.maximum(left, 0.0) / np.maximum(len(population) - 1 - paired, 1))
