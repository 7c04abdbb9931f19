"""Extraction: with what probability a model continues the beginning of a text with its rest.

Hayes et al. 2024 ("Measuring memorization through probabilistic discoverable extraction"): a suffix
is (n, p)-discoverable if n samples from the prefix hold it with probability at least p. Under top-k
sampling at temperature 1 one sample does so with the product of the tokens' renormalised
probabilities, which one forward pass gives: nothing is sampled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import require
from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.intervals import clustered_share
from lethe.evidence.twoway import Spread, mean_spread
from lethe.membership.language.models import LanguageModel, quiet
from lethe.membership.language.tokens import TokenScores

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
PATTERNS: Mapping[str, str] = {
    "e-mail": r"[\w.+-]+@[\w-]+\.[\w.-]*\w",
    "card or account": r"(?<!\w)(?:\d[ -]?){15}\d(?!\w)|(?<!\w)[A-Z]{2}\d{2}(?: ?\w{4}){3,7}(?!\w)",
    "id number": r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])",
    "phone": r"(?<![\w-])\+?\(?\d{2,4}\)?[ .-]\d{3,4}[ .-]?\d{3,4}(?![\w-])",
}


@dataclass(frozen=True)
class Suffix:
    """How one model continues one text.

    Attributes:
        logprob: of the suffix in one top-k sample; -inf where a token is outside of the top k.
        greedy: whether taking the likeliest token every time gives the suffix.
    """

    logprob: float
    greedy: bool


def suffix_of(scores: TokenScores, prefix: int, suffix: int) -> Suffix | None:
    """What is said of tokens `prefix` to `prefix + suffix`; None where the text is shorter.

    >>> known = np.log(np.array([0.5, 0.5, 0.25], np.float32))
    >>> zero = np.zeros(3, np.float32)
    >>> tokens = TokenScores.known(known, rank=zero, top_mass=zero)
    >>> round(float(np.exp(suffix_of(tokens, 2, 2).logprob)), 3)
    0.125
    """
    # The first token has no score: token t stands at t - 1.
    if len(scores) < prefix + suffix - 1:
        return None
    part = scores.cut(prefix - 1, prefix + suffix - 1)
    if np.isnan(part.rank).any() or np.isnan(part.top_mass).any():
        return None
    return Suffix(float(part.sampled.sum(dtype=np.float64)), bool((part.rank == 0).all()))


def discoverable(logprob: Float, n: int, p: float) -> Bool:
    """Whether n samples hold the suffix with probability >= p (Hayes et al. 2024, eq. 2).

    Args:
        logprob: of the suffix in one sample, any shape.
        n: samples, >= 1.
        p: in (0, 1).

    >>> discoverable(np.log([0.5, 0.1]), 2, 0.5).tolist()
    [True, False]
    """
    # 1 - (1 - q)^n >= p, as a limit on q that is exact for tiny ones.
    return np.asarray(logprob >= math.log(-math.expm1(math.log1p(-p) / n)), np.bool_)


def clustered(values: Float | Bool, people: NDArray[np.intp]) -> Spread:
    """The spread of a mean over texts of one model, clustered by person."""
    return mean_spread(np.asarray(values, np.float64)[None], np.zeros(1, np.intp), people)


def share_of(flag: Bool, people: NDArray[np.intp], confidence: float) -> Measured:
    """Share of texts, with limits clustered by person; exact where each has one text."""
    if not len(flag):
        return Refusal("no text of this kind is long enough")
    share = float(flag.mean())
    spread, clusters = clustered(flag, people), len(np.unique(people))
    variance = 0.0 if clusters < 2 else spread.variance
    method = "Clopper-Pearson" if clusters == len(flag) else "Korn-Graubard, clustered by person"
    if clusters == len(flag) and 0 < share < 1:
        variance = share * (1 - share) / len(flag)
    sizes = len(flag), clusters
    return clustered_share(share, variance, spread.degrees, *sizes, confidence, method)


def spans_of(text: str, declared: Sequence[str] = ()) -> list[tuple[str, int, int]]:
    """Personal patterns in a text: kind, first and last character (exclusive).

    Args:
        declared: words or numbers that are personal, such as names; found as they are written.

    >>> spans_of("call 555-123-4567 or ann@mail.org")
    [('phone', 5, 17), ('e-mail', 21, 33)]
    """
    found: list[tuple[str, int, int]] = []
    kinds: Iterable[tuple[str, str]] = [
        *(("declared", re.escape(one)) for one in declared if one),
        *PATTERNS.items(),
    ]
    for kind, pattern in kinds:
        for match in re.finditer(pattern, text):
            start, stop = match.span()
            if all(stop <= low or start >= high for _, low, high in found):
                found.append((kind, start, stop))
    return sorted(found, key=lambda one: one[1])


def token_offsets(model: LanguageModel, text: str) -> list[tuple[int, int]]:
    """First and last character (exclusive) of each token; empty where the tokenizer lacks them."""
    try:
        with quiet():
            encoded = model.tokenizer(
                text, truncation=True, max_length=model.context, return_offsets_mapping=True
            )
    except NotImplementedError:
        return []
    return [(int(low), int(high)) for low, high in encoded["offset_mapping"]]


def token_spans(
    model: LanguageModel, text: str, spans: Sequence[tuple[str, int, int]]
) -> list[tuple[str, int, int]]:
    """The same spans in tokens; empty where the tokenizer does not say which characters are which.

    A span that begins with the first token has no context and is left out, as is one that was cut.
    """
    ends = token_offsets(model, text)
    found = []
    for kind, start, stop in spans:
        inside = [at for at, (low, high) in enumerate(ends) if low < stop and high > start]
        if inside and inside[0] > 0 and ends[inside[-1]][1] >= stop:
            found.append((kind, inside[0], inside[-1] + 1))
    return found


def continued(
    model: LanguageModel, ids: Sequence[NDArray[np.int32]], prefix: int, suffix: int
) -> list[NDArray[np.int32]]:
    """The greedy continuation of each text's first tokens, as many as the suffix has."""
    torch = require("torch", "train")
    out: list[NDArray[np.int32]] = []
    with torch.inference_mode(), quiet():
        for start in range(0, len(ids), 64):
            begun = np.stack([one[:prefix] for one in ids[start : start + 64]]).astype(np.int64)
            given = torch.from_numpy(begun).to(model.device)
            made = model.module.generate(
                input_ids=given,
                attention_mask=torch.ones_like(given),
                do_sample=False,
                max_new_tokens=suffix,
                min_new_tokens=suffix,
                pad_token_id=0,
            )
            out += list(made[:, prefix:].cpu().numpy().astype(np.int32))
    return out


def edits(first: NDArray[Any], second: NDArray[Any]) -> int:
    """Levenshtein distance of two sequences.

    >>> edits(np.array([1, 2, 3]), np.array([1, 3, 4]))
    2
    """
    row = np.arange(len(second) + 1)
    places = np.arange(len(second) + 1)
    for at, one in enumerate(first, 1):
        change = np.minimum(row[:-1] + (second != one), row[1:] + 1)
        fresh = np.concatenate([[at], change])
        # Insertions: each place at most one more than the place before it.
        row = np.minimum.accumulate(fresh - places) + places
    return int(row[-1])
