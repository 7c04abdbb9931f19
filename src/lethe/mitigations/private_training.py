"""Differentially private training of one model, any torch module: DP-SGD and DP-Adam.

Every step draws each example by its own coin, clips each example's gradient, adds one draw of noise
to the sum, and divides by the *expected* batch size (Abadi et al. 2016, algorithm 1, with Poisson
sampling). What may be claimed is computed from what ran, see `lethe.evidence.dp_statement`.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn import functional

from lethe.errors import InputError, LetheError, check_at_least, check_between, check_choice
from lethe.evidence.accounting import check_weights, noise_for
from lethe.evidence.dp_statement import SOURCES, TUNING, DpSgdRun, DpStatement, dp_statement
from lethe.evidence.guarantee import Guarantee, check_clip, check_given_delta, noise_seed
from lethe.files import write_for_owner, write_whole
from lethe.mitigations.clipping.per_example import Loss, mapped, rows, size, stand_ins, tensors
from lethe.mitigations.clipping.plan import (
    ClippingPlan,
    Disturbed,
    plan_clipping,
)
from lethe.mitigations.clipping.selfcheck import MOST_CHANGE
from lethe.mitigations.clipping.state import ModuleState
from lethe.training.batches import factor
from lethe.training.fingerprint import digest, hash_array, hash_json
from lethe.training.networks.autograd import full_products
from lethe.training.recipe import OPTIMIZERS, SCHEDULES
from lethe.training.users_code import seeded


@dataclass(frozen=True, kw_only=True)
class PrivateSettings:
    """Settings of `train_privately`.

    Attributes:
        epsilon: target, > 0; or give `noise_multiplier`.
        noise_multiplier: sd of the noise on the sum of clipped gradients / `clip`, > 0.
        delta: in (0, 1), well below 1 / records; there is no default.
        clip: C, largest norm of one example's gradient in the sum, in [1e-9, 1e9].
        batch_size: expected number of examples a step; Poisson sampling makes it vary.
        epochs: passes over the data, expected; steps = epochs * records / batch_size, rounded up.
        learning_rate: on the mean of a batch, the highest of the schedule.
        optimizer: ``adam``, ``adamw`` or ``sgd``.
        momentum: of SGD.
        weight_decay: as in torch.optim.
        schedule: ``constant``, ``cosine`` or ``one-cycle``.
        warmup: share of the steps, in [0, 1).
        relation: ``add/remove`` or ``replace-one``.
        unit: what one example is: ``record``, or ``user`` where every example holds all records
            of one person.
        tuning: how these settings were chosen, see `lethe.evidence.dp_statement.DpSgdRun`.
        runs: trainings on the private data that are charged, >= 1.
        copies: rows of each drawn example in a step, >= 1, for `augment` to change.
        part_size: most examples computed at a time; larger batches are added up in parts.
    """

    delta: float | None = None
    epsilon: float | None = None
    noise_multiplier: float | None = None
    clip: float = 1.0
    batch_size: int = 256
    epochs: float = 10
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: float = 0.0
    relation: str = "add/remove"
    unit: str = "record"
    tuning: str = "none"
    runs: int = 1
    copies: int = 1
    part_size: int = 64

    def __post_init__(self) -> None:
        check_given_delta(self.delta)
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise InputError(
                "give epsilon (the noise is found) or noise_multiplier (epsilon is computed), "
                "not both and not neither."
            )
        check_clip(self.clip)
        for name in ("epsilon", "noise_multiplier", "learning_rate", "epochs"):
            value = getattr(self, name)
            if value is not None:
                check_between(name, value, 0, math.inf, open_low=True, open_high=True)
        for name in ("batch_size", "copies", "part_size", "runs"):
            check_at_least(name, getattr(self, name), 1)
        check_between("momentum", self.momentum, 0, 1, open_high=True)
        check_at_least("weight_decay", self.weight_decay, 0)
        check_between("warmup", self.warmup, 0, 1, open_high=True)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("unit", self.unit, ("record", "user"))
        check_choice("relation", self.relation, ("add/remove", "replace-one"))
        check_choice("tuning", self.tuning, TUNING)

    def rate(self, records: int) -> float:
        """Probability of an example to be in a batch.

        Raises:
            InputError: the batch is larger than the data.
        """
        if self.batch_size > records:
            raise InputError(
                f"batch_size={self.batch_size} must be at most the {records} examples."
            )
        return self.batch_size / records

    def steps(self, records: int) -> int:
        """Noisy steps of one training."""
        return math.ceil(self.epochs / self.rate(records) - 1e-9)

    def noise(self, records: int, sensitivity: float) -> float:
        """The noise multiplier that was given, or the smallest that meets epsilon.

        Args:
            records: examples in the private data.
            sensitivity: largest norm of one example's part of the sum / clip, as checked.
        """
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        assert self.epsilon is not None
        return noise_for(
            self.epsilon,
            self.delta,
            sampling_rate=self.rate(records),
            steps=self.steps(records) * self.runs,
            sensitivity=sensitivity,
            relation=self.relation,
        )


_SAMPLE, _NOISE, _LAYERS, _ANEW = 0, 1, 2, 3


@dataclass(frozen=True)
class PrivateModel:
    """A model that was trained privately, and what may be said of it.

    Attributes:
        module: the one that was given, as it was but for the values of its trained parameters.
        plan: how gradients are clipped, and what the self-check measured before training.
    """

    module: nn.Module
    statement: DpStatement  # the guarantee that was earned, with reasons where it is weaker
    plan: ClippingPlan
    noise_multiplier: float  # sd of the noise on the sum / clip
    steps: int  # noisy steps taken

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
    examples: Any = None,
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
        examples: public ones, shaped like `data`, for the self-check; by default made-up numbers
            in [0, 1) and whole numbers 0 and 1. No private one decides whether there is a model.
        seed: of sampling and noise. None takes a secret from the operating system, as a release
            needs: who knows the seed can take the noise off again.
        folder: where an interrupted training is kept; the same call goes on from there, to the
            same result. It holds private data until the training is done.
        progress: told (steps done, steps).

    Returns:
        The model and its statement. Nothing else that was seen on the way, such as norms of
        gradients, sizes of batches or the time it took, is covered by it: keep it to yourself.

    Raises:
        InputError: settings, data or weights break a rule, a forward pass writes to the module, or
            no way of clipping holds its bound on it; see `plan_clipping`. No record decides this.

    Guarantee:
        `PrivateModel.statement`: (epsilon, delta)-DP of all that is released: the trained
        parameters, and everything else in the module as it was at the start, bit by bit. A record
        whose gradient is not finite, or on which the model fails, counts 0 without a word.

    Assumes:
        What the statement lists. In particular the settings were not tuned on these data, `augment`
        does not mix rows, and the model's code mixes no records within a pass, depends on nothing
        that outlives a pass outside the module's attributes (globals, closures, calls counted
        there), and neither prints nor writes files. Looked for at secret random steps; where it is
        seen, the training begins anew with each record by itself.
    """
    count = size(data)
    check_choice("weights_from", weights_from, SOURCES)
    first = next(module.parameters(), None)
    if first is None:
        raise InputError("module has no parameters; nothing to train.")
    checked = None if weights is None else check_weights(weights)
    if checked is not None and len(checked) != count:
        raise InputError(f"{len(checked)} weights do not fit {count} examples: give one for each.")
    steps = settings.steps(count)
    pristine = _copy_of(module)
    clipping = _plan(
        module, loss or cross_entropy, stand_ins(data) if examples is None else examples
    )
    # As it is before it sees private data, with a state that never will.
    released = replace(clipping, state=ModuleState(module))
    released.state.learning = False
    # Not the change that was measured: the noise would tell of the records it was measured on.
    noise = settings.noise(count, MOST_CHANGE)
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    optimizer = _optimizer(settings, list(trained.values()))
    name = digest(
        hash_json(asdict(settings)),
        hash_json([weights_from, seed]),
        *(_hash(leaf) for leaf in (*tensors(data), *_state(module).values())),
        "" if checked is None else hash_array(checked),
    )
    state = State(None if folder is None else Path(folder), name, trained, optimizer)
    secret, step = state.resume(noise_seed(seed))
    clipping.state.thorough = state.alone
    factors = None if checked is None else torch.from_numpy(checked.astype(np.float32))
    rate = settings.rate(count)

    def clipped(drawn: NDArray[np.int64]) -> dict[str, Tensor]:
        batch = rows(data, np.repeat(drawn, settings.copies).tolist())
        if augment is not None:
            batch, changed = _augmented(augment, batch, settings.copies)
            drawn = drawn[changed]
        return clipping.clipped_sum(
            batch,
            settings.clip,
            None if factors is None else factors[torch.from_numpy(drawn)],
            part_size=settings.part_size,
            copies=settings.copies,
        )[0]

    while step < steps:
        drawn = np.flatnonzero(_stream(secret, step, _SAMPLE).random(count) < rate)
        layers = int(_stream(secret, step, _LAYERS).integers(2**63))
        try:
            with seeded(layers), full_products():
                sums = clipping.state.undisturbed(partial(clipped, drawn))
            _add_noise(sums, noise * settings.clip, _stream(secret, step, _NOISE))
            for key, value in trained.items():  # by the expected size of a batch
                value.grad = sums[key].div_(float(settings.batch_size)).to(value.dtype)
            part = factor(settings.schedule, step, steps, settings.warmup)
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate * part
            optimizer.step()
        except Disturbed:  # all sums so far are void, and an error would tell of a record
            clipping.state.thorough = True
            secret, step = (
                state.restart(int.from_bytes(_stream(secret, step, _ANEW).bytes(16), "big")),
                0,
            )
            continue
        step += 1
        state.save(step)
        if progress is not None:
            progress(step, steps)
    optimizer.zero_grad(set_to_none=True)
    state.done()
    if pristine is not None:
        _hand_over(module, pristine, trained)
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
        weights=checked,
        weights_from=weights_from,
        noise_seed="secret" if seed is None else "given",
    )
    return PrivateModel(module, dp_statement(run), released, noise, steps)


def _copy_of(module: nn.Module) -> nn.Module | None:
    """A deep copy that never sees private data; None of a module that cannot be copied."""
    try:
        return copy.deepcopy(module)
    except Exception:  # tensors that are computed from others; then what was written is put back
        return None


def _hand_over(module: nn.Module, pristine: nn.Module, trained: Mapping[str, Tensor]) -> None:
    """Make the module what it was before it saw private data, with its trained values."""
    with torch.no_grad():
        for name, value in pristine.named_parameters():
            if name in trained:
                value.copy_(trained[name])
    module.__class__ = type(pristine)
    vars(module).clear()
    vars(module).update(vars(pristine))


def _augmented(
    augment: Callable[[Any], Any], batch: Any, copies: int
) -> tuple[Any, NDArray[np.int64]]:
    """The changed batch, and which of its examples it holds: those that `augment` can change.

    Where it fails on the whole each example is changed by itself, so that one record cannot end
    the training.
    """
    count = size(batch) // copies
    try:
        return augment(batch), np.arange(count)
    except Exception:
        changed: dict[int, Any] = {}
        for example in range(count):
            examples = rows(batch, list(range(example * copies, (example + 1) * copies)))
            with contextlib.suppress(Exception):
                changed[example] = augment(examples)
    parts = [tensors(part) for part in changed.values()]
    if not parts:
        return rows(batch, []), np.zeros(0, np.int64)
    leaves = iter([torch.cat(leaf) for leaf in zip(*parts, strict=True)])
    first = next(iter(changed.values()))
    return mapped(first, lambda _: next(leaves)), np.array(list(changed), np.int64)


def _plan(module: nn.Module, loss: Loss, examples: Any) -> ClippingPlan:
    """`plan_clipping`, whatever the model makes of the examples."""
    try:
        return plan_clipping(module, loss, examples)
    except (LetheError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"the self-check's examples do not pass through the model ({type(error).__name__}: "
            f"{str(error).strip().partition(chr(10))[0]}); give public ones in examples=, shaped "
            "like data."
        ) from error


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
    """Seed a generator by the step alone, so that a training continues after a stop."""
    return np.random.default_rng(np.random.SeedSequence(secret, spawn_key=(step, purpose)))


def _add_noise(sums: dict[str, Tensor], deviation: float, stream: np.random.Generator) -> None:
    for value in sums.values():
        # NumPy's generator keeps all 128 bits of the secret; torch's on the CPU keeps 32. Noise of
        # fewer digits than the sum would leave the sum's last digits as they are.
        kind = np.float64 if value.dtype == torch.float64 else np.float32
        drawn = torch.from_numpy(stream.standard_normal(tuple(value.shape), kind))
        value.add_(drawn.to(value), alpha=deviation)


def _optimizer(settings: PrivateSettings, values: list[nn.Parameter]) -> torch.optim.Optimizer:
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "sgd":
        return torch.optim.SGD(values, rate, settings.momentum, weight_decay=decay)
    kind = torch.optim.Adam if settings.optimizer == "adam" else torch.optim.AdamW
    return kind(values, rate, weight_decay=decay)


def _state(module: nn.Module) -> dict[str, Tensor]:
    """The tensors of a module's state; versions and other extra state are left out."""
    return {key: value for key, value in module.state_dict().items() if isinstance(value, Tensor)}


def _hash(leaf: Tensor) -> str:
    return hash_array(leaf.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())


_EVERY = 20.0  # seconds between two savings
_NAME = "private-training.safetensors"


class State:
    """Parameters and optimiser of a training, saved now and then and found again.

    Args:
        folder: where; None keeps nothing.
        name: content hash of everything that decides the training.
        trained: the parameters, by name.
        optimizer: of them, in the same order.

    Attributes:
        alone: the training began anew with each example by itself.
    """

    def __init__(
        self,
        folder: Path | None,
        name: str,
        trained: Mapping[str, Tensor],
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self._path = None if folder is None else folder / _NAME
        self._name, self._trained, self._optimizer = name, trained, optimizer
        self._saved, self._secret, self.alone = time.monotonic(), 0, False
        self._start = {key: value.detach().clone() for key, value in trained.items()}

    def resume(self, secret: int) -> tuple[int, int]:
        """The secret of this training, and how many steps are done.

        Args:
            secret: for a training that has not begun.

        Raises InputError: the folder holds another training, or a damaged one.
        """
        self._secret = secret
        if self._path is None:
            return secret, 0
        if not self._path.exists():
            self._write(0)
            return secret, 0
        try:
            with safe_open(self._path, "pt") as file:
                header = file.metadata()
                tensors = {key: file.get_tensor(key) for key in file.keys()}
            step, self._secret = int(header["step"]), int(header["secret"], 16)
            self.alone = header["alone"] == "True"
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{self._path} is damaged ({error}); delete it to begin again."
            ) from error
        if header.get("training") != self._name:
            raise InputError(
                f"{self._path} is of another training: data, settings, seed or first weights "
                "differ. Use the same ones, or another folder."
            )
        self._put_back(tensors)
        return self._secret, step

    def restart(self, secret: int) -> int:
        """First parameters and a new secret, which is returned, for a training of each alone."""
        self._secret, self.alone = secret, True
        self._optimizer.state.clear()
        with torch.no_grad():
            for key, value in self._trained.items():
                value.copy_(self._start[key])
        if self._path is not None:
            self._write(0)
        return secret

    def _put_back(self, state: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for key, value in self._trained.items():
                value.copy_(state[f"value/{key}"])
        slots: dict[int, dict[str, Tensor]] = {}
        for key, value in state.items():
            kind, _, rest = key.partition("/")
            if kind == "slot":
                at, _, what = rest.partition("/")
                slots.setdefault(int(at), {})[what] = value
        described = self._optimizer.state_dict()
        self._optimizer.load_state_dict({**described, "state": slots})

    def save(self, step: int) -> None:
        """Save, if the last time is long ago."""
        if self._path is not None and time.monotonic() - self._saved >= _EVERY:
            self._write(step)

    def _write(self, step: int) -> None:
        assert self._path is not None
        held = {f"value/{key}": value.detach() for key, value in self._trained.items()}
        for at, slot in self._optimizer.state_dict()["state"].items():
            held |= {f"slot/{at}/{what}": one for what, one in slot.items() if one is not None}
        header = {"training": self._name, "step": str(step), "secret": f"{self._secret:x}"}
        header["alone"] = str(self.alone)
        tensors = {key: value.contiguous().clone() for key, value in held.items()}
        write_for_owner(self._path, save(tensors, header))
        self._saved = time.monotonic()

    def done(self) -> None:
        """The secret and the way of the training are gone; only the result is left."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def write_released(path: Path, module: nn.Module, guarantee: Guarantee) -> None:
    """Write a module's state as safetensors with its guarantee in the header.

    An epsilon of each record depends on the records there are: its header names delta alone.
    """
    if guarantee.kind == "individual-dp":
        common = {key: guarantee.parameters[key] for key in ("delta",)}
        guarantee = replace(guarantee, parameters=common)
    state: dict[str, Any] = {
        key: value.detach().cpu().contiguous().clone() for key, value in _state(module).items()
    }
    write_whole(path, save(state, {"guarantee": json.dumps(guarantee.to_json())}))
