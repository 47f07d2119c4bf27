"""Drawing: a report's figures as files, by as many processes as there are cores.

What takes matplotlib long is to be imported and to find its fonts. A `DrawingProcess` does
so while the caller still reads records; it gets what to draw once that is known.
"""

import os
import signal
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Self

from lightning_bench.common.processes import how_it_ended
from lightning_bench.reports.figures import fork_pool
from lightning_bench.reports.figures.figure_data import FigureData, Series, series_of
from lightning_bench.reports.report import Figure
from lightning_bench.reports.request import ReportedRun

#: A figure's files: name and content.
Files = list[tuple[str, bytes]]
#: All that drawing it takes.
Task = tuple[FigureData, Figure, Series]


class DrawingProcess:
    """A process that gets ready to draw, and then draws once; gone when its context is left."""

    def __init__(self, kinds: Collection[str]) -> None:
        """Begin to get ready for files of these kinds."""
        context = get_context("fork")
        self._line, line = context.Pipe()
        self._process = context.Process(target=_keep, args=(line, self._line, kinds))
        self._process.start()
        line.close()

    def __enter__(self) -> Self:
        """It works already."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, wherever it is."""
        self._line.close()
        self._process.kill()
        self._process.join()

    def draw(self, tasks: Sequence[Task]) -> Iterator[tuple[str, bytes]]:
        """The files of all figures; drawing goes on at once, whenever they are asked for."""
        with self._working():
            self._line.send(tasks)
        return self._drawn(len(tasks))

    def _drawn(self, figures: int) -> Iterator[tuple[str, bytes]]:
        for _ in range(figures):
            with self._working():
                found: Files = self._line.recv()
            yield from found

    @contextmanager
    def _working(self) -> Iterator[None]:
        """Say so where its process is gone."""
        try:
            yield
        except (EOFError, ConnectionError):
            self._process.join()
            ended = how_it_ended(self._process.exitcode or 0)
            raise ChildProcessError(f"the process that draws figures {ended}") from None


def open_drawing_process(kinds: Collection[str]) -> AbstractContextManager[DrawingProcess | None]:
    """A drawing process, where one is of use: with a core of its own, and where a fork is safe."""
    useful = kinds and fork_pool.cores() > 1 and threading.active_count() == 1
    return DrawingProcess(kinds) if useful else nullcontext()


def files(
    data: FigureData,
    runs: Sequence[ReportedRun],
    kinds: Collection[str],
    drawing: DrawingProcess | None = None,
) -> Iterator[tuple[str, bytes]]:
    """Name and content of each figure's files; other processes may begin to draw at once."""
    tasks = [(data, figure, series_of(data, runs, figure)) for figure in data.figures]
    if drawing:
        return drawing.draw(tasks)
    return (file for found in fork_pool.each(partial(_draw, kinds), tasks) for file in found)


def _draw(kinds: Collection[str], task: Task) -> Files:
    from lightning_bench.reports.figures import draw

    data, figure, found = task
    drawn = draw.draw(data, figure, found, kinds)
    return [(f"{figure.name}.{kind}", content) for kind, content in drawn.items()]


def _keep(line: Connection, other_end: Connection, kinds: Collection[str]) -> None:
    """Draw in a process of its own, until its caller has all files or is gone."""
    os.nice(5)  # what the caller does meanwhile takes longer
    other_end.close()  # or nobody would notice that the caller is gone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the caller's to answer
    from lightning_bench.reports.figures import draw

    draw.get_ready(kinds)
    with suppress(EOFError, ConnectionError):  # of a caller that has nothing to draw, or is gone
        for found in fork_pool.each(partial(_draw, kinds), line.recv()):
            line.send(found)
