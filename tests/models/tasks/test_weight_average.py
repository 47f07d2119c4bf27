"""The moving average of weights, by hand; and that evaluation uses it."""

import torch
from torch import nn

from lightning_bench.data.batch import Batch
from lightning_bench.models.tasks.classify import Classify
from lightning_bench.models.tasks.optimisation import Optimisation
from lightning_bench.models.tasks.weight_average import Average


def test_the_average_is_the_formula_s() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model[0].bias.requires_grad = False
    average = Average(model, 0.9)
    assert average.names == ["0.weight", "1.weight", "1.bias", "1.running_mean", "1.running_var"]
    expected = model[0].weight.detach().clone()
    for _ in range(3):
        with torch.no_grad():
            model[0].weight.add_(1)
            model[1].running_mean.add_(1)
        average.update(model)
        expected = 0.9 * expected + 0.1 * model[0].weight.detach()
    now = model[0].weight.detach().clone()
    with average.inside(model):
        assert torch.allclose(model[0].weight, expected)
        assert torch.allclose(model[1].running_mean, torch.full((2,), 0.1 * (3 + 0.9 * 2 + 0.81)))
    assert torch.equal(model[0].weight, now)
    average.copy_to(model)
    assert torch.allclose(model[0].weight, expected)


def test_evaluation_is_of_the_average_and_training_is_not() -> None:
    torch.manual_seed(0)
    task = Classify(
        nn.Linear(3, 2),
        label_smoothing=0.0,
        optimisation=Optimisation(),
        metrics=("accuracy",),
        tests=("test",),
    )
    task.average_weights(0.5)
    assert task.average is not None
    first = task.model.weight.detach().clone()
    with torch.no_grad():
        task.model.weight.add_(2)
    task.average.update(task.model)
    x = torch.randn(4, 3)
    batch = Batch((x,), torch.zeros(4, dtype=torch.long), torch.arange(4), 4)
    expected = x @ (first + 1).T + task.model.bias
    assert torch.allclose(task.output(batch), expected, atol=1e-6)
    assert torch.allclose(task.model(x), x @ (first + 2).T + task.model.bias, atol=1e-6)
    assert {key for key in task.state_dict() if key.startswith("average.")} == {
        "average.average0",
        "average.average1",
    }
    task.finish()
    assert torch.allclose(task.model(x), expected, atol=1e-6)
