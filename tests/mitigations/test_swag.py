"""SWAG: moments, shared low-rank noise, draws, and every refusal."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from swag_parts import deviations, drawn, mean, variance
from torch import Tensor

from lethe.mitigations.swag import Swag

Walk = list[dict[str, Tensor]]


def path_of(
    seed: int, steps: int, at: float = 0.0, by: float = 1.0, dtype: torch.dtype = torch.float64
) -> Walk:
    """A correlated walk of two layers, as SGD would leave it."""
    rng = np.random.default_rng([seed, steps])
    mix = rng.normal(size=(5, 5))
    walk = at + by * rng.normal(size=(steps, 5)) @ mix
    return [
        {
            "a.w": torch.tensor(row[:4].reshape(2, 2), dtype=dtype),
            "b": torch.tensor(row[4], dtype=dtype),
        }
        for row in walk
    ]


def fitted(walk: Walk, **settings_: Any) -> Swag:
    swag = Swag(walk[0], **settings_)
    for parameters in walk:
        swag.collect(parameters)
    return swag


def flat(named: dict[str, Tensor], batch: bool = False) -> np.ndarray:
    shape = (lambda value: (len(value), -1)) if batch else (lambda value: (-1,))
    return torch.cat([v.double().reshape(shape(v)) for v in named.values()], -1).numpy()


def naive(path: Walk, rank: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance and stored deviations, by their definitions, in float64."""
    rows = np.stack([flat(parameters) for parameters in path])
    deviations = [row - rows[: k + 1].mean(0) for k, row in enumerate(rows)]
    return rows.mean(0), rows.var(0), np.stack(deviations[-rank:])


def covariance_of(path: Walk, rank: int, scale: float) -> np.ndarray:
    _, variance, deviations = naive(path, rank)
    low = deviations.T @ deviations / (len(deviations) - 1) if len(deviations) > 1 else 0.0
    return np.asarray(scale * (np.diag(np.maximum(variance, 1e-30)) + low))


@settings(max_examples=15)
@given(st.integers(0, 10_000), st.integers(2, 12), st.integers(1, 6))
def test_state_against_the_definitions(seed: int, steps: int, rank: int) -> None:
    path = path_of(seed, steps)
    swag = fitted(path, rank=rank)
    wanted = naive(path, rank)
    np.testing.assert_allclose(flat(mean(swag)), wanted[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(flat(variance(swag)), wanted[1], rtol=1e-9, atol=1e-9)
    stored = flat(deviations(swag), batch=True)
    ordered = np.roll(stored, -(steps % rank) if steps > rank else 0, axis=0)
    np.testing.assert_allclose(ordered, wanted[2], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rank, scale, count", [(4, 2.0, 2000), (20, 0.5, 1000), (1, 0.5, 1000)])
def test_covariance_of_draws(rank: int, scale: float, count: int) -> None:
    """Acceptance check 8: scale (diag + D D^T / (K - 1)), K as stored, within 5 sd of the count."""
    path = path_of(3, 9)
    swag = fitted(path, rank=rank, scale=scale)
    draws = flat(drawn(swag, 11, count), batch=True)
    wanted = covariance_of(path, rank, scale)
    spread = np.sqrt(np.outer(wanted.diagonal(), wanted.diagonal()) + wanted**2)
    assert (np.abs(np.cov(draws.T) - wanted) <= 5 * spread / math.sqrt(len(draws))).all()
    limit = 5 * np.sqrt(wanted.diagonal() / len(draws))
    assert (np.abs(draws.mean(0) - naive(path, rank)[0]) <= limit).all()


@pytest.mark.parametrize("by", [1e-3, 1e-4, 1e-5])
def test_small_moves_of_large_weights_in_float32(by: float) -> None:
    """sd error <= 0.1 % for every one of 20,000 weights of 1; E[x^2] - E[x]^2 is lost."""
    rng = np.random.default_rng([7, int(1 / by)])
    rows = (1 + by * rng.normal(size=(20, 20_000))).astype(np.float32)
    swag = fitted([{"w": torch.from_numpy(row)} for row in rows], rank=5)
    true = rows.astype(np.float64).std(0)
    got = np.sqrt(variance(swag)["w"].double().numpy())
    assert np.abs(got / true - 1).max() <= 1e-3
    released = np.sqrt(np.maximum((rows**2).mean(0) - rows.mean(0) ** 2, 1e-30))
    assert np.abs(released / true - 1).max() > (0.05 if by == 1e-3 else 0.9)


def test_draws_follow_the_seed_and_not_their_number() -> None:
    swag = fitted(path_of(2, 6), rank=4)
    few, many, other = drawn(swag, 9, 2), drawn(swag, 9, 5), drawn(swag, 10, 2)
    assert torch.allclose(few["a.w"], many["a.w"][:2], rtol=1e-12)
    assert not torch.equal(few["a.w"][0], few["a.w"][1])
    assert not torch.equal(few["a.w"], other["a.w"])
    doubled = drawn(swag, 9, 2, scale=2.0)
    shift = (doubled["b"] - mean(swag)["b"]) / (few["b"] - mean(swag)["b"])
    assert shift.tolist() == pytest.approx([2, 2])  # sqrt(2 / 0.5)


@pytest.mark.parametrize("seed", [3, 1 << 100])
def test_draws_written_into_a_model(seed: int) -> None:
    """The same numbers as `draw`, in memory that is the model's, dense or not; ties stay."""
    rng = np.random.default_rng(6)
    walk = [
        {
            "w": torch.from_numpy(rng.normal(size=(300, 700)).astype(np.float32)),
            "b": torch.from_numpy(rng.normal(size=()).astype(np.float32)),
        }
        for _ in range(4)
    ]
    swag = fitted(walk, rank=3)
    into = {"w": torch.zeros(700, 300).T, "b": torch.zeros(())}
    for number in (0, 2):
        swag.draw_into(into, seed, number, scale=1.5)
        wanted = drawn(swag, seed, first=number, scale=1.5)
        assert all(torch.equal(into[name], wanted[name][0]) for name in into)
    many = drawn(swag, seed, 3, scale=1.5)
    assert torch.allclose(many["w"][2], into["w"], atol=1e-5)
    other = drawn(swag, seed + (1 << 90), scale=1.5)["w"][0]
    assert abs(np.corrcoef(other.flatten(), many["w"][0].flatten())[0, 1]) < 0.9
    # 210,000 parameters are two chunks, each with noise of its own.
    diagonal = (many["w"][0] - mean(swag)["w"]).flatten()
    assert not torch.equal(diagonal[: 1 << 16], diagonal[1 << 17 : (1 << 17) + (1 << 16)])


def test_half_precision_models_keep_their_types() -> None:
    path = [
        {"w": torch.tensor([1.0, x], dtype=torch.bfloat16), "b": torch.tensor(x)}
        for x in (0.5, 1.0, 3.0)
    ]
    swag = fitted(path, rank=2)
    draws = drawn(swag, 0, 2)
    assert draws["w"].dtype == torch.bfloat16 and draws["b"].dtype == torch.float32
    assert draws["w"].shape == (2, 2) and draws["b"].shape == (2,)
