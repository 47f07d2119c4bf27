"""The process of one run: claims its attempt, trains, and leaves a record whatever happens.

The fork server imports this module once, and with it torch and Lightning; each run is then a fork
of it that starts in milliseconds and shares nothing with the next one but clean imports.
"""

import faulthandler
import hashlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch

from lightning_bench.bench.execute.job import STOPPED, TAKEN, UNWRITABLE, Device, JobSpec
from lightning_bench.bench.run import initial_weights as starts
from lightning_bench.bench.run.checkpoint import Checkpoints
from lightning_bench.bench.run.control import Control, Interrupt, Stopped
from lightning_bench.bench.run.distributed import (
    PATIENCE_S,
    Rank,
    Siblings,
    lost_the_others,
    most,
    report,
    reported,
)
from lightning_bench.bench.run.loading import DataModule
from lightning_bench.bench.run.result import Recording, describe, log_name
from lightning_bench.bench.run.training import Outcome, train
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.provenance import now
from lightning_bench.bench.store.record import Epoch, Example, Examples, Failure
from lightning_bench.bench.store.store import Store, Taken
from lightning_bench.common.processes import die_with_parent, send_output
from lightning_bench.data.errors import DataError
from lightning_bench.models.registry import registry


def main(
    job: JobSpec, rank: Rank | None = None, on_epoch: Callable[[], None] = lambda: None
) -> None:
    """Run one spec from claim to record; never raises for what goes wrong inside the run.

    Without a `rank` this process is the whole run, on this host, and starts the other ranks of an
    job for several devices itself. A launcher that starts all of them calls this in each, with
    `Rank.of_slurm()` for one, and sees to it that they end when one of them ends badly.

    The process exits with 0 where there is a record, whatever it says, and with TAKEN, UNWRITABLE
    or STOPPED where there is none; with 1 where a rank other than the first failed.
    """
    started = time.perf_counter(), now()
    # The parent alone answers Ctrl-C, and tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    interrupt = Interrupt()
    interrupt.install()
    die_with_parent()
    _pin_threads(job.threads, compiles=job.compile)
    if job.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(job.gpus)
    device = resolve(job.device)
    try:
        if rank is not None and not rank.first:
            _follow(job, rank, device, interrupt)
        else:
            _lead(job, rank, device, interrupt, on_epoch, *started)
    except Stopped:
        sys.exit(STOPPED)
    except Taken:
        sys.exit(TAKEN)
    except OSError as error:
        # The store itself. A parent on this host, which can't write either, says so by itself.
        if rank is not None:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(UNWRITABLE)


def resolve(device: Device) -> str:
    """The kind of device that an job means on this host."""
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return device


def _lead(
    job: JobSpec,
    rank: Rank | None,
    device: str,
    interrupt: Interrupt,
    on_epoch: Callable[[], None],
    clock: float,
    started: str,
) -> None:
    """Be the first rank, or the only one: claim the attempt, train, write the record."""
    store = Store(job.store)
    with store.claim(job.spec, job.attempt) as folder:
        send_output(folder / log_name(0))
        faulthandler.enable()
        checkpoints = Checkpoints(
            folder / "checkpoints", made_with(job, device), _earlier(store, job)
        )
        run = Recording(job, store, folder, device, clock, started, checkpoints)
        control = Control(
            interrupt=interrupt,
            request=partial(store.requested, folder),
            checkpoints=checkpoints,
            checkpoint_s=job.checkpoint_s,
            started=clock,
        )
        siblings = None
        if rank is None:
            rank = Rank(world=job.devices)
            siblings = Siblings(partial(main, job)) if rank.world > 1 else None
        try:
            outcome, peak_bytes = _train(
                job, rank, device, control, folder, siblings, run, on_epoch
            )
        except Stopped:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the record's failure
            traceback.print_exc()
            run.finish(None, _cause(error, run, siblings))
        else:
            run.finish(outcome, None, peak_bytes)
        finally:
            if siblings is not None:
                siblings.end()


def _follow(job: JobSpec, rank: Rank, device: str, interrupt: Interrupt) -> None:
    """Be another rank: train along, and leave word of what goes wrong."""
    store = Store(job.store)
    folder = store.folder(job.spec.key, job.attempt)
    control = Control(
        interrupt=interrupt,
        checkpoints=Checkpoints(folder / "checkpoints", {}),
        checkpoint_s=job.checkpoint_s,
    )
    try:
        _train(job, rank, device, control, folder)
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001 - rank 0 puts it into the record
        traceback.print_exc()
        if not lost_the_others(error):
            log = (folder / log_name(rank.index)).relative_to(store.root)
            failure = describe(error, log)
            message = f"rank {rank.index}: {failure.message}"
            report(folder, rank, failure.model_copy(update={"message": message}))
        sys.exit(1)


def _train(
    job: JobSpec,
    rank: Rank,
    device: str,
    control: Control,
    folder: Path,
    siblings: Siblings | None = None,
    run: Recording | None = None,
    on_epoch: Callable[[], None] = lambda: None,
) -> tuple[Outcome, int]:
    """Train together with the other ranks; the outcome, and the most memory that a rank took."""
    _reset_peak_memory()

    def start(first: Rank) -> None:
        assert siblings is not None
        assert run is not None
        siblings.start(first)
        siblings.watch(partial(_give_up, run, siblings))

    with rank.group(device, start if siblings else None):
        if not rank.first:
            send_output(folder / log_name(rank.index))
            faulthandler.enable()
        with _curve(folder, rank, on_epoch) as tell:
            outcome = train(
                job.spec,
                device=device,
                tell=tell,
                loaded=partial(_show, Store(job.store)) if rank.first else lambda data: None,
                rank=rank,
                strategy=job.strategy,
                compiled=job.compile,
                control=control,
                origin=partial(starts.find, store=Store(job.store), attempt=job.start),
                keep_weights=job.keep_weights,
            )
        peak_bytes = most(_peak_memory(device), rank)
    if siblings is not None:
        siblings.parted = True
    return outcome, peak_bytes


def _show(store: Store, data: DataModule) -> None:
    """Keep a few examples of the data for reports."""
    if "train" not in data.sizes:  # nothing is trained, and the examples are of training
        return
    store.write_examples(
        data.fingerprint,
        lambda: Examples(
            classes=data.entry.classes,
            shown=[Example.model_validate(found._asdict()) for found in data.examples()],
        ),
    )


@contextmanager
def _curve(
    folder: Path, rank: Rank, on_epoch: Callable[[], None]
) -> Iterator[Callable[[Epoch], None]]:
    """What tells of an epoch, on the first rank alone."""
    if not rank.first:
        yield lambda _: None
        return
    with (folder / "curve.jsonl").open("a", encoding="utf-8") as stream:

        def tell(epoch: Epoch) -> None:
            stream.write(epoch.model_dump_json() + "\n")
            stream.flush()
            on_epoch()

        yield tell


def _cause(error: BaseException, run: Recording, siblings: Siblings | None) -> Failure:
    """Why the run failed: this rank's error, unless that only says that another one is gone."""
    if not lost_the_others(error):
        return describe(error, run.log())
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := _heard(run, siblings):
            return found
        time.sleep(0.05)
    return describe(error, run.log()).model_copy(update={"kind": "infrastructure"})


def _heard(run: Recording, siblings: Siblings | None) -> Failure | None:
    """What is known of the end of another rank."""
    if found := reported(run.folder):
        return found
    if siblings is not None and (died := siblings.died()):
        index, how = died
        # It may have written its last word just before it ended.
        return reported(run.folder) or Failure(
            kind="infrastructure", message=f"rank {index} {how}", log=str(run.log(index))
        )
    return None


def _give_up(run: Recording, siblings: Siblings) -> None:
    """End a run one of whose ranks has died while this one waits for it."""
    run.finish(None, _heard(run, siblings))
    siblings.end()
    os._exit(0)


def made_with(job: JobSpec, device: str) -> dict[str, str]:
    """What has to be equal for an attempt to go on from the checkpoint of another."""
    packages = "\n".join(f"{name} {version}" for name, version in provenance.packages().items())
    return {
        **job.sources,
        "packages": hashlib.sha256(packages.encode()).hexdigest()[:16],
        "device": device,
        "devices": str(job.devices),
        "strategy": job.strategy,
        "compile": str(job.compile),
        "start": _start_digest(job),
    }


def _start_digest(job: JobSpec) -> str:
    """What is in the weights of another run that this one starts from."""
    if job.spec.start is None:
        return ""
    try:
        origin = starts.find(job.spec, Store(job.store), job.start)
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
        from torch._inductor import config  # takes a while

        config.compile_threads = threads


def _reset_peak_memory() -> None:
    """Forget the fork server's peak, so that VmHWM is this run's own."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        sys.stderr.write("peak memory can't be reset here: it includes that of the imports\n")


def _peak_memory(device: str) -> int:
    if device == "cuda":
        return int(torch.cuda.max_memory_allocated())
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


# Read once in the fork server, shared by every run.
registry.variants()
provenance.packages()
provenance.revision()
