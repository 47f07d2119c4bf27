"""Float32 on a GPU has one precision, whatever multiplies; read back from torch itself."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from pytorch_lightning.plugins.precision import MixedPrecision

from lightning_bench.bench.run.determinism import use_deterministic_algorithms
from lightning_bench.bench.run.distributed import ALONE
from lightning_bench.bench.run.precision import kernels, set_float32_precision
from lightning_bench.bench.run.trainer import make_trainer
from lightning_bench.bench.spec import Precision, Recipe


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    set_float32_precision("fp32", "cuda")


def precisions() -> dict[str, str]:
    backends = torch.backends
    return {
        "matmul": backends.cuda.matmul.fp32_precision,
        "conv": backends.cudnn.conv.fp32_precision,
        "rnn": backends.cudnn.rnn.fp32_precision,
        # What torch.compile asks.
        "all": backends.cudnn.fp32_precision,
    }


@pytest.mark.parametrize(
    ("precision", "kind"),
    [("fp32", "ieee"), ("tf32", "tf32"), ("bf16", "ieee"), ("fp16", "ieee")],
)
def test_products_convolutions_and_recurrent_layers_are_alike(
    precision: Precision, kind: str
) -> None:
    set_float32_precision(precision, "cuda")
    assert precisions() == dict.fromkeys(["matmul", "conv", "rnn", "all"], kind)
    # Lightning and torch.compile read the older interface, which raises where the two differ.
    assert torch.get_float32_matmul_precision() == ("high" if kind == "tf32" else "highest")
    assert torch.backends.cuda.matmul.allow_tf32 is (kind == "tf32")
    assert torch.backends.cudnn.allow_tf32 is (kind == "tf32")


def test_a_run_on_a_cpu_changes_nothing() -> None:
    set_float32_precision("tf32", "cuda")
    before = precisions()
    set_float32_precision("fp32", "cpu")
    assert precisions() == before


def test_the_scaler_of_fp16_starts_where_the_recipe_says() -> None:
    def scale(**recipe: Any) -> float:
        trainer = make_trainer(Recipe(**recipe), 1, ALONE, "cpu", "ddp", [])
        plugin = trainer.precision_plugin
        assert isinstance(plugin, MixedPrecision)
        return plugin.scaler.get_scale() if plugin.scaler else 0.0

    assert scale(precision="fp16") == torch.amp.GradScaler("cpu").get_scale()
    assert scale(precision="fp16", loss_scale=128.0) == 128.0
    assert scale(precision="bf16") == 0.0


def test_what_runs_without_a_trainer_has_the_kernels_of_one() -> None:
    torch.use_deterministic_algorithms(False)
    try:
        use_deterministic_algorithms()
        alone = kernels(), torch.is_deterministic_algorithms_warn_only_enabled()
        torch.use_deterministic_algorithms(False)
        make_trainer(Recipe(), 1, ALONE, "cpu", "ddp", [])
        assert (kernels(), torch.is_deterministic_algorithms_warn_only_enabled()) == alone
        assert kernels().deterministic
    finally:
        torch.use_deterministic_algorithms(False)
