"""Settings: what is taken, what is refused and in which words."""

import pytest

from lethe.errors import InputError
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.candidates import build_candidates
from lethe.membership.settings import AuditSettings
from lethe.training.recipe import TorchRecipe


def module():
    import torch

    return torch.nn.Linear(2, 2)


TORCH = TorchRecipe(module, epochs=9, batch_size=25)


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"models": 3}, "models=3 must be at least 4."),
        ({"models": float("nan")}, "models=nan must be at least 4."),
        ({"seed": -1}, "seed=-1 must be at least 0."),
        ({"confidence": 1.0}, r"confidence=1.0 must be in \(0, 1\)."),
        ({"confidence": 0}, r"confidence=0 must be in \(0, 1\)."),
        ({"confidence": 95}, r"confidence=95 must be in \(0, 1\)."),
        ({"margin": -0.1}, r"margin=-0.1 must be in \[0, inf\)."),
        ({"holdout": 0}, r"holdout=0 must be in \(0, 0.9\]."),
        ({"holdout": 0.95}, r"holdout=0.95 must be in \(0, 0.9\]."),
        ({"noise": -0.1}, r"noise=-0.1 must be in \[0, inf\)."),
        ({"noise": float("inf")}, r"noise=inf must be in \[0, inf\)"),
        ({"alpha": -1.0}, r"alpha=-1.0 must be in \[0, inf\)"),
        ({"alpha": float("nan")}, r"alpha=nan must be in \[0, inf\)"),
        ({"beta": -1.0}, r"beta=-1.0 must be in \[0, inf\)"),
        ({"margin": float("nan")}, r"margin=nan must be in \[0, inf\)"),
        ({"variance": "per_record"}, "variance='per_record' .* Did you mean 'per-record'?"),
        ({"rule": ("tpr<=1",)}, "rule 'tpr<=1': write tpr@0.01."),
        ({"rule": ("auk<=1",)}, "unknown metric 'auk'"),
        ({"rule": ("tpr@2<=1",)}, r"FPR of a rule=2.0 must be in \(0, 1\)."),
        ({"alpha": 0, "noise": 0}, "alpha=0 and noise=0 leave nothing to compare"),
    ],
)
def test_bad_values(wrong, message):
    with pytest.raises(InputError, match=message):
        AuditSettings(**wrong)


def test_rates_of_the_gate_are_measured():
    made = AuditSettings(rule=("tpr@0.05<=0.2", "tau@0.001<=2", "auc<=0.6"))
    assert made.fprs() == (0.1, 0.05, 0.01, 0.001)
    assert [str(rule) for rule in made.rules()] == [
        "tpr@0.05 <= 0.2",
        "tau@0.001 <= 2",
        "auc <= 0.6",
    ]


def test_no_noise_leaves_out_the_noisy_candidates():
    built, _ = build_candidates(AuditSettings(noise=0.0), TORCH)
    assert [one.name for one in built] == [
        "baseline",
        "weighted",
        "removal",
        "equal-mean-weight",
        "early-stopping",
    ]


def test_attacks_are_named_or_left_to_auto_or_all():
    assert AuditSettings(attack=("gap", *list(ATTACKS)[:2])).attack[0] == "gap"
    with pytest.raises(InputError, match="attack='lira' must be one of 'auto', 'all', 'lira-on"):
        AuditSettings(attack=("lira",))
    for odd in ((), ("auto", "gap"), ("all", "auto")):
        with pytest.raises(InputError, match="name attacks, or say 'auto' or 'all' alone"):
            AuditSettings(attack=odd)
