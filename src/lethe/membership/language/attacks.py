"""Membership attacks on token log-probabilities that train no model: one number a text.

Each is a pure function of what the fine-tuned model and its base say of the tokens of one text;
higher = member. The learned combination weighs them, fitted on other people's texts.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.membership.language.tokens import TokenScores

Float = NDArray[np.float64]
SHARE = 0.2
"""Of the tokens that Min-K% looks at: 20 %, as in both papers."""
COMBINED = "combined"


@dataclass(frozen=True)
class TextAttack:
    """One attack: what it is, from which paper, and what it needs to see.

    Attributes:
        score: of (model, base, text), higher = member; base is None where `base` is False.
        base: whether it compares with the base model.
        fields: of `TokenScores` that it reads.
    """

    name: str
    title: str
    paper: str
    threat: str
    score: Callable[[TokenScores, TokenScores | None, str], float]
    base: bool = False
    fields: tuple[str, ...] = ("logprob",)


def loss(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Mean log-probability of the tokens (Yeom et al. 2018).

    >>> from lethe.membership.language.tokens import TokenScores
    >>> tokens = np.log(np.array([0.5, 0.125], np.float32))
    >>> unknown = np.full(2, np.nan, np.float32)
    >>> round(loss(TokenScores(tokens, unknown, unknown, unknown, unknown), None, ""), 3)
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
        TextAttack("min-k", "Min-K%", "Shi et al. 2024", _SCORES, min_k),
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
    )
}


def missing_field(attack: TextAttack, scores: TokenScores, base: bool) -> str:
    """Why an attack cannot be run; empty if it can."""
    if attack.base and not base:
        return "no base model was given (--base)"
    lacking = [name for name in attack.fields if np.isnan(getattr(scores, name)).any()]
    return f"the log-probabilities come without {', '.join(lacking)}" if lacking else ""


def folds_of(member: NDArray[np.bool_], people: NDArray[np.intp], seed: int) -> NDArray[np.intp]:
    """(N,) one of five folds a text; a person is in one fold, members spread evenly.

    Raises InputError: fewer than 5 members or non-members.
    """
    names, first = np.unique(people, return_index=True)
    inside = member[first]
    if min(int(inside.sum()), int((~inside).sum())) < FOLDS:
        raise InputError(
            f"{int(inside.sum())} people with trained and {int((~inside).sum())} with other texts "
            f"are too few; give at least {FOLDS} of each."
        )
    rng = np.random.default_rng([seed, 11])
    fold = np.empty(len(names), np.intp)
    for side in (inside, ~inside):
        fold[side] = rng.permutation(int(side.sum())) % FOLDS
    return fold[np.searchsorted(names, people)]


FOLDS = 5


def crossfit(
    features: Float,
    labels: Float,
    fold: NDArray[np.intp],
    shrink: float = 0.05,
) -> Float:
    """(N, P) scores of each text by weights that its own fold had no part in.

    Least squares on labels of mean 0 in each training part (Fisher's discriminant, with a ridge of
    `shrink` times the variance), without an intercept: folds share one scale. All columns of labels
    are fitted at once, so that hundreds of permutations cost what one does.

    Args:
        features: (N, D).
        labels: (N, P) 0 or 1, one column a labelling.
        fold: (N,) as of `folds_of`.
    """
    centre, spread = features.mean(0), features.std(0)
    x = (features - centre) / np.where(spread > 1e-12, spread, 1.0)
    out = np.empty(labels.shape)
    for at in np.unique(fold):
        train, test = fold != at, fold == at
        own, marks = x[train], labels[train]
        size = marks.sum(0)
        rest = len(marks) - size
        # Balanced: each side weighs one half, whatever its size.
        scaled = marks / np.maximum(size, 1) - (1 - marks) / np.maximum(rest, 1)
        gram = own.T @ own / len(own) + shrink * np.eye(x.shape[1])
        out[test] = x[test] @ np.linalg.solve(gram, own.T @ scaled)
    return out


def by_person(score: Float, people: NDArray[np.intp]) -> Float:
    """(P,) evidence of all texts of each person: standardised scores summed, over sqrt(texts).

    Standardised over all texts, members or not; a score without membership then varies alike for
    persons of few and of many texts.
    """
    spread = float(score.std())
    known = (score - score.mean()) / (spread if spread > 0 else 1.0)
    count = np.bincount(people)
    return np.asarray(np.bincount(people, known) / np.sqrt(count))


def midranks(values: Float) -> Float:
    """(N,) place of each value among all in (0, 1); equal values have equal places.

    >>> midranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist()
    [0.75, 0.125, 0.75, 0.375]
    """
    rising = np.sort(values)
    low, high = (np.searchsorted(rising, values, side) for side in ("left", "right"))
    return np.asarray((low + high) / (2 * len(values)))
