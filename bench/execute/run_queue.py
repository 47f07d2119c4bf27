"""Run queue: a run waits in it for the one whose weights it starts from."""

from collections.abc import Iterable

from lightning_bench.bench.execute.executor import Listener
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.store.record import Record


class RunQueue(Listener):
    """Hands out runs in their order, but none before its start has left its weights.

    What starts from a run that failed is not run: the plan tells why. To be told of ends, it is to
    be among the executor's listeners; `running` are runs of other processes that may be waited for.
    """

    def __init__(self, planned: Iterable[PlannedRun], running: Iterable[PlannedRun] = ()) -> None:
        self._left = list(planned)
        self._awaited = {run.key for run in (*self._left, *running)}
        self._failed: set[str] = set()

    @property
    def open(self) -> bool:
        """Whether runs are left that may yet be handed out."""
        return bool(self._left)

    def take(self) -> PlannedRun | None:
        """The first that waits for nothing."""
        for planned in list(self._left):
            start = planned.run.spec.start
            if start is not None and start.key in self._failed:
                self._left.remove(planned)
                self._awaited.discard(planned.key)
                self._failed.add(planned.key)
            elif start is None or start.key not in self._awaited:
                self._left.remove(planned)
                return planned
        return None

    def finished(self, planned: PlannedRun, record: Record) -> None:
        """A run has ended: what waited for it may start, or never will."""
        self._awaited.discard(planned.key)
        if record.status != "done":
            self._failed.add(planned.key)

    def stopped(self, planned: PlannedRun) -> None:
        """It ended without a record: what waited for it has to wait for another time."""
        self._awaited.discard(planned.key)
        self._failed.add(planned.key)
