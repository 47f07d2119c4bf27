"""What a table says of the devices of its runs stands in every file of the report."""

import csv
import io

import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.render import csv_and_parquet, html, latex, markdown
from lightning_bench.reports.report import Report
from lightning_bench.reports.request import ReportedRun
from tests.factory import ENVIRONMENT

OPERATIONS = ["scatter_add_cuda_kernel", "avg_pool3d_backward_cuda"]


def changed(run: ReportedRun, record: dict[str, object], **provenance: object) -> ReportedRun:
    """The run with another record, or one that was made elsewhere."""
    made = run.record.provenance.model_copy(update=provenance)
    other = run.record.model_copy(update={"provenance": made, **record})
    return run.model_copy(update={"record": other})


@pytest.fixture
def not_deterministic(make) -> tuple[Report, list[ReportedRun]]:
    request, runs = make.study({"LeNet": [0.9, 0.91], "ViT": [0.8, 0.82]})
    runs = [
        changed(run, {"nondeterministic": OPERATIONS} if run.entry == "ViT" else {}) for run in runs
    ]
    return build(request, runs), runs


def test_an_operation_that_is_not_deterministic_is_a_footnote(not_deterministic) -> None:
    report, _ = not_deterministic
    table = report.tables[0]
    (note,) = [note for note in table.notes if "not deterministic" in note.text]
    assert "2 operations have no deterministic form" in note.text
    assert "(avg_pool3d_backward_cuda, scatter_add_cuda_kernel)" in note.text
    marked = {row.label: row.cells[0].notes for row in table.rows}
    assert marked == {"LeNet": [], "ViT": [note.mark]}


def test_every_file_of_the_report_has_it(not_deterministic) -> None:
    report, runs = not_deterministic
    assert "scatter_add_cuda_kernel" in html.render(report, runs)
    assert r"scatter\_add\_cuda\_kernel" in latex.render(report, runs)
    assert r"scatter\_add\_cuda\_kernel" in markdown.render(report, runs)
    assert "scatter_add_cuda_kernel" in report.model_dump_json()
    text = csv_and_parquet.csv_text(csv_and_parquet.rows(report, runs))
    cells = {row["entry"]: row["nondeterministic"] for row in csv.DictReader(io.StringIO(text))}
    assert cells == {"LeNet": "", "ViT": ", ".join(OPERATIONS)}


A100, H100 = ({"device": "cuda", "device_kind": f"NVIDIA {name}"} for name in ("A100", "H100"))


def test_the_kind_of_gpu_stands_under_the_tables(make) -> None:
    request, runs = make.study({"LeNet": [0.9, 0.91], "ViT": [0.8, 0.82]})
    report = build(request, [changed(run, {}, **A100) for run in runs])
    for table in (report.tables[0], next(t for t in report.tables if t.id == "cost")):
        assert [n.text for n in table.notes if "NVIDIA" in n.text] == ["Trained on NVIDIA A100."]
        assert not any("Not one" in note.text for note in table.notes)
    assert "1 × NVIDIA A100" in next(f.text for f in report.facts if f.label == "Hardware")


def test_driver_and_libraries_of_gpus_are_among_the_software(make) -> None:
    request, runs = make.study({"LeNet": [0.9, 0.91]})
    on_gpus = {"driver": "580.65", "libraries": {"cuda": "13.2", "nccl": "2.28.3"}}
    environment = ENVIRONMENT.model_copy(update=on_gpus)
    request = request.model_copy(update={"environments": {"e" * 64: environment}})
    software = next(f.text for f in build(request, runs).facts if f.label == "Software")
    assert software.endswith("driver 580.65, cuda 13.2, nccl 2.28.3")


@pytest.mark.parametrize("second", [H100, {}], ids=["another GPU", "the CPU"])
def test_a_table_that_mixes_kinds_is_marked(make, second: dict[str, str]) -> None:
    request, runs = make.study({"LeNet": [0.9, 0.91], "ViT": [0.8, 0.82]})
    runs = [changed(run, {}, **(second if run.entry == "ViT" else A100)) for run in runs]
    report = build(request, runs)
    other = second.get("device_kind", "CPU")
    main = report.tables[0]
    marks = {note.mark: note.text for note in main.notes}
    kinds = f"NVIDIA A100 (2 runs) and {other} (2 runs)"
    assert marks[""] == f"Not one kind of device: {kinds}; they round differently."
    shown = {row.label: [marks[mark] for mark in row.cells[0].notes] for row in main.rows}
    assert shown == {"LeNet": ["trained on NVIDIA A100"], "ViT": [f"trained on {other}"]}
    cost = next(table for table in report.tables if table.id == "cost")
    assert any("Not one kind of device" in note.text for note in cost.notes)
    assert any("differ in devices" in note.text for note in cost.notes)
    text = csv_and_parquet.csv_text(csv_and_parquet.rows(report, runs))
    rows = {row["entry"]: row for row in csv.DictReader(io.StringIO(text))}
    assert rows["LeNet"]["device_kind"] == "NVIDIA A100"
    assert rows["ViT"]["device_kind"] == second.get("device_kind", "")
