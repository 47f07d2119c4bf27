"""Files: the CSV, the figures, and how they get to their places."""

import io
import json
import re
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from matplotlib import rcParams
from matplotlib.collections import LineCollection
from pyarrow import parquet

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data, fork_pool, style
from lightning_bench.reports.render import csv_and_parquet, write
from lightning_bench.reports.report import Report


def test_csv_has_each_run_and_metric_once_with_all_digits(quickstart):
    request, runs = quickstart(3)
    frame = pd.read_csv(
        io.StringIO(csv_and_parquet.csv_text(csv_and_parquet.rows(build(request, runs), runs)))
    )
    assert tuple(frame.columns) == csv_and_parquet.COLUMNS
    assert len(frame) == 15
    values = frame.set_index("key").value.to_dict()
    assert values == {run.key: run.record.metrics["accuracy"] for run in runs}
    assert set(frame.parameters) == {61_706}


def test_parquet_holds_the_same_rows_and_says_what_they_mean(rough):
    request, runs = rough
    report = build(request, runs)
    table = parquet.read_table(
        io.BytesIO(csv_and_parquet.parquet(report, csv_and_parquet.rows(report, runs)))
    )
    assert tuple(table.column_names) == csv_and_parquet.COLUMNS
    for field in csv_and_parquet.FIELDS:
        assert table.schema.field(field.name).metadata == {b"description": field.means.encode()}
    frame = table.to_pandas()
    assert len(frame.drop_duplicates([*csv_and_parquet.KEY])) == len(frame) == len(runs)
    other = pd.read_csv(io.StringIO(csv_and_parquet.csv_text(csv_and_parquet.rows(report, runs))))
    for name in ("seed", "value", "all_device_h", "attempts"):
        assert frame[name].tolist() == pytest.approx(other[name].tolist(), nan_ok=True)
    # Nobody's spreadsheet reads Parquet: text stands as it is.
    assert "=cmd|' /C calc'!A0" in set(frame.entry)


def test_parquet_of_no_runs_has_the_columns_all_the_same(quickstart):
    request, runs = quickstart(2)
    table = parquet.read_table(io.BytesIO(csv_and_parquet.parquet(build(request, runs), [])))
    assert table.num_rows == 0
    assert tuple(table.column_names) == csv_and_parquet.COLUMNS


def test_the_schema_is_documented_and_true(quickstart, tmp_path):
    text = (Path(write.__file__).parent / "SCHEMA.md").read_text(encoding="utf-8")
    for field in csv_and_parquet.FIELDS:
        assert f"| `{field.name}` | {field.type} | {field.means} |" in text
    assert text.count("\n| `") == len(csv_and_parquet.FIELDS)
    request, runs = quickstart(2)
    write.write(build(request, runs), runs, tmp_path, ["json", "schema.json"])
    report, schema = (
        json.loads((tmp_path / f"report.{name}").read_text()) for name in ("json", "schema.json")
    )
    jsonschema.validate(report, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report | {"tables": "none"}, schema)


def test_csv_shows_runs_without_a_result_and_disarms_formulas(rough):
    request, runs = rough
    text = csv_and_parquet.csv_text(csv_and_parquet.rows(build(request, runs), runs))
    frame = pd.read_csv(io.StringIO(text), keep_default_na=False)
    assert len(frame) == len(runs)
    assert set(frame[frame.metric == ""].state) == {"failed", "missing", "running"}
    texts = frame[["study", "dataset", "group", "entry", "model", "reason", "folder"]]
    assert not texts.map(lambda value: str(value).startswith(("=", "+", "-", "@"))).any().any()
    assert "'=cmd|' /C calc'!A0" in set(frame.entry)


def test_figures_are_the_same_bytes_twice_and_leave_no_settings_behind(quickstart):
    request, runs = quickstart(3)
    report = build(request, runs)
    before = dict(rcParams)
    first = dict(drawing_process.files(figure_data.of_report(report), runs, style.METADATA))
    assert (
        dict(drawing_process.files(figure_data.of_report(report), runs[::-1], style.METADATA))
        == first
    )
    assert dict(rcParams) == before
    assert {name.rpartition(".")[2] for name in first} == {"svg", "pdf", "png"}
    svg = first["curves-digits.svg"].decode()
    assert "MLP-Mixer" in svg
    assert not re.search(r"<dc:date>|matplotlib\.org", svg, re.I)


def test_forks_draw_the_same_as_one_process(quickstart, alone, monkeypatch):
    request, runs = quickstart(3)
    report = build(request, runs)
    found = {}
    for few in (1, 99):
        monkeypatch.setattr(fork_pool, "FEW", few)
        found[few] = dict(drawing_process.files(figure_data.of_report(report), runs, ["svg"]))
    assert found[1] == found[99]


def test_figures_tell_entries_apart_without_colour():
    styles = {
        (style.LINES[i % len(style.LINES)], style.MARKERS[i % len(style.MARKERS)])
        for i in range(24)
    }
    assert len(styles) == 24


def test_shapes_alone_tell_sixteen_points_apart():
    styles = [style.look(number) for number in range(16)]
    shapes = {(look["marker"], look["markerfacecolor"] == style.PAPER) for look in styles}
    assert len(shapes) == 16


def test_colours_differ_in_the_eyes_of_the_colour_blind():
    # Machado, Oliveira and Fernandes 2009, severity 1, in linear RGB.
    views = {
        "nobody": np.eye(3),
        "protanopia": [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        "deuteranopia": [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
    }
    rgb = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in style.COLOURS]) / 255
    for matrix in views.values():
        seen = ((rgb**2.2) @ np.array(matrix).T).clip(0, 1) ** (1 / 2.2)
        gaps = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
        assert gaps[~np.eye(len(seen), dtype=bool)].min() > 0.15


def test_curves_show_the_mean_and_the_span_of_the_seeds(make, canvases):
    request, runs = make.study({"a": [0.8, 0.9]})
    report = build(request, runs)
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    axes = canvases[0].axes[0]
    expected = [85 * (1 - 0.6 * 0.6**epoch) for epoch in range(1, 9)]
    assert axes.lines[0].get_ydata() == pytest.approx(expected)
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == pytest.approx((80 * 0.64, 90 * (1 - 0.6 * 0.6**8)))


def test_the_front_leads_through_what_no_smaller_entry_beats(make, canvases):
    request, runs = make.study({"a": [0.8], "b": [0.7], "c": [0.9], "d": [0.9]})
    sizes = {"a": 10, "b": 20, "c": 30, "d": 40}
    runs = [
        run.model_copy(
            update={
                "record": run.record.model_copy(
                    update={
                        "cost": run.record.cost.model_copy(update={"parameters": sizes[run.entry]})
                    }
                )
            }
        )
        for run in runs
    ]
    report = build(request, runs)
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    (front,) = [line for line in canvases[1].axes[0].lines if line.get_label() == "Pareto front"]
    assert front.get_xydata().tolist() == [[10, 80], [30, 90]]


def test_of_many_entries_the_best_are_told_apart_and_the_others_are_grey(make, canvases):
    request, runs = make.study({f"m{n:02}": [0.5 + n / 100, 0.51 + n / 100] for n in range(20)})
    report = build(request, runs)
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    differences, *canvases = canvases
    assert len(differences.axes[0].texts) == 2 * 16  # label and numbers of each row
    for canvas in canvases:
        shown = [text.get_text() for text in canvas.legends[0].get_texts()]
        best = [f"m{n:02}" for n in range(8, 20)]
        assert [name for name in shown if name != "Pareto front"] == [*best, "8 others"]
    axes = canvases[0].axes[0]
    assert len(axes.lines) == 12
    (others,) = (found for found in axes.collections if isinstance(found, LineCollection))
    assert len(others.get_segments()) == 8
    assert all(figure.caption.endswith("12 best of 20 entries are told apart; the others are grey.")
               for figure in report.figures if figure.kind != "differences")  # fmt: skip


@pytest.mark.parametrize(
    ("page", "kinds"), [("md", {".svg"}), ("tex", {".pdf"}), ("png", {".png"}), ("csv", set())]
)
def test_a_page_alone_has_the_figures_that_it_shows(quickstart, tmp_path, page, kinds):
    request, runs = quickstart(2)
    paths = write.write(build(request, runs), runs, tmp_path, [page])
    assert {path.suffix for path in paths if path.parent.name == "figures"} == kinds


def test_all_files_are_written_and_the_report_can_be_read_back(quickstart, tmp_path):
    request, runs = quickstart(2)
    report = build(request, runs)
    paths = write.write(report, runs, tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in paths}
    assert names == {
        *(f"report.{name}" for name in write.FORMATS),
        *(f"figures/{f.name}.{kind}" for f in report.figures for kind in ("svg", "pdf")),
    }
    assert paths[-1].name == "report.json"
    assert {p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()} == names
    assert Report.model_validate_json((tmp_path / "report.json").read_text()) == report


def test_the_same_report_gives_the_same_files(quickstart, tmp_path):
    request, runs = quickstart(2)
    first = write.write(build(request, runs), runs, tmp_path / "a")
    second = write.write(build(request, runs[::-1]), runs[::-1], tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_only_what_was_asked_for_is_written(quickstart, tmp_path):
    request, runs = quickstart(2)
    paths = write.write(build(request, runs), runs, tmp_path, formats=["csv", "json"])
    assert [path.name for path in paths] == ["report.csv", "report.json"]


def test_a_write_that_fails_leaves_the_old_report_and_no_litter(quickstart, tmp_path, monkeypatch):
    request, runs = quickstart(2)
    report = build(request, runs)
    write.write(report, runs, tmp_path, formats=["json"])
    old = (tmp_path / "report.json").read_bytes()

    def full_disk(path, target):
        raise OSError("no space left on device")

    monkeypatch.setattr("pathlib.Path.replace", full_disk)
    with pytest.raises(OSError, match="no space"):
        write.write(report.model_copy(update={"title": "New"}), runs, tmp_path, formats=["json"])
    assert (tmp_path / "report.json").read_bytes() == old
    assert [path.name for path in tmp_path.iterdir()] == ["report.json"]
