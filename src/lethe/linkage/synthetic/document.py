"""What the findings say of synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.assess.run import attack, check
from lethe.evidence.estimate import Estimate
from lethe.linkage.document import Account, of_1000, utility_in_words
from lethe.linkage.measurement import FEWEST, strongest
from lethe.linkage.settings import SyntheticSettings
from lethe.linkage.synthetic.risk import Risk
from lethe.linkage.synthetic.study import LEAKY, SyntheticStudy, results_of

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


def account_of_synthetic(
    study: SyntheticStudy,
    name: str,
    quasi: tuple[str, ...],
    sensitive: str | None,
    fingerprint: str,
    settings: SyntheticSettings,
) -> Account:
    """All that is to be said."""
    original, made, control = study.rows
    return Account(
        name=name,
        summary=f"{made:,} synthetic rows, made from {original:,}; {control:,} rows as control.",
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
            "fingerprint": fingerprint,
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
        candidates=study.candidates,
        skipped=study.skipped,
        checks=_checks(study),
        words=plain_words(study),
        limits=[
            "The control rows must be drawn as the original ones were; otherwise the excess is "
            "wrong.",
            "The strongest of several attacks is taken; their limits hold at once, so that is "
            "allowed for.",
            f"An attack with fewer than {FEWEST} attempts is underpowered: its upper limit is not "
            "that of the risk.",
            "An attack that does not beat its blind baseline is weak, and its small excess says "
            "little.",
        ],
        section={
            "kind": "synthetic",
            "rows": {"original": original, "synthetic": made, "control": control},
            "attacks": _listed(study.attacks, study.knows),
            "leaky": _listed(study.leaky, study.knows),
            "distances": {
                "original": study.distances.original.to_json(),
                "control": study.distances.control.to_json(),
                "change": study.distances.change.to_json(),
            },
        },
        settings={
            "quasi": list(quasi),
            "sensitive": sensitive,
            "attacks": settings.attacks,
            "columns": list(settings.columns),
            "neighbours": settings.neighbours,
            "tolerance": settings.tolerance,
            "linked": list(settings.linked),
        },
    )


def plain_words(study: SyntheticStudy) -> list[str]:
    """What was found, for somebody who reads nothing else."""
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
            f"Of 1,000 synthetic rows, {of_1000(rows.main)} are identical to a row they were made "
            f"from ({of_1000(rows.control)} to one of the control); of 1,000 original rows, "
            f"{of_1000(people.main)} have an identical synthetic row (control: "
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
        text += "." if found.works else "; it does not beat a blind guess, so it says little."
        words.append(text)
    weak = [result for result in study.candidates[0].attacks if not result.powered]
    words += [
        f"{result.attack} is underpowered ({result.why}): it limits nothing." for result in weak
    ]
    return words


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
            else f"it does not beat the blind guess of {blind:.3f} beyond doubt"
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
