"""nn.MultiheadAttention as products that book-keeping can note: q, k, v and the output."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lethe.mitigations.clipping.composites import Notes

WHOLE = slice(None)


def refused(module: nn.MultiheadAttention) -> str | None:
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
        average_attn_weights: return the mean over heads.
        is_causal: a hint, which needs `attn_mask` and adds nothing to it.

    Returns:
        Output and weights, or why this call is not covered.
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
    made = []
    for number, (name, x) in enumerate((("q", query), ("k", key), ("v", value))):
        own = slice(number * width, (number + 1) * width)
        packed = module.in_proj_weight is not None
        weight, part = ("in_proj_weight", own) if packed else (f"{name}_proj_weight", WHOLE)
        made.append(_heads(notes.linear(x, weight, bias, part, own), module.num_heads))
    return made


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
