"""Growth: lines join what differs in depth or size alone, and are drawn where they stand."""

import pytest

from lightning_bench.bench.study.study import Entry
from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.request import ModelFacts
from lightning_bench.reports.tables import depth_scaling


def entry(family, known=None, /, **args):
    return Entry(model=family, args=args), ModelFacts(family=family, depth=known)


@pytest.fixture
def of(make):
    """A request of these entries and what is known of their models."""

    def made(**known):
        entries = {label: own for label, (own, _) in known.items()}
        models = {label: facts for label, (_, facts) in known.items()}
        return make.request(list(known), entries=entries, models=models)

    return made


def test_a_line_joins_one_family_at_several_depths(of):
    request = of(
        g36=entry("gmlp", 36),
        g18=entry("gmlp", 18),
        b12=entry("bert", 12),
        lenet=entry("lenet"),
    )
    lines = depth_scaling.by_depth(request, request.entries)
    assert lines == {"gmlp": {"g18": 18, "g36": 36}}


def test_entries_that_differ_in_more_are_other_lines(of):
    request = of(
        a2=entry("gmlp", 2, depth=2, gate="split"),
        a4=entry("gmlp", 4, depth=4, gate="split"),
        b2=entry("gmlp", 2, depth=2, gate="linear"),
        wide=entry("gmlp", 4, depth=4, gate="split", width=9),
    )
    lines = depth_scaling.by_depth(request, request.entries)
    assert lines == {"gmlp gate=split": {"a2": 2, "a4": 4}}
    sizes = {"a2": 30.0, "a4": 20.0, "b2": 10.0, "wide": 40.0}
    assert depth_scaling.by_size(request, request.entries, sizes) == {
        "gmlp gate=split": {"a4": 20, "a2": 30, "wide": 40}
    }


def test_two_entries_of_one_depth_are_no_line(of):
    request = of(a=entry("gmlp", 2), b=entry("gmlp", 2))
    assert depth_scaling.by_depth(request, request.entries) == {}


@pytest.fixture
def deep(make):
    depths = {"g 2": 2, "g 4": 4, "g 8": 8}
    scores = {label: [0.7 + 0.02 * d, 0.71 + 0.02 * d] for label, d in depths.items()}
    request, runs = make.study(scores)
    made = {label: entry("gmlp", depth) for label, depth in depths.items()}
    entries = {label: own for label, (own, _) in made.items()}
    models = {label: facts for label, (_, facts) in made.items()}
    return make.change(request, entries=entries, models=models), runs


def test_the_figure_stands_where_depths_differ(deep, canvases):
    request, runs = deep
    report = build(request, runs)
    assert [figure.name for figure in report.figures] == [
        "differences-digits",
        "curves-digits",
        "depth-digits",
    ]
    list(drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]))
    axes = canvases[2].axes[0]
    assert axes.containers[0].get_label() == "gmlp"
    assert axes.containers[0][0].get_xdata().tolist() == [2, 4, 8]
    assert axes.containers[0][0].get_ydata() == pytest.approx([74.5, 78.5, 86.5])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2", "4", "8"]
