"""SWAG: a Gaussian around the path of SGD (Maddox et al. 2019, arXiv 1902.02476), and that path.

After a model has converged, SGD goes on at a constant, larger learning rate, and each epoch
gives one collection theta_k. SWAG is N(mean, scale (diag v + D D^T / (K - 1))): the running mean,
the variance of each parameter over all collections, and the last K deviations of theta_k from
the mean as it was after theta_k.

SGD gives the same weights whatever ran before it in the process: each epoch's order and dropout
depend on the seed, the step of the mechanism, the round and the epoch alone.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.epsilon import RELATIONS
from lethe.mitigations.clipping.selfcheck import evaluating
from lethe.training.design import seed_of
from lethe.training.users_code import seeded

WEIGHTINGS = ("target", "scalar")


@dataclass(frozen=True)
class ReleaseSettings:
    """Numbers of the pseudo-posterior mechanism (Chew et al. 2025, arXiv 2503.21528).

    Attributes:
        epsilon: target of the estimated epsilon of the released draw, > 0.
        relation: ``add/remove`` or ``replace-one``; there is no default, since every epsilon
            means another thing under the other relation.
        weighting: ``target`` (form a of the study) or ``scalar`` (form c, the tempered posterior).
        floor: m in (0, 1): the training loss itself is -log((1 - m) p + m / C), at most
            ln(C / m). None leaves the loss without a bound.
        fit_epochs: passes of step 2.
        refit_epochs: passes of step 5.
        swag_epochs: passes of steps 3 and 6, each with one collection; >= 2.
        rate: learning rate of steps 2 and 5, > 0.
        swag_rate: constant learning rate of steps 3 and 6, >= `rate`.
        momentum: of SGD, in [0, 1).
        weight_decay: Gaussian prior of precision weight_decay x records, >= 0.
        batch_size: records a step aimed at.
        rank: deviations that SWAG keeps.
        scale: of SWAG's covariance; 1/2 is its authors'.
        draws: S of step 4, which give the risks.
        final_draws: S' of step 6, which give the epsilon; it grows with them.
        rounds: how often after step 6 weight is taken from records that are above the target on
            the final draws, and steps 5 and 6 repeated; ends early where none is.
        scales: scales of the draw at which the epsilon is measured again; empty for none.
    """

    epsilon: float
    relation: str
    weighting: str = "target"
    floor: float | None = None
    fit_epochs: int = 10
    refit_epochs: int = 10
    swag_epochs: int = 20
    rate: float = 0.01
    swag_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 32
    rank: int = 20
    scale: float = 0.5
    draws: int = 20
    final_draws: int = 20
    rounds: int = 0
    scales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)

    def __post_init__(self) -> None:
        for name in ("epsilon", "rate", "swag_rate", "scale"):
            check_between(name, getattr(self, name), 0, math.inf, open_low=True, open_high=True)
        for scale in self.scales:
            check_between("scales", scale, 0, math.inf, open_low=True, open_high=True)
        check_choice("relation", self.relation, RELATIONS)
        check_choice("weighting", self.weighting, WEIGHTINGS)
        check_between("momentum", self.momentum, 0, 1, open_high=True)
        check_between("weight_decay", self.weight_decay, 0, math.inf, open_high=True)
        for name, low in _WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name}={value!r} must be a whole number.")
            check_at_least(name, value, low)
        if self.floor is not None:
            check_between("floor", self.floor, 0, 1, open_low=True, open_high=True)
        if self.swag_rate < self.rate:
            raise InputError(
                f"swag_rate={self.swag_rate!r} must be at least rate={self.rate!r}: the draws "
                "would lie almost on one point."
            )


_WHOLE = {
    "fit_epochs": 0,
    "refit_epochs": 0,
    "swag_epochs": 2,
    "batch_size": 1,
    "rank": 1,
    "draws": 1,
    "final_draws": 1,
    "rounds": 0,
}


Inputs = Tensor | NDArray[Any] | Mapping[str, Any]
Logits = Callable[[nn.Module, Any], Tensor]
LogLikelihood = Callable[[nn.Module, Any, Tensor], Tensor]


class Records:
    """Inputs and truth, read a batch at a time.

    Args:
        inputs: (N, ...) tensor or array, or a mapping of them by the names that the model's
            forward takes, as a tokenizer gives them.
        truth: (N,) class codes.
        device: of the model; batches are moved there.

    Raises InputError: no records, unequal lengths, NaN or infinity, or no class codes.
    """

    def __init__(self, inputs: Inputs, truth: ArrayLike | Tensor, device: torch.device) -> None:
        self.truth = _tensor("truth", truth)
        self.named = isinstance(inputs, Mapping)
        parts = inputs if isinstance(inputs, Mapping) else {"inputs": inputs}
        self.parts = {str(name): _tensor(str(name), value) for name, value in parts.items()}
        self.device = device
        self.count = len(self.truth) if self.truth.ndim else 0
        if self.count == 0 or not self.parts:
            raise InputError("there are no records; give inputs and truth of at least one.")
        for name, value in self.parts.items():
            if value.ndim == 0 or len(value) != self.count:
                rows = len(value) if value.ndim else "none"
                raise InputError(f"{name} has {rows} rows, truth has {self.count}.")
        if self.truth.ndim != 1 or self.truth.is_floating_point() or self.truth.is_complex():
            raise InputError("truth must be (records,) whole class codes.")
        self.truth = self.truth.long()
        if int(self.truth.min()) < 0:
            raise InputError(f"truth has the class {int(self.truth.min())}; codes start at 0.")

    def batch(self, rows: NDArray[np.int64]) -> tuple[Any, Tensor]:
        """Inputs and truth of some rows, on the model's device."""
        index = torch.from_numpy(rows)
        inputs = {name: value[index].to(self.device) for name, value in self.parts.items()}
        return (inputs if self.named else inputs["inputs"]), self.truth[index].to(self.device)


def _tensor(name: str, value: Any) -> Tensor:
    try:
        tensor = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{name} is no tensor of numbers: {error}.") from error
    if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
        raise InputError(f"{name} holds NaN or infinity; fill or drop those records first.")
    return tensor


def model_logits(module: nn.Module, batch: Any) -> Tensor:
    """(B, C) scores of a model: what it returns, or the entry `logits` of that.

    Args:
        module: any classifier; models of transformers give an output with `logits`.
        batch: a tensor, or a mapping by argument name.
    """
    scores = forward_batch(module, batch)
    if isinstance(scores, Mapping):
        scores = scores.get("logits")
    scores = getattr(scores, "logits", scores)
    if not isinstance(scores, Tensor) or scores.ndim != 2:
        shape = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise InputError(
            f"the model gives {shape}, not (batch, classes) scores; give logits=, a function of "
            "(module, batch)."
        )
    return scores


def class_log_likelihood(logits: Logits, floor: float | None) -> LogLikelihood:
    """log p of each record's class from a model's scores, with the floor if there is one."""

    def log_likelihood(module: nn.Module, batch: Any, truth: Tensor) -> Tensor:
        scores = logits(module, batch).float()
        if floor is not None:
            return floored_log_likelihood(scores, truth, floor)
        return -F.cross_entropy(scores, truth, reduction="none")

    return log_likelihood


def count_classes(logits: Logits, module: nn.Module, records: Records) -> int:
    """C, read off the model's scores of the first record; refused if truth does not fit."""
    with evaluating(module), torch.no_grad():
        scores = logits(module, records.batch(np.arange(1))[0])
    classes = int(scores.shape[-1])
    largest = int(records.truth.max())
    if largest >= classes:
        raise InputError(f"truth has the class {largest}, the model only 0 to {classes - 1}.")
    return classes


def loss_bound(floor: float, classes: int) -> float:
    """ln(C / m): no record costs more when m of every prediction is spread over C classes.

    Guarantee: |log((1 - m) p + m / C)| <= ln(C / m) for every p in [0, 1]; no data enter.

    >>> round(loss_bound(0.1, 10), 4)
    4.6052
    """
    check_between("floor", floor, 0, 1, open_low=True, open_high=True)
    return math.log(check_at_least("classes", classes, 2) / floor)


def floored_log_likelihood(logits: Tensor, labels: Tensor, floor: float) -> Tensor:
    """log((1 - m) p + m / C) of each record's class; differentiable, the training loss itself.

    Minimise ``-(alpha * floored_log_likelihood(...)).sum()`` in training and use the same values
    for Delta: then |log p'| <= ln(C / m) for every parameter and every record.

    Args:
        logits: (..., C) scores of the classes, before the softmax.
        labels: (...) class codes, int64.
        floor: m in (0, 1), the share of the uniform distribution.

    Returns: (...) log-likelihoods in [-ln(C/m), 0].
    Raises InputError: m outside (0, 1), or fewer than 2 classes.

    >>> uniform = floored_log_likelihood(torch.zeros(1, 4), torch.tensor([2]), 0.1)
    >>> uniform.exp().round(decimals=4)
    tensor([0.2500])
    """
    classes = logits.shape[-1]
    loss_bound(floor, classes)  # refuses what is out of range
    chosen = F.log_softmax(logits, -1).gather(-1, labels[..., None])[..., 0]
    uniform = torch.full_like(chosen, math.log(floor / classes))
    return torch.logaddexp(chosen + math.log1p(-floor), uniform)


def forward_batch(module: nn.Module, batch: Any) -> object:
    """Call a module on one batch of `Records`.

    Args:
        batch: a tensor, or a mapping, whose entries go in by name; those that `forward` does not
            take are left out.
    """
    if not isinstance(batch, Mapping):
        return module(batch)
    taken = inspect.signature(module.forward).parameters
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values()):
        return module(**batch)
    known = {str(name): value for name, value in batch.items() if name in taken}
    if not known:
        raise InputError(
            f"no entry of the batch ({', '.join(map(str, batch))}) is an argument of the "
            "model's forward; give logits=, a function of (module, batch)."
        )
    return module(**known)


Progress = Callable[[str, int, int], None]


class Momentum:
    """SGD with momentum, as torch has it; its own would load a compiler of several seconds."""

    def __init__(
        self,
        parameters: Mapping[str, nn.Parameter],
        rate: float,
        momentum: float,
        weight_decay: float,
    ) -> None:
        self.parameters = parameters
        self.rate, self.momentum, self.weight_decay = rate, momentum, weight_decay
        kept = parameters if momentum > 0 else {}
        self.momenta = {name: torch.zeros_like(value.detach()) for name, value in kept.items()}

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients, which are then gone."""
        for name, parameter in self.parameters.items():
            slope = parameter.grad
            if slope is None:
                continue
            if self.weight_decay > 0:
                slope.add_(parameter, alpha=self.weight_decay)
            if name in self.momenta:
                slope = self.momenta[name].mul_(self.momentum).add_(slope)
            parameter.sub_(slope, alpha=self.rate)
            parameter.grad = None


class Trained:
    """A module on its way through the six steps.

    Args:
        module: is changed; frozen parameters stay as they are.
        records: all private records.
        log_likelihood: (module, batch, truth) -> (B,) log p; the loss is minus that.
        settings: momentum, weight decay and batches.

    Raises InputError: nothing to train, or batch normalisation.
    """

    def __init__(
        self,
        module: nn.Module,
        records: Records,
        log_likelihood: LogLikelihood,
        settings: ReleaseSettings,
    ) -> None:
        self.module, self.records = module, records
        self.log_likelihood, self.settings = log_likelihood, settings
        self.steps = -(-records.count // settings.batch_size)
        self.parameters = {n: p for n, p in module.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise InputError("the module has no parameter that requires a gradient.")
        for name, part in module.named_modules():
            if isinstance(part, _BatchNorm):
                raise InputError(
                    f"{name} is batch normalisation, which reads the private records at full "
                    "weight and outside any estimate; use LayerNorm or GroupNorm."
                )
        self._still = {name: buffer.clone() for name, buffer in module.named_buffers()}

    def train(
        self,
        name: str,
        stream: tuple[int, ...],
        epochs: int,
        rate: float,
        weights: NDArray[np.float64] | None,
        collect: Callable[[Mapping[str, Tensor]], None] = lambda _: None,
        progress: Progress = lambda *_: None,
    ) -> None:
        """Train for some epochs from the weights that the module has.

        Args:
            name: of the step, which progress is reported with.
            stream: numbers that its randomness depends on.
            weights: (N,) alpha_i; None counts every record fully.
            collect: is handed the parameters after each epoch.
            progress: is told (name, epochs done, epochs).
        """
        settings = self.settings
        optimizer = Momentum(self.parameters, rate, settings.momentum, settings.weight_decay)
        for epoch in range(epochs):
            progress(name, epoch, epochs)
            self._epoch(optimizer, stream, epoch, weights)
            self._check(f"epoch {epoch + 1} of {name} at rate {rate:g}")
            collect(self.parameters)
        progress(name, epochs, epochs)

    def _epoch(
        self,
        optimizer: Momentum,
        stream: tuple[int, ...],
        epoch: int,
        weights: NDArray[np.float64] | None,
    ) -> None:
        order = np.random.default_rng([*stream, epoch]).permutation(self.records.count)
        self.module.train(True)
        # A record counts alpha_i an epoch, whatever batch it falls into.
        size = self.records.count / self.steps
        with seeded(seed_of(np.random.SeedSequence((*stream, epoch, 1)))):
            for rows in np.array_split(order, self.steps):
                if weights is not None:
                    rows = rows[weights[rows] > 0]  # 0 x infinity is no number
                if len(rows) == 0:
                    continue
                batch, truth = self.records.batch(rows)
                values = self.log_likelihood(self.module, batch, truth)
                if weights is not None:
                    values = values * torch.from_numpy(weights[rows]).to(values)
                torch.autograd.backward([-values.sum() / size])
                optimizer.step()

    def _check(self, when: str) -> None:
        for name, parameter in self.parameters.items():
            if not math.isfinite(parameter.detach().sum(dtype=torch.float64).item()):
                raise InputError(
                    f"{name} is NaN or infinite after {when}; lower the learning rate."
                )
        for name, buffer in self.module.named_buffers():
            if not torch.equal(buffer, self._still[name]):
                raise InputError(
                    f"buffer {name!r} changes in training, with the private records at full "
                    "weight and outside any estimate; use a layer without it."
                )

    @torch.no_grad()
    def log_likelihoods(self) -> NDArray[np.float64]:
        """(N,) log p of all records under the weights that the module has, without dropout."""
        self.module.train(False)
        parts, size = [], max(self.settings.batch_size, 256)
        for first in range(0, self.records.count, size):
            rows = np.arange(first, min(first + size, self.records.count))
            batch, truth = self.records.batch(rows)
            parts.append(self.log_likelihood(self.module, batch, truth).double().cpu())
        return torch.cat(parts).numpy()


VARIANCE_FLOOR = 1e-30
_CHUNK = 1 << 17
"""Values worked on at once, which fit in a core's cache; each chunk has noise of its own."""


class Swag:
    """Mean, variances and one deviation matrix over all named parameters of a model.

    All parameters share the same low-rank noise, so that covariances between layers are kept.
    Moments are Welford's, about the first collection: a weight of 1 that moves by 1e-5 keeps its
    standard deviation in float32. With K deviations stored the divisor is K - 1, whatever `rank`
    is; with fewer than 2 the covariance is diagonal.

    Guarantee: none by itself. A draw is private in no proven sense, because the distance from
        SWAG to the true posterior is not known; see `lethe.mitigations.pseudo_posterior`.

    Args:
        parameters: name -> floating tensor, as ``dict(model.named_parameters())``, which names a
            tied weight once; only names, shapes, types and device are read. Leave out what is
            frozen. Later calls take the same names and shapes.
        rank: deviations kept, >= 1; older ones are overwritten.
        scale: factor on the whole covariance, > 0; 1/2 is the paper's.

    Attributes:
        count: collections so far.
        rank: deviations kept at most.
        scale: factor on the covariance.
        size: parameters counted, P.

    >>> swag = Swag({"w": torch.zeros(2)}, rank=2)
    >>> for step in (1.0, 2.0, 3.0):
    ...     swag.collect({"w": torch.tensor([step, 1.0])})
    >>> drawn = {"w": torch.empty(2)}
    >>> swag.draw_into(drawn, seed=7)
    >>> drawn["w"][1]  # which never moved
    tensor(1.)
    """

    def __init__(
        self, parameters: Mapping[str, Tensor], rank: int = 20, scale: float = 0.5
    ) -> None:
        self.rank, self.scale, self.count = rank, scale, 0
        self._like = {name: value.detach().to("meta") for name, value in parameters.items()}
        self.size = sum(value.numel() for value in self._like.values())
        wide = any(value.dtype == torch.float64 for value in self._like.values())
        kind = torch.float64 if wide else torch.float32
        device = next(iter(parameters.values())).device
        # The mean is origin + offset: both stay exact to a few parts in 1e7 of the *movement*.
        self._origin, self._offset, self._squares = (
            torch.zeros(self.size, dtype=kind, device=device) for _ in range(3)
        )
        self._deviations = torch.zeros(self.rank, self.size, dtype=kind, device=device)

    @property
    def stored(self) -> int:
        """Deviations stored, K = min(count, rank)."""
        return min(self.count, self.rank)

    @torch.no_grad()
    def collect(self, parameters: Mapping[str, Tensor]) -> None:
        """Take in the parameters as they are now, all finite (Welford 1962 for the moments)."""
        row = self._deviations[self.count % self.rank]
        self.count += 1
        for place, values in self._chunks(parameters):
            origin, offset = self._origin[place], self._offset[place]
            if self.count == 1:
                origin.copy_(values)
            moved = values.to(origin) - origin
            before = moved - offset
            offset.add_(before, alpha=1 / self.count)
            after = moved.sub_(offset)
            self._squares[place].addcmul_(before, after)
            row[place].copy_(after)

    @torch.no_grad()
    def draw_into(
        self,
        parameters: Mapping[str, Tensor],
        seed: int,
        number: int = 0,
        *,
        scale: float | None = None,
    ) -> None:
        """Draw mean + sqrt(scale) (sqrt(v) z1 + D z2 / sqrt(K - 1)), eq. 1 of the paper.

        Who knows the seed of a released draw knows its noise: take it from a secret source of 128
        bits, all of which every number of z1 and z2 depends on.

        Args:
            parameters: name -> tensor to be overwritten, such as a model's parameters.
            seed: >= 0, of any size.
            number: which of the draws of this seed, >= 0.
            scale: factor on the covariance in the place of the object's own.
        """
        key, spread = (seed, number), math.sqrt(self.scale if scale is None else scale)
        shared = _stream(key, 0).normal(size=(1, self.stored))
        shared *= spread / math.sqrt(max(self.stored - 1, 1))
        low_rank = torch.from_numpy(shared).to(self._origin)
        kind = np.float64 if self._origin.dtype == torch.float64 else np.float32
        for chunk, (place, target) in enumerate(self._chunks(parameters)):
            # Not torch's generator, which keeps 32 bits of a seed on the CPU and 64 elsewhere.
            noise = _stream(key, chunk + 1).standard_normal((1, len(target)), kind)
            part = torch.from_numpy(noise).to(self._origin.device)
            variance = (self._squares[place] / self.count).clamp_min_(VARIANCE_FLOOR)
            part *= variance.sqrt_().mul_(spread)
            if self.stored >= 2:
                part += low_rank @ self._deviations[: self.stored, place]
            part += self._offset[place]
            part += self._origin[place]
            target.copy_(part[0])

    def _chunks(self, parameters: Mapping[str, Tensor]) -> Iterator[tuple[slice, Tensor]]:
        """Places in the vector and the memory of the values there, to be read or written."""
        start = 0
        for name, like in self._like.items():
            value = parameters[name].detach()
            # A view of dense memory; values that lie scattered are copied in at the end.
            solid = value.contiguous()
            flat = solid.view(-1)
            for begin in range(0, like.numel(), _CHUNK):
                part = flat[begin : begin + _CHUNK]
                yield slice(start + begin, start + begin + len(part)), part
            if solid is not value:
                value.copy_(solid)
            start += like.numel()


def _stream(seed: tuple[int, int], part: int) -> np.random.Generator:
    """Of z2 (part 0), or of z1 in one chunk of the parameters: 128 bits of the seed each."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part,)))
