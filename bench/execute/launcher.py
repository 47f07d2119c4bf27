"""The interface of launchers: engines that carry out runs, on this host or on a cluster."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from lightning_bench.bench.execute.job import JobSpec


@dataclass(frozen=True)
class Ending:
    """How an attempt's processes ended, as far as the engine can tell.

    The executor judges by the record; this explains why there is none. `taken`: somebody else had
    the attempt. `stopped`: as it was asked to, with a checkpoint. `code`: its process ended without
    a word, by an exit or a crash of the run's own. Without a record, a run that just `ended` was
    lost for no reason of its own.
    """

    kind: Literal["ended", "taken", "stopped", "out-of-memory", "code"]
    how: str = ""


class Job(Protocol):
    """One attempt, under way or waiting for its turn."""

    @property
    def state(self) -> str:
        """Why it does not run yet; empty once it does."""

    def ended(self) -> Ending | None:
        """How it ended, or None while it is under way."""

    def stop(self) -> None:
        """Ask it to leave a checkpoint and end."""

    def kill(self) -> None:
        """End it now."""


class Launcher(Protocol):
    """An engine: this host, a cluster."""

    slots: int  # runs at a time
    outlives: bool  # jobs go on when the parent leaves

    def start(self, job_spec: JobSpec, slot: int) -> Job:
        """Start an attempt, or find the job that another parent started for this run."""

    def wait(self, jobs: Iterable[Job]) -> None:
        """Return when one of the jobs may have ended, or after a moment."""

    def close(self) -> None:
        """No more runs will come."""
