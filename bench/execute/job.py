"""The job spec that a parent sends to a worker, and the verdict that comes back; without torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.record import Gpu, Provenance

#: The module that carries out a job, by name alone: importing it imports torch.
WORKER = "lightning_bench.bench.run.worker"

#: Where a run is carried out.
DeviceType = Literal["cpu", "cuda"]
#: What one can ask for: `auto` is a GPU where there is one.
Device = Literal["auto", "cpu", "cuda"]
Strategy = Literal["ddp", "fsdp"]

#: How a run has ended: with a record; its attempt taken by somebody else; as it was asked to, with
#: a checkpoint where it had begun to train, and no record; unable to write to the store. A message
#: of the worker's, never an exit code, which a model can choose, too.
Verdict = Literal["recorded", "taken", "stopped", "unwritable"]
#: The exit codes of a process that has given its verdict (BSD's EX_TEMPFAIL and EX_IOERR).
EXIT_CODES: dict[Verdict, int] = {"recorded": 0, "taken": 75, "stopped": 76, "unwritable": 74}


@dataclass(frozen=True)
class Execution:
    """How runs are carried out; nothing of it is in a key."""

    device: DeviceType = "cpu"
    devices: int = 1  # ranks, which share the global batch
    threads: int = 1  # of each rank
    strategy: Strategy = "ddp"
    compile: bool = False
    checkpoint_s: float = 600.0  # the longest time between two checkpoints
    keep_probabilities: bool = True  # of classes, with the predictions
    stall_s: float | None = None  # without a sign of life; None: as the run's own pace has it
    time_limit_s: float | None = None  # of an attempt


@dataclass(frozen=True)
class JobSpec:
    """What a worker is to do: one attempt at one run. Plain data, since it crosses processes."""

    store: Path
    spec: RunSpec
    attempt: int
    device: DeviceType
    gpus: tuple[str, ...]  # of this host, one a rank; empty on CPU
    threads: int  # of each rank
    sources: Mapping[str, str]
    command: list[str]
    devices: int = 1  # ranks, which share the global batch
    strategy: Strategy = "ddp"
    compile: bool = False
    checkpoint_s: float = 600.0  # the longest time between two checkpoints
    keep_probabilities: bool = True  # of classes, with the predictions
    stall_s: float | None = None  # without a sign of life; None: as the run's own pace has it
    time_limit_s: float | None = None  # of an attempt
    keep_weights: bool = False  # others start from them
    start: Path | None = None  # the attempt whose weights to start from; by default the newest
    sharing: int = 1  # runs at a time on each of its GPUs

    def provenance(
        self,
        *,
        device: str,
        environment: str | None,
        gpus: Sequence[Gpu] = (),
        hosts: Sequence[str] = (),
    ) -> Provenance:
        """The provenance of a record that this job leaves on this host."""
        return provenance.collect(
            sources=self.sources,
            command=self.command,
            environment=environment,
            device=device,
            devices=self.devices,
            threads=self.threads,
            strategy=self.strategy if self.devices > 1 else None,
            compiled=self.compile,
            gpus=gpus,
            hosts=hosts,
            sharing=self.sharing,
        )


_ADAPTER = TypeAdapter(JobSpec)


def write_job_spec(job_spec: JobSpec, path: Path) -> None:
    """Write a job spec to a file, for a process that is no child."""
    path.write_bytes(_ADAPTER.dump_json(job_spec))


def read_job_spec(path: Path) -> JobSpec:
    """The job spec in a file."""
    return _ADAPTER.validate_json(path.read_bytes())


def run_worker(job_spec: JobSpec, on_epoch: Callable[[], None] = lambda: None) -> Verdict:
    """Target of a worker process, which the fork server starts with WORKER already imported.

    `on_epoch` is called whenever the run has written an epoch to its learning curve.
    """
    verdict: Verdict = import_module(WORKER).main(job_spec, on_epoch=on_epoch)
    return verdict
