"""The six steps of the mechanism: in memory, to a file that may leave, and in an audit.

1 the weights that the module is given with; 2 SGD to a local optimum; 3 SGD at a constant, higher
rate, SWAG; 4 draws, risks, weights; 5 SGD from step 2 with record i counting alpha_i; 6 SWAG again
and the epsilon measured on its draws. Then, as often as asked for, weights are lowered and steps 5
and 6 are done again.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.evidence.guarantee import Guarantee, from_seeded_noise, noise_seed
from lethe.files import write_whole
from lethe.mitigations.mitigation import Measured
from lethe.mitigations.pseudo_posterior import (
    EpsilonEstimate,
    ScaleResponse,
    estimate_epsilon,
    record_risk,
    scalar_weights,
    scale_response,
    target_weights,
)
from lethe.mitigations.swag import (
    Inputs,
    Logits,
    Progress,
    Records,
    ReleaseSettings,
    Swag,
    Trained,
    class_log_likelihood,
    count_classes,
    loss_bound,
    model_logits,
)
from lethe.training.chunks import tensor_bytes
from lethe.training.recipe import Recipe, TorchRecipe, Treatment, Work
from lethe.training.users_code import build_module

Float = NDArray[np.float64]
FIT, SWAG, DRAWS, REFIT, FINAL, MEASURE, RELEASE = range(2, 9)
"""What a random stream is for; the numbers stand in seeds and must not change."""


@dataclass(frozen=True)
class Mechanism:
    """What the six steps came to; everything here but the drawn model is private."""

    module: nn.Module  # a copy of the module with the drawn weights, in evaluation mode
    posterior: Swag  # that it is from
    estimate: EpsilonEstimate  # epsilon on the final draws
    unweighted: float  # epsilon of the draws of step 4, had all records counted fully
    weights: Float  # (N,) alpha_i
    risk: Float  # (N,) Delta_i of step 4, unweighted
    rounds: tuple[float, ...]  # epsilon after each round, the last being `estimate`'s
    response: ScaleResponse | None  # epsilon at several scales of the draw, or None
    guarantee: Guarantee  # what may be said of the release


def swag_ppm(
    module: nn.Module,
    inputs: Inputs,
    truth: ArrayLike | Tensor,
    settings: ReleaseSettings,
    seed: int = 0,
    *,
    draw_seed: int | None = None,
    logits: Logits = model_logits,
    progress: Progress = lambda *_: None,
) -> Mechanism:
    """The six steps of the SWAG pseudo-posterior mechanism (Chew et al. 2025, arXiv 2503.21528).

    Guarantee: asymptotic, an estimate on the observed records and on few draws; never a proof.
    Assumes: a draw from SWAG is like one from the exact weighted posterior, which nobody knows.

    Args:
        module: with the weights to start from (step 1), public ones if it is pre-trained; it is
            not changed. Frozen parameters stay and are not drawn.
        inputs: (N, ...) tensor, or a mapping of them by argument name.
        truth: (N,) class codes.
        draw_seed: of the released draw, which its secrecy rests on; 128 secret bits by default.
            One that is given is for audits and reproductions, and the label says so.
        logits: (module, batch) -> (B, C) scores.
        progress: is told (step, done, of).

    Raises:
        InputError: no records, batch normalisation, or training that diverged.
        NotMeasurable: a record of positive weight has an infinite loss.
    """
    device = next(module.parameters()).device
    records = Records(inputs, truth, device)
    log_likelihood = class_log_likelihood(logits, settings.floor)
    trained = Trained(copy.deepcopy(module), records, log_likelihood, settings)
    classes = count_classes(logits, trained.module, records)
    bound = None if settings.floor is None else loss_bound(settings.floor, classes)
    seeded, secret = draw_seed is not None, noise_seed(draw_seed)
    return _Run(settings, trained, seed, secret, seeded, bound, progress).six_steps()


@dataclass(frozen=True)
class _Run:
    """One run of the mechanism."""

    settings: ReleaseSettings  # what to do
    trained: Trained  # the copy of the module that is worked on, with its records
    seed: int  # of training and measuring
    secret: int  # seed of the released draw
    given: bool  # whether the caller gave that
    bound: float | None  # of the loss, or None
    progress: Progress  # is told (step, done, of)

    def six_steps(self) -> Mechanism:
        """Do all six steps, top to bottom."""
        settings = self.settings
        self._fit("2-fit", (FIT,), settings.fit_epochs, None)
        parameters = self.trained.parameters
        fitted = {name: value.detach().clone() for name, value in parameters.items()}
        first = self._sample("3-swag", (SWAG,), None)
        values = self._measure("4-draws", first, child_seed(self.seed, DRAWS), settings.draws)
        risk = record_risk(values)
        weights = self._weights(risk)
        everyone = np.ones(len(risk))
        finite = np.isfinite(risk).all()
        unweighted = self._estimate(-risk[None, :], everyone).epsilon if finite else math.inf
        rounds: list[float] = []
        for number in range(settings.rounds + 1):
            if number > 0:
                lower = self._targeted(record_risk(values))
                changed = np.minimum(weights, lower)
                if np.array_equal(changed, weights):
                    break
                weights = changed
            tail = f"-{number}"
            with torch.no_grad():
                for key, value in parameters.items():
                    value.copy_(fitted[key])
            self._fit(f"5-refit{tail}", (REFIT, number), settings.refit_epochs, weights)
            final = self._sample(f"6-swag{tail}", (FINAL, number), weights)
            seed = child_seed(self.seed, MEASURE, number)
            values = self._measure(f"6-draws{tail}", final, seed, settings.final_draws)
            estimate = self._estimate(values, weights)
            rounds.append(estimate.epsilon)
        response = self._respond(final, seed, tail, values, weights)
        label = estimate.guarantee(*_against(settings, estimate, response))
        final.draw_into(parameters, self.secret)
        self.trained.module.train(False)
        return Mechanism(
            self.trained.module,
            final,
            estimate,
            unweighted,
            weights,
            risk,
            tuple(rounds),
            response,
            from_seeded_noise(label, given=self.given),
        )

    def _fit(self, name: str, stream: tuple[int, ...], epochs: int, weights: Float | None) -> None:
        """Steps 2 and 5: SGD to a local optimum."""
        how = (name, (self.seed, *stream), epochs, self.settings.rate, weights)
        self.trained.train(*how, progress=self.progress)

    def _sample(self, name: str, stream: tuple[int, ...], weights: Float | None) -> Swag:
        """Steps 3 and 6: SGD on at a constant, higher rate, one collection an epoch."""
        settings = self.settings
        posterior = Swag(self.trained.parameters, settings.rank, settings.scale)
        how = (name, (self.seed, *stream), settings.swag_epochs, settings.swag_rate, weights)
        self.trained.train(*how, posterior.collect, self.progress)
        return posterior

    def _measure(
        self, name: str, posterior: Swag, seed: int, count: int, scale: float | None = None
    ) -> Float:
        """(S, N) log-likelihoods of all records under draws."""
        rows = []
        for number in range(count):
            self.progress(name, number, count)
            posterior.draw_into(self.trained.parameters, seed, number, scale=scale)
            rows.append(self.trained.log_likelihoods())
        return np.stack(rows)

    def _weights(self, risk: Float) -> Float:
        """Step 4: one of the forms."""
        scalar = self.settings.weighting == "scalar"
        weights = self._targeted(risk, scalar_weights if scalar else target_weights)
        if not (weights > 0).any():
            raise InputError(
                f"weighting={self.settings.weighting!r} gives every record the weight 0: nothing "
                "would be learned; set floor=, or lower swag_rate."
            )
        return weights

    def _targeted(self, risk: Float, form: Callable[..., Float] = target_weights) -> Float:
        return form(risk, self.settings.epsilon, self.settings.relation)

    def _estimate(self, values: Float, weights: Float) -> EpsilonEstimate:
        return estimate_epsilon(values, weights, self.settings.relation, bound=self.bound)

    def _respond(
        self, posterior: Swag, seed: int, tail: str, values: Float, weights: Float
    ) -> ScaleResponse | None:
        """Epsilon at other scales of the same draws."""
        settings = self.settings
        if len(settings.scales) < 2:
            return None
        tables = {}
        for scale in settings.scales:
            if scale == settings.scale:
                tables[scale] = values
                continue
            name = f"6-scale-{scale:g}{tail}"
            tables[scale] = self._measure(name, posterior, seed, settings.final_draws, scale)
        return scale_response(tables, weights, settings.relation, bound=self.bound)


def _against(
    settings: ReleaseSettings, estimate: EpsilonEstimate, response: ScaleResponse | None
) -> Iterator[str]:
    """What is known to stand against the estimate of one release."""
    yield (
        f"with 1 draw the estimate is {estimate.growth[0]:.4g}, with {estimate.draws} draws "
        f"{estimate.growth[-1]:.4g}: it grows with their number"
    )
    if estimate.epsilon > settings.epsilon:
        yield f"the target of {settings.epsilon:g} was not met"
    yield "the estimate looks at losses only and ignores SWAG's covariance"
    yield "the weights were computed from the private records"
    if estimate.bounded is None:
        yield "the loss has no bound"
    if response is not None:
        point = "" if response.responds else ": the draws may be almost one point"
        yield (
            f"at {len(response.scales)} scales of the draw, {response.scales[0]:g} to "
            f"{response.scales[-1]:g}, the estimate goes from {response.epsilons[0]:.4g} to "
            f"{response.epsilons[-1]:.4g}{point}"
        )


def child_seed(seed: int, *words: int) -> int:
    """A 128-bit seed from another and what it is for."""
    low, high = np.random.SeedSequence([seed, *words]).generate_state(2, np.uint64).tolist()
    return int(high) << 64 | int(low)


FORMAT = "lethe-released-draw-1"


def release_draw(
    module: nn.Module,
    inputs: Inputs,
    truth: ArrayLike | Tensor,
    settings: ReleaseSettings,
    file: str | Path,
    *,
    seed: int = 0,
    logits: Logits = model_logits,
    progress: Progress = lambda *_: None,
) -> Mechanism:
    """Run the six steps of `swag_ppm` and write the drawn parameters with their label to a file.

    The noise of the draw is a secret of 128 bits that is stored nowhere. So each call makes another
    draw, which costs another epsilon.

    Guarantee:
        Asymptotic, an estimate on the observed records and on few draws; never a proof.

    Assumes:
        The file is all that leaves, and no other draw about these records was or will be released.
        Nothing here can check that: only a file of the same name is refused, not one that was
        moved or copied.

    Args:
        file: .safetensors, which must not exist yet; the other arguments are those of `swag_ppm`.

    Raises:
        InputError: as `swag_ppm`; or the file exists.
        RunFailed: the file cannot be written.
    """
    file = Path(file)
    if file.exists():
        raise InputError(
            f"{file} exists. A second draw costs a second epsilon: count both, and name another "
            "file."
        )
    mechanism = swag_ppm(module, inputs, truth, settings, seed, logits=logits, progress=progress)
    estimate, response = mechanism.estimate, mechanism.response
    label: dict[str, Any] = {
        "weighting": settings.weighting,
        "estimated_local_epsilon": estimate.epsilon,
        "relation": estimate.relation,
        "draws": estimate.draws,
        "growth": list(estimate.growth),
        "loss_floor": settings.floor,
        "loss_bound": estimate.bounded,
        "scale_response": None if response is None else asdict(response),
        "delta": None,
    }
    header = {
        "format": FORMAT,
        "guarantee": json.dumps(mechanism.guarantee.to_json()),
        "release": json.dumps(label, allow_nan=False),
    }
    drawn = {
        name: value.detach().float().cpu().contiguous().numpy()
        for name, value in mechanism.module.named_parameters()
        if value.requires_grad
    }
    write_whole(file, tensor_bytes(drawn, header))
    return mechanism


_ROWS = 4096


@dataclass(frozen=True)
class DrawMethod:
    """Trains each model by the six steps of `swag_ppm` on its own records, and takes one draw.

    Attributes:
        settings: of the mechanism; epochs, rates and batches come from the recipe where it has
            them, see `for_recipe`.
    """

    settings: ReleaseSettings

    def describe(self) -> Mapping[str, Any]:
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
        assert isinstance(work.recipe, TorchRecipe)
        settings = self.for_recipe(work.recipe)
        inputs = torch.from_numpy(np.array(work.features, np.float32))
        for row, seed in zip(work.members, work.seeds, strict=True):
            rows = np.flatnonzero(row)
            release = swag_ppm(
                build_module(work.recipe.make_module, seed),
                inputs[torch.from_numpy(rows)],
                np.asarray(work.labels)[rows],
                settings,
                seed,
                draw_seed=child_seed(seed, RELEASE),
            )
            with torch.no_grad():
                parts = [release.module(part) for part in torch.split(inputs, _ROWS)]
            outputs: NDArray[np.float32] = torch.cat(parts).numpy()
            yield outputs


@dataclass(frozen=True)
class PosteriorDraw(Measured):
    """A draw from the SWAG pseudo posterior as a candidate of an audit.

    Attributes:
        epsilon: target of the *estimated* local epsilon, > 0; never a differential privacy claim.
    """

    epsilon: float
    relation: str = "replace-one"  # that the estimate is under, ``add/remove`` or ``replace-one``
    floor: float | None = 0.01  # m in (0, 1) of the loss floor; None leaves losses unbounded
    weighting: str = "target"  # see `ReleaseSettings`

    @property
    def name(self) -> str:
        """Unique name of the candidate."""
        kind = {"target": "swag-ppm", "scalar": "swag-scalar"}[self.weighting]
        return f"{kind}-{self.epsilon:g}"

    @property
    def title(self) -> str:
        """What is done, in words."""
        who = {"target": "risky records count less", "scalar": "all records count less, alike"}
        return f"one draw from a posterior in which {who[self.weighting]}"

    @property
    def settings(self) -> Mapping[str, Any]:
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
        settings = ReleaseSettings(
            self.epsilon,
            self.relation,
            weighting=self.weighting,
            floor=self.floor,
            scales=(),
            rounds=2,
        )
        return Treatment(method=DrawMethod(settings))

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
