"""The process of one run: claims its attempt, trains, and leaves a record whatever happens.

The fork server imports this module once, and with it torch and Lightning; each run is then a fork
of it that starts in milliseconds and shares nothing with the next one but clean imports.
"""

import faulthandler
import hashlib
import io
import os
import re
import signal
import sys
import threading
import time
import traceback
from functools import partial
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bench import provenance
from bench.order import TAKEN, UNWRITABLE, Order
from bench.provenance import now
from bench.record import Cost, Epoch, Example, Examples, Failure, FailureClass, Record
from bench.store import Store, Taken, write_atomically
from bench.training import DataModule, DataProblem, Diverged, Outcome, train
from models import registry


def main(order: Order) -> None:
    """Run one spec from claim to record; never raises for what goes wrong inside the run."""
    # The parent alone answers Ctrl-C, and tells its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _die_with_parent()
    _pin_threads(order.threads)
    if order.gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(order.gpus)
    started = time.perf_counter(), now()
    store = Store(order.store)
    try:
        with store.claim(order.spec, order.attempt) as folder:
            _redirect_output(folder / "log.txt")
            record = _run(order, store, folder, *started)
            store.write_record(folder, record)
    except Taken:
        sys.exit(TAKEN)
    except OSError as error:
        # The store itself; the parent, which can't write either, says so on the terminal.
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.exit(UNWRITABLE)


def _run(order: Order, store: Store, folder: Path, clock: float, started: str) -> Record:
    _reset_peak_memory()
    device: str = order.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    outcome, failure, predictions = None, None, None
    with (folder / "curve.jsonl").open("a", encoding="utf-8") as stream:

        def tell(epoch: Epoch) -> None:
            stream.write(epoch.model_dump_json() + "\n")
            stream.flush()

        try:
            outcome = train(order.spec, device=device, tell=tell, loaded=partial(_show, store))
            predictions = _save_predictions(folder / "predictions.npz", outcome)
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the record's failure
            traceback.print_exc()
            failure = describe(error, log=folder.relative_to(store.root) / "log.txt")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    environment = store.write_environment(provenance.environment(gpus))
    return Record(
        key=order.spec.key,
        attempt=order.attempt,
        status="failed" if failure else "done",
        spec=order.spec,
        started=started,
        ended=now(),
        metrics=outcome.metrics if outcome else {},
        scored=outcome.scored if outcome else 0,
        curve=outcome.curve if outcome else [],
        predictions=predictions,
        cost=_cost(outcome, time.perf_counter() - clock, device) if outcome else None,
        data=outcome.data if outcome else None,
        provenance=provenance.of(order, device=device, environment=environment),
        failure=failure,
    )


def _show(store: Store, data: DataModule) -> None:
    """Keep a few examples of the data for reports."""
    store.write_examples(
        data.fingerprint,
        lambda: Examples(
            classes=data.entry.classes,
            shown=[Example.model_validate(found._asdict()) for found in data.examples()],
        ),
    )


def _cost(outcome: Outcome, total_s: float, device: str) -> Cost:
    return Cost(
        parameters=outcome.parameters,
        trainable_parameters=outcome.trainable_parameters,
        train_s=outcome.train_s,
        total_s=total_s,
        device_h=total_s / 3600,
        train_examples_per_s=outcome.train_examples_per_s,
        peak_memory_bytes=_peak_memory(device),
    )


def describe(error: BaseException, log: Path) -> Failure:
    """Class and one line of an exception."""
    text = " ".join(str(error).split())
    kind: FailureClass = "code"
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or re.search(
        r"can't allocate memory|out of memory", text
    ):
        kind = "out-of-memory"
    elif isinstance(error, Diverged):
        kind = "divergence"
    elif isinstance(error, DataProblem):
        kind = "data"
    elif isinstance(error, OSError):
        kind = "infrastructure"
    return Failure(kind=kind, message=f"{type(error).__name__}: {text}"[:500], log=str(log))


def _save_predictions(path: Path, outcome: Outcome) -> str:
    """Write the predictions, whole numbers as small as they fit; return the file's SHA-256."""
    stream = io.BytesIO()
    small: dict[str, Any] = {name: _small(v) for name, v in outcome.predictions.items()}
    np.savez_compressed(stream, **small)
    write_atomically(path, stream.getvalue())
    return hashlib.sha256(stream.getvalue()).hexdigest()


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if values.dtype.kind not in "iu" or not values.size:
        return values
    return values.astype(np.result_type(*map(np.min_scalar_type, (values.min(), values.max()))))


def _die_with_parent() -> None:
    """End this process as soon as the parent's end of the pipe closes, however it died."""
    parent = parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def _pin_threads(threads: int) -> None:
    """Give the run its own number of threads, so that runs side by side don't fight for cores."""
    os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = str(threads)
    torch.set_num_threads(threads)


def _redirect_output(path: Path) -> None:
    """Send whatever is printed, by C libraries too, to the attempt's log."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    faulthandler.enable()


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
