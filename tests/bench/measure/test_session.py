"""Sessions of real processes, on work of known cost."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from lightning_bench.bench.measure.protocol import Failed, MeasureJob, Ready
from lightning_bench.bench.measure.session import SessionPlan
from lightning_bench.bench.measure.warm_up import Pace
from lightning_bench.bench.store import session_files
from lightning_bench.bench.store.measurements import Contender, Measurement, Session, Setting
from lightning_bench.bench.store.store import Damaged, Store
from lightning_bench.reports.statistics import timing
from lightning_bench.reports.tables import speed
from tests.commands import start

pytestmark = pytest.mark.slow

HASTY = Pace(least_steps=4, least_s=0.1, most_s=1.0, block_s=0.04)
ROOT = Path(__file__).parents[3]


class Log:
    """Hears what happens."""

    def __init__(self) -> None:
        self.turns: list[tuple[str, int]] = []
        self.tried: list[tuple[int, bool | None]] = []
        self.answers: list[Ready | Failed] = []

    def searching(self, job: MeasureJob, batch_size: int, fits: bool | None) -> None:
        self.tried.append((batch_size, fits))

    def preparing(self, job: MeasureJob) -> None:
        pass

    def prepared(self, job: MeasureJob, answer: Ready | Failed) -> None:
        self.answers.append(answer)

    def turn(self, job: MeasureJob, number: int) -> None:
        self.turns.append((job.contender.label, number))

    def tick(self) -> None:
        pass


def contender(name: str, label: str = "", **args: float) -> Contender:
    return Contender(label=label or name, model=f"tests.bench.measure.synthetic:{name}", args=args)


def session(
    tmp_path: Path, *contenders: Contender, log: Log | None = None, pace: Pace = HASTY, **setting
) -> Session:
    values = {"mode": "infer", "batch_size": 1, **setting}
    asked = [(each, Setting(**values)) for each in contenders]
    course = SessionPlan(
        asked, pace, quick=True, sources={}, modules=["tests.bench.measure.synthetic"]
    )
    return course.run(Store(tmp_path), log or Log())


def ratio(a: Measurement, b: Measurement) -> timing.TimingSpread:
    found = timing.ratio(timing.seconds(a), timing.seconds(b))
    assert found is not None
    return found


@contextmanager
def load() -> Iterator[None]:
    """A machine with as many busy processes as cores."""
    code = "while True: sum(range(10_000))"
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_sleeping_models_take_turns_and_take_what_they_sleep(tmp_path: Path):
    log = Log()
    found = session(
        tmp_path,
        contender("sleeper", "a", seconds=0.05),
        contender("sleeper", "b", seconds=0.0525),
        log=log,
    )
    a, b = found.measurements
    rounds = [log.turns[start : start + 2] for start in range(0, 60, 2)]
    assert [sorted(each) for each in rounds] == [[("a", i), ("b", i)] for i in range(30)]
    # In another order each round, and the records have the place.
    first = [each[0][0] for each in rounds]
    assert set(first) == {"a", "b"}
    assert [block.place for block in a.blocks] == [int(name == "b") for name in first]
    assert len(a.blocks) == len(b.blocks) == 30
    paces = timing.throughput(a)
    # Where others crowd the cores a sleeper wakes late; its best blocks are on time even then.
    quiet = all((block.others_cores or 0) < 0.5 for block in a.blocks)
    assert (paces.median if quiet else paces.p90) == pytest.approx(1 / 0.05, rel=0.02)
    slower = ratio(a, b)
    assert slower.low > 1 or not quiet  # five per cent on purpose
    assert slower.median == pytest.approx(1.05, abs=0.03)
    assert len(a.latency_s) >= 100
    assert min(a.latency_s) == pytest.approx(0.05, rel=0.02)
    session_files.keep(Store(tmp_path), found)
    assert session_files.newest(Store(tmp_path), found.key) == found


def test_null_the_same_model_twice_on_a_loaded_machine(tmp_path: Path):
    errors = []
    with load():
        for _ in range(3):
            twins = [contender("products", label, number=40) for label in "ab"]
            found = session(tmp_path, *twins, pace=Pace(4, 0.1, 1.0, block_s=0.1), mode="train")
            errors.append(abs(ratio(*found.measurements).median - 1))
            # Others did hold the cores.
            blocks = found.measurements[0].blocks
            assert sum(block.waited_s or 0.0 for block in blocks) > 1.0
    assert median(errors) < 0.02


def test_known_memory_and_what_does_not_fit(tmp_path: Path):
    found = session(
        tmp_path,
        contender("hoarder", "fits", megabytes=400),
        contender("hoarder", "doesn't", megabytes=2_000_000),
    )
    fits, does_not = found.measurements
    # The weight and as much again while a step runs.
    own = fits.memory.peak_bytes - fits.memory.idle_bytes
    assert own == pytest.approx(800e6, rel=0.05)
    assert does_not.failure.kind == "out-of-memory"
    assert does_not.setting.batch_size == 1
    states = [row.cells[0].state for row in speed.speeds(found)[0].rows]
    assert states == ["", "out of memory"]


def test_a_process_that_dies_is_lost_and_the_others_go_on(tmp_path: Path):
    found = session(tmp_path, contender("breaker"), contender("sleeper", seconds=0.01))
    lost, other = found.measurements
    assert lost.failure.kind == "lost"
    assert "exited with code 7" in lost.failure.message
    assert len(other.blocks) == 30


def test_two_devices_wait_for_each_other(tmp_path: Path):
    model = contender("sleeper", seconds=0.02)
    asked = [
        (model, Setting(mode=mode, batch_size=4, devices=n))
        for mode in ("infer", "train")
        for n in (1, 2)
    ]
    found = SessionPlan(asked, HASTY, quick=True, sources={}).run(Store(tmp_path), Log())
    assert not any(m.failure for m in found.measurements)
    alone, both, _, trained = found.measurements
    # Twice the examples in the same time: each core as fast as the one alone.
    assert timing.throughput(both).median == pytest.approx(timing.throughput(alone).median, rel=0.1)
    assert not both.latency_s
    assert len(trained.blocks) == 30
    table = speed.speeds(found)[1]
    place = [column.id for column in table.columns].index("efficiency")
    assert table.rows[0].cells[place].value == pytest.approx(1, abs=0.1)


def test_the_largest_batch_is_searched_openly(tmp_path: Path):
    log = Log()
    # Batches of 2²⁰ images of 3 × 1,024² floats are beyond any machine.
    image = contender("sleeper", image_size=1024, channels=3, seconds=0.0)
    asked = [(image, Setting(mode="infer", batch_size=1))]
    course = SessionPlan(asked, HASTY, quick=True, sources={}, search_batch=True)
    hasty = SessionPlan(**{**course.__dict__, "pace": Pace(1, 0.0, 0.5, 0.0)})
    found = hasty.run(Store(tmp_path), log)
    (tried,) = found.searched.values()
    assert tried[-1][1] is False
    assert all(fits for _, fits in tried[:-1])
    assert found.measurements[0].setting.batch_size == tried[-2][0]
    assert [size for size, fits in log.tried if fits is not None] == [size for size, _ in tried]


def test_a_session_cut_short_is_damaged(tmp_path: Path):
    found = session(tmp_path, contender("sleeper", seconds=0.005))
    path = session_files.keep(Store(tmp_path), found)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(Damaged):
        session_files.read(path)
    assert session_files.newest(Store(tmp_path), found.key) is None


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ctrl_c_and_kill_leave_nothing_behind(tmp_path: Path, how: signal.Signals):
    store = tmp_path / "store"
    started = start("measure", "lenet", "--store", str(store), cwd=tmp_path)
    assert started.stdout is not None
    for line in started.stdout:
        if "rounds" in line:
            break
    time.sleep(1)
    os.kill(started.pid, how)
    rest, _ = started.communicate(timeout=30)
    if how == signal.SIGINT:
        assert started.returncode == 130
        assert "stopped" in rest
    assert not list(store.glob("measurements/*"))
    deadline = time.monotonic() + 20
    while _of_session(started.pid) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _of_session(started.pid) == []


def _of_session(leader: int) -> list[int]:
    """Processes that still live in the session of a process that led one."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(folder.name))
    return found


def test_nothing_of_it_is_left_running():
    assert not multiprocessing.active_children()
