"""The HTML page: whole, escaped, linked, without network. `test_browser` opens it."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from markupsafe import escape

from lightning_bench.bench.store.record import Curve, Example, Examples
from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data, style
from lightning_bench.reports.render import html

VOID = {"meta", "input", "br", "link", "img"}


class Page(HTMLParser):
    """Elements, ids and links of a page; checks that every tag is closed in its order."""

    def __init__(self, markup):
        super().__init__()
        self.tags, self.ids, self.links, self.sources, self.open = [], [], [], [], []
        self.feed(markup)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name == "href":
                self.links.append(value)
            if name in ("src", "srcset", "action", "data", "xlink:href"):
                self.sources.append(value)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture
def page(rough, make):
    request, runs = rough
    text = Example(label=make.hostile, texts=[make.hostile])
    picture = f"data:image/png;base64,{'A' * 100_000}"
    pictures = [Example(label=make.hostile, picture=picture)] * 9
    examples = {"texts": Examples(shown=[text]), "images": Examples(classes=20, shown=pictures)}
    request = request.model_copy(update={"sheets": examples})
    report = build(request, runs)
    drawings = {
        name.removesuffix(".svg"): content.decode()
        for name, content in drawing_process.files(
            figure_data.of_report(report), runs, kinds=["svg"]
        )
    }
    return html.illustrate(html.render(report, runs), report, drawings)


def test_names_are_text_and_nothing_comes_from_elsewhere(page, make):
    parsed = Page(page)
    assert parsed.tags.count("script") == 2  # one of them data
    assert "alert('x')</script>" not in page
    assert str(escape(make.hostile)) in page
    assert "b" not in parsed.tags  # a data set is called R&D <b>100%</b>
    assert all(link.startswith("#") for link in parsed.links)
    # There is room for half of 500 kB of pictures, where two data sets are shown.
    assert "2 of 20 classes" in page
    assert parsed.tags.count("img") == 2
    assert all(source.startswith(("#", "data:image/")) for source in parsed.sources)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_figures_take_the_ink_of_the_page_and_leave_its_paper(quickstart):
    request, runs = quickstart(2)
    report = build(request, runs)
    for _, content in drawing_process.files(figure_data.of_report(report), runs, kinds=["svg"]):
        drawn = html.inline(content.decode(), 'a "line"', "x")
        assert style.INK in content.decode()
        assert style.PAPER in content.decode()
        assert style.INK not in drawn
        assert style.PAPER not in drawn
        assert 'aria-label="a &#34;line&#34;"' in drawn


def test_every_id_is_alone_and_every_link_leads_somewhere(page):
    parsed = Page(page)
    assert len(parsed.ids) == len(set(parsed.ids))
    places = parsed.ids + [f"run-{run['key']}" for run in run_data(page)["runs"]]
    assert {link.removeprefix("#") for link in parsed.links} <= set(places)


def run_data(page):
    found = re.search(r'<script type="application/json" id="run-data">(.*?)</script>', page)
    return json.loads(found[1])


def test_every_run_has_a_page(page, rough):
    assert {run["key"] for run in run_data(page)["runs"]} == {run.key for run in rough[1]}


def test_a_cell_leads_to_its_own_runs(make):
    request, runs = make.study({"a": [0.9, 0.8], "b": [0.7, 0.6]})
    report = build(request, runs)
    text = html.render(report, runs)
    link = re.search(r'<th scope="row">b</th><td[^>]*><a href="#(runs-\d+)"', text)[1]
    body = re.search(rf'<tbody id="{link}">(.*?)</tbody>', text, re.DOTALL)[1]
    keys = {run.key for run in runs if run.entry == "b"}
    assert {run.key for run in runs if f'href="#run-{run.key}"' in body} == keys


def test_failures_are_told_with_their_log(page):
    assert "divergence, loss is NaN at step 40 (<code>runs/x/log_1.txt</code>)" in page


def test_a_study_of_500_runs_stays_under_2_mb(make):
    request, runs = make.study(make.scores({f"entry {i}": 0.9 for i in range(50)}, 10))
    report = build(request, runs)
    drawings = {
        name.removesuffix(".svg"): content.decode()
        for name, content in drawing_process.files(
            figure_data.of_report(report), runs, kinds=["svg"]
        )
    }
    with_curves = html.illustrate(html.render(report, runs), report, drawings)
    assert len(with_curves.encode()) < 2_000_000
    points = 38 * list(runs[0].record.curve)
    long = Curve.of([replace(point, epoch=n) for n, point in enumerate(points, start=1)])
    runs = [
        run.model_copy(update={"record": run.record.model_copy(update={"curve": long})})
        for run in runs
    ]
    assert len(html.illustrate(html.render(report, runs), report, drawings).encode()) < 2_000_000
