"""The same network with and without shortcuts, batch norm, and regions that are read apart."""

import pytest
import torch
from torch import nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.registry import create

IMAGES = {"channels": 1, "image_size": 8}


def test_layers_that_add_nothing_leave_what_the_shortcut_carries() -> None:
    images = torch.randn(3, 1, 8, 8)
    for shortcut in (True, False):
        model = create("mlp", **IMAGES, depth=4, width=6, shortcut=shortcut)
        for parameter in model.hidden[1:].parameters():
            nn.init.zeros_(parameter)
        first = model.hidden[0](images.flatten(1))
        assert torch.equal(model.hidden(images.flatten(1)), first * shortcut)


def test_a_small_resnet_without_shortcuts_is_plain() -> None:
    images = torch.randn(3, 1, 8, 8)
    for shortcut in (True, False):
        model = create("resnet-small", **IMAGES, layers=14, width=4, shortcut=shortcut).eval()
        block = model.blocks[0]
        nn.init.zeros_(block.conv2.weight)
        seen = model.stem(images)
        assert torch.equal(block(seen), seen * shortcut)


@pytest.mark.parametrize("name", ["mlp", "resnet-small"])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_batch_norm_is_on_or_off(name: str, batch_norm: bool) -> None:
    model = create(name, **IMAGES, width=4, batch_norm=batch_norm)
    norms = [m for m in model.modules() if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d)]
    assert bool(norms) == batch_norm


def test_one_hidden_layer_is_read_as_the_mean_of_each_region() -> None:
    model = create("weight-sharing", **IMAGES, field=3, pool=4, units=2)
    images = torch.randn(3, 1, 8, 8)
    maps = model.hidden(images).relu()
    # Regions of 2×2 pixels.
    means = maps.reshape(3, 2, 4, 2, 4, 2).mean((3, 5)).flatten(1)
    assert torch.allclose(model(images), model.head(means), atol=1e-6)
    with pytest.raises(ModelError, match="can't be cut into 3×3"):
        create("weight-sharing", **IMAGES, field=3, pool=3)
