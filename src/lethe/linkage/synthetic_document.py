"""What the findings say of synthetic rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lethe.evidence.estimate import Estimate
from lethe.linkage.document import Account, attack, check, utility_in_words
from lethe.linkage.risk import Risk
from lethe.linkage.settings import SyntheticSettings
from lethe.linkage.synthetic_study import LEAKY, SyntheticStudy, worst

Json = dict[str, Any]
_PAPER = "Giomi et al. (Anonymeter), PoPETs 2023"


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
            "goal": "singling out, linkability and attribute inference",
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
            attack(key, key, _PAPER, "the synthetic rows", {"attempts": settings.attacks})
            for key in study.attacks
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
        risk="largest excess over the control of singling-out, linkability and inference",
        ways=study.ways,
        skipped=study.skipped,
        checks=_checks(study),
        words=plain_words(study),
        limits=[
            "The control rows must be drawn as the original ones were; otherwise the excess is "
            "wrong.",
            "The largest of several excesses is taken: by chance it is above 0 more often than "
            "any one of them.",
            "An attack that does not beat its blind baseline is weak, and its small excess says "
            "little.",
        ],
        section={
            "kind": "synthetic",
            "rows": {"original": original, "synthetic": made, "control": control},
            "attacks": _listed(study.attacks),
            "leaky": _listed(study.leaky),
        },
        settings={
            "quasi": list(quasi),
            "sensitive": sensitive,
            "attacks": settings.attacks,
            "columns": list(settings.columns),
            "neighbours": settings.neighbours,
            "tolerance": settings.tolerance,
        },
    )


def plain_words(study: SyntheticStudy) -> list[str]:
    """What was found, for somebody who reads nothing else."""
    words = []
    for key, found in study.attacks.items():
        main, control = 100 * (found.main.value or 0), 100 * (found.control.value or 0)
        text = (
            f"{key[:1].upper()}{key[1:]}: right in {main:.3g} of 100 attempts against the "
            f"original people, in {control:.3g} against others"
        )
        text += "." if found.works else "; it does not beat a blind guess, so it says little."
        words.append(text)
    return words


def _checks(study: SyntheticStudy) -> list[Json]:
    rows = []
    for key, found in study.attacks.items():
        blind = found.baseline.value or 0.0
        detail = (
            f"{found.main.value or 0.0:.3f} against a blind {blind:.3f}"
            if found.works
            else f"it does not beat the blind guess of {blind:.3f} beyond doubt"
        )
        rows.append(check(f"{key} works", "pass" if found.works else "warn", detail))
    _, most = worst(study.leaky)
    seen = isinstance(most, Estimate) and most.low is not None and most.low > 0
    detail = f"{LEAKY}, in place of the synthetic ones: largest excess {most}"
    return [*rows, check("a known leak is seen", "pass" if seen else "warn", detail, "original")]


def _listed(attacks: Mapping[str, Risk]) -> list[Json]:
    return [
        {
            "name": key,
            "main": found.main.to_json(),
            "control": found.control.to_json(),
            "baseline": found.baseline.to_json(),
            "excess": found.excess.to_json(),
            "works": found.works,
        }
        for key, found in attacks.items()
    ]
