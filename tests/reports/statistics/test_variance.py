"""The SD of each source of randomness: against scipy, its coverage, and its place in a report."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from lightning_bench.bench.cli.build_report import request_of
from lightning_bench.bench.plan import plan
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.load import load
from lightning_bench.reports import from_plan
from lightning_bench.reports.build import build
from lightning_bench.reports.render import markdown
from lightning_bench.reports.statistics import variance
from tests.factory import SOURCES, record, recorded, study_page


@pytest.mark.parametrize("df", [1, 2, 5, 9, 50])
def test_the_chi_square_quantile_is_scipy_s(df: int) -> None:
    for p in (0.025, 0.5, 0.975):
        assert variance.chi_square_quantile(p, df) == pytest.approx(stats.chi2.ppf(p, df))


@pytest.mark.parametrize("n", [3, 6, 10])
def test_the_interval_of_an_sd_covers_that_of_normal_noise(n: int) -> None:
    draws = np.random.default_rng(n).normal(5, 2, size=(4_000, n))
    found = [variance.spread(values.tolist()) for values in draws]
    covered = np.mean([s is not None and (s.low or 0) <= 2 <= (s.high or 0) for s in found])
    assert abs(covered - 0.95) < 3 * math.sqrt(0.95 * 0.05 / len(draws))


def test_what_never_varies_has_no_interval_and_one_run_no_sd() -> None:
    assert variance.spread([0.5, 0.5, 0.5]) == variance.SourceSpread(3, 0.0)
    assert variance.spread([0.5]) is None


#: The SDs that are put into the made-up results.
SDS = {"": 0.03, "weights": 0.02, "order": 0.01, "split": 0.04, "augmentation": 0.005}
PAGE = study_page(
    entries={"A": {"model": "mlp"}, "B": {"model": "lenet"}},
    data=[{"name": "digits", "split": "seed"}],
    recipe={"epochs": 2, "crop": 1},
    seeds=12,
    variance="all",
)


def report_of(page: Any, tmp_path: Any, lost: str = "none") -> Any:
    study = load(page(PAGE))
    steps = np.linspace(-1, 1, 12) / np.linspace(-1, 1, 12).std(ddof=1)
    attempts = {}
    for run in study.runs():
        if run.varied == lost:
            continue
        value = 0.8 + SDS[run.varied] * steps[run.spec.seed]
        attempts[run.key] = recorded(record(run.spec, metrics={"accuracy": float(value)}))
    made, store = plan.make(study, study.runs(), attempts, lambda _: SOURCES), Store(tmp_path)
    request, runs = request_of(made, store), from_plan.runs(made, store)
    return build(request, runs), request


def test_each_run_varies_one_source_and_holds_the_others_at_the_first_seed(page) -> None:
    runs = load(page(PAGE)).runs()
    assert len(runs) == 2 * 12 * 5
    for run in runs:
        own = {source: run.spec.seed_of(source) for source in SDS if source}
        held = {source: seed for source, seed in own.items() if run.varied not in ("", source)}
        assert all(seed == 0 for seed in held.values())
        # No argument tells of dropout in these models; one that had it would hold it.
        assert run.spec.seed_of("dropout") == (0 if run.varied else run.spec.seed)
        assert all(seed == run.spec.seed for s, seed in own.items() if s not in held)
    assert len({run.key for run in runs}) == len(runs)


def test_the_table_has_each_source_s_sd_and_the_main_one_only_all_at_once(page, tmp_path) -> None:
    report, _ = report_of(page, tmp_path)
    table = next(table for table in report.tables if table.id == "variance")
    found = {(row.group, row.label): row.cells[0] for row in table.rows}
    names = {"initial weights": 0.02, "data order": 0.01, "augmentation": 0.005, "split": 0.04}
    for entry in "AB":
        for title, sd in {**names, "all at once": 0.03}.items():
            cell = found[entry, title]
            assert cell.value == pytest.approx(sd)
            assert cell.low < sd < cell.high
            assert cell.n == 12
        whole = math.sqrt(sum(sd * sd for sd in names.values()))
        assert found[entry, "parts together"].value == pytest.approx(whole)
    assert table.notes[-1].text.startswith("96 runs beside those of the main table; device time:")
    main = report.tables[0]
    assert [cell.n for row in main.rows for cell in row.cells if cell.sd is not None] == [12, 12]
    assert main.rows[0].cells[0].sd == pytest.approx(0.03)
    assert any("split 4.00, initial weights 2.00, data order 1.00" in f for f in report.findings)
    (figure,) = [figure for figure in report.figures if figure.kind == "variance"]
    assert figure.spreads["A"]["split"][1] == pytest.approx(0.04)
    # A pair has as many seeds as the study, not as many as runs.
    assert [pair.n for pair in report.comparisons] == [12]


def test_a_source_without_runs_is_left_out_and_said_to_be_provisional(page, tmp_path) -> None:
    report, _ = report_of(page, tmp_path, lost="order")
    table = next(table for table in report.tables if table.id == "variance")
    assert "data order" not in {row.label for row in table.rows}
    assert report.runs["missing"] == 24


def test_the_line_of_what_seeds_vary_is_in_every_form(page, tmp_path) -> None:
    report, _ = report_of(page, tmp_path)
    line = (
        "Seeds vary: initial weights, data order, augmentation (crop), split (test and"
        " validation). The same for all: hyperparameters."
    )
    assert line in [note.text for note in report.tables[0].notes]
    assert line in markdown.render(report, [])
