"""DP-SGD and DP-Adam in the place of a recipe's own loop, many models at once.

One step (Abadi et al. 2016, algorithm 1): draw a batch by Poisson sampling, clip each record's
gradient to C, add them up, add *one* draw of N(0, sigma^2 C^2) to the sum, divide by the expected
size of a batch, and let the optimiser take its step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.guarantee import check_clip
from lethe.mitigations.clipping.per_example import stand_ins
from lethe.mitigations.clipping.plan import plan_clipping
from lethe.mitigations.clipping.selfcheck import clip_factors
from lethe.training.batches import augment_stream, dropout_seed, factor, generator
from lethe.training.loop import (
    Records,
    asked_copies,
    default_layout,
    load_records,
    make_network,
)
from lethe.training.networks.autograd import Alone, full_products
from lethe.training.networks.chain import Chain, quiet_numpy
from lethe.training.networks.parameters import Network, Noise, Optimizer, loss_slope
from lethe.training.recipe import OPTIMIZERS, Layout, Recipe, TorchRecipe, Work
from lethe.training.users_code import build_module

ClippedSum = Callable[[Tensor, Tensor, Sequence[int], Tensor, float], None]
"""Writes sums of w_j min(1, C/|g_j|) g_j over the rows of K models into their gradients.

From (K, B, ...) inputs, which may be overwritten, (K, B) class codes or targets, how many of the B
rows are each model's own, (K, B) w_j, 0 where padded, and the clip norm C.
"""


def clipped_sum_of(network: Network, recipe: TorchRecipe, x: Tensor, truth: Tensor) -> ClippedSum:
    """The way to the clipped sum that fits how the models are held.

    All models of a chain in one backward pass; one of any other architecture by the fastest way
    that passes the self-check.

    Args:
        network: of `Chain` or `Alone`.
        x, truth: (N, ...) records, whose shapes the examples of the self-check have.

    Raises InputError: the model mixes records, or no way keeps the clipping bound; see
        `plan_clipping`.
    """
    smoothing = recipe.label_smoothing

    def stacked(
        x: Tensor, truth: Tensor, sizes: Sequence[int], weights: Tensor, clip: float
    ) -> None:
        assert isinstance(network, Chain)
        factors = clip_factors(clip, weights.flatten())
        inside = torch.arange(x.shape[1]) < torch.tensor(sizes)[:, None]
        outputs = network.forward(x, sizes)
        slope = loss_slope(recipe.loss, outputs, truth, inside.float(), smoothing)
        network.clipped_sum(slope, lambda norms: factors(norms.flatten()).view_as(norms))

    if isinstance(network, Chain):
        return stacked
    assert isinstance(network, Alone)
    model = network

    def losses(module: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """(B,) loss of each example, whose slope is that of `loss_slope`."""
        outputs: Tensor = module(model.given(batch[0])).float()
        if recipe.loss == "squared-error":
            return (outputs[:, 0] - batch[1]).square()
        return functional.cross_entropy(
            outputs, batch[1], reduction="none", label_smoothing=smoothing
        )

    model.module.train()
    plan = plan_clipping(model.module, losses, stand_ins((x, truth)))
    names = [name for name, p in model.module.named_parameters() if p.requires_grad]

    def alone(x: Tensor, truth: Tensor, sizes: Sequence[int], weights: Tensor, clip: float) -> None:
        rows = sizes[0]
        with torch.enable_grad(), model.own_randomness():
            sums, _ = plan.clipped_sum((x[0, :rows], truth[0, :rows]), clip, weights[0, :rows])
        for name, block in zip(names, model.parameters.blocks, strict=True):
            block.slope[0].copy_(sums[name])

    return alone


# Poisson sampling: each record enters each batch by its own coin.

_COINS = 6  # purpose of the stream: also that of mixup, which no treatment has beside DP-SGD


class PoissonSampler:
    """Draws the batches of one model from a stream of its own.

    Args:
        rows: (n,) records that the model trains on.
        rate: probability of each record to be in a batch, in (0, 1].

    >>> sampler = PoissonSampler(np.arange(5), seed=0, rate=0.5)
    >>> sampler.draw().tolist(), sampler.draw().tolist()
    ([0, 1, 2, 3], [1, 2, 4])
    """

    def __init__(self, rows: NDArray[np.int64], seed: int, rate: float) -> None:
        self.rows = rows
        self.rate = check_between("rate", rate, 0, 1, open_low=True)
        self._rng, self._coins = generator(seed, _COINS), np.empty(len(rows))

    def draw(self) -> NDArray[np.int64]:
        """The records of the next batch, none of them twice; there may be none at all."""
        self._rng.random(out=self._coins)
        return self.rows[(self._coins < self.rate).nonzero()[0]]


def padded(
    drawn: Sequence[NDArray[np.int64]], first: int, most: int
) -> tuple[NDArray[np.int64], list[int]]:
    """A part of the batches of K models as one table.

    Args:
        drawn: batches of K models, of any length.
        first: where the part begins.
        most: rows of the part at most.

    Returns: (K, B) record numbers, 0 where padded, and how many of the B are each model's own.

    >>> padded([np.array([7, 8, 9]), np.array([5])], 1, 64)
    (array([[8, 9],
           [0, 0]]), [2, 0])
    """
    sizes = [min(max(len(batch) - first, 0), most) for batch in drawn]
    table = np.zeros((len(drawn), max(sizes, default=0)), np.int64)
    for row, batch, size in zip(table, drawn, sizes, strict=True):
        row[:size] = batch[first : first + size]
    return table, sizes


MICROBATCH = 512
_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


@dataclass(frozen=True)
class DpSgd:
    """Differentially private training; see `lethe.training.recipe.Method`.

    The recipe gives the model, the loss, label smoothing, weight decay, the schedule of the
    learning rate and augmentation (one random copy of a record a step). Weights of the treatment
    are multiplied *after* clipping, so that record j has the noise multiplier sigma / w_j.

    Attributes:
        noise_multiplier: sigma: standard deviation of the noise on the sum, divided by `clip`;
            at 0 nothing is proven.
        microbatch: rows of one model that are worked on at once; a batch is summed in such parts.
            It decides which dropout masks are drawn, and nothing else.

    Guarantee: That of `lethe.evidence.dp_statement` for Poisson sampling with this noise, rate and
        steps.
    Assumes: Weights, if any, are at most 1 and were fixed without the private data.
    """

    noise_multiplier: float
    clip: float  # C, largest norm of one record's gradient, > 0
    sampling_rate: float  # probability of each record to be in a batch, in (0, 1]
    steps: int  # of one training, >= 1
    learning_rate: float | None = None  # the highest of the schedule; None takes the recipe's
    optimizer: str | None = None  # ``sgd``, ``adam`` or ``adamw``; None takes the recipe's
    momentum: float | None = None  # of SGD; None takes the recipe's
    microbatch: int = MICROBATCH

    def __post_init__(self) -> None:
        check_between("noise_multiplier", self.noise_multiplier, 0, math.inf, open_high=True)
        check_clip(self.clip)
        check_between("sampling_rate", self.sampling_rate, 0, 1, open_low=True)
        check_at_least("steps", self.steps, 1)
        check_at_least("microbatch", self.microbatch, 1)
        if self.learning_rate is not None:
            check_between("learning_rate", self.learning_rate, 0, math.inf, open_low=True)
        if self.optimizer is not None:
            check_choice("optimizer", self.optimizer, OPTIMIZERS)
        if self.momentum is not None:
            check_between("momentum", self.momentum, 0, 1, open_high=True)

    def describe(self) -> Mapping[str, Any]:
        """See `Method`."""
        return {"kind": "dp-sgd", **asdict(self)}

    def refuses(self, recipe: Recipe) -> str | None:
        """See `Method`."""
        if not isinstance(recipe, TorchRecipe):
            return "DP-SGD needs a torch recipe: it clips the gradient of each record"
        if recipe.patience is not None:
            return (
                "patience stops a training by its own private rows, which no noise covers: "
                "set patience=None and choose the epochs in advance"
            )
        if recipe.clip_norm is not None:
            return (
                "clip_norm bounds the averaged gradient; clip of DP-SGD takes its place: set None"
            )
        if recipe.precision != "float32":
            return "bfloat16 rounds gradients by more than the clipping bound allows: take float32"
        for name, part in build_module(recipe.make_module, 0).named_modules():
            if isinstance(part, _BATCH_NORMS):
                return (
                    f"{name or 'the module'} ({type(part).__name__}) mixes the records of a batch, "
                    "so that clipping each bounds nothing: put GroupNorm in its place"
                )
        return None

    def train(self, work: Work) -> Iterator[NDArray[np.float32]]:
        """See `Method`.

        Raises InputError: a recipe that `refuses` names, a treatment with noise or epochs of its
            own, a regression without held-out records, or a model whose clipping bound fails its
            self-check.
        """
        reason = self.refuses(work.recipe)
        if reason is not None:
            raise InputError(f"{reason}.")
        if work.treatment.noise > 0 or work.treatment.epochs is not None:
            raise InputError(
                "a treatment by DP-SGD has noise and epochs of its own: leave noise=0, epochs=None."
            )
        assert isinstance(work.recipe, TorchRecipe)
        layout = work.layout or default_layout(work.recipe)
        if layout.kind != "chain":
            layout = replace(layout, kind="alone", width=1)
        records = _load(work, work.recipe, layout)
        for first in range(0, len(work.seeds), layout.width):
            some = slice(first, first + layout.width)
            yield from _Stack(self, work, work.recipe, records, layout, some).train()


def expected_records(pool: NDArray[np.bool_]) -> int:
    """Records that train one model of an audit: half of the pool, a constant of the design.

    >>> expected_records(np.array([True, True, True, False]))
    2
    """
    return max(1, -(-int(pool.sum()) // 2))


def _load(work: Work, recipe: TorchRecipe, layout: Layout) -> Records:
    """The records; inputs and targets are scaled by the held-out ones, which train nothing."""
    scaled_by = work.pool
    if recipe.loss == "squared-error":
        scaled_by = ~work.pool
        if scaled_by.sum() < 2:
            raise InputError(
                "DP-SGD standardises targets by held-out records, as the private ones are not to "
                "be told: hold out two or more."
            )
    features = scaled_by_held_out(work.features, work.pool)
    records = load_records(recipe, features, work.labels, scaled_by, layout.device)
    return replace(records, copies=asked_copies(work))


class _Stack:
    """Some models that are trained together."""

    def __init__(
        self,
        method: DpSgd,
        work: Work,
        recipe: TorchRecipe,
        records: Records,
        layout: Layout,
        some: slice,
    ) -> None:
        self.method, self.recipe, self.records = method, recipe, records
        self.seeds = list(work.seeds[some])
        self.expected = method.sampling_rate * expected_records(work.pool)
        self.device = records.inputs.device
        weights = work.treatment.weights
        if weights is None:
            weights = np.ones(len(work.labels), np.float32)
        self._weights = torch.from_numpy(weights.astype(np.float32)).to(self.device)
        self._samplers = [
            PoissonSampler(np.flatnonzero(members), seed, method.sampling_rate)
            for members, seed in zip(work.members[some], self.seeds, strict=True)
        ]
        self._augment = [augment_stream(seed) for seed in self.seeds]
        streams = [torch.Generator(self.device) for _ in self.seeds]
        for stream, seed in zip(streams, self.seeds, strict=True):
            stream.manual_seed(dropout_seed(seed))
        self.network = make_network(self.recipe, layout, self.seeds, streams)
        self._sum = clipped_sum_of(self.network, self.recipe, records.inputs, records.truth)
        self._total = torch.zeros_like(self.network.parameters.grad)

    def train(self) -> Iterator[NDArray[np.float32]]:
        """Take all steps and predict all records."""
        method, recipe, parameters = self.method, self.recipe, self.network.parameters
        momentum = recipe.momentum if method.momentum is None else method.momentum
        optimizer = Optimizer(
            method.optimizer or recipe.optimizer,
            parameters.flat,
            parameters.grad,
            momentum,
            recipe.nesterov and momentum > 0,
            recipe.weight_decay,
        )
        noise = Noise(parameters, method.noise_multiplier * method.clip, self.seeds)
        highest = method.learning_rate or recipe.learning_rate
        with torch.no_grad(), quiet_numpy(), full_products():
            for step in range(method.steps):
                self._sum_batches([sampler.draw() for sampler in self._samplers])
                noise.add()
                # A constant, whatever was drawn: the drawn size would tell of a record.
                parameters.grad.div_(self.expected)
                optimizer.step(highest * factor(recipe.schedule, step, method.steps, recipe.warmup))
            outputs = self.records.answers(self.network, recipe.loss)
        yield from outputs.cpu().numpy()

    def _sum_batches(self, drawn: Sequence[NDArray[np.int64]]) -> None:
        """The clipped sum of each model's batch, in parts that fit into memory."""
        grad, part = self.network.parameters.grad, self.method.microbatch
        augment = self.recipe.augment
        # Random choices of augmentation for the rows of each model, from its own stream.
        choices = [
            augment.draw(rng, 1, len(batch))[0]
            for rng, batch in zip(self._augment, drawn, strict=True)
            if augment is not None
        ]
        longest = max(len(batch) for batch in drawn)
        if longest == 0:
            grad.zero_()
            return
        several = longest > part
        if several:
            self._total.zero_()
        for first in range(0, longest, part):
            table, sizes = padded(drawn, first, part)
            at = torch.from_numpy(table).to(self.device)
            inside = np.arange(table.shape[1]) < np.array(sizes)[:, None]
            weights = self._weights[at] * torch.from_numpy(inside).to(self.device)
            x = self._gather(at, [c[first : first + part] for c in choices])
            self._sum(x, self.records.truth[at], sizes, weights, self.method.clip)
            if several:
                self._total.add_(grad)
        if several:
            grad.copy_(self._total)

    def _gather(self, at: Tensor, choices: Sequence[NDArray[np.int64]]) -> Tensor:
        """(K, B, ...) inputs, augmented where the recipe says so."""
        inputs = self.records.inputs
        x = torch.index_select(inputs, 0, at.flatten())
        if self.recipe.augment is not None:
            table = np.zeros((*at.shape, choices[0].shape[-1]), np.int64)
            for row, chosen in zip(table, choices, strict=True):
                row[: len(chosen)] = chosen
            flat = torch.from_numpy(table).to(self.device).flatten(0, 1)
            x = self.recipe.augment.apply(x, flat)
        return x.view(*at.shape, *inputs.shape[1:])


MOST_DEVIATIONS = 5.0
"""Deviations from the held-out mean beyond which a value is cut off: one record alone does not
decide it, and a column that hardly varies among the held-out records would be blown up."""

_ROUNDING = 1e-6  # of single precision: a larger one would keep scales that a private record moved


def scaled_by_held_out(
    features: NDArray[np.floating], pool: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Columns standardised over the held-out records.

    They may have been standardised over all records, of whom one could then move the inputs of all
    others. Nobody can tell, and to look whether they were would let that record decide: so all
    columns but codes of 0 and 1 are standardised anew.

    Args:
        features: (N, D) inputs; other shapes come back as they are, since images are scaled by
            constants.
        pool: (N,) True where a record can be a member; the others are held out.

    Returns: (N, D) float32. A column that does not vary among the held-out records is 0; columns
        of 0 and 1, and those that the held-out records have scaled, stay as they are.
    Raises InputError: fewer than two held-out records, whatever the private ones look like.

    >>> column = np.array([[-(2**0.5)], [2**0.5], [0.0], [0.0]])
    >>> scaled_by_held_out(column, np.array([False, True, False, True])).round(3).ravel()
    array([-1.,  3.,  1.,  1.], dtype=float32)
    """
    rows = np.asarray(features, np.float32)
    if rows.ndim != 2:
        return rows
    held = ~pool
    if held.sum() < 2:
        raise InputError(
            f"{held.sum()} records are held out; DP-SGD standardises columns by held-out records, "
            "since statistics of the private ones are covered by no noise: hold out two or more."
        )
    inside = rows[held].astype(np.float64)
    mean, spread = inside.mean(axis=0), inside.std(axis=0)
    standard = (np.abs(mean) < _ROUNDING) & (np.abs(spread - 1) < _ROUNDING)
    done = ~standard & ~np.isin(inside, (0, 1)).all(axis=0)
    if not done.any():
        return rows
    out = rows.copy()
    columns = rows[:, done].astype(np.float64)
    centre, width = columns[held].mean(axis=0), columns[held].std(axis=0)
    scaled = np.divide(columns - centre, width, out=np.zeros_like(columns), where=width > 0)
    out[:, done] = np.clip(scaled, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    return out
