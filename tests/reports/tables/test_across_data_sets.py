"""Statistics over several data sets, against their definitions and other implementations."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.tables import across_data_sets

scores = st.lists(
    st.lists(st.integers(0, 20), min_size=1, max_size=6).map(lambda x: np.array(x, float)),
    min_size=3,
    max_size=3,
)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=40))
def test_interquartile_mean_is_the_trimmed_mean(values):
    found = across_data_sets.interquartile_mean(np.array([values]))[0]
    assert found == pytest.approx(stats.trim_mean(values, 0.25))


@given(st.lists(scores, min_size=2, max_size=4))
def test_win_rate_is_the_share_of_pairs_won(everybody):
    for mine, rate in enumerate(across_data_sets.win_rates(everybody)):
        shares = [
            np.mean([(x > y) + 0.5 * (x == y) for x, y in itertools.product(runs[mine], rest)])
            for runs in zip(*everybody, strict=True)
            if (rest := [y for i, other in enumerate(runs) if i != mine for y in other])
        ]
        assert rate == pytest.approx(np.mean(shares))
    lost = across_data_sets.win_rates(everybody, sign=-1)
    assert np.add(lost, across_data_sets.win_rates(everybody)) == pytest.approx(
        np.ones(len(everybody))
    )


def test_mean_ranks_by_hand():
    best, middle, worst = ([np.array([x, x])] * 2 for x in (0.9, 0.8, 0.7))
    assert across_data_sets.mean_ranks([worst, best, middle]) == [3, 1, 2]
    assert across_data_sets.mean_ranks([worst, best, middle], sign=-1) == [1, 3, 2]
    assert across_data_sets.mean_ranks([best, best, worst]) == [1.5, 1.5, 3]


def test_critical_difference_is_that_of_demsar():
    # Demšar 2006, table 5: q(0.05) = 2.569 for 4 classifiers; his example has 14 data sets.
    assert across_data_sets.critical_difference(4, 14) == pytest.approx(
        2.569 * np.sqrt(4 * 5 / (6 * 14)), 1e-3
    )


def test_interval_covers_the_true_interquartile_mean():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        drawn = [rng.normal(mean, 0.1, 20) for mean in (0.4, 0.5, 0.6)]
        low, high = across_data_sets.interval(drawn, resamples=300)
        covered += low <= 0.5 <= high
    assert 0.90 <= covered / 200 <= 0.99


def many(make, datasets):
    names = [f"data {i}" for i in range(datasets)]
    runs = [
        make.run(entry, name, seed, value + 0.01 * seed)
        for name in names
        for entry, value in {"a": 0.7, "b": 0.8, "c": 0.75}.items()
        for seed in range(3)
    ]
    return make.request(["a", "b", "c"], names), runs


def test_the_table_stands_where_it_means_something(make):
    request, runs = many(make, 2)
    table = build(request, runs).tables[1]
    assert table.id == "across"
    assert [row.cells[1].value for row in table.rows] == [3, 1, 2]
    assert [row.cells[0].n for row in table.rows] == [6, 6, 6]
    # 0.70, 0.71, 0.72, twice: the middle half is 0.70 to 0.72 without one at each end.
    assert table.rows[0].cells[0].value == pytest.approx(0.71)
    assert table.rows[0].cells[2].value == 0
    assert table.rows[1].cells[2].value == 1
    assert [table.id for table in build(*many(make, 1)).tables] == ["results", "cost"]


def test_an_incomplete_entry_is_left_out_and_said_so(make):
    request, runs = many(make, 2)
    kept = [run for run in runs if (run.entry, run.dataset) != ("b", "data 1")]
    table = build(request, kept).tables[1]
    assert [row.cells[0].state for row in table.rows] == ["", "incomplete", ""]
    assert [row.cells[1].value for row in table.rows] == [2, None, 1]
    assert "left out" in table.notes[0].text


def test_ranks_are_drawn_from_eight_data_sets_on(make, canvases):
    names = [figure.name for figure in build(*many(make, 7)).figures]
    assert "profile" in names
    assert "ranks" not in names
    request, runs = many(make, 8)
    report = build(request, runs)
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    profile, ranks = canvases[-2].axes[0], canvases[-1].axes[0]
    assert [text.get_text() for text in ranks.texts] == ["b  1.00", "c  2.00", "a  3.00"]
    # The critical difference of 3 entries on 8 data sets is 1.17: neighbours are joined.
    bars = [line.get_xdata() for line in ranks.lines if line.get_linewidth() == 4]
    assert bars == [pytest.approx([0.96, 2.04]), pytest.approx([1.96, 3.04])]
    line = next(line for line in profile.lines if line.get_label() == "a")
    x, y = line.get_data()
    assert np.mean(np.array(x) >= 70.5) == pytest.approx(2 / 3)
    assert max(y) == 1
    assert min(y) == 0
