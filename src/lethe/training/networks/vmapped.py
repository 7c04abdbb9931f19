"""K models of any architecture at once, by torch.func.vmap over their parameters."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel

from lethe.training.networks.parameters import Parameters, buffers_of


class Vmapped:
    """K copies of a module; see `base.Network`.

    Running statistics are each model's own, and so are dropout masks; other randomness in a
    forward method is refused by vmap.

    Args:
        modules: K modules of one architecture.
        dropout: one random stream a model, on the device.
        device: where they are trained.
        half: compute products and convolutions in bfloat16.
    """

    even = True
    predict_cells = 2048

    def __init__(
        self,
        modules: Sequence[nn.Module],
        dropout: Sequence[torch.Generator],
        device: torch.device | str = "cpu",
        half: bool = False,
    ) -> None:
        self.parameters = Parameters(modules, device)
        self._device, self._half = torch.device(device), half
        self._buffers = buffers_of(modules, device)
        self.module = modules[0].to(device)
        names = [name for name, p in self.module.named_parameters() if p.requires_grad]
        self._leaves: dict[str, Tensor] = {}
        for name, block in zip(names, self.parameters.blocks, strict=True):
            leaf = block.value.detach().requires_grad_()
            leaf.grad = block.slope
            self._leaves[name] = leaf
        _draw_apart(self.module, dropout)
        self._logits: Tensor | None = None

    def _mixed(self) -> Any:
        if not self._half:
            return contextlib.nullcontext()
        return torch.autocast(self._device.type, dtype=torch.bfloat16)

    def _call(self, x: Tensor, over: int | None) -> Tensor:
        def one(values: dict[str, Tensor], rest: dict[str, Tensor], rows: Tensor) -> Tensor:
            out: Tensor = functional_call(self.module, (values, rest), (rows,))
            return out

        with self._mixed(), _plain_attention():
            every = torch.func.vmap(one, in_dims=(0, 0, over), randomness="error")
            found: Tensor = every(self._leaves, self._buffers, x)
        return found

    def forward(self, x: Tensor, rows: Sequence[int]) -> Tensor:
        """See `Network`."""
        self.module.train()
        with torch.enable_grad():
            self._logits = self._call(x, 0)
        return self._logits.detach().float()

    def backward(self, slope: Tensor) -> None:
        """See `Network`; a parameter that the loss does not reach gets a gradient of 0."""
        assert self._logits is not None
        self.parameters.grad.zero_()
        torch.autograd.backward(self._logits, slope.to(self._logits.dtype))
        self._logits = None

    def predict(self, x: Tensor, shared: bool) -> Tensor:
        """See `Network`."""
        self.module.train(False)
        with torch.no_grad():
            return self._call(x, None if shared else 0).float()

    def tensors(self) -> list[Tensor]:
        """See `Network`."""
        return [block.value for block in self.parameters.blocks] + list(self._buffers.values())


@contextlib.contextmanager
def _plain_attention() -> Iterator[None]:
    """Attention in its plain form: vmap has no rules for the fused kernels."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop because")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _draw_apart(module: nn.Module, streams: Sequence[torch.Generator]) -> None:
    """Replace the dropout layers by such that draw from each model's own stream."""
    for name, child in module.named_children():
        if type(child) is nn.Dropout:
            setattr(module, name, _Dropout(child.p, streams))
        else:
            _draw_apart(child, streams)


class _Dropout(nn.Module):
    def __init__(self, p: float, streams: Sequence[torch.Generator]) -> None:
        super().__init__()
        self.p, self.streams = p, streams

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        draw: Callable[..., Tensor] = _Mask.apply
        return x * draw(x.detach(), self)


class _Mask(torch.autograd.Function):
    """A dropout mask; under vmap each model's part comes from its own stream."""

    @staticmethod
    def forward(x: Tensor, layer: _Dropout) -> Tensor:
        return _masks(x[None], layer)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> tuple[None, None]:
        return None, None

    @staticmethod
    def vmap(info: Any, dims: Any, x: Tensor, layer: _Dropout) -> tuple[Tensor, int]:
        if dims[0] is None:  # what is dropped does not depend on the model; the masks do
            x = x.expand(info.batch_size, *x.shape)
        else:
            x = x.movedim(dims[0], 0)
        return _masks(x, layer), 0


def _masks(x: Tensor, layer: _Dropout) -> Tensor:
    mask = torch.empty_like(x, memory_format=torch.contiguous_format)
    for one, stream in zip(mask, layer.streams, strict=True):
        one.bernoulli_(1 - layer.p, generator=stream)
    return mask.div_(1 - layer.p) if layer.p < 1 else mask
