"""Forks: work on things that are in memory already, done by several processes."""

import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

from lightning_bench.common.machine import usable_cores
from lightning_bench.common.processes import die_with_parent

Thing = TypeVar("Thing")
Result = TypeVar("Result")

#: Fewer things than this are done in place: forking has its price.
FEW = 4
_work: Callable[[int], Any]


def cores() -> int:
    """How many forks can work at once; one where none should."""
    return usable_cores() if sys.platform == "linux" else 1


def each(work: Callable[[Thing], Result], things: Sequence[Thing]) -> Iterator[Result]:
    """The result for each thing, in order, by a fork a core, which begin at once.

    In place where a fork is not safe, beside other threads and outside Linux, or doesn't pay.
    """
    if cores() == 1 or len(things) < FEW or threading.active_count() > 1:
        return map(work, things)

    def nth(number: int) -> Result:
        return work(things[number])

    # A fork inherits what it is started with; only numbers and results are sent.
    pool = ProcessPoolExecutor(min(cores(), len(things)), get_context("fork"), _start, (nth,))
    results = [pool.submit(_do, number) for number in range(len(things))]

    def collected() -> Iterator[Result]:
        try:
            for result in results:
                yield result.result()
        finally:  # or the pool's thread may still be closing its pipe when the interpreter ends
            pool.shutdown(cancel_futures=True)

    return collected()


def _start(work: Callable[[int], Any]) -> None:
    global _work
    _work = work
    gc.disable()  # it would touch, and so copy, all that is shared with the parent
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    die_with_parent()


def _do(number: int) -> Any:
    return _work(number)
