"""The worker process of a run: claims an attempt, trains, leaves a record whatever happens.

The fork server imports this module once, and with it torch and Lightning; each run is then a fork
of it that starts in milliseconds and shares nothing with the next one but clean imports.
"""

import faulthandler
import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import torch

from lightning_bench.bench.execute import devices
from lightning_bench.bench.execute.job import JobSpec, Verdict
from lightning_bench.bench.run import compat, cuda_device, initial_weights
from lightning_bench.bench.run.checkpoint import Checkpoints
from lightning_bench.bench.run.control import Control, Interrupt, Stopped
from lightning_bench.bench.run.distributed import Rank, RankProcesses, Terminated, gather
from lightning_bench.bench.run.failure_report import FailureMessage, FailureRecord
from lightning_bench.bench.run.lifelines import Lifelines
from lightning_bench.bench.run.result import ResultWriter
from lightning_bench.bench.run.training import Outcome, train
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.access import store_access
from lightning_bench.bench.store.attempt_files import heartbeat_name, log_name
from lightning_bench.bench.store.provenance import now
from lightning_bench.bench.store.record import Epoch, Example, Examples, Gpu
from lightning_bench.bench.store.store import AttemptTaken, Request, Store
from lightning_bench.common import bounded_log, heartbeat, memory
from lightning_bench.common.processes import die_with_parent, send_output
from lightning_bench.data.errors import DataError
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.models.registry import registry


def main(
    job: JobSpec, rank: Rank | None = None, on_epoch: Callable[[], None] = lambda: None
) -> Verdict:
    """Carry out a job from claim to record; never raises for what goes wrong inside the run.

    Without a `rank` this process is the whole run, on this host, and starts the other ranks of a
    job for several devices itself. A launcher that starts all of them calls this in each, with
    `Rank.of_slurm()` for one, and sees to it that they end when one of them ends badly.

    The verdict is `recorded` where there is a record, whatever that says. A rank other than the
    first that fails ends its process.
    """
    started = time.perf_counter(), now()
    # The parent alone answers Ctrl-C, and tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with ExitStack() as stack:
        others = None
        if rank is None and job.devices > 1:
            others = stack.enter_context(RankProcesses(job.devices, partial(main, job)))
        interrupt = Interrupt()
        interrupt.install()
        die_with_parent()
        _pin_threads(job.threads, compiles=job.compile)
        if job.gpus or job.device == "cpu":
            # On the CPU none, or Lightning would ask them all for the state of their generators.
            devices.show(job.gpus)
        try:
            if rank is None or rank.first:
                first = rank or Rank(world=job.devices)
                _lead(job, first, interrupt, others, on_epoch, *started)
            else:
                _follow(job, rank, interrupt)
        except (Stopped, Terminated):
            return "stopped"
        except AttemptTaken:
            return "taken"
        except OSError as error:
            # The store itself. A parent on this host, which can't write either, says so by itself.
            if rank is not None:
                sys.stderr.write(f"{type(error).__name__}: {error}\n")
            return "unwritable"
        finally:
            heartbeat.stop()
    return "recorded"


def _lead(
    job: JobSpec,
    rank: Rank,
    interrupt: Interrupt,
    others: RankProcesses | None,
    on_epoch: Callable[[], None],
    clock: float,
    started: str,
) -> None:
    """Be the first rank, or the only one: claim the attempt, train, write the record."""
    store = Store(job.store)
    with store.claim(job.spec, job.attempt) as folder:
        _open_log(job, folder, 0)
        checkpoints = Checkpoints(folder / "checkpoints", made_with(job), _earlier(store, job))
        result = ResultWriter(job, store, folder, clock, started, checkpoints)
        control = Control(
            interrupt=interrupt,
            request=partial(_requested, store, folder),
            checkpoints=checkpoints,
            checkpoint_s=job.checkpoint_s,
            started=clock,
        )
        lifelines = Lifelines(rank.address) if rank.world > 1 else None
        failures = FailureRecord(result, others, lifelines)
        if rank.world > 1:
            control.on_failure = failures.write_and_leave
        try:
            with (
                rank.process_group(job.device, failures.start_others, lifelines),
                _curve_writer(folder, on_epoch) as write_epoch,
            ):
                result.hosts, result.gpus = _hosts_and_gpus(job, rank)
                outcome, peak_bytes = _train(
                    job, rank, control, write_epoch, partial(_write_examples, store)
                )
        except (Stopped, Terminated):
            raise
        except BaseException as error:  # noqa: BLE001 - whatever it is becomes the record's failure
            failures.write(error)
        else:
            result.write(outcome, None, peak_bytes)


def _follow(job: JobSpec, rank: Rank, interrupt: Interrupt) -> None:
    """Be another rank: train along, and report a failure for the first one to record."""
    store = Store(job.store)
    folder = store.folder(job.spec.key, job.attempt)
    failures = FailureMessage(rank, store.root, folder)
    control = Control(
        interrupt=interrupt,
        checkpoints=Checkpoints(folder / "checkpoints", {}),
        checkpoint_s=job.checkpoint_s,
        on_failure=failures.write_and_leave,
    )
    try:
        with rank.process_group(job.device) as failures.lifeline:
            _open_log(job, folder, rank.index)
            _hosts_and_gpus(job, rank)
            _train(job, rank, control)
    except (Stopped, Terminated):
        raise
    except BaseException as error:  # noqa: BLE001 - rank 0 puts it into the record
        failures.write_and_leave(error)


def _train(
    job: JobSpec,
    rank: Rank,
    control: Control,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    on_data: Callable[[DataModule], None] = lambda data: None,
) -> tuple[Outcome, int]:
    """Train as one rank of the group; the outcome, and the most memory that a rank took."""
    if not memory.reset_peak([os.getpid()]):
        sys.stderr.write("peak memory can't be reset here: it includes that of the imports\n")
    outcome = train(
        job.spec,
        device=job.device,
        on_epoch=on_epoch,
        on_data=on_data,
        rank=rank,
        strategy=job.strategy,
        compiled=job.compile,
        control=control,
        find_weights=partial(initial_weights.find, store=Store(job.store), attempt=job.start),
        keep_weights=job.keep_weights,
        keep_probabilities=job.keep_probabilities,
    )
    if job.device == "cuda":
        peak_bytes = int(torch.cuda.max_memory_allocated())
    else:
        peak_bytes = memory.peak_bytes([os.getpid()])
    return outcome, max(gather(peak_bytes, rank))


def _open_log(job: JobSpec, folder: Path, rank: int) -> None:
    """Send this rank's output to its log, and watch from here on that it gets on."""
    log = folder / log_name(rank)
    send_output(log)
    bounded_log.bound(log)
    faulthandler.enable()
    heartbeat.start(folder / heartbeat_name(rank), log, job.stall_s)


def _requested(store: Store, folder: Path) -> Request | None:
    with store_access():
        return store.requested(folder)


def _hosts_and_gpus(job: JobSpec, rank: Rank) -> tuple[list[str], list[Gpu]]:
    """Where all ranks are, in their order, and the GPU of each."""
    own = cuda_device.of_this_rank() if job.device == "cuda" else None
    ranks = gather((provenance.host(), own), rank)
    return [host for host, _ in ranks], [gpu for _, gpu in ranks if gpu is not None]


def _write_examples(store: Store, data: DataModule) -> None:
    """Keep a few examples of the data for reports."""
    if "train" not in data.sizes:  # nothing is trained, and the examples are of training
        return
    store.write_examples(
        data.fingerprint,
        lambda: Examples(
            classes=data.entry.classes,
            shown=[Example.model_validate(example._asdict()) for example in data.examples()],
        ),
    )


@contextmanager
def _curve_writer(folder: Path, on_epoch: Callable[[], None]) -> Iterator[Callable[[Epoch], None]]:
    """A function that appends an epoch to the learning curve's file."""
    with (folder / "curve.jsonl").open("a", encoding="utf-8") as stream:

        def write(epoch: Epoch) -> None:
            with store_access():
                stream.write(epoch.model_dump_json() + "\n")
                stream.flush()
            on_epoch()

        yield write


def made_with(job: JobSpec) -> dict[str, str]:
    """Digests that must be equal for an attempt to resume from another one's checkpoint."""
    packages = "\n".join(f"{name} {version}" for name, version in provenance.packages().items())
    return {
        **job.sources,
        "packages": hashlib.sha256(packages.encode()).hexdigest()[:16],
        "device": job.device,
        "devices": str(job.devices),
        "strategy": job.strategy,
        "compile": str(job.compile),
        "start": _start_digest(job),
    }


def _start_digest(job: JobSpec) -> str:
    """The digest of the weights of another run that this one starts from."""
    if job.spec.start is None:
        return ""
    try:
        origin = initial_weights.find(job.spec, Store(job.store), job.start)
    except DataError:  # told when they are to be loaded
        return ""
    return origin.expected if origin else ""


def _earlier(store: Store, job: JobSpec) -> list[tuple[int, Path]]:
    """The checkpoint folders of earlier attempts at the same run, the newest first."""
    numbers = range(job.attempt - 1, 0, -1)
    key = job.spec.key
    return [(number, store.folder(key, number) / "checkpoints") for number in numbers]


def _pin_threads(threads: int, *, compiles: bool) -> None:
    """Give the run its own number of threads, so that runs side by side don't fight for cores."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)
    if compiles:
        compat.set_compile_threads(threads)


# Read once in the fork server, shared by every run: our own modules, and nobody else's.
registry.variants()
provenance.packages()
provenance.revision()
