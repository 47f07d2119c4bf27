"""Training asks for determinism strictly where it can have it, and a record names what has none."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lightning_bench.bench.run import determinism, training
from lightning_bench.bench.run.control import Control
from tests import factory

FLASH = (
    "Flash Attention defaults to a non-deterministic algorithm. To explicitly enable determinism "
    "call torch.use_deterministic_algorithms(True, warn_only=False)."
)
CUBLAS = (
    "Deterministic behavior was enabled with either `torch.use_deterministic_algorithms(True)` or "
    "`at::Context::setDeterministicAlgorithms(true)`, but this operation is not deterministic "
    "because it uses CuBLAS and you have CUDA >= 10.2."
)


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)
    torch.backends.cuda.enable_cudnn_sdp(True)


def trained(control: Control | None = None, **args: Any) -> training.Outcome:
    spec = factory.spec("tests.bench.misbehaving:attends", args=args, recipe={"epochs": 1})
    return training.train(spec, device="cpu", on_epoch=lambda _: None, control=control)


def test_a_gpu_attends_deterministically_and_evaluation_never_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    as_on_a_cpu = trained()
    # In evaluation the model does what has no deterministic form.
    assert sorted(as_on_a_cpu.nondeterministic) == ["Flash Attention", "put_"]
    monkeypatch.setattr(training, "begins_strict", lambda device: True)
    strict = trained()
    assert strict.nondeterministic == ["put_"]
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert strict.metrics == as_on_a_cpu.metrics


def test_training_starts_again_where_an_operation_has_no_deterministic_form(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported: list[Exception] = []
    expected = trained(puts=True)
    monkeypatch.setattr(training, "begins_strict", lambda device: True)
    again = trained(Control(on_failure=reported.append), puts=True)
    assert sorted(again.nondeterministic) == ["Flash Attention", "put_"]
    assert again.metrics == expected.metrics
    assert [e.train_loss for e in again.curve] == [e.train_loss for e in expected.curve]
    assert not reported


def test_a_gpu_begins_strict() -> None:
    assert determinism.begins_strict("cuda")
    assert not determinism.begins_strict("cpu")


@pytest.mark.parametrize(
    ("message", "operation"),
    [
        (FLASH, "Flash Attention"),
        (CUBLAS, "cuBLAS"),
        ("mat1 and mat2 shapes cannot be multiplied", ""),
    ],
)
def test_torch_names_the_operation(message: str, operation: str) -> None:
    assert determinism.nondeterministic_operation(message) == operation


def test_torch_s_own_words_are_understood() -> None:
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError) as caught:
        torch.zeros(1).put_(torch.zeros(1, dtype=torch.long), torch.ones(1))
    assert determinism.nondeterministic_operation(caught.value) == "put_"
