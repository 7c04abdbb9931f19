"""One model of any architecture, by autograd: for whatever does not stack."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lethe.training.networks.images import channels_last
from lethe.training.networks.parameters import Parameters


class Alone:
    """A single model; see `base.Network`.

    Args:
        module: moved to the device; its parameters become views of one flat tensor.
        dropout: the model's random stream; seeds torch's global one around every step.
        device: where it is trained.
        half: compute products and convolutions in bfloat16.
        images_last: hand images over channels-last; a forward method that takes `view` of an
            image may not stand it.
    """

    even = False
    predict_cells = 1024

    def __init__(
        self,
        module: nn.Module,
        dropout: torch.Generator,
        device: torch.device | str = "cpu",
        half: bool = False,
        images_last: bool = False,
    ) -> None:
        self.module, self._half, self._images_last = module, half, images_last
        self._device = torch.device(device)
        self.parameters = Parameters([module], device, images_last)
        module.to(device)
        trained = [p for p in module.parameters() if p.requires_grad]
        for parameter, block in zip(trained, self.parameters.blocks, strict=True):
            parameter.data = block.value[0]
            parameter.grad = block.slope[0]
        self._state = _random_state(dropout, self._device)
        self._logits: Tensor | None = None

    def _mixed(self) -> Any:
        if not self._half:
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=torch.bfloat16)

    def own_randomness(self) -> contextlib.AbstractContextManager[None]:
        """Passes through `module` in this context draw from the model's own stream."""
        return _own_randomness(self._state, self._device)

    def given(self, x: Tensor) -> Tensor:
        """Rows (n, ...) as the module takes them."""
        return channels_last(x) if self._images_last and x.ndim == 4 else x

    def forward(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """See `Network`."""
        self._rows = rows[0]
        self._shape = x.shape[1]
        self.module.train()
        if self._rows == 0:
            self._logits = None
            with torch.no_grad(), self._mixed():
                self.module.train(False)
                return torch.zeros_like(self.module(self.given(x[0])).float())[None]
        with torch.enable_grad(), self.own_randomness():
            with self._mixed():
                self._logits = self.module(self.given(x[0, : self._rows]))
            own = self._logits.detach().float()
        padding = own.new_zeros(self._shape - self._rows, *own.shape[1:])
        return torch.cat([own, padding])[None] if len(padding) else own[None]

    def backward(self, slope: Tensor) -> None:
        """See `Network`; a parameter that the loss does not reach gets a gradient of 0."""
        self.parameters.grad.zero_()
        if self._logits is not None:
            torch.autograd.backward(self._logits, slope[0, : self._rows].to(self._logits.dtype))
            self._logits = None

    def predict(self, x: Tensor, shared: bool) -> Tensor:
        """See `Network`."""
        self.module.train(False)
        with torch.no_grad(), self._mixed():
            found: Tensor = self.module(self.given(x if shared else x[0]))
        return found.float()[None]

    def tensors(self) -> list[Tensor]:
        """See `Network`."""
        own = [block.value for block in self.parameters.blocks]
        return own + [buffer[None] for buffer in self.module.buffers()]


class _own_randomness(contextlib.AbstractContextManager[None]):
    """Lets the model draw from its own stream, and gives the global one back as it was."""

    def __init__(self, state: list[Tensor], device: torch.device) -> None:
        self._own, self._device = state, device

    def __enter__(self) -> None:
        self._before = _states(self._device)
        _set_states(self._own, self._device)

    def __exit__(self, *error: object) -> None:
        self._own[:] = _states(self._device)
        _set_states(self._before, self._device)


def _random_state(stream: torch.Generator, device: torch.device) -> list[Tensor]:
    """States of the CPU's and the device's generator, seeded alike."""
    states = [torch.Generator().manual_seed(stream.initial_seed()).get_state()]
    if device.type == "cuda":
        states.append(torch.Generator(device).manual_seed(stream.initial_seed()).get_state())
    return states


def _states(device: torch.device) -> list[Tensor]:
    own = [torch.random.get_rng_state()]
    return [*own, torch.cuda.get_rng_state(device)] if device.type == "cuda" else own


def _set_states(states: list[Tensor], device: torch.device) -> None:
    torch.random.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
