"""Markdown says what was meant, to a reader of GitHub's dialect."""

import re
from functools import partial
from html.parser import HTMLParser

import cmarkgfm
import pytest
from cmarkgfm.cmark import Options
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from lightning_bench.reports.build import build
from lightning_bench.reports.render import markdown

UNSAFE = Options.CMARK_OPT_UNSAFE
PARSERS = {
    "markdown-it": MarkdownIt("commonmark").enable(["table", "strikethrough"]).render,
    # GitHub's own, with the HTML that GitHub lets through.
    "cmark-gfm": partial(cmarkgfm.github_flavored_markdown_to_html, options=UNSAFE),
}
both = pytest.mark.parametrize("render", PARSERS.values(), ids=PARSERS)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Z"]), min_size=1)


class Page(HTMLParser):
    """Cells of the page's tables by row, and all its text."""

    def __init__(self, markup):
        super().__init__()
        self.rows, self.text, self.tags, self._cell = [], [], set(), None
        self.feed(markup)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self._cell = []

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.rows[-1].append("".join(self._cell))
            self._cell = None

    def handle_data(self, data):
        self.text.append(data)
        if self._cell is not None:
            self._cell.append(data)


@both
@given(text=words)
def test_any_text_in_a_cell_is_that_text(render, text):
    page = Page(render(f"| a | b |\n| - | - |\n| {markdown.escape(text)} | x |\n"))
    assert page.rows[1] == [text, "x"]


@both
@given(text=words)
def test_any_text_is_a_paragraph_or_a_list_item(render, text):
    for mark in ("", "- "):
        page = Page(render(f"{mark}{markdown.escape(text)}\n"))
        assert "".join(page.text).strip() == text
        assert page.tags <= {"p", "ul", "li"}


@both
def test_the_page_has_every_row_and_number(render, rough):
    request, runs = rough
    report = build(request, runs)
    page = Page(render(markdown.render(report, runs)))
    assert "script" not in page.tags
    rows = {row[0]: row for row in page.rows[:9] if row}
    hostile = rows[next(iter(request.entries))]
    assert len(hostile) == len(report.tables[0].columns) + 1 == 9
    assert re.fullmatch(r"\d\d\.\d\d\s±\s\d\.\d\d", hostile[1])
    assert rows["ResNet-152"][2] == "divergedb"
    assert {row[1] for row in page.rows if row[0] == "R&D <b>100%</b>"} >= {*request.entries}
    text = "".join(page.text)
    assert all(run.key in text for run in runs)
    assert all(fact.text in text for fact in report.facts)


def test_the_tie_group_is_bold(make):
    request, runs = make.study(make.scores({"a": 0.8, "b": 0.95}, 9))
    report = build(request, runs)
    text = markdown.render(report, runs)
    assert re.search(r"\| b \| \*\*95\.\d\d\*\*\s±\s", text)
    assert not re.search(r"\| a \| \*\*", text)
