"""One contract for all attacks: null scores, invariances, refusals, given targets."""

from dataclasses import replace

import numpy as np
import pytest
from simulated import DESIGNS, gaps, paired, shadows, signals

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.membership.attacks import learned
from lethe.membership.attacks.attack import Attack, Available
from lethe.membership.attacks.registry import ATTACKS, AUTO, choose_attacks
from lethe.membership.audit import audit_scores
from lethe.membership.checks import null_audit
from lethe.membership.leave_one_out import scored_cells
from lethe.membership.planted import Values, exchanged, twin
from lethe.membership.scoring import score
from lethe.membership.settings import AuditSettings
from lethe.training.shadows import Shadows

NAMES = tuple(name for name in ATTACKS if name != "quantile")
"""All but the one that trains a regression for each target: its own tests hold it to the same."""
HELD = 80


def audit(members, seed=0, gap=0.0, held=HELD) -> Shadows:
    """Shadow models with a population that no model has seen."""
    rng = np.random.default_rng([seed, 31])
    own = shadows(members, signals(members, seed, gap))
    outside = rng.normal(size=held) + rng.normal(0, 1, (len(members), held))
    copies = np.stack([signals(members, [seed, at], gap) for at in (1, 2)], axis=2)
    return replace(
        own,
        population=outside.astype(np.float32),
        correct=own.signals > 0,
        queries=copies.astype(np.float32),
    )


@pytest.mark.parametrize("design", DESIGNS)
def test_all_attacks_score_the_same_cells(design):
    members = DESIGNS[design](7, 200, 2)
    for name, found in score(audit(members, 2), NAMES).items():
        assert (np.isfinite(found) == scored_cells(members)).all(), name


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_records_decides_nothing_that_is_not_drawn(name):
    """Folds and draws follow the rows; everything else must follow the record."""
    members = paired(6, 300, 4)
    whole = audit(members, 4, 1.0)
    order = np.random.default_rng(0).permutation(300)
    mixed = whole.of_records(order)
    before, after = score(whole, (name,))[name], score(mixed, (name,))[name]
    if name == "learned-ratio":
        assert np.corrcoef(before[:, order].ravel(), after.ravel())[0, 1] > 0.8
    else:
        assert after == pytest.approx(before[:, order], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "learned-ratio"])
def test_a_targets_own_membership_is_not_used(name):
    """Telling the attack the opposite of the truth on one cell does not change the cell's score.

    The cell's partner changes with it, so that the design stays one of complementary pairs. Trees
    learn from other records, in whose priors the cell is one of hundreds: null scores judge them.
    """
    members = paired(8, 400, 5)
    whole = audit(members, 5, 1.0)
    target, record = 2, 7
    partner = whole.partner[target]
    told = members.copy()
    told[[target, partner], record] ^= True
    lied = replace(whole, members=told)
    cells = [target, partner], record
    before, after = (score(one, (name,))[name][cells] for one in (whole, lied))
    assert after == pytest.approx(before, rel=1e-6, abs=1e-6)


def test_given_targets_are_attacked_with_all_references():
    members = paired(40, 600, 6)
    whole = audit(members, 6, gaps(600, 6, 1.5))
    references, targets = whole.select(slice(0, 24)), whole.select(slice(24, None))
    found = score(references, NAMES, targets=targets)
    assert list(found) == list(NAMES)
    for name, table in found.items():
        assert table.shape == (16, 600) and np.isfinite(table).all(), name
        assert auc(targets.members, table) > (0.53 if name == "gap" else 0.56), name
    # What the targets were trained on must not matter: it is what is asked.
    lied = score(references, NAMES, targets=replace(targets, members=~targets.members))
    for name in NAMES:
        assert (lied[name] == found[name]).all(), name


def test_given_targets_must_be_scored_on_the_same_records():
    whole = audit(paired(6, 50, 7))
    other = replace(whole, ids=whole.ids[::-1].copy())
    with pytest.raises(InputError, match="same records"):
        score(whole, ("lira-online",), targets=other)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        *(
            (name, {"population": np.zeros((6, 29), np.float32)}, "at least 30 records that no mo")
            for name in NAMES
            if ATTACKS[name].population
        ),
        *(
            (name, {"task": "regression"}, "which a regression does not have")
            for name in NAMES
            if ATTACKS[name].probabilities
        ),
        ("gap", {"correct": None}, "it needs the .*, which are not known here"),
        ("quantile", {}, "it needs the .*, which are not known here"),
    ],
)
def test_what_an_attack_lacks_is_named(name, change, words):
    with pytest.raises(InputError, match=f"{name}.*{words}"):
        score(replace(audit(paired(6, 200, 8)), **change), (name,))


def test_automatic_and_all_take_what_can_be_run():
    whole = audit(paired(6, 200, 14))
    assert choose_attacks(("auto",), Available.of(whole)) == AUTO
    assert choose_attacks(("auto",), replace(Available.of(whole), population=0)) == tuple(
        name for name in AUTO if name != "rmia-offline"
    )
    assert set(choose_attacks(("all",), Available.of(whole))) == set(ATTACKS) - {"quantile"}
    assert choose_attacks(("gap", "gap"), Available.of(whole)) == ("gap",)
    regression = replace(Available.of(whole), task="regression")
    assert {"lira-hierarchical", "learned-ratio", "attack-r"} <= {
        *choose_attacks(("all",), regression)
    }


def test_the_same_seed_gives_the_same_bits():
    whole = audit(paired(6, 200, 12), 12, 1.0)
    one, two = score(whole, NAMES, seed=3), score(replace(whole), NAMES, seed=3)
    again, other = score(whole, NAMES, seed=3), score(whole, NAMES, seed=4)
    for name in NAMES:
        assert (one[name] == two[name]).all() and one[name] is not two[name], name
        # Kept with the models, by seed, and safe from being written to.
        assert again[name] is one[name] and other[name] is not one[name], name
        assert not one[name].flags.writeable, name


def test_what_does_not_fit_is_made_again_and_gives_the_same_bits(monkeypatch):
    whole = audit(paired(6, 200, 15), 15, 1.0)
    at_hand = score(whole, ("learned-ratio",))["learned-ratio"]
    monkeypatch.setattr(learned, "_AT_HAND", 0)
    assert (score(replace(whole), ("learned-ratio",))["learned-ratio"] == at_hand).all()


def test_a_new_attack_is_one_function_and_one_line_of_the_registry(monkeypatch):
    """No other module knows it, and an audit of scores runs, measures and describes it."""

    def score_by_distance(trial):
        return lambda known: known.phi - known.outside.mean

    example = Attack("distance", "Above OUT", "nobody", "models without it", score_by_distance)
    monkeypatch.setitem(ATTACKS, "distance", example)
    members = paired(8, 200, 16)
    whole = audit(members, 16, gaps(200, 16, 1.5))
    settings = AuditSettings(attack=("distance", "loss-threshold"))
    for targets in (None, whole.select(np.arange(8) < 4)):
        document = audit_scores("example", whole, settings, targets=targets).to_json()
        assert "distance" in document["candidates"][0]["attacks"]
        described = {entry["name"]: entry for entry in document["attacks"]}
        assert described["distance"]["title"] == "Above OUT"
    table = score(whole, ("distance",))["distance"]
    assert auc(members, table) > 0.56


@pytest.mark.parametrize("people", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_nothing_that_knows_of_membership_is_left_by_the_null_audit(name, people):
    """Of models that tell much, too: an attack must not be voided for what was left of it."""
    members = paired(16, 360 // people, 7).repeat(people, axis=1)
    leaky = audit(members, 7, 2.0)
    if people > 1:
        leaky = replace(leaky, groups=np.arange(members.shape[1]) // people)
    assert auc(members, score(leaky, (name,))[name]) > 0.6
    assert null_audit(leaky, name, 3).status == "pass"
    alike = exchanged(leaky, 3)
    moved, _ = twin(alike, Values(alike), np.full(alike.records, 3.0), 1)
    gone = (moved.queries - alike.queries)[:, :, 0] - (moved.signals - alike.signals)
    assert np.abs(gone).max() < 1e-5
