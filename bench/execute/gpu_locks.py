"""Locks of GPUs: each is used by one `bench` of a host at a time, whoever started it."""

import fcntl
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.execute.devices import Card, find


@dataclass
class GpuClaim:
    """GPUs that no other bench of this host uses until it is released; a context manager."""

    cards: list[Card] = field(default_factory=list)
    shared: list[Card] = field(default_factory=list)  # of them, those that others' programs use
    _locks: list[int] = field(default_factory=list)

    @property
    def ids(self) -> list[str]:
        """Their names, as CUDA_VISIBLE_DEVICES takes them."""
        return [card.id for card in self.cards]

    @property
    def warning(self) -> str:
        """A line about those that other programs use as well; empty where there are none."""
        if not self.shared:
            return ""
        names = ", ".join(card.id for card in self.shared)
        return f"other programs use GPU {names}, too: memory may not suffice, times will be theirs"

    def release(self) -> None:
        """Let others have them."""
        while self._locks:
            os.close(self._locks.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def claim(most: int, least: int) -> GpuClaim:
    """Claim so many GPUs, those first that nothing runs on; UserError where too few are free."""
    cards = find(insist=True).cards
    users = _users(cards)
    claimed = GpuClaim()
    try:
        for card in sorted(cards, key=lambda card: users.get(card.uuid, 0) > 0):
            if len(claimed.cards) < most and (lock := _lock(card)) is not None:
                claimed.cards.append(card)
                claimed._locks.append(lock)
        if len(claimed.cards) < least:
            taken = len(cards) - len(claimed.cards)
            raise UserError(
                f"{least} GPU{'s are' if least > 1 else ' is'} wanted, and other benches on this "
                f"host use {taken} of {len(cards)}: wait for them, or take --device cpu"
            )
    except BaseException:
        claimed.release()
        raise
    claimed.cards.sort(key=cards.index)
    claimed.shared = [card for card in claimed.cards if users.get(card.uuid)]
    return claimed


def _lock(card: Card) -> int | None:
    """Lock a GPU until the descriptor is closed; None where another process has it."""
    path = Path(tempfile.gettempdir()) / f"bench-gpu-{card.uuid.replace('/', '-')}.lock"
    try:
        lock = os.open(path, os.O_RDONLY)  # another user's can be locked, but not written
    except FileNotFoundError:
        lock = os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _users(cards: Sequence[Card]) -> dict[str, int]:
    """How many processes compute on each, as far as NVML tells."""
    import pynvml as nvml

    users = {}
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return {}
    for card in cards:
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(card.uuid)
            users[card.uuid] = len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        except nvml.NVMLError:
            continue
    nvml.nvmlShutdown()
    return users
