"""Layers that are built of several products: what a recorded call of one of them consists of.

While a pass is recorded, the forward of such a layer is replaced by one that computes the same
from the layer's own values, cut off from the graph, and notes each product with a weight. A use
of these values anywhere else is still seen in the graph, and `plan_clipping` compares the
result with one backward pass an example through the layer's own forward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lethe.mitigations.clipping.products import Product, linear_product


@dataclass
class Use:
    """One product of a weight with stored inputs.

    Attributes:
        weights: name of the weight inside the layer, and its first and last row that is used.
        biases: names of all biases that are added to this product, with their rows.
        x: (B, T, I) inputs.
        edge: number of the noted edge whose gradient belongs to the product.
        slope: from that gradient to the one at this product's output, (B, T, O).
    """

    weights: tuple[str, slice]
    biases: tuple[tuple[str, slice], ...]
    x: Tensor
    edge: int
    slope: Callable[[Tensor], Tensor]


@dataclass
class Notes:
    """What one call of a composite layer leaves for book-keeping.

    Attributes:
        module: the layer.
        lead: number of examples that the call saw.
        edges: at the outputs of products.
        below: for each edge the node that made the product's input, or None.
        uses: products with a weight.
        stored: inputs that came from outside, with the version they had.
    """

    module: nn.Module
    lead: int = 0
    edges: list[GradientEdge] = field(default_factory=list)
    below: list[Any] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    stored: list[tuple[Tensor, int]] = field(default_factory=list)

    def value(self, name: str) -> Tensor:
        """A parameter of the layer, cut off from the graph."""
        return self.module.get_parameter(name).detach()

    def mark(self, out: Tensor, x: Tensor) -> int:
        """Note the gradient at a product's output; returns its number."""
        self.below.append(x.grad_fn if x.requires_grad else None)
        if not out.requires_grad:
            out.requires_grad_()
        self.edges.append(get_gradient_edge(out))
        return len(self.edges) - 1

    def linear(
        self, x: Tensor, weight: str, bias: str | None, part: slice, bias_part: slice
    ) -> Tensor:
        """``F.linear`` of (B, T, I) with some rows of a weight, noted."""
        added = None if bias is None else self.value(bias)[bias_part]
        out = F.linear(x, self.value(weight)[part], added)
        biases = () if bias is None else ((bias, bias_part),)
        kept = x.detach()
        self.stored.append((kept, kept._version))
        self.uses.append(Use((weight, part), biases, kept, self.mark(out, x), lambda g: g))
        return out

    def products(
        self, gradients: Sequence[Tensor | None], trained: set[str], dtype: torch.dtype, copies: int
    ) -> Iterator[tuple[str, Joined]]:
        """For every trained parameter that was reached: its name inside the layer, and slopes.

        Args:
            gradients: at the noted edges, None where the loss does not depend on one.
            trained: names of parameters inside the layer.
            dtype: in which products are made.
            copies: consecutive rows that belong to one example.
        """
        found: dict[str, list[tuple[slice, Product, str]]] = {}
        for use in self.uses:
            g = gradients[use.edge]
            if g is None:
                continue
            product = linear_product(use.x.to(dtype), use.slope(g.to(dtype)), copies)
            name, part = use.weights
            found.setdefault(name, []).append((part, product, "weight"))
            for name, part in use.biases:
                found.setdefault(name, []).append((part, product, "bias"))
        for name, parts in found.items():
            if name in trained:
                yield name, Joined(parts, self.module.get_parameter(name))


class Joined:
    """Slopes of a parameter whose rows belong to separate products.

    Args:
        parts: rows, their product, and what of the product they are, ``weight`` or ``bias``.
        like: the parameter.
    """

    def __init__(self, parts: list[tuple[slice, Product, str]], like: Tensor) -> None:
        self._parts, self._like = parts, like

    def squares(self, name: str) -> Tensor:
        """(B,) squared gradient norms of the whole parameter; the name is not looked at."""
        return torch.stack([product.squares(of) for _, product, of in self._parts]).sum(0)

    def weighted(self, name: str, c: Tensor) -> Tensor:
        """Sum over examples of c_b times the gradient."""
        if len(self._parts) == 1 and self._parts[0][0] == slice(None):
            return self._parts[0][1].weighted(self._parts[0][2], c)
        total = torch.zeros_like(self._like, dtype=c.dtype, requires_grad=False)
        for part, product, of in self._parts:
            total[part] = product.weighted(of, c)
        return total

    def per_example(self, name: str, chosen: slice) -> Tensor:
        """(b, *shape) gradients of the chosen examples."""
        made = [
            (part, product.per_example(of, chosen).to(self._like.dtype))
            for part, product, of in self._parts
        ]
        total = made[0][1].new_zeros(len(made[0][1]), *self._like.shape)
        for part, own in made:
            total[:, part] = own
        return total


Forward = Callable[..., Any]


@contextmanager
def replaced(layers: Sequence[tuple[nn.Module, Forward]]) -> Iterator[None]:
    """Other forwards for some layers, and afterwards each as it was.

    Args:
        layers: a module, and what its call is to run.
    """
    before = [(module, module.__dict__.get("forward")) for module, _ in layers]
    try:
        for module, forward in layers:
            module.__dict__["forward"] = forward
        yield
    finally:
        for module, own in before:
            if own is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = own
