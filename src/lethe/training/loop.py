"""The training loop: K models take their steps together, each on rows of its own.

Model k has random streams of its own, so the result is that of training it alone up to float
rounding (1e-4 on logits).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lethe.errors import InputError
from lethe.training.batches import (
    Mixer,
    Plan,
    Shuffler,
    Stops,
    Take,
    augment_stream,
    dropout_seed,
    factor,
    plan,
    validation_rows,
)
from lethe.training.networks.autograd import Alone
from lethe.training.networks.chain import Chain, quiet_numpy, why_no_chain
from lethe.training.networks.parameters import (
    Network,
    Noise,
    Optimizer,
    all_outputs,
    loss_slope,
    mean_loss,
)
from lethe.training.outputs import check_repeated
from lethe.training.recipe import Layout, TorchRecipe, Treatment, Work, check_treatment
from lethe.training.users_code import build_module

# Mixup (Zhang et al., ICLR 2018) for many models at once, each by a stream of its own.


class Mixing:
    """Inputs and targets of a batch mixed with other rows of the same model's batch (eq. 1).

    The loss of a mixture has the slope of the loss at the mixed target. A record's weight stays
    with its own part. `alpha` > 0 is of Beta(alpha, alpha); None mixes nothing.
    """

    def __init__(
        self,
        shufflers: Sequence[Shuffler],
        seeds: Sequence[int],
        alpha: float | None,
        device: torch.device,
    ) -> None:
        self.on = alpha is not None
        self._device = device
        self._mixers = [
            Mixer(shuffler.sizes, seed, alpha)
            for shuffler, seed in zip(shufflers, seeds, strict=True)
            if alpha is not None
        ]

    def draw(self, width: int) -> None:
        """Draw for an epoch."""
        if self.on:
            drawn = [mixer.epoch(width) for mixer in self._mixers]
            self._partner, self._own = (
                torch.from_numpy(np.stack(part, axis=1)).to(self._device)
                for part in zip(*drawn, strict=True)
            )

    def mixed(self, x: Tensor, step: int) -> Tensor:
        """The mixed inputs (K, B, ...) of a step."""
        if not self.on:
            return x
        partner = self._partner[step, :, : x.shape[1]]
        share = self._own[step, :, : x.shape[1]].view(*x.shape[:2], *[1] * (x.ndim - 2))
        first = torch.arange(len(x), device=x.device)[:, None] * x.shape[1]
        other = x.flatten(0, 1).index_select(0, (partner + first).flatten()).view(x.shape)
        return torch.lerp(other, x, share)

    def slope(
        self, kind: str, outputs: Tensor, truth: Tensor, share: Tensor, smoothing: float, step: int
    ) -> Tensor:
        """Return `loss_slope` of the mixture."""
        if not self.on:
            return loss_slope(kind, outputs, truth, share, smoothing)
        partner = self._partner[step, :, : truth.shape[1]]
        mix = self._own[step, :, : truth.shape[1]]
        slope = loss_slope(kind, outputs, truth, share * mix, smoothing)
        share = share.gather(1, partner) * (1 - mix)
        return slope.add_(loss_slope(kind, outputs, truth.gather(1, partner), share, smoothing))


# Averages of what training passes through in its last steps.


class Average:
    """The even average of each model's parameters over its last steps.

    Stochastic weight averaging (Izmailov et al., UAI 2018, section 3.2), with every step in it and
    the recipe's own schedule; running statistics of batch normalisation are averaged along.

    Args:
        network: of all models; it is read after each step and overwritten by `apply`.
        share: (0, 1] of the last steps that count, at least one; None averages nothing.
    """

    def __init__(self, network: Network, steps: int, share: float | None) -> None:
        self._on = share is not None
        self._left_out = steps - max(1, round((share or 0.0) * steps))
        self._now: list[Tensor] = []
        if self._on:
            # The flat tensor holds all parameters at once; what follows the blocks is the rest.
            rest = network.tensors()[len(network.parameters.blocks) :]
            self._now = [network.parameters.flat, *rest]
        self._mean: list[Tensor] = []

    def after(self, taken: int) -> None:
        """Take the state after so many steps into the average."""
        count = taken - self._left_out
        if not self._on or count < 1:
            return
        if count == 1:
            self._mean = [value.clone() for value in self._now]
            return
        for mean, now in zip(self._mean, self._now, strict=True):
            if mean.is_floating_point():
                mean.lerp_(now, 1 / count)
            else:
                mean.copy_(now)

    @torch.no_grad()
    def apply(self) -> None:
        """Put the averages in the place of the last state."""
        for mean, now in zip(self._mean, self._now, strict=True):
            now.copy_(mean)


@dataclass(frozen=True)
class Records:
    """All records on the device."""

    inputs: Tensor  # (N, ...) float32
    truth: Tensor  # (N,) class codes, or float32 targets with mean 0 and standard deviation 1
    centre: float = 0.0  # added to predictions of targets
    scale: float = 1.0  # predictions of targets are multiplied by it
    copies: Callable[[Tensor], Iterator[Tensor]] | None = None  # what else models are asked about

    def answers(self, network: Network, loss: str) -> Tensor:
        """(K, N, C) logits of every record, or (K, N, 1) predictions in the target's units.

        After them those of every copy.
        """
        outputs = all_outputs(network, self.inputs)
        check_repeated(
            lambda some: network.predict(some, True).numpy(force=True), self.inputs, "The module"
        )
        if self.copies is not None:
            more = (all_outputs(network, copy) for copy in self.copies(self.inputs))
            outputs = torch.cat([outputs, *more], dim=1)
        return outputs * self.scale + self.centre if loss == "squared-error" else outputs


def load_records(
    recipe: TorchRecipe,
    features: NDArray[np.floating],
    labels: NDArray[np.int64] | NDArray[np.float64],
    pool: NDArray[np.bool_],
    device: str,
) -> Records:
    """Put the data on the device, once for all models.

    Targets are standardised by the moments of `pool`. On a GPU float32 then means float32, without
    the shorter numbers that cuDNN takes by default, and cuDNN keeps to kernels that repeat their
    results.
    """
    if device == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.deterministic = True
    with warnings.catch_warnings():
        # Nobody writes to the inputs; a copy would cost every process the size of the data.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        inputs = torch.from_numpy(np.ascontiguousarray(features, np.float32)).to(device)
    if recipe.loss == "cross-entropy":
        return Records(inputs, torch.from_numpy(np.array(labels, np.int64)).to(device))
    targets = np.asarray(labels, np.float64)
    centre, scale = float(targets[pool].mean()), float(targets[pool].std()) or 1.0
    truth = ((targets - centre) / scale).astype(np.float32)
    return Records(inputs, torch.from_numpy(truth).to(device), centre, scale)


def train_models(work: Work, stops: Stops | None = None) -> Iterator[NDArray[np.float32]]:
    """Train one model for each row of `work.members`, up to `layout.width` at once.

    Args:
        stops: where to ask models on the way; each answer is, to the bit, that of a training
            with the treatment's `epochs` at the stop. Asking changes nothing of the training.

    Yields:
        (N, C) outputs of each model in evaluation mode, in order: logits, or (N, 1) predictions
        in the target's own units.

    Raises InputError: the recipe refuses the treatment, or it has no stops to ask at.
    """
    recipe, treatment = work.recipe, work.treatment
    assert isinstance(recipe, TorchRecipe)
    if stops is not None and (treatment.method is not None or treatment.average is not None):
        raise InputError("stops on the way need the recipe's own loop, without averaging.")
    layout = work.layout or default_layout(recipe)
    if treatment.method is not None:
        yield from treatment.method.train(replace(work, layout=layout))
        return
    check_treatment(recipe, treatment)
    records = load_records(recipe, work.features, work.labels, work.pool, layout.device)
    records = replace(records, copies=asked_copies(work))
    course, kept = plan(
        len(work.labels),
        int(work.pool.sum()),
        recipe.batch_size,
        recipe.epochs,
        treatment,
        recipe.held_back,
    )
    for first in range(0, len(work.seeds), layout.width):
        some = slice(first, first + layout.width)
        members, seeds = work.members[some] & kept, work.seeds[some]
        stack = _Stack(recipe, records, members, course, treatment, seeds)
        own_stops = None if stops is None else Stops(stops.epochs, _shifted(stops.take, first))
        yield from stack.train(layout, own_stops)


def asked_copies(work: Work) -> Callable[[Tensor], Iterator[Tensor]] | None:
    """Return what models are asked about beside the records; None if nothing."""
    augment = getattr(work.recipe, "augment", None)
    if not work.queries or augment is None:
        return None
    return lambda inputs: augment.copies(inputs, work.queries, work.query_seed)


def _shifted(take: Take, first: int) -> Take:
    return lambda model, stop, outputs: take(first + model, stop, outputs)


def default_layout(recipe: TorchRecipe) -> Layout:
    """The layout that the structure of the module alone suggests.

    Written-out layers where the module is a plain chain of them: many small models at once. One by
    one otherwise.
    """
    module = build_module(recipe.make_module, 0)
    reason = why_no_chain(module)
    if reason is None and recipe.precision == "bfloat16":
        reason = "written-out layers compute in float32"
    if reason is not None:
        return Layout("alone", 1, why=reason)
    return Layout("chain", why="small matrix products gain by being stacked")


def make_network(
    recipe: TorchRecipe, layout: Layout, seeds: Sequence[int], streams: Sequence[torch.Generator]
) -> Network:
    """Fresh models of a recipe in the form that a layout asks for."""
    modules = [build_module(recipe.make_module, seed) for seed in seeds]
    if layout.kind == "chain":
        return Chain(modules, streams)
    half = recipe.precision == "bfloat16"
    return Alone(modules[0], streams[0], layout.device, half, layout.images_last)


class _Stack:
    """Some models that are trained together."""

    def __init__(
        self,
        recipe: TorchRecipe,
        records: Records,
        members: NDArray[np.bool_],
        course: Plan,
        treatment: Treatment,
        seeds: Sequence[int],
    ) -> None:
        self.recipe, self.records, self.course = recipe, records, course
        self.treatment, self.seeds = treatment, list(seeds)
        self._weights = torch.from_numpy(course.weights).to(records.inputs.device)
        rows_of = [np.flatnonzero(row) for row in members]
        self.held = [
            validation_rows(rows, seed, recipe.held_back)
            for rows, seed in zip(rows_of, seeds, strict=True)
        ]
        self.shufflers = [
            Shuffler(np.setdiff1d(rows, held), seed, course.steps)
            for rows, held, seed in zip(rows_of, self.held, seeds, strict=True)
        ]
        self.device = records.inputs.device

    def train(self, layout: Layout, stops: Stops | None) -> NDArray[np.float32]:
        """Train all models; (K, N, C) outputs."""
        recipe, course, device = self.recipe, self.course, self.device
        smoothing = self.treatment.label_smoothing
        smoothing = recipe.label_smoothing if smoothing is None else smoothing
        seeds, shufflers = self.seeds, self.shufflers
        streams = [torch.Generator(device).manual_seed(dropout_seed(seed)) for seed in seeds]
        network = make_network(recipe, layout, seeds, streams)
        parameters = network.parameters
        decay = self.treatment.weight_decay
        optimizer = Optimizer(
            recipe.optimizer,
            parameters.flat,
            parameters.grad,
            recipe.momentum,
            recipe.nesterov,
            recipe.weight_decay if decay is None else decay,
        )
        noise = Noise(parameters, self.treatment.noise, seeds)
        augment = [augment_stream(seed) for seed in seeds] if recipe.augment else []
        watch = _Watch(self, network) if recipe.patience is not None else None
        sizes = np.stack([shuffler.sizes for shuffler in shufflers], axis=1)
        # One width for all stacks of a candidate: the same products, whatever is stacked.
        width = max(int(sizes.max()), course.rows)
        rows_of = sizes.tolist()
        total, taken = course.schedule * course.steps, 0
        stop_of = {} if stops is None else {at: place for place, at in enumerate(stops.epochs)}
        mixing = Mixing(shufflers, seeds, self.treatment.mixup, device)
        average = Average(network, course.epochs * course.steps, self.treatment.average)
        gathered = torch.empty(len(seeds) * width, *self.records.inputs.shape[1:], device=device)
        with torch.no_grad(), quiet_numpy():
            for epoch in range(1, course.epochs + 1):
                # (steps, K, width) rows of an epoch, their weights and targets lie together.
                dealt = [shuffler.epoch(width) for shuffler in shufflers]
                order, shares = (
                    torch.from_numpy(np.stack(part, axis=1)).to(device)
                    for part in zip(*dealt, strict=True)
                )
                shares *= self._weights[order]
                truth = self.records.truth[order]
                mixing.draw(width)
                drawn = self._drawn(augment, width)
                for step in range(course.steps):
                    x = self._gather(order[step], gathered, None if drawn is None else drawn[step])
                    outputs = network.forward(mixing.mixed(x, step), rows_of[step])
                    slope = mixing.slope(
                        recipe.loss, outputs, truth[step], shares[step], smoothing, step
                    )
                    network.backward(slope)
                    if recipe.clip_norm is not None:
                        parameters.clip(recipe.clip_norm)
                    noise.add()
                    rate = factor(recipe.schedule, taken, total, recipe.warmup)
                    optimizer.step(recipe.learning_rate * rate)
                    taken += 1
                    average.after(taken)
                ended = watch is not None and watch.all_stopped()
                if stops is not None and epoch in stop_of and not ended:
                    with contextlib.nullcontext() if watch is None else watch.best():
                        answers = self._predict(network)
                    _hand_over(stops, stop_of.pop(epoch), answers)
                if ended:
                    break
            if watch is not None:
                watch.restore()
            average.apply()
            answers = self._predict(network)
            if stops is not None:  # of a training that ended by itself before its last stops
                for place in stop_of.values():
                    _hand_over(stops, place, answers)
            return answers

    def _drawn(self, streams: Sequence[np.random.Generator], width: int) -> Tensor | None:
        """(steps, K, width, 5) choices of the augmentation; None without one."""
        augment = self.recipe.augment
        if augment is None:
            return None
        drawn = [augment.draw(stream, self.course.steps, width) for stream in streams]
        return torch.from_numpy(np.stack(drawn, axis=1)).to(self.device)

    def _gather(self, at: Tensor, out: Tensor, drawn: Tensor | None) -> Tensor:
        """Inputs (K, B, ...) of the rows `at` (K, B)."""
        inputs = self.records.inputs
        out = out[: at.numel()]
        torch.index_select(inputs, 0, at.reshape(-1), out=out)
        if drawn is not None:
            assert self.recipe.augment is not None
            out = self.recipe.augment.apply(out, drawn.reshape(-1, drawn.shape[-1]))
        return out.view(*at.shape, *inputs.shape[1:])

    def _predict(self, network: Network) -> NDArray[np.float32]:
        return np.asarray(self.records.answers(network, self.recipe.loss).cpu().numpy())


def _hand_over(stops: Stops, place: int, answers: NDArray[np.float32]) -> None:
    for model, outputs in enumerate(answers):
        stops.take(model, place, outputs)


class _Watch:
    """Early stopping of each model by the loss on rows of its own that are held back."""

    def __init__(self, stack: _Stack, network: Network) -> None:
        self._stack, self._network, held = stack, network, stack.held
        longest = max(1, *map(len, held))
        rows = np.zeros((len(held), longest), np.int64)
        share = np.zeros((len(held), longest), np.float32)
        for model, own in enumerate(held):
            rows[model, : len(own)] = own
            share[model, : len(own)] = 1 / max(len(own), 1)
        device = stack.device
        self._rows = torch.from_numpy(rows).to(device)
        self._share = torch.from_numpy(share).to(device)
        self._best = torch.full((len(held),), torch.inf, device=device)
        self._waited = torch.zeros(len(held), dtype=torch.int64, device=device)
        self._kept = [tensor.clone() for tensor in network.tensors()]

    def all_stopped(self) -> bool:
        """Look at every model after an epoch; True when none goes on."""
        records, recipe = self._stack.records, self._stack.recipe
        assert recipe.patience is not None
        running = self._waited < recipe.patience
        outputs = self._network.predict(records.inputs[self._rows], False)
        loss = mean_loss(recipe.loss, outputs, records.truth[self._rows], self._share)
        better = (loss < self._best) & running
        self._best = torch.where(better, loss, self._best)
        self._waited = torch.where(better, 0, self._waited + 1)
        for kept, now in zip(self._kept, self._network.tensors(), strict=True):
            kept[better] = now[better]
        return not bool((self._waited < recipe.patience).any())

    @contextlib.contextmanager
    def best(self) -> Iterator[None]:
        """Put every model in its best state for a while."""
        going_on = [tensor.clone() for tensor in self._network.tensors()]
        self.restore()
        try:
            yield
        finally:
            for kept, now in zip(going_on, self._network.tensors(), strict=True):
                now.copy_(kept)

    def restore(self) -> None:
        """Give every model its best state back."""
        for kept, now in zip(self._kept, self._network.tensors(), strict=True):
            now.copy_(kept)
