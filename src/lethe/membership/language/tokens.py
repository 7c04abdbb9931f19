"""Log-probabilities of every token of every text, computed once, kept by content, or handed in.

Texts are taken in order of length, so that a batch is hardly padded; a batch holds so many tokens
that its logits fit a fixed memory. A chunk of texts is one file of the run folder, named by what it
was computed from: an interrupted audit goes on with the next chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from lethe.data.columns import as_text
from lethe.errors import InputError, require
from lethe.files import write_for_owner
from lethe.membership.language.models import LanguageModel
from lethe.training.fingerprint import digest

Float = NDArray[np.float32]
TOP_K = 40
"""Of sampling, in Hayes et al. 2024: the suffix is drawn from the 40 likeliest tokens."""
_CHUNK = 1 << 16  # tokens a file
_LOGITS = {"cpu": 1 << 22, "cuda": 1 << 26}
"""Numbers of logits a batch: on a processor 16 MiB, which its cache still helps; else 256 MiB."""
_FIELDS = ("logprob", "mean", "deviation", "rank", "top_mass", "divergence")


@dataclass(frozen=True, eq=False)
class TokenScores:
    """What a model says of the tokens of one text; the first token has no context and no score.

    Attributes:
        logprob: (T,) log-probability of each token after the first, <= 0.
        mean: (T,) mean of the log-probability over the vocabulary, under the model; NaN if unknown.
        deviation: (T,) its standard deviation, likewise.
        rank: (T,) tokens that are likelier, 0 for the likeliest; NaN if unknown.
        top_mass: (T,) log of the probability of the `TOP_K` likeliest; NaN if unknown.
        divergence: (T,) Kullback-Leibler divergence of this distribution from the base model's, in
            nats, >= 0, weighted by the base's; NaN if unknown, as it is where no base was read.
    """

    logprob: Float
    mean: Float
    deviation: Float
    rank: Float
    top_mass: Float
    divergence: Float

    @classmethod
    def known(cls, logprob: Float, **fields: Float) -> TokenScores:
        """Scores of which only some fields are known; the others are NaN."""
        nothing = np.full(len(logprob), np.nan, np.float32)
        return cls(logprob, *(fields.get(name, nothing) for name in _FIELDS[1:]))

    def __len__(self) -> int:
        """Number of scored tokens."""
        return len(self.logprob)

    @property
    def sampled(self) -> Float:
        """(T,) log-probability of each token under top-k sampling; -inf outside of the top k."""
        inside = self.rank < TOP_K
        return np.where(inside, self.logprob - self.top_mass, -np.inf).astype(np.float32)

    def cut(self, start: int, stop: int) -> TokenScores:
        """The scored tokens from `start` to before `stop`."""
        return TokenScores(*(getattr(self, name)[start:stop] for name in _FIELDS))


def scored_together(
    models: Sequence[LanguageModel],
    ids: Sequence[NDArray[np.int32]],
    folder: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[int, list[TokenScores]]]:
    """Place of every text and what each model says of it, chunk by chunk.

    Memory does not grow with the number of texts. Of a model and its base in one pass the model's
    `divergence` is known.

    Args:
        ids: token numbers of each text; those with fewer than 2 have no scores and are left out.
        folder: where chunks are kept, read back where one of equal content is there; files are
            readable by their owner alone.
        progress: told (tokens done, tokens).
    """
    chunks = _chunks([len(one) for one in ids])
    total = sum(len(ids[at]) for chunk in chunks for at in chunk)
    done = 0
    for chunk in chunks:
        own = [ids[at] for at in chunk]
        yield from zip(chunk, _kept(models, own, folder), strict=True)
        done += sum(map(len, own))
        if progress is not None:
            progress(done, total)


def _chunks(lengths: Sequence[int]) -> list[list[int]]:
    """Places of texts with at least 2 tokens, by length, in groups of about `_CHUNK` tokens."""
    order = [int(at) for at in np.argsort(lengths, kind="stable") if lengths[at] >= 2]
    chunks: list[list[int]] = []
    held = _CHUNK
    for at in order:
        if held + lengths[at] > _CHUNK:
            chunks.append([])
            held = 0
        chunks[-1].append(at)
        held += lengths[at]
    return chunks


def _kept(
    models: Sequence[LanguageModel], ids: Sequence[NDArray[np.int32]], folder: Path | None
) -> list[list[TokenScores]]:
    """Scores of each text by each model, computed or read back."""
    if folder is None:
        return _split(_computed(models, ids), ids)
    content = [model.content for model in models]
    name = digest("tokens/2", *content, *(one.tobytes() for one in ids))
    path = folder / f"{name[:32]}.safetensors"
    shape = (len(models), len(_FIELDS), sum(len(one) - 1 for one in ids))
    if path.is_file():
        try:
            table = load(path.read_bytes())["scores"]
            if table.shape == shape:
                return _split(table, ids)
        except (OSError, SafetensorError, ValueError, KeyError):
            pass  # a damaged file is computed again
    table = _computed(models, ids)
    write_for_owner(path, save({"scores": table}))
    return _split(table, ids)


def _split(table: Float, ids: Sequence[NDArray[np.int32]]) -> list[list[TokenScores]]:
    """From (models, fields, tokens) to the scores of each text by each model."""
    ends = np.cumsum([len(one) - 1 for one in ids])
    parts = np.split(table, ends[:-1], axis=2)
    return [[TokenScores(*fields) for fields in part] for part in parts]


def _computed(models: Sequence[LanguageModel], ids: Sequence[NDArray[np.int32]]) -> Float:
    """(models, fields, tokens) of texts in order; the last model is the base of the others."""
    budget = max(1, _LOGITS.get(models[0].device.type, 1 << 24) // models[0].vocabulary)
    parts: list[Float] = []
    start = 0
    while start < len(ids):
        stop, longest = start, 0
        while stop < len(ids):
            longest = max(longest, len(ids[stop]))
            if stop > start and longest * (stop + 1 - start) > budget:
                break
            stop += 1
        parts.append(_batch(models, ids[start:stop]))
        start = stop
    return np.concatenate(parts, axis=2)


def _batch(models: Sequence[LanguageModel], ids: Sequence[NDArray[np.int32]]) -> Float:
    torch = require("torch", "train")
    longest = max(map(len, ids))
    padded = np.zeros((len(ids), longest), np.int64)
    mask = np.zeros((len(ids), longest), np.int64)
    for row, one in enumerate(ids):
        padded[row, : len(one)], mask[row, : len(one)] = one, 1
    out, before = [], None
    with torch.inference_mode():
        # The base first: its distributions are what the model's diverge from.
        for model in reversed(models):
            tensors = {"input_ids": torch.from_numpy(padded).to(model.device)}
            if not mask.all():  # it would cost a slower attention
                tensors["attention_mask"] = torch.from_numpy(mask).to(model.device)
            logits = model.module(**tensors, use_cache=False).logits
            kept = tensors["input_ids"][:, 1:]
            flat = torch.from_numpy(mask[:, 1:].astype(bool)).to(model.device)
            columns, before = _statistics(torch, logits[:, :-1][flat].float(), kept[flat], before)
            out.append(columns)
    return np.stack(out[::-1])


def _statistics(torch: Any, logits: Any, truth: Any, base: Any) -> tuple[Float, Any]:
    """(fields, tokens) from logits (tokens, vocabulary), and what the next model is compared with.

    Args:
        base: log-probabilities of the base (overwritten) and their means; None for the base itself.
    """
    whole = logits.logsumexp(1)
    own = logits.gather(1, truth[:, None])
    rank = (logits > own).sum(1)
    top = logits.topk(min(TOP_K, logits.shape[1]), dim=1, sorted=False).values.logsumexp(1)
    logits -= whole[:, None]  # log-probabilities, in place: these tables are most of the memory
    share = logits.exp()
    mean = torch.einsum("tv,tv->t", share, logits)
    square = torch.einsum("tv,tv->t", share.mul_(logits), logits)
    deviation = (square - mean * mean).clamp_min(0).sqrt()
    divergence = torch.full_like(mean, float("nan"))
    if base is not None:
        theirs, entropy = base
        # KL(q || p) = E_q log q - E_q log p; tables of tokens may be padded to different sizes.
        wide = min(theirs.shape[1], logits.shape[1])
        cross = torch.einsum("tv,tv->t", theirs[:, :wide].exp_(), logits[:, :wide])
        divergence = (entropy - cross).clamp_min(0)
    columns = (own[:, 0] - whole, mean, deviation, rank, top - whole, divergence)
    return np.stack([one.cpu().float().numpy() for one in columns]), (logits, mean)


def read_scores(columns: Mapping[str, NDArray[Any]], names: Sequence[str]) -> list[TokenScores]:
    """Log-probabilities from another engine, one row a token.

    Args:
        columns: ``text`` (id), ``position`` (order within the text; the first token has none),
            ``logprob`` (<= 0), and perhaps ``mean``, ``deviation``, ``rank``, ``top_mass``.
        names: ids of the texts, in order.

    Raises InputError: a column is missing, a log-probability is above 0 or NaN, a text has no row,
        or a position is no number or stands twice.
    """
    for name in ("text", "position", "logprob"):
        if name not in columns:
            raise InputError(
                f"the file of log-probabilities lacks the column {name!r}; it needs text, position "
                "and logprob."
            )
    logprob = np.asarray(columns["logprob"], np.float64)
    if not (logprob <= 1e-6).all():
        raise InputError("a logprob is above 0 or NaN: natural logarithms of probabilities go in.")
    position = np.asarray(columns["position"])
    if position.dtype.kind not in "iuf" or np.isnan(position).any():
        raise InputError("position must be numbers, one each row: as text, 10 would come before 2.")
    places = {name: at for at, name in enumerate(names)}
    owner = np.array([places.get(str(one), -1) for one in as_text(columns["text"])])
    order = np.lexsort((position, owner))
    order = order[owner[order] >= 0]
    who = owner[order]
    where = position[order]
    if ((who[1:] == who[:-1]) & (where[1:] == where[:-1])).any():
        raise InputError("a position stands twice in a text; give one row a token.")
    missing = np.setdiff1d(np.arange(len(names)), who)
    if len(missing):
        raise InputError(
            f"{len(missing)} texts have no log-probability, {names[int(missing[0])]!r} first: "
            "score every text of the table."
        )
    ends = np.searchsorted(who, np.arange(1, len(names)))
    table = {}
    for name in _FIELDS:
        values = np.asarray(columns.get(name, np.full(len(logprob), np.nan)), np.float32)[order]
        table[name] = np.split(np.minimum(values, 0.0) if name == "logprob" else values, ends)
    return [TokenScores(*parts) for parts in zip(*table.values(), strict=True)]
