"""What a search costs its parent, what a second worker gains, and what pruning saves.

    python -m benchmarks.search            all three, about ten minutes on two quiet cores
    python -m benchmarks.search parent     or some: parent, workers, pruning
    python -m benchmarks.search parent --storage postgresql://…

Targets: the parent takes at most 50 ms a trial at 1,000 trials of the default sampler and pruner,
all but the training counted, alone and as one of four; two workers on two cores finish 30 trials
of the digits MLP in at most 0.6 of one worker's time; pruning saves at least 40 % of the device
time of the digits search at equal chosen accuracy.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from statistics import fmean, median, stdev

from benchmarks.common import verdict
from lightning_bench.bench.search import ledger, optuna_storage
from lightning_bench.bench.search.tuner import Tuner
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.record import Cost, Epoch, Provenance, Record
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.load import load

TRIALS, EPOCHS = 1_000, 10
SEEDS = 5
PARTS = ("parent", "workers", "pruning")

PARENT = """\
title: t
question: q
data: [digits]
entries: {MLP: {model: mlp}}
seeds: 1
recipe: {epochs: 10, lr: 3e-3}
search:
  trials: 1000
  space:
    lr: {float: [1e-4, 1e-1], log: true}
    weight_decay: {float: [0, 0.3]}
    label_smoothing: {float: [0, 0.2]}
scales: {smoke: {}}
"""

WORKERS = """\
title: t
question: q
data: [digits]
entries: {MLP: {model: mlp, args: {depth: 2, width: 106}}}
seeds: 1
recipe: {epochs: 25, lr: 3e-3, weight_decay: 0.01, warmup: 0.1}
search: {trials: 30, sampler: random, pruner: none, space: {lr: {float: [1e-4, 1e-1], log: true}}}
scales: {smoke: {}}
"""

PRUNING = """\
title: t
question: q
data: [digits]
entries: {MLP: {model: mlp, args: {depth: 2, width: 106}}, LeNet: {model: lenet}}
seeds: 5
recipe: {epochs: 25, lr: 3e-3, weight_decay: 0.01, warmup: 0.1}
search:
  trials: 16
  space:
    lr: {float: [3e-4, 3e-2], log: true}
    weight_decay: {float: [0, 0.3]}
    label_smoothing: {float: [0, 0.2]}
scales: {smoke: {}}
"""


def main() -> None:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--storage", help="the parent's, instead of a journal")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown part {', '.join(unknown)}")
    wanted = given.parts or PARTS
    if "parent" in wanted:
        parent(given.storage)
    if "workers" in wanted:
        workers()
    if "pruning" in wanted:
        pruning()


def parent(url: str | None) -> None:
    """A parent's time for a trial, all but the training: sampler, pruner, ledger, storage."""
    for parents in (1, 4):
        with _folder(PARENT) as folder:
            wall, cpu = _drive(folder, parents, url)
        tenth = len(wall) // 10
        took, at_first = median(wall[-tenth:]), median(wall[:tenth])
        kept = "journal" if url is None else url.partition(":")[0]
        print(
            f"parent, one of {parents}, {kept}: {took:.1f} ms a trial "
            f"({median(cpu[-tenth:]):.1f} of CPU) at {TRIALS} trials with {EPOCHS} epochs each, "
            f"{at_first:.1f} at the first {TRIALS // 10}; "
            f"{verdict(took, 50, 'ms')}",
            flush=True,
        )


def _drive(folder: Path, parents: int, url: str | None) -> tuple[list[float], list[float]]:
    """Let parents run a search of made-up records together; milliseconds a trial, wall and CPU."""
    study = load(str(folder / "page.yaml"))
    store = Store(folder / "store")
    store.prepare()
    # One that has been at it alone would leave its trials in a database.
    cells = [replace(cell, study=folder.name) for cell in study.cells()]
    tuners = [
        Tuner(cells, store, optuna_storage.connect(url, folder / "store/searches"))
        for _ in range(parents)
    ]
    wall, cpu = [], []
    for turn in range(1, TRIALS // parents + 1):
        clock = _Clock()
        with clock:
            begun = [tuner.take() for tuner in tuners]
        for tuner, planned in zip(tuners, begun, strict=True):
            assert planned is not None
            # Distance to a best learning rate: something for the sampler to think about.
            score = 1 / (1 + abs(math.log10(planned.run.spec.recipe.lr) + 2))
            curve = [
                Epoch(epoch=e, step=e, train_loss=1.0, metrics={"accuracy": score * e / EPOCHS})
                for e in range(1, EPOCHS + 1)
            ]
            record = _record(planned.run.spec, curve)
            with store.claim(planned.run.spec, planned.next_attempt) as attempt:
                store.write_record(attempt, record)
            with clock:
                for epoch in curve:
                    tuner.progressed(planned, epoch)
                tuner.finished(planned, record)
        wall.append(1e3 * clock.wall_s / parents)
        cpu.append(1e3 * clock.cpu_s / parents)
        if turn * parents % 250 == 0:
            print(f"  {turn * parents} trials: {wall[-1]:.1f} ms", file=sys.stderr)
    return wall, cpu


class _Clock:
    """Wall and CPU time of all that is done inside it."""

    wall_s = cpu_s = 0.0

    def __enter__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def __exit__(self, *_: object) -> None:
        self.wall_s += time.perf_counter() - self._began[0]
        self.cpu_s += time.process_time() - self._began[1]


def workers() -> None:
    """Wall time of 30 trials with one worker and with two, taken in turn."""
    seconds: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for _ in range(3):
        for jobs in seconds:
            with _folder(WORKERS) as folder:
                began = time.perf_counter()
                _bench(folder, "--jobs", str(jobs))
                whole = time.perf_counter() - began
                (found,) = _ledgers(folder)
                # From when the first run's process is there: libraries are imported once.
                store = Store(folder / "bench-store")
                records = [store.read(key, 1).record for t in found.trials for key in t.keys]
                begun = min(datetime.fromisoformat(r.started) for r in records if r)
                over = max(datetime.fromisoformat(trial.ended) for trial in found.trials)
                seconds[jobs].append(((over - begun).total_seconds(), whole))
                search_s = seconds[jobs][-1][0]
                print(f"  {jobs} at a time: {search_s:.1f} of {whole:.1f} s", file=sys.stderr)
    search, command = (
        median(two[i] for two in seconds[2]) / median(one[i] for one in seconds[1]) for i in (0, 1)
    )
    print(
        f"workers: 30 trials of the digits MLP take {median(s for s, _ in seconds[1]):.1f} s with "
        f"one worker, {median(s for s, _ in seconds[2]):.1f} s with two: {search:.2f} of it (whole "
        f"command, imports and final run too: {command:.2f}); "
        f"{verdict(search, 0.6)}"
    )


def pruning() -> None:
    """Device time and what the chosen values reach on the test split, with and without pruning."""
    saved, moved = [], []
    for seed in range(SEEDS):
        hours, scores = {}, {}
        for pruner in ("none", "asha"):
            settings = [f"search.seed={seed}", f"search.pruner={pruner}"]
            with _folder(PRUNING) as folder:
                _bench(folder, "--jobs", "2", *(f"--set={setting}" for setting in settings))
                found = _ledgers(folder, *settings)
                hours[pruner] = math.fsum(search.device_h for search in found)
                scores[pruner] = {search.entry: _reached(folder, search.entry) for search in found}
        saved.append(1 - hours["asha"] / hours["none"])
        moved += [scores["asha"][entry] - scores["none"][entry] for entry in scores["none"]]
        spent = ", ".join(f"{name} {3600 * h:.0f} s" for name, h in hours.items())
        print(f"  seed {seed}: {spent}: {saved[-1]:.0%} saved, {scores}", file=sys.stderr)
    half = 2.26 * stdev(moved) / math.sqrt(len(moved))  # the 95 % t-interval of ten differences
    equal = abs(fmean(moved)) <= half
    print(
        f"pruning: asha saves {fmean(saved):.0%} of the device time ({min(saved):.0%} to "
        f"{max(saved):.0%} over {SEEDS} seeds); test accuracy of what it chose "
        f"{100 * fmean(moved):+.2f} ± {100 * half:.2f} points against no pruning, over {SEEDS} "
        f"seeds and 2 entries; target 40 % at equal accuracy: "
        f"{'met' if fmean(saved) >= 0.4 and equal else 'MISSED'}"
    )


def _reached(folder: Path, entry: str) -> float:
    """The mean test accuracy of an entry's final runs."""
    model = {"MLP": "mlp", "LeNet": "lenet"}[entry]
    records = [attempt.record for attempt in Store(folder / "bench-store").scan().values()]
    return fmean(
        record.metrics["accuracy"]
        for record in records
        if record and record.spec.tested and record.spec.model.name == model
    )


def _ledgers(folder: Path, *settings: str) -> list[ledger.Ledger]:
    cells = load(str(folder / "page.yaml"), None, settings).cells()
    return [searched.ledger() for searched in ledger.search_folders(cells, folder / "bench-store")]


@contextmanager
def _folder(page: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.yaml").write_text(page, encoding="utf-8")
        yield folder


def _bench(folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "lightning_bench", "run", "page.yaml", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def _record(spec: RunSpec, curve: list[Epoch]) -> Record:
    cost = Cost(
        parameters=1,
        trainable_parameters=1,
        train_s=1.0,
        total_s=1.0,
        device_h=1 / 3600,
        train_examples_per_s=1.0,
        peak_memory_bytes=1,
    )
    made = Provenance(
        environment=None, sources={}, command=[], bench_version="0", git_revision=None,
        git_dirty=None, host="h", device="cpu", devices=1, threads=1,
    )  # fmt: skip
    return Record(
        key=spec.key, attempt=1, status="done", spec=spec, started="2026-01-01T00:00:00+00:00",
        ended="2026-01-01T00:00:01+00:00", curve=curve, cost=cost, provenance=made,
    )  # fmt: skip


if __name__ == "__main__":
    main()
