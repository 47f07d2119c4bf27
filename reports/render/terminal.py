"""A report in the terminal, from numbers alone: needs rich and the `report`, nothing heavier."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from lightning_bench.common.messages import counted
from lightning_bench.reports.report import Cell, Column, Report, Row, Table
from lightning_bench.reports.text.numbers import heading, parts

GAP = 2  # spaces between columns
_Texts = tuple[int, Text, list[Text]]


def render(report: Report) -> RenderableType:
    """Everything that a terminal should show, for any width, in colour or piped."""
    blocks: list[RenderableType] = [
        Text(f"{report.title} ({report.study}, {report.scale})", style="bold")
    ]
    if report.question:
        blocks.append(Text(report.question, style="italic"))
    for table in report.tables:
        blocks += [Text(), _Table(table)]
    if report.findings:
        blocks.append(Text())
    blocks += [_Hanging("•", Text(finding)) for finding in report.findings]
    if report.lost:
        attempts = counted(len(report.lost), "attempt")
        lost = f"{attempts} came to nothing; the report's files list cause and log."
        blocks.append(_Hanging("•", Text(lost)))
    return Group(*blocks)


def tables(shown: Sequence[Table], sentences: Sequence[str] = ()) -> RenderableType:
    """Tables alone, and sentences under them."""
    blocks: list[RenderableType] = []
    for table in shown:
        blocks += [Text(), _Table(table)]
    blocks += [Text()] * bool(sentences)
    return Group(*blocks, *(_Hanging("•", Text(sentence)) for sentence in sentences))


class _Hanging:
    """A paragraph behind a mark. (A grid would do, but pads every line with spaces.)"""

    def __init__(self, mark: str, text: Text) -> None:
        self.mark, self.text = mark, text

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        indent = len(self.mark) + 1
        lines = self.text.wrap(console, max(options.max_width - indent, 20))
        for number, line in enumerate(lines):
            line.rstrip()
            yield Text(f"{self.mark} " if number == 0 else " " * indent).append_text(line)


class _Table:
    """A table that is cut into blocks of columns where the terminal is too narrow for all."""

    def __init__(self, table: Table) -> None:
        self.table = table

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        # Where no bold can be seen, in a file or a pipe, a star stands for it.
        caption = self.table.caption
        if self._starred(console):
            caption = caption.replace("Bold:", "Starred (*):")
        yield Text(self.table.title, style="bold")
        yield from self._blocks(console, options)
        yield Text(caption, style="dim")
        for note in self.table.notes:
            yield _Hanging(note.mark or "·", Text(note.text, style="dim"))

    @staticmethod
    def _starred(console: Console) -> bool:
        return not console.is_terminal

    def _blocks(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """As many columns side by side as fit; the entries' names are repeated in each block."""
        starred = self._starred(console)
        cells = zip(*(row.cells for row in self.table.rows), strict=True)
        columns = [
            _column(column, found, starred)
            for column, found in zip(self.table.columns, cells, strict=True)
        ]
        longest = max(20, options.max_width // 3)
        rows = self.table.rows
        names = max(max(_label(row).cell_len, cell_len(row.group)) for row in rows)
        while columns:
            ends = accumulate((GAP + width for width, _, _ in columns), initial=min(names, longest))
            take = max(1, sum(end <= options.max_width for end in ends) - 1)
            yield self._grid(columns[:take], longest)
            columns = columns[take:]
            if columns:
                yield Text()

    def _grid(self, columns: Sequence[_Texts], longest: int) -> Grid:
        grid = Grid(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
        grid.add_column("", no_wrap=True, overflow="ellipsis", max_width=longest)
        for width, head, _ in columns:
            grid.add_column(head, no_wrap=True, width=width)
        group = ""
        cells = zip(*(texts for _, _, texts in columns), strict=True)
        for row, texts in zip(self.table.rows, cells, strict=True):
            if row.group != group:
                group = row.group
                grid.add_row(Text(group, style="italic"))
            grid.add_row(_label(row), *texts)
        return grid


def _label(row: Row) -> Text:
    text = Text(f"  {row.label}" if row.group else row.label)
    if row.source == "published":
        text.append(f" [{row.cite}]", style="dim")
    return text


def _column(column: Column, cells: Sequence[Cell], starred: bool) -> _Texts:
    """Width, head and cells of a column: numbers, uncertainties and marks stand under each other.

    All are padded on the left, because rich drops spaces at the right of what it justifies.
    """
    shown = [parts(cell, column) for cell in cells]
    marks = [
        (" *" if cell.best and starred else "") + (f" {','.join(cell.notes)}" if cell.notes else "")
        for cell in cells
    ]
    halves = max(len(half) for _, half in shown)
    tails = [
        f" ± {half:>{halves}}" if half else " " * (halves + 3 if halves and not cell.state else 0)
        for cell, (_, half) in zip(cells, shown, strict=True)
    ]
    bodies = [len(value) + len(tail) for (value, _), tail in zip(shown, tails, strict=True)]
    titles = [column.title, heading(column)]
    width = max(max(bodies) + max(map(len, marks)), *map(cell_len, titles))
    room = width - max(map(len, marks))
    texts = []
    for cell, (value, _), tail, mark in zip(cells, shown, tails, marks, strict=True):
        text = Text(" " * (room - len(value) - len(tail)))
        text.append(value, style="bold" if cell.best else "red" if cell.state else "")
        texts.append(text.append(tail, style="dim").append(mark, style="dim"))
    head = "\n".join(" " * (width - cell_len(title)) + title for title in titles)
    return width, Text(head), texts
