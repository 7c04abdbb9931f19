"""Texts with who was trained on; what a model says of each; what the attacks find in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import as_text, check_column, is_text, missing
from lethe.errors import InputError
from lethe.evidence.risk import family_confidence
from lethe.membership.blind import People, crossfit, folds_of, midranks, null_variances
from lethe.membership.language.attacks import (
    ATTACKS,
    COMBINED,
    DEFAULT,
    by_person,
    information,
    missing_field,
)
from lethe.membership.language.extraction import suffix_of
from lethe.membership.language.fine_tune import plain_text
from lethe.membership.language.settings import LanguageSettings
from lethe.membership.language.tokens import TokenScores
from lethe.membership.measure import AttackRates

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]
Columns = Mapping[str, NDArray[Any]]
PERMUTATIONS = 99
_IN = ("1", "true", "yes", "in", "member", "train", "training")
_OUT = ("0", "false", "no", "out", "non-member", "holdout", "hold-out", "test")


@dataclass(frozen=True, eq=False)
class Texts:
    """The texts of an audit, in order.

    Attributes:
        member: (N,) whether each was trained on.
        people: (N,) code of each one's person; of the text itself where no person is named.
        dates: (N,) or None.
    """

    texts: list[str]
    ids: list[str]
    member: Bool
    people: NDArray[np.intp]
    dates: NDArray[np.datetime64] | None = None
    named_people: bool = False

    def __len__(self) -> int:
        """Number of texts."""
        return len(self.texts)

    @cached_property
    def copies(self) -> NDArray[np.intp]:
        """(N,) how often a text stands among the trained ones; 0 for most of the others."""
        plain = [plain_text(text) for text in self.texts]
        counts = Counter(text for text, inside in zip(plain, self.member, strict=True) if inside)
        return np.array([counts.get(text, 0) for text in plain], np.intp)

    @cached_property
    def single(self) -> Bool:
        """(N,) texts that stand once among all: membership is a question on these alone.

        Whether a text is left out does not depend on who was trained on, so that members and
        non-members stay exchangeable.
        """
        plain = [plain_text(text) for text in self.texts]
        counts = Counter(plain)
        return np.array([counts[text] == 1 for text in plain])


def texts_of(
    columns: Columns,
    text: str,
    member: str | None = None,
    person: str | None = None,
    date: str | None = None,
    id_column: str | None = None,
) -> Texts:
    """The texts of a table.

    Args:
        member: column that says of each text whether it was trained on: true or false, 1 or 0,
            train or holdout. Without it, ``member`` (as `lethe split` writes it).
        date: column of dates, for the blind check.

    Raises InputError: a column is not there, a text or person is missing, or every text was
        trained on (or none).
    """
    check_column("text", text, columns, "the texts")
    cells = columns[text]
    if not is_text(cells):
        raise InputError(f"text={text!r} holds {cells.dtype}, not text. Name the column of texts.")
    listed = [str(one) for one in cells.tolist()]
    empty = [at for at, one in enumerate(listed) if not one.strip()]
    if empty:
        raise InputError(
            f"{len(empty)} of {len(listed)} texts are empty, row {empty[0] + 1} first: drop them."
        )
    named = member or "member"
    if named not in columns:
        raise InputError(
            f"the texts have no column {named!r} that says which were trained on. A random "
            "hold-out made before fine-tuning (`lethe split`) has it; else name it with --member."
        )
    words = np.char.lower(as_text(columns[named]).astype(np.str_))
    inside, outside = np.isin(words, _IN), np.isin(words, _OUT)
    odd = np.flatnonzero(~(inside | outside))
    if len(odd):
        raise InputError(
            f"member={named!r} holds {str(words[odd[0]])!r} in row {odd[0] + 1}; say true or false."
        )
    if inside.all() or not inside.any():
        which = "every text was" if inside.all() else "no text was"
        raise InputError(
            f"{which} trained on: membership needs both. Hold texts out at random before "
            "fine-tuning: lethe split FILE."
        )
    codes = np.arange(len(listed))
    if person is not None:
        check_column("person", person, columns, "the texts")
        gaps = int(missing(columns[person]).sum())
        if gaps:
            raise InputError(
                f"person={person!r} is missing in {gaps} rows; fill them or drop them."
            )
        codes = np.unique(as_text(columns[person]), return_inverse=True)[1]
    ids = [str(at) for at in range(1, len(listed) + 1)]
    if id_column is not None:
        check_column("id_column", id_column, columns, "the texts")
        ids = as_text(columns[id_column]).tolist()
        if len(set(ids)) < len(ids):
            raise InputError(f"id_column={id_column!r} names two texts alike; it must be unique.")
    when = None if date is None else _dates(date, columns)
    return Texts(listed, ids, inside, codes.astype(np.intp), when, person is not None)


def _dates(name: str, columns: Columns) -> NDArray[np.datetime64]:
    check_column("date", name, columns, "the texts")
    column = columns[name]
    if column.dtype.kind in "iuf" and len(column):
        return (np.nan_to_num(column).astype(np.int64)).astype("datetime64[D]")
    try:
        listed = [str(one)[:10] or "NaT" for one in column.tolist()]
        return np.array(listed, "datetime64[D]")
    except ValueError as error:
        raise InputError(f"date={name!r} holds no ISO dates: {error}.") from None


Pair = tuple[TokenScores, TokenScores | None]
View = Callable[[Pair], Pair]


def rounded(pair: Pair) -> Pair:
    """What an interface that rounds log-probabilities to 0.1 nats shows."""
    model, base = pair
    names = ("logprob", "mean", "deviation", "top_mass", "divergence")
    return replace(model, **{name: np.round(getattr(model, name), 1) for name in names}), base


SHOWN, FLOOR = 5, -8.0
"""Tokens that a narrow interface shows, and what an attacker takes for all others, in nats."""


def top_only(pair: Pair) -> Pair:
    """What an interface shows that gives the five likeliest tokens alone."""
    model, base = pair
    hidden = ~(model.rank < SHOWN)
    shown = np.where(hidden, np.float32(FLOOR), model.logprob)
    seen = TokenScores.known(shown, rank=model.rank)
    if base is None:
        return seen, None
    # Where nothing is shown, nothing is compared.
    theirs = np.where(hidden, np.float32(FLOOR), base.logprob)
    return seen, TokenScores.known(theirs, rank=base.rank)


@dataclass(eq=False)
class Measured:
    """What was read of one candidate, one entry a text; NaN where it has no score.

    Attributes:
        signals: (N,) by attack, higher = member.
        not_run: attack and why.
        mean: (N,) log-probability a token.
        suffix: (N,) log-probability of the suffix in one sample; NaN where the text is too short.
        greedy: (N,) whether greedy decoding gives the suffix.
        spans: text, kind, log-probability in one sample, first and last token.
        learnt: by text, (T,) information of each scored token in nats (`attacks.information`), of
            the release itself alone; empty where it is not known.
    """

    signals: dict[str, Float]
    not_run: dict[str, str]
    mean: Float
    suffix: Float
    greedy: Bool
    tokens: NDArray[np.intp]
    base_suffix: Float
    base_greedy: Bool
    spans: list[tuple[int, str, float]] = field(default_factory=list)
    learnt: dict[int, NDArray[np.float16]] = field(default_factory=dict)


def measured_texts(
    pairs: Iterable[tuple[int, Pair]],
    texts: Sequence[str],
    settings: LanguageSettings,
    spans: Mapping[int, Sequence[tuple[str, int, int]]],
    views: Sequence[View] = (),
) -> list[Measured]:
    """Read every text once, on each view of what is released; tokens are not kept.

    Args:
        pairs: place of a text, and what model and base say of its tokens.
        spans: personal patterns in tokens, by text.
        views: further functions of what is released; the first result is of all of it.
    """
    nan, no = np.full(len(texts), np.nan), np.zeros(len(texts), bool)
    found = [
        Measured(
            {}, {}, nan.copy(), nan.copy(), no.copy(), no.astype(np.intp), nan.copy(), no.copy()
        )
        for _ in range(1 + len(views))
    ]
    for at, pair in pairs:
        for one, view in zip(found, (None, *views), strict=True):
            _read(one, at, pair if view is None else view(pair), texts[at], settings)
        first, base = found[0], pair[1]
        if base is not None and not np.isnan(pair[0].divergence).any():
            first.learnt[at] = information(pair[0], base).astype(np.float16)
        for kind, start, stop in spans.get(at, ()):
            part = pair[0].cut(start - 1, stop - 1)
            if not np.isnan(part.top_mass).any():
                first.spans.append((at, kind, float(part.sampled.sum(dtype=np.float64))))
    return found


def _read(into: Measured, at: int, pair: Pair, text: str, settings: LanguageSettings) -> None:
    model, base = pair
    into.mean[at] = float(np.mean(model.logprob, dtype=np.float64))
    into.tokens[at] = len(model) + 1
    for name in DEFAULT:
        if name in into.not_run:
            continue
        attack = ATTACKS[name]
        if why := missing_field(attack, model, base is not None):
            into.not_run[name] = why
            into.signals.pop(name, None)
            continue
        signal = into.signals.setdefault(name, np.full(len(into.mean), np.nan))
        signal[at] = attack.score(model, base, text)
    if (own := suffix_of(model, settings.prefix, settings.suffix)) is not None:
        into.suffix[at], into.greedy[at] = own.logprob, own.greedy
    if base is not None:
        theirs = suffix_of(base, settings.prefix, settings.suffix)
        if theirs is not None:
            into.base_suffix[at], into.base_greedy[at] = theirs.logprob, theirs.greedy


@dataclass(frozen=True, eq=False)
class Membership:
    """What the attacks find on one candidate.

    Attributes:
        scores: (units,) by attack.
        rates: by attack, with limits that hold for all of them at once.
        permuted: attacks that found something where membership was permuted among people.
    """

    scores: dict[str, Float]
    rates: dict[str, AttackRates]
    permuted: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Units:
    """Whose membership is asked: texts, or people with all their texts.

    Attributes:
        rows: places of the texts that are looked at.
        people: their persons, and what of them varies.
        of: (rows,) unit of each text where the unit is a person; None where it is a text.
    """

    rows: NDArray[np.intp]
    texts: People
    people: People
    of: NDArray[np.intp] | None

    def score(self, signal: Float) -> Float:
        """(units,) of a signal of the looked-at texts."""
        return signal if self.of is None else by_person(signal, self.of)

    def labels(self, labels: Float) -> Float:
        """(units, P) of labels of the looked-at texts, (texts, P)."""
        return labels if self.of is None else labels[np.unique(self.of, return_index=True)[1]]


def units_of(texts: Texts, scored: Bool, settings: LanguageSettings) -> Units:
    """The units of an audit.

    Raises InputError: the unit is a person and nobody is named, or everybody has texts of both
        kinds.
    """
    rows = np.flatnonzero(texts.single & scored)
    if settings.unit == "person":
        if not texts.named_people:
            raise InputError("unit='person' needs the column of people: --person COLUMN.")
        inside = np.zeros(int(texts.people.max()) + 1, bool)
        outside = inside.copy()
        inside[texts.people[texts.member]] = True
        outside[texts.people[~texts.member]] = True
        rows = rows[~(inside & outside)[texts.people[rows]]]
    member, people = texts.member[rows], texts.people[rows]
    if member.all() or not member.any():
        raise InputError(
            "no unit is left on one side: people have both trained and other texts, or texts stand "
            "more than once. Split by person (lethe split --person), or ask for unit='text'."
        )
    by_text = People(member, people, settings.seed)
    if settings.unit == "text":
        return Units(rows, by_text, by_text, None)
    _, first, of = np.unique(people, return_index=True, return_inverse=True)
    persons = People(member[first], np.arange(len(first)), settings.seed)
    return Units(rows, by_text, persons, of.astype(np.intp))


def membership(
    measured: Measured, units: Units, settings: LanguageSettings, family: int
) -> Membership:
    """Every attack on the texts or people, the learned combination last.

    Args:
        family: results whose limits must hold at once: attacks times views of the candidate.
    """
    signals = {name: signal[units.rows] for name, signal in measured.signals.items()}
    fprs, confidence = settings.fprs(), family_confidence(settings.confidence, family)
    scores = {name: units.score(signal) for name, signal in signals.items()}
    shuffled = units.texts.permuted(PERMUTATIONS, settings.seed)
    meaningless, floor = dict(scores), np.zeros(0)
    if len(signals) > 1:
        own, nothing = combined(list(signals.values()), units.texts, shuffled, settings.seed)
        scores[COMBINED] = units.score(own)
        at_units = np.stack([units.score(one) for one in nothing.T], 1)
        floor = null_variances(at_units, units.labels(shuffled), fprs)
        meaningless[COMBINED] = at_units[:, 0]
    meter, rates = units.people.meter, dict[str, AttackRates]()
    for name, score in scores.items():
        if name == COMBINED:
            rates[name] = meter.rates(name, score, fprs, confidence, least=floor)
            continue
        rates[name] = meter.either_way(name, score, fprs, confidence, curve=False)
        if rates[name].turned is not None:
            scores[name] = -score
    side = units.labels(shuffled)[:, 0] > 0
    blind = People(side, units.people.people, settings.seed).meter
    strict = family_confidence(0.999, family)
    odd = tuple(
        name
        for name, score in meaningless.items()
        if (blind.rates(name, score, (), strict, least=floor[:1] * (name == COMBINED)).auc.low or 0)
        > 0.5
    )
    return Membership(scores, rates, odd)


def combined(
    signals: Sequence[Float], people: People, labels: Float, seed: int
) -> tuple[Float, Float]:
    """The learned combination, and the same fitted on other labels.

    Args:
        signals: (N,) each; their ranks are weighed.
        labels: (N, P) permuted membership.

    Returns:
        (N,) and (N, P), every score by weights that its own person had no part in.
    """
    ranks = np.stack([midranks(signal) for signal in signals], 1)
    fold = folds_of(people.member, people.codes, seed)
    true = people.member[:, None].astype(np.float64)
    found = crossfit(ranks, np.hstack([true, labels]), fold)
    return found[:, 0], found[:, 1:]
