"""Which way the clipped sum of a model is computed, decided by measuring, and then used."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.guarantee import check_clip
from lethe.mitigations.clipping.bookkeeping import NotCovered, NotFinite, Tape
from lethe.mitigations.clipping.per_example import (
    Factors,
    Loss,
    check_losses,
    distinct,
    looped,
    mapped,
    rows,
    size,
    vmapped,
)
from lethe.mitigations.clipping.selfcheck import (
    MOST_CHANGE,
    SelfCheck,
    clip_factors,
    distance,
    evaluating,
    is_random,
    leaking_layer,
    measure,
    refuse_coarse,
    seeded,
)
from lethe.mitigations.clipping.state import ModuleState
from lethe.training.networks.autograd import full_products

WAYS = ("book-keeping", "vmap", "loop")
"""From the fastest to the slowest, as they are tried.

Between vmap and the loop the order decides and no stopwatch: which is faster varies from run to
run on a busy machine, and the two round differently, so that a seeded run would not repeat.
"""

_EXAMPLES = 6
_APART = 1e-3  # largest difference of a look at real examples, in units of the clip norm


class Disturbed(InputError):
    """Real batches broke what the self-check had found: earlier sums are void."""


def rarely(stream: np.random.Generator, count: int) -> bool:
    """Coin of the `count`-th look: heads at the first, once in `count` later, at least in 256."""
    return bool(stream.random() * min(count, 256) < 1)


@dataclass
class ClippingPlan:
    """How per-example gradients of one model are clipped and summed.

    Attributes:
        reasons: why faster ways were not taken; grows when a step had to be done by the loop.
    """

    module: nn.Module  # the model, whose present parameter values are used at every call
    loss: Loss  # losses (B,) of (module, batch)
    way: str  # ``book-keeping`` (one backward pass, no gradient per example), ``vmap`` or ``loop``
    reasons: tuple[str, ...]
    check: SelfCheck  # what was measured for this way before training
    state: ModuleState = field(repr=False)  # what passes are kept from changing
    _tape: Tape | None = field(repr=False)
    _was: tuple[list[bool], list[bool]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._values, self._parts = list(self.module.parameters()), list(self.module.modules())
        self._was = self._now()
        self._coins, self._looks = np.random.default_rng(), 0  # secret; no result depends on them

    def _now(self) -> tuple[list[bool], list[bool]]:
        return [v.requires_grad for v in self._values], [part.training for part in self._parts]

    def clipped_sum(
        self,
        batch: Any,
        clip: float,
        weights: Tensor | None = None,
        *,
        copies: int = 1,
        part_size: int | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Sum over the batch of w_j min(1, C/|g_j|) g_j, and the norms |g_j| before clipping.

        No noise is added, and nothing is divided by B. With several augmented copies of each
        example, g_j is the mean of their gradients, clipped once: the sensitivity stays C
        (augmentation multiplicity, De et al. 2022, arXiv:2204.13650, section 3.2).

        Args:
            batch: B >= 0 examples, shaped like the example batch, each in `copies` rows.
            weights: (B,) w_j >= 0, multiplied after clipping; 1 by default.
            copies: consecutive rows that belong to one example, >= 1.
            part_size: most examples computed at a time, >= 1; every example lies in one part, and
                noise is added once, to the whole sum: the parts are one release, not several.

        Returns: The sum by parameter name (as in `named_parameters`), and norms (B,).
        An example whose gradient is not finite, or whose pass raises an error, counts 0. Whatever
        the passes wrote to the module is put back, see `ModuleState`.

        Raises InputError: a bad clip, weights or number of copies, or a model whose mode or trained
            parameters are no longer those of the plan.
        Raises Disturbed: two examples by themselves had other gradients than within this batch.
            Looked for at secret random calls; with `state.thorough` each is taken by itself.
        Guarantee: Adding or removing example j changes the sum by at most w_j C, up to rounding.
        Assumes: Within one pass, one example does not reach the loss of another one; tested by
            `plan_clipping` on its example batch and here at random, and impossible by vmap and
            loop. Weights do not depend on the other records.
        """
        check_clip(clip)
        count = _examples(batch, copies)
        if weights is not None:
            weights = torch.as_tensor(weights)
            if weights.shape != (count,):
                raise InputError(
                    f"weights have the shape {tuple(weights.shape)}; they must be one an example, "
                    f"({count},)."
                )
            if not bool((torch.isfinite(weights) & (weights >= 0)).all()):
                raise InputError("weights must be finite and not negative.")
        if self._now() != self._was:
            raise InputError(
                "module has another mode (train/eval) or other trained parameters than when the "
                "plan was made; call plan_clipping on the model as it is trained."
            )
        if count == 0:
            return _nothing(self.module)
        summed = partial(self._summed, batch, clip, weights, copies)
        if part_size is not None and count > check_at_least("part_size", part_size, 1):
            summed = partial(self._added, batch, clip, weights, copies, part_size)
        with full_products():
            return self.state.undisturbed(summed)

    def _added(
        self, batch: Any, clip: float, weights: Tensor | None, copies: int, part_size: int
    ) -> tuple[dict[str, Tensor], Tensor]:
        sums: dict[str, Tensor] = {}
        norms: list[Tensor] = []
        for start in range(0, size(batch) // copies, part_size):
            end = start + part_size
            part = mapped(batch, itemgetter(slice(start * copies, end * copies)))
            part_weights = None if weights is None else weights[start:end]
            total, part_norms = self.clipped_sum(part, clip, part_weights, copies=copies)
            norms.append(part_norms)
            for name, value in total.items():
                sums[name] = sums[name].add_(value) if name in sums else value
        return sums, torch.cat(norms)

    def _summed(
        self, batch: Any, clip: float, weights: Tensor | None, copies: int
    ) -> tuple[dict[str, Tensor], Tensor]:
        """The clipped sum by the fastest way that this batch allows."""
        factors, count = clip_factors(clip, weights), size(batch) // copies
        alone: Tensor | None = None
        try:
            if self._tape is not None and not self.state.thorough:
                clipped = self._tape.clipped_sum(self.loss, batch, factors, copies)
                self.state.passed()
                self._looks += 1
                if count > 1 and rarely(self._coins, self._looks):
                    self._look(batch, clip, copies)
                return clipped
            if self.way == "vmap" and not self.state.thorough:
                return vmapped(self.module, self.loss, batch, factors, copies, self.state.passed)
        except (Disturbed, MemoryError, torch.OutOfMemoryError):
            raise
        except NotFinite as found:
            alone = found.rows.cpu()
        except Exception as reason:  # perhaps one example's doing, which must not end the training
            note = f"a step was done by the loop: {reason}"
            if note not in self.reasons:
                self.reasons = (*self.reasons, note)
        self.state.passed()
        alone = torch.ones(count, dtype=torch.bool) if alone is None else alone
        examples, factors = _chosen(batch, alone, copies), clip_factors(clip, _at(weights, alone))
        sums, norms = looped(
            self.module, self.loss, examples, factors, copies, self.state.passed, skip=True
        )
        if bool(alone.all()):
            return sums, norms
        # The others anew: in the backward pass 0 times infinity may have reached them.
        rest, others = self._summed(
            _chosen(batch, ~alone, copies), clip, _at(weights, ~alone), copies
        )
        every = norms.new_zeros(count)
        every[alone.to(every.device)], every[~alone.to(every.device)] = norms, others
        return {name: rest[name].add_(value) for name, value in sums.items()}, every

    def _look(self, batch: Any, clip: float, copies: int) -> None:
        """Compare two examples within this batch with the same two by themselves."""
        assert self._tape is not None
        chosen = torch.zeros(size(batch) // copies, dtype=torch.bool)
        chosen[self._coins.choice(len(chosen), 2, replace=False)] = True
        usual = self.check.mode == "as given"

        def summed(work: Callable[[], tuple[dict[str, Tensor], Tensor]]) -> dict[str, Tensor]:
            mode = nullcontext() if usual else evaluating(self.module)
            with torch.random.fork_rng(), mode:
                total, _ = work()
            self.state.passed()
            return total

        factors, pair = clip_factors(clip, chosen.float()), _chosen(batch, chosen, copies)
        try:
            within = summed(partial(self._tape.clipped_sum, self.loss, batch, factors, copies))
        except (NotCovered, NotFinite):
            return
        right = summed(
            partial(looped, self.module, self.loss, pair, clip_factors(clip), copies, skip=True)
        )
        if not distance(within, right) <= max(_APART, 4 * self.check.tolerance) * clip:
            raise Disturbed(
                "the model mixes examples of real batches, which the self-check did not see: let "
                "it work on each example alone."
            )


def plan_clipping(
    module: nn.Module,
    loss: Loss,
    example_batch: Any,
    *,
    way: str | None = None,
    tolerance: float = 1e-5,
) -> ClippingPlan:
    """Test the clipping bound on this model and choose the fastest way that keeps it.

    Args:
        module: the model, in the mode in which it is trained, with its first values.
        loss: ``loss(module, batch)`` gives one number an example, (B,); it may call the module
            as it likes, but must not mix examples.
        example_batch: a tensor, or tuples or mappings of tensors, with the examples in the first
            dimension; at least two that differ. Six are used.
        way: take this one of ``book-keeping``, ``vmap``, ``loop``, or refuse; the fastest that
            passes by default.
        tolerance: largest relative error against one backward pass an example; float32 models
            reach 1e-6.

    Returns:
        The plan, with the reasons for the way taken and what was measured.

    Raises:
        InputError: numbers coarser than float32, examples that reach each other, a pass that writes
            to a tensor of the module, or no way keeps the bound; the layer is named.

    Assumes:
        The model computes for later batches what it computes for this one. Book-keeping checks
        that every step: a step that is not covered is done by the loop and recorded. State outside
        the module's attributes (globals, closures) does not carry from one example to another.

    >>> model = nn.Linear(2, 1, bias=False)
    >>> plan = plan_clipping(model, lambda m, x: m(x)[:, 0], torch.tensor([[3.0, 4.0], [0, 1]]))
    >>> total, norms = plan.clipped_sum(torch.tensor([[3.0, 4.0], [0, 1]]), clip=1.0)
    >>> plan.way, norms.tolist(), total["weight"].tolist()
    ('book-keeping', [5.0, 1.0], [[0.6000000238418579, 1.7999999523162842]])
    """
    if way is not None:
        check_choice("way", way, WAYS)
    check_between("tolerance", tolerance, 0, 1, open_low=True)
    if not any(value.requires_grad for value in module.parameters()):
        raise InputError("module has no parameter with requires_grad=True; nothing to train.")
    few, state = _few(example_batch), ModuleState(module)
    try:
        with full_products():
            return _planned(module, loss, few, way, tolerance, state)
    finally:
        state.settle()
        state.learning = False


def _planned(
    module: nn.Module, loss: Loss, few: Any, way: str | None, tolerance: float, state: ModuleState
) -> ClippingPlan:
    """See `plan_clipping`."""
    _refuse_lookups(module)
    with torch.enable_grad(), seeded(0):
        losses = check_losses(loss(module, few), size(few))
    with suppress(Exception):  # each way says for itself why it fails
        for value in module.parameters():
            value.grad = None
        torch.autograd.backward(losses.sum())
    _refuse_writes(module, state)
    _refuse_leaks(module, loss, few)
    refuse_coarse(module, loss, few)
    random = is_random(module, loss, few)
    reasons: list[str] = []
    for name in WAYS if way is None else (way,):
        tape, check = _tried(name, module, loss, few, random, tolerance, reasons)
        if check is not None:
            _refuse_writes(module, state)
            return ClippingPlan(module, loss, name, tuple(reasons), check, state, tape)
    raise InputError(
        f"the clipped sum of this model cannot be computed: {'; '.join(reasons)}. Change the "
        "named layer, or freeze it with requires_grad_(False)."
    )


def _tried(
    way: str,
    module: nn.Module,
    loss: Loss,
    few: Any,
    random: bool,
    tolerance: float,
    reasons: list[str],
) -> tuple[Tape | None, SelfCheck | None]:
    tape: Tape | None = None
    try:
        if way == "book-keeping":
            tape = Tape(module)
            tape.fit(loss, few)
            with seeded(0):
                tape.clipped_sum(loss, few, clip_factors(1.0))

        def computed(batch: Any, factors: Factors) -> tuple[dict[str, Tensor], Tensor]:
            if tape is not None:
                return tape.clipped_sum(loss, batch, factors)
            return (vmapped if way == "vmap" else looped)(module, loss, batch, factors)

        with evaluating(module) if random else nullcontext():
            if random and is_random(module, loss, few):
                raise NotCovered("the model draws random numbers even in evaluation mode")
            mode = "evaluation" if random else "as given"
            check = measure(computed, module, loss, few, mode, tolerance)
    except InputError:
        raise
    except NotCovered as reason:
        reasons.append(f"no {way}: {reason}")
        return None, None
    except Exception as error:  # whatever a user's model raises when it is run in this way
        said = (str(error).strip().splitlines() or [""])[0]
        reasons.append(f"no {way}: {type(error).__name__}: {said}")
        return None, None
    if not check.change_over_clip <= MOST_CHANGE:
        reasons.append(f"no {way}: one example changes the sum by {check.change_over_clip:.4g} C")
    elif not check.relative_error <= tolerance:
        reasons.append(
            f"no {way}: relative error {check.relative_error:.2g} against one pass an example"
        )
    else:
        return tape, check
    return None, None


def _examples(batch: Any, copies: int) -> int:
    check_at_least("copies", copies, 1)
    lines = size(batch)
    if lines % copies:
        raise InputError(
            f"copies={copies} does not divide the {lines} rows of the batch; give every "
            "example the same number of consecutive rows."
        )
    return lines // copies


def _few(batch: Any) -> Any:
    different = distinct(rows(batch, list(range(min(size(batch), 64)))))
    if len(different) < 2:
        raise InputError(
            f"example_batch has {size(batch)} examples, of which {len(different)} differ; the "
            "self-check needs two that differ, six are better."
        )
    return rows(batch, different[:_EXAMPLES])


def _chosen(batch: Any, chosen: Tensor, copies: int) -> Any:
    """The examples where `chosen` (B,) is True, with all their rows."""
    return rows(batch, chosen.repeat_interleave(copies).nonzero()[:, 0].tolist())


def _at(weights: Tensor | None, chosen: Tensor) -> Tensor | None:
    return None if weights is None else weights[chosen.to(weights.device)]


def _refuse_lookups(module: nn.Module) -> None:
    """An embedding with `max_norm` changes rows of its weight whenever they are looked up."""
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding | nn.EmbeddingBag) and part.max_norm is not None:
            raise InputError(
                f"{name or 'module'} ({type(part).__name__}) has max_norm={part.max_norm:g}: its "
                f"forward pass writes to {f'{name}.weight'.lstrip('.')!r}, past the noise. Leave "
                "max_norm out, or scale what was looked up in the forward pass."
            )


def _refuse_writes(module: nn.Module, state: ModuleState) -> None:
    kept = state.written()
    if kept is None:
        return
    name = kept.partition("'")[2].strip("'")
    parts = [part for part, _ in module.named_modules() if name.startswith(f"{part}.")]
    owner = max(parts, key=len, default="")
    kind = type(module.get_submodule(owner)).__name__
    raise InputError(
        f"{owner or 'module'} ({kind}) writes {kept} in a forward pass: it keeps private data "
        "outside the noise. Take that write out, put GroupNorm or LayerNorm in the place of a norm "
        "with running statistics, or put that layer in evaluation mode."
    )


def _refuse_leaks(module: nn.Module, loss: Loss, few: Any) -> None:
    leak = leaking_layer(module, loss, few)
    if leak is not None:
        raise InputError(
            f"in {leak} one example changes the results of others, so clipping bounds nothing. "
            "Let it work on each example alone; replace batch norms by GroupNorm or LayerNorm."
        )


def _nothing(module: nn.Module) -> tuple[dict[str, Tensor], Tensor]:
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    sums = {name: torch.zeros_like(value, requires_grad=False) for name, value in trained.items()}
    return sums, next(iter(trained.values())).new_zeros(0).detach()
