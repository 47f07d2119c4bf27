"""Messages between a session and its measuring workers; without torch."""

from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Literal

from lightning_bench.bench.measure.warm_up import Pace
from lightning_bench.bench.store.measurements import (
    Block,
    Contender,
    Counts,
    FailureKind,
    Kernels,
    Memory,
    Setting,
    WarmUp,
)
from lightning_bench.bench.store.record import Environment, Gpu

#: The module that measures a contender, by name alone: importing it imports torch.
WORKER = "lightning_bench.bench.measure.measuring_worker"


@dataclass(frozen=True)
class MeasureJob:
    """One contender in one setting, and how carefully it is to be sampled."""

    contender: Contender
    setting: Setting
    pace: Pace
    counted: bool = True
    latency: bool = True
    rank: int = 0
    gpus: tuple[str, ...] = ()  # of this host, one a rank; empty on CPU
    meeting: str = ""  # a file through which several devices' processes find each other
    shared: bool = False  # whether others wait on the same GPU, for whom its memory is freed


@dataclass(frozen=True)
class Ready:
    """The model is made, measured where one measurement is enough, and at its pace."""

    counts: Counts | None
    unit: Literal["images", "tokens"]
    per_example: int
    shape: str
    first_batch_s: float | None
    compile_s: float | None
    warm_up: WarmUp
    kernels: Kernels
    memory: Memory
    energy_source: str | None
    round_s: float  # what a round of it will take, about
    gpus: list[Gpu]
    environment: Environment | None  # where it took a GPU to know it


@dataclass(frozen=True)
class Taken:
    """A round's samples."""

    block: Block
    latency_s: list[float]
    own_cores: float = 0.0  # what its process used meanwhile
    processes: frozenset[int] | None = None  # on the GPU, ours too


@dataclass(frozen=True)
class Failed:
    """Why there is nothing more to come."""

    kind: FailureKind
    message: str


def run_worker(pipe: Connection, job: MeasureJob) -> None:
    """Target of a measuring process, which the fork server starts with WORKER already imported."""
    import_module(WORKER).main(pipe, job)
