"""The terminal shows everything, within its width."""

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from lightning_bench.reports.build import build
from lightning_bench.reports.render.terminal import render


def printed(report, width, **options):
    file = io.StringIO()
    Console(file=file, width=width, **options).print(render(report))
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_fits_the_width_and_loses_no_number(quickstart, rough, width):
    for request, runs in (quickstart(9), rough):
        report = build(request, runs)
        lines = printed(report, width).splitlines()
        assert max(map(cell_len, lines)) <= width
        text = " ".join(" ".join(lines).split())
        for table in report.tables:
            assert all(note.text in text for note in table.notes)
            for row in table.rows:
                for cell, column in zip(row.cells, table.columns, strict=True):
                    assert cell.state in text
                    if cell.value is not None:
                        number = f"{cell.value * column.scale:,.{column.decimals}f}"
                        assert number in text
        assert all(finding in text for finding in report.findings)


def test_quickstart_is_one_block_with_its_labels_whole(quickstart):
    text = printed(build(*quickstart(5)).model_copy(update={"findings": []}), 80)
    assert text.count("MLP-Mixer") == 2
    assert "…" not in text.split("What it cost")[0]


def test_piped_output_has_no_escapes_and_a_terminal_shows_the_tie_group_bold(make):
    report = build(*make.study(make.scores({"a": 0.8, "b": 0.95}, 9)))
    piped = printed(report, 80)
    assert "\x1b" not in piped
    assert piped.count(" *") == 1
    assert "Starred (*): the top tie group" in piped
    coloured = printed(report, 80, force_terminal=True, color_system="standard")
    mean = report.tables[0].rows[1].cells[0].value
    assert re.search(rf"\x1b\[1m *{mean * 100:.2f}", coloured)


def test_markup_in_names_is_printed_as_it_stands(make):
    text = printed(build(*make.study({"[bold]x[/]": [0.9], "b": [0.8]})), 80)
    assert "[bold]x[/]" in text
