"""Drawing: a report's figures as files, by as many processes as there are cores."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain

from reports import forks
from reports.table import Figure, Report, Run


def files(
    report: Report, runs: Sequence[Run], kinds: Collection[str]
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each figure's files; other processes may begin to draw at once."""
    return chain.from_iterable(forks.each(partial(_draw, report, runs, kinds), report.figures))


def _draw(
    report: Report, runs: Sequence[Run], kinds: Collection[str], figure: Figure
) -> list[tuple[str, bytes]]:
    from reports import figures  # and matplotlib, which only the process that draws has to wait for

    found = figures.draw(report, runs, figure, kinds)
    return [(f"{figure.name}.{kind}", content) for kind, content in found.items()]
