"""The blind classifier: what texts alone say of who was trained on, without the model.

Das, Zhang and Tramer 2024 ("Blind Baselines Beat Membership Inference Attacks for Foundation
Models") and Meeus et al. 2024 ("SoK: Membership Inference Attacks on LLMs are Rushing Nowhere"):
where words, length or dates tell members from non-members, an attack on the model may read nothing
else, and its success is no memory of the model. So this is measured first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Measured
from lethe.membership.language.attacks import crossfit, folds_of, midranks
from lethe.membership.language.rates import People

Float = NDArray[np.float64]
WORDS = 1000
PERMUTATIONS = 199
LEVEL = 0.01
"""At which the blind classifier is taken to tell members; a random hold-out is so once in 100."""


@dataclass(frozen=True)
class BlindCheck:
    """What a classifier finds that never asks the fine-tuned model.

    Attributes:
        tells: whether it tells members from non-members: no membership result stands then.
        p_value: of its AUC among permutations of who is a member.
        score: (N,) cross-fitted, higher = member.
        by: ``words`` or ``length, date and base model``: the stronger of both.
    """

    tells: bool
    p_value: float
    auc: Estimate
    score: Float
    by: str
    tpr: dict[float, Measured]


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

    Two cross-fitted linear classifiers (words; all else) with folds that share no person. The
    larger of their AUCs is compared with what it is when membership is permuted among people.

    Args:
        dates: (N,) of each text; NaT where unknown.
        known: (N,) scores that need no fine-tuned model, such as the base model's.

    Guarantee: On a random hold-out it tells with probability at most `LEVEL`, exactly: true and
        permuted labels are equally likely given the folds.
    Assumes: People are exchangeable, each with texts of one kind.
    """
    member = people.member
    fold = folds_of(member, people.codes, seed)
    true = member[:, None].astype(np.float64)
    labels = np.hstack([true, people.permuted(PERMUTATIONS, seed, fold)])
    views = {"words": word_table(texts), "length, date and base model": _plain(texts, dates, known)}
    scores = {name: crossfit(table, labels, fold, 0.3) for name, table in views.items()}
    areas = {
        name: np.array([_auc(score[:, at], labels[:, at] > 0) for at in range(labels.shape[1])])
        for name, score in scores.items()
    }
    # Each view on a scale of its own, so that a wide one drowns no narrow one; the true labels
    # count in it as the permuted ones do, or they would be an exception by themselves.
    scaled = {name: (area - area.mean()) / max(area.std(), 1e-12) for name, area in areas.items()}
    best = np.max(list(scaled.values()), axis=0)
    p = float((best[1:] >= best[0]).sum() + 1) / len(best)
    by = max(areas, key=lambda name: (areas[name][0] - 0.5) / max(areas[name][1:].std(), 1e-12))
    score = scores[by][:, 0]
    floor = (float(((areas[by][1:] - 0.5) ** 2).mean()),)
    rates = people.rates(score, fprs, confidence, floor)
    return BlindCheck(p <= LEVEL, p, rates.auc, score, by, rates.tpr)


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
    columns = []
    for one in numbers:
        columns.append(midranks(one))
        # Groups of neighbours: members need not lie at one end.
        edges = np.quantile(one, np.arange(1, 10) / 10)
        group = np.searchsorted(np.unique(edges), one, "right")
        columns += [(group == at).astype(np.float64) for at in range(int(group.max()) + 1)]
    return np.stack(columns, 1)


def _auc(score: Float, member: NDArray[np.bool_]) -> float:
    rank = midranks(score) * len(score) + 0.5
    inside = int(member.sum())
    outside = len(score) - inside
    if not inside or not outside:
        return 0.5
    return float((rank[member].sum() - inside * (inside + 1) / 2) / (inside * outside))
