"""Fonts without layout tables: matplotlib loads them where we replace that, and nowhere else."""

import io
import re
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from fontTools import subset
from fontTools.ttLib import TTFont
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont

from lightning_bench.reports import compat
from lightning_bench.reports.figures import draw

LAYOUT = {"GDEF", "GPOS", "GSUB"}


def embedded_tables(pdf: bytes) -> set[str]:
    """The tables of all fonts in a PDF file."""
    streams = re.findall(rb"stream\r?\n(x.*?)\r?\nendstream", pdf, re.DOTALL)
    fonts = [font for font in map(zlib.decompress, streams) if font.startswith(b"\0\1\0\0")]
    return {table for font in fonts for table in TTFont(io.BytesIO(font)).keys()}  # noqa: SIM118


@pytest.mark.parametrize("bare", [False, True])
def test_matplotlib_still_loads_the_fonts_of_a_pdf_by_the_function_that_is_replaced(bare) -> None:
    canvas, file = Figure(), io.BytesIO()
    with rc_context({"pdf.fonttype": 42}):
        canvas.add_subplot().set_title("AV fi")
        with compat.fonts_without_layout() if bare else nullcontext():
            canvas.savefig(file, format="pdf")
    tables = embedded_tables(file.getvalue())
    assert {"glyf", "head"} <= tables
    assert tables & LAYOUT == (set() if bare else LAYOUT)


def test_drawing_leaves_the_library_of_the_process_as_it_was() -> None:
    before = subset.load_font
    draw.get_ready(["pdf"])
    assert subset.load_font is before
    with pytest.raises(KeyError), compat.fonts_without_layout():
        raise KeyError
    assert subset.load_font is before


def test_fonts_that_another_thread_loads_meanwhile_are_whole() -> None:
    def tables() -> set[str]:
        return {*subset.load_font(findfont("DejaVu Sans"), subset.Options()).keys()}

    with compat.fonts_without_layout(), ThreadPoolExecutor(1) as pool:
        assert tables() & LAYOUT == set()
        assert pool.submit(tables).result() >= LAYOUT
