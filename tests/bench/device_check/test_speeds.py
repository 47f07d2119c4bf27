"""Step 9 holds products against data sheets, and finds a contender without a figure."""

from pathlib import Path

import pytest

from lightning_bench.bench.device_check.device_report import Findings
from lightning_bench.bench.device_check.speeds import judge_products
from lightning_bench.bench.plan.data_sheets import SHEETS, DataSheet
from tests.bench.device_check.cpu_check import step

A100 = SHEETS["a100"]
PRODUCTS = {"fp32": {"tflops": 12.0}, "tf32": {"tflops": 90.0}, "bf16": {"tflops": 200.0}}


@pytest.mark.parametrize(
    ("sheet", "wrong"),
    [
        (A100, []),
        (A100._replace(fp32=67.0), ["fp32"]),
        (A100._replace(tf32=60.0, bf16=121.0), ["tf32", "bf16"]),
        (A100._replace(tf32=None, bf16=None), []),
        (None, []),
    ],
)
def test_products_beyond_or_far_below_the_sheet_are_found(
    sheet: DataSheet | None, wrong: list[str]
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
