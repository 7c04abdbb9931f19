"""No ordinary attacker names more people on a mitigated release than its printed upper limit."""

import numpy as np
import pytest
from reidentification_people import audit_embeddings, quick

from lethe.reidentification.smoothing import smooth
from lethe.reidentification.transforms import fitted

PEOPLE, ROWS, SIGMAS = 40, 8, (0.01, 0.3)
OWNER = np.repeat(np.arange(PEOPLE), 2 * ROWS)
LATER = np.tile(np.repeat([False, True], ROWS), PEOPLE)
MITIGATIONS = ("pca-4", "quantised-4", "k-same-5", "shaped-noise-0.3")


def three_habits(rng):
    habit = rng.standard_normal((PEOPLE, 3, 6))[OWNER, rng.integers(0, 3, len(OWNER))]
    return habit + 0.02 * rng.standard_normal(habit.shape)


def correlations(rng):
    root = rng.standard_normal((PEOPLE, 6, 6))
    root /= np.linalg.norm(root, axis=2, keepdims=True)
    return np.einsum("nij,nj->ni", root[OWNER], rng.standard_normal((len(OWNER), 6)))


def codes(rng):
    turn = rng.integers(0, 3, (len(OWNER), 6))
    mine = rng.integers(0, 50, (PEOPLE, 6, 3))[OWNER[:, None], np.arange(6), turn]
    other = rng.random((len(OWNER), 6)) < 0.7
    return np.where(other, rng.integers(0, 50, (len(OWNER), 6)), mine).astype(float)


def named(scores):
    """Share of people whose own score is the highest of each row (PEOPLE * n, PEOPLE)."""
    return (scores.argmax(axis=1) == np.repeat(np.arange(PEOPLE), len(scores) // PEOPLE)).mean()


def challengers(enrolled, probes, sigma):
    """Top-1 of ordinary attackers; all rows are in blocks of `ROWS` of one person."""
    d = enrolled.shape[1]
    known, new = (table.reshape(PEOPLE, ROWS, d) for table in (enrolled, probes))
    apart = ((probes[:, None] - enrolled) ** 2).sum(axis=2)
    near = apart.reshape(len(probes), PEOPLE, ROWS).min(axis=2)
    mean, noise = known.mean(axis=1), sigma**2 * np.eye(d)
    within = known - mean[:, None]
    pooled = np.einsum("gni,gnj->ij", within, within) / (PEOPLE * (ROWS - 1)) + 1e-9 * np.eye(d)
    means = new.mean(axis=1)[:, None] - mean
    inverse = np.linalg.inv(pooled + noise)
    own = np.einsum("gni,gnj->gij", within, within) / (ROWS - 1)
    model = 0.7 * own + 0.3 * pooled + noise
    off = probes[:, None] - mean
    far = np.einsum("pgi,gij,pgj->pg", off, np.linalg.inv(model), off, optimize=True)
    likely = -0.5 * (far + np.linalg.slogdet(model)[1])
    turned = [np.stack([np.corrcoef(rows.T) for rows in side]) for side in (known, new)]
    values = np.rint(probes)[:, None, :, None] == np.rint(known).transpose(0, 2, 1)[None]
    return {
        "nearest row": named(-near),
        "nearest row of all": named(-near.reshape(PEOPLE, ROWS, PEOPLE).min(axis=1)),
        "sum of nearest rows": named(-near.reshape(PEOPLE, ROWS, PEOPLE).sum(axis=1)),
        "mean": named(-(off**2).sum(axis=2)),
        "Mahalanobis": named(-np.einsum("pgi,ij,pgj->pg", means, inverse, means)),
        "covariance": named(likely.reshape(PEOPLE, ROWS, PEOPLE).sum(axis=1)),
        "correlation": named(-((turned[1][:, None] - turned[0]) ** 2).sum(axis=(2, 3))),
        "equal whole numbers": named(
            values.any(axis=3).sum(axis=2).reshape(PEOPLE, ROWS, PEOPLE).sum(axis=1)
        ),
    }


def releases(rows, candidate):
    """Two draws of the released rows of a candidate, the rows without noise, and its deviation."""
    name, seeds = candidate["name"], (9, 10)
    if name == "baseline":
        return [rows], rows, 0.0
    if name.startswith("noise-"):
        sigma = candidate["settings"]["sigma"]
        return [smooth(rows, sigma, seed=seed) for seed in seeds], rows, sigma
    made = fitted(name, rows, OWNER, [], 1.0, 0)
    held = made.noisy or made.keeps_clean
    released = [made.release(rows, seed) for seed in (seeds if made.noisy else seeds[:1])]
    return released, rows if held else released[0], 0.0


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
@pytest.mark.parametrize("world", [three_habits, correlations, codes])
def test_no_ordinary_attacker_is_above_the_upper_limit_of_any_mitigation(world):
    rows = world(np.random.default_rng(0))
    period = np.where(LATER, "later", "before")
    asked = {"known": "before", "later": "later", "plays": 0, "refine": 0, "surface": ()}
    found = audit_embeddings(
        rows,
        OWNER,
        period=period,
        settings=quick(**asked, sigmas=SIGMAS, draws=2, mitigations=MITIGATIONS),
    )
    above, tried = {}, 0
    for candidate in found.candidates:
        draws, clean, sigma = releases(rows, candidate)
        for held in (None, clean):
            tops = [
                challengers((drawn if held is None else held)[~LATER], drawn[LATER], sigma)
                for drawn in draws
            ]
            tried += len(tops[0])
            for name in tops[0]:
                share, high = np.mean([top[name] for top in tops]), candidate["top_1"]["high"]
                if share > high + 1e-9:
                    above[candidate["name"], name] = share, high
    assert tried == 8 * 2 * (1 + len(SIGMAS) + len(MITIGATIONS))
    assert not above
