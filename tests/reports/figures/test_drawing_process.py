"""A studio: ready before it is needed, draws the same, and is never left behind."""

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
with drawing.open_studio(["svg"]):
    print(*(child.pid for child in multiprocessing.active_children()), flush=True)
    time.sleep(60)
"""
pytestmark = pytest.mark.skipif(fork_pool.cores() < 2, reason="needs two cores of Linux")


def test_a_studio_draws_the_same_as_this_process(quickstart, alone, monkeypatch):
    request, runs = quickstart(3)
    report = build(request, runs)
    kinds = list(style.METADATA)
    with drawing_process.open_studio(kinds) as studio:
        assert studio is not None
        drawn = dict(drawing_process.files(figure_data.sketch_of(report), runs, kinds, studio))
    monkeypatch.setattr(fork_pool, "FEW", 99)
    assert drawn == dict(drawing_process.files(figure_data.sketch_of(report), runs, kinds))
    assert len(drawn) == 3 * len(report.figures) > 0


def test_an_unused_studio_is_closed(alone):
    with drawing_process.open_studio(["svg"]):
        (studio,) = multiprocessing.active_children()
    assert not studio.is_alive()


@pytest.mark.parametrize("early", [True, False])
def test_a_studio_that_is_killed_is_told_of(quickstart, alone, early):
    request, runs = quickstart(2)
    report = build(request, runs)
    with drawing_process.open_studio(["svg"]) as studio:
        (process,) = multiprocessing.active_children()
        if early:
            process.kill()
            process.join()
        with pytest.raises(ChildProcessError, match="draws figures was killed by SIGKILL"):  # noqa: PT012
            files = drawing_process.files(figure_data.sketch_of(report), runs, ["svg"], studio)
            process.kill()
            list(files)


def test_there_is_none_beside_a_thread_nor_for_nothing():
    with drawing_process.open_studio([]) as studio:
        assert studio is None
    done = threading.Event()
    beside = threading.Thread(target=done.wait)
    beside.start()
    try:
        with drawing_process.open_studio(["svg"]) as studio:
            assert studio is None
    finally:
        done.set()
        beside.join()


def test_a_studio_ends_with_its_caller(wait_for_end):
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
