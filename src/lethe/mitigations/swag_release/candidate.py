"""The pseudo-posterior draw on the frontier of an audit: every shadow model is such a draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from lethe.evidence.guarantee import Guarantee, from_seeded_noise
from lethe.mitigations.swag_release.mechanism import RELEASE, child_seed, swag_ppm
from lethe.mitigations.swag_release.settings import ReleaseSettings
from lethe.training.recipe import Recipe, TorchRecipe, Treatment, Work
from lethe.training.users_code import build_module

_ROWS = 4096


@dataclass(frozen=True)
class DrawMethod:
    """Trains each model by the six steps of `swag_ppm` on its own records, and takes one draw.

    Attributes:
        settings: of the mechanism; epochs, rates and batches come from the recipe where it has
            them, see `for_recipe`.
    """

    settings: ReleaseSettings

    def describe(self) -> dict[str, Any]:
        """Plain values that decide the models."""
        return {"method": "swag-ppm", **asdict(self.settings)}

    def refuses(self, recipe: Recipe) -> str | None:
        """The mechanism needs a torch classifier without batch statistics."""
        if not isinstance(recipe, TorchRecipe):
            return "a posterior draw needs a torch recipe"
        if recipe.task != "classification":
            return "the estimate needs the log-likelihood of classes; a regression has none here"
        if recipe.augment is not None or recipe.patience is not None:
            return "the six steps train on the records as they are, for a fixed number of epochs"
        module = build_module(recipe.make_module, 0)
        if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in module.modules()):
            return "batch normalisation mixes records; use GroupNorm or LayerNorm"
        return None

    def for_recipe(self, recipe: TorchRecipe) -> ReleaseSettings:
        """Passes, batches and, for SGD, the rate of the recipe; draws at twice the rate."""
        rate = recipe.learning_rate if recipe.optimizer == "sgd" else self.settings.rate
        return replace(
            self.settings,
            fit_epochs=recipe.epochs,
            refit_epochs=recipe.epochs,
            batch_size=recipe.batch_size,
            rate=rate,
            swag_rate=max(2 * rate, self.settings.swag_rate),
            weight_decay=recipe.weight_decay,
        )

    def train(self, work: Work) -> Iterator[NDArray[np.float32]]:
        """See `Method`."""
        settings = self.for_recipe(work.recipe)
        inputs = torch.from_numpy(np.array(work.features, np.float32))
        for row, seed in zip(work.members, work.seeds, strict=True):
            own = np.flatnonzero(row)
            made = swag_ppm(
                build_module(work.recipe.make_module, seed),
                inputs[torch.from_numpy(own)],
                np.asarray(work.labels)[own],
                settings,
                seed,
                draw_seed=child_seed(seed, RELEASE),
            )
            with torch.no_grad():
                parts = [made.module(part) for part in torch.split(inputs, _ROWS)]
            outputs: NDArray[np.float32] = torch.cat(parts).numpy()
            yield outputs


@dataclass(frozen=True)
class PosteriorDraw:
    """A draw from the SWAG pseudo posterior as a candidate of an audit.

    Attributes:
        epsilon: target of the *estimated* local epsilon, > 0; never a differential privacy claim.
        relation: that the estimate is under, ``add/remove`` or ``replace-one``.
        floor: m in (0, 1) of the loss floor; None leaves losses unbounded.
        weighting: see `ReleaseSettings`.
        needs_weights: never: each model makes its own weights.
    """

    epsilon: float
    relation: str = "replace-one"
    floor: float | None = 0.01
    weighting: str = "target"
    needs_weights: bool = False

    @property
    def name(self) -> str:
        """Unique name of the candidate."""
        kind = {"target": "swag-ppm"}.get(self.weighting, f"swag-{self.weighting}")
        return f"{kind}-{self.epsilon:g}"

    @property
    def title(self) -> str:
        """What is done, in words."""
        who = {"target": "risky records count less", "scalar": "all records count less, alike"}
        return f"one draw from a posterior in which {who.get(self.weighting, self.weighting)}"

    @property
    def settings(self) -> dict[str, Any]:
        """Its numbers, plain values."""
        return {
            "target_local_epsilon": self.epsilon,
            "relation": self.relation,
            "loss_floor": self.floor,
            "weighting": self.weighting,
        }

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The six steps in the place of the recipe's loop."""
        asked = ReleaseSettings(
            self.epsilon,
            self.relation,
            weighting=self.weighting,
            floor=self.floor,
            scales=(),
            rounds=2,
            reweight="lower",
        )
        return Treatment(method=DrawMethod(asked))

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """`asymptotic`: the weights aim at the estimate, which a release measures for itself."""
        label = Guarantee(
            "asymptotic",
            {"target_local_epsilon": self.epsilon},
            self.relation,
            "record",
            (
                "the number is the target of an estimate, not an epsilon of differential privacy; "
                "lethe.mitigations.swag_release measures the estimate on the draw that is released",
                "a draw from SWAG is like one from the exact weighted posterior",
                "one draw leaves, and nothing else of the training",
            ),
            (
                "weights that come from the private records, as these do",
                "more draws than were measured, or a second release",
                "records or parameters that the estimate has not seen",
            ),
        )
        return from_seeded_noise(label, given=True)

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """Nothing further."""
        return {}
