"""A rehearsal's session: its cases in processes of their own, each behind what it starts from."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from lightning_bench.bench.rehearse.case import Case
from lightning_bench.bench.rehearse.protocol import (
    FEW,
    MORE,
    WORKER,
    RehearsalJob,
    Rehearsed,
    Where,
    run_worker,
)
from lightning_bench.bench.study.inputs import dataset_of, task_module
from lightning_bench.common.machine import worker_context
from lightning_bench.common.memory import oom_kills
from lightning_bench.common.processes import how_it_ended, preload, start_with_pipe
from lightning_bench.models.registry import catalogue

_POLL_S = 0.2
#: Of the environment, what a worker must have as it was when the case's page was read.
_PAGE_FOLDER = "BENCH_PAGE_FOLDER"

#: By name, since it imports torch.
_ENCODER_CACHE = "lightning_bench.bench.run.encoder_cache"

Results = dict[str, Rehearsed]


@dataclass
class _Worker:
    """A case under way."""

    case: Case
    job: RehearsalJob
    process: BaseProcess
    pipe: Connection
    oom_kills: int


@dataclass
class RehearsalSession:
    """All cases of a rehearsal; `tell` hears of each that is over."""

    cases: Sequence[Case]
    on: Where
    jobs: int
    tell: Callable[[Case, Rehearsed], None]
    results: Results = field(default_factory=dict)
    _weights: dict[str, Path] = field(default_factory=dict)
    _running: list[_Worker] = field(default_factory=list)

    def run(self) -> Results:
        """Rehearse them; whatever ends it, no process and no file is left."""
        context = worker_context()
        preload(context, [WORKER, *self._modules()])
        self._context = context
        waiting = list(self.cases)
        with _folder() as folder:
            try:
                numbers = count()
                while waiting or self._running:
                    while len(self._running) < self.jobs and (case := self._next(waiting)):
                        self._start(case, folder, next(numbers), self.on)
                    self._collect(folder, numbers)
            finally:
                self._kill()
        return self.results

    def _modules(self) -> list[str]:
        """Our own modules that the cases need, imported once for all; others' are their own.

        And libraries that take seconds and are no user's.
        """
        modules = {"timm", "torch.utils.flop_counter"}
        if any(dataset_of(case.spec.data).kind == "text" for case in self.cases):
            modules |= {"transformers.models.bert.modeling_bert", _ENCODER_CACHE}
        for case in self.cases:
            model = catalogue.find(case.spec.model.name)
            modules |= {model.module} if model.ours else set()
            dataset = dataset_of(case.spec.data)
            modules |= {dataset.module, task_module(dataset)}
        return sorted(modules)

    def _next(self, waiting: list[Case]) -> Case | None:
        """The next case whose start is over; one whose start fails is over, too."""
        for case in waiting:
            if case.start and case.start not in self.results:
                continue
            waiting.remove(case)
            before = self.results.get(case.start)
            if before is None or before.status == "ok":
                return case
            how = "fails" if before.status == "fails" else "was not rehearsed"
            cause = f"it starts from a stage that {how}"
            self._over(case, Rehearsed("not rehearsed", cause=cause))
            return self._next(waiting)
        return None

    def _start(self, case: Case, folder: Path, number: int, on: Where, examples: int = FEW) -> None:
        job = RehearsalJob(
            key=case.key,
            spec=case.spec,
            folder=folder,
            number=number,
            on=on,
            shows_training=case.shows_training,
            keep_weights=case.started_from,
            environment=_environment(case),
            start_weights=self._weights.get(case.start),
            memory_share=0.9 / self.jobs,
            examples=examples,
        )
        process, pipe = start_with_pipe(self._context, run_worker, job, daemon=True)
        self._running.append(_Worker(case, job, process, pipe, oom_kills()))

    def _collect(self, folder: Path, numbers: Iterator[int]) -> None:
        ready = connection.wait([worker.pipe for worker in self._running], _POLL_S)
        for worker in [worker for worker in self._running if worker.pipe in ready]:
            self._running.remove(worker)
            result = _result(worker)
            worker.process.join()
            worker.pipe.close()
            worker.process.close()
            shutil.rmtree(worker.job.own_folder, ignore_errors=True)
            if result.lacked_memory and worker.job.on == "auto":
                self._start(worker.case, folder, next(numbers), "meta")
                continue
            # A batch of the recipe's own may be larger, and its loss a number.
            few = worker.job.examples == FEW < worker.case.spec.recipe.batch_size
            if result.diverged and few:
                self._start(worker.case, folder, next(numbers), worker.job.on, MORE)
                continue
            kept = worker.job.kept_weights
            if kept is not None and kept.is_file():
                self._weights[worker.case.key] = kept
            self._over(worker.case, result)

    def _over(self, case: Case, result: Rehearsed) -> None:
        self.results[case.key] = result
        if case.shows_training and result.status != "ok":
            alike = (c for c in self.cases if c.alike == case.alike and c.key not in self.results)
            if (other := next(alike, None)) is not None:
                other.shows_training = True
        self.tell(case, result)

    def _kill(self) -> None:
        for worker in self._running:
            worker.process.kill()
            worker.process.join()
            worker.process.close()
            worker.pipe.close()
        self._running = []


def _environment(case: Case) -> Mapping[str, str]:
    """What the case's process is to have, whichever page was read last."""
    return {_PAGE_FOLDER: case.page_folder} if case.page_folder else {}


def _result(worker: _Worker) -> Rehearsed:
    """What a worker told, or how it ended without a word."""
    try:
        result: Rehearsed = worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join()
        if oom_kills() > worker.oom_kills:
            return Rehearsed("fails", cause="memory: the kernel ran out of it")
        ended = how_it_ended(worker.process.exitcode or 0)
        return Rehearsed("fails", cause=f"its process {ended}")
    return result


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for all that is written, by libraries too, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="bench-rehearse-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "weights").mkdir()
        # Of the workers: what torch and `datasets` write.
        with _environment_of({"TMPDIR": name, "HF_DATASETS_CACHE": f"{name}/datasets"}):
            yield folder


@contextmanager
def _environment_of(changes: Mapping[str, str]) -> Iterator[None]:
    """The environment with these variables, which processes that start meanwhile inherit."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            del os.environ[name]
            if value is not None:
                os.environ[name] = value
