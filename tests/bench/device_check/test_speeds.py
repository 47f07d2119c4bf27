"""Step 9 holds products against data sheets, and finds a contender without a figure."""

from pathlib import Path

import pytest

from lightning_bench.bench.device_check.data_sheets import Peak, peak
from lightning_bench.bench.device_check.device_report import Findings
from lightning_bench.bench.device_check.speeds import judge_products
from tests.bench.device_check.cpu_check import step

PRODUCTS = {"fp32": {"tflops": 12.0}, "tf32": {"tflops": 90.0}, "bf16": {"tflops": 200.0}}


@pytest.mark.parametrize(
    ("card", "tf32"),
    [
        ("NVIDIA A100-SXM4-80GB", 156.0),
        ("NVIDIA A10", 62.5),
        ("NVIDIA H100 80GB HBM3", 494.7),
        ("NVIDIA H100 PCIe", 378.0),
        ("NVIDIA L40S", 183.0),
        ("NVIDIA GeForce RTX 4090", 82.6),
        ("Tesla T4", None),
    ],
)
def test_a_card_is_found_by_its_name(card: str, tf32: float | None) -> None:
    found = peak(card)
    assert found is not None
    assert found.tf32 == tf32


@pytest.mark.parametrize(
    "card",
    [
        "NVIDIA A10G",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA A100-SXM4-80GB MIG 1g.10gb",
        "NVIDIA H100 of a kind to come",
        "",
    ],
)
def test_a_slower_card_of_a_like_name_is_not_taken_for_it(card: str) -> None:
    assert peak(card) is None


@pytest.mark.parametrize(
    ("sheet", "wrong"),
    [
        (Peak(19.5, 156.0, 312.0), []),
        (Peak(67.0, 156.0, 312.0), ["fp32"]),
        (Peak(19.5, 60.0, 121.0), ["tf32", "bf16"]),
        (Peak(19.5), []),
        (None, []),
    ],
)
def test_products_beyond_or_far_below_the_sheet_are_found(
    sheet: Peak | None, wrong: list[str]
) -> None:
    found = Findings()
    judge_products(found, PRODUCTS, sheet, "the card")
    assert [figure.name.split(",")[0] for figure in found.unmet] == wrong


@pytest.mark.slow
def test_a_contender_without_a_figure_is_found(tmp_path: Path) -> None:
    contenders = ("lenet", "tests.bench.misbehaving:raises")
    result = step(9, tmp_path, contenders=contenders)
    assert result.result == "failed"
    assert "misbehaving:raises at batch 2: code: RuntimeError: line one" in result.summary
