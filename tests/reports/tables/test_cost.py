"""The table of costs names memory and time for what they are on the devices of its runs."""

import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.report import Attempt, Table
from tests.factory import COST
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


def test_pre_training_is_counted_in_what_a_row_cost(make) -> None:
    """In a column of its own, and in the total; the stage's other attempts too."""
    request, runs = make.study({"A": [0.5, 0.6], "B": [0.5, 0.6]})
    (stage,) = make.study({"pretrain (A)": [0.7]})[1]
    lost = Attempt(number=1, end="failed", cause="c", log="l", device_h=2.0)
    stage = stage.model_copy(update={"earlier": [lost]})
    request = request.model_copy(update={"before": {"A": [stage]}})
    table = next(table for table in build(request, runs).tables if table.id == "cost")
    places = {column.id: place for place, column in enumerate(table.columns)}
    cells = {row.label: row.cells for row in table.rows}
    hours = 2.0 + COST.device_h
    assert cells["A"][places["before"]].value == pytest.approx(hours)
    assert cells["B"][places["before"]].value is None
    more = cells["A"][places["core"]].value - cells["B"][places["core"]].value
    assert more == pytest.approx(hours / 24)
    assert any("counted in each" in note.text for note in table.notes)
    assert "before" not in {column.id for column in cost_table(make, {}).columns}
