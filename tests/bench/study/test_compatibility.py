"""Which recipes and devices are compatible."""

from typing import Any

import pytest

from lightning_bench.bench.spec import DataSpec, Recipe
from lightning_bench.bench.study.compatibility import unfit_devices, without_effect
from lightning_bench.bench.study.inputs import dataset_of


@pytest.mark.parametrize(
    ("recipe", "devices", "device", "says"),
    [
        ({"batch_size": 3}, 4, "cpu", "a batch of 3 is too small for 4 devices"),
        ({"batch_size": 8, "accumulate": 3}, 4, "cpu", "batch_size must be 12 at least"),
        ({"batch_size": 3, "accumulate": 4}, 1, "cpu", "one device in 4 parts"),
        ({"precision": "fp16"}, 1, "cpu", "fp16 needs a GPU"),
        ({"precision": "tf32"}, 1, "cpu", "precision tf32 needs a GPU; a CPU computes in fp32"),
        ({"precision": "tf32"}, 1, "mps", "precision tf32 is of NVIDIA's GPUs, not of mps"),
    ],
)
def test_what_can_t_be_shared_is_one_line(
    recipe: dict[str, Any], devices: int, device: str, says: str
) -> None:
    problem = unfit_devices(Recipe(**recipe), device=device, devices=devices, strategy="ddp")
    assert says in problem
    assert "\n" not in problem
    assert unfit_devices(Recipe(), device=device, devices=devices, strategy="ddp") == ""


def test_a_scale_without_fp16_does_nothing() -> None:
    digits = dataset_of(DataSpec(name="digits"))
    assert without_effect(digits, Recipe(loss_scale=128.0)) == ["loss_scale"]
    assert without_effect(digits, Recipe(loss_scale=128.0, precision="bf16")) == ["loss_scale"]
    assert without_effect(digits, Recipe(loss_scale=128.0, precision="fp16")) == []


def test_a_model_is_sharded_over_several_devices() -> None:
    problem = unfit_devices(Recipe(), device="cpu", devices=1, strategy="fsdp")
    assert problem.startswith("strategy fsdp shards a model over several devices")
    assert unfit_devices(Recipe(), device="cpu", devices=2, strategy="fsdp") == ""
