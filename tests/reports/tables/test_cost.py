"""The table of costs names memory and time for what they are on the devices of its runs."""

import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.report import Table
from tests.reports.tables.test_training_devices import changed

ON_GPU = {"device": "cuda", "devices": 2}


def cost_table(make, *devices: dict[str, object]) -> Table:
    """Of entries that were trained on these devices."""
    scores = {f"m{i}": [0.5, 0.6] for i in range(len(devices))}
    request, runs = make.study(scores)
    runs = [changed(run, {}, **devices[int(run.entry[1:])]) for run in runs]
    return next(table for table in build(request, runs).tables if table.id == "cost")


@pytest.mark.parametrize(
    ("devices", "memory", "unit"),
    [
        ([{}], "Process memory", "core-min"),
        ([ON_GPU], "GPU memory", "GPU-min"),
        ([{}, ON_GPU], "Memory", "core- or GPU-min"),
    ],
)
def test_memory_and_time_are_named_for_the_devices(make, devices, memory, unit) -> None:
    columns = {column.id: column for column in cost_table(make, *devices).columns}
    assert columns["memory"].title == memory
    assert columns["core"].unit == unit
