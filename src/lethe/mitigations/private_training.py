"""Differentially private training of one model, any torch module: DP-SGD and DP-Adam.

Every step draws each example by its own coin, clips each example's gradient, adds one draw of noise
to the sum, and divides by the *expected* batch size (Abadi et al. 2016, algorithm 1, with Poisson
sampling). What may be claimed is computed from what ran, see `lethe.evidence.dp_statement`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn
from torch.nn import functional

from lethe.errors import InputError, check_choice
from lethe.evidence.dp_statement import SOURCES, DpSgdRun, DpStatement, dp_statement
from lethe.evidence.guarantee import noise_seed
from lethe.evidence.individual import check_weights
from lethe.mitigations.clipping import ClippingPlan, clipped_sum_in_parts, plan_clipping
from lethe.mitigations.clipping.bookkeeping import Loss
from lethe.mitigations.clipping.selfcheck import MOST_CHANGE
from lethe.mitigations.clipping.trees import rows, size, tensors
from lethe.mitigations.private_settings import PrivateSettings
from lethe.mitigations.private_state import State, write_released
from lethe.training.batches import factor
from lethe.training.fingerprint import digest, hash_array, hash_json
from lethe.training.users_code import seeded

_SAMPLE, _NOISE, _LAYERS = 0, 1, 2
_LOOK = 64  # examples from which the self-check takes six that differ


@dataclass(frozen=True)
class PrivateModel:
    """A model that was trained privately, and what may be said of it.

    Attributes:
        module: the trained module, the one that was given.
        statement: the guarantee that was earned, with reasons where it is weaker.
        plan: how gradients were clipped, and what the self-check measured on private examples.
        noise_multiplier: sd of the noise on the sum / clip.
        steps: noisy steps taken.
    """

    module: nn.Module
    statement: DpStatement
    plan: ClippingPlan
    noise_multiplier: float
    steps: int

    def save(self, path: Path | str) -> None:
        """Write parameters and buffers as safetensors, with the guarantee in the header."""
        write_released(Path(path), self.module, self.statement.guarantee)


def train_privately(
    module: nn.Module,
    data: Any,
    settings: PrivateSettings,
    *,
    loss: Loss | None = None,
    augment: Callable[[Any], Any] | None = None,
    weights: ArrayLike | None = None,
    weights_from: str = "public",
    seed: int | None = None,
    folder: Path | str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PrivateModel:
    """Train a module with DP-SGD or DP-Adam, after a test of the clipping bound on it.

    Args:
        module: in the mode in which it is to be trained; changed in place. Parameters with
            ``requires_grad=False`` stay as they are: see `train_only` for the last layers alone.
        data: a tensor, or tuples or mappings of tensors, with n examples in the first dimension.
        settings: see `PrivateSettings`.
        loss: ``loss(module, batch)`` gives one number an example, (B,); by default cross-entropy
            of ``module(batch[0])`` against ``batch[1]``.
        augment: changes a batch at random, each row by itself, drawing from torch's global
            generator; with `copies` of `settings` an example's gradient is the mean over so many
            changed copies, clipped once (De et al. 2022, section 3.2).
        weights: (n,) factors w_j in [0, 1] on the clipped gradients: example j then has the noise
            multiplier sigma / w_j and an epsilon of its own.
        weights_from: ``public`` (or held-out) or ``private`` data; the latter proves nothing.
        seed: of sampling and noise. None takes a secret from the operating system, as a release
            needs: who knows the seed can take the noise off again.
        folder: where an interrupted training is kept; the same call goes on from there, to the
            same result. It holds private data until the training is done.
        progress: told (steps done, steps).

    Returns:
        The model and its statement. Nothing else that was seen on the way, such as norms of
        gradients, sizes of batches or `PrivateModel.plan`, is covered by it: keep it to yourself.

    Raises:
        InputError: settings, data or weights break a rule, or no way of clipping holds its bound
            on this module; see `plan_clipping`.

    Guarantee:
        `PrivateModel.statement`: (epsilon, delta)-DP of all parameters that are released.

    Assumes:
        What the statement lists. In particular the settings were not tuned on these data. And
        `augment` does not mix rows.
    """
    count = size(data)
    check_choice("weights_from", weights_from, SOURCES)
    first = next(module.parameters(), None)
    if first is None:
        raise InputError("module has no parameters; nothing to train.")
    own = None if weights is None else check_weights(weights)
    if own is not None and len(own) != count:
        raise InputError(f"{len(own)} weights do not fit {count} examples: give one for each.")
    autocast = _autocast(settings.precision, first.device.type)

    def losses(model: nn.Module, batch: Any) -> Tensor:
        with autocast():
            return (loss or cross_entropy)(model, batch).float()

    steps = settings.steps(count)
    clipping = plan_clipping(module, losses, rows(data, list(range(min(count, _LOOK)))))
    # Not the change that was measured: the noise would tell of the records it was measured on.
    noise = settings.noise(count, MOST_CHANGE)
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    optimizer = _optimizer(settings, list(trained.values()))
    name = digest(
        hash_json(asdict(settings)),
        hash_json([weights_from, seed]),
        *(_hash(leaf) for leaf in (*tensors(data), *module.state_dict().values())),
        "" if own is None else hash_array(own),
    )
    state = State(None if folder is None else Path(folder), name, trained, optimizer)
    secret, begun = state.resume(noise_seed(seed))
    factors = None if own is None else torch.from_numpy(own.astype(np.float32))
    rate, expected = settings.rate(count), float(settings.batch_size)
    for step in range(begun, steps):
        drawn = np.flatnonzero(_stream(secret, step, _SAMPLE).random(count) < rate)
        layers = int(_stream(secret, step, _LAYERS).integers(2**63))
        with seeded(layers):
            batch = rows(data, np.repeat(drawn, settings.copies).tolist())
            sums, _ = clipped_sum_in_parts(
                clipping,
                batch if augment is None else augment(batch),
                settings.clip,
                None if factors is None else factors[torch.from_numpy(drawn)],
                part_size=settings.part_size,
                copies=settings.copies,
            )
        _add_noise(sums, noise * settings.clip, _stream(secret, step, _NOISE))
        for key, value in trained.items():
            value.grad = sums[key].div_(expected).to(value.dtype)
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * factor(
                settings.schedule, step, steps, settings.warmup
            )
        optimizer.step()
        state.keep(step + 1)
        if progress is not None:
            progress(step + 1, steps)
    optimizer.zero_grad(set_to_none=True)
    state.done()
    run = DpSgdRun(
        noise_multiplier=noise,
        sampling_rate=rate,
        steps=steps,
        delta=settings.delta,
        records=count,
        sensitivity=MOST_CHANGE,
        relation=settings.relation,
        sampling="poisson",
        unit=settings.unit,
        tuning=settings.tuning,
        runs=settings.runs,
        weights=own,
        weights_from=weights_from,
        noise_seed="secret" if seed is None else "given",
    )
    return PrivateModel(module, dp_statement(run), clipping, noise, steps)


def cross_entropy(module: nn.Module, batch: Any) -> Tensor:
    """(B,) losses of ``module(batch[0])`` against the class codes ``batch[1]``.

    A mapping is taken apart as Hugging Face models have it: ``labels`` are the codes and all else
    goes to the model, whose answer has ``logits``.
    """
    if isinstance(batch, Mapping):
        inputs = {key: value for key, value in batch.items() if key != "labels"}
        logits = module(**inputs)
        logits = getattr(logits, "logits", logits)
        return functional.cross_entropy(logits, batch["labels"], reduction="none")
    inputs, labels = batch
    return functional.cross_entropy(module(inputs), labels, reduction="none")


def train_only(module: nn.Module, *parts: str) -> list[str]:
    """Freeze all parameters but those whose names contain one of `parts`.

    Args:
        module: changed in place.
        parts: such as ``classifier``, ``layer.5.`` or ``lora_``.

    Returns:
        Names of the parameters that are trained.

    Raises:
        InputError: a part that no name contains.

    >>> train_only(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), "1.")
    ['1.weight', '1.bias']
    """
    names = [name for name, _ in module.named_parameters()]
    for part in parts:
        if not any(part in name for name in names):
            raise InputError(
                f"no parameter's name contains {part!r}; the names end in, for example, "
                f"{', '.join(names[-4:])}."
            )
    for name, value in module.named_parameters():
        value.requires_grad_(any(part in name for part in parts))
    return [name for name, value in module.named_parameters() if value.requires_grad]


def _stream(secret: int, step: int, purpose: int) -> np.random.Generator:
    """Of one step alone, so that a training goes on after a stop as if nothing had happened."""
    return np.random.default_rng(np.random.SeedSequence(secret, spawn_key=(step, purpose)))


def _add_noise(sums: dict[str, Tensor], deviation: float, stream: np.random.Generator) -> None:
    for value in sums.values():
        # NumPy's generator keeps all 128 bits of the secret; torch's on the CPU keeps 32.
        drawn = torch.from_numpy(stream.standard_normal(tuple(value.shape), np.float32))
        value.add_(drawn.to(value), alpha=deviation)


def _optimizer(settings: PrivateSettings, values: list[nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(values, rate, settings.momentum, weight_decay=decay)
    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    return kind(values, rate, weight_decay=decay)


def _autocast(precision: str, device: str) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    if precision == "float32":
        return contextlib.nullcontext
    return lambda: torch.autocast(device, dtype=torch.bfloat16)


def _hash(leaf: Tensor) -> str:
    return hash_array(leaf.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
