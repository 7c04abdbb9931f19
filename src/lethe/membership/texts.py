"""The words of a membership audit: threat model, attacks, limits, verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lethe.assess.run import Verdict, attack, outcome_words
from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.frontier import Candidate
from lethe.membership.attacks.attack import Available
from lethe.membership.attacks.registry import ATTACKS
from lethe.training.shadows import Shadows

_BEYOND = [
    {
        "name": "attribute inference, inversion, extraction, reconstruction",
        "why": "this audit asks whether a record was in the training set, nothing else",
    },
    {"name": "one-run canaries", "why": "they need a training of their own: lethe canaries"},
]


def attack_entry(name: str, variance: str) -> dict[str, Any]:
    """Entry of an attack that was run."""
    run = ATTACKS[name]
    settings = {"variance": variance} if run.variance else {}
    return attack(name, run.title, run.paper, run.threat, settings)


def not_run(names: Iterable[str], shadows: Shadows) -> list[dict[str, str]]:
    """Attacks that were not run, each with the reason.

    Args:
        names: of those that were run.
    """
    done, available = set(names), Available.of(shadows)
    listed = [
        {"name": name, "why": ATTACKS[name].lacks(available) or "not asked for (--attack all)"}
        for name in ATTACKS
        if name not in done
    ]
    return [*listed, *_BEYOND]


def risk_name(fpr: float | None) -> str:
    """Name of the frontier's risk."""
    return "auc of the strongest attack" if fpr is None else f"tpr@{fpr:g} of the strongest attack"


def operating_rule(margin: float) -> str:
    """The rule, fixed before the run, that names the candidate to take."""
    return (
        "lowest risk among the candidates whose utility loss has an upper limit of at most "
        f"{margin:g}"
    )


def summary(name: str, shadows: Shadows, trained: bool) -> str:
    """One sentence on what was audited."""
    how = "trained for this audit" if trained else "whose scores were handed in"
    return (
        f"A model trained on {name}, audited through {shadows.models} shadow models {how}, "
        f"over {shadows.records} records that may or may not have been in training."
    )


def threat_model(shadows: Shadows) -> dict[str, str]:
    """Goal, knowledge, access, budget and unit of the attacker."""
    answers = {
        "classification": "class scores (logits or probabilities)",
        "regression": "predictions",
    }.get(shadows.task or "", "outputs of the model")
    return {
        "goal": "membership: was this record in the training set?",
        "knowledge": "the training recipe, the mitigation and its weights, and other records of "
        "the same population",
        "access": f"{answers} for chosen records; one query a record",
        "budget": f"{shadows.models} shadow models trained like the target",
        "unit": "one record"
        if shadows.groups is None
        else "one person: all records of a person are in training together or not at all; "
        "rates count records, intervals and limits count persons",
    }


def limits(
    shadows: Shadows, notes: Sequence[str], candidates: Sequence[Candidate] = ()
) -> list[str]:
    """What this audit cannot say.

    Args:
        notes: of the loader, if the audit trained its shadow models.
    """
    proven = _proven(candidates)
    only = f"only {proven}" if proven else "no mitigation here"
    listed = [
        "An attack gives a lower limit of what leaks. That it fails is no proof that nothing does.",
        "The rates hold for records like these, models trained like these, and the attacks listed.",
        "The rate is an average over records; a few records can be far more exposed than it says.",
        "Targeted weights are computed from the private records and are themselves a function of "
        f"them; {only} carries a formal guarantee.",
    ]
    if proven:
        listed.append(
            "A guarantee speaks about one training at its settings. To choose a candidate from "
            "this frontier is a further look at the records, which it does not count."
        )
    if shadows.task == "regression":
        listed.append(
            "The attacks read minus the absolute error, whose spread over models is skewed where "
            "predictions fall on both sides of the target; the likelihood-ratio attack takes it "
            "for Gaussian, so that a sharper one may find more."
        )
    if any("standard deviation" in note for note in notes):
        listed.append(
            "Inputs were scaled with statistics of all records; this small leak is not attacked"
            + (
                "; private training scales them anew by the held-out records, which it takes as "
                "public. Lists of categories, and medians in the place of missing numbers, still "
                "come from all records, and no guarantee here covers them."
                if proven
                else "."
            )
        )
    if shadows.groups is None:
        listed.append(
            "Each record counts as one person; if people have several records, they are more "
            "exposed than shown."
        )
    else:
        listed.append(
            "The rates are of attacks on each record by itself; an attacker who adds up all "
            "records of a person does better: see who bears the risk."
        )
    return listed


def moved_words(change: Measured, newly: int, others: int) -> str:
    """Did risk move to records that were not among the most exposed?"""
    if isinstance(change, Refusal):
        trend = "their average exposure cannot be compared"
    elif change.low is not None and change.low > 0:
        trend = "the other records became more exposed on average"
    elif change.high is not None and change.high < 0:
        trend = "the other records became less exposed on average"
    else:
        trend = "the exposure of the other records did not change measurably on average"
    return (
        f"Of {others} records outside the baseline's most exposed 1 %, {newly} became "
        f"significantly more exposed (false discoveries held at 5 %); {trend}."
    )


def verdict_words(verdict: Verdict, fpr: float | None) -> list[str]:
    """The verdict in plain words, most important first."""
    frontier, chosen = verdict.frontier, verdict.chosen
    candidates, margin = frontier.candidates, frontier.margin
    by_name = {candidate.name: candidate for candidate in candidates}
    words = [outcome_words(verdict), _risk_words(candidates[0], fpr)]
    if chosen is not None:
        words.append(
            f"Within the allowed utility loss of {margin:g}, '{chosen}' carries the lowest risk. "
            + _risk_words(by_name[chosen], fpr, verdict.recommended)
            + " The limits allow for the choice."
        )
    elif len(candidates) > 1:
        cheapest = frontier.cheapest_large_reduction()
        words.append(
            f"No mitigation lowered the risk with a utility loss proven to stay within {margin:g}."
            + (f" The cheapest that halves it is '{cheapest}'." if cheapest else "")
        )
    proven = _proven(candidates)
    words.append(
        f"A guarantee comes with {proven} only; all else is measured: a stronger attack may find "
        "more."
        if proven
        else "All of this is measured, nothing is proven: a stronger attack may find more."
    )
    return words


def _proven(candidates: Sequence[Candidate]) -> str:
    """Names of the candidates that carry a proof."""
    return ", ".join(f"'{one.name}'" for one in candidates if one.guarantee.proven)


def _risk_words(candidate: Candidate, fpr: float | None, risk: Measured | None = None) -> str:
    risk = candidate.risk if risk is None else risk
    if isinstance(risk, Refusal):
        return f"The risk of '{candidate.name}' cannot be measured: {risk.reason}"
    assert risk.value is not None and risk.low is not None and risk.high is not None
    if fpr is None:
        return (
            f"'{candidate.name}': the strongest attack orders a member before a non-member in "
            f"{risk.value:.1%} of cases ({risk.low:.1%} to {risk.high:.1%}); guessing gives 50 %."
        )
    return (
        f"'{candidate.name}': of 1,000 training records, an attacker who may be wrong about "
        f"{round(1000 * fpr)} of 1,000 non-members names {round(1000 * risk.value)} "
        f"({1000 * risk.low:.0f} to {1000 * risk.high:.0f}); a random guess names "
        f"{round(1000 * fpr)}."
    )
