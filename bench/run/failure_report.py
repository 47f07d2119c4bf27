"""Failures of a run's ranks, reported before anything else: leaving the process group may hang."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path

from lightning_bench.bench.execute.job import EXIT_CODES
from lightning_bench.bench.run.distributed import Rank, RankProcesses
from lightning_bench.bench.run.failure_class import (
    classify_failure,
    is_lost_connection,
    print_bounded,
)
from lightning_bench.bench.run.lifelines import FAILURE_TIMEOUT_S, Lifeline, Lifelines
from lightning_bench.bench.run.result import ResultWriter
from lightning_bench.bench.store import stalls
from lightning_bench.bench.store.attempt_files import log_name
from lightning_bench.bench.store.rank_failures import first_failure, write_failure
from lightning_bench.bench.store.record import Failure
from lightning_bench.common.processes import end_now


@dataclass
class FailureRecord:
    """The first rank's report: the record, with the failure of whichever rank failed first."""

    result: ResultWriter
    others: RankProcesses | None  # as far as they are this one's
    lifelines: Lifelines | None  # None where there are no others

    def start_others(self, first: Rank) -> None:
        """Start the other ranks, or expect them, and end the run where one is lost."""
        sentinels: list[int] = []
        if self.others is not None:
            self.others.start(first)
            sentinels = self.others.sentinels
        if self.lifelines is not None:
            self.lifelines.watch(self._give_up, sentinels)

    def write(self, error: BaseException) -> None:
        """Write the record of a run that this exception ends."""
        print_bounded(error)
        self.result.write(None, self._cause(error))

    def write_and_leave(self, error: BaseException) -> None:
        """The same, and end the process: what Lightning would tear down may wait for others."""
        try:
            self.write(error)
        except OSError as unwritable:
            sys.stderr.write(f"{type(unwritable).__name__}: {unwritable}\n")
            self._leave(EXIT_CODES["unwritable"])
        self._leave(0)

    def _cause(self, error: BaseException) -> Failure:
        """This rank's failure, unless its exception only says that another one is gone."""
        failure = classify_failure(error, self.result.log())
        if self.lifelines is None or not is_lost_connection(error):
            return failure
        deadline = time.monotonic() + FAILURE_TIMEOUT_S
        while time.monotonic() < deadline:
            if of_another := self._failure_of_others():
                return of_another
            time.sleep(0.05)
        return failure.model_copy(update={"kind": "infrastructure"})

    def _failure_of_others(self) -> Failure | None:
        """The failure of another rank: what it reported, or how its process ended."""
        died = self.others.died() if self.others is not None else None
        if failure := self._reported():
            return failure
        if failure := stalls.watchdog_failure(self.result.folder, self.result.store.root):
            return failure
        if died is not None:
            index, how = died
            log = str(self.result.log(index))
            return Failure(kind="infrastructure", message=f"rank {index} {how}", log=log)
        if self.others is None and self.lifelines is not None and self.lifelines.lost:
            message = f"{self.lifelines.lost} ended without a word"
            log = str(self.result.log())
            return Failure(kind="infrastructure", message=message, log=log)
        return None

    def _reported(self) -> Failure | None:
        told = self.lifelines.failure if self.lifelines is not None else None
        return first_failure(self.result.folder) or told

    def _give_up(self) -> None:
        """End a run one of whose ranks is lost while this one's main thread waits for it."""
        # A rank that was stopped left this one to write the checkpoint, however long that takes.
        if failure := self._failure_of_others():
            self.result.write(None, failure)
            self._leave(0)

    def _leave(self, code: int) -> None:
        if self.others is not None:
            self.others.end()
        end_now(code)


@dataclass
class FailureMessage:
    """The report of any other rank: a file, and a message to the first one."""

    rank: Rank
    store: Path
    folder: Path
    lifeline: Lifeline | None = None

    def write(self, error: BaseException) -> None:
        """Report the exception that ends this rank, unless it tells of another one's end."""
        if not is_lost_connection(error):
            log = (self.folder / log_name(self.rank.index)).relative_to(self.store)
            failure = classify_failure(error, log)
            message = f"rank {self.rank.index}: {failure.message}"
            failure = failure.model_copy(update={"message": message})
            if self.lifeline is not None:
                self.lifeline.report(failure)
            write_failure(self.folder, self.rank.index, failure)
        print_bounded(error)

    def write_and_leave(self, error: BaseException) -> None:
        """The same, and end the process, and with it what others may wait for."""
        self.write(error)
        end_now(1)
