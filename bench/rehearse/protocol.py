"""Messages between a rehearsal and its workers; without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal

from lightning_bench.bench.spec import RunSpec

#: The module that rehearses a case, by name alone: importing it imports torch.
WORKER = "lightning_bench.bench.rehearse.worker"

#: Examples of a batch: enough for batch norm, in each of its parts; and where a training diverges
#: on so few. (The gradient of a deep network with batch norm grows with its depth, on two examples
#: beyond all numbers.)
FEW, MORE = 2, 16

#: Where a case is rehearsed: on the CPU, without memory on the meta device, or as it is sensible.
Where = Literal["auto", "cpu", "meta"]


@dataclass(frozen=True)
class RehearsalJob:
    """One case; all that it writes goes into the session's folder."""

    key: str
    spec: RunSpec
    folder: Path  # of the session
    number: int
    on: Where
    shows_training: bool
    keep_weights: bool
    environment: Mapping[str, str]
    start_weights: Path | None = None  # those of the case that this one starts from
    memory_share: float = 0.9
    examples: int = FEW  # of a batch

    @property
    def own_folder(self) -> Path:
        """What this case alone writes."""
        return self.folder / f"case-{self.number}"

    @property
    def weights_folder(self) -> Path:
        """Random weights in the place of published ones, for all cases."""
        return self.folder / "weights"

    @property
    def kept_weights(self) -> Path | None:
        """Where the final weights go, if others start from them."""
        return self.folder / f"final-{self.number}.safetensors" if self.keep_weights else None


@dataclass(frozen=True)
class Rehearsed:
    """What came out of a case."""

    status: Literal["ok", "fails", "not rehearsed"]
    on: Literal["cpu", "meta", ""] = ""
    real: str = ""  # which data and weights were
    notes: str = ""  # what else was not as in the run
    cause: str = ""
    seconds: float = 0.0
    cpu_s: float = 0.0  # of its process, whoever else is on the machine
    peak_bytes: int = 0
    measured: bool = False  # the peak; else it is computed

    @property
    def lacked_memory(self) -> bool:
        """Whether it failed for want of memory."""
        return self.status == "fails" and self.cause.startswith("memory:")

    @property
    def diverged(self) -> bool:
        """Whether it failed since its loss is no number."""
        return self.status == "fails" and ": Diverged: " in self.cause


def run_worker(pipe: Connection, job: RehearsalJob) -> None:
    """Target of a worker, which the fork server starts with WORKER already imported."""
    import_module(WORKER).main(pipe, job)
