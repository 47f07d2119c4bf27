"""Runs in processes of their own, as an engine starts them, and what is left of them."""

import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from lightning_bench.bench.execute.job import EXIT_CODES, WORKER, JobSpec, run_worker
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store, read_record


def order(store: Path, spec: RunSpec, attempt: int = 1, **changes: Any) -> JobSpec:
    return JobSpec(
        store=store,
        spec=spec,
        attempt=attempt,
        device="cpu",
        gpus=(),
        threads=1,
        sources=dict(source_digests.of_run(spec)),
        command=["bench"],
        **changes,
    )


def start(target: Any, *arguments: Any) -> BaseProcess:
    context = get_context("forkserver")
    context.set_forkserver_preload([WORKER])
    process = context.Process(target=target, args=arguments)
    process.start()
    return process


def begin(given: JobSpec) -> tuple[BaseProcess, Path]:
    """Start a run; its process and its folder."""
    return start(_work, given), Store(given.store).folder(given.spec.key, given.attempt)


def _work(given: JobSpec) -> None:
    raise SystemExit(EXIT_CODES[run_worker(given)])


def run(given: JobSpec, timeout_s: float = 240) -> Record:
    """Run to the end."""
    process, folder = begin(given)
    process.join(timeout_s)
    alive = process.is_alive()
    process.kill()
    assert not alive, "it hangs"
    assert process.exitcode == 0
    return read_record(folder / "record.json")


def wait_for(folder: Path, pattern: str, count: int = 1, timeout_s: float = 120) -> list[Path]:
    """Wait until there are so many files with something in them."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = [path for path in folder.glob(pattern) if path.exists() and path.stat().st_size]
        if len(found) >= count:
            return found
        assert time.monotonic() < deadline, f"no {pattern} in {folder}"
        time.sleep(0.02)


def left(folder: Path) -> list[int]:
    """The processes that still have a file of an attempt open, as its logs are to each rank."""
    return [pid for pid, path in _open_files() if path.startswith(str(folder))]


def wait_until_left_alone(folder: Path, timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while left(folder):
        assert time.monotonic() < deadline, f"processes {left(folder)} are left"
        time.sleep(0.1)


def _open_files() -> Iterator[tuple[int, str]]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            for link in (process / "fd").iterdir():
                yield int(process.name), str(link.readlink())
        except OSError:
            continue
