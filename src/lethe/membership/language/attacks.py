"""Membership attacks on token log-probabilities that train no model: one number a text.

Each is a pure function of what the fine-tuned model and its base say of the tokens of one text;
higher = member. The learned combination weighs them, fitted on other people's texts.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.membership.blind import BlindCheck, People, by_column, told_by
from lethe.membership.language.tokens import TokenScores

Float = NDArray[np.float64]
WORDS = 1000


def blind_check(
    texts: Sequence[str],
    people: People,
    dates: NDArray[np.datetime64] | None = None,
    known: Sequence[Float] = (),
    *,
    fprs: Sequence[float] = (0.01,),
    confidence: float = 0.95,
    seed: int = 0,
) -> BlindCheck:
    """Try to tell members from their texts, lengths, dates and the base model's scores.

    Args:
        dates: (N,) of each text; NaT where unknown.
        known: (N,) scores that need no fine-tuned model, such as the base model's.

    Returns: As `told_by`, of words and of all else.
    """
    views = {"words": word_table(texts), "length, date and base model": _plain(texts, dates, known)}
    return told_by(views, people, fprs=fprs, confidence=confidence, seed=seed)


def word_table(texts: Sequence[str], most: int = WORDS) -> Float:
    """(N, words) presence of the commonest words, divided by the root of the text's words."""
    split = [set(_words(text)) for text in texts]
    counts = Counter(word for one in split for word in one)
    common = sorted(counts, key=lambda word: (-counts[word], word))
    kept = {word: at for at, word in enumerate(common[:most])}
    table = np.zeros((len(texts), max(1, len(kept))), np.float32)
    for row, one in enumerate(split):
        places = [kept[word] for word in one if word in kept]
        table[row, places] = 1 / np.sqrt(max(1, len(one)))
    return np.asarray(table, np.float64)


def _words(text: str) -> list[str]:
    shaped = "".join(c if c.isalnum() else " " for c in text.lower())
    # Numbers by their length: years and amounts differ, their kind does not hide it.
    return [
        word if not word.isdigit() or len(word) == 4 else f"#{len(word)}" for word in shaped.split()
    ]


def _plain(
    texts: Sequence[str], dates: NDArray[np.datetime64] | None, known: Sequence[Float]
) -> Float:
    numbers = [np.array([len(text) for text in texts], np.float64)]
    numbers.append(np.array([len(text.split()) for text in texts], np.float64))
    numbers += [np.asarray(one, np.float64) for one in known]
    if dates is not None:
        days = dates.astype("datetime64[D]").astype(np.float64)
        days[np.isnat(dates)] = np.nan
        numbers.append(np.where(np.isnan(days), np.nanmedian(days), days))
    return by_column(numbers)


SHARE = 0.2
"""Of the tokens that Min-K% looks at: 20 %, as in both papers."""
WINDOWS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
"""Window sizes of WBC in tokens, those of its authors' code (github.com/Stry233/WBC)."""
COMBINED = "combined"


@dataclass(frozen=True)
class TextAttack:
    """One attack: what it is, from which paper, and what it needs to see.

    Attributes:
        score: of (model, base, text), higher = member; base is None where `base` is False.
        base: whether it compares with the base model.
        fields: of `TokenScores` that it reads.
        default: whether an audit runs it. The others have decided no audit of the benchmarks and
            would only widen the limits of those that do; they are called by name from `ATTACKS`.
    """

    name: str
    title: str
    paper: str
    threat: str
    score: Callable[[TokenScores, TokenScores | None, str], float]
    base: bool = False
    fields: tuple[str, ...] = ("logprob",)
    default: bool = True


def loss(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Mean log-probability of the tokens (Yeom et al. 2018).

    >>> from lethe.membership.language.tokens import TokenScores
    >>> tokens = np.log(np.array([0.5, 0.125], np.float32))
    >>> round(loss(TokenScores.known(tokens), None, ""), 3)
    -1.386
    """
    return float(np.mean(model.logprob, dtype=np.float64))


def ratio(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Mean log-probability gained over the base model (Carlini et al. 2021; Mireshghallah 2022)."""
    assert base is not None
    return float(np.mean(np.float64(model.logprob) - base.logprob))


def compressed(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Minus the mean loss over the bytes of the zlib-compressed text (Carlini et al. 2021)."""
    return loss(model, base, text) / len(zlib.compress(text.encode("utf-8", "replace")))


def min_k(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Mean log-probability of the 20 % least likely tokens, at least one (Shi et al. 2024)."""
    return _lowest(model.logprob.astype(np.float64))


def min_k_plus(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Min-K%++: the same of (log p - mean)/deviation over the vocabulary (Zhang et al. 2024)."""
    spread = np.maximum(np.float64(model.deviation), 1e-6)
    return _lowest((np.float64(model.logprob) - model.mean) / spread)


def error_zone(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """P/(P + N): rises and falls against the base where the model's best guess is wrong.

    Ilic, Stanojevic and Cvejoski 2026 (arXiv:2601.12104) take P/N, of the same order. Where no
    guess is wrong the score is 1, the strongest sign; where nothing moved, 1/2.
    """
    assert base is not None
    moved = (np.float64(model.logprob) - base.logprob)[model.rank > 0]
    if not len(moved):
        return 1.0
    up, down = float(moved[moved > 0].sum()), float(-moved[moved < 0].sum())
    return up / (up + down) if up + down > 0 else 0.5


def window_votes(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """WBC: share of sliding windows in which the model is likelier than the base, in [0, 1].

    Chen et al. 2026 (arXiv:2601.02751): each window casts one vote, whatever the size of its gain,
    and the shares of all window sizes are averaged. So a few tokens with huge changes, which decide
    a mean, have few votes. A window in which nothing differs casts half a vote. A text shorter than
    a window size has no vote of that size (the authors give it one); one shorter than all has one.

    >>> from lethe.membership.language.tokens import TokenScores
    >>> gain = np.array([1, 1, -3, 1], np.float32)
    >>> model, base = TokenScores.known(gain - 5), TokenScores.known(0 * gain - 5)
    >>> round(window_votes(model, base, ""), 3)  # 1 of 3 pairs, no triple, half of all four
    0.278
    """
    assert base is not None
    total = np.cumsum(np.append(0.0, np.float64(model.logprob) - base.logprob))
    sizes = [size for size in WINDOWS if size < len(total)] or [len(total) - 1]
    # A sum of equal terms is not exactly 0 in floating point: below 1e-9 nothing differs.
    sums, count = (total[size:] - total[:-size] for size in sizes), np.count_nonzero
    votes = [(count(gain >= 1e-9) + count(gain > -1e-9)) / (2 * len(gain)) for gain in sums]
    return float(np.mean(votes))


def least_gains(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Mean of the 20 % smallest gains over the base: of a text trained on, every token may gain."""
    assert base is not None
    return _lowest(np.float64(model.logprob) - base.logprob)


def largest_gain(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Largest gain of a token over the base: one name or number of a long text that was kept."""
    assert base is not None
    return float(np.max(np.float64(model.logprob) - base.logprob))


def information(model: TokenScores, base: TokenScores) -> Float:
    """(T,) InfoRMIA of each token in nats: what the model learnt of it beyond any other token.

    Tao and Shokri 2025 (arXiv:2510.05582): the log-likelihood ratio of model and base, less its
    mean over the population, which for a token is the whole vocabulary in the place of the token,
    weighted by the base: log p(x) - log q(x) + KL(q || p). Higher = memorised.
    """
    gain = np.float64(model.logprob) - base.logprob
    return np.asarray(gain + np.float64(model.divergence))


def token_information(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """InfoRMIA of a text: the mean of its tokens' (see `information`)."""
    assert base is not None
    return float(np.mean(information(model, base)))


def _lowest(values: Float) -> float:
    count = max(1, int(SHARE * len(values)))
    return float(np.partition(values, count - 1)[:count].mean())


_SCORES = "log-probabilities of a text's tokens"
_BASE = f"{_SCORES}, and the base model"
ATTACKS: Mapping[str, TextAttack] = {
    one.name: one
    for one in (
        TextAttack("loss", "Loss", "Yeom et al. 2018", _SCORES, loss),
        TextAttack("ratio", "Ratio to the base model", "Carlini et al. 2021", _BASE, ratio, True),
        TextAttack("zlib", "Loss over zlib bytes", "Carlini et al. 2021", _SCORES, compressed),
        TextAttack("min-k", "Min-K%", "Shi et al. 2024", _SCORES, min_k, default=False),
        TextAttack(
            "min-k++",
            "Min-K%++",
            "Zhang et al. 2024",
            "the whole distribution of each token",
            min_k_plus,
            fields=("logprob", "mean", "deviation"),
        ),
        TextAttack(
            "error-zone",
            "Error zone (EZ-MIA)",
            "Ilic et al. 2026, arXiv:2601.12104",
            f"{_BASE}; whether the text's token is the likeliest",
            error_zone,
            True,
            ("logprob", "rank"),
        ),
        TextAttack("wbc", "Window votes (WBC)", "Chen et al. 2026", _BASE, window_votes, True),
        TextAttack(
            "informia",
            "Token information (InfoRMIA)",
            "Tao and Shokri 2025",
            f"{_BASE}; the whole distribution of each token under both",
            token_information,
            True,
            ("logprob", "divergence"),
        ),
        TextAttack("least-gains", "Least gains", "-", _BASE, least_gains, True),
        TextAttack("largest-gain", "Largest gain of a token", "-", _BASE, largest_gain, True),
    )
}
DEFAULT = tuple(name for name, attack in ATTACKS.items() if attack.default)
"""Attacks that an audit runs, where their inputs are known."""


def missing_field(attack: TextAttack, scores: TokenScores, base: bool) -> str:
    """Why an attack cannot be run; empty if it can."""
    if attack.base and not base:
        return "no base model was given (--base)"
    lacking = [name for name in attack.fields if np.isnan(getattr(scores, name)).any()]
    return f"the log-probabilities come without {', '.join(lacking)}" if lacking else ""


def by_person(score: Float, people: NDArray[np.intp]) -> Float:
    """(P,) evidence of all texts of each person: standardised scores summed, over sqrt(texts).

    Standardised over all texts, members or not; a score without membership then varies alike for
    persons of few and of many texts.
    """
    spread = float(score.std())
    known = (score - score.mean()) / (spread if spread > 0 else 1.0)
    count = np.bincount(people)
    return np.asarray(np.bincount(people, known) / np.sqrt(count))
