"""Step 8: one rank raises, is killed, or is out of memory: what is told, and what is left."""

import re
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from lightning_bench.bench.device_check.context import CheckContext
from lightning_bench.bench.device_check.device_report import UNTIL_RECORD, Findings
from lightning_bench.bench.device_check.machine_facts import card_states
from lightning_bench.bench.device_check.networks import FAILS_AT
from lightning_bench.bench.store.record import Record

#: A record is to be there so long after the failure.
RECORD_S = 30.0
#: Processes have so long to end, and a card to give back their memory.
_PARTING_S = 10.0
#: What a card may hold more than before: its driver keeps some.
_MEMORY_BYTES = 64e6

T = TypeVar("T")


def failing_ranks(check: CheckContext, found: Findings) -> str:
    """Have the last of all ranks fail in each way."""
    before = _used_bytes()
    for how, (spec, kind) in check.failing.items():
        place = "fails-" + how.replace(" ", "-")
        record = check.train(place, {how: spec}, devices=check.devices)[how]
        _expect_failure(check, found, how, kind, record, place)
        if Path("/proc").is_dir():
            left = _wait(partial(holders, check.folder / place), lambda pids: not pids)
            found.equal(f"a rank {how}, processes left", left, [])
    if before is not None:
        after = _wait(lambda: _used_bytes() or 0.0, lambda used: used - before < _MEMORY_BYTES)
        found.at_most("memory of the cards beyond that before", (after - before) / 1e6, 64, "MB")
    return (
        f"a rank {', '.join(check.failing)}: told as such within "
        f"{found.largest(UNTIL_RECORD):.1f} s (≤ {RECORD_S:.0f}), no process left"
    )


def holders(folder: Path) -> list[int]:
    """The processes that have a file below a folder open, as each rank has its log."""
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [str(link.readlink()) for link in (process / "fd").iterdir()]
        except OSError:  # it has just ended, or is somebody else's
            continue
        if any(link.startswith(f"{folder.resolve()}/") for link in links):
            pids.append(int(process.name))
    return pids


def _expect_failure(
    check: CheckContext, found: Findings, how: str, kind: str, record: Record, place: str
) -> None:
    """The record's failure class, and how long after the failure the record was written."""
    told = record.failure.kind if record.failure else record.status
    found.equal(f"a rank {how}, told as", told, kind)
    if record.failure and told != kind:
        found.notes.append(f"a rank {how}: {record.failure.message}")
    moment = _failed_at(check.store(place).folder(record.key, record.attempt))
    if moment is None:
        found.expect(f"a rank {how}, moment of the failure", None, "in its log", met=False)
        return
    ended = datetime.fromisoformat(record.ended).timestamp()
    found.at_most(f"a rank {how}, {UNTIL_RECORD}", ended - moment, RECORD_S, "s")


def _failed_at(folder: Path) -> float | None:
    """When the rank failed, from its own log."""
    for log in sorted(folder.glob("log*.txt")):
        text = log.read_text(encoding="utf-8", errors="replace")
        if found := re.search(rf"{FAILS_AT}([\d.]+)", text):
            return float(found[1])
    return None


def _used_bytes() -> float | None:
    """The memory in use on all cards."""
    cards = card_states()
    if not cards or any(card.total_bytes is None for card in cards):
        return None
    return float(sum((card.total_bytes or 0) - (card.free_bytes or 0) for card in cards))


def _wait(ask: Callable[[], T], is_enough: Callable[[T], bool]) -> T:
    """The answer as soon as it is enough, or the last one after a while."""
    deadline = time.monotonic() + _PARTING_S
    while not is_enough(answer := ask()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer
