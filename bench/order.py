"""Order: what the parent asks of a worker. Importable without torch, since the parent makes it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.spec import RunSpec

Device = Literal["auto", "cpu", "cuda"]
Strategy = Literal["ddp", "fsdp"]

#: Exit code of a worker that found its attempt taken by somebody else (BSD's EX_TEMPFAIL).
TAKEN = 75
#: Exit code of a worker that left a checkpoint and no record, as it was asked to.
STOPPED = 76
#: Exit code of a worker that could not write to the store (BSD's EX_IOERR).
UNWRITABLE = 74


@dataclass(frozen=True)
class Execution:
    """How runs are carried out; nothing of it is in a key."""

    device: Device = "auto"
    devices: int = 1  # ranks, which share the global batch
    threads: int = 1  # of each rank
    strategy: Strategy = "ddp"
    compile: bool = False
    checkpoint_s: float = 600.0  # the longest time between two checkpoints


@dataclass(frozen=True)
class Order:
    """One attempt at one run; plain data, since it crosses processes."""

    store: Path
    spec: RunSpec
    attempt: int
    device: Device
    gpus: tuple[str, ...]  # of this host, one a rank; empty on CPU
    threads: int  # of each rank
    sources: Mapping[str, str]
    command: list[str]
    devices: int = 1  # ranks, which share the global batch
    strategy: Strategy = "ddp"
    compile: bool = False
    checkpoint_s: float = 600.0  # the longest time between two checkpoints


def carry_out(order: Order) -> None:
    """What a fork of the server, which has imported the worker already, is started with."""
    from bench import worker

    worker.main(order)
