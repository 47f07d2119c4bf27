"""What the steps of the device check share: the devices, and runs in a store of the check's own."""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lightning_bench.bench.device_check import networks
from lightning_bench.bench.execute.devices import room
from lightning_bench.bench.execute.executor import Executor, Listener, RunList
from lightning_bench.bench.execute.job import DeviceType, Execution, Strategy
from lightning_bench.bench.execute.launcher import Launcher
from lightning_bench.bench.execute.local import Local
from lightning_bench.bench.execute.slurm import Slurm
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.plan.plan import PlannedRun
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Attempt, Store
from lightning_bench.bench.study.cluster import Cluster
from lightning_bench.bench.study.study import Run

#: Runs hang of which nothing is heard for so long: their epochs take seconds, of a busy host too.
LIMIT_S = 120.0
#: The same where they may wait in a queue.
QUEUE_LIMIT_S = 1800.0


class TookTooLong(Exception):
    """Runs that were ended because they hung."""


@dataclass
class CheckContext:
    """The devices under check, how thoroughly, and what has been trained on them."""

    folder: Path
    device: DeviceType = "cpu"
    devices: int = 1
    quick: bool = False
    slurm: Cluster | None = None  # what step 11 asks of a cluster, where there is one
    queue: Cluster | None = None  # the same, where runs are sent there
    networks: Mapping[str, RunSpec] = field(default_factory=lambda: networks.NETWORKS)
    paced: Mapping[str, RunSpec] = field(default_factory=lambda: networks.PACED)
    failing: Mapping[str, tuple[RunSpec, str]] = field(default_factory=lambda: networks.FAILING)
    contenders: Sequence[str] = ("resnet-20", "convnet")
    _records: dict[str, dict[str, Record]] = field(default_factory=dict, init=False)

    @property
    def limit_s(self) -> float:
        """The longest that nothing may be heard of runs under way."""
        return LIMIT_S if self.queue is None else QUEUE_LIMIT_S

    def store(self, place: str) -> Store:
        """The store of one part of the check."""
        return Store(self.folder / place)

    def trained(
        self, place: str, specs: Mapping[str, RunSpec], *, device: DeviceType | None = None
    ) -> dict[str, Record]:
        """The records of runs on one device each, side by side; trained once a place."""
        missing = {name: s for name, s in specs.items() if name not in self._records.get(place, {})}
        if missing:
            found = self.train(place, missing, device=device)
            self._records.setdefault(place, {}).update(found)
        return {name: self._records[place][name] for name in specs}

    def train(
        self,
        place: str,
        specs: Mapping[str, RunSpec],
        *,
        device: DeviceType | None = None,
        devices: int = 1,
        strategy: Strategy = "ddp",
    ) -> dict[str, Record]:
        """Train, going on from what was interrupted at this place; the records by name."""
        executor, work = self.executor(
            place, specs, device=device, devices=devices, strategy=strategy
        )
        executor.run(work)
        return {name: self._record(self.store(place), spec) for name, spec in specs.items()}

    def executor(
        self,
        place: str,
        specs: Mapping[str, RunSpec],
        *,
        device: DeviceType | None = None,
        devices: int = 1,
        strategy: Strategy = "ddp",
    ) -> tuple[Executor, RunList]:
        """An executor of these runs, and the runs.

        What is lost is not tried again: that it was lost is what the check wants to know.
        """
        store, where = self.store(place), device or self.device
        store.prepare()
        newest = store.scan(spec.key for spec in specs.values())
        planned = [_planned(name, spec, newest.get(spec.key)) for name, spec in specs.items()]
        execution = Execution(device=where, devices=devices, strategy=strategy)
        limit = _Limit(f"{place}: {', '.join(specs)}", self.limit_s)
        launcher = self._launcher(store, execution, len(planned))
        return Executor(store, launcher, execution, [limit], retries=0), RunList(planned)

    def _launcher(self, store: Store, execution: Execution, runs: int) -> Launcher:
        if self.queue is not None:
            cluster = self.queue if execution.devices > 1 else _one_device(self.queue)
            return Slurm(runs, store, cluster, "check-device")
        slots = room(execution.device, execution.devices, execution.threads)
        slots = max(1, min(slots, runs))
        return Local(slots, execution.device, devices_a_run=execution.devices)

    def _record(self, store: Store, spec: RunSpec) -> Record:
        attempt = store.newest(spec.key)
        if attempt is None or attempt.record is None:
            raise RuntimeError(f"the run of {spec.model.name} left no record in {store.root}")
        return attempt.record


def _one_device(cluster: Cluster) -> Cluster:
    """One device of a cluster's."""
    gpus = cluster.gpus and re.sub(r"\d+$", "1", cluster.gpus)
    return cluster.model_copy(update={"nodes": 1, "gpus": gpus})


def _planned(name: str, spec: RunSpec, newest: Attempt | None) -> PlannedRun:
    return PlannedRun(
        run=Run(name, spec.data.name, spec),
        state="missing",
        reason="the device is checked",
        expected_s=5.0,
        attempt=newest,
        sources=source_digests.of_run(spec),
        keep_weights=True,
    )


class _Limit(Listener):
    """Ends runs that hang, however long those take that get on."""

    def __init__(self, what: str, limit_s: float) -> None:
        self.what, self.limit_s = what, limit_s
        self._heard = time.monotonic()

    def _hear(self, *_: object, **__: object) -> None:
        self._heard = time.monotonic()

    started = waits = progressed = finished = lost = stopped = _hear

    def tick(self) -> None:
        """Raise when nothing was heard for too long; the executor then ends what is under way."""
        if time.monotonic() - self._heard > self.limit_s:
            raise TookTooLong(f"{self.what}: nothing was heard of them for {self.limit_s:.0f} s")


def demand_done(records: Mapping[str, Record], device: DeviceType, devices: int = 1) -> None:
    """Raise where a run that is to be compared has failed, with its cause, or ran elsewhere."""
    for name, record in records.items():
        if record.failure:
            raise RuntimeError(f"{name} failed: {record.failure.kind}: {record.failure.message}")
        where = record.provenance.device, record.provenance.devices
        if where != (device, devices):
            raise RuntimeError(f"{name} ran on {where[1]} × {where[0]}, not {devices} × {device}")


def first_loss(record: Record) -> float:
    """The training loss of a run's first epoch."""
    return record.curve[0].train_loss
