"""Optimisers of other libraries and one's own, groups by name, schedules by name and one's own."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from lightning_bench.bench.run.loading import optimisation
from lightning_bench.bench.spec import Recipe
from lightning_bench.models.errors import ModelError
from lightning_bench.models.tasks.optimizer_names import SCHEDULES
from lightning_bench.models.tasks.schedules import schedule


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3))


def made(trained: nn.Module, **recipe: Any) -> torch.optim.Optimizer:
    return optimisation(Recipe(**recipe)).optimizer_of(trained)


@pytest.mark.parametrize(
    "name",
    ["timm/muon", "timm/lion", "timm/adafactorbv", "timm/lookahead_adam", "torch/NAdam"],
)
def test_another_librarys_optimizer_goes_down_and_on_from_its_state(name: str) -> None:
    x, y = torch.randn(32, 6, generator=torch.Generator().manual_seed(1)), torch.arange(32) % 3

    def steps(trained: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> float:
        for _ in range(count):
            loss = nn.functional.cross_entropy(trained(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    whole, part = model(), model()
    one = made(whole, optimizer=name, lr=3e-3)
    first = steps(whole, one, 1)
    last = steps(whole, one, 11)
    assert last < first
    other = made(part, optimizer=name, lr=3e-3)
    steps(part, other, 6)
    again = model()
    again.load_state_dict(part.state_dict())
    resumed = made(again, optimizer=name, lr=3e-3)
    resumed.load_state_dict(other.state_dict())
    assert steps(again, resumed, 6) == last


def test_arguments_reach_the_optimizer_and_decay_is_for_matrices() -> None:
    optimizer = made(
        model(), optimizer="torch/NAdam", optimizer_args={"betas": [0.8, 0.9]}, weight_decay=0.1
    )
    matrices, plain = optimizer.param_groups
    assert matrices["betas"] == (0.8, 0.9)
    assert (matrices["weight_decay"], plain["weight_decay"]) == (0.1, 0.0)
    assert {group["initial_lr"] for group in optimizer.param_groups} == {1e-3}


def test_ones_own_optimizer_gets_groups_and_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_steps.py").write_text(
        "import torch\n"
        "def make(groups, lr, power=1.0):\n"
        "    return torch.optim.SGD(groups, lr=lr * power)\n"
        "def nothing(groups, lr): return None\n"
        "def halves(progress, low=0.5): return 1.0 if progress < 0.5 else low\n"
    )
    monkeypatch.chdir(tmp_path)
    optimizer = made(model(), optimizer="own_steps.py:make", optimizer_args={"power": 2.0})
    assert isinstance(optimizer, torch.optim.SGD)
    with pytest.raises(ModelError, match="gives a NoneType, not a torch optimizer"):
        made(model(), optimizer="own_steps.py:nothing")
    recipe = optimisation(Recipe(schedule="own_steps.py:halves", schedule_args={"low": 0.1}))
    assert [recipe.factor(step, 4) for step in range(4)] == [1.0, 1.0, 0.1, 0.1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("timm/lyon", "timm has no optimizer 'lyon'; did you mean 'lion'"),
        ("torch/Adamm", "torch has no optimizer 'Adamm'; did you mean 'Adam"),
        ("torch/Muon", "torch/Muon steps matrices alone"),
    ],
)
def test_what_there_is_not_is_told(name: str, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        made(model(), optimizer=name)


def test_groups_by_name_have_factors_of_their_own() -> None:
    groups = [{"match": r"^2\.", "lr": 10.0, "weight_decay": 0.0}, {"match": "bias", "lr": 2.0}]
    trained = model()
    optimizer = made(trained, lr=0.01, weight_decay=0.1, groups=groups)
    of = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    found = {
        name: (round(of[id(p)]["lr"], 6), of[id(p)]["weight_decay"])
        for name, p in trained.named_parameters()
    }
    assert found == {
        "0.weight": (0.01, 0.1),
        "0.bias": (0.02, 0.0),
        "1.weight": (0.01, 0.0),
        "1.bias": (0.02, 0.0),
        "2.weight": (0.1, 0.0),
        "2.bias": (0.1, 0.0),
    }
    with pytest.raises(ModelError, match="no parameter that is trained has 'haed' in its name"):
        made(trained, groups=[{"match": "haed"}])


ARGUMENTS: dict[str, dict[str, Any]] = {"step": {"at": "0.5|0.75"}}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_is_a_part_of_the_peak_which_it_reaches(name: str) -> None:
    factor = schedule(name, ARGUMENTS.get(name, {}), 10, 1000)
    values = [factor(step / 990) for step in range(990)]
    assert max(values) == pytest.approx(1.0, abs=0.01)
    assert min(values) >= 0
    assert (values[-1] < 0.2) == (name != "constant")


def test_schedules_are_as_their_names_say() -> None:
    at = schedule("step", {"at": "0.5|0.75", "factor": 0.1}, 0, 100)
    assert [at(p) for p in (0.0, 0.49, 0.5, 0.8)] == pytest.approx([1, 1, 0.1, 0.01])
    every = schedule("step", {"every": 0.3, "factor": 0.5}, 0, 100)
    assert [every(p) for p in (0.0, 0.3, 0.65, 0.9)] == [1, 0.5, 0.25, 0.125]
    cooled = schedule("trapezoid", {"cooldown": 0.5}, 0, 100)
    assert [cooled(p) for p in (0.0, 0.5, 0.75, 1.0)] == [1, 1, 0.5, 0]
    root = schedule("inverse-sqrt", {}, 25, 125)
    assert root(0.0) == 1
    assert root(0.75) == pytest.approx(0.5)  # of step 100 of 25


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        ({"optimizer": "adamww"}, "there is no optimizer 'adamww'; did you mean 'adamw'"),
        ({"optimizer": "torch/LBFGS"}, "asks for the loss again"),
        ({"optimizer_args": {"betas": [0.9]}}, "optimizer_args are of timm/NAME"),
        ({"schedule": "one-cycel"}, "there is no schedule 'one-cycel'; did you mean 'one-cycle'"),
        ({"schedule": "step"}, "step needs schedule_args"),
        ({"schedule": "trapezoid", "schedule_args": {"cool": 1}}, "did you mean 'cooldown'"),
        ({"groups": [{"match": "("}]}, "no regular expression"),
    ],
)
def test_a_recipe_that_can_not_be_is_told(recipe: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Recipe.model_validate(recipe)
