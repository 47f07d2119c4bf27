"""Layers: every parameter has one, and the learning rate falls from the head to the input."""

import pytest
import torch
from torch import nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.registry import create
from lightning_bench.models.tasks.layer_decay import layers
from lightning_bench.models.tasks.optimisation import Optimisation

SMALL = {
    "vit": {"image_size": 8, "patch": 4, "width": 16, "depth": 3, "heads": 2, "hidden": 16},
    "mixer": {
        "image_size": 8,
        "patch": 4,
        "width": 8,
        "depth": 3,
        "token_width": 8,
        "channel_width": 8,
    },
    "gmlp": {"image_size": 8, "patch": 4, "width": 8, "depth": 3, "hidden": 16},
    "gmlp-text": {"vocab_size": 50, "length": 8, "classes": 2, "width": 8, "depth": 3},
    "transformer-text": {"vocab_size": 50, "length": 8, "classes": 2, "width": 8, "depth": 3},
    "bert": {"vocab_size": 50, "classes": 2, "width": 16, "depth": 3, "heads": 2, "hidden": 16},
}


@pytest.mark.parametrize("name", SMALL)
def test_the_input_is_layer_0_then_the_blocks_then_the_head(name: str) -> None:
    model = create(name, **SMALL[name])
    found = layers(model)
    assert found.keys() == {name for name, _ in model.named_parameters()}
    assert set(found.values()) == {0, 1, 2, 3, 4}
    first, *_, last = found
    assert (found[first], found[last]) == (0, 4)
    for parameter, layer in found.items():
        for i in range(3):
            if f"blocks.{i}." in parameter or f"encoder.layer.{i}." in parameter:
                assert layer == i + 1


def test_a_small_resnet_has_its_blocks() -> None:
    found = layers(create("resnet-20", image_size=16))
    assert max(found.values()) == 10
    assert found["stem.0.weight"] == 0
    assert found["head.weight"] == 10


def test_timm_s_models_know_their_layers() -> None:
    found = layers(create("timm/vit_tiny_patch16_224", image_size=32))
    assert found["patch_embed.proj.weight"] == 0
    assert found["blocks.0.norm1.weight"] == 1
    assert found["blocks.11.mlp.fc2.bias"] == 12
    assert found["head.weight"] == max(found.values())


def test_the_rate_falls_by_the_same_factor_from_layer_to_layer() -> None:
    model = create("vit", **SMALL["vit"])
    optimisation = Optimisation(lr=0.5, layer_decay=0.5, weight_decay=0.1)
    optimizer = optimisation.optimizer_of(model)
    names = {id(p): name for name, p in model.named_parameters()}
    for step in range(3):
        optimisation.set_rate(optimizer, step, 10)
        factor = Optimisation().factor(step, 10)
        rates = {
            names[id(p)]: group["lr"] for group in optimizer.param_groups for p in group["params"]
        }
        assert rates["head.weight"] == pytest.approx(0.5 * factor)
        assert rates["norm.bias"] == pytest.approx(0.5 * factor)
        assert rates["blocks.2.mlp.expand.weight"] == pytest.approx(0.25 * factor)
        assert rates["blocks.0.mlp.expand.weight"] == pytest.approx(0.0625 * factor)
        assert rates["patches.project.weight"] == pytest.approx(0.03125 * factor)
    assert len(rates) == len(names)


def test_no_decay_leaves_two_groups() -> None:
    model = create("vit", **SMALL["vit"])
    assert len(Optimisation().optimizer_of(model).param_groups) == 2


def test_a_model_without_blocks_says_so() -> None:
    with pytest.raises(ModelError, match="Linear has no list of equal blocks"):
        layers(nn.Linear(2, 2))
    # A frozen encoder's own blocks are not trained, so they are no layers.
    frozen = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), nn.ReLU())
    frozen.requires_grad_(False)
    with pytest.raises(ModelError):
        layers(frozen)


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lamb_is_that_of_the_paper(decay: float) -> None:
    """Algorithm 2 of You et al., 2020, arXiv:1904.00962, with φ the identity."""
    torch.manual_seed(0)
    model = nn.Linear(3, 4, dtype=torch.float64)
    b1, b2, rate, eps = 0.9, 0.99, 0.1, 1e-6
    made = Optimisation(
        optimizer="lamb", lr=rate, beta1=b1, beta2=b2, weight_decay=decay, schedule="constant"
    ).optimizer_of(model)
    expected = {name: p.detach().clone() for name, p in model.named_parameters()}
    first = {name: torch.zeros_like(p) for name, p in expected.items()}
    second = {name: torch.zeros_like(p) for name, p in expected.items()}
    for step in range(1, 4):
        loss = 30 * model(torch.randn(5, 3, dtype=torch.float64)).square().mean()
        model.zero_grad()
        loss.backward()
        for name, x in expected.items():
            gradient = model.get_parameter(name).grad
            assert gradient is not None
            first[name] = b1 * first[name] + (1 - b1) * gradient
            second[name] = b2 * second[name] + (1 - b2) * gradient**2
            ratio = (first[name] / (1 - b1**step)) / ((second[name] / (1 - b2**step)).sqrt() + eps)
            update = ratio + (decay if x.ndim > 1 else 0.0) * x
            expected[name] = x - rate * x.norm() / update.norm() * update
        made.step()
        for name, x in expected.items():
            assert torch.allclose(model.get_parameter(name), x, rtol=1e-9, atol=1e-12), (name, step)


def test_adagrad_is_that_of_the_paper() -> None:
    """Duchi et al., 2011: x -= η g / sqrt(Σ g²)."""
    model = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    made = Optimisation(optimizer="adagrad", lr=0.1, schedule="constant").optimizer_of(model)
    x = model.weight.detach().clone()
    total = torch.zeros_like(x)
    for _ in range(3):
        model.zero_grad()
        model(torch.randn(4, 2, dtype=torch.float64)).square().sum().backward()
        total += model.weight.grad**2
        x -= 0.1 * model.weight.grad / total.sqrt()
        made.step()
    assert torch.allclose(model.weight, x, rtol=1e-7)
