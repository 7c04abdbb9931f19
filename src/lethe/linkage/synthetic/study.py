"""Synthetic rows against those they were made from: attacks, a control, plants, findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.run import AuditFacts, check
from lethe.assess.verdict import InputCheck
from lethe.data.columns import as_text
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.document import AttackRow, CheckRow, NotRun
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.of_rows import (
    Distances,
    NearPeople,
    SyntheticAttack,
    SyntheticDetails,
    SyntheticSection,
)
from lethe.evidence.risk import AttackResult, family_confidence, risk_of
from lethe.evidence.sight import Plant, forbidden, smallest_seen
from lethe.linkage.document import (
    BASELINE,
    FEWEST,
    RowsSubject,
    fields_of,
    measured_only,
    percent,
    strongest,
    utility_in_words,
)
from lethe.linkage.settings import SyntheticSettings
from lethe.linkage.synthetic.control import as_whole_numbers, file_checks, refuse_same_files
from lethe.linkage.synthetic.copies import (
    ENCODED,
    IDENTICAL,
    INFERENCE,
    PAIRS,
    SINGLE,
    TAILS,
    chance_of,
    copy_risks,
    decoded,
    distances,
    identical_rows,
    in_pairs,
    nearness,
    single_values,
    singling_out,
    tried,
)
from lethe.linkage.synthetic.nearest import (
    Files,
    Mixed,
    guess_secret,
    linkability,
    mix,
    ranked,
)
from lethe.linkage.synthetic.partial import PART, in_part, with_words
from lethe.linkage.synthetic.planted import plants_of
from lethe.linkage.synthetic.ratios import discriminator, domias, gen_lra, surroundings
from lethe.linkage.synthetic.risk import Risk, measures_of, results_of, risk_in
from lethe.linkage.table.recoding import hierarchy
from lethe.linkage.utility import Utility, answer_overlap, count_overlap, counted_utility, use_of
from lethe.training.fingerprint import digest, hash_array

DOMIAS, GEN_LRA = "density ratio, DOMIAS", "density ratio, Gen-LRA"
DISCRIMINATOR = "discriminator"
_BINS = 8  # groups of neighbours of a number, so that its counts are not all 1
_PAIRS = 2000  # rows of each side that are looked for in files whose columns may be encoded
_CELLS = 2**32  # values that are compared for the nearest rows, at most; a quarter for guesses


def study_synthetic(
    original: Mapping[str, NDArray[Any]],
    synthetic: Mapping[str, NDArray[Any]],
    control: Mapping[str, NDArray[Any]],
    quasi: tuple[str, ...],
    sensitive: str | None,
    settings: SyntheticSettings,
    name: str = "synthetic rows",
) -> SyntheticSubject:
    """Attack synthetic rows, and plant original ones in them.

    Args:
        synthetic: rows that are released, with the same columns.
        quasi: columns that the adversary knows.
        sensitive: column that is guessed; None leaves inference out.

    Raises InputError: tables that do not fit each other, or unknown columns.
    """
    rounded, notes = as_whole_numbers(original, synthetic)
    files = Files(*mix(original, rounded, control))
    inside, released, outside = files
    known, seed = inside.places("quasi", quasi), settings.seed
    refuse_same_files(files)
    skipped: dict[str, str] = {}
    asked = dict(_asked_for(files, quasi, settings, skipped))
    # The attacks are fixed before anything is measured: their limits hold at once.
    knows = _knows(inside, quasi, sensitive, settings)
    knows |= {name: words for name, (words, _) in asked.items()}
    sure = family_confidence(settings.confidence, len(knows))
    most = max(FEWEST, _CELLS // (2 * len(released) * len(released.names)))
    outcomes = {
        IDENTICAL: identical_rows(files, seed, sure),
        "closest": nearness(ranked(files), most, seed),
    }
    if SINGLE in knows:
        outcomes[SINGLE] = single_values(files, seed)
    guess = None
    try:
        if sensitive is not None:
            outcomes[INFERENCE], guess = guess_secret(
                files, quasi, sensitive, settings.tolerance, max(FEWEST, most // 4), seed, sure
            )
    except NotMeasurable as error:
        skipped[INFERENCE] = str(error)
    rest = [index for index in range(len(inside.names)) if index not in known]
    view = surroundings(files, [known, rest], seed)
    further = {name: partial(run, confidence=sure) for name, (_, run) in asked.items()}
    ratios = {DOMIAS: domias, GEN_LRA: gen_lra, DISCRIMINATOR: discriminator}
    runs: dict[str, Callable[[], Risk]] = {
        name: partial(ratio, view, sure) for name, ratio in ratios.items()
    }
    runs |= {name: partial(run, released) for name, run in further.items()}
    if ENCODED in knows:
        hidden = nearness(decoded(files), min(most, _PAIRS), seed)
        runs[ENCODED] = partial(in_pairs, hidden.main, hidden.control, sure)

    def part() -> Risk:
        wide = with_words(original, rounded, control)
        read = Files(*mix(*wide)) if len(wide[0]) > len(original) else files
        return risk_in(in_part(read, min(most, _PAIRS), seed), sure)

    runs[PART] = part
    risks = dict(copy_risks(outcomes, sure)) | {name: tried(run) for name, run in runs.items()}
    attacks = {name: risk for name, risk in risks.items() if isinstance(risk, Risk)}
    skipped |= {name: str(error) for name, error in risks.items() if name not in attacks}
    limits = [forbidden(rule.limit) for rule in settings.rules() if rule.limit < 1]
    plants = plants_of(files, outcomes, guess, further, limits, sure, seed)
    utility = _utility_of(original, synthetic, control, settings).estimate
    return SyntheticSubject(
        settings,
        (_measured(results_of(attacks, knows), utility, plants),),
        skipped,
        name,
        quasi,
        sensitive,
        digest(*(hash_array(as_text(synthetic[column])) for column in inside.names)),
        attacks,
        knows,
        distances(outcomes["closest"].main, outcomes["closest"].control, sure),
        (len(inside), len(released), len(outside)),
        inside.names,
        (*notes, *file_checks(files, (original, rounded, control), outcomes, seed)),
    )


def _knows(
    rows: Mixed, quasi: tuple[str, ...], sensitive: str | None, settings: SyntheticSettings
) -> dict[str, str]:
    """Say what the adversary of each attack knows."""
    every = "every column of a person"
    ratios = f"{every}, and other people's rows"
    return {
        IDENTICAL: every,
        **dict.fromkeys([*TAILS, PAIRS, PART], every),
        **({ENCODED: every} if any(map(rows.is_number, range(len(rows.names)))) else {}),
        **({SINGLE: "nothing"} if 1 in settings.columns else {}),
        **({} if sensitive is None else {INFERENCE: f"{', '.join(quasi)} of a person"}),
        **{DOMIAS: ratios, GEN_LRA: ratios, DISCRIMINATOR: f"{ratios}, some of them used"},
    }


def _asked_for(
    files: Files,
    quasi: tuple[str, ...],
    settings: SyntheticSettings,
    skipped: dict[str, str],
) -> Iterator[tuple[str, tuple[str, Callable[..., Risk]]]]:
    """Attacks that are never the strongest, where a rule or an option asks for them."""
    inside = files.original
    several: dict[str, Any] = {"seed": settings.seed, "attacks": settings.attacks}
    linked = settings.linked or tuple(name for name in inside.names if name not in quasi)
    inside.places("linked", linked or quasi)
    if shared := sorted(set(settings.linked) & set(quasi)):
        raise InputError(f"{shared[0]!r} is in quasi and in linked. Give each column one side.")

    def run(attack: Callable[..., Risk], rows: Mixed, **options: Any) -> Risk:
        return attack(files._replace(synthetic=rows), **several, **options)

    for columns in (count for count in settings.columns if count != 1):
        name = f"singling-out, {columns} column(s)"
        if columns > len(inside.names):
            skipped[name] = f"there are {len(inside.names)} columns only"
        else:
            yield name, ("nothing", partial(run, singling_out, columns=columns))
    half = len(quasi) // 2
    wanted = settings.linked or any(rule.metric == "linkability" for rule in settings.rules())
    for which, left, right in (
        ("known", quasi[:half], quasi[half:]),
        ("secret", quasi, linked),
    ):
        name = f"linkability, {which} columns"
        if not (left and right):
            skipped[name] = "each of two sources needs a column"
        elif not wanted:
            skipped[name] = "no rule asks for linkability, and no linked columns were named"
        else:
            words = f"{', '.join(left)} in one source, {', '.join(right)} in another"
            sides = partial(linkability, left=left, right=right, neighbours=settings.neighbours)
            yield name, (words, partial(run, sides))


def _measured(
    results: Sequence[AttackResult], utility: Estimate, plants: Sequence[Plant]
) -> Candidate:
    measures, risk = measures_of(results), risk_of(results)
    excess = {kind: measure for kind, measure in measures.items() if kind != "excess"}
    strongest = "" if isinstance(risk, Refusal) else risk.attack
    label = measured_only(
        "original and control rows are drawn alike",
        "attacks on copies, by density and by a discriminator; stronger ones may find more",
    )
    return Candidate(
        BASELINE,
        "the synthetic rows",
        {},
        utility,
        results,
        label,
        details=SyntheticDetails(strongest=strongest, excess=excess),
        measures={**measures, "utility-loss": None},
        plants=plants,
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
        return use(released, control, control)
    first = len(next(iter(original.values())))
    if settings.queries:
        value = answer_overlap(original, released, settings.queries)
        return counted_utility(value, first, settings.confidence, "released rows")
    # Overlap of two-way counts as shares, numbers in 8 groups of the original's neighbours.
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
    value = count_overlap(mine, theirs, groups, scale=first / len(theirs[0]))
    return counted_utility(value, first, settings.confidence, "released rows")


_PAPER = "Giomi et al. (Anonymeter), PoPETs 2023"
_PAPERS = {
    "identical": "identical match share, against a hold-out",
    "closest": "distance to closest record, against a hold-out (Platzer and Reutterer 2021)",
    DOMIAS: "DOMIAS (van Breugel et al., AISTATS 2023)",
    GEN_LRA: "Gen-LRA (Ward et al. 2024)",
    DISCRIMINATOR: "boosted trees, cross-fitted",
}
_TITLES = {
    "singling-out": "Statements read off the synthetic rows that are true of one original",
    "linkability": "Two sources of columns, joined where their nearest synthetic rows agree",
    "inference": "Read the secret off the nearest synthetic row",
    "identical": "Take a synthetic row for a copy of a person's",
    "closest": "Count people with a synthetic row nearer than hardly any control person has",
    "density ratio": "Take people for original ones where synthetic rows are denser than others",
    DISCRIMINATOR: "Learn from distances to the synthetic rows who is an original",
}
_LIMITS = (
    "The control rows must be drawn as the original ones were; otherwise the excess is wrong.",
    "The strongest of several attacks is taken; their limits hold at once, so that is allowed for.",
    "An inference that does not beat its blind baseline is weak, and its small excess says little.",
    "Copied columns that are mirrored or under each other's names are found where all are copied; "
    "beside columns of other people they are not looked for.",
)
_COPIES = ("identical", "closest", "density", DISCRIMINATOR)  # finding none is right without one


@dataclass(frozen=True, eq=False)
class SyntheticSubject(RowsSubject):
    """All measurements on synthetic rows, and the findings about them."""

    counted = "rows of the original or the control"
    settings: SyntheticSettings
    measured: tuple[Candidate]  # the synthetic rows
    skipped: Mapping[str, str]
    name: str
    quasi: tuple[str, ...]
    sensitive: str | None
    fingerprint: str
    attacks: dict[str, Risk]  # risks by attack
    knows: dict[str, str]  # by planned attack, what the adversary holds beside the synthetic rows
    distances: Distances  # to the closest synthetic row, of original and control rows
    rows: tuple[int, int, int]  # original, synthetic and control ones
    columns: tuple[str, ...]  # names
    inputs: tuple[InputCheck, ...] = ()

    def facts(self) -> AuditFacts:
        settings, quasi = self.settings, self.quasi
        original, synthetic, control = self.rows
        return self.compose(
            name=self.name,
            summary=f"{synthetic:,} synthetic rows, made from {original:,}; "
            f"{control:,} rows as control.",
            threat_model={
                "goal": "singling out, linkability, attribute inference, and finding copies",
                "knowledge": f"{', '.join(quasi)} of a person; the synthetic rows",
                "access": "all synthetic rows, not the model that made them",
                "budget": f"every row; {settings.attacks} attempts of linkability",
                "unit": "row, one a person",
            },
            data={
                "records": original,
                "synthetic": synthetic,
                "control": control,
                "columns": list(self.columns),
                "fingerprint": self.fingerprint,
            },
            attacks=[
                AttackRow(
                    key,
                    _TITLES[key.split(",")[0]],
                    _PAPERS.get(key, _PAPERS.get(key.split(",")[0], _PAPER)),
                    f"the synthetic rows; {self.knows[key]}",
                    {"attempts": min(risk.main.n, risk.control.n)},
                )
                for key, risk in self.attacks.items()
            ],
            attacks_not_run=[
                *(NotRun(key, why) for key, why in self.skipped.items()),
                NotRun(
                    "membership inference on the generator",
                    "the generator is not given; lethe audit model does it",
                ),
            ],
            utility=utility_in_words(
                settings, "two-way counts that are still right, numbers in 8 groups"
            ),
            risk="excess over the control: highest lower and highest upper limit of all attacks",
            checks=_checks(self),
            limits=_LIMITS,
            section=SyntheticSection(
                rows={"original": original, "synthetic": synthetic, "control": control},
                attacks=[
                    SyntheticAttack(
                        *(result.attack, result.knows, result.powered),
                        **vars(self.attacks[result.attack]),
                    )
                    for result in results_of(self.attacks, self.knows)
                ],
                people=_counted(self),
                distances=self.distances,
                words=self.plain_words(),
            ),
            reproduction={
                "quasi": list(quasi),
                "sensitive": self.sensitive,
                **fields_of(settings, "attacks", "columns", "neighbours", "tolerance", "linked"),
            },
        )

    def plain_words(self) -> list[str]:
        """Say what was found, in sentences for a lay reader."""
        best, risk = strongest(self.measured[0].attacks), self.measured[0].risk
        ends = (
            "" if isinstance(risk, Refusal) else f" ({percent(risk.low)} to {percent(risk.high)})"
        )
        words = [
            f"The strongest attack is {best.attack}: {percent(risk)}{ends} beyond the control."
        ]
        copied, *tails = _counted(self)
        for one in [copied, *sorted(tails, key=lambda near: near.p)[:1]]:
            text = (
                "an identical synthetic row"
                if one.attack == IDENTICAL
                else f"a synthetic row closer than {100 * one.share:g} % of control rows do"
            )
            words.append(
                f"{one.people:,} of {one.of:,} original rows have {text} "
                f"({one.expected:.3g} expected; p = {one.p:.1g})."
            )
        near = self.distances
        words.append(
            "Mean distance to the closest synthetic row: original less control "
            f"{near.change} (original {near.original}, control {near.control}; 0 = identical)."
        )
        return words


def _counted(study: SyntheticSubject) -> list[NearPeople]:
    """People with an identical or a near synthetic row, beside what the control leads to expect.

    The p-value is that of all attacks together (Bonferroni).
    """
    rows = []
    for name, risk in study.attacks.items():
        if name != IDENTICAL and name not in TAILS:
            continue
        share, control, n = risk.main.value or 0.0, risk.control.value or 0.0, risk.main.n
        p = min(1.0, len(study.knows) * chance_of(risk))
        rows.append(NearPeople(name, TAILS.get(name, 0.0), round(share * n), n, control * n, p))
    return rows


def _checks(study: SyntheticSubject) -> list[CheckRow]:
    rows = []
    for result in results_of(study.attacks, study.knows):
        risk = study.attacks[result.attack]
        if not result.powered:
            rows.append(check(f"{result.attack} has power", "warn", result.why))
        if result.attack.startswith(_COPIES):
            continue
        blind = risk.baseline.value or 0.0
        detail = (
            f"{risk.main.value or 0.0:.3f} against a blind {blind:.3f}"
            if risk.works
            else f"it does not beat the random guess of {blind:.3f} beyond doubt"
        )
        rows.append(check(f"{result.attack} works", "pass" if risk.works else "warn", detail))
    least = smallest_seen(study.measured[0].plants or (), "excess", 0.0)
    detail = "original rows that were written into the synthetic ones, as these are written, "
    detail += "were not found" if least is None else f"were found from {100 * least:.2g} % on"
    seen = "warn" if least is None else "pass"
    return [*rows, check("a known leak is seen", seen, detail, BASELINE)]
