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

from lethe.errors import InputError
from lethe.membership.language.rates import People
from lethe.membership.language.tokens import TokenScores
from lethe.membership.measure import AttackRates

# The blind classifier: what texts alone say of who was trained on, without the model.
#
# Das, Zhang and Tramer 2024 ("Blind Baselines Beat Membership Inference Attacks for Foundation
# Models") and Meeus et al. 2024 ("SoK: Membership Inference Attacks on LLMs are Rushing Nowhere"):
# where words, length or dates tell members from non-members, an attack on the model may read
# nothing else, and its success is no memory of the model. So this is measured first.

Float = NDArray[np.float64]
WORDS = 1000
PERMUTATIONS = 199
LEVEL = 0.01
"""At which the blind classifier is taken to tell members; a random hold-out is so once in 100."""
_TOLD = 0.52


@dataclass(frozen=True)
class BlindCheck:
    """What a classifier finds that never asks the fine-tuned model.

    Attributes:
        tells: whether it tells members from non-members: no membership result stands then.
        p_value: of its AUC among permutations of who is a member.
        score: (N,) cross-fitted, higher = member.
        rates: of the view that tells more, by its name: ``words`` or all else.
    """

    tells: bool
    p_value: float
    score: Float
    rates: AttackRates


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


def told_by(
    views: Mapping[str, Float],
    people: People,
    *,
    fprs: Sequence[float] = (),
    confidence: float = 0.95,
    seed: int = 0,
) -> BlindCheck:
    """Try to tell members from others by features alone, without the model.

    A cross-fitted linear classifier a view, with folds that share no person. The larger of their
    AUCs is compared with what it is when membership is permuted among people; a difference too
    small to matter (a lower limit of the AUC of at most 0.52) does not count.

    Args:
        views: (N, D) features by name.

    Guarantee: On a random hold-out it tells with probability at most `LEVEL`: true and permuted
        labels are equally likely given the folds.
    Assumes: People are exchangeable, each with records of one kind.
    """
    member = people.member
    fold = folds_of(member, people.codes, seed)
    true = member[:, None].astype(np.float64)
    labels = np.hstack([true, people.permuted(PERMUTATIONS, seed, fold)])
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
    rates = people.meter.rates(by, score, fprs, confidence, least=floor)
    tells = p <= LEVEL and (rates.auc.low or 0.0) > _TOLD
    return BlindCheck(tells, p, score, rates)


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


def by_column(numbers: Sequence[Float]) -> Float:
    """(N, D) the place of each column's values, and tenths of them: members may lie anywhere."""
    columns = []
    for one in numbers:
        columns.append(midranks(one))
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
    sums = (total[size:] - total[:-size] for size in sizes)
    votes = [np.where(np.abs(gain) < 1e-9, 0.5, gain > 0).mean() for gain in sums]
    return float(np.mean(votes))


def least_gains(model: TokenScores, base: TokenScores | None, text: str) -> float:
    """Mean of the 20 % smallest gains over the base: of a text trained on, every token may gain."""
    assert base is not None
    return _lowest(np.float64(model.logprob) - base.logprob)


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
