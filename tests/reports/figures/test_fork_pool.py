"""Work by forks: the same results, in order; no fork outlives its parent."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from lightning_bench.reports.figures import fork_pool

ORPHANS = """
import os, sys, time
from lightning_bench.reports.figures import fork_pool as forks
started = forks.each(lambda n: (os.write(1, b'%d\\n' % os.getpid()), time.sleep(60)), range(4))
next(started)
"""
several = pytest.mark.skipif(fork_pool.cores() < 2, reason="needs two cores of Linux")


@several
def test_results_come_in_order_and_from_other_processes(alone) -> None:
    things = [object() for _ in range(9)]  # which nothing could send

    def work(thing: object) -> tuple[int, int]:
        return things.index(thing), os.getpid()

    places, pids = zip(*fork_pool.each(work, things), strict=True)
    assert places == tuple(range(9))
    assert os.getpid() not in pids


def test_few_things_and_those_beside_a_thread_are_done_in_place() -> None:
    def work(_: int) -> int:
        return os.getpid()

    assert set(fork_pool.each(work, range(fork_pool.FEW - 1))) == {os.getpid()}
    done = threading.Event()
    beside = threading.Thread(target=done.wait)
    beside.start()
    try:
        assert set(fork_pool.each(work, range(9))) == {os.getpid()}
    finally:
        done.set()
        beside.join()


@several
def test_an_error_is_the_callers(alone) -> None:
    def work(number: int) -> float:
        return 1 / (number - 2)

    results = fork_pool.each(work, range(6))
    assert [next(results), next(results)] == [-0.5, -1.0]
    with pytest.raises(ZeroDivisionError):
        next(results)


@several
def test_nothing_is_left_of_a_pool_that_has_given_all(alone) -> None:
    before = set(threading.enumerate())
    assert list(fork_pool.each(str, range(6))) == ["0", "1", "2", "3", "4", "5"]
    # Its thread would close its pipe while the interpreter, which may end now, writes to it.
    assert set(threading.enumerate()) == before


@several
def test_forks_die_with_their_parent(wait_for_end) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert parent.stdout is not None
    pids = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_for_end(pids)
