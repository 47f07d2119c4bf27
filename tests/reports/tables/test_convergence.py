"""Epochs to a goal: from the curve, never from the test, and no mean over some of the runs."""

import pytest

from lightning_bench.bench.store.record import Epoch
from lightning_bench.bench.study.study import Entry
from lightning_bench.reports import build
from lightning_bench.reports.request import ModelCounts, ModelFacts
from lightning_bench.reports.tables import convergence
from tests.reports.conftest import change, make_study


def curve(*values: float) -> list[Epoch]:
    return [
        Epoch(epoch=i, step=i, train_loss=1, metrics={"accuracy": value})
        for i, value in enumerate(values, start=1)
    ]


def test_the_first_epoch_that_is_as_good() -> None:
    assert convergence.first_epoch(curve(0.5, 0.9, 0.8, 0.95), "accuracy", 0.9) == 2
    assert convergence.first_epoch(curve(0.5, 0.6), "accuracy", 0.9) is None
    assert convergence.first_epoch(curve(9, 5, 7), "accuracy", 5, higher=False) == 2
    assert convergence.first_epoch(curve(0.5), "f1", 0.1) is None
    assert convergence.first_epoch([], "accuracy", 0.1) is None


def test_the_table_has_a_mean_only_where_all_runs_got_there() -> None:
    # Curves of `make_record`: value × (1 - 0.6^(epoch + 1)), eight epochs.
    request, runs = make_study({"fast": [0.99, 0.98, 0.97], "slow": [0.99, 0.9, 0.9], "no": [0.5]})
    request = change(request, epochs_to={"accuracy": 0.95})
    tables = {table.id: table for table in build.build(request, runs).tables}
    rows = {row.label: row.cells[0] for row in tables["epochs-to"].rows}
    # 0.99 (1 - 0.6^n) ≥ 0.95 from n = 7, the sixth epoch; 0.98 and 0.97 a bit later.
    assert (rows["fast"].value, rows["fast"].n) == ((6 + 6 + 7) / 3, 3)
    assert (rows["slow"].value, rows["slow"].state) == (None, "1 of 3")
    assert (rows["no"].value, rows["no"].state) == (None, "never")
    assert tables["epochs-to"].columns[0].title == "digits, accuracy ≥ 95 %"
    # What is in per cent is in per cent in the notes too.
    said = {note.text for note in tables["epochs-to"].notes}
    assert said == {"the best of any run and epoch: 98 %", "the best of any run and epoch: 49.5 %"}


def test_without_a_goal_there_is_no_table() -> None:
    request, runs = make_study({"one": [0.9]})
    assert "epochs-to" not in {table.id for table in build.build(request, runs).tables}


def test_a_study_that_trains_nothing_is_a_table_of_counts() -> None:
    request, _ = make_study({"one": []})
    counted = {"one": ModelCounts(parameters=5_000_000, flops=2_000_000_000, layers=3)}
    report = build.build(change(request, counted=counted, seeds=[]), [])
    (main,) = report.tables
    assert [column.id for column in main.columns] == ["parameters", "flops", "layers"]
    assert [cell.value for cell in main.rows[0].cells] == [5_000_000, 2_000_000_000, 3]
    assert "never trained" in main.caption


def test_one_model_at_three_lengths_has_an_exponent_beside_the_claim() -> None:
    lengths = {"a": 10, "b": 20, "c": 40, "d": 80}
    request, _ = make_study({label: [] for label in [*lengths, "alone"]})
    alone = ModelCounts(parameters=1, flops=7, tokens=10)
    for family, power in (("mixer", 1), ("vit", 2)):
        counted = {
            x: ModelCounts(parameters=1, flops=3 * s**power, tokens=s) for x, s in lengths.items()
        }
        entries = {
            label: Entry(model="z" if label == "alone" else "x") for label in request.entries
        }
        models = dict.fromkeys(entries, ModelFacts(family=family))
        changes = {"counted": {**counted, "alone": alone}, "entries": entries, "models": models}
        tables = build.build(change(request, **changes, seeds=[]), []).tables
        (row,) = next(table for table in tables if table.id == "scaling").rows
        fitted, of_three, degree, claim = row.cells
        assert (fitted.value, of_three.value) == (pytest.approx(power), pytest.approx(power))
        assert (degree.value, claim.value) == (power, power)
