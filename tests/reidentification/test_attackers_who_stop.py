"""Attackers of noisy vectors that stop early: what they were read at still counts."""

import numpy as np
import pytest

from lethe.evidence.risk import family_confidence
from lethe.reidentification import attackers as module
from lethe.reidentification.attackers import Panel, tallies
from lethe.reidentification.family import ATTACKERS
from lethe.reidentification.gallery import split_periods, split_rows
from lethe.reidentification.kept import read_tallies, write_tallies
from lethe.reidentification.sight import folds, sight_of
from lethe.reidentification.tally import Tally


def played(monkeypatch, people, truths, draws, seed, pilots):
    """Tallies of attackers who name each person with a chance of their own, draw after draw."""
    rng = np.random.default_rng(seed)
    owner = np.repeat(np.arange(people), 4)
    sight = sight_of(rng.standard_normal((4 * people, 3)), split_rows(owner))
    chosen = [a for a in ATTACKERS if a.vectors != 1][: len(truths)]
    chance = {a.name: truth for a, truth in zip(chosen, truths, strict=True)}

    def attack(run, source, looked):
        asked = np.ones(people, bool) if run.some is None else run.some
        hits = asked & (rng.random(people) < chance[run.attacker.name])
        run.tally = Tally(
            run.attacker,
            run.tally.view,
            run.tally.hits + hits,
            run.tally.tries + asked,
            run.tally.draws + 1,
        )
        return None

    monkeypatch.setattr(module, "_attack_once", attack)
    names = frozenset(a.name for a in chosen[1:]) if pilots else frozenset()
    panel = Panel(tuple(chosen), folds(people), pilots=names)
    return tallies(panel, ((sight, sight) for _ in range(draws)), sight)


@pytest.mark.parametrize(
    ("people", "truths"),
    [(40, (0.35, 0.45)), (100, (0.40, 0.45)), (40, (0.97, 1.0)), (400, (0.20, 0.25))],
)
def test_a_pilot_that_finds_more_is_not_lost(monkeypatch, people, truths):
    missed, rounds = 0, 200
    for seed in range(rounds):
        found = played(monkeypatch, people, truths, 4, seed, pilots=True)
        sure = family_confidence(0.95, 2)
        missed += max(tally.lift(sure).high for tally in found) / people < max(truths)
    assert missed <= 0.05 * rounds


def test_a_pilot_that_stops_stays_in_the_family(monkeypatch):
    found = played(monkeypatch, 400, (0.9, 0.1, 0.1), 4, 0, pilots=True)
    assert [tally.draws > 0 for tally in found] == [True, True, True]
    assert found[1].tries.sum() < found[0].tries.sum()


def test_no_hit_says_nothing_about_further_draws():
    tries = np.full(1000, 2.0)
    assert not Tally(ATTACKERS[0], "release", np.zeros(1000), tries, 2).precise


def test_settings_of_an_attacker_are_chosen_on_all_rows_of_people():
    """Everybody has two habits a coordinate, and a first row like nobody's."""
    rng = np.random.default_rng(0)
    people, rows, dimensions = 1900, 4, 5
    places = rng.random((people, 2, dimensions))
    pick = rng.integers(0, 2, (people, 2 * rows, dimensions))
    vectors = np.take_along_axis(places, pick, axis=1) + 0.002 * rng.standard_normal(pick.shape)
    vectors[:, 0] = rng.random((people, dimensions))
    histogram = next(a for a in ATTACKERS if a.metric == "histogram")
    owner = np.repeat(np.arange(people), 2 * rows)
    period = np.tile(np.arange(2 * rows) >= rows, people)
    sight = sight_of(vectors.reshape(-1, dimensions), split_periods(owner, period, False, True))
    panel = Panel((histogram,), folds(people))
    seen = panel.seen(histogram, sight, sight)
    assert panel.credit(histogram, seen, panel.fits(histogram, seen)).mean() > 0.6


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "another attacker", "a column less", "no archive"]
)
def test_a_damaged_file_of_tallies_is_measured_again(tmp_path, damage):
    path, told = tmp_path / "level.npz", {"softmax on release": "too many people"}
    tally = Tally(ATTACKERS[0], "release", np.ones(4), np.full(4, 2.0), 1)
    write_tallies(path, [tally], told)
    [back] = read_tallies(path, ATTACKERS, skipped := {})
    assert skipped == told and (back.hits == tally.hits).all() and back.draws == 1
    whole = path.read_bytes()
    if damage == "a column less":
        with np.load(path) as file:
            np.savez(path, **{name: file[name] for name in file.files if name != "hits"})
    else:
        damaged = {"empty": b"", "cut": whole[:-40], "no archive": b"x" * 99}
        path.write_bytes(damaged.get(damage, whole))
    others = ATTACKERS[1:] if damage == "another attacker" else ATTACKERS
    assert read_tallies(path, others, {}) is None
