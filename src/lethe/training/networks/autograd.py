"""One model of any architecture by autograd."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lethe.training.networks.parameters import Parameters


def half_products(on: bool, device: str) -> contextlib.AbstractContextManager[Any]:
    """Products and convolutions in bfloat16 where asked for; all else stays float32."""
    return torch.autocast(device, dtype=torch.bfloat16) if on else contextlib.nullcontext()


@contextlib.contextmanager
def full_products() -> Iterator[None]:
    """Products and convolutions of float32 tensors as exact as float32, whatever was set before.

    Coarser ones (TF32, bfloat16) round a record's gradient by how many others are in the batch:
    past the bound that clipping gives.
    """
    products, convolutions = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(products)
        torch.backends.cudnn.allow_tf32 = convolutions


def channels_last(x: Tensor) -> Tensor:
    """(n, C, h, w) with the channels next to each other in memory."""
    if x.shape[1] == 1 and x.is_contiguous():
        # One channel lies either way; only its stride tells the convolution which was meant.
        return x.as_strided(x.shape, (x.stride(0), 1, x.stride(2), x.stride(3)))
    x = x.contiguous(memory_format=torch.channels_last)
    # The stride of a single image says nothing, but some kernels read the layout from it.
    return x if len(x) != 1 else x.as_strided(x.shape, (x.numel(), *x.stride()[1:]))


class Alone:
    """A single model; see `Network`.

    Args:
        module: moved to the device; its parameters become views of one flat tensor.
        dropout: the model's random stream; seeds torch's global one around every step.
        half: compute products and convolutions in bfloat16.
        images_last: hand images over channels-last; a forward method that takes `view` of an
            image may not stand it.
    """

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
        # States of the CPU's and the device's generator, seeded alike.
        seed = dropout.initial_seed()
        self._state = [torch.Generator().manual_seed(seed).get_state()]
        if self._device.type == "cuda":
            self._state.append(torch.Generator(self._device).manual_seed(seed).get_state())
        self._logits: Tensor | None = None

    @contextlib.contextmanager
    def own_randomness(self) -> Iterator[None]:
        """Draw from the model's own stream meanwhile; the global one is then as it was."""
        before = _states(self._device)
        _set_states(self._state, self._device)
        try:
            yield
        finally:
            self._state = _states(self._device)
            _set_states(before, self._device)

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
            with torch.no_grad(), half_products(self._half, self._device.type):
                self.module.train(False)
                return torch.zeros_like(self.module(self.given(x[0])).float())[None]
        with torch.enable_grad(), self.own_randomness():
            with half_products(self._half, self._device.type):
                self._logits = self.module(self.given(x[0, : self._rows]))
            logits = self._logits.detach().float()
        padding = logits.new_zeros(self._shape - self._rows, *logits.shape[1:])
        return torch.cat([logits, padding])[None] if len(padding) else logits[None]

    def backward(self, slope: Tensor) -> None:
        """See `Network`; a parameter that the loss does not reach gets a gradient of 0."""
        self.parameters.grad.zero_()
        if self._logits is not None:
            torch.autograd.backward(self._logits, slope[0, : self._rows].to(self._logits.dtype))
            self._logits = None

    def predict(self, x: Tensor, shared: bool) -> Tensor:
        """See `Network`."""
        self.module.train(False)
        with torch.no_grad(), half_products(self._half, self._device.type):
            outputs: Tensor = self.module(self.given(x if shared else x[0]))
        return outputs.float()[None]

    def tensors(self) -> list[Tensor]:
        """See `Network`."""
        values = [block.value for block in self.parameters.blocks]
        return values + [buffer[None] for buffer in self.module.buffers()]


def _states(device: torch.device) -> list[Tensor]:
    states = [torch.random.get_rng_state()]
    return [*states, torch.cuda.get_rng_state(device)] if device.type == "cuda" else states


def _set_states(states: list[Tensor], device: torch.device) -> None:
    torch.random.set_rng_state(states[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(states[1], device)
