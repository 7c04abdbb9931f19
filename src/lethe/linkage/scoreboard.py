"""Scoreboard and Scoreboard-RH: how well every released record fits a few known facts.

Narayanan and Shmatikov, "Robust De-anonymization of Large Sparse Datasets", IEEE S&P 2008.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_choice, require
from lethe.linkage.facts import Facts, Float, Int, Known

RULES = ("sum", "minimum")
SIMILARITIES = ("exponential", "threshold")
BACKENDS = ("auto", "numpy", "numba")
NO_MATCH = -1
_WORTH = 20_000_000  # scores; below, numba would take longer to load than NumPy to count


@dataclass(frozen=True)
class Scoreboard:
    """How records are scored. The defaults are those of the paper's attack on ratings.

    Attributes:
        rule: "sum" is Scoreboard-RH, the sum over the known items of weight x similarity with
            weight 1 / log(1 + |supp(i)|), 0 for an item that nobody has; "minimum" is the plain
            Scoreboard, the smallest similarity over the known items, without weights.
        similarity: "exponential": exp(-|value difference| / value_scale) + exp(-|time
            difference| / time_scale); "threshold": 1 when both differences are at most the
            scales, else 0. What the adversary does not know is left out; of an item of which
            nothing but its presence is known the similarity is 1.
        value_scale: rho0 of the paper, > 0; as a threshold 0 is allowed.
        time_scale: d0 of the paper, in steps of the release; > 0; as a threshold 0 is allowed.
    """

    rule: str = "sum"
    similarity: str = "exponential"
    value_scale: float = 1.5
    time_scale: float = 30.0

    def __post_init__(self) -> None:
        check_choice("rule", self.rule, RULES)
        check_choice("similarity", self.similarity, SIMILARITIES)
        for name in ("value_scale", "time_scale"):
            check_at_least(name, getattr(self, name), 0)
            if self.similarity == "exponential" and not getattr(self, name) > 0:
                raise InputError(f"{name}=0 must be above 0; similarity='threshold' allows 0.")


RH = Scoreboard()


@dataclass(frozen=True, eq=False)
class Links:
    """The best record for each target, and how far it stands out.

    Attributes:
        best: (Q,) the record of the highest score; NO_MATCH (-1) where several share it.
        eccentricity: (Q,) (highest - second) / deviation; 0 where several share the highest, and
            where all scores are equal.
        deviation: (Q,) standard deviation of the scores over all N records, zeros included,
            divisor N.
        entropy: (Q,) bits left in the answer p ~ exp(score / deviation); log2(N) where all scores
            are equal. NaN under the rule "minimum", whose answer is the matching set.
        surprise: (Q,) -log2 p of the true record: bits that are missing for certainty. NaN
            where the truth is not given, is not in the release, or under "minimum".
        people: N.
    """

    best: Int
    eccentricity: Float
    deviation: Float
    entropy: Float
    surprise: Float
    people: int

    def matched(self, phi: float = 1.5) -> Int:
        """(Q,) the best record where its eccentricity is at least `phi`, else NO_MATCH."""
        return np.where((self.best >= 0) & (self.eccentricity >= phi), self.best, NO_MATCH)


def link(
    facts: Facts,
    known: Known,
    board: Scoreboard = RH,
    *,
    true: NDArray[np.int64] | None = None,
    entropy: bool = True,
    backend: str = "auto",
) -> Links:
    """Look for each target among all released records.

    Args:
        facts: the release.
        known: what the adversary knows of each target.
        board: how records are scored.
        true: (Q,) the record of each target, NO_MATCH for people who are not released; used for
            `Links.surprise` only.
        entropy: False leaves `Links.entropy` and `Links.surprise` out (NaN), which takes about
            as long as the scores.
        backend: "numpy"; "numba" (extra `fast`), which looks only at people who share an item
            with the target, where it can (see `scoreboard_numba.fits`); "auto" takes it where
            there is enough to do. Both name the same records.

    Raises:
        InputError: items or persons that the release does not have, or fewer than 2 records.
    """
    check_known(facts, known)
    targets = np.full(len(known), NO_MATCH) if true is None else np.asarray(true)
    if targets.shape != (len(known),) or (targets >= facts.people).any():
        raise InputError(f"true needs {len(known)} records below {facts.people}, or -1.")
    check_choice("backend", backend, BACKENDS)
    if _fast(facts, known, board, backend):
        from lethe.linkage.scoreboard_numba import judge_all

        table = judge_all(
            facts,
            known,
            lambda gap: _near(gap, board.value_scale, board),
            lambda gap: _near(gap, board.time_scale, board),
            targets,
            entropy,
        )
    else:
        columns = [
            _judged(scores(facts, known, at, board), t, board, entropy)
            for at, t in enumerate(targets)
        ]
        table = np.array(columns, dtype=np.float64).reshape(-1, 5).T
    best, (eccentricity, deviation, left, surprise) = table[0].astype(np.int64), table[1:]
    return Links(best, eccentricity, deviation, left, surprise, facts.people)


def scores(facts: Facts, known: Known, target: int, board: Scoreboard = RH) -> Float:
    """(N,) score of every record for one target: higher = more like it.

    Args:
        facts: the release; weights come from nothing else.
        known: of which one target is taken.
        target: its place in `known`.
        board: how records are scored.
    """
    span = range(int(known.start[target]), int(known.start[target + 1]))
    if board.rule == "minimum":
        return _minimum(facts, known, span, board)
    total = np.zeros(facts.people)
    for at in span:
        item = int(known.item[at])
        held = _postings(facts, item)
        if len(held):  # an item that nobody has adds nothing
            total[held] += similarity(facts, known, at, board) / np.log1p(len(held))
    return total


def similarity(facts: Facts, known: Known, at: int, board: Scoreboard) -> Float:
    """(|supp|,) similarity of one known fact to all released facts of its item."""
    item = int(known.item[at])
    span = slice(int(facts.start[item]), int(facts.start[item + 1]))
    parts: list[Float] = []
    if known.value is not None and facts.value is not None and not np.isnan(known.value[at]):
        # Few values are different: the exponential is taken of them, not of every fact.
        near = _near(facts.values - known.value[at], board.value_scale, board)
        parts.append(near[facts.value[span]])
    if known.time is not None and facts.time is not None and not np.isnan(known.time[at]):
        gap = facts.time[span].astype(np.float64) + (facts.origin - known.time[at])
        parts.append(_near(gap, board.time_scale, board))
    if not parts:
        return np.ones(span.stop - span.start)
    if board.similarity == "threshold":
        return parts[0] if len(parts) == 1 else np.minimum(*parts)
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def matching_set(record_scores: Float, alpha: float) -> Int:
    """Records whose score is above `alpha`; the plain Scoreboard answers with all of them alike.

    >>> matching_set(np.array([0.0, 1.0, 0.2, 1.0]), 0.5).tolist()
    [1, 3]
    """
    return np.flatnonzero(record_scores > alpha)


def distribution(record_scores: Float) -> Float:
    """(N,) the entropic answer p ~ exp(score / deviation) over all records.

    All records alike where the deviation is 0.
    """
    return _softmax(record_scores, float(np.std(record_scores)))


def stand_out(record_scores: Float) -> tuple[int, float, float]:
    """Best record, eccentricity and standard deviation over all N >= 2 records.

    A tie at the top is no match (NO_MATCH, 0); scores within rounding of each other are tied.

    >>> stand_out(np.array([0.0, 0.0, 0.0, 2.0]))[0]
    3
    >>> stand_out(np.array([0.0, 2.0, 2.0]))[:2]
    (-1, 0.0)
    """
    best = int(np.argmax(record_scores))
    top = float(record_scores[best])
    second = max(
        float(record_scores[:best].max(initial=-np.inf)),
        float(record_scores[best + 1 :].max(initial=-np.inf)),
    )
    deviation = float(np.std(record_scores))
    if top - second <= 64 * np.finfo(np.float64).eps * abs(top):
        return NO_MATCH, 0.0, deviation
    return best, (top - second) / deviation, deviation


def check_known(facts: Facts, known: Known) -> None:
    """Refuse items that the release does not know, and a release of fewer than 2 records.

    Raises:
        InputError: with the way out.
    """
    if facts.people < 2:
        raise InputError(f"a linkage needs at least 2 released records, got {facts.people}.")
    item = known.item
    if len(item) and not (item.min() >= -1 and item.max() < facts.items):
        raise InputError(
            f"known items go from {item.min()} to {item.max()}; the release has 0 to "
            f"{facts.items - 1}. Write -1 for an item that is not released."
        )


def _fast(facts: Facts, known: Known, board: Scoreboard, backend: str) -> bool:
    if backend == "numpy" or board.rule != "sum":
        return False
    if backend == "auto" and len(known) * facts.people < _WORTH:
        return False
    if backend == "auto" and find_spec("numba") is None:
        return False
    from lethe.linkage.scoreboard_numba import fits

    if backend == "numba":
        require("numba", "fast")
    # Both parts at once must add up; the threshold takes the smaller.
    alone = known.value is None or known.time is None or facts.value is None or facts.time is None
    return (board.similarity == "exponential" or alone) and fits(facts, known)


def _judged(
    record_scores: Float, true: int, board: Scoreboard, entropic: bool
) -> tuple[float, ...]:
    best, eccentricity, deviation = stand_out(record_scores)
    if board.rule == "minimum" or not entropic:
        return best, eccentricity, deviation, np.nan, np.nan
    chance = _softmax(record_scores, deviation)
    some = chance[chance > 0]
    entropy = max(0.0, float(-(some * np.log2(some)).sum()))
    surprise = float(-np.log2(chance[true])) if true >= 0 and chance[true] > 0 else np.nan
    return best, eccentricity, deviation, entropy, surprise


def _softmax(record_scores: Float, deviation: float) -> Float:
    top = float(record_scores.max())
    if deviation <= 64 * np.finfo(np.float64).eps * abs(top):
        return np.full(len(record_scores), 1 / len(record_scores))
    weights = np.exp((record_scores - top) / deviation)
    return np.asarray(weights / weights.sum(), dtype=np.float64)


def _minimum(facts: Facts, known: Known, span: range, board: Scoreboard) -> Float:
    """Smallest similarity over the known items; a record without one of them has 0."""
    if not len(span):
        return np.zeros(facts.people)
    smallest = np.full(facts.people, np.inf)
    for at in span:
        one = np.zeros(facts.people)
        held = _postings(facts, int(known.item[at]))
        if len(held):
            one[held] = similarity(facts, known, at, board)
        np.minimum(smallest, one, out=smallest)
    return smallest


def _postings(facts: Facts, item: int) -> NDArray[np.int32]:
    if item < 0:
        return facts.person[:0]
    return facts.person[facts.start[item] : facts.start[item + 1]]


def _near(gap: Float, scale: float, board: Scoreboard) -> Float:
    if board.similarity == "threshold":
        return np.asarray(np.abs(gap) <= scale, dtype=np.float64)
    return np.asarray(np.exp(-np.abs(gap) / scale), dtype=np.float64)
