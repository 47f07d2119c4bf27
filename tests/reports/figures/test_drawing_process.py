"""A drawing process: ready before it is needed, draws the same, and is never left behind."""

import multiprocessing
import signal
import subprocess
import sys
import threading

import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.figures import drawing_process, figure_data, fork_pool, style

ORPHAN = """
import multiprocessing, time
from lightning_bench.reports.figures import drawing_process as drawing
with drawing.open_drawing_process(["svg"]):
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(60)
"""
pytestmark = pytest.mark.skipif(fork_pool.cores() < 2, reason="needs two cores of Linux")


def test_a_drawing_process_draws_the_same_as_this_process(quickstart, alone, monkeypatch):
    request, runs = quickstart(3)
    report = build(request, runs)
    kinds = list(style.METADATA)
    with drawing_process.open_drawing_process(kinds) as drawing:
        assert drawing is not None
        drawn = dict(drawing_process.files(figure_data.of_report(report), runs, kinds, drawing))
    monkeypatch.setattr(fork_pool, "FEW", 99)
    assert drawn == dict(drawing_process.files(figure_data.of_report(report), runs, kinds))
    assert len(drawn) == 3 * len(report.figures) > 0


def test_an_unused_drawing_process_is_closed(alone):
    with drawing_process.open_drawing_process(["svg"]):
        (drawing,) = multiprocessing.active_children()
    assert not drawing.is_alive()


@pytest.mark.parametrize("early", [True, False])
def test_a_drawing_process_that_is_killed_is_told_of(quickstart, alone, early):
    request, runs = quickstart(2)
    report = build(request, runs)
    with drawing_process.open_drawing_process(["svg"]) as drawing:
        (process,) = multiprocessing.active_children()
        if early:
            process.kill()
            process.join()
        with pytest.raises(ChildProcessError, match="draws figures was killed by SIGKILL"):  # noqa: PT012
            files = drawing_process.files(figure_data.of_report(report), runs, ["svg"], drawing)
            process.kill()
            list(files)


def test_there_is_none_beside_a_thread_nor_for_nothing():
    with drawing_process.open_drawing_process([]) as drawing:
        assert drawing is None
    done = threading.Event()
    beside = threading.Thread(target=done.wait)
    beside.start()
    try:
        with drawing_process.open_drawing_process(["svg"]) as drawing:
            assert drawing is None
    finally:
        done.set()
        beside.join()


def test_a_drawing_process_ends_with_its_caller(wait_for_end):
    caller = subprocess.Popen(
        [sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert caller.stdout is not None
    pids = [int(pid) for pid in caller.stdout.readline().split()]
    assert len(pids) == 1
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    caller.stdout.close()
    wait_for_end(pids)
