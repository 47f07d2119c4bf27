"""The result of an attempt, or its failure, written as its record."""

import hashlib
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

from lightning_bench.bench.execute.job import JobSpec
from lightning_bench.bench.run import cuda_device
from lightning_bench.bench.run.checkpoint import Checkpoints
from lightning_bench.bench.run.training import Outcome
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.predictions import OF_CLASSES, Arrays
from lightning_bench.bench.store.provenance import now
from lightning_bench.bench.store.record import (
    Cost,
    Curve,
    Environment,
    Failure,
    Gpu,
    Record,
)
from lightning_bench.bench.store.store import ARRAYS, PREDICTIONS, PROBABILITIES, WEIGHTS, Store
from lightning_bench.common.files import rename, temporary_beside, write_atomically
from lightning_bench.models.tasks.probability_scores import bins_of


@dataclass
class ResultWriter:
    """Writes the record of a claimed attempt, at any moment."""

    job: JobSpec
    store: Store
    folder: Path
    clock: float
    started: str
    checkpoints: Checkpoints
    # Of all ranks, once they have met.
    hosts: list[str] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    # Held by whoever writes the record, and never released.
    writing: threading.Lock = field(default_factory=threading.Lock)

    def write(self, outcome: Outcome | None, failure: Failure | None, peak_bytes: int = 0) -> None:
        """Write the record and delete the checkpoints, unless a retry may go on from them."""
        self.writing.acquire()
        record = self._record(outcome, failure, peak_bytes)
        self.store.write_record(self.folder, record)
        if failure is None or not failure.lost:
            self.checkpoints.delete()

    def log(self, rank: int = 0) -> Path:
        """The log of a rank, as a failure names it."""
        return (self.folder / log_name(rank)).relative_to(self.store.root)

    def _record(self, outcome: Outcome | None, failure: Failure | None, peak_bytes: int) -> Record:
        job, store = self.job, self.store
        predictions = probabilities = cost = weights = arrays = None
        if outcome is not None:
            if outcome.weights is not None:
                weights = _save_weights(self.folder / WEIGHTS, outcome.weights)
            if outcome.predictions:
                by_label, by_class = split_arrays(outcome.predictions)
                predictions = save_arrays(self.folder / PREDICTIONS, by_label)
                if by_class:
                    probabilities = save_arrays(self.folder / PROBABILITIES, by_class)
            if outcome.arrays:
                arrays = save_arrays(self.folder / ARRAYS, outcome.arrays)
            total_s = time.perf_counter() - self.clock + outcome.earlier_s
            cost = Cost(
                parameters=outcome.parameters,
                trainable_parameters=outcome.trainable_parameters,
                train_s=outcome.train_s,
                total_s=total_s,
                device_h=total_s / 3600 * job.devices / job.sharing,
                train_examples_per_s=outcome.train_examples_per_s,
                peak_memory_bytes=peak_bytes,
                processor_s=time.process_time(),
            )
        gpus, environment = self._hardware()
        pruned = outcome is not None and outcome.pruned
        return Record(
            key=job.spec.key,
            attempt=job.attempt,
            status="failed" if failure else "pruned" if pruned else "done",
            spec=job.spec,
            started=self.started,
            ended=now(),
            metrics=outcome.metrics if outcome else {},
            scored=outcome.scored if outcome else 0,
            curve=Curve.of(outcome.curve if outcome else []),
            predictions=predictions,
            probabilities=probabilities,
            too_many_probabilities=outcome.too_many_probabilities if outcome else "",
            arrays=arrays,
            weights=weights,
            start=outcome.start if outcome else None,
            checkpoints=outcome.checkpoints if outcome else {},
            cost=cost,
            data=outcome.data if outcome else None,
            provenance=job.provenance(
                device=job.device,
                environment=store.write_environment(environment),
                gpus=gpus,
                hosts=self.hosts,
            ),
            failure=failure,
            resumed_from=outcome.resumed_from if outcome else [],
            afresh=self.checkpoints.afresh,
            nondeterministic=outcome.nondeterministic if outcome else [],
        )

    def _hardware(self) -> tuple[list[Gpu], Environment]:
        """The GPUs that the run used, and the machine; a run on a CPU asks CUDA for nothing."""
        if self.job.device == "cuda":
            with suppress(RuntimeError):  # CUDA itself has failed
                gpus = self.gpus or cuda_device.describe(self.job.devices)
                return gpus, cuda_device.environment()
        return [], provenance.environment([])


def log_name(rank: int) -> str:
    """The name of a rank's log."""
    return f"log-{rank}.txt" if rank else "log.txt"


def split_arrays(predictions: Arrays) -> tuple[Arrays, Arrays]:
    """The arrays of predictions.npz and those of probabilities.npz, which has the bins, too."""
    by_class = {k: v for k, v in predictions.items() if k.endswith(OF_CLASSES)}
    by_label = {k: v for k, v in predictions.items() if k not in by_class}
    for name in [name for name in by_class if name.endswith("probabilities")]:
        prefix = name.removesuffix("probabilities")
        target, predicted = (predictions[f"{prefix}{of}"] for of in ("target", "predicted"))
        if target.ndim == 1:
            by_class[f"{prefix}reliability"] = bins_of(by_class[name], predicted == target)
    return by_label, by_class


def save_arrays(path: Path, arrays: Arrays) -> str:
    """Write arrays, whole numbers as small as they fit; return the file's SHA-256."""
    with temporary_beside(path.parent, prefix=f".{path.name}.") as (beside, stream):
        small: dict[str, Any] = {name: _small(values) for name, values in arrays.items()}
        np.savez_compressed(stream, **small)
        stream.flush()
        with beside.open("rb") as written:
            digest = hashlib.file_digest(written, "sha256").hexdigest()
        rename(beside, stream, path)
    return digest


def _save_weights(path: Path, weights: dict[str, torch.Tensor]) -> str:
    """Write the final weights for those who start from them; return the file's SHA-256."""
    content = safetensors.torch.save(weights)
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def _small(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if values.dtype.kind not in "iu" or not values.size:
        return values
    return values.astype(np.result_type(*map(np.min_scalar_type, (values.min(), values.max()))))
