"""What an ordinary attacker finds in a few lines, the strongest of the family finds too."""

import numpy as np
import pytest
from reidentification_people import audit_embeddings, quick
from scipy.special import logsumexp

from lethe.reidentification.attackers import Panel
from lethe.reidentification.family import ATTACKERS
from lethe.reidentification.gallery import split_periods
from lethe.reidentification.sight import folds, sight_of

RNG = np.random.default_rng
PERIODS = ("before", "after")


def drawn(people, rows):
    """Owner and period of each row."""
    owner = np.repeat(np.arange(people), 2 * rows)
    return owner, np.tile(np.repeat(PERIODS, rows), people)


def codes(rng):
    """Codes without an order, of which everybody has favourites."""
    owner, period = drawn(150, 10)
    mine = rng.integers(0, 50, (150, 6, 3))[
        owner[:, None], np.arange(6), rng.integers(0, 3, (3000, 6))
    ]
    other = rng.random((3000, 6)) < 0.7
    return np.where(other, rng.integers(0, 50, (3000, 6)), mine).astype(float), owner, period


def angles(rng):
    owner, period = drawn(150, 6)
    centre = rng.uniform(0, 2 * np.pi, (150, 8))
    return (centre[owner] + 1.1 * rng.standard_normal((1800, 8))) % (2 * np.pi), owner, period


def wild_values(rng):
    owner, period = drawn(150, 8)
    centre = 0.7 * rng.standard_normal((150, 20))
    return centre[owner] + rng.standard_t(1, (2400, 20)), owner, period


def wild_lengths(rng):
    owner, period = drawn(150, 6)
    rows = 0.45 * rng.standard_normal((150, 30))[owner] + rng.standard_normal((1800, 30))
    return rows * np.exp(2 * rng.standard_normal((1800, 1))), owner, period


def exponents(rng):
    owner, period = drawn(100, 6)
    rows = 0.5 * rng.standard_normal((100, 20))[owner] + rng.standard_normal((1200, 20))
    return np.exp(2.5 * rows), owner, period


def correlations(rng):
    """One mean and one variance for all."""
    owner, period = drawn(100, 20)
    root = rng.standard_normal((100, 10, 10))
    root /= np.linalg.norm(root, axis=2, keepdims=True)
    return np.einsum("nij,nj->ni", root[owner], rng.standard_normal((4000, 10))), owner, period


def habits_that_drift(rng):
    """Two opposite habits, and a later period in which all vectors lie elsewhere."""
    owner, period = drawn(150, 8)
    way = 1.2 * rng.standard_normal((150, 20))
    rows = way[owner] * rng.choice([-1, 1], (2400, 1)) + rng.standard_normal((2400, 20))
    return rows + 4 * rng.standard_normal(20) * (period == "after")[:, None], owner, period


def widths_that_drift(rng):
    owner, period = drawn(150, 8)
    width = np.exp(0.5 * rng.standard_normal((150, 20)))
    rows = width[owner] * rng.standard_normal((2400, 20))
    return rows + 4 * rng.standard_normal(20) * (period == "after")[:, None], owner, period


def a_turn(rng):
    """A later version of the encoder whose space is turned."""
    owner, period = drawn(200, 6)
    rows = 0.8 * rng.standard_normal((200, 16))[owner] + rng.standard_normal((2400, 16))
    turn = np.linalg.qr(rng.standard_normal((16, 16)))[0]
    return np.where((period == "after")[:, None], rows @ turn, rows), owner, period


def a_quiet_direction(rng):
    """People differ in directions of a ten millionth of the loud ones."""
    owner, period = drawn(100, 4)
    loud, turn = rng.standard_normal((10, 30)), np.linalg.qr(rng.standard_normal((30, 30)))[0]
    quiet = 1e-7 * rng.standard_normal((100, 4))[owner] @ turn[:4]
    noise = 3e-8 * rng.standard_normal((800, 30))
    return rng.standard_normal((800, 10)) @ loud + quiet + noise, owner, period


def lengths(rng):
    """Directions of no one; a person's vectors are of one length."""
    owner, period = drawn(200, 4)
    way = rng.standard_normal((1600, 32))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    return way * np.exp(0.05 * owner)[:, None], owner, period


def lengths_about_a_centre(rng):
    """The same to a twentieth, about a place far from 0."""
    owner, period = drawn(60, 6)
    way = rng.standard_normal((720, 16))
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    size = np.exp(0.05 * owner + 0.05 * rng.standard_normal(720))
    return 9 * rng.standard_normal(16) + way * size[:, None], owner, period


def family(vectors, owner, period):
    """Top-1 of every attacker on a release without noise, by name."""
    split = split_periods(owner, period, *PERIODS, 1)
    sight = sight_of(vectors, split)
    found = {}
    for attacker in ATTACKERS:
        panel = Panel((attacker,), folds(len(split.users)))
        seen = panel.seen(attacker, sight, sight)
        found[attacker.name] = float(
            panel.credit(attacker, seen, panel.fits(attacker, seen)).mean()
        )
    return found


LEAST = {
    codes: 0.5,  # naive Bayes on values: 0.58
    angles: 0.5,  # sums of unit circles: 0.5
    wild_values: 0.33,  # medians, t likelihood: 0.42
    wild_lengths: 0.6,  # unit length first: 0.69
    exponents: 0.5,  # logarithms first: 0.58
    correlations: 0.95,  # a covariance each: 1.0
    habits_that_drift: 0.9,  # densities, both periods centred: 0.97
    widths_that_drift: 0.8,  # variances, both periods centred: 0.90
    a_turn: 0.8,  # Procrustes on other people: 0.87
    a_quiet_direction: 0.2,  # distances beyond the tenth component: 0.21
    lengths: 0.95,  # the nearest length: 1.0
    lengths_about_a_centre: 0.5,  # the nearest mean length: 0.68
}


@pytest.mark.parametrize("people_of", LEAST, ids=lambda one: one.__name__)
def test_no_kind_of_vectors_hides_people_from_the_family(people_of):
    """The mean of a person's vectors names nobody here; somebody in the family names most."""
    found = family(*people_of(RNG(0)))
    assert max(found.values()) >= LEAST[people_of], found
    assert max(found["cosine"], found["l2"]) < 0.2


def test_under_noise_whoever_holds_every_clean_row_uses_all_of_them():
    """People of scattered rows that come back: a mean is less than what the rows say together."""
    rng = RNG(0)
    first = 1.2 * rng.standard_normal((60, 12, 12))
    again = np.take_along_axis(first, rng.integers(0, 12, (60, 12, 1)), axis=1)
    rows = np.concatenate([first, again], axis=1).reshape(-1, 12)
    owner, period = drawn(60, 12)
    asked = {"known": "before", "later": "after", "plays": 0, "refine": 0, "surface": ()}
    found = audit_embeddings(
        rows, owner, period=period, settings=quick(**asked, sigmas=(1.5,), draws=2)
    )
    noisy = (rows + 1.5 * rng.standard_normal(rows.shape)).reshape(60, 2, 12, 12)[:, 1]
    apart = ((noisy[:, None, :, None] - first[None, :, None]) ** 2).sum(axis=-1)
    named = logsumexp(-apart / 4.5, axis=3).sum(axis=2).argmax(axis=1)
    assert (named == np.arange(60)).mean() > 0.9
    base, noise = (
        next(c for c in found.candidates if c["name"] == n) for n in ("baseline", "noise-1.5")
    )
    assert base["top_1"]["value"] > 0.95 and noise["top_1"]["high"] > 0.9


def test_one_number_says_who_it_is_where_habits_are_several():
    """Three values each of a logit: its mean says little, how often it is where says who."""
    rng = RNG(0)
    owner, period = drawn(60, 20)
    habit = 2 * rng.standard_normal((60, 3))
    logit = habit[owner, rng.integers(0, 3, len(owner))] + 0.05 * rng.standard_normal(len(owner))
    weight = rng.standard_normal(12)
    rows = rng.standard_normal((len(owner), 12))
    rows += np.outer(logit - rows @ weight, weight) / (weight @ weight)
    labels = (logit + rng.logistic(size=len(owner)) > 0).astype(int)
    asked = {"known": "before", "later": "after", "plays": 0, "refine": 0, "surface": ()}
    found = audit_embeddings(
        rows,
        owner,
        labels,
        head=(weight, 0.0),
        period=period,
        settings=quick(**asked, sigmas=(1.0,), draws=1, radius_points=9, radius_draws=50),
    )
    for name in ("baseline", "logit-only"):
        candidate = next(c for c in found.candidates if c["name"] == name)
        assert candidate["top_1"]["value"] > 0.8, name
