"""Growth: lines join what differs in depth or size alone, and are drawn where they stand."""

import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data
from lightning_bench.reports.report import Entry
from lightning_bench.reports.tables import depth_scaling


def entry(label, family, known=None, /, **args):
    return Entry(label=label, model=family, family=family, depth=known, args=args)


def test_a_line_joins_one_family_at_several_depths():
    entries = [
        entry("g36", "gmlp", 36),
        entry("g18", "gmlp", 18),
        entry("b12", "bert", 12),
        entry("lenet", "lenet"),
    ]
    assert depth_scaling.by_depth(entries) == {"gmlp": {"g18": 18, "g36": 36}}


def test_entries_that_differ_in_more_are_other_lines():
    entries = [
        entry("a2", "gmlp", 2, depth=2, gate="split"),
        entry("a4", "gmlp", 4, depth=4, gate="split"),
        entry("b2", "gmlp", 2, depth=2, gate="linear"),
        entry("wide", "gmlp", 4, depth=4, gate="split", width=9),
    ]
    assert depth_scaling.by_depth(entries) == {"gmlp gate=split": {"a2": 2, "a4": 4}}
    sizes = {"a2": 30.0, "a4": 20.0, "b2": 10.0, "wide": 40.0}
    assert depth_scaling.by_size(entries, sizes) == {
        "gmlp gate=split": {"a4": 20, "a2": 30, "wide": 40}
    }


def test_two_entries_of_one_depth_are_no_line():
    assert depth_scaling.by_depth([entry("a", "gmlp", 2), entry("b", "gmlp", 2)]) == {}


@pytest.fixture
def deep(make):
    depths = {"g 2": 2, "g 4": 4, "g 8": 8}
    scores = {label: [0.7 + 0.02 * d, 0.71 + 0.02 * d] for label, d in depths.items()}
    request, runs = make.study(scores)
    entries = [entry(label, "gmlp", depth) for label, depth in depths.items()]
    return request.model_copy(update={"entries": entries}), runs


def test_the_figure_stands_where_depths_differ(deep, canvases):
    request, runs = deep
    report = build(request, runs)
    assert [figure.name for figure in report.figures] == [
        "curves-digits",
        "size-digits",
        "depth-digits",
    ]
    list(drawing_process.files(figure_data.of(report), runs, kinds=["svg"]))
    axes = canvases[2].axes[0]
    assert axes.containers[0].get_label() == "gmlp"
    assert axes.containers[0][0].get_xdata().tolist() == [2, 4, 8]
    assert axes.containers[0][0].get_ydata() == pytest.approx([74.5, 78.5, 86.5])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["2", "4", "8"]


def test_models_of_the_registry_have_their_family_and_depth():
    from lightning_bench.bench.cli.build_report import _FAMILY, _depth
    from lightning_bench.bench.study.study import Entry as StudyEntry

    known = {
        "gmlp-text-36": ("gmlp-text", 36),
        "bert-24": ("bert", 24),
        "bert": ("bert", 12),
        "resnet-56": ("resnet", 56),
        "resnet-small": ("resnet", 20),
        "vit-b16": ("vit", None),
        "mixer": ("mixer", 8),
        "lenet": ("lenet", None),
    }
    for name, (family, depth) in known.items():
        assert _FAMILY.split(name)[0] == family
        assert _depth(StudyEntry(model=name)) == depth
    assert _depth(StudyEntry(model="mixer", args={"depth": 3})) == 3
