"""A report as LaTeX: compiles by itself, and gives its tables alone when `\\input` into a paper."""

import re
import unicodedata
from collections.abc import Sequence

from markupsafe import Markup

from lightning_bench.reports.render import page_templates
from lightning_bench.reports.report import Cell, Column, Report
from lightning_bench.reports.request import ReportedRun
from lightning_bench.reports.text.numbers import parts, slug

DELIMITERS = {
    "block_start_string": "<%",
    "block_end_string": "%>",
    "variable_start_string": "<<",
    "variable_end_string": ">>",
    "comment_start_string": "<#",
    "comment_end_string": "#>",
}

_CHARACTERS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "±": r"\ensuremath{\pm}",
    "×": r"\ensuremath{\times}",
    "−": r"\ensuremath{-}",
    "·": r"\ensuremath{\cdot}",
    "≤": r"\ensuremath{\leq}",
    "≥": r"\ensuremath{\geq}",
    "≈": r"\ensuremath{\approx}",
    "→": r"\ensuremath{\rightarrow}",
    "↑": r"\ensuremath{\uparrow}",
    "↓": r"\ensuremath{\downarrow}",
    "Σ": r"\ensuremath{\Sigma}",
    "√": r"\ensuremath{\surd}",
    "∞": r"\ensuremath{\infty}",
    "²": r"\textsuperscript{2}",
    "³": r"\textsuperscript{3}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\dots{}",
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "€": r"\texteuro{}",
    "°": r"\textdegree{}",
    "\u00a0": "~",
}


def escape(text: str) -> str:
    """Any text as literal text on one line, for every LaTeX engine."""
    if text.isascii() and text.isalnum():  # as thousands of keys and seeds are
        return text
    literal = "".join(map(_escape, unicodedata.normalize("NFC", " ".join(text.split()))))
    if literal[:1] in {"[", "*"}:  # which a line's end before it would take for its own
        literal = "{}" + literal
    return literal.replace("--", "-{}-").replace("--", "-{}-")  # no dash made of hyphens


def _escape(character: str) -> str:
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    # T1 fonts have ASCII and the letters of European languages.
    if " " <= character <= "~" or (character.isalpha() and "À" <= character <= "ſ"):
        return character
    greek = re.fullmatch(r"GREEK SMALL LETTER (\w+)", unicodedata.name(character, ""))
    if greek and greek[1] not in ("OMICRON", "FINAL SIGMA"):
        name = {"LAMDA": "lambda"}.get(greek[1], greek[1].lower())
        return rf"\ensuremath{{\{name}}}"
    return rf"\texttt{{U+{ord(character):04X}}}"


def render(report: Report, runs: Sequence[ReportedRun]) -> str:
    """The page as text."""
    return page_templates.render(
        "report.tex.j2",
        escape,
        report,
        runs,
        DELIMITERS,
        cell=_cell,
        setting=_setting,
        name=_name,
        width=lambda table: len(table.columns) + 1,
    )


def _name(text: str) -> Markup:
    """A label or a file name, which must not be escaped."""
    return Markup(slug(text))


def _cell(cell: Cell, column: Column) -> Markup:
    """What stands in an S column: a number that siunitx aligns, or text in braces."""
    value, half = parts(cell, column)
    marks = rf"\textsuperscript{{{','.join(cell.notes)}}}" if cell.notes else ""
    if cell.value is None or "–" in value:
        shown = rf"\textit{{{escape(value)}}}" if cell.state else escape(value)
        return Markup(f"{{{shown}{marks}}}")
    text = _siunitx(value) + (f" +- {_siunitx(half)}" if half else "")
    return Markup((r"\bfseries " if cell.best else "") + text + marks)


def _siunitx(number: str) -> str:
    return number.replace(",", "").replace("−", "-")


def _setting(column: Column, cells: Sequence[Cell]) -> Markup:
    """The S column's options: room for its widest number, uncertainty and notes."""
    shown = [[_siunitx(part) for part in parts(cell, column)] for cell in cells]
    numbers = [value for value, _ in shown if re.fullmatch(r"[-+]?[\d.]+", value)]
    halves = [half for _, half in shown if half]
    whole = max((len(number.lstrip("-+").partition(".")[0]) for number in numbers), default=1)
    signs = column.signed or any(number.startswith("-") for number in numbers)
    room = "-" * signs + (f"{whole}.{column.decimals}" if column.decimals else f"{whole}")
    if halves:
        room += f" +- {max(len(half.partition('.')[0]) for half in halves)}.{column.decimals}"
    marks = max((",".join(cell.notes) for cell in cells), key=len, default="")
    post = rf", table-space-text-post=\textsuperscript{{{marks}}}" if marks else ""
    plus = ", print-implicit-plus" if column.signed else ""
    return Markup(f"table-format={room}{plus}{post}")
