"""What every mitigation of a membership audit offers, and the registry of all of them.

A mitigation is a configuration, a change of the training (`treatment`) and a label of what that
proves (`guarantee`). Adding one takes its file and its line in `MITIGATIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.guarantee import Guarantee
from lethe.training.recipe import Recipe, TorchRecipe, Treatment


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


class MitigationSettings(Protocol):
    """Numbers that mitigations are built from; `lethe.membership.settings` says what each is."""

    @property
    def noise(self) -> float:
        """Standard deviation, by `noise_convention`."""
        ...

    @property
    def noise_convention(self) -> str:
        """``mean`` or ``record``, see `noise_on_mean`."""
        ...

    @property
    def alpha(self) -> float:
        """Of the targeted weights."""
        ...

    @property
    def beta(self) -> float:
        """Of the targeted weights."""
        ...

    @property
    def epsilon(self) -> tuple[float, ...]:
        """Targets of DP-SGD."""
        ...

    @property
    def delta(self) -> float | None:
        """Of DP-SGD."""
        ...

    @property
    def clip(self) -> float:
        """Largest norm of a record's gradient in DP-SGD."""
        ...

    @property
    def dp_batch_size(self) -> int | None:
        """Expected batch of DP-SGD; None for the default."""
        ...

    @property
    def dp_epochs(self) -> int | None:
        """Passes of DP-SGD; None for the recipe's."""
        ...

    @property
    def dp_learning_rate(self) -> float | None:
        """Of DP-SGD; None for the default."""
        ...

    @property
    def dp_optimizer(self) -> str | None:
        """Of DP-SGD; None for the default."""
        ...

    @property
    def local_epsilon(self) -> float | None:
        """Target of the estimated epsilon of a posterior draw."""
        ...


@dataclass(frozen=True)
class Asked:
    """What mitigations are built from.

    Attributes:
        public: (N,) weights that no private record decides, where ``individual-dp`` is asked for.
    """

    settings: MitigationSettings  # of the audit
    recipe: Recipe  # how one model is trained
    public: NDArray[np.float32]


def _standard(asked: Asked) -> Sequence[Mitigation]:
    from lethe.mitigations.obfuscation import noise_on_mean, standard_mitigations

    settings, recipe = asked.settings, asked.recipe
    batch, epochs = 1, 2  # of a recipe without epochs, which will refuse to stop early
    if isinstance(recipe, TorchRecipe):
        batch, epochs = recipe.batch_size, recipe.epochs
    noise = noise_on_mean(settings.noise, settings.noise_convention, batch)
    return standard_mitigations(noise, settings.alpha, settings.beta, epochs)


def _cheap(asked: Asked) -> Sequence[Mitigation]:
    from lethe.mitigations.baselines import cheap_baselines

    return cheap_baselines(asked.recipe)


def _output(asked: Asked) -> Sequence[Mitigation]:
    from lethe.mitigations.baselines import output_limits

    return output_limits()


def _private(asked: Asked) -> Sequence[Mitigation]:
    from lethe.mitigations.dp_sgd.candidate import IndividualPrivacy, private_training

    settings, recipe = asked.settings, asked.recipe
    assert isinstance(recipe, TorchRecipe)
    listed: list[Mitigation] = []
    for epsilon in settings.epsilon:
        training = private_training(
            recipe,
            epsilon,
            settings.delta,
            clip=settings.clip,
            batch_size=settings.dp_batch_size,
            epochs=settings.dp_epochs,
            learning_rate=settings.dp_learning_rate,
            optimizer=settings.dp_optimizer,
        )
        listed += [training, IndividualPrivacy(training), IndividualPrivacy(training, asked.public)]
    return listed


def _draws(asked: Asked) -> Sequence[Mitigation]:
    from lethe.mitigations.swag_release.mechanism import PosteriorDraw

    epsilon = asked.settings.local_epsilon
    assert epsilon is not None
    return [PosteriorDraw(epsilon), PosteriorDraw(epsilon, weighting="scalar")]


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
    return [made for made in MITIGATIONS[name](asked) if _kind(made.name) == name]


def _kind(candidate: str) -> str:
    """The name that a candidate is asked for by: without its epsilon."""
    for name in (*PRIVATE, *DRAWS):
        if candidate == name or candidate.startswith((f"{name}-eps", f"{name}-")):
            return name
    return candidate
