"""The forest plot: first of the figures, with the pairs' numbers, intervals and seeds."""

import numpy as np
import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.figures.draw_differences import said_of
from lightning_bench.reports.text.numbers import difference, interval


def drawn(report, runs, canvases):
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    return canvases[0].axes[0]


def test_it_is_the_first_figure_with_each_pairs_numbers(quickstart, canvases):
    request, runs = quickstart(8)
    report = build(request, runs)
    first = report.figures[0]
    assert (first.kind, first.name) == ("differences", "differences-digits")
    axes = drawn(report, runs, canvases)
    ends = {}
    for pair in report.comparisons:
        for one in (pair, pair.turned()):
            ends[one.a, one.b] = one
    texts = [text.get_text() for text in axes.texts]
    assert len(first.pairs) == 10
    for row, (_, a, b) in enumerate(first.pairs):
        pair = ends[a, b]
        assert pair.difference >= 0  # the better mean first
        assert texts[2 * row] == f"{a} − {b}"
        assert texts[2 * row + 1].startswith(difference(report, pair))
        assert f"{a} − {b} {difference(report, pair)} ({interval(report, pair)};" in first.alt
        here = [line for line in axes.lines if set(line.get_ydata()) == {row}]
        thin, thick = (
            next(line for line in here if line.get_linewidth() == width) for width in (1.1, 3.6)
        )
        assert thick.get_xdata() == pytest.approx([100 * pair.low, 100 * pair.high])
        assert thin.get_xdata() == pytest.approx([100 * pair.low_of_all, 100 * pair.high_of_all])
    zero = [line.get_ydata() for line in axes.lines if set(line.get_xdata()) == {0}]
    assert len([y for y in zero if len(y) == 2 and y[0] != y[1]]) == 10
    scores = {}
    for run in runs:
        scores.setdefault(run.entry, []).append(run.record.metrics["accuracy"])
    (dots,) = (line for line in axes.lines if line.get_linewidth() == 3)
    x = dots.get_xdata().reshape(-1, 3)[:, :2].mean(axis=1)
    expected = [np.subtract(scores[a], scores[b]) * 100 for _, a, b in first.pairs]
    assert x == pytest.approx(np.concatenate(expected), abs=1e-9)


def test_of_many_pairs_only_the_leaders_are_shown(make, canvases):
    scores = {f"m{n}": [0.5 + n / 100 + seed / 999 for seed in range(6)] for n in range(6)}
    request, runs = make.study(scores)
    report = build(request, runs)
    others = [("m5", f"m{n}") for n in (4, 3, 2, 1, 0)]
    assert [pair[1:] for pair in report.figures[0].pairs] == others
    assert "m5, whose mean is best, less every other entry" in report.figures[0].caption


def test_of_very_many_the_closest_are_shown(make):
    request, runs = make.study({f"m{n:02}": [0.5 + n / 100, 0.51 + n / 100] for n in range(20)})
    pairs = build(request, runs).figures[0].pairs
    assert [b for _, _, b in pairs] == [f"m{n:02}" for n in range(18, 2, -1)]


def test_of_several_data_sets_each_has_one_and_their_mean(make, canvases):
    runs = [
        make.run(entry, dataset, seed, value + 0.01 * seed + 0.002 * (entry == "a") * seed)
        for dataset in ("x/1", "x-1")
        for entry, value in (("a", 0.8), ("b", 0.7))
        for seed in range(3)
    ]
    report = build(make.request(["a", "b"], ["x/1", "x-1"]), runs)
    names = [figure.name for figure in report.figures]
    assert names[:3] == ["differences-x-1", "differences-x-1-1", "mean-difference"]
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    (dots,) = (line for line in canvases[2].axes[0].lines if line.get_linewidth() == 3)
    x = dots.get_xdata().reshape(-1, 3)[:, :2].mean(axis=1)
    assert x == pytest.approx([10, 10.2, 10.4])


def test_there_is_none_of_one_entry_or_one_seed(make):
    for scores in ({"a": [0.8] * 3}, {"a": [0.8], "b": [0.9]}):
        assert not any(f.kind == "differences" for f in build(*make.study(scores)).figures)


def test_an_interval_beyond_the_axis_ends_in_an_arrow(make, canvases):
    values = {"a": [0.9, 0.91, 0.92, 0.93, 0.94, 0.95], "b": [0.90, 0.90, 0.90, 0.91, 0.92, 0.92]}
    request, runs = make.study(values)
    report = build(request, runs)
    wide = report.comparisons[0].model_copy(update={"low_of_all": -0.5, "high_of_all": 0.6})
    axes = drawn(report.model_copy(update={"comparisons": [wide]}), runs, canvases)
    assert {line.get_marker() for line in axes.lines} >= {"<", ">"}
    assert axes.get_xlim()[1] < 20


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"verdict": "better", "equal": True}, "better"),
        ({"verdict": "undecided", "equal": True, "margin": 1.0}, "equal within the margin"),
        ({"verdict": "undecided", "by_welch": "worse"}, "worse by Welch's t, no claim"),
        ({"verdict": "undecided"}, "undecided"),
    ],
)
def test_a_mark_tells_claims_from_other_tiers(quickstart, canvases, changes, said):
    request, runs = quickstart(6)
    report = build(request, runs)
    pair = report.comparisons[0].model_copy(update=changes)
    assert said_of(pair) == said
    figure = report.figures[0].model_copy(update={"pairs": [(pair.dataset, pair.a, pair.b)]})
    drawn(report.model_copy(update={"comparisons": [pair], "figures": [figure]}), runs, canvases)
    (legend,) = canvases[0].legends
    assert [text.get_text() for text in legend.get_texts()] == [said]
