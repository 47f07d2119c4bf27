"""Probes on networks whose answers are known."""

import importlib
import math

import pytest
import torch
from torch import nn

from lightning_bench.models.probes import PROBES, gradient_norm, receptive_field, toeplitz
from lightning_bench.models.registry.registry import create


def test_the_share_of_a_toeplitz_matrix_is_one() -> None:
    diagonals = torch.randn(2 * 9 - 1)
    matrix = diagonals.unfold(0, 9, 1).flip(1)
    assert toeplitz.share(matrix) == pytest.approx(1)
    # Neither what passes each token on nor what averages them changes it.
    assert toeplitz.share(matrix + 5 * torch.eye(9) - 3) == pytest.approx(1)


def test_a_diagonal_and_a_mean_alone_are_no_structure() -> None:
    noise = torch.randn(40, 40)
    plain = toeplitz.share(noise)
    assert toeplitz.share(noise + 100 * torch.eye(40) + 7) == pytest.approx(plain, abs=1e-6)
    assert toeplitz.share(torch.eye(8)) == 0.0


@pytest.mark.parametrize(("length", "grid"), [(12, False), (16, True)])
def test_random_matrices_have_the_share_of_chance(length: int, grid: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    shares = torch.tensor(
        [
            toeplitz.share(torch.randn(length, length, generator=generator), grid=grid)
            for _ in range(800)
        ]
    )
    error = shares.std().item() / math.sqrt(len(shares))
    assert shares.mean().item() == pytest.approx(
        toeplitz.random_share(length, grid=grid), abs=4 * error
    )


def test_the_share_of_chance_by_hand() -> None:
    # 3 tokens: 6 entries off the diagonal on 4 diagonals.
    assert toeplitz.random_share(3) == pytest.approx(3 / 5)
    # 2×2 patches: 12 entries, 8 distances: (±1, 0), (0, ±1), (±1, ±1).
    assert toeplitz.random_share(4, grid=True) == pytest.approx(7 / 11)


def test_an_odd_matrix_by_hand() -> None:
    # Off the diagonal 1, 2 | 3 and their mirror: diagonals (1, 2) and (3) explain all but 1.5 ± .5.
    matrix = torch.tensor([[0.0, 1.0, 3.0], [-1.0, 0.0, 2.0], [-3.0, -2.0, 0.0]])
    assert toeplitz.share(matrix) == pytest.approx(1 - 4 * 0.25 / 28)


def test_a_convolution_on_a_grid_is_toeplitz_in_two_directions_only() -> None:
    side = 5
    kernel = torch.randn(1, 1, 3, 3)
    images = torch.eye(side**2).view(side**2, 1, side, side)
    matrix = nn.functional.conv2d(images, kernel, padding=1).flatten(1).T
    assert toeplitz.share(matrix, grid=True) == pytest.approx(1, abs=1e-6)
    assert toeplitz.share(matrix) < 0.99


def test_models_with_spatial_matrices_are_measured_and_others_not() -> None:
    small = {"image_size": 16, "patch": 4, "width": 8, "depth": 2}
    text = {"vocab_size": 50, "length": 16, "classes": 2, "width": 8, "depth": 2, "hidden": 16}
    models = {
        "gmlp": create("gmlp", **small, hidden=16),
        "mixer": create("mixer", **small, token_width=32, channel_width=8),
        "gmlp-text": create("gmlp-text", **text),
    }
    for name, model in models.items():
        found = toeplitz.measure(model, ())
        assert found.keys() == set(PROBES["toeplitz"].metrics)
        assert found["toeplitz_random"] == toeplitz.random_share(16, grid=name != "gmlp-text")
        assert 0 < found["toeplitz"] < 3 * found["toeplitz_random"]  # at the start all is chance
    built = toeplitz.measure(create("gmlp-text", **text, matrix="toeplitz"), ())
    assert built == {"toeplitz": 1.0, "toeplitz_random": 1.0}
    assert toeplitz.measure(create("lenet"), ()) == {}


class Convolutions(nn.Module):
    """Convolutions of equal kernels all of ones, one after the other."""

    def __init__(self, kernel: int, layers: int, stride: int = 1) -> None:
        super().__init__()
        padding = kernel // 2
        self.maps = nn.Sequential(
            *(nn.Conv2d(1, 1, kernel, stride, padding, bias=False) for _ in range(layers))
        )
        for layer in self.maps:
            nn.init.ones_(layer.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.maps(x).mean((2, 3))


@pytest.mark.parametrize(("kernel", "layers"), [(3, 1), (3, 4), (5, 3), (1, 2)])
def test_the_box_is_what_the_formula_says(kernel: int, layers: int) -> None:
    found = receptive_field.measure(Convolutions(kernel, layers), (torch.randn(4, 1, 41, 41),))
    assert found["field_box"] == found["field_formula"] == 1 + layers * (kernel - 1)
    # Sums of so many independent uniform steps: their variances add up.
    assert found["field_effective"] == pytest.approx(4 * math.sqrt(layers * (kernel**2 - 1) / 12))


def test_strides_multiply() -> None:
    found = receptive_field.measure(Convolutions(3, 3, stride=2), (torch.randn(2, 1, 64, 64),))
    assert found["field_box"] == found["field_formula"] == 1 + 2 * (1 + 2 + 4)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_recurrent_convolution_sees_more_with_every_step(steps: int) -> None:
    torch.manual_seed(0)
    model = create("rcnn", image_size=128, width=16, steps=steps)
    found = receptive_field.measure(model, (torch.randn(16, 3, 128, 128),))
    # 5×5, pool 3/2, two layers of t + 1 convolutions, pool, two more.
    expected = 1 + 4 + 2 + 2 * (2 * 2 * (steps + 1)) + 2 * 2 + 4 * (2 * 2 * (steps + 1))
    assert found["field_formula"] == expected
    assert 0.8 * min(expected, 128) <= found["field_box"] <= min(expected, 128)
    assert 0 < found["field_effective"] < found["field_box"]


def test_a_network_that_sees_all_and_one_that_has_no_map() -> None:
    vit = create("vit", image_size=16, patch=4, width=16, depth=1, heads=2, hidden=16, channels=1)
    found = receptive_field.measure(vit, (torch.randn(8, 1, 16, 16),))
    assert found["field_box"] == 16
    assert "field_formula" not in found
    mlp = create("mlp", image_size=8, channels=1)
    assert receptive_field.measure(mlp, (torch.randn(8, 1, 8, 8),)) == {}
    assert receptive_field.measure(mlp, (torch.ones(2, 5, dtype=torch.long),)) == {}


def test_the_field_behind_a_layer_norm_is_no_rounding_noise() -> None:
    """The sum over normed channels is constant: in a random direction the gradients are real."""
    small = {"image_size": 16, "patch": 4, "width": 16, "depth": 2, "channels": 1}
    for name, own in (
        ("vit", {"heads": 2, "hidden": 16}),
        ("mixer", {"token_width": 8, "channel_width": 16}),
    ):
        torch.manual_seed(0)
        sizes, _ = receptive_field.gradient(create(name, **small, **own), torch.randn(8, 1, 16, 16))
        assert sizes.min() > 1e-4, name
        assert receptive_field.effective(sizes) < 1.3 * 16


def test_a_shortcut_with_a_stride_of_its_own_has_no_formula() -> None:
    model = create("timm/resnet18", image_size=64, channels=3, classes=2)
    found = receptive_field.measure(model, (torch.randn(2, 3, 64, 64),))
    assert found.keys() == {"field_box", "field_effective"}


def test_measuring_leaves_the_model_as_it_was() -> None:
    model = create("resnet-20", image_size=16)
    model.train()
    model.stem.eval()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    receptive_field.measure(model, (torch.randn(4, 3, 16, 16),))
    assert model.training
    assert not model.stem.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_is_where_its_name_says(name: str) -> None:
    assert callable(importlib.import_module(PROBES[name].module).measure)


def test_the_gradient_s_norm_is_backpropagation_s_by_hand() -> None:
    """Of y = W2 W1 x: dL/dW2 = δ (W1 x)ᵀ and dL/dW1 = W2ᵀ δ xᵀ, with δ = softmax - one-hot."""
    torch.manual_seed(0)
    first, last = nn.Linear(5, 4, bias=False), nn.Linear(4, 3, bias=False)
    x = torch.randn(7, 5)
    found = gradient_norm.measure(nn.Sequential(first, last), (x,))
    classes = torch.randint(3, (7,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        hidden = first(x)
        delta = (last(hidden).softmax(-1) - nn.functional.one_hot(classes, 3)) / 7
        norms = (delta @ last.weight).T @ x, delta.T @ hidden
    assert [found["gradient_1"], found["gradient_2"]] == pytest.approx(
        [norm.norm().item() for norm in norms]
    )
    decades = math.log10(found["gradient_1"] / found["gradient_2"])
    assert found["gradient_decades"] == pytest.approx(decades)


def test_gradients_vanish_in_a_deep_logistic_perceptron_and_not_with_shortcuts() -> None:
    torch.manual_seed(0)
    deep = {"image_size": 8, "channels": 1, "depth": 20, "width": 32}
    images = (torch.randn(16, 1, 8, 8),)
    plain = gradient_norm.measure(create("mlp", **deep, activation="logistic"), images)
    residual = gradient_norm.measure(create("mlp", **deep, shortcut=True), images)
    assert plain["gradient_decades"] < -10
    assert abs(residual["gradient_decades"]) < 2


def test_gradient_norms_leave_a_model_as_it_was_and_are_of_classifiers_alone() -> None:
    model = create("resnet-small", image_size=8, layers=8, width=4, channels=1)
    model.train()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    found = gradient_norm.measure(model, (torch.randn(4, 1, 8, 8),))
    assert len([name for name in found if name != "gradient_decades"]) == 8
    assert model.training
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    words = create("transformer-text", vocab_size=50, length=8, width=8, depth=1, heads=2, hidden=8)
    assert gradient_norm.measure(words, (torch.ones(2, 8, dtype=torch.long),)) == {}
