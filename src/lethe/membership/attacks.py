"""All attacks under their names: what each is, what it needs, and how it scores one target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice
from lethe.membership import bavaria, rmia
from lethe.membership.hierarchical import lira_hierarchical
from lethe.membership.knowledge import Knowledge
from lethe.membership.leave_one_out import References
from lethe.membership.lira import lira_offline, lira_online, loss_threshold
from lethe.training.shadows import Shadows

Float = NDArray[np.float64]
Score = Callable[[Knowledge, str, float], Float]


@dataclass(frozen=True)
class Attack:
    """One attack.

    Attributes:
        name: as in ``--attack``.
        title: for readers.
        paper: where it comes from.
        threat: what the attacker has.
        score: (N,) scores of one target, higher = member, from what is known, the variance rule
            and RMIA's a; None for attacks that read whole tables.
        probabilities: whether signals must be log-odds of the true label.
        population: whether records are needed that no model has seen.
        variance: whether it follows the variance rule.
        reference_free: whether it asks no other model; the cells that others cannot score are
            left out all the same, to compare like with like.
        needs: fields of `Shadows` without which it cannot be run.
        learns: whether one half of the records is scored by what is learnt from the other.
    """

    name: str
    title: str
    paper: str
    threat: str
    score: Score | None = None
    probabilities: bool = False
    population: bool = False
    variance: bool = False
    reference_free: bool = False
    needs: tuple[str, ...] = ()
    learns: bool = False

    def lacks(self, shadows: Shadows) -> str | None:
        """Why it cannot be run on these models; None if it can."""
        if self.probabilities and shadows.task == "regression":
            return "it compares probabilities of the true class, which a regression does not have"
        held = shadows.population.shape[1] if shadows.population.size else 0
        if self.population and held < rmia.MINIMUM_POPULATION:
            return (
                f"it needs the signals of at least {rmia.MINIMUM_POPULATION} records that no "
                f"model was trained on, and there are {held}"
            )
        for field in self.needs:
            if getattr(shadows, field) is None:
                return f"it needs {_NEEDED[field]}, which are not known here"
        return None


_NEEDED = {
    "correct": "the predicted labels",
    "features": "the records themselves",
    "population_features": "the held-out records themselves",
}


def _moments(attack: Callable[[Float, References, str], Float]) -> Score:
    """An attack that reads moments of phi."""

    def score(known: Knowledge, rule: str, a: float) -> Float:
        return attack(known.phi, References(known.target, known.inside, known.outside), rule)

    return score


def _base_online(known: Knowledge, rule: str, a: float) -> Float:
    return rmia.log_ratio(known.phi, known.p_in, known.p_out)


def _base_offline(known: Knowledge, rule: str, a: float) -> Float:
    return rmia.log_ratio_offline(known.phi, known.p_out)


def _rmia_online(known: Knowledge, rule: str, a: float) -> Float:
    points = rmia.log_ratio_offline(known.population, known.p_population, a)
    return rmia.place(_base_online(known, rule, a), points)


def _rmia_offline(known: Knowledge, rule: str, a: float) -> Float:
    points = rmia.log_ratio_offline(known.population, known.p_population, a)
    return rmia.place(rmia.log_ratio_offline(known.phi, known.p_out, a), points)


RMIA_FORMS: dict[str, Score] = {"rmia-online": _rmia_online, "rmia-offline": _rmia_offline}

_CARLINI = "Carlini et al., Membership Inference Attacks From First Principles, IEEE S&P 2022"
_RMIA = "Zarifzadeh, Liu, Shokri, Low-Cost High-Power Membership Inference Attacks, ICML 2024"
_BASE = "Lassila et al., Practical Bayes-Optimal Membership Inference Attacks, 2025"
_BAVARIA = "Brännvall, Exponential-Family Membership Inference: From LiRA and RMIA to BaVarIA, 2026"
_WITH = "the attacker trains models with and without the person's record"
_WITHOUT = "the attacker only has models that never saw the person's record"

ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for attack in (
        Attack(
            "lira-online",
            "Likelihood-ratio attack, online",
            f"{_CARLINI}, algorithm 1",
            _WITH,
            _moments(lira_online),
            variance=True,
        ),
        Attack(
            "lira-offline",
            "Likelihood-ratio attack, offline",
            f"{_CARLINI}, section VI",
            _WITHOUT,
            _moments(lira_offline),
            variance=True,
        ),
        Attack(
            "lira-hierarchical",
            "Likelihood-ratio attack with priors over records",
            f"{_CARLINI}; priors as in Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004",
            _WITH,
            _moments(lira_hierarchical),
        ),
        Attack(
            "bavaria-n",
            "BaVarIA, Gaussian",
            _BAVARIA,
            _WITH,
            _moments(bavaria.bavaria_n),
        ),
        Attack(
            "bavaria-t",
            "BaVarIA, Student t",
            _BAVARIA,
            _WITH,
            _moments(bavaria.bavaria_t),
        ),
        Attack(
            "bavaria-offline",
            "BaVarIA, Student t, offline",
            _BAVARIA,
            _WITHOUT,
            _moments(bavaria.bavaria_offline),
        ),
        Attack(
            "rmia-online",
            "Relative attack, online",
            f"{_RMIA}, eq. 2",
            _WITH,
            _rmia_online,
            probabilities=True,
            population=True,
        ),
        Attack(
            "rmia-offline",
            "Relative attack, offline",
            f"{_RMIA}, eq. 10",
            _WITHOUT,
            _rmia_offline,
            probabilities=True,
            population=True,
        ),
        Attack("base-online", "BASE, online", _BASE, _WITH, _base_online, probabilities=True),
        Attack("base-offline", "BASE, offline", _BASE, _WITHOUT, _base_offline, probabilities=True),
        Attack(
            "attack-r",
            "Attack R: the record's own quantile",
            "Ye et al., Enhanced Membership Inference Attacks against Machine Learning Models, "
            "CCS 2022, section 4.2",
            _WITHOUT,
        ),
        Attack(
            "learned-ratio",
            "Likelihood ratio learnt from other targets",
            "this project; boosted trees on what LiRA, BASE and RMIA look at",
            _WITH,
            learns=True,
        ),
        Attack(
            "loss-threshold",
            "Loss threshold (blind baseline)",
            "Yeom et al., CSF 2018",
            "the attacker has no other model; one threshold for everybody",
            _moments(loss_threshold),
            reference_free=True,
        ),
        Attack(
            "gap",
            "Gap: is the label right?",
            "Yeom et al., CSF 2018, section 3",
            "the attacker has no other model and sees one label a record, no score",
            reference_free=True,
            needs=("correct",),
        ),
        Attack(
            "quantile",
            "Quantile regression on records outside",
            "Bertran et al., Scalable Membership Inference Attacks via Quantile Regression, "
            "NeurIPS 2023",
            "the attacker has no other model, but records that were not trained on",
            population=True,
            reference_free=True,
            needs=("features", "population_features"),
        ),
    )
}


REFERENCE_FREE = tuple(name for name, attack in ATTACKS.items() if attack.reference_free)
"""Attacks that ask no other model."""

AUTO = ("lira-online", "lira-offline", "rmia-offline", "learned-ratio", "loss-threshold")
"""What ``--attack auto`` runs: see the table of docs/attacks.md."""


def choose_attacks(asked: Sequence[str], shadows: Shadows) -> tuple[str, ...]:
    """The attacks behind what was asked for.

    Args:
        asked: names; or ``auto`` for those of `AUTO`, ``all`` for all, each as far as they can
            be run here.
        shadows: the models to attack.

    Raises:
        InputError: an unknown name, or one that lacks something here.
    """
    able = [name for name in ATTACKS if ATTACKS[name].lacks(shadows) is None]
    if list(asked) == ["all"]:
        return tuple(able)
    if list(asked) == ["auto"]:
        return tuple(name for name in AUTO if name in able)
    check_attacks(asked, shadows)
    return tuple(dict.fromkeys(asked))


def check_attacks(names: Iterable[str], shadows: Shadows) -> None:
    """Refuse unknown attacks and those that lack something here.

    Raises:
        InputError: naming the attack and what it lacks.
    """
    for name in names:
        check_choice("attack", name, ATTACKS)
        reason = ATTACKS[name].lacks(shadows)
        if reason is not None:
            raise InputError(f"attack {name!r} cannot be run here: {reason}.")
