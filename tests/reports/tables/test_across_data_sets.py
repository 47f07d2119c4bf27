"""Statistics over several data sets, against their definitions and other implementations."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.request import PrintedValue, PublishedRow
from lightning_bench.reports.statistics import max_t
from lightning_bench.reports.statistics.data_sets import improvement, mean_ranks, normalised

scores = st.lists(
    st.lists(st.integers(0, 20), min_size=1, max_size=6).map(lambda x: np.array(x, float)),
    min_size=3,
    max_size=3,
)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=40))
def test_interquartile_mean_is_the_trimmed_mean(values):
    found = normalised.interquartile_mean(np.array([values]))[0]
    assert found == pytest.approx(stats.trim_mean(values, 0.25))


@given(st.lists(scores, min_size=2, max_size=4))
def test_win_rate_is_the_share_of_pairs_won(everybody):
    for mine, rate in enumerate(improvement.win_rates(everybody)):
        shares = [
            np.mean([(x > y) + 0.5 * (x == y) for x, y in itertools.product(runs[mine], rest)])
            for runs in zip(*everybody, strict=True)
            if (rest := [y for i, other in enumerate(runs) if i != mine for y in other])
        ]
        assert rate == pytest.approx(np.mean(shares))
    lost = improvement.win_rates(everybody, sign=-1)
    assert np.add(lost, improvement.win_rates(everybody)) == pytest.approx(np.ones(len(everybody)))


def test_mean_ranks_by_hand():
    best, middle, worst = ([np.array([x, x])] * 2 for x in (0.9, 0.8, 0.7))
    assert mean_ranks.mean_ranks([worst, best, middle]) == [3, 1, 2]
    assert mean_ranks.mean_ranks([worst, best, middle], sign=-1) == [1, 3, 2]
    assert mean_ranks.mean_ranks([best, best, worst]) == [1.5, 1.5, 3]


def many(make, datasets):
    names = [f"data {i}" for i in range(datasets)]
    runs = [
        make.run(entry, name, seed, value + 0.01 * seed)
        for name in names
        for entry, value in {"a": 0.7, "b": 0.8, "c": 0.75}.items()
        for seed in range(3)
    ]
    return make.request(["a", "b", "c"], names), runs


def across(report):
    (found,) = (table for table in report.tables if table.id == "across")
    return found


def test_the_table_stands_where_it_means_something(make):
    table = across(build(*many(make, 2)))
    assert [column.title for column in table.columns] == [
        "Mean", "Middle half", "Mean rank", "Wins",
    ]  # fmt: skip
    assert [row.cells[2].value for row in table.rows] == [3, 1, 2]
    assert [row.cells[0].n for row in table.rows] == [6, 6, 6]
    # Nobody knows chance: 0.71 is the worst mean and 0, 0.81 the best and 1.
    assert [row.cells[0].value for row in table.rows] == pytest.approx([0, 1, 0.5])
    assert "0 is the worst mean here (71.0), 100 the best mean here (81.0)" in table.notes[-1].text
    assert table.rows[0].cells[3].value == 0
    assert table.rows[1].cells[3].value == 1
    assert [table.id for table in build(*many(make, 1)).tables] == ["results", "cost"]


def test_an_incomplete_entry_is_left_out_and_said_so(make):
    request, runs = many(make, 2)
    kept = [run for run in runs if (run.entry, run.dataset) != ("b", "data 1")]
    table = across(build(request, kept))
    assert [row.cells[0].state for row in table.rows] == ["", "incomplete", ""]
    assert [row.cells[2].value for row in table.rows] == [2, None, 1]
    assert any("left out" in note.text for note in table.notes)


def test_each_data_set_counts_alike_on_its_own_scale(make):
    """Raw accuracies would let the data set with the larger differences decide alone."""
    request = make.request(["a", "b"], ["easy", "hard"], chance={"easy": 0.5, "hard": 0.1})
    values = {("a", "easy"): 0.99, ("b", "easy"): 0.98, ("a", "hard"): 0.4, ("b", "hard"): 0.41}
    runs = [
        make.run(entry, dataset, seed, value + 0.001 * (seed - 1))
        for (entry, dataset), value in values.items()
        for seed in range(3)
    ]
    a, b = (row.cells[0] for row in across(build(request, runs)).rows)
    assert a.value == pytest.approx((1 + 0.3 / 0.31) / 2)
    assert b.value == pytest.approx((0.48 / 0.49 + 1) / 2)


def test_the_best_value_in_print_is_one_unless_it_cant_be_right(make):
    cells = [{"d0/accuracy": PrintedValue(text="x", value=value)} for value in (90.0, 99.0)]
    rows = [
        PublishedRow(label="P", cite="c", cells=cells[0]),
        PublishedRow(label="Q", cite="c", cells=cells[1], remarks={"d0/accuracy": "a slip"}),
    ]
    request = make.request(["a"], ["d0"], published=rows, chance={"d0": 0.1})
    found = normalised.anchors(request, "d0", [0.5, 0.7])
    assert (found.zero, found.one, found.one_is) == (0.1, 0.9, "the best value in print")
    less = make.request(["a"], ["d0"], metrics={"d0": ["perplexity"]})
    worst_first = normalised.anchors(less, "d0", [5.0, 7.0])
    assert (worst_first.zero, worst_first.one) == (7.0, 5.0)


def test_interval_of_the_mean_is_the_t_interval_by_hand():
    strata = [np.array([0.1, 0.3, 0.2]), np.array([0.7, 0.9, 0.5, 0.6])]
    parts = [x.var(ddof=1) / len(x) / 4 for x in strata]
    df = sum(parts) ** 2 / sum(v**2 / (len(x) - 1) for v, x in zip(parts, strata, strict=True))
    half = stats.t.ppf(0.975, df) * np.sqrt(sum(parts))
    assert normalised.mean_half_width(strata) == pytest.approx(half)
    assert normalised.mean_half_width([*strata, np.array([0.5])]) is None
    assert normalised.iqm_half_width(strata) is None


@pytest.mark.parametrize("seeds", [2, 3, 5, 10])
def test_intervals_across_data_sets_cover(seeds):
    """A percentile bootstrap of the same runs covers 70 to 90 % with two to five seeds."""
    rng = np.random.default_rng(seeds)
    covered = np.zeros(2)
    for _ in range(400):
        strata = [rng.normal(mean, 0.02, seeds) for mean in (0.1, 0.3, 0.5, 0.7, 0.9)]
        pooled = normalised.interquartile_mean(np.concatenate(strata)[None])[0]
        mean = np.mean([one.mean() for one in strata])
        covered += [
            abs(mean - 0.5) <= normalised.mean_half_width(strata),
            abs(pooled - 0.5) <= normalised.iqm_half_width(strata),
        ]
    assert ((covered / 400 >= 0.92) & (covered / 400 <= 1)).all()


@given(scores, scores)
def test_probability_of_improvement_is_the_share_of_pairs_won(a, b):
    found = improvement.improvement(a, b)
    shares = [
        np.mean([(x > y) + 0.5 * (x == y) for x, y in itertools.product(mine, theirs)])
        for mine, theirs in zip(a, b, strict=True)
    ]
    assert found.p == pytest.approx(np.mean(shares))
    assert 0 <= found.low <= found.p <= found.high <= 1
    turned = improvement.improvement(b, a)
    assert turned.low == pytest.approx(1 - found.high, abs=1e-9)


def test_newcombes_interval_solves_its_equation():
    """Of one data set: |p − θ| = 1.96 √V(θ), with V as Newcombe 2006 has it (his method 5)."""
    a, b = [np.array([3.0, 5, 7, 9, 11])], [np.array([2.0, 4, 6, 8])]
    found = improvement.improvement(a, b)
    for end in (found.low, found.high):
        spread = (5 + 4) / 2 - 1
        variance = end * (1 - end) * (1 + spread * ((1 - end) / (2 - end) + end / (1 + end))) / 20
        assert abs(found.p - end) == pytest.approx(1.959964 * np.sqrt(variance), 1e-5)
    won = improvement.improvement([np.ones(3)], [np.zeros(3)])
    assert won.high == 1
    assert 0.3 < won.low < 0.7  # three wins of three are no certainty


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_probability_of_improvement_covers(seeds):
    rng = np.random.default_rng(seeds)
    true = stats.norm.cdf(1 / np.sqrt(2))
    covered = 0
    for _ in range(300):
        a, b = rng.normal(1, 1, (3, seeds)), rng.normal(0, 1, (3, seeds))
        found = improvement.improvement(list(a), list(b))
        covered += found.low <= true <= found.high
    assert covered / 300 >= 0.92


def test_pairs_have_a_table_of_their_own(make):
    (table,) = (t for t in build(*many(make, 2)).tables if t.id == "improvement")
    assert [row.label for row in table.rows] == ["b over c", "b over a", "c over a"]
    assert [cell.value for cell in table.rows[0].cells] == [1, pytest.approx(0.671, abs=0.001), 1]


def test_entries_are_told_apart_by_all_data_sets_at_once():
    rng = np.random.default_rng(1)
    means = rng.normal(0, 0.1, (4, 9)) + np.array([0, 0, 1, 2])[:, None]
    apart = mean_ranks.told_apart(means)
    a, b = np.triu_indices(4, 1)
    assert apart[a, b].tolist() == (max_t.max_t(means[a] - means[b]) <= 0.05).tolist()
    assert apart[a, b].tolist() == [False, True, True, True, True, True]
    assert not mean_ranks.told_apart(means[:, :5]).any()  # five data sets can't


def test_groups_hold_neighbours_of_whom_no_two_are_told_apart():
    apart = np.zeros((4, 4), dtype=bool)
    apart[0, 2] = apart[2, 0] = apart[1, 3] = apart[3, 1] = apart[0, 3] = apart[3, 0] = True
    assert mean_ranks.alike([1, 2, 3, 4], apart) == [[0, 1], [1, 2], [2, 3]]
    assert mean_ranks.alike([4, 3, 2, 1], apart) == [[3, 2], [2, 1], [1, 0]]
    assert mean_ranks.alike([1, 2, 3, 4], np.zeros((4, 4), bool)) == [[0, 1, 2, 3]]
    assert mean_ranks.alike([1, 2, 3, 4], ~np.eye(4, dtype=bool)) == []


def test_ranks_are_drawn_from_six_data_sets_on(make, canvases):
    names = [figure.name for figure in build(*many(make, 5)).figures]
    assert "profile" in names
    assert "ranks" not in names
    request, runs = many(make, 6)
    report = build(request, runs)
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    profile, ranks = canvases[-2].axes[0], canvases[-1].axes[0]
    assert [text.get_text() for text in ranks.texts] == ["b  1.00", "c  2.00", "a  3.00"]
    # On every data set the order is the same, and 2 of 64 sign patterns are as far from zero.
    assert report.figures[-1].groups == []
    assert not [line for line in ranks.lines if line.get_linewidth() == 4]
    line = next(line for line in profile.lines if line.get_label() == "a")
    x, y = line.get_data()
    assert np.mean(np.array(x) >= 70.5) == pytest.approx(2 / 3)
    assert max(y) == 1
    assert min(y) == 0
    assert len(profile.collections) == 3  # a band for each entry
    band = profile.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(1, abs=1e-6)


def test_a_bar_joins_what_data_sets_cant_tell_apart(make, canvases):
    names = [f"data {i}" for i in range(6)]
    runs = [
        make.run(entry, name, seed, value + noise * (entry == "a"))
        for name, noise in zip(names, (0.01, -0.01, 0.02, -0.02, 0.005, -0.005), strict=True)
        for entry, value in {"a": 0.8, "b": 0.8, "c": 0.5}.items()
        for seed in range(2)
    ]
    request = make.request(["a", "b", "c"], names)
    report = build(request, runs)
    assert report.figures[-1].groups == [["a", "b"]]
    assert "a, b." in report.figures[-1].alt
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    bars = [line.get_xdata() for line in canvases[-1].axes[0].lines if line.get_linewidth() == 4]
    assert bars == [pytest.approx([1.46, 1.54])]
    waiting = [*runs[:-1], make.run("c", "data 5", 1, None)]
    assert "ranks" not in {figure.kind for figure in build(request, waiting).figures}
