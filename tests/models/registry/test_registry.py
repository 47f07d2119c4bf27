"""Every registered variant, as the harness meets it."""

from typing import Any

import pytest
import torch

from lightning_bench.models.registry.registry import create


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mlp", {"width": 64}),
        ("lenet", {}),
        ("resnet-20", {"width": 5}),
        ("vit", {"patch": 2, "width": 32, "depth": 2, "heads": 2, "hidden": 64}),
        ("mixer", {"patch": 2, "width": 48, "depth": 4, "token_width": 24, "channel_width": 48}),
        ("gmlp", {"patch": 2, "width": 32, "depth": 4, "hidden": 128}),
    ],
)
def test_the_quick_start_models_learn_ten_digits_of_64_pixels(
    name: str, arguments: dict[str, Any]
) -> None:
    torch.manual_seed(0)
    model = create(name, channels=1, image_size=8, classes=10, **arguments)
    x, y = torch.randn(64, 1, 8, 8), torch.arange(64) % 10
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(30):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
