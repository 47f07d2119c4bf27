"""The pretended host: its cards, which of them a process sees, and the ledger of their memory."""

import fcntl
import json
import os
import sys
import traceback
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OPTIONS = json.loads(os.environ.get("PRETENDED_CUDA", '{"devices": 0}'))
COUNT: int = OPTIONS["devices"]
#: Each test's cards are its own.
_HOST = zlib.crc32(str(OPTIONS.get("ledger")).encode())


def bind_task() -> None:
    """Show a task of a SLURM step one card alone, where that is asked for."""
    if OPTIONS["per_task"] and "SLURM_LOCALID" in os.environ and "SLURM_STEP_ID" in os.environ:
        os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["SLURM_LOCALID"]


def uuid(card: int) -> str:
    """A card's UUID, as CUDA_VISIBLE_DEVICES takes it."""
    return f"GPU-{_HOST:08x}-{card:04x}-0000-0000-000000000000"


def instance(card: int, number: int) -> str:
    """The name of an instance of a card that is cut up by MIG."""
    return f"MIG-{_HOST:08x}-{card:04x}-{number + 1:04x}-0000-000000000000"


def name(card: int) -> str:
    """The kind of a card."""
    names = OPTIONS["names"]
    return str(names[card % len(names)])


def visible() -> list[int]:
    """The cards that CUDA shows to this process, in its order."""
    named = os.environ.get("HIP_VISIBLE_DEVICES") if OPTIONS["hip"] else None
    named = os.environ.get("CUDA_VISIBLE_DEVICES") if named is None else named
    if named is None:
        # Of a host's MIG instances CUDA enumerates one.
        return list(range(1 if OPTIONS["mig"] and COUNT else COUNT))
    cards: list[int] = []
    for word in (word.strip() for word in named.split(",")):
        card = _card(word)
        if card is None:
            break
        if card in cards:
            return []
        cards.append(card)
        if word.startswith("MIG-"):
            break
    return cards


def _card(word: str) -> int | None:
    """The card that a word of CUDA_VISIBLE_DEVICES names, if there is one."""
    if word.isdigit():
        return int(word) if int(word) < COUNT else None
    for card in range(COUNT):
        if word.startswith("GPU-") and uuid(card).startswith(word):
            return card
        if word in (instance(card, 0), instance(card, 1)):
            return card
    return None


def note_touch() -> None:
    """Leave word that this process has initialised CUDA, and where."""
    stack = "".join(traceback.format_stack()[-8:-1])
    names = ("CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES")
    settings = "".join(f"{name}={os.environ.get(name)}\n" for name in names)
    words = f"{' '.join(sys.orig_argv)[:200]}\n{settings}{stack}"
    (Path(OPTIONS["ledger"]) / f"touched-{os.getpid()}").write_text(words, encoding="utf-8")


class OutOfCards(Exception):
    """A card has not so many bytes."""


@contextmanager
def _locked() -> Iterator[Path]:
    folder = Path(OPTIONS["ledger"])
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def holders(card: int) -> dict[int, int]:
    """The bytes that each process holds of a card; one that has ended holds none."""
    held = {}
    for path in Path(OPTIONS["ledger"]).glob(f"card-{card}-*"):
        pid = int(path.name.rpartition("-")[2])
        if _lives(pid):
            held[pid] = int(path.read_text(encoding="ascii") or 0)
        else:
            path.unlink(missing_ok=True)
    return held


def hold(card: int, size: int) -> None:
    """Say how much this process holds of a card from now on; OutOfCards where it can't."""
    with _locked() as folder:
        others = sum(held for pid, held in holders(card).items() if pid != os.getpid())
        capacity = OPTIONS["capacity"]
        if capacity is not None and others + size > capacity:
            raise OutOfCards(f"{size} of {capacity} bytes wanted, others hold {others}")
        (folder / f"card-{card}-{os.getpid()}").write_text(str(size), encoding="ascii")


def _lives(pid: int) -> bool:
    """Whether a process has not ended; one that only waits to be reaped has."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    return False
