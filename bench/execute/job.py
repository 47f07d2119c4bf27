"""Order: what the parent asks of a worker. Importable without torch, since the parent makes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from lightning_bench.bench.spec import Recipe, RunSpec

Device = Literal["auto", "cpu", "cuda"]
Strategy = Literal["ddp", "fsdp"]

#: Exit code of a worker that found its attempt taken by somebody else (BSD's EX_TEMPFAIL).
TAKEN = 75
#: Exit code of a worker that was asked to stop: it left a checkpoint, where it had begun to train,
#: and no record.
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
    keep_weights: bool = False  # others start from them
    start: Path | None = None  # the attempt whose weights to start from; by default the newest


_ADAPTER = TypeAdapter(Order)


def write(order: Order, path: Path) -> None:
    """Leave an order in a file, for a process that is no child."""
    path.write_bytes(_ADAPTER.dump_json(order))


def read(path: Path) -> Order:
    """The order of a file."""
    return _ADAPTER.validate_json(path.read_bytes())


def carry_out(order: Order, nudge: Callable[[], None] = lambda: None) -> None:
    """What a fork of the server, which has imported the worker already, is started with.

    `nudge` is called whenever the run has left something to read.
    """
    from lightning_bench.bench.run import worker

    worker.main(order, nudge=nudge)


def unfit(recipe: Recipe, *, device: str, devices: int, strategy: Strategy) -> str | None:
    """Why a recipe can't be trained so, in one line; None where it can."""
    parts = devices * recipe.accumulate
    if recipe.batch_size < parts:
        shared = f"{devices} devices" if devices > 1 else "one device"
        return (
            f"a batch of {recipe.batch_size} is too small for {shared} in "
            f"{recipe.accumulate} part{'s' if recipe.accumulate > 1 else ''} each: "
            f"batch_size must be {parts} at least"
        )
    if device == "cpu" and recipe.precision == "fp16":
        return "precision fp16 needs a GPU; a CPU trains in fp32 or bf16"
    if strategy == "fsdp" and recipe.precision == "fp16":
        return "strategy fsdp is for fp32 and bf16, not fp16"
    return None
