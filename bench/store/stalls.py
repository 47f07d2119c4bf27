"""Stalls: runs that show no sign of life any more, and which of their ranks the others wait for."""

import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from lightning_bench.bench.store.attempt_files import heartbeat_name, log_name
from lightning_bench.bench.store.record import Failure, FailureClass
from lightning_bench.common import heartbeat
from lightning_bench.common.heartbeat import Pulse

#: The watchdog of the process itself comes first, since it leaves the stacks of its threads.
_GRACE_S = 5.0


def pulses(folder: Path) -> list[tuple[Pulse, int]]:
    """The heartbeats of an attempt's ranks, each with its file's time."""
    found = (heartbeat.read(folder / heartbeat_name(rank)) for rank in count())
    return [each for each in iter(lambda: next(found), None) if each is not None]


def failure(folder: Path, store: Path) -> Failure:
    """The failure of an attempt that stands still; with several ranks, it may be the network's."""
    ranks = [pulse for pulse, _ in pulses(folder)]
    culprits = heartbeat.stalled_ranks(ranks)
    first = culprits[0] if culprits else 0
    limit_s = ranks[first].limit_s if ranks else heartbeat.STALL_S
    words = f"no step for {_minutes(limit_s)}"
    if len(ranks) > 1:
        several = len(culprits) > 1
        words += f" in rank{'s' * several} {', '.join(map(str, culprits))}"
    if ranks:
        words += f" (after {ranks[first].what}"
        words += ", stopped by a signal)" if ranks[first].suspended else ")"
    log = folder / log_name(first)
    if heartbeat.bitten(log):
        words += "; the stacks of its threads are in its log"
    kind: FailureClass = "infrastructure" if len(ranks) > 1 else "stalled"
    return Failure(kind=kind, message=words, log=str(log.relative_to(store)))


def watchdog_failure(folder: Path, store: Path) -> Failure | None:
    """The failure of an attempt that a rank's watchdog has ended; None where none has."""
    ranks = range(max(1, len(pulses(folder))))
    if any(heartbeat.bitten(folder / log_name(rank)) for rank in ranks):
        return failure(folder, store)
    return None


@dataclass
class StallWatch:
    """Watches the heartbeats of an attempt from outside, by this process's own clock."""

    _seen: dict[int, tuple[int, float]] = field(default_factory=dict)

    def stalled(self, folder: Path) -> bool:
        """Whether a rank has shown no sign of life for too long."""
        now = time.monotonic()
        for rank, (pulse, changed_ns) in enumerate(pulses(folder)):
            last = self._seen.get(rank)
            if last is None or last[0] != changed_ns:
                self._seen[rank] = (changed_ns, now)
            elif now - last[1] > pulse.limit_s + _GRACE_S:
                return True
        return False


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.3g} min" if seconds >= 60 else f"{seconds:.3g} s"
