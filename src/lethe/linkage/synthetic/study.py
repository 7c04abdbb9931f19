"""Synthetic rows against those they were made from: attacks, a control, a leaky twin, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.input_checks import InputCheck
from lethe.assess.run import Facts, attack, check
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.risk import AttackResult, family_confidence, risk_of
from lethe.linkage.answers import answer_overlap, count_overlap
from lethe.linkage.document import (
    BASELINE,
    FEWEST,
    Measurement,
    RowsSubject,
    of_1000,
    strongest,
    utility_in_words,
)
from lethe.linkage.settings import SyntheticSettings
from lethe.linkage.synthetic.control import file_checks, refuse_same_files
from lethe.linkage.synthetic.nearest import (
    Distances,
    Mixed,
    closest,
    identical,
    inference,
    linkability,
    mix,
)
from lethe.linkage.synthetic.risk import Risk
from lethe.linkage.synthetic.singling_out import singling_out
from lethe.linkage.table.recoding import hierarchy
from lethe.linkage.utility import Utility, counted_utility, use_of

LEAKY = "the original rows themselves"
KINDS = ("singling-out", "linkability", "inference", "identical", "closest")
"""Of attacks; the first part of their names, and metrics of rules."""
_BINS = 8  # groups of neighbours of a number, so that its counts are not all 1


@dataclass(frozen=True, eq=False)
class SyntheticStudy:
    """All that was measured on synthetic rows.

    Attributes:
        leaky: the same attacks on the original rows in place of the synthetic ones: what a
            release without any protection would show.
    """

    attacks: dict[str, Risk]  # risks by attack
    knows: dict[str, str]  # by attack, what the adversary holds beside the synthetic rows
    distances: Distances  # to the closest synthetic row, of original and control rows
    leaky: dict[str, Risk]
    candidates: tuple[Candidate, ...]  # the synthetic rows, and the original ones for comparison
    skipped: Mapping[str, str]  # name and reason of attacks that could not be run
    rows: tuple[int, int, int]  # original, synthetic and control ones
    columns: tuple[str, ...]  # names
    inputs: tuple[InputCheck, ...]  # what the files themselves say


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
        synthetic: rows that are released, with the same columns.
        quasi: columns that the adversary knows; their two halves are linked with each other, and
            all of them with the columns that are left or those of `SyntheticSettings.linked`.
        sensitive: column that is guessed; None leaves inference out.

    Raises InputError: tables that do not fit each other, or unknown columns.
    """
    inside, made, outside = mix(original, synthetic, control)
    inside.places("quasi", quasi)
    linked = settings.linked or tuple(name for name in inside.names if name not in quasi)
    inside.places("linked", linked or quasi)
    if shared := sorted(set(settings.linked) & set(quasi)):
        raise InputError(f"{shared[0]!r} is in quasi and in linked. Give each column one side.")
    refuse_same_files(inside, made, outside)
    skipped: dict[str, str] = {}
    planned = dict(_planned(inside.names, quasi, linked, sensitive, settings, skipped))
    attacks, near = _run(planned, inside, made, outside, settings, skipped)
    leaky, _ = _run(planned, inside, inside, outside, settings, {})
    knows = {name: words for name, (words, _) in planned.items()}
    synthetic_utility, original_utility = (
        _utility_of(original, released, control, settings) for released in (synthetic, original)
    )
    baseline = _measured(BASELINE, "the synthetic rows", attacks, knows, synthetic_utility)
    twin = _measured("original", LEAKY, leaky, knows, original_utility)
    candidates = (
        baseline.candidate(settings.confidence, baseline=None),
        twin.candidate(settings.confidence, baseline=baseline),
    )
    sizes = (len(inside), len(made), len(outside))
    return SyntheticStudy(
        attacks,
        knows,
        near,
        leaky,
        candidates,
        skipped,
        sizes,
        inside.names,
        tuple(
            file_checks(
                (inside, made, outside), (original, synthetic, control), attacks, settings.seed
            )
        ),
    )


Attack = Callable[[Mixed, Mixed, Mixed, float], tuple[Risk, Distances | None]]


def results_of(attacks: Mapping[str, Risk], knows: Mapping[str, str]) -> list[AttackResult]:
    """Excess of each attack; too few attempts say little, and do not gate."""
    results = []
    for name, found in attacks.items():
        attempts = min(found.main.n, found.control.n)
        enough = attempts >= FEWEST
        why = "" if enough else f"{attempts} attempts, at least {FEWEST} are needed"
        results.append(AttackResult(name, found.excess, knows=knows[name], why=why, powered=enough))
    return results


def _planned(
    names: tuple[str, ...],
    quasi: tuple[str, ...],
    linked: tuple[str, ...],
    sensitive: str | None,
    settings: SyntheticSettings,
    skipped: dict[str, str],
) -> Iterator[tuple[str, tuple[str, Attack]]]:
    """By name: what the adversary knows, and the attack; told the confidence of its limits."""
    seed, attacks = settings.seed, settings.attacks

    def plain(attack: Callable[..., Risk], **options: Any) -> Attack:
        def run(inside: Mixed, made: Mixed, outside: Mixed, sure: float) -> tuple[Risk, None]:
            return attack(inside, made, outside, seed=seed, confidence=sure, **options), None

        return run

    def single(columns: int) -> Attack:
        def run(inside: Mixed, made: Mixed, outside: Mixed, sure: float) -> tuple[Risk, None]:
            options = {"columns": columns, "attacks": attacks, "seed": seed}
            return singling_out(inside, made, outside, confidence=sure, **options).risk, None

        return run

    for columns in settings.columns:
        name = f"singling-out, {columns} column(s)"
        if columns > len(names):
            skipped[name] = f"there are {len(names)} columns only"
            continue
        yield name, ("nothing", single(columns))
    joined = partial(plain, linkability, neighbours=settings.neighbours, attacks=attacks)
    half = len(quasi) // 2
    if not half:
        skipped["linkability, known columns"] = "needs 2 quasi-identifiers, one for each source"
    else:
        sides = f"{', '.join(quasi[:half])} in one source, {', '.join(quasi[half:])} in another"
        yield "linkability, known columns", (sides, joined(left=quasi[:half], right=quasi[half:]))
    if not linked:
        skipped["linkability, secret columns"] = "every column is a quasi-identifier"
    else:
        sides = f"{', '.join(quasi)} in one source, {', '.join(linked)} in another"
        yield "linkability, secret columns", (sides, joined(left=quasi, right=linked))
    if sensitive is None:
        skipped["inference"] = "no sensitive column was named"
    else:
        guess = plain(
            inference,
            known=quasi,
            secret=sensitive,
            tolerance=settings.tolerance,
            attacks=attacks,
        )
        yield "inference", (f"{', '.join(quasi)} of a person", guess)
    every = "every column of a person"
    yield "identical, original rows", (every, plain(identical))
    yield "identical, synthetic rows", ("nothing", plain(identical, released=True))

    def near(
        inside: Mixed, made: Mixed, outside: Mixed, sure: float
    ) -> tuple[Risk, Distances | None]:
        return closest(inside, made, outside, attacks=attacks, seed=seed, confidence=sure)

    yield "closest", (every, near)


def _run(
    planned: Mapping[str, tuple[str, Attack]],
    original: Mixed,
    synthetic: Mixed,
    control: Mixed,
    settings: SyntheticSettings,
    skipped: dict[str, str],
) -> tuple[dict[str, Risk], Distances]:
    """All attacks, with limits that hold at once, and the distances."""
    sure = family_confidence(settings.confidence, len(planned))
    found: dict[str, Risk] = {}
    near: Distances | None = None
    for name, (_, attempt) in planned.items():
        try:
            found[name], distances = attempt(original, synthetic, control, sure)
        except NotMeasurable as error:
            if name == "closest":
                raise
            skipped[name] = str(error)
            continue
        near = distances or near
    assert near is not None
    return found, near


def _measured(
    name: str,
    words: str,
    attacks: Mapping[str, Risk],
    knows: Mapping[str, str],
    utility: Utility,
) -> Measurement:
    results = results_of(attacks, knows)
    kinds: dict[str, Measured] = {}
    for kind in KINDS:
        own = [result for result in results if result.attack.startswith(kind)]
        if own:
            worst = risk_of(own)
            kinds[kind] = worst if isinstance(worst, Refusal) else worst.estimate
    risk = risk_of(results)
    return Measurement(
        name,
        words,
        {},
        results,
        utility,
        {**kinds, "excess": risk if isinstance(risk, Refusal) else risk.estimate},
        {
            "strongest": "" if isinstance(risk, Refusal) else risk.attack,
            "excess": {kind: excess.to_json() for kind, excess in kinds.items()},
        },
        (
            "original and control rows are drawn alike",
            "copies, nearest-neighbour and single-statement attacks; stronger ones may find more",
        ),
    )


def _utility_of(
    original: Mapping[str, NDArray[Any]],
    released: Mapping[str, NDArray[Any]],
    control: Mapping[str, NDArray[Any]],
    settings: SyntheticSettings,
) -> Utility:
    """A model is tested on the control rows, which no synthetic row was made from."""
    use = use_of(settings, original)
    if use is not None:
        return use.utility(released, control, control)
    value = _utility(original, released, settings)
    rows = len(next(iter(original.values())))
    return counted_utility(value, rows, settings.confidence, "released rows")


def _utility(
    original: Mapping[str, NDArray[Any]],
    released: Mapping[str, NDArray[Any]],
    settings: SyntheticSettings,
) -> float:
    """Overlap of two-way counts as shares, numbers in 8 groups of the original's neighbours."""
    if settings.queries:
        return answer_overlap(original, released, settings.queries)
    first = len(next(iter(original.values())))
    mine, theirs, groups = [], [], []
    for name, column in original.items():
        together = np.concatenate([column, released[name]])
        one = hierarchy(name, together)
        fine = [step for step, of in enumerate(one.steps) if of.max() > _BINS]
        step = min(len(fine), len(one.steps) - 1) if one.kind == "ordered" else 0
        coarse = one.at(step)
        mine.append(coarse[:first])
        theirs.append(coarse[first:])
        groups.append(np.arange(int(coarse.max()) + 1))
    scale = first / len(theirs[0])
    return count_overlap(mine, theirs, groups, scale=scale)


Json = dict[str, Any]
_PAPER = "Giomi et al. (Anonymeter), PoPETs 2023"
_PAPERS = {
    "identical": "identical match share, against a hold-out",
    "closest": "distance to closest record, against a hold-out (Platzer and Reutterer 2021)",
}
_TITLES = {
    "singling-out": "Statements that are true of one synthetic row, tried on one original",
    "linkability": "Two sources of columns, joined where their nearest synthetic rows agree",
    "inference": "Read the secret off the nearest synthetic row",
    "identical": "Take a synthetic row for a copy of a person's",
    "closest": "Tell an original row from another by its nearest synthetic row",
}
_LIMITS = (
    "The control rows must be drawn as the original ones were; otherwise the excess is wrong.",
    "The strongest of several attacks is taken; their limits hold at once, so that is allowed for.",
    f"An attack with fewer than {FEWEST} attempts is underpowered: its upper limit is not "
    "that of the risk.",
    "An attack that does not beat its blind baseline is weak, and its small excess says little.",
)


@dataclass(frozen=True, eq=False)
class SyntheticSubject(RowsSubject):
    """What the findings say of synthetic rows."""

    study: SyntheticStudy
    settings: SyntheticSettings
    name: str
    quasi: tuple[str, ...]
    sensitive: str | None
    fingerprint: str
    inputs: tuple[InputCheck, ...] = ()

    def facts(self) -> Facts:
        study, settings, quasi = self.study, self.settings, self.quasi
        original, made, control = study.rows
        return self.compose(
            name=self.name,
            summary=f"{made:,} synthetic rows, made from {original:,}; "
            f"{control:,} rows as control.",
            threat_model={
                "goal": "singling out, linkability, attribute inference, and finding copies",
                "knowledge": f"{', '.join(quasi)} of a person; the synthetic rows",
                "access": "all synthetic rows, not the model that made them",
                "budget": f"{settings.attacks} attempts of each attack",
                "unit": "row, one a person",
            },
            data={
                "records": original,
                "synthetic": made,
                "control": control,
                "columns": list(study.columns),
                "fingerprint": self.fingerprint,
            },
            attacks=[
                attack(
                    key,
                    _TITLES[key.split(",")[0]],
                    _PAPERS.get(key.split(",")[0], _PAPER),
                    f"the synthetic rows; {study.knows[key]}",
                    {"attempts": min(found.main.n, found.control.n)},
                )
                for key, found in study.attacks.items()
            ],
            not_run=[
                *({"name": key, "why": why} for key, why in study.skipped.items()),
                {
                    "name": "membership inference on the generator",
                    "why": "the generator is not given; lethe audit model does it",
                },
            ],
            utility=utility_in_words(
                settings, "two-way counts that are still right, numbers in 8 groups"
            ),
            risk="excess over the control, of the attack with the highest lower limit",
            checks=_checks(study),
            limits=_LIMITS,
            section=_section(study),
            reproduction={
                "quasi": list(quasi),
                "sensitive": self.sensitive,
                "attacks": settings.attacks,
                "columns": list(settings.columns),
                "neighbours": settings.neighbours,
                "tolerance": settings.tolerance,
                "linked": list(settings.linked),
            },
        )

    def plain_words(self) -> list[str]:
        """What was found, for a reader of nothing else."""
        study = self.study
        best = strongest(study.candidates[0].attacks)
        words = [
            f"The strongest attack is {best.attack}: its excess over the control is "
            f"{study.candidates[0].risk}."
        ]
        people, rows = (
            study.attacks.get(f"identical, {kind} rows") for kind in ("original", "synthetic")
        )
        if people is not None and rows is not None:
            words.append(
                f"Of 1,000 synthetic rows, {of_1000(rows.main)} are identical to a row they were "
                f"made from ({of_1000(rows.control)} to one of the control); of 1,000 original "
                f"rows, {of_1000(people.main)} have an identical synthetic row (control: "
                f"{of_1000(people.control)})."
            )
        near = study.distances
        words.append(
            "Mean distance to the closest synthetic row: original less control "
            f"{near.change} (original {near.original}, control {near.control}; 0 = identical)."
        )
        for key, found in study.attacks.items():
            if key.startswith(("identical", "closest")):
                continue
            main, control = 100 * (found.main.value or 0), 100 * (found.control.value or 0)
            text = (
                f"{key[:1].upper()}{key[1:]}: right in {main:.3g} of 100 attempts against the "
                f"original people, in {control:.3g} against others"
            )
            text += "." if found.works else "; it does not beat a random guess, so it says little."
            words.append(text)
        weak = [result for result in study.candidates[0].attacks if not result.powered]
        words += [
            f"{result.attack} is underpowered ({result.why}): it limits nothing." for result in weak
        ]
        return words


def _section(study: SyntheticStudy) -> Json:
    original, made, control = study.rows
    distances = study.distances
    return {
        "kind": "synthetic",
        "rows": {"original": original, "synthetic": made, "control": control},
        "attacks": _listed(study.attacks, study.knows),
        "leaky": _listed(study.leaky, study.knows),
        "distances": {
            "original": distances.original.to_json(),
            "control": distances.control.to_json(),
            "change": distances.change.to_json(),
        },
    }


def _checks(study: SyntheticStudy) -> list[Json]:
    rows = []
    for result in results_of(study.attacks, study.knows):
        found = study.attacks[result.attack]
        if not result.powered:
            rows.append(check(f"{result.attack} has power", "warn", result.why))
        if result.attack.startswith(("identical", "closest")):
            continue  # where there is no copy, finding none is right
        blind = found.baseline.value or 0.0
        detail = (
            f"{found.main.value or 0.0:.3f} against a blind {blind:.3f}"
            if found.works
            else f"it does not beat the random guess of {blind:.3f} beyond doubt"
        )
        rows.append(check(f"{result.attack} works", "pass" if found.works else "warn", detail))
    most = study.candidates[1].risk
    seen = isinstance(most, Estimate) and most.low is not None and most.low > 0
    detail = f"{LEAKY}, in place of the synthetic ones: excess of the strongest attack {most}"
    return [*rows, check("a known leak is seen", "pass" if seen else "warn", detail, "original")]


def _listed(attacks: Mapping[str, Risk], knows: Mapping[str, str]) -> list[Json]:
    return [
        {
            "name": result.attack,
            "knows": result.knows,
            "powered": result.powered,
            "main": attacks[result.attack].main.to_json(),
            "control": attacks[result.attack].control.to_json(),
            "baseline": attacks[result.attack].baseline.to_json(),
            "excess": attacks[result.attack].excess.to_json(),
            "works": attacks[result.attack].works,
        }
        for result in results_of(attacks, knows)
    ]
