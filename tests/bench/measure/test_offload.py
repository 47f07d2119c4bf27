"""What waits in host memory comes back as it was, and nothing of it stays on the device."""

import copy

import torch
from torch import nn

from lightning_bench.bench.measure.offload import Offload
from lightning_bench.bench.measure.step import TrainingStep
from lightning_bench.bench.store.measurements import Setting

SETTING = Setting(mode="train", batch_size=4)


def step_of(model: nn.Module) -> TrainingStep:
    inputs = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(5)  # of the classes
    return TrainingStep(model, lambda: (inputs,), SETTING)


def tied() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
    model[2].weight = model[0].weight
    return model


def test_a_model_trains_on_as_if_it_had_never_left() -> None:
    model, stayed = tied(), tied()
    step, other = step_of(model), step_of(stayed)
    for _ in range(3):
        step()
        other()
        step.drop_inputs()
        offload = Offload(step.state())
        assert all(each.untyped_storage().nbytes() == 0 for each in step.state())
        assert all(weight.grad is None for weight in model.parameters())
        offload.restore()
        torch.manual_seed(5)
        step.make_inputs()
    for mine, theirs in zip(step.state(), other.state(), strict=True):
        assert torch.equal(mine, theirs)


def test_hooks_and_views_survive() -> None:
    model = tied()
    view, seen = model[0].weight.view(-1), []
    model[0].weight.register_hook(seen.append)
    before = copy.deepcopy(model.state_dict())
    offload = Offload([*model.parameters(), *model.buffers()])
    offload.restore()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert view.data_ptr() == model[0].weight.data_ptr()
    model(torch.randn(4, 8)).sum().backward()
    assert len(seen) == 1
