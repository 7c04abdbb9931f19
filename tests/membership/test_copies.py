"""Rows that stand several times are counted, said, and can be kept together."""

import numpy as np
import pytest
from simulated import gaps, paired, shadows, signals

from lethe.data.dataset import copies_note
from lethe.data.tables import load
from lethe.membership.checks import duplicates
from lethe.membership.measure import run_attacks

pytestmark = pytest.mark.usefixtures("no_page")


@pytest.fixture
def thrice(tmp_path):
    """100 rows three times over."""
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(100, 3)).round(3), rng.integers(0, 2, 100)])
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.tile(rows, (3, 1)), "%g", ",", header="a,b,c,y", comments="")
    return path


def test_copies_are_counted_at_load_with_the_option_that_groups_them(thrice):
    plain = load(thrice, "y")
    (note,) = [note for note in plain.notes if "copies" in note]
    assert note.startswith("200 of 300 records are exact copies of another (100 distinct")
    assert "--group identical-records" in note
    grouped = load(thrice, "y", group="identical-records")
    assert len(np.unique(grouped.groups)) == 100
    assert (grouped.groups.reshape(3, 100) == grouped.groups[:100]).all()
    assert not any("exact copies of another" in note for note in grouped.notes)
    assert not any("copies" in note for note in load("breast-cancer").notes)


@pytest.mark.parametrize("models", [4, 16])
def test_copies_in_a_score_file_are_no_evidence_of_their_own(models):
    """Intervals of 100 records three times over are those of 100 records."""
    members = paired(models, 100, 1)
    phi = signals(members, 1, gaps(100, 1))
    single = shadows(members, phi)
    triple = shadows(np.tile(members, 3), np.tile(phi, 3))
    assert (single.copies, triple.copies) == (0, 200)
    assert duplicates(triple).status == "warn" and duplicates(single).status == "pass"
    one, three = (run_attacks(s, ("lira-online",))["lira-online"].auc for s in (single, triple))
    assert three.value == pytest.approx(one.value, abs=1e-9)
    assert three.width > 0.8 * one.width


@pytest.mark.parametrize(("models", "digits"), [(2, 3), (4, 1), (8, 1)])
def test_rounded_copies_are_found_in_the_scores_of_few_models(models, digits):
    members = paired(models, 300, 2)
    phi = signals(members, 2).round(digits)
    assert shadows(members, phi).copies < 6
    assert shadows(np.tile(members, 3), np.tile(phi, 3)).copies >= 590


@pytest.mark.parametrize("models", [2, 8, 64])
def test_copies_that_differ_in_their_last_digits_are_found(models):
    """Another order of a batch changes them: none was found, and intervals were too narrow."""
    members = paired(models, 200, 3)
    phi = np.tile(signals(members, 3), 3)
    phi *= 1 + 2e-7 * np.random.default_rng(0).normal(size=phi.shape)
    assert 390 <= shadows(np.tile(members, 3), phi).copies <= 400


@pytest.mark.parametrize("models", [4, 8, 16])
def test_records_of_one_leaf_are_not_taken_for_copies(models):
    """Of 2,000 records of eight leaves 128 were left, and intervals were four times as wide."""
    rng, members = np.random.default_rng(0), paired(models, 2000)
    leaf = rng.integers(8, size=2000)
    assert shadows(members, rng.normal(size=(models, 8))[:, leaf]).copies == 0
    saturated = np.minimum(signals(members, 0, 0.1, 3.0, sd_in=0.1, sd_out=0.1), 2.0)
    assert shadows(members, saturated).copies < 20


def test_signals_of_few_values_are_not_taken_for_copies():
    votes = np.random.default_rng(0).integers(0, 2, (8, 400)).astype(float)
    assert shadows(paired(8, 400), votes).copies == 0


def test_copies_of_declared_persons_are_neither_denied_nor_grouped_anew(thrice):
    features, labels = load(thrice, "y").features, load(thrice, "y").labels
    persons = np.arange(300) % 150  # a row and its copy are of different persons
    note = copies_note(features, labels, persons)
    assert "identical-records" not in note and "declare persons who share a record as one" in note
    check = duplicates(shadows(paired(4, 30, 0), np.zeros((4, 30)), groups=np.arange(30) // 2))
    assert "no record is a copy" not in check.detail and "persons are declared" in check.detail
