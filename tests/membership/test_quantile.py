"""Quantile regression: knows how hard a record is, is silent on null signals, refuses members."""

import numpy as np
import pytest
from simulated import coins

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.membership.attacks import quantile as module
from lethe.membership.attacks.quantile import quantile_scores, with_labels

GAP = 1.0


def difficulty(features):
    """Mean and standard deviation of a non-member's signal, of each record its own."""
    return 3 * features[:, 0], np.exp(features[:, 1] / 2)


def audit(models=2, records=2000, others=1500, seed=0, gap=GAP):
    """signals, population, features, population features, members."""
    rng = np.random.default_rng([seed, 4])
    members = coins(models, records, seed)
    inside, outside = rng.normal(size=(records, 4)), rng.normal(size=(others, 4))
    tables = []
    for features, raised in ((inside, gap * members), (outside, np.zeros((models, others)))):
        mean, sd = difficulty(features)
        tables.append(mean + sd * (rng.normal(size=raised.shape) + raised))
    return *(table.astype(np.float32) for table in tables), inside, outside, members


def test_what_is_fitted_is_the_distribution_of_non_members():
    """Scores of fresh non-members are near standard normal, wherever the record stands."""
    phi, population, features, outside, _ = audit(1, 1500, 700, gap=0.0)
    score = quantile_scores(phi, population, features, outside)[0]
    assert abs(score.mean()) < 0.1 and 0.85 < score.std() < 1.2
    for easy in (features[:, 1] < -0.7, features[:, 1] > 0.7):
        assert 0.75 < score[easy].std() < 1.4
    mean, sd = difficulty(features)
    assert np.corrcoef(score, (phi[0] - mean) / sd)[0, 1] > 0.9


def test_each_target_is_attacked_by_itself():
    phi, population, features, outside, _ = audit(5, 200, 100)
    score = quantile_scores(phi, population, features, outside)
    assert np.isfinite(score).all()
    changed = phi.copy(), population.copy()
    for table in changed:
        table[1] += 5.0 * table[1] ** 2
    again = quantile_scores(*changed, features, outside)
    np.testing.assert_allclose(again[3], score[3], rtol=1e-9, atol=1e-9)
    assert not np.allclose(again[1], score[1])
    alone = quantile_scores(phi[3:4], population[3:4], features, outside)
    np.testing.assert_allclose(alone[0], score[3], rtol=1e-9, atol=1e-9)


def test_the_same_seed_repeats(monkeypatch):
    phi, population, features, outside, _ = audit(1, 100, 200)
    monkeypatch.setattr(module, "MOST", 150)  # of more a random part is taken
    one, same, other = (
        quantile_scores(phi, population, features, outside, seed=seed) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_labels_are_one_column_a_class_or_the_number():
    one, two = np.zeros((2, 1)), np.ones((3, 1))
    first, second = with_labels(one, np.array([4, 7]), two, np.array([7, 9, 4]))
    assert first.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0]]
    assert second.tolist() == [[1, 0, 1, 0], [1, 0, 0, 1], [1, 1, 0, 0]]
    first, second = with_labels(one, np.array([0.5, 2.5]), two, np.array([1.0, 2.0, 3.0]))
    assert first.tolist() == [[0, 0.5], [0, 2.5]] and second[:, 1].tolist() == [1, 2, 3]


def test_pixels_become_components_and_labels_stay(monkeypatch):
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(3, 2, 16, 16))
    inside, outside = rng.normal(size=(500, 3)), rng.normal(size=(400, 3))
    images, others = (np.tensordot(part, basis, 1).astype(np.float32) for part in (inside, outside))
    phi, population = 5 * inside[:, :1].T, 5 * outside[:, :1].T
    labels = rng.integers(3, size=500), rng.integers(3, size=400)
    seen = []
    made = module._Kernels.of

    def spy(inputs, components):
        seen.append((inputs.shape[1], components))
        return made(inputs, components)

    monkeypatch.setattr(module._Kernels, "of", spy)
    # phi is what the pixels say: nothing is left of it that a member could exceed.
    score = quantile_scores(phi, population, images, others)
    assert np.isfinite(score).all() and abs(np.corrcoef(score[0], phi[0])[0, 1]) < 0.5
    assert np.isfinite(quantile_scores(phi, population, images, others, *labels)).all()
    wide = module.COMPONENTS
    assert seen == [(wide, wide), (wide + 3, wide)]


def test_a_few_boundless_signals_spoil_nothing():
    """Probabilities that round to 1 give signals of 1e38."""
    phi, population, features, outside, members = audit(1, 1000, 500)
    calm = auc(members, quantile_scores(phi, population, features, outside))
    population[0, :8] = [3e38, -3e38] * 4
    wild = auc(members, quantile_scores(phi, population, features, outside))
    assert wild > calm - 0.03


def test_leaving_a_record_out_is_fitting_without_it():
    """The closed form against fits of all but one record."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 3))
    signal = (inputs[:, 0] ** 2 + 0.1 * rng.normal(size=60))[None]
    kernels = module._Kernels.of(inputs, 0)
    (weights, widths, added), left = kernels._fit(signal)
    width = module._WIDTHS[widths[0]]
    apart = module._squared_distances(kernels.inputs, kernels.inputs)
    kernel = np.exp(-apart / (2 * width**2 * kernels.median))
    errors = []
    for ridge in module._RIDGES:
        alone = np.empty(60)
        for row in range(60):
            rest = np.arange(60) != row
            inner = kernel[np.ix_(rest, rest)] + ridge * np.eye(59)
            alone[row] = kernel[row, rest] @ np.linalg.solve(inner, (signal[0] - added[0])[rest])
        errors.append(np.abs(alone + added[0] - left[0]).max())
    assert min(errors) < 1e-8
    np.testing.assert_allclose(
        kernels._at(inputs, (weights, widths, added))[0], kernel @ weights[0] + added[0], atol=1e-8
    )


def test_refusals():
    phi, population, features, outside, _ = audit(3, 60, 70)
    wrong = population.copy()
    wrong[1, 2] = np.inf
    cases = [
        ({"population": population[:2]}, "population has 2 models and signals 3"),
        ({"population": wrong}, "population at models 1, population points 2 is inf"),
        ({"population": np.ones((3, 70))}, "population of model 0 are all 1.0; constant signals"),
        ({"features": features[:5]}, r"features has shape \(5, 4\); it must be \(60, ...\)"),
        ({"features": features[:, :3]}, "features have 3 columns and those of the non-members 4"),
        ({"population_features": outside[:, 0]}, r"population_features has shape \(70,\)"),
        ({"labels": np.zeros(60, int)}, "must both be given, or neither"),
        (
            {"labels": np.zeros(60, int), "population_labels": np.zeros(9, int)},
            r"labels have shape \(9,\); it must be \(70,\)",
        ),
    ]
    given_ = {
        "signals": phi,
        "population": population,
        "features": features,
        "population_features": outside,
    }
    for change, said in cases:
        with pytest.raises(InputError, match=said):
            quantile_scores(**{**given_, **change})
    with pytest.raises(InputError, match="population holds 49 non-members; .* at least 50: hold"):
        quantile_scores(phi, population[:, :49], features, outside[:49])
    bad = features.copy()
    bad[7, 1] = np.nan
    with pytest.raises(InputError, match="features at records 7, columns 1 is nan"):
        quantile_scores(phi, population, bad, outside)
