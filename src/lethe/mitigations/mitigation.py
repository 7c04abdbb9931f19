"""What every mitigation of a membership audit offers, and the registry of all of them.

A mitigation is a configuration, a change of the training (`treatment`) and a label of what that
proves (`guarantee`). Adding one takes its file and its line in `MITIGATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.guarantee import SEED_KNOWN, Guarantee, empirical_only
from lethe.training.batches import stop_epochs
from lethe.training.recipe import Recipe, TorchRecipe, Treatment

if TYPE_CHECKING:
    from lethe.training.answers import AnswerForm

# Cheap comparators that a serious defence must beat: regularisers, and limits on what is answered.
#
# L2, label smoothing, mixup and averaging are there to generalise better; nothing limits what the
# model learns of any one record, and better is not always safer: on digits (32 networks, 1,437
# records, seed 0) LiRA's TPR at 1 % FPR was 0.055 without them, 0.055 with L2 0.001, 0.072 with
# smoothing 0.1, 0.047 with mixup, 0.054 with averaging. Early stopping is the fifth.

STRONGER = 10.0
"""How many times the recipe's own L2 penalty the comparator takes, if the recipe has one."""


_OF_THIS_AUDIT = "the attacks of this audit, at their budget, on records like these"
_VOIDED_BY = ("a stronger attack", "retraining", "another form of release")


class Measured:
    """A `Mitigation` that takes no weights from the audit and has no further details."""

    @property
    def needs_weights(self) -> bool:
        """See `Mitigation`."""
        return False

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """Nothing further."""
        return {}


@dataclass(frozen=True)
class Comparator(Measured):
    """A `Mitigation` whose fixed change is measured and proves nothing."""

    name: str  # unique name of the candidate
    title: str  # what is done, in words
    settings: Mapping[str, Any]  # its numbers, plain values
    changes: Treatment  # the same for every data set
    assumptions: tuple[str, ...]  # how it was attacked
    voided_by: tuple[str, ...]  # what would end its effect

    @property
    def answers_only(self) -> bool:
        """Whether the model stays the one that it was, and only what it answers is limited."""
        answer = self.changes.answer
        return answer is not None and self.changes == Treatment(answer=answer)

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The change; the weights play no part."""
        return self.changes

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Always `empirical-only`: nothing bounds what one record changes."""
        return empirical_only(*self.assumptions, voided_by=self.voided_by)


def _regulariser(name: str, title: str, field: str, value: float, *voided_by: str) -> Comparator:
    """One field of `Treatment` set."""
    return Comparator(
        name,
        title,
        {field: value},
        Treatment(**{field: value}),  # type: ignore[arg-type]  # the fields are numbers
        (_OF_THIS_AUDIT,),
        (*voided_by, *_VOIDED_BY),
    )


def _output_limit(
    name: str, title: str, answer: AnswerForm, assumes: str, voided_by: str
) -> Comparator:
    """The recipe as it is, with another answer."""
    return Comparator(
        name,
        title,
        {key: value for key, value in answer.describe().items() if key != "kind"},
        Treatment(answer=answer),
        (assumes, "nobody but its operator sees the model's parameters, gradients or full outputs"),
        (
            "a release of the parameters, or another way to ask the model",
            voided_by,
            "a stronger attack",
        ),
    )


def default_decay(recipe: Recipe) -> float:
    """An L2 penalty that is felt: ten times the recipe's own, or one for its optimiser.

    1e-3 where the penalty is part of the gradient, 0.1 where AdamW takes it off the parameters,
    times the learning rate.
    """
    if isinstance(recipe, TorchRecipe) and recipe.weight_decay > 0:
        return STRONGER * recipe.weight_decay
    return 0.1 if isinstance(recipe, TorchRecipe) and recipe.optimizer == "adamw" else 1e-3


def cheap_baselines(recipe: Recipe) -> list[Comparator]:
    """The cheap regularisers; `recipe.refuses` says which of them a recipe cannot take."""
    decay = default_decay(recipe)
    return [
        _regulariser("l2", "a stronger L2 penalty on the parameters", "weight_decay", decay),
        _regulariser(
            "label-smoothing",
            "targets that give every class a little",
            "label_smoothing",
            0.1,
            "shadow models with the same smoothing, which can mark members more clearly",
        ),
        _regulariser("mixup", "training on mixtures of two records of a batch", "mixup", 1.0),
        _regulariser(
            "model-averaging",
            "the average of the parameters over the last steps",
            "average",
            0.25,
        ),
    ]


def output_limits() -> list[Comparator]:
    """The limits on outputs that a fair reader asks for."""
    from lethe.training.answers import LabelOnly, Rounding, Temperature

    labels = LabelOnly()
    return [
        _output_limit(
            "temperature",
            "probabilities flattened or sharpened by a temperature",
            Temperature(4.0),
            "the attacker knows the temperature and undoes it: it protects nobody",
            "knowledge or a guess of the temperature",
        ),
        _output_limit(
            "rounding",
            "probabilities rounded to few decimals",
            Rounding(1),
            "the attacker sees the rounded probabilities of the record alone",
            "questions about changed copies of a record, which give the lost digits back",
        ),
        _output_limit(
            "label-only",
            "the most likely class and nothing else",
            labels,
            f"the attacker asks about {labels.copies} changed copies of every record",
            "more questions a record, or such as search for the boundary",
        ),
    ]


# Targeted obfuscation (Forgotten by Design 2025, eqs. 8 to 12) and its fair comparators.
#
# theta <- theta - eta * (1/B) * sum_j (w_j g_j + u_j): records that give themselves away count
# less, and noise is added to the averaged gradient. Nothing is clipped, and the weights come
# from the same private data, so nothing is proven: every form here is `empirical-only`.

Float = NDArray[np.float64]


def exponential_weights(t: Float, alpha: float, beta: float) -> NDArray[np.float32]:
    """min(e^(-alpha t + beta), 1): eq. 11 of the study.

    Args:
        t: (N,) baseline t-scores; NaN (not scored) gives 1.
        alpha: how fast the weight falls with t, >= 0.
        beta: offset, >= 0; weights start to fall at t = beta/alpha.

    >>> exponential_weights(np.array([0.5, 1.0, 2.0]), 2, 2).round(3).tolist()
    [1.0, 1.0, 0.13500000536441803]
    """
    check_at_least("alpha", alpha, 0)
    check_at_least("beta", beta, 0)
    exponent = (
        np.minimum(-alpha * np.where(np.isnan(t), -np.inf, t) + beta, 0.0)
        if (alpha > 0)
        else np.zeros(len(t))
    )
    return np.exp(exponent).astype(np.float32)


def equal_mean(
    weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """One weight for everybody with the same mean: is it who is weighted, or how much?

    The mean is taken over the records of `pool`, which can be members; over all by default.
    """
    counted = weights if pool is None else weights[pool]
    return np.full_like(weights, float(counted.mean(dtype=np.float64)))


def dropped(weights: NDArray[np.float32], below: float = 0.5) -> NDArray[np.float32]:
    """0 for the records that a weighting pushes below a limit, 1 for the others."""
    check_between("below", below, 0, 1)
    return (weights >= below).astype(np.float32)


@dataclass(frozen=True)
class Obfuscation(Measured):
    """One way to train that the audit puts on the frontier."""

    name: str  # unique name of the candidate
    title: str  # what is done, in words
    settings: Mapping[str, Any]  # its numbers, plain values
    needs_weights: bool = False  # whether it uses the weights derived from the baseline audit

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """See `Mitigation`."""
        rule = self.settings.get("weights")
        chosen: NDArray[np.float32] | None = None
        if rule == "targeted":
            chosen = weights
        elif rule == "equal-mean":
            chosen = equal_mean(weights, pool)
        elif rule == "drop":
            chosen = dropped(weights, self.settings["drop_below"])
        return Treatment(
            weights=chosen,
            noise=self.settings.get("noise", 0.0),
            epochs=self.settings.get("epochs"),
            remove=rule == "drop",
        )

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Always `empirical-only`: no clipping, and the weights are taken from private data."""
        extra = ("weights are themselves computed from the private records",)
        return empirical_only(
            _OF_THIS_AUDIT,
            *(extra if self.needs_weights else ()),
            voided_by=(
                *_VOIDED_BY,
                *((SEED_KNOWN,) if self.settings.get("noise") else ()),
            ),
        )


@dataclass(frozen=True)
class EarlyStopping(Measured):
    """Training cut at an earlier epoch, the best of several that the plain training passes.

    Which stop is the best is found by the audit, see `lethe.membership.candidates`. The plain
    shadow models are asked on their way, on the recipe's own schedule.
    """

    stops: tuple[int, ...]  # epochs to choose from, ascending
    full: int  # epochs of the full training
    chosen: int | None = None  # the best stop; None before it is known
    name: str = "early-stopping"

    @property
    def title(self) -> str:
        """What is done, in words."""
        if self.chosen is None:
            return "training that ends earlier"
        return (
            f"training that ends after {self.chosen} of {self.full} epochs, the best of "
            f"{len(self.stops)} stops"
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """The stop, and those it was chosen from."""
        return {"epochs": self.chosen, "full_epochs": self.full, "stops": list(self.stops)}

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The training change: at the best stop, or at the last where it is not known."""
        return Treatment(epochs=self.chosen or self.stops[-1])

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Always `empirical-only`: nothing bounds what a record changes on the way."""
        return empirical_only(_OF_THIS_AUDIT, voided_by=_VOIDED_BY)


BASELINE = Obfuscation("baseline", "the recipe as it is", {})


def standard_mitigations(
    noise: float, alpha: float, beta: float, epochs: int | None
) -> list[Obfuscation | EarlyStopping]:
    """The study's scenarios and the comparators that a fair reader asks for.

    Args:
        noise: deviation on the averaged gradient.
        epochs: of the full training, to be stopped earlier; None or 1 leaves that out.
    """
    if alpha == 0 and noise == 0:
        raise InputError("alpha=0 and noise=0 leave nothing to compare; set one of them.")
    curve = {"alpha": alpha, "beta": beta}
    listed: list[Obfuscation | EarlyStopping] = [
        Obfuscation("uniform-noise", "Gaussian noise on every averaged gradient", {"noise": noise}),
        Obfuscation(
            "weighted",
            "records that give themselves away count less",
            {"weights": "targeted", **curve},
            True,
        ),
        Obfuscation(
            "weighted-noise",
            "targeted weights and gradient noise together",
            {"weights": "targeted", **curve, "noise": noise},
            True,
        ),
        Obfuscation(
            "removal",
            "the same records left out of training",
            {"weights": "drop", **curve, "drop_below": 0.5},
            True,
        ),
        Obfuscation(
            "equal-mean-weight",
            "one weight for all, with the mean of the targeted ones",
            {"weights": "equal-mean", **curve},
            True,
        ),
    ]
    if epochs is not None and epochs > 1:
        listed.append(EarlyStopping(stop_epochs(epochs), epochs))
    return listed


class Mitigation(Protocol):
    """One way to train, or to answer, that an audit puts on the frontier."""

    @property
    def name(self) -> str:
        """Unique name of the candidate."""
        ...

    @property
    def title(self) -> str:
        """What is done, in words."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its numbers, plain values."""
        ...

    @property
    def needs_weights(self) -> bool:
        """Whether it uses the weights that the audit derives from the private baseline."""
        ...

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The training change.

        Args:
            weights: (N,) targeted weights of this audit; 1 for held-out records.
            pool: (N,) records that can be members; all by default.
        """
        ...

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """What it proves.

        Args:
            pool: (N,) records that can be members; half of them train one model. None where
                nothing is known of the data.
        """
        ...

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """Further plain values for the findings, by key; most have none."""
        ...


@dataclass(frozen=True)
class Asked:
    """What mitigations are built from; `lethe.membership.settings` says what each number is."""

    recipe: Recipe  # how one model is trained
    public: NDArray[np.float32]  # (N,) weights that no private record decides, of individual-dp
    noise: float  # standard deviation on the averaged gradient
    alpha: float  # of the targeted weights
    beta: float  # of the targeted weights
    epsilon: tuple[float, ...]  # targets of DP-SGD
    delta: float | None  # of DP-SGD
    clip: float  # largest norm of a record's gradient in DP-SGD
    dp_batch_size: int | None  # expected batch of DP-SGD; None for the default, like the next three
    dp_epochs: int | None
    dp_learning_rate: float | None
    dp_optimizer: str | None
    local_epsilon: float | None  # target of the estimated epsilon of a posterior draw

    @classmethod
    def of(cls, settings: Any, recipe: Recipe, public: NDArray[np.float32]) -> Asked:
        """The numbers of an audit's settings, by their names."""
        numbers = {field.name: getattr(settings, field.name) for field in fields(cls)[2:]}
        return cls(recipe, public, **numbers)


def _standard(asked: Asked) -> Sequence[Mitigation]:
    epochs = 2  # of a recipe without epochs, which will refuse to stop early
    if isinstance(asked.recipe, TorchRecipe):
        epochs = asked.recipe.epochs
    return standard_mitigations(asked.noise, asked.alpha, asked.beta, epochs)


def _cheap(asked: Asked) -> Sequence[Mitigation]:
    return cheap_baselines(asked.recipe)


def _output(asked: Asked) -> Sequence[Mitigation]:
    return output_limits()


def _private(asked: Asked) -> Sequence[Mitigation]:
    from lethe.mitigations.dp_sgd.candidate import IndividualPrivacy, private_training

    assert isinstance(asked.recipe, TorchRecipe)
    listed: list[Mitigation] = []
    for epsilon in asked.epsilon:
        training = private_training(
            asked.recipe,
            epsilon,
            asked.delta,
            clip=asked.clip,
            batch_size=asked.dp_batch_size,
            epochs=asked.dp_epochs,
            learning_rate=asked.dp_learning_rate,
            optimizer=asked.dp_optimizer,
        )
        listed += [training, IndividualPrivacy(training), IndividualPrivacy(training, asked.public)]
    return listed


def _draws(asked: Asked) -> Sequence[Mitigation]:
    from lethe.mitigations.swag_release import PosteriorDraw

    assert asked.local_epsilon is not None
    return [PosteriorDraw(asked.local_epsilon, weighting=form) for form in ("target", "scalar")]


Build = Callable[[Asked], Sequence[Mitigation]]
MITIGATIONS: dict[str, Build] = {
    "uniform-noise": _standard,
    "weighted": _standard,
    "weighted-noise": _standard,
    "removal": _standard,
    "equal-mean-weight": _standard,
    "early-stopping": _standard,
    "l2": _cheap,
    "label-smoothing": _cheap,
    "mixup": _cheap,
    "model-averaging": _cheap,
    "temperature": _output,
    "rounding": _output,
    "label-only": _output,
    "dp-sgd": _private,
    "weighted-dp": _private,
    "individual-dp": _private,
    "swag-ppm": _draws,
    "swag-scalar": _draws,
}
"""Everything an audit can put on the frontier, by name: what builds it and its family.

Each import is late, since most audits use few families and some load torch.
"""


def family(build: Build) -> tuple[str, ...]:
    """Names of the mitigations that are built together."""
    return tuple(name for name, made_by in MITIGATIONS.items() if made_by is build)


STANDARD, CHEAP, OUTPUT = family(_standard), family(_cheap), family(_output)
PRIVATE, DRAWS = family(_private), family(_draws)


def build(name: str, asked: Asked) -> list[Mitigation]:
    """The mitigations behind a name; a private one stands for one an epsilon."""
    return [mitigation for mitigation in MITIGATIONS[name](asked) if _kind(mitigation.name) == name]


def _kind(candidate: str) -> str:
    """The name that a candidate is asked for by: without its epsilon."""
    for name in (*PRIVATE, *DRAWS):
        if candidate == name or candidate.startswith((f"{name}-eps", f"{name}-")):
            return name
    return candidate
