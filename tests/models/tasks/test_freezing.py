"""A linear probe: the head learns, the body doesn't move, not even its batch norms."""

import pytest
import torch
from torch import nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.example_inputs import example
from lightning_bench.models.registry.registry import create, look_up
from lightning_bench.models.tasks.classify import Classify
from lightning_bench.models.tasks.optimisation import Optimisation
from lightning_bench.models.weights.heads import head_modules

CASES = {
    "resnet-20": ({"image_size": 16, "classes": 3}, {"head"}),
    "mixer-small": ({"image_size": 16, "depth": 1, "classes": 3}, {"head"}),
    "timm/mobilenetv2_050": ({"image_size": 32, "classes": 3}, {"classifier"}),
    "bert-tiny": (
        {"vocab_size": 50, "length": 8, "classes": 3},
        {"model.classifier", "model.bert.pooler"},
    ),
    "gmlp-text": (
        {"vocab_size": 50, "length": 8, "classes": 3, "width": 8, "depth": 2, "dropout": 0.1},
        {"head"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_only_the_head_learns(name: str) -> None:
    torch.manual_seed(0)
    arguments, heads = CASES[name]
    model = create(name, **arguments)
    task = Classify(
        model,
        label_smoothing=0.0,
        optimisation=Optimisation(lr=0.1, schedule="constant"),
        metrics=("accuracy",),
        tests=("test",),
    )
    task.freeze_body()
    task.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = task.optimisation.optimizer_of(model)
    inputs = example(look_up(name), 4, **arguments)
    task.loss(model(*inputs), torch.tensor([0, 1, 2, 0])).backward()
    optimizer.step()
    moved = {
        key for key, value in model.state_dict().items() if not torch.equal(value, before[key])
    }
    assert moved
    assert {key.rpartition(".")[0] for key in moved} <= {
        f"{head}{rest}" for head in heads for rest in ("", ".linear", ".dense")
    }
    of_head = {id(module) for head in head_modules(model) for module in head.modules()}
    assert all(module.training == (id(module) in of_head) for module in model.modules())


def test_a_model_without_a_head_says_so() -> None:
    with pytest.raises(ModelError, match="ReLU has no head"):
        head_modules(nn.ReLU())
