"""Test whether a person has been forgotten: three possible answers with controlled errors.

Of each complementary pair one model trained with the person and the other without. If no attack
tells the two apart, a model trained with the person says no more about them.

- *distinguishable*: the AUC of some attack on this person is above 0.5 (Bonferroni over
  attacks, Holm over persons).
- *not distinguishable*: the AUC of every attack run is at most a margin fixed beforehand (an
  equivalence test: absence of evidence is not enough), Holm over persons; and a trace beyond the
  margin, planted into the same records, was seen.
- *inconclusive*: neither; what the models at hand show, and how many would decide, is given.

An attack that does not learn from other models runs in both directions: a model may be less sure
of a record that it saw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtrit

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.sight import Plant, blindness, forbidden
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.checks import FAIL, levels
from lethe.membership.inputs import other_rows, repeated
from lethe.membership.pair_auc import (
    PairAuc,
    base_variance,
    mean_auc,
    models_needed,
    models_to_tell,
    pair_auc,
    power,
)
from lethe.membership.persons import person_scores
from lethe.membership.planted import Values, twin
from lethe.membership.records import holm_adjusted, holm_levels
from lethe.training.environment import on_one_thread
from lethe.training.shadows import Shadows

# Membership drawn anew: what the scores of a record look like when it leaves no trace.
#
# An attack that learns from the other models which way a record moves sees the same models in
# every target, so its leave-one-out scores of one record lean together by chance, and a test that
# takes them as independent may err more often than it says. Which model of a pair holds a record
# was drawn by a fair coin, so drawing these coins anew and attacking again shows how far chance
# goes, whatever the attack (a randomisation test; Fisher 1935).
#
# Guarantee: p is valid whatever the attack, if the record leaves no trace at all.
# Assumes: membership was drawn as in `design.membership`, or by independent coins.

_MOST_CELLS = 1 << 22
_BACKGROUND = 500

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Scorer = Callable[[NDArray[np.floating], Bool], Mapping[str, Float]]
"""(K, N) signals and members -> for each attack (K, N) scores, higher = member."""


def redrawn(
    members: Bool,
    pairs: NDArray[np.integer],
    rng: np.random.Generator,
    people: NDArray[np.integer] | None = None,
) -> Bool:
    """(K, N) membership with a new coin for every person.

    The models of a pair change places with chance 1/2; models without partner permute theirs.

    Args:
        members: (K, N) membership as it was.
        people: (N,) codes 0..P-1 of the records' persons; each record its own by default.
    """
    _, pair_of, size = np.unique(pairs, return_inverse=True, return_counts=True)
    codes = np.arange(members.shape[1]) if people is None else people
    persons = int(codes.max()) + 1
    out = members.copy()
    for label in np.flatnonzero(size == 2):
        first, second = np.flatnonzero(pair_of == label)
        swap = (rng.random(persons) < 0.5)[codes]
        out[first] = np.where(swap, members[second], members[first])
        out[second] = np.where(swap, members[first], members[second])
    alone = np.flatnonzero(size[pair_of] == 1)
    if len(alone) > 1:
        order = np.argsort(rng.random((len(alone), persons)), axis=0)[:, codes]
        out[alone] = np.take_along_axis(members[alone], order, axis=0)
    return out


def redraw_p(
    scorer: Scorer,
    signals: NDArray[np.floating],
    members: Bool,
    pairs: NDArray[np.integer],
    rows: NDArray[np.intp],
    draws: int,
    seed: int,
) -> dict[str, float]:
    """Randomisation test of one person: is the AUC of its summed scores higher than by chance?

    Copies of the person's records, each with coins of its own, are attacked beside the records.

    Args:
        signals: (K, N) of all records.
        draws: how many; fewer if the tables would grow beyond some 10^7 cells.

    Returns: For each attack the p-value, at least 1/(draws + 1).
    """
    check_at_least("draws", draws, 1)
    models, count = len(signals), len(rows)
    draws = max(1, min(draws, _MOST_CELLS // (models * count)))
    rng = np.random.default_rng([seed, 11, *(int(row) for row in rows[:1])])
    copies = np.tile(rows, draws)
    whose = np.repeat(np.arange(draws), count)
    rest = np.setdiff1d(np.arange(signals.shape[1]), rows)
    beside = np.sort(rng.permutation(rest)[:_BACKGROUND])
    columns = np.concatenate([rows, copies, beside])
    drawn = redrawn(members[:, copies], pairs, rng, whose)
    table = np.concatenate([members[:, rows], drawn, members[:, beside]], axis=1)
    p_values = {}
    for name, score in scorer(signals[:, columns], table).items():
        sums = score[:, : count * (draws + 1)].reshape(models, draws + 1, count).sum(axis=2)
        auc = pair_auc(sums, table[:, : count * (draws + 1) : count], pairs).auc
        p_values[name] = (1 + int(np.sum(auc[1:] >= auc[0] - 1e-12))) / (draws + 1)
    return p_values


DISTINGUISHABLE, NOT, INCONCLUSIVE = "distinguishable", "not distinguishable", "inconclusive"
MARGIN = 0.6
TURNED = ", turned"
"""Suffix of the name of an attack whose scores are negated."""
_DRAWS_PER_CLAIM = 2
_MOST_DRAWS = 50_000
_LIKELY = 0.05  # p of a single attack, from which on a trace is taken to be as large as it looks
_USELESS = 1e12  # design effect of an attack that chance alone brings as far


@dataclass(frozen=True)
class Verdict:
    """The verdict on a person, or on the mean over several.

    Attributes:
        power: chance that these models decide, at the AUCs 0.5 and margin (the smaller one).
        models_needed: models that would decide with the power asked for; None once decided.
    """

    always: ClassVar = ("if_as_seen", "doubt")
    verdict: str  # one of the three
    attack: str | None  # the one with the strongest evidence; None if nothing could be measured
    auc: Measured  # of that attack, with limits that allow for all attacks and persons, or why not
    p_distinguishable: float | None  # of "AUC at most 0.5", corrected for attacks and persons
    p_not: float | None  # of "a trace beyond the margin", corrected for persons
    records: int  # the person's records
    models_with: int  # models that trained with the person
    models_without: int  # models that did not
    signal_with: float | None  # mean signal of the former on the person's records
    signal_without: float | None  # mean signal of the latter
    power: float | None
    models_needed: int | None
    if_as_seen: bool = False  # True where that number holds only if the AUC is the one seen
    doubt: str = ""  # why "not distinguishable" has no support although the limits allow it


@dataclass(frozen=True)
class Forgotten:
    """Verdicts on all requests."""

    persons: tuple[Verdict, ...]  # one for each, in the order asked
    group: Verdict | Refusal  # on the mean AUC over them; a refusal for a single person
    attacks: tuple[str, ...]  # that were run; each direction of one counts for the corrections
    margin: float  # AUC that counts as not distinguishable
    confidence: float  # all claims of both kinds hold together with it
    power: float  # that was asked for


@on_one_thread
def judge_people(
    shadows: Shadows,
    scorer: Scorer,
    people: Sequence[NDArray[np.intp]],
    margin: float = MARGIN,
    confidence: float = 0.95,
    chance: float = 0.8,
    seed: int = 0,
) -> Forgotten:
    """Decide on each person and on all of them together.

    Guarantee: with `confidence` no person whose AUC is 0.5 or less is called distinguishable,
    and none whose AUC is the margin or more, or 1 - margin or less, not distinguishable.
    Assumes: pairs of models are independent draws of the training; the attacks run are the
    attacks that count; membership was drawn as in `design.membership` or by coins.

    Args:
        scorer: the attacks, see `Scorer`.
        people: rows of the records of each person who asked.
        margin: AUC in (0.5, 1) that still counts as not distinguishable; fixed beforehand.
        chance: power for the number of models, in (0, 1).

    Raises InputError: a setting is out of range, nobody asked, or a person is in some model with
        some records only.
    """
    check_between("margin", margin, 0.5, 1, open_low=True, open_high=True)
    check_between("confidence", confidence, 0, 1, open_low=True, open_high=True)
    check_between("power", chance, 0, 1, open_low=True, open_high=True)
    if not people or min(map(len, people)) == 0:
        raise InputError("people must hold the records of at least one person, and none be empty.")
    if pair := repeated(shadows.signals):
        raise InputError(
            f"models {pair[0]} and {pair[1]} gave equal signals for all records: hand in only one."
        )
    level = (1 - confidence) / 2
    tables = _tables(shadows, scorer, people)
    count = len(people)
    limit = level / (len(tables) * count)
    draws = min(int(np.ceil(_DRAWS_PER_CLAIM / limit)), _MOST_DRAWS)
    checked = _checked_by_chance(shadows, scorer, people, tables, level, draws, seed)
    equal = (shadows.signals == shadows.signals[:1]).all(axis=0)
    flat = np.array([bool(equal[rows].all()) for rows in people])
    persons = _verdicts(checked, flat, margin, level, confidence, chance)
    seen = [_seen(shadows, rows) for rows in people]
    persons = [replace(one, **about) for one, about in zip(persons, seen, strict=True)]
    group = _group(tables, flat, persons, margin, level, confidence, chance)
    if NOT in {one.verdict for one in (*persons, group) if isinstance(one, Verdict)}:
        doubts = _doubts(shadows, scorer, people, margin, level, seed)
        persons = [_earned(one, doubt) for one, doubt in zip(persons, doubts[:-1], strict=True)]
        group = group if isinstance(group, Refusal) else _earned(group, doubts[-1])
    return Forgotten(
        tuple(persons),
        group,
        tuple(name for name in tables if not name.endswith(TURNED)),
        margin,
        confidence,
        chance,
    )


def _earned(verdict: Verdict, doubt: str) -> Verdict:
    """A verdict; "not distinguishable" only if a trace beyond the margin would have been seen."""
    if verdict.verdict != NOT or not doubt:
        return verdict
    return replace(verdict, verdict=INCONCLUSIVE, doubt=doubt)


def _doubts(
    shadows: Shadows,
    scorer: Scorer,
    people: Sequence[NDArray[np.intp]],
    margin: float,
    level: float,
    seed: int,
) -> list[str]:
    """Reasons why a trace beyond the margin may have been missed, by person and for their mean.

    Models trained with a person answer with the largest of several draws of what the others say of
    the same records, so that an attacker who knows the draws is right in `forbidden(margin)` of
    comparisons; then the same attacks run. Empty where they find that the margin is exceeded.
    """
    belongs = levels(shadows)
    wrong = [check.text for check in other_rows(shadows, seed)]
    if belongs is not None and belongs.status == FAIL:
        wrong.append(f"{belongs.name}: {belongs.detail}")
    if wrong:
        return wrong[:1] * (len(people) + 1)
    wanted, odds = float(ndtri(forbidden(margin))), np.ones(shadows.records)
    for rows in people:
        # The evidence of several records adds up: each needs a smaller trace.
        chance_of_each = float(ndtr(wanted / np.sqrt(len(rows))))
        odds[rows] = chance_of_each / (1 - chance_of_each)
    models, rank = twin(shadows, Values(shadows), odds, seed)
    summed = np.stack([rank[:, rows].sum(axis=1) for rows in people], axis=1)
    members = shadows.members[:, [rows[0] for rows in people]]
    size, tables = pair_auc(summed, members, shadows.pairs), _tables(models, scorer, people)

    def doubt(size: PairAuc, tables: Sequence[PairAuc], at: int) -> str:
        reached = max(tables, key=lambda table: float(np.nan_to_num(table.high(level)[at])))
        value, high = float(reached.auc[at]), float(reached.high(level)[at])
        if not np.isfinite([value, high, size.auc[at]]).all():
            return ""  # nothing was measured: there is no verdict to support
        measured = Estimate(value, None, high, 1 - 2 * level, "plant", shadows.models)
        planted = Plant("a trace", {"auc": float(size.auc[at])}, {"auc": measured})
        return blindness([planted], "auc", margin)

    known = np.flatnonzero(np.isfinite(size.auc))
    doubts = [doubt(size, list(tables.values()), at) for at in range(len(people))]
    if len(known) < 2:
        return [*doubts, ""]
    means = [mean_auc(table.columns(known)) for table in tables.values()]
    return [*doubts, doubt(mean_auc(size.columns(known)), means, 0)]


def _asks_no_model(name: str) -> bool:
    plain = name.removesuffix(TURNED)
    return plain in ATTACKS and ATTACKS[plain].reference_free


def _tables(
    shadows: Shadows, scorer: Scorer, people: Sequence[NDArray[np.intp]]
) -> dict[str, PairAuc]:
    """For each attack, in each direction if it does not learn its own, the AUC of every person."""
    columns = np.concatenate(people)
    whose = np.repeat(np.arange(len(people)), [len(rows) for rows in people])
    tables = {}
    for name, score in scorer(shadows.signals, shadows.members).items():
        how = "standardised" if _asks_no_model(name) else "sum"
        table = person_scores({name: score[:, columns]}, shadows.members[:, columns], whose, how)
        tables[name] = pair_auc(table.scores[name], table.members, shadows.pairs)
        if _asks_no_model(name):
            tables[name + TURNED] = tables[name].turned()
    if not tables:
        raise InputError("at least one attack is needed to judge anybody, got none.")
    return tables


def _checked_by_chance(
    shadows: Shadows,
    scorer: Scorer,
    people: Sequence[NDArray[np.intp]],
    tables: Mapping[str, PairAuc],
    level: float,
    draws: int,
    seed: int,
) -> dict[str, PairAuc]:
    """Attacks that learn from other models: errors widened to what redrawn coins show.

    Only where the attack would otherwise decide; a claim is never made easier by it.
    """
    learned = [name for name in tables if not _asks_no_model(name)]
    free = [tables[name].p_above(0.5) for name in tables if _asks_no_model(name)]
    plain = np.min(free, axis=0) if free else np.ones(len(people))
    effect = {name: tables[name].effect.copy() for name in learned}
    near = {name: tables[name].p_above(0.5) * len(tables) <= level for name in learned}

    def only(signals: NDArray[np.floating], members: NDArray[np.bool_]) -> Mapping[str, Float]:
        return {k: v for k, v in scorer(signals, members).items() if k in learned}

    for place, rows in enumerate(people):
        if not any(near[name][place] for name in learned):
            continue
        if plain[place] * len(tables) * len(people) <= level:
            # Decided already, so that the long way would change nothing but the p.
            chance = dict.fromkeys(learned, float(plain[place]))
        else:
            chance = redraw_p(
                only, shadows.signals, shadows.members, shadows.pairs, rows, draws, seed
            )
        for name, p in chance.items():
            effect[name][place] = _widened(tables[name], place, p)
    return {
        name: replace(table, effect=effect[name]) if name in effect else table
        for name, table in tables.items()
    }


def _widened(table: PairAuc, at: int, p: float) -> float:
    """The design effect with which the test against 0.5 gives p, if that is more cautious."""
    if not p > table.p_above(0.5)[at]:
        return float(table.effect[at])
    if p >= 0.5:
        return _USELESS
    quantile = float(stdtrit(max(table.pairs[at] - 1, 1), 1 - p))
    base = float(base_variance(0.5, table.inside[at], table.outside[at]))
    return (float(table.auc[at] - 0.5) / quantile) ** 2 / base


def _verdicts(
    tables: Mapping[str, PairAuc],
    flat: NDArray[np.bool_],
    margin: float,
    level: float,
    confidence: float,
    chance: float,
) -> list[Verdict]:
    names = list(tables)
    above = np.array([tables[name].p_above(0.5) for name in names])
    below = np.array([tables[name].p_below(margin) for name in names])
    unknown = flat | np.isnan(above).all(axis=0)
    above, below = np.nan_to_num(above, nan=1.0), np.nan_to_num(below, nan=1.0)
    above[:, flat], below[:, flat] = 1.0, 1.0
    p_above = np.minimum(1.0, len(names) * above.min(axis=0))
    p_below = below.max(axis=0)  # every attack must fail: the largest p needs no correction
    above_chance, lower_level = holm_levels(p_above, level)
    equal, upper_level = holm_levels(p_below, level)
    adjusted = holm_adjusted(p_above), holm_adjusted(p_below)
    lows = {name: tables[name].low(lower_level / len(names)) for name in names}
    highs = np.array([tables[name].high(upper_level) for name in names])
    count = len(flat)
    out = []
    for at in range(count):
        if unknown[at]:
            why = "fewer than two pairs of models with scores, or none on one side"
            if flat[at]:
                why = "the signals of all models on these records are equal, so there is "
                why += "nothing to compare"
            empty = None, None, 0, 0, 0, None, None, None, None
            out.append(Verdict(INCONCLUSIVE, None, Refusal(why), *empty))
            continue
        name = names[int(above[:, at].argmin())]
        table = tables[name]
        value = float(table.auc[at])
        verdict = DISTINGUISHABLE if above_chance[at] else NOT if equal[at] else INCONCLUSIVE
        split = level / (len(names) * count), level / count
        needed, as_seen = None, False
        if verdict == INCONCLUSIVE:
            needed, as_seen = _needed(tables, table, at, margin, split, chance)
        single = table.columns([at])
        hand = min(
            float(power(margin, 0.5, single, split[0])[0]),
            max(0.0, 2 * float(power(0.5, margin, single, split[1])[0]) - 1),
        )
        method = (
            f"AUC over models, clustered by pairs; strongest of {len(names)} attacks, "
            f"Holm over {count} requests; n = models"
        )
        low, high = min(value, float(lows[name][at])), max(value, float(np.nanmax(highs[:, at])))
        inside, outside = int(table.inside[at]), int(table.outside[at])
        out.append(
            Verdict(
                verdict,
                name,
                Estimate(value, low, high, confidence, method, inside + outside),
                float(adjusted[0][at]),
                float(adjusted[1][at]),
                0,
                inside,
                outside,
                None,
                None,
                hand,
                needed,
                as_seen,
            )
        )
    return out


def _needed(
    tables: Mapping[str, PairAuc],
    strongest: PairAuc,
    at: int,
    margin: float,
    split: tuple[float, float],
    chance: float,
) -> tuple[int | None, bool]:
    """Number of models that would decide on a person, and whether it uses the observed AUC."""
    finite = [table.effect[at] for table in tables.values() if table.effect[at] < _USELESS]
    effect = float(max(finite, default=1.0))
    needed = models_needed(margin, effect, *split, chance)
    value, models = float(strongest.auc[at]), int(strongest.inside[at] + strongest.outside[at])
    likely = value > margin and strongest.p_above(0.5)[at] <= _LIKELY
    if needed > models and not likely:
        return needed, False
    # A trace well beyond the margin takes fewer models than one at the margin would.
    inside = min(max(value, 0.501), 0.999)
    farther, level = (0.5, split[0]) if inside - 0.5 >= margin - inside else (margin, split[1])
    return max(models_to_tell(inside, farther, effect, level, chance), models + 2), True


def _group(
    tables: Mapping[str, PairAuc],
    flat: NDArray[np.bool_],
    persons: Sequence[Verdict],
    margin: float,
    level: float,
    confidence: float,
    chance: float,
) -> Verdict | Refusal:
    if len(flat) < 2:
        return Refusal("one request is no group; the person's own verdict stands alone")
    known = np.array([person.attack is not None for person in persons])
    if int(known.sum()) < 2:
        return Refusal("fewer than two of the persons could be measured")
    means = {name: mean_auc(table.columns(np.flatnonzero(known))) for name, table in tables.items()}
    only = _verdicts(means, np.zeros(1, bool), margin, level, confidence, chance)[0]
    measured = [person for person in persons if person.attack is not None]

    def mean(name: str) -> float:
        return float(np.mean([getattr(person, name) for person in measured]))

    return replace(
        only,
        records=sum(person.records for person in measured),
        signal_with=mean("signal_with"),
        signal_without=mean("signal_without"),
    )


def _seen(shadows: Shadows, rows: NDArray[np.intp]) -> dict[str, Any]:
    """Mean answers about the person by models with and without the person."""
    signals = np.asarray(shadows.signals[:, rows], np.float64).mean(axis=1)
    inside = shadows.members[:, rows[0]]

    def mean(side: NDArray[np.bool_]) -> float | None:
        return float(signals[side].mean()) if side.any() else None

    return {
        "records": len(rows),
        "models_with": int(inside.sum()),
        "models_without": int((~inside).sum()),
        "signal_with": mean(inside),
        "signal_without": mean(~inside),
    }
