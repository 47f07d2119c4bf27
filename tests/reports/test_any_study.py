"""Whatever the runs are like, every renderer makes a page and the numbers stay true."""

import io
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.render import csv_and_parquet, html, latex, markdown
from lightning_bench.reports.render.terminal import render
from lightning_bench.reports.report import Report

values = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, math.nan, math.inf, -0.0]), st.floats(-1e6, 1e6), st.none()
)
states = st.sampled_from(["missing", "stale", "failed", "running"])


@st.composite
def studies(draw):
    entries = draw(st.integers(1, 4))
    datasets = draw(st.integers(1, 3))
    seeds = draw(st.integers(0, 9))
    return [
        (f"entry {e}", f"data/{d}", seed, draw(values), draw(states))
        for e in range(entries)
        for d in range(datasets)
        for seed in range(seeds)
        if draw(st.integers(0, 9))
    ], (entries, datasets)


@settings(max_examples=40)
@given(studies())
def test_every_study_has_a_page_in_every_format(make, drawn):
    plan, (entries, datasets) = drawn
    request = make.request(
        [f"entry {e}" for e in range(entries)], [f"data/{d}" for d in range(datasets)]
    )
    runs = [
        make.run(entry, dataset, seed, value, **({"state": state} if value is None else {}))
        for entry, dataset, seed, value, state in plan
    ]
    report = build(request, runs)
    assert Report.model_validate_json(report.model_dump_json()) == report
    drawings = {figure.name: "<svg></svg>" for figure in report.figures}
    pages = [
        markdown.render(report, runs),
        latex.render(report, runs),
        html.illustrate(html.render(report, runs), report, drawings),
        csv_and_parquet.csv_text(csv_and_parquet.rows(report, runs)),
    ]
    file = io.StringIO()
    Console(file=file, width=80).print(render(report))
    assert not any("None" in page for page in (*pages, file.getvalue()))
    assert not any("nan" in page for page in (*pages[:2], file.getvalue()))
    for row in report.tables[0].rows:
        for cell, column in zip(row.cells, report.tables[0].columns, strict=True):
            if column.metric:
                mine = [x for x in plan if x[:2] == (row.label, column.dataset)]
                done = [x[3] for x in mine if x[3] is not None and math.isfinite(x[3])]
                assert cell.n == len(done)
                assert (cell.value is None) == (not done)
                assert len(cell.runs) == len(mine)
                # Whatever is not a result is told.
                assert bool(cell.notes) >= (len(done) < len(mine) or not mine)


def test_a_study_before_its_first_run_has_figures_of_none(make):
    request, runs = make.study({"a": [None, None], "b": [None, None]})
    report = build(request, runs)
    assert report.figures == []
    assert list(drawing_process.files(figure_data.of_report(report), runs, ["svg"])) == []
    assert report.findings[0] == "Provisional: 0 of 4 runs are done; the notes say what is missing."
