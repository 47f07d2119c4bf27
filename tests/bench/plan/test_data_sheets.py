"""Cards by their drivers' names, and the machine that a plan is made for."""

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan import machines
from lightning_bench.bench.plan.data_sheets import SHEETS, of_card, sheet_of
from lightning_bench.bench.plan.machines import ChosenMachine


@pytest.mark.parametrize(
    ("card", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("Tesla V100-PCIE-32GB", "v100-pcie"),
        ("Tesla T4", "t4"),
    ],
)
def test_a_card_is_known_by_its_drivers_name(card: str, name: str) -> None:
    assert of_card(card) == name
    assert sheet_of(card) == SHEETS[name]


@pytest.mark.parametrize(
    "card",
    [
        "NVIDIA A10G",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA H100 of a kind to come",
        "NVIDIA H100 NVL",  # no sheet of it was at hand
        "NVIDIA A30",
        "Tesla K80",
        "",
    ],
)
def test_a_slower_card_of_a_like_name_is_not_taken_for_it(card: str) -> None:
    assert of_card(card) is None
    assert sheet_of(card) is None


def nobody() -> list[str]:
    raise AssertionError("nobody asks for the cards of this host")


def test_the_machine_that_is_named_comes_first() -> None:
    assert machines.chosen("a40:4", 0.3, nobody).rates == machines.named("a40:4", 0.3)
    assert machines.chosen("cpu", None, nobody) == ChosenMachine()
    with pytest.raises(UserError, match="unknown machine"):
        machines.chosen("a31", None, nobody)
    with pytest.raises(UserError, match="a machine and a number of its devices, as in a100:8"):
        machines.chosen("a100:0", None, nobody)


def test_then_the_gpus_here_then_its_cores() -> None:
    two = machines.chosen(None, None, lambda: ["NVIDIA A10", "NVIDIA A10"])
    assert two.rates == machines.named("a10:2")
    assert machines.chosen(None, None, lambda: ["Tesla K80"]) == ChosenMachine(unknown_gpu=True)
    assert machines.chosen(None, None, list) == ChosenMachine()
