"""Reliability diagrams: what is pooled, drawn, and written out as numbers."""

import numpy as np
import pytest

from lightning_bench.models.tasks.probability_scores import bins_of, calibration_error, reliability
from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.figures.captions import FEW
from lightning_bench.reports.render import html


def bins(seed, n=500):
    """Of a calibrated model with this seed's examples."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.3, 1, n)
    return reliability(confidence, rng.random(n) < confidence)


def reported(make, entries, seeds=2, left_out=()):
    request, runs = make.study({entry: [0.5 + k / 100] * seeds for k, entry in enumerate(entries)})
    found = {run.key: bins(k) for k, run in enumerate(runs) if run.entry not in left_out}
    return build(request, runs, reliability=found), runs, found


def of_reliability(report):
    return [figure for figure in report.figures if figure.kind == "reliability"]


def test_seeds_are_pooled_by_their_examples(make):
    report, runs, found = reported(make, ["A", "B", "old"], left_out=["old"])
    (figure,) = of_reliability(report)
    assert list(figure.bins) == ["A", "B"]
    pooled = sum(found[run.key] for run in runs if run.entry == "A")
    for (examples, confidence, right), row in zip(figure.bins["A"], pooled, strict=True):
        assert examples == row[0]
        assert (confidence, right) == pytest.approx(tuple(row[1:] / max(row[0], 1)))
    # Of calibrated models the points are on the line, as far as chance lets them.
    error = calibration_error(pooled)
    assert error < 0.06


def test_it_is_drawn_the_same_each_time_and_told_in_numbers(make):
    report, runs, _ = reported(make, list("ABCDE"))
    (figure,) = of_reliability(report)
    data = figure_data.of_report(report)
    files = dict(drawing_process.files(data, runs, ["svg", "pdf"]))
    assert files == dict(drawing_process.files(data, runs, ["svg", "pdf"]))
    drawing = files[f"{figure.name}.svg"].decode()
    assert all(f">{entry}</text>" in drawing for entry in "ABCDE")
    page = html.illustrate(
        html.render(report, runs),
        report,
        {
            name.removesuffix(".svg"): f.decode()
            for name, f in files.items()
            if name.endswith("svg")
        },
    )
    assert f'aria-label="{figure.alt}"' in page
    some = sum(examples > 0 for of in figure.bins.values() for examples, _, _ in of)
    table = page.split('aria-label="Reliability, digits, as numbers"')[1].split("</table>")[0]
    assert table.count("<tr>") == some + 1


def test_of_very_many_entries_the_best_are_drawn_and_the_caption_says_so(make):
    entries = [f"M{k}" for k in range(FEW + 3)]
    report, _, _ = reported(make, entries, seeds=1)
    (figure,) = of_reliability(report)
    assert list(figure.bins) == entries[3:]
    assert "3 are left out" in figure.caption


def test_without_probabilities_or_with_none_that_are_numbers_there_is_no_diagram(make):
    request, runs = make.study({"A": [0.5], "B": [0.6]})
    assert of_reliability(build(request, runs)) == []
    diverged = bins_of(np.full((5, 3), np.nan, np.float16), np.zeros(5, bool))
    assert of_reliability(build(request, runs, reliability={runs[0].key: diverged})) == []


def test_of_too_many_runs_to_be_read_the_report_says_so(make):
    request, runs = make.study({"A": [0.5]})
    request = request.model_copy(update={"classes": {"digits": list("0123456789")}})
    facts = build(request, runs, reliability=None).facts
    assert facts[-1].text == "of so many runs no diagrams are drawn"
    assert "no diagrams" not in str(build(request, runs).facts)
