"""nn.LSTM, nn.GRU and nn.RNN as products that book-keeping can note.

The gates add a product with the inputs and one with the previous states, so that the gradient at
the first is the gradient at the second (in a GRU, times the reset gate for the new state): one
noted tensor (T, B, gates) a layer and direction gives the gradients of all four parameters.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lethe.mitigations.clipping.composites import Notes, Use

WHOLE = slice(None)


def refused(module: nn.RNNBase) -> str | None:
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

    Returns:
        Outputs and last states, or why this call is not covered.
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
    given = hx if isinstance(hx, tuple) else (hx,)
    return list(zip(*(part.unbind(0) for part in given), strict=True))


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
    made = torch.stack(states[1:])
    before = torch.cat((states[0].detach()[None].to(made.dtype), made.detach()[:-1]))
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
    return made, state


def _lstm(gates: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
    take, keep, new, show = gates.chunk(4, 1)
    cell = torch.sigmoid(keep) * cell + torch.sigmoid(take) * torch.tanh(new)
    return torch.sigmoid(show) * torch.tanh(cell), cell


def _gru(early: Tensor, late: Tensor, state: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
    width = state.shape[1]
    reset, hold = torch.sigmoid(early[:, : 2 * width] + late[:, : 2 * width]).chunk(2, 1)
    new = torch.tanh(early[:, 2 * width :] + reset * late[:, 2 * width :])
    return ((1 - hold) * new + hold * state,), reset
