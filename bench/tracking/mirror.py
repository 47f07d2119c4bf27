"""The process that feeds the trackers, and the listener in the parent that feeds it."""

import queue
import signal
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import TYPE_CHECKING

from lightning_bench.bench.execute.executor import Listener
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.store.record import Epoch, Record
from lightning_bench.bench.study.study import Study
from lightning_bench.bench.tracking.events import (
    Event,
    Finished,
    Progressed,
    Reported,
    Tracker,
    began,
)
from lightning_bench.common.processes import how_it_ended, is_stopped

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

LOG = "tracking.log"
#: How long the end of a study waits for trackers that are behind, and that of one interrupted.
PATIENCE_S, INTERRUPTED_S = 60.0, 2.0
#: How long it waits for ones that a signal has stopped: they may go on.
_STOPPED_S = 3.0
_LOOK_S = 0.2


def make(name: str, store: Path, study: str, scale: str) -> Tracker:
    """A tracker by its name."""
    if name == "wandb":
        from lightning_bench.bench.tracking.weights_and_biases import WeightsAndBiases, mode

        return WeightsAndBiases(store, study, scale, mode())
    from lightning_bench.bench.tracking import csv_and_tensorboard

    folder = f"{study}-{scale}"
    return (
        csv_and_tensorboard.Csv(store, folder)
        if name == "csv"
        else csv_and_tensorboard.TensorBoard(store, folder)
    )


class Mirror(Listener):
    """Passes on what the executor tells; never blocks, never raises for a tracker's trouble."""

    def __init__(self, names: Iterable[str], store: Path, study: Study) -> None:
        self.study, self.store = study, store
        context = get_context("spawn")
        self._events: Queue[Event | None] = context.Queue()
        self._lines: Queue[str | None] = context.Queue()
        self._process = context.Process(
            target=feed,
            args=(self._events, self._lines, list(names), store, study.name, study.scale),
            daemon=True,
        )
        self._process.start()
        self._our_runs: set[str] = set()
        self.patience_s = PATIENCE_S

    def started(self, planned: PlannedRun, slot: int) -> None:
        """A run got a slot."""
        del slot
        self._our_runs.add(planned.key)
        self._events.put(began(planned, self.study))

    def progressed(self, planned: PlannedRun, epoch: Epoch) -> None:
        """A run finished an epoch."""
        self._events.put(Progressed(planned.key, epoch))

    def finished(self, planned: PlannedRun, record: Record) -> None:
        """A run left a record; those of other parents are theirs to show."""
        if planned.key in self._our_runs:
            self._events.put(Finished(planned.key, record))

    def run_by_other(self, planned: PlannedRun) -> None:
        """Another process runs it, and shows it."""
        self._our_runs.discard(planned.key)

    def reported(self, folder: Path) -> None:
        """The report is made."""
        self._events.put(Reported(folder))

    def hurry(self) -> None:
        """Whoever waits has been interrupted: the end shall not be long in coming."""
        self.patience_s = INTERRUPTED_S

    def close(self) -> list[str]:
        """Let the trackers finish, while they live and get on; return what they have to say."""
        self._events.put(None)
        lines: list[str] = []
        trouble = ""
        with suppress(KeyboardInterrupt):
            trouble = "are behind"
            trouble = self._drain(lines)
        if trouble:
            lines.append(
                f"the trackers {trouble}, and are not waited for; bench sync {self.study.name} "
                "sends them all of it"
            )
            self._process.kill()
        self._events.cancel_join_thread()
        self._process.join(timeout=5)
        return lines

    def _drain(self, lines: list[str]) -> str:
        """Take what the trackers say until they have finished; else what is wrong with them."""
        last = stopped = time.monotonic()
        while True:
            alive = self._process.is_alive()
            try:
                line = self._lines.get(timeout=_LOOK_S)
            except queue.Empty:
                line = ""
            now = time.monotonic()
            if line is None:
                return ""
            if line:
                lines.append(line)
                last = now
            elif not alive:
                return f"have ended: their process {how_it_ended(self._process.exitcode or 0)}"
            if not is_stopped(self._process.pid):
                stopped = now
            if now - stopped > _STOPPED_S:
                return "are stopped by a signal"
            if now - last > self.patience_s:
                return "are behind"


def feed(
    events: "Queue[Event | None]",
    lines: "Queue[str | None]",
    names: list[str],
    store: Path,
    study: str,
    scale: str,
) -> None:
    """The process: give each event to each tracker; one that fails is left out from then on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trackers: dict[str, Tracker] = {}

    @contextmanager
    def guarded(name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, training must not feel it
            trackers.pop(name, None)
            with (store / LOG).open("a", encoding="utf-8") as stream:
                traceback.print_exc(file=stream)
            reason = " ".join(str(error).split())[:120]
            lines.put(
                f"{name} failed ({type(error).__name__}: {reason}), see {store / LOG}; "
                f"bench sync {study} sends all of it again"
            )

    for name in names:
        with guarded(name):
            trackers[name] = make(name, store, study, scale)
    while (event := _next(events)) is not None:
        for name in list(trackers):
            with guarded(name):
                trackers[name].take(event)
    for name in list(trackers):
        with guarded(name):
            lines.put(trackers[name].close())
    lines.put(None)


def _next(events: "Queue[Event | None]") -> Event | None:
    """The next event, or None at the end or when the parent is gone."""
    parent = parent_process()
    while True:
        try:
            return events.get(timeout=1.0)
        except queue.Empty:
            if parent is not None and not parent.is_alive():
                return None
