"""Layers that are built of several products: what a recorded call of one of them consists of.

While a pass is recorded, the layer's forward is replaced by one that computes the same from its own
values, cut off from the graph, and notes each product with a weight. A use elsewhere is still seen
in the graph, and `plan_clipping` compares the result with the layer's own forward.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from lethe.mitigations.clipping.rules import Product, linear_product


@dataclass
class Use:
    """One product of a weight with stored inputs.

    Attributes:
        weights: name of the weight inside the layer, and its first and last row that is used.
        biases: names of all biases that are added to this product, with their rows.
        slope: from that gradient to the one at this product's output, (B, T, O).
    """

    weights: tuple[str, slice]
    biases: tuple[tuple[str, slice], ...]
    x: Tensor  # (B, T, I) inputs
    edge: int  # number of the noted edge whose gradient belongs to the product
    slope: Callable[[Tensor], Tensor]


@dataclass
class Notes:
    """What one call of a composite layer leaves for book-keeping.

    Attributes:
        below: for each edge the node that made the product's input, or None.
        stored: inputs that came from outside, with the version they had.
    """

    module: nn.Module  # the layer
    lead: int = 0  # number of examples that the call saw
    edges: list[GradientEdge] = field(default_factory=list)  # at the outputs of products
    below: list[Any] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)  # products with a weight
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
            copies: consecutive rows that belong to one example.
        """
        products_of: dict[str, list[tuple[slice, Product, str]]] = {}
        for use in self.uses:
            g = gradients[use.edge]
            if g is None:
                continue
            product = linear_product(use.x.to(dtype), use.slope(g.to(dtype)), copies)
            name, part = use.weights
            products_of.setdefault(name, []).append((part, product, "weight"))
            for name, part in use.biases:
                products_of.setdefault(name, []).append((part, product, "bias"))
        for name, parts in products_of.items():
            if name in trained:
                yield name, Joined(parts, self.module.get_parameter(name))


class Joined:
    """Slopes of a parameter whose rows belong to separate products.

    Args:
        parts: rows, their product, and what of the product they are, ``weight`` or ``bias``.
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
        gradients = [
            (part, product.per_example(of, chosen).to(self._like.dtype))
            for part, product, of in self._parts
        ]
        total = gradients[0][1].new_zeros(len(gradients[0][1]), *self._like.shape)
        for part, gradient in gradients:
            total[:, part] = gradient
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
        for module, children in before:
            if children is None:
                module.__dict__.pop("forward", None)
            else:
                module.__dict__["forward"] = children


WHOLE = slice(None)


def _attention_refused(module: nn.MultiheadAttention) -> str | None:
    """Why this attention layer cannot be noted, or None."""
    if module.bias_k is not None or module.bias_v is not None or module.add_zero_attn:
        return "MultiheadAttention uses add_bias_kv or add_zero_attn"
    if type(module.out_proj) is not nn.modules.linear.NonDynamicallyQuantizableLinear:
        return "MultiheadAttention has another output layer than its own"
    return None


def attend(
    notes: Notes,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None] | str:
    """What nn.MultiheadAttention computes, with its products noted.

    Args:
        notes: for the products; its module is the layer.
        query: (B, L, E), or (L, B, E) where the layer is not `batch_first`.
        key: (B, S, E') alike.
        value: (B, S, E'') alike.
        key_padding_mask: (B, S), True or minus infinity where a key is left out.
        need_weights: return attention weights too.
        attn_mask: (L, S) or (B heads, L, S), True or added.
        is_causal: a hint, which needs `attn_mask` and adds nothing to it.

    Returns: Output and weights, or why this call is not covered.
    """
    module: Any = notes.module
    if query.ndim != 3 or query.is_nested:
        return "was called without a batch dimension"
    if is_causal and attn_mask is None:
        return "was called with is_causal and no attn_mask"
    same = query is key and key is value
    if not module.batch_first:
        query, key, value = (part.transpose(0, 1) for part in (query, key, value))
    notes.lead = len(query)
    q, k, v = _projected(notes, query, key, value, same)
    mask = _mask(attn_mask, key_padding_mask, q, module.num_heads)
    dropout = module.dropout if module.training else 0.0
    weights = None
    if need_weights:
        scores = (q / math.sqrt(q.shape[-1])) @ k.transpose(-2, -1)
        weights = torch.softmax(scores if mask is None else scores + mask, -1)
        weights = F.dropout(weights, dropout) if dropout else weights
        mixed = weights @ v
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = F.scaled_dot_product_attention(q, k, v, mask, dropout)
    bias = None if module.out_proj.bias is None else "out_proj.bias"
    flat = mixed.transpose(1, 2).flatten(2)
    out = notes.linear(flat, "out_proj.weight", bias, WHOLE, WHOLE)
    return (out if module.batch_first else out.transpose(0, 1)), weights


def _projected(notes: Notes, query: Tensor, key: Tensor, value: Tensor, same: bool) -> list[Tensor]:
    """(B, heads, T, D) of each."""
    module: Any = notes.module
    bias, width = None if module.in_proj_bias is None else "in_proj_bias", module.embed_dim
    if same and module.in_proj_weight is not None:
        all_three = notes.linear(query, "in_proj_weight", bias, WHOLE, WHOLE)
        return [_heads(part, module.num_heads) for part in all_three.chunk(3, -1)]
    parts = []
    for number, (name, x) in enumerate((("q", query), ("k", key), ("v", value))):
        columns = slice(number * width, (number + 1) * width)
        packed = module.in_proj_weight is not None
        weight, part = ("in_proj_weight", columns) if packed else (f"{name}_proj_weight", WHOLE)
        parts.append(_heads(notes.linear(x, weight, bias, part, columns), module.num_heads))
    return parts


def _heads(x: Tensor, heads: int) -> Tensor:
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def _mask(of_pairs: Tensor | None, of_keys: Tensor | None, q: Tensor, heads: int) -> Tensor | None:
    total = None if of_pairs is None else _added(of_pairs, q)
    if total is not None and total.ndim == 3:
        total = total.view(-1, heads, *total.shape[1:])
    if of_keys is not None:
        keys = _added(of_keys, q)[:, None, None]
        total = keys if total is None else total + keys
    return total


def _added(mask: Tensor, like: Tensor) -> Tensor:
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.zeros_like(mask, dtype=like.dtype).masked_fill_(mask, -math.inf)


def _recurrent_refused(module: nn.RNNBase) -> str | None:
    """Why this recurrent layer cannot be noted, or None."""
    if getattr(module, "proj_size", 0):
        return f"{type(module).__name__} uses proj_size"
    return None


def recur(notes: Notes, input: Tensor, hx: Any = None) -> tuple[Tensor, Any] | str:
    """What nn.LSTM, nn.GRU or nn.RNN computes, with its products noted.

    Args:
        notes: for the products; its module is the layer.
        input: (B, T, I), or (T, B, I) where the layer is not `batch_first`.
        hx: first states (layers x directions, B, H), for an LSTM two of them; zeros by default.

    Returns: Outputs and last states, or why this call is not covered.
    """
    module: Any = notes.module
    if not isinstance(input, Tensor):
        return "was called with a packed sequence"
    if input.ndim != 3:
        return "was called without a batch dimension"
    outer = input.detach()
    notes.stored.append((outer, outer._version))
    x = input.transpose(0, 1) if module.batch_first else input
    notes.lead = x.shape[1]
    ways = 2 if module.bidirectional else 1
    firsts = _firsts(module, x, hx, ways)
    lasts: list[tuple[Tensor, ...]] = []
    for layer in range(module.num_layers):
        outputs = []
        for way in range(ways):
            suffix = f"l{layer}{'_reverse' if way else ''}"
            states, last = _one_way(notes, x.flip(0) if way else x, firsts[len(lasts)], suffix)
            outputs.append(states.flip(0) if way else states)
            lasts.append(last)
        x = torch.cat(outputs, -1) if ways == 2 else outputs[0]
        if module.dropout and module.training and layer < module.num_layers - 1:
            x = F.dropout(x, module.dropout)
    ends = tuple(torch.stack(parts) for parts in zip(*lasts, strict=True))
    out = x.transpose(0, 1) if module.batch_first else x
    return out, (ends if isinstance(module, nn.LSTM) else ends[0])


def _firsts(module: Any, x: Tensor, hx: Any, ways: int) -> list[tuple[Tensor, ...]]:
    """First states of every layer and direction."""
    kinds = 2 if isinstance(module, nn.LSTM) else 1
    if hx is None:
        zeros = x.new_zeros(x.shape[1], module.hidden_size)
        return [(zeros,) * kinds] * (module.num_layers * ways)
    states = hx if isinstance(hx, tuple) else (hx,)
    return list(zip(*(part.unbind(0) for part in states), strict=True))


def _one_way(
    notes: Notes, x: Tensor, first: tuple[Tensor, ...], suffix: str
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """States (T, B, H) and last states of one layer in one direction."""
    module: Any = notes.module
    is_gru = isinstance(module, nn.GRU)
    weight = notes.value(f"weight_hh_{suffix}").T
    names = tuple(f"bias_{kind}_{suffix}" for kind in ("ih", "hh")) if module.bias else ()
    biases = [notes.value(name) for name in names]
    early = None if not names else biases[0] if is_gru else biases[0] + biases[1]
    gates = F.linear(x, notes.value(f"weight_ih_{suffix}"), early)
    edge = notes.mark(gates, x)
    states, resets, state = [first[0]], [], first
    for gate in gates.unbind(0):
        if isinstance(module, nn.LSTM):
            state = _lstm(torch.addmm(gate, state[0], weight), state[1])
        elif is_gru:
            late = biases[1] if names else gate.new_zeros(gate.shape[1])
            state, reset = _gru(gate, torch.addmm(late, state[0], weight), state[0])
            resets.append(reset.detach())
        else:
            total = torch.addmm(gate, state[0], weight)
            state = (torch.relu(total) if module.nonlinearity == "relu" else torch.tanh(total),)
        states.append(state[0])
    outputs = torch.stack(states[1:])
    before = torch.cat((states[0].detach()[None].to(outputs.dtype), outputs.detach()[:-1]))
    reset_gates = torch.stack(resets) if is_gru else None

    def late_slope(g: Tensor) -> Tensor:
        if reset_gates is not None:
            r, z, n = g.chunk(3, -1)
            g = torch.cat((r, z, n * reset_gates), -1)
        return g.transpose(0, 1)

    # In an LSTM both biases are added to the same sum; in a GRU the second one is reset too.
    shared = [((name, WHOLE),) for name in names] if names else [(), ()]
    notes.uses += [
        Use(
            (f"weight_ih_{suffix}", WHOLE),
            shared[0],
            x.detach().transpose(0, 1),
            edge,
            lambda g: g.transpose(0, 1),
        ),
        Use((f"weight_hh_{suffix}", WHOLE), shared[1], before.transpose(0, 1), edge, late_slope),
    ]
    return outputs, state


def _lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
    take, keep, new, show = gates.chunk(4, 1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * torch.tanh(new)
    return torch.sigmoid(show) * torch.tanh(cell), cell


def _gru(early: Tensor, late: Tensor, state: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    width = state.shape[1]
    reset, hold = torch.sigmoid(early[:, : 2 * width] + late[:, : 2 * width]).chunk(2, 1)
    new = torch.tanh(early[:, 2 * width :] + reset * late[:, 2 * width :])
    return ((1 - hold) * new + hold * state,), reset


Composite = Callable[..., Any]


def composite_for(module: nn.Module) -> Composite | str | None:
    """The recorded forward of a layer that is built of several products.

    Returns: A function of (notes, *arguments of the layer's forward), why there is none, or None
        where the layer is no such layer.
    """
    kind = type(module)
    reason: str | None = None
    run: Composite
    if isinstance(module, nn.MultiheadAttention) and kind is nn.MultiheadAttention:
        reason, run = _attention_refused(module), attend
    elif isinstance(module, nn.RNNBase) and kind in (nn.LSTM, nn.GRU, nn.RNN):
        reason, run = _recurrent_refused(module), recur
    else:
        return None
    names = {name for name, _ in module.named_parameters()}
    if any(name.startswith("parametrizations") or ".parametrizations" in name for name in names):
        reason = f"{kind.__name__} has a weight that is computed from other parameters"
    return reason or run
