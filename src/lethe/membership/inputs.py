"""Checks on what was handed in: does membership belong to the scores, and were members drawn alike?

An audit that drew the split and trained the models itself needs none of this.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from lethe.assess.verdict import HARMLESS, InputCheck
from lethe.errors import InputError, LetheError, NotMeasurable, RunFailed
from lethe.evidence.rules import PASS, judge
from lethe.membership.attacks.lira import ranked
from lethe.membership.blind import People, by_column, told_by
from lethe.membership.document import Measurement, evidence
from lethe.membership.exposure import expose
from lethe.membership.measure import run_attacks
from lethe.membership.records import near_pairs
from lethe.membership.settings import AuditSettings
from lethe.training.chunks import Spec, chunk_jobs, train_chunk
from lethe.training.engines import train_in_processes
from lethe.training.recipe import Treatment
from lethe.training.shadows import Shadows
from lethe.training.signals import codes_of_copies

Float = NDArray[np.float64]

_CHANCE = 1e-4  # of calling membership misplaced that is where it belongs
_PERMUTATIONS = 19
_SAME, _VALUES = 1e-5, 10  # of a model's spread: digits that are lost; fewest values that tell
_FAR = 5.0  # standard deviations of permuted totals
_MODELS, _RECORDS, _MATCHED = 64, 8192, 256
_COLUMNS, _WAVES, _ROWS, _TARGETS = 40, 200, 5000, 4


def handed_in(
    measured: Measurement,
    targets: Shadows | None,
    features: NDArray[np.floating] | None,
    settings: AuditSettings,
) -> Iterator[InputCheck]:
    """What stops an audit of models that were trained elsewhere; arguments of `split_copies`."""
    shadows, seed = measured.shadows, settings.seed
    everybody = shadows
    if targets is not None:
        signals = np.concatenate([shadows.signals, targets.signals])
        members = np.concatenate([shadows.members, targets.members])
        everybody = replace(shadows, signals=signals, members=members)
    yield from other_rows(everybody, seed)
    if (check := drawn_alike(targets or shadows, features, seed)) is not None:
        yield check
    yield from split_copies(measured, targets, features, settings)


def other_rows(everybody: Shadows, seed: int) -> Iterator[InputCheck]:
    """What shows that scores are of other models or records than membership is said to be of."""
    if pair := repeated(everybody.signals):
        text = f"Models {pair[0]} and {pair[1]} (counted from 0) answer alike for all records."
        yield InputCheck("repeated-models", "stops", text, "Hand over each model once.")
    if not everybody.alone and (sorted_by := ordered(everybody.signals)):
        text = f"The scores rise {sorted_by}: sorting them lost which model or record they are of."
        yield InputCheck("membership-order", "stops", text, "Hand them over as they were computed.")
    elif not everybody.alone and (order := misplaced(everybody, seed)):
        text = f"Membership fits the scores far better {order}."
        way_out = "Give both tables one order of models and records, and one sign of all scores."
        yield InputCheck("membership-order", "stops", text, way_out)


def repeated(signals: NDArray[np.floating]) -> tuple[int, int] | None:
    """Two models that answer alike, but for the last digits; None where all differ.

    Models with fewer than `_VALUES` different answers may agree by chance.
    """
    # Models of equal answers are neighbours in the order of their means.
    order = np.argsort(signals.mean(axis=1, dtype=np.float64), kind="stable").tolist()
    for pair in zip(order, order[1:], strict=False):
        first, second = (signals[at].astype(np.float64) for at in pair)
        alike = np.abs(first - second).max() <= _SAME * first.std()
        if alike and len(np.unique(first)) >= _VALUES:
            return min(pair), max(pair)
    return None


def ordered(signals: NDArray[np.floating]) -> str:
    """Along which side of the table (models, records) all scores rise or fall; empty for none."""
    for axis, side in enumerate(("from model to model", "from record to record")):
        steps = np.diff(signals, axis=axis)
        if len(np.unique(steps)) > 1 and ((steps >= 0).all() or (steps <= 0).all()):
            return side
    return ""


def misplaced(shadows: Shadows, seed: int = 0) -> str:
    """The order of models or records that fits membership far better; empty if none does.

    Scores of a model rise where it trained on the record. So their ranks, less each record's mean,
    are compared with membership in every other order of a family: all cyclic shifts of records,
    forwards and backwards, together with all shifts of models; shifts of single models; the best
    match of models, and of records. Each is measured by its own other members or by permutations,
    so that the whole test errs about once in a thousand safe audits.

    Assumes: scores and membership of most models are moved alike, or leaks are large. Rows that
        were shuffled without an order, each by itself, leave no trace that could be seen.

    Args:
        shadows: of the first 64 models (of few records more) and 8,192 records.
    """
    most = int(_MODELS * max(1.0, (_RECORDS / shadows.records) ** 0.5))
    members = shadows.members[:most, :_RECORDS]
    residual = _centred(ranked(shadows.signals[:most, :_RECORDS]))
    inside = _centred(members)
    if not (residual.any() and inside.any()):
        return ""
    # (models, people) sums over the records of each person.
    person = np.unique(shadows.people[:_RECORDS], return_inverse=True)[1]
    sums = [np.array([np.bincount(person, row) for row in side]) for side in (residual, inside)]
    return (
        shifted(residual, inside)
        or _matched(sums[0], sums[1], "models", seed)
        or _matched(residual.T, inside.T, "records", seed)
    )


def _centred(table: NDArray[np.generic]) -> Float:
    """(K, N) less the mean of each record and of each model."""
    rest = table - table.mean(axis=0, dtype=np.float64)
    return np.asarray(rest - rest.mean(axis=1, keepdims=True))


def shifted(residual: Float, inside: Float) -> str:
    """A shift of models and records, alike or model by model, that fits far better."""
    models, records = residual.shape
    left = np.fft.rfft(residual)
    # As it is, of all models together and of each: designs of blocks look alike backwards.
    alike = (residual * inside).sum(axis=1)
    places = [abs(float(alike.sum())), *np.abs(alike).tolist()]
    for backwards in (False, True):
        right = np.fft.rfft(inside[:, ::-1] if backwards else inside).conj()
        fits = np.fft.irfft(
            [(left * np.roll(right, shift, axis=0)).sum(axis=0) for shift in range(models)], records
        )
        alone = np.fft.irfft(left * right, records)
        # The fits of one model are too few to say what is usual, so all models say it too.
        usual = [float(np.median(np.abs(fit - np.median(fit)))) for fit in (fits, alone)]
        for fit, own in zip((fits, *(row[None] for row in alone)), places, strict=True):
            unit = 1.4826 * float(np.median(np.abs(fit - np.median(fit))))
            unit = max(unit, 1.4826 * usual[fit is not fits], 1e-12)
            place = np.unravel_index(int(np.abs(fit).argmax()), fit.shape)
            best, own = abs(fit[place]) / unit, own / unit
            # Shifted by one, complementary pairs keep half of what they have in place.
            if best > -ndtri(_CHANCE / (4 * fits.size)) and own < best / 3:
                moved = f"{place[1]} records" + (f" and {place[0]} models" if place[0] else "")
                order = " and read backwards" if backwards else ""
                return f"moved by {moved}{order} (z = {best:.0f}, as it is {own:.1f})"
    return ""


def _matched(residual: Float, inside: Float, what: str, seed: int) -> str:
    """Another match of the rows of both tables that fits far better than row by row.

    The null moves columns of one table alone, which breaks the match: models at random, records by
    a shift, so that blocks of records and neighbours that are alike stay together.
    """
    from scipy.optimize import linear_sum_assignment

    rng = np.random.default_rng([seed, 41])
    rows, columns = rng.permutation(len(residual))[:_MATCHED], np.arange(inside.shape[1])
    unit = residual[rows] / np.maximum(np.linalg.norm(residual[rows], axis=1), 1e-12)[:, None]
    scaled = inside / np.maximum(inside.std(axis=1), 1e-12)[:, None]

    def gained(order: NDArray[np.intp]) -> tuple[float, float]:
        fit = unit @ scaled[:, order].T
        right, best = fit[np.arange(len(rows)), rows], fit.max(axis=1)
        clear = float(np.max(best, initial=0.0, where=right < best / 3))
        if len(rows) == len(residual):
            best = fit[linear_sum_assignment(fit, maximize=True)]
        return float(best.sum() - right.sum()), clear

    def moved() -> NDArray[np.intp]:
        if what == "records":
            return rng.permutation(columns)
        return np.roll(columns, rng.integers(1, len(columns)))

    null, chance = np.array([gained(moved()) for _ in range(_PERMUTATIONS)]).T
    seen, best = gained(columns)
    spread = max(float(null.std(ddof=1)), 1e-9) if len(columns) > _PERMUTATIONS else np.inf
    far = seen > null.max() and seen - null.mean() > _FAR * spread
    if not (far or best > max(-ndtri(_CHANCE / len(rows) / len(residual)), 1.5 * chance.max())):
        return ""
    return f"with its {what} in another order (gain {seen:.0f}, by chance {null.mean():.0f})"


def drawn_alike(
    shadows: Shadows, features: NDArray[np.floating] | None = None, seed: int = 0
) -> InputCheck | None:
    """Check whether features and labels alone distinguish members from others.

    Two blind classifiers, by single columns and by all together (200 random cosines: Rahimi and
    Recht 2007), see `told_by`. Of several models the first four are looked at, of which two must
    tell.

    Args:
        shadows: the attacked models.
        features: (N, ...) the records, where they are known.
    """
    columns = _known_columns(shadows, features, seed)
    if columns is None:
        return None
    rng = np.random.default_rng([seed, 43])
    rows = rng.permutation(shadows.records)[:_ROWS]
    table = columns[rows]
    scaled = _standard(table)
    angle = scaled @ rng.normal(size=(scaled.shape[1], _WAVES)) / np.sqrt(scaled.shape[1])
    waves = np.cos(angle + rng.uniform(0, 2 * np.pi, _WAVES))
    views = {"single columns": by_column(list(table.T)), "all columns together": waves}
    person = np.unique(shadows.people[rows], return_inverse=True)[1]
    told = []
    for member in shadows.members[:_TARGETS, rows]:
        with contextlib.suppress(InputError, NotMeasurable):  # too few of a side
            told.append(told_by(views, People(member, person, seed), seed=seed))
    telling = [result for result in told if result.tells]
    if len(telling) < min(2, shadows.models) or not telling:
        return None
    strongest = max((result.rates for result in telling), key=lambda rates: rates.auc.value or 0.0)
    return InputCheck(
        "members-drawn-alike",
        "stops",
        f"A classifier that never asks the model tells members from others by {strongest.name} "
        f"(AUC {strongest.auc}): they were not drawn alike, and what tells them apart counts as a "
        "leak.",
        "Draw members and others at random from the same people before training.",
    )


def _standard(table: Float) -> Float:
    """(N, D) columns of mean 0 and deviation 1; constant ones are 0."""
    spread = table.std(axis=0)
    return np.asarray((table - table.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _known_columns(
    shadows: Shadows, features: NDArray[np.floating] | None, seed: int
) -> Float | None:
    """(N, D) features, of many 40 random projections, and labels; None where nothing is known."""
    parts: list[Float] = []
    if features is not None:
        flat = _standard(np.asarray(features, np.float64).reshape(shadows.records, -1))
        if flat.shape[1] > _COLUMNS:
            flat = flat @ np.random.default_rng([seed, 47]).normal(size=(flat.shape[1], _COLUMNS))
        parts.append(flat)
    if shadows.labels is not None:
        if shadows.labels.dtype.kind == "f":
            parts.append(shadows.labels[:, None].astype(np.float64))
        else:
            names, code = np.unique(shadows.labels, return_inverse=True)
            common = np.argsort(-np.bincount(code), kind="stable")[:_COLUMNS]
            parts.append((code[:, None] == common[: max(1, len(names) - 1)]).astype(np.float64))
    return np.hstack(parts) if parts else None


def split_copies(
    measured: Measurement,
    targets: Shadows | None,
    features: NDArray[np.floating] | None,
    settings: AuditSettings,
) -> Iterator[InputCheck]:
    """Copies of a record that are in training where others are not, measured both ways.

    A model that trained on a copy knows the record, so that the record is no non-member. Where no
    person is declared, each rule is judged anew with copies and near copies as one person, who is a
    member where any of them is; a rule that then no longer passes stops the verdict.

    Args:
        measured: the candidate that the rules judge.
        targets: models that were attacked, where these are not the shadow models in turn.
        features: (N, ...) the records, where they are known.
    """
    shadows = measured.shadows
    if shadows.groups is not None:
        return
    codes = shadows.copied if features is None else near_pairs(features)
    if codes is None:
        codes = codes_of_copies(shadows.signals, None)
    whole = _as_one(shadows, codes)
    split = np.flatnonzero((whole.members != shadows.members).any(axis=0))
    if not len(split):
        return
    count = f"{len(split):,} of {shadows.records:,} records are copies of others, or nearly, and "
    count += "not always in training together."
    way_out = "Declare persons with --group."
    rules = [rule for rule in settings.rules() if rule.metric not in HARMLESS and not rule.group]
    kept = [rule for rule in rules if judge(rule, evidence(measured, rule)) == PASS]
    again = None
    try:
        results = run_attacks(
            whole,
            tuple(measured.results),
            settings.fprs(),
            settings.confidence,
            settings.variance,
            settings.seed,
            None if targets is None else _as_one(targets, codes),
        )
        again = replace(measured, results=results, exposure=expose(whole), groups={})
    except (InputError, NotMeasurable):
        count += " As one person they leave too little to audit."
    lost = [rule for rule in kept if again is None or judge(rule, evidence(again, rule)) != PASS]
    if lost:
        text = f"{count} With copies as one person {lost[0]} is not met."
        yield InputCheck("copies", "stops", text, way_out)
    else:
        yield InputCheck("copies", "asks", count, way_out)


def own_rows(plain: Shadows, spec: Spec, folder: Path) -> Iterator[InputCheck]:
    """Check that a training function trains on the given rows.

    One that reads other rows, or draws rows of its own, gives models that no attack can tell by
    membership. So further models train on mostly one half of the labels, and on mostly the other:
    they must favour what they saw by five times what models differ by chance, or more of few.
    Where they do not, as of a model that weighs classes alike, halves of the features within each
    class are tried.

    Assumes: rows that are read instead have labels of another half. Rows in a wrong order among
        equal labels, or of predictions alone, are not seen. A model that hardly learns is stopped
        too.

    Args:
        plain: the shadow models.
        spec: what they were trained by.
        folder: of the run, where the further models are kept.
    """
    labels, features = np.array(spec.labels)[spec.pool], np.array(spec.features)[spec.pool]
    # Some of the other half: training may fail where a class has no record.
    kept = np.random.default_rng(59).random(len(labels)) < 0.2
    shifts = []
    for half in (_half_of(labels), _half_within(features, labels)):

        def favour(signals: NDArray[np.float32], half: NDArray[np.bool_] = half) -> Float:
            return np.asarray(signals[:, half].mean(axis=1) - signals[:, ~half].mean(axis=1))

        try:
            high, low = (favour(_trained_on(part | kept, spec, folder)) for part in (half, ~half))
        except LetheError as error:
            text = f"Whether the recipe trains on the rows it is given was not seen: {error}"
            yield InputCheck("own-rows", "asks", text)
            return
        shift, sides = float((high - low).mean()), (favour(plain.signals), high, low)
        squares, degrees = sum(float(((side - side.mean()) ** 2).sum()) for side in sides), 1
        degrees += plain.models  # of few models the chance itself is hardly known (Student t)
        chance = (squares / degrees) ** 0.5
        if shift > max(5.0, float(stdtrit(degrees, 1 - 2.5e-4))) * chance:
            return
        shifts.append(f"{shift:.2g}, by chance {chance:.2g}")
    yield InputCheck(
        "own-rows",
        "stops",
        "Models do not depend on the rows that the recipe was given: trained on mostly one half of "
        f"the labels they favour it by {shifts[0]}; of the features, by {shifts[1]}.",
        "Let train(rows, weights, seed) use those rows of the audited data, in their order.",
    )


def _trained_on(part: NDArray[np.bool_], spec: Spec, folder: Path) -> NDArray[np.float32]:
    """(2, N) signals of two models that train on halves of a part of the records."""
    pool, rest = spec.pool.copy(), spec.pool.copy()
    pool[spec.pool], rest[spec.pool] = part, ~part
    external = rest if spec.external is None else spec.external | rest
    spec_of_part = replace(
        spec, pool=pool, external=external, treatment=Treatment(), predictions=False, queries=0
    )
    name = f"own-rows-{spec_of_part.hash()[:8]}"
    (job,) = chunk_jobs(spec_of_part, folder / "shadows" / name, 2, 2)
    for _ in train_in_processes([job], train_chunk, 1):
        pass
    shard = job.finished()
    if shard is None:
        raise RunFailed(f"{name} is not there; run the same command again")
    return shard.signals[:, spec.pool]


def _half_of(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """(N,) True for about half of the records: every other class by size, or higher targets."""
    if labels.dtype.kind == "f":
        return np.asarray(labels > np.median(labels))
    _, code, counts = np.unique(labels, return_inverse=True, return_counts=True)
    return np.asarray(np.argsort(np.argsort(-counts, kind="stable"))[code] % 2 == 1)


def _half_within(features: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """(N,) True for half of each class, high or low in turn in the direction that varies most.

    Moved the same way, all classes would keep their borders; in regression all are one class.
    """
    table = features.reshape(len(features), -1).astype(np.float64)
    table = (table - table.mean(axis=0)) / np.maximum(table.std(axis=0), 1e-12)
    direction = np.random.default_rng(61).normal(size=table.shape[1])
    for _ in range(10):  # power iteration
        direction = table.T @ (table @ direction)
        direction /= max(float(np.linalg.norm(direction)), 1e-12)
    place, high = table @ direction, np.zeros(len(table), bool)
    groups = np.zeros(len(labels)) if labels.dtype.kind == "f" else labels
    for number, group in enumerate(np.unique(groups)):
        inside = groups == group
        high[inside] = (place[inside] > np.median(place[inside])) ^ (number % 2 == 1)
    return high


def _as_one(shadows: Shadows, codes: NDArray[np.intp]) -> Shadows:
    """The same with equal codes as one person, who is a member where any of their records is."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.append(True, codes[order][1:] != codes[order][:-1]))
    person = np.unique(codes, return_inverse=True)[1]
    members = np.logical_or.reduceat(shadows.members[:, order], starts, axis=1)[:, person]
    return replace(shadows, members=members, groups=person, copied=None)
