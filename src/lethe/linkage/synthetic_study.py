"""Synthetic rows against those they were made from: three attacks, a control, a leaky twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Refusal
from lethe.linkage.answers import answers_kept
from lethe.linkage.inference import inference
from lethe.linkage.kept import counts_kept
from lethe.linkage.linkability import linkability
from lethe.linkage.mixed import Mixed, mix
from lethe.linkage.recoding import ladder
from lethe.linkage.risk import Risk
from lethe.linkage.settings import SyntheticSettings
from lethe.linkage.singling_out import singling_out
from lethe.linkage.use import use_of
from lethe.linkage.way import BASELINE, Way
from lethe.linkage.worth import Worth, counted_worth, lost

LEAKY = "the original rows themselves"
_BINS = 8  # groups of neighbours of a number, so that its counts are not all 1


@dataclass(frozen=True, eq=False)
class SyntheticStudy:
    """All that was measured on synthetic rows.

    Attributes:
        attacks: risks by attack.
        leaky: the same attacks on the original rows in place of the synthetic ones: what a
            release without any protection would show.
        ways: the synthetic rows, and the original ones for comparison.
        skipped: name and reason of attacks that could not be run.
        rows: original, synthetic and control ones.
        columns: names.
    """

    attacks: dict[str, Risk]
    leaky: dict[str, Risk]
    ways: tuple[Way, ...]
    skipped: Mapping[str, str]
    rows: tuple[int, int, int]
    columns: tuple[str, ...]


def study_synthetic(
    original: Mapping[str, NDArray[Any]],
    synthetic: Mapping[str, NDArray[Any]],
    control: Mapping[str, NDArray[Any]],
    quasi: tuple[str, ...],
    sensitive: str | None,
    settings: SyntheticSettings,
) -> SyntheticStudy:
    """Attack synthetic rows, and the original ones in their place.

    Args:
        original: rows that the synthetic ones were made from.
        synthetic: rows that are released, with the same columns.
        control: rows from the same source that were not used.
        quasi: columns that the adversary knows; their two halves are linked.
        sensitive: column that is guessed; None leaves inference out.
        settings: of the audit.

    Raises:
        InputError: tables that do not fit each other, or unknown columns.
    """
    inside, made, outside = mix(original, synthetic, control)
    inside.places("quasi", quasi)
    skipped: dict[str, str] = {}
    attacks = _attacks(inside, made, outside, quasi, sensitive, settings, skipped)
    leaky = _attacks(inside, inside, outside, quasi, sensitive, settings, {})
    made_worth, whole_worth = (
        _worth(original, released, control, settings) for released in (synthetic, original)
    )
    ways = (
        _way(BASELINE, "the synthetic rows", attacks, made_worth, settings, None),
        _way("original", LEAKY, leaky, whole_worth, settings, made_worth),
    )
    sizes = (len(inside), len(made), len(outside))
    return SyntheticStudy(attacks, leaky, ways, skipped, sizes, inside.names)


def worst(attacks: Mapping[str, Risk]) -> tuple[str, Estimate | Refusal]:
    """The attack with the largest excess that could be measured, and that excess."""
    known = [
        (found.excess.value, name, found.excess)
        for name, found in attacks.items()
        if isinstance(found.excess, Estimate) and found.excess.value is not None
    ]
    if not known:
        return "", Refusal("no attack could be measured.")
    value, name, excess = max(known, key=lambda one: one[0])
    return name, excess


def _attacks(
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    quasi: tuple[str, ...],
    sensitive: str | None,
    settings: SyntheticSettings,
    skipped: dict[str, str],
) -> dict[str, Risk]:
    found: dict[str, Risk] = {}
    for columns in settings.columns:
        name = f"singling-out, {columns} column(s)"
        if columns > len(original.columns):
            skipped[name] = f"there are {len(original.columns)} columns only"
            continue
        try:
            made = singling_out(
                original,
                synthetic,
                control,
                columns=columns,
                attacks=settings.attacks,
                seed=settings.seed,
                confidence=settings.confidence,
            )
        except NotMeasurable as error:
            skipped[name] = str(error)
            continue
        found[name] = made.risk
    if len(quasi) < 2:
        skipped["linkability"] = "needs 2 quasi-identifiers at least, one for each source"
    else:
        found["linkability"] = linkability(
            original,
            synthetic,
            control,
            left=quasi[: len(quasi) // 2],
            right=quasi[len(quasi) // 2 :],
            neighbours=settings.neighbours,
            attacks=settings.attacks,
            seed=settings.seed,
            confidence=settings.confidence,
        )
    if sensitive is None:
        skipped["inference"] = "no sensitive column was named"
    else:
        found["inference"] = inference(
            original,
            synthetic,
            control,
            known=quasi,
            secret=sensitive,
            tolerance=settings.tolerance,
            attacks=settings.attacks,
            seed=settings.seed,
            confidence=settings.confidence,
        )
    return found


def _way(
    name: str,
    words: str,
    attacks: Mapping[str, Risk],
    worth: Worth,
    settings: SyntheticSettings,
    base: Worth | None,
) -> Way:
    strongest, risk = worst(attacks)
    kinds: dict[str, Any] = {}
    for kind in ("singling-out", "linkability", "inference"):
        _, kinds[kind] = worst({key: one for key, one in attacks.items() if key.startswith(kind)})
    loss = None
    if base is not None:
        loss = lost(base, worth, settings.confidence)
        kinds["utility-loss"] = loss
    return Way(
        name,
        words,
        {},
        risk,
        worth.utility,
        loss,
        None,
        kinds,
        {
            "strongest": strongest,
            "excess": {
                kind: one.to_json() for kind, one in kinds.items() if kind != "utility-loss"
            },
        },
        (
            "original and control rows are drawn alike",
            "nearest-neighbour and single-statement attacks; stronger ones may find more",
        ),
    )


def _worth(
    original: Mapping[str, NDArray[Any]],
    released: Mapping[str, NDArray[Any]],
    control: Mapping[str, NDArray[Any]],
    settings: SyntheticSettings,
) -> Worth:
    """A model is tested on the control rows, which no synthetic row was made from."""
    use = use_of(settings, original)
    if use is not None:
        return use.worth(released, control, control)
    value = _utility(original, released, settings)
    rows = len(next(iter(original.values())))
    return counted_worth(value, rows, settings.confidence, "released rows")


def _utility(
    original: Mapping[str, NDArray[Any]],
    released: Mapping[str, NDArray[Any]],
    settings: SyntheticSettings,
) -> float:
    """Overlap of two-way counts as shares, numbers in 8 groups of the original's neighbours."""
    if settings.queries:
        return answers_kept(original, released, settings.queries)
    first = len(next(iter(original.values())))
    mine, theirs, groups = [], [], []
    for name, column in original.items():
        together = np.concatenate([column, released[name]])
        one = ladder(name, together)
        fine = [step for step, of in enumerate(one.steps) if of.max() > _BINS]
        step = min(len(fine), len(one.steps) - 1) if one.kind == "ordered" else 0
        coarse = one.at(step)
        mine.append(coarse[:first])
        theirs.append(coarse[first:])
        groups.append(np.arange(int(coarse.max()) + 1))
    scale = first / len(theirs[0])
    return counts_kept(mine, theirs, groups, scale=scale)
