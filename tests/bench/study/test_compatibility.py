"""Which recipes and devices are compatible."""

from typing import Any

import pytest

from lightning_bench.bench.spec import Recipe
from lightning_bench.bench.study.compatibility import unfit_devices


@pytest.mark.parametrize(
    ("recipe", "devices", "device", "says"),
    [
        ({"batch_size": 3}, 4, "cpu", "a batch of 3 is too small for 4 devices"),
        ({"batch_size": 8, "accumulate": 3}, 4, "cpu", "batch_size must be 12 at least"),
        ({"batch_size": 3, "accumulate": 4}, 1, "cpu", "one device in 4 parts"),
        ({"precision": "fp16"}, 1, "cpu", "fp16 needs a GPU"),
    ],
)
def test_what_can_t_be_shared_is_one_line(
    recipe: dict[str, Any], devices: int, device: str, says: str
) -> None:
    problem = unfit_devices(Recipe(**recipe), device=device, devices=devices, strategy="ddp")
    assert says in problem
    assert "\n" not in problem
    assert unfit_devices(Recipe(), device=device, devices=devices, strategy="ddp") == ""
