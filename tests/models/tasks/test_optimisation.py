"""The schedule's shape, and which parameters decay."""

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import nn

from lightning_bench.models.tasks.optimisation import Optimisation

schedules = st.sampled_from(["constant", "linear", "cosine"])


@given(schedules, st.floats(0, 1), st.integers(1, 500))
def test_the_rate_climbs_then_falls_within_bounds(schedule: Any, warmup: float, total: int) -> None:
    optimisation = Optimisation(schedule=schedule, warmup=warmup)
    factors = [optimisation.factor(step, total) for step in range(total)]
    assert all(0 < factor <= 1 for factor in factors)
    peak = round(warmup * total)
    assert factors[:peak] == sorted(factors[:peak])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    if peak < total:
        assert factors[peak] == 1


@pytest.mark.parametrize(("schedule", "half"), [("constant", 1), ("linear", 0.5), ("cosine", 0.5)])
def test_half_way(schedule: Any, half: float) -> None:
    assert Optimisation(schedule=schedule).factor(50, 100) == pytest.approx(half)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
def test_biases_and_norms_do_not_decay(optimizer: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))
    model[0].bias.requires_grad = False
    made = Optimisation(optimizer=optimizer, weight_decay=0.1, lr=0.5).optimizer_of(model)
    groups = made.param_groups
    decay = {tuple(p.shape): group["weight_decay"] for group in groups for p in group["params"]}
    assert decay == {(3, 2): 0.1, (3,): 0.0}
    assert sum(len(group["params"]) for group in groups) == 3  # the frozen bias is left out


def test_a_step_is_the_one_of_torch() -> None:
    model, reference = nn.Linear(4, 4), nn.Linear(4, 4)
    reference.load_state_dict(model.state_dict())
    optimisation = Optimisation(optimizer="sgd", lr=0.1, momentum=0.0, schedule="constant")
    made = optimisation.optimizer_of(model)
    for module, optimizer in (
        (model, made),
        (reference, torch.optim.SGD(reference.parameters(), lr=0.1)),
    ):
        module(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    assert torch.allclose(model.weight, reference.weight)


def test_the_rate_is_the_schedule_s_of_the_step() -> None:
    optimisation = Optimisation(lr=0.5, schedule="linear", warmup=0.1)
    optimizer = optimisation.optimizer_of(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3)))
    for step in (0, 5, 10, 60):
        optimisation.set_rate(optimizer, step, 100)
        expected = 0.5 * optimisation.factor(step, 100)
        assert [group["lr"] for group in optimizer.param_groups] == [expected] * 2
