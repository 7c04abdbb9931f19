"""Learning rates by hand, and against torch's own schedulers."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

from lethe.training.batches import factor
from lethe.training.recipe import SCHEDULES


@given(steps=st.integers(3, 200))
def test_one_cycle_is_torchs(steps: int) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=1.0)
    wanted = lr_scheduler.OneCycleLR(optimizer, 2.0, total_steps=steps, cycle_momentum=False)
    for step in range(steps):
        assert 2.0 * factor("one-cycle", step, steps, 0.0) == pytest.approx(
            wanted.get_last_lr()[0], rel=1e-9
        )
        optimizer.step()
        if step < steps - 1:
            wanted.step()


@given(schedule=st.sampled_from(SCHEDULES), steps=st.integers(1, 300), warmup=st.floats(0, 0.99))
def test_factors_lie_between_0_and_1(schedule: str, steps: int, warmup: float) -> None:
    rates = [factor(schedule, step, steps, warmup) for step in range(steps)]
    assert all(0 <= rate <= 1 + 1e-12 for rate in rates)
    if schedule == "constant":
        assert rates == sorted(rates) and rates[-1] == 1 or round(warmup * steps) == steps


def test_a_cosine_by_hand() -> None:
    assert [factor("cosine", step, 4, 0.0) for step in range(4)] == pytest.approx(
        [1.0, 0.5 + 0.5**1.5, 0.5, 0.5 - 0.5**1.5]
    )
