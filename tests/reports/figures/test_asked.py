"""Figures that a page asks for: what is drawn is what was found, read back from the canvas."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from lightning_bench.bench.study.figures import PageFigure
from lightning_bench.models.layers import activation as activations
from lightning_bench.models.layers.position_embedding import sinusoids
from lightning_bench.reports.build import build
from lightning_bench.reports.figures import draw, figure_data
from lightning_bench.reports.figures.asked import content, formulas
from lightning_bench.reports.figures.figure_data import Series
from lightning_bench.reports.report import Figure, Report
from lightning_bench.reports.request import ModelCounts

SETTINGS = list(itertools.product((1e-3, 1e-1), (16, 64)))


def study(make: Any, figures: list[dict[str, Any]], **changes: Any) -> tuple[Any, list[Any]]:
    """Four perceptrons of two widths and learning rates, two seeds each; one of them diverged."""
    entries = {
        f"{width} at {lr:g}": {"model": "mlp", "args": {"width": width}, "recipe": {"lr": lr}}
        for lr, width in SETTINGS
    }
    asked = [PageFigure.model_validate(figure) for figure in figures]
    request = make.request(list(entries), entries=entries, figures=asked, seeds=[0, 1], **changes)
    runs = []
    for number, label in enumerate(entries):
        for seed in (0, 1):
            accuracy = 0.5 + 0.1 * number + 0.02 * seed
            metrics = {
                "accuracy": accuracy,
                "accuracy_shift1": accuracy / 2,
                "accuracy_shift2": 0.1,
            }
            record = make.record("mlp", "digits", seed, metrics)
            runs.append(make.run(label, "digits", seed, None, state="done", record=record))
    return request, runs


def built(make: Any, figure: dict[str, Any], **changes: Any) -> Report:
    return build(*study(make, [figure], **changes))


def asked(report: Report) -> Figure:
    (found,) = [figure for figure in report.figures if figure.kind == "plot"]
    return found


def canvas_of(report: Report, canvases: list[Any]) -> Any:
    draw.draw(figure_data.of_report(report), asked(report), Series(), [])
    return canvases[-1]


def test_lines_by_a_setting_join_their_means(make, canvases) -> None:
    figure = {"kind": "lines", "x": "args.width", "y": "accuracy", "by": "recipe.lr"}
    report = built(make, figure)
    axes = canvas_of(report, canvases).axes[0]
    drawn = {line.get_label(): line for line in axes.containers}
    assert set(drawn) == {"lr 0.001", "lr 0.1"}
    x, y = drawn["lr 0.1"].lines[0].get_data()
    assert list(x) == [16, 64]
    assert y == pytest.approx([71, 81])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("width", "test accuracy [%]")
    assert "lr 0.001 and lr 0.1" in asked(report).alt


def test_numbered_metrics_stand_at_their_numbers(make, canvases) -> None:
    report = built(make, {"kind": "lines", "x": "shift", "y": "accuracy_shift*"})
    axes = canvas_of(report, canvases).axes[0]
    x, y = axes.containers[0].lines[0].get_data()
    assert list(x) == [0, 1, 2]
    assert y == pytest.approx([51, 25.5, 10])
    assert axes.get_xlabel() == "shift"


def test_a_map_has_a_cell_for_each_entry_and_marks_what_diverged(make, canvases) -> None:
    failure = make.record("mlp", failure={"kind": "divergence", "message": "NaN", "log": "l"})
    figure = {"kind": "map", "x": "recipe.lr", "y": "args.width", "colour": "accuracy"}
    request, runs = study(make, [figure])
    lost = [
        run.model_copy(update={"state": "failed", "record": failure})
        if run.entry == "64 at 0.1"
        else run
        for run in runs
    ]
    report = build(request, lost)
    axes = canvas_of(report, canvases).axes[0]
    texts = {t.get_position(): t.get_text() for t in axes.texts}
    assert texts == {(0.5, 0.5): "51.0", (0.5, 1.5): "61.0", (1.5, 0.5): "71.0", (1.5, 1.5): "×"}
    assert [t.get_text() for t in axes.get_xticklabels()] == ["0.001", "0.1"]
    assert axes.get_xlabel() == "learning rate"


def test_bars_are_of_entries_and_begin_at_zero(make, canvases) -> None:
    report = built(make, {"kind": "bars", "y": "accuracy", "entries": ["16 at 0.001", "64 at 0.1"]})
    axes = canvas_of(report, canvases).axes[0]
    heights = [patch.get_height() for patch in axes.patches]
    assert heights == pytest.approx([51, 81])
    assert axes.get_ylim()[0] == 0


def test_bars_of_averages_stand_by_their_titles_and_say_their_unit(make, canvases) -> None:
    """As VTAB-1k's groups of tasks."""
    averages = {"Natural": ["digits"], "Structured": ["digits"]}
    figure = {"kind": "bars", "y": [f"average/{title}" for title in averages]}
    axes = canvas_of(built(make, figure, averages=averages), canvases).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == list(averages)
    assert axes.get_ylabel() == "test accuracy [%]"
    assert sorted(patch.get_height() for patch in axes.patches)[::2] == pytest.approx(
        [51, 61, 71, 81]
    )


def test_a_power_law_is_fitted_to_counts(make, canvases) -> None:
    entries = {f"{s}": {"model": "mixer", "group": "Mixer"} for s in (16, 64, 256)}
    counted = {
        label: ModelCounts(parameters=9, flops=7 * int(label) ** 2, tokens=int(label))
        for label in entries
    }
    figure = {"kind": "lines", "x": "tokens", "y": "flops", "log": ["x", "y"], "fit": True}
    asked_for = [PageFigure.model_validate(figure)]
    report = build(
        make.request(list(entries), entries=entries, figures=asked_for, counted=counted), []
    )
    canvas = canvas_of(report, canvases)
    axes = canvas.axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    c, k, low, high = asked(report).plot.panels[0].lines[0].power
    assert (c, k, low, high) == pytest.approx((7, 2, 2, 2))
    (label,) = [text.get_text() for text in canvas.legends[0].texts]
    assert label == "Mixer,\nk = 2.00 (2.00 to 2.00)"


def test_curves_are_of_the_validation_split(make, canvases) -> None:
    report = built(make, {"kind": "lines", "x": "epoch", "y": ["train_loss"], "title": "Loss"})
    line = asked(report).plot.panels[0].lines[0]
    assert line.label == "16 at 0.001"
    assert len(line.x) > 1
    assert canvas_of(report, canvases).axes[0].get_xlabel() == "epoch"
    assert asked(report).title == "Loss"


def test_an_axis_without_spread_is_not_drawn_and_the_report_says_so(make) -> None:
    report = built(make, {"kind": "points", "x": "parameters", "y": "accuracy"})
    assert not [figure for figure in report.figures if figure.kind == "plot"]
    (told,) = [fact.text for fact in report.facts if fact.label == "Figures not drawn"]
    assert told == "Accuracy against parameters, digits: all have the same parameters"


def test_functions_are_those_of_the_entries_or_those_named(make, canvases) -> None:
    report = built(make, {"kind": "functions"})
    assert [panel.title for panel in asked(report).plot.panels] == ["relu"]
    report = built(make, {"kind": "functions", "show": ["step", "gelu"]})
    axes = canvas_of(report, canvases).axes
    assert [each.get_title() for each in axes] == ["step", "gelu"]
    assert [line.get_label() for line in axes[0].lines] == ["f(x)", "f′(x)"]


@pytest.mark.parametrize("name", activations._MAKERS)
def test_formulas_are_the_modules_and_their_gradients(name) -> None:
    x = torch.linspace(-4, 4, 160, dtype=torch.double, requires_grad=True)
    y = activations.activation(name).double()(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    function, derivative = formulas.FUNCTIONS[name]
    points = x.detach().numpy()
    np.testing.assert_allclose(function(points), y.detach().numpy(), atol=1e-9)
    np.testing.assert_allclose(derivative(points), slope.numpy(), atol=1e-9)


def test_sinusoids_are_the_models_and_their_products_go_by_distance(make, canvases) -> None:
    np.testing.assert_allclose(formulas.sinusoids(40, 32), sinusoids(40, 32).numpy(), atol=1e-5)
    report = built(make, {"kind": "positions", "length": 40, "width": 32})
    first, second, _ = asked(report).plot.panels[1].lines
    at = dict(zip(first.x, first.y, strict=True))
    assert max(at) == 39
    for distance, product in zip(second.x, second.y, strict=True):
        if distance in at:
            assert product == pytest.approx(at[distance], abs=1e-3)
    assert canvas_of(report, canvases).axes[1].get_xlabel() == "distance φ of two positions"


def test_heatmaps_are_what_the_first_seed_kept(make, canvases) -> None:
    figure = {"kind": "heatmaps", "probe": "toeplitz", "entries": ["16 at 0.1", "64 at 0.1"]}
    request, runs = study(make, [figure])
    matrix = np.arange(-8, 8).reshape(4, 4) / 8
    chosen = [run for run in runs if run.entry == "16 at 0.1"]
    runs = [
        run.model_copy(update={"record": run.record.model_copy(update={"key": f"{i:064}"})})
        for i, run in enumerate(runs)
    ]
    keys = [run.record.key for run in runs if run.entry == "16 at 0.1"]
    kept = {
        keys[0]: {"toeplitz/layer 10": matrix, "toeplitz/layer 2": matrix.T, "other/x": matrix},
        keys[1]: {"toeplitz/layer 2": 0 * matrix},
    }
    assert len(chosen) == 2
    report = build(request, runs, arrays=kept)
    panels = asked(report).plot.panels
    assert [panel.title for panel in panels] == ["16 at 0.1, layer 2", "16 at 0.1, layer 10"]
    axes = canvas_of(report, canvases).axes
    image = np.asarray(axes[0].images[0].get_array())
    np.testing.assert_allclose(image, matrix.T, atol=0.01)
    assert axes[0].get_ylabel() == "to token"


def test_a_large_picture_is_averaged_and_one_of_both_signs_thinned() -> None:
    steps = np.kron(np.arange(1, 151)[:, None] * np.ones((1, 150)), np.ones((2, 2)))
    assert content.pixels(content.picture("", steps)).shape == (100, 100)
    place = np.arange(300)
    toeplitz = np.cos(place[:, None] - place)
    found = content.pixels(content.picture("", toeplitz))
    assert found.shape == (100, 100)
    assert np.ptp(np.diag(found, 3)) < 0.02
