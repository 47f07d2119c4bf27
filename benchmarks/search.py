"""What a search costs its parent, what a second worker gains, and what pruning saves.

    python -m benchmarks.search            all three, about ten minutes on two quiet cores
    python -m benchmarks.search parent     or one of them: parent, workers, pruning

Targets: the parent takes at most 50 ms a trial at 1,000 trials, the sampler's own thinking aside;
two workers on two cores finish 30 trials of the digits MLP in at most 0.6 of one worker's time;
pruning saves at least 40 % of the device time of the digits search at equal chosen accuracy.
"""

import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from bench.record import Cost, Epoch, Provenance, Record
from bench.search import ledger, samplers, storage
from bench.search.tune import Tuner
from bench.spec import RunSpec
from bench.store import Store
from bench.study import load

TRIALS, EPOCHS = 1_000, 10
SEEDS = 5

PARENT = """\
title: t
question: q
data: [digits]
entries: {MLP: {model: mlp}}
seeds: 1
recipe: {epochs: 10, lr: 3e-3}
search:
  trials: 1000
  pruner: median
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
    wanted = sys.argv[1:] or ["parent", "workers", "pruning"]
    if "parent" in wanted:
        parent()
    if "workers" in wanted:
        workers()
    if "pruning" in wanted:
        pruning()


def parent() -> None:
    """The parent's time a trial, with everything but the training itself."""
    for name in ("random", "tpe"):
        with _folder(PARENT) as folder:
            spent, thought = _drive(folder, name)
            last = range(TRIALS - 100, TRIALS)
            alone = median(1e3 * (spent[i] - thought[i]) for i in last)
            print(
                f"parent, {name}: {alone:.1f} ms a trial at {TRIALS} trials with {EPOCHS} epochs "
                f"each ({1e3 * median(spent[:100]):.1f} in all at the first 100); "
                f"{name} itself {1e3 * median(thought[i] for i in last):.1f} ms; target 50 ms: "
                f"{'met' if alone <= 50 else 'MISSED'}"
            )


def _drive(folder: Path, sampler: str) -> tuple[list[float], list[float]]:
    """Run a tuner over made-up records; seconds of each trial, and of those in the sampler."""
    study = load(str(folder / "page.yaml"), None, [f"search.sampler={sampler}"])
    store = Store(folder / "store")
    store.prepare()
    tuner = Tuner(study.cells(), store, storage.connect(None, folder / "store/searches"))
    thinking, make = [0.0], samplers.sampler
    samplers.sampler = lambda *which: _timed(make(*which), thinking)
    spent, thought = [], []
    try:
        for number in range(TRIALS):
            thinking[0] = 0.0
            began = time.perf_counter()
            planned = tuner.take()
            took = time.perf_counter() - began
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
            began = time.perf_counter()
            for epoch in curve:
                tuner.progressed(planned, epoch)
            tuner.finished(planned, record)
            spent.append(took + time.perf_counter() - began)
            thought.append(thinking[0])
            if number % 250 == 249:
                print(f"  {number + 1} trials", file=sys.stderr)
    finally:
        samplers.sampler = make
    return spent, thought


def _timed(sampler: Any, seconds: list[float]) -> Any:
    """The sampler, with the time of all that it is asked for added up."""

    def timed(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return method(*arguments)
            finally:
                seconds[0] += time.perf_counter() - began

        return call

    for name in ("infer_relative_search_space", "sample_relative", "sample_independent"):
        setattr(sampler, name, timed(getattr(sampler, name)))
    return sampler


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
                begun = min(datetime.fromisoformat(trial.started) for trial in found.trials)
                over = max(datetime.fromisoformat(trial.ended) for trial in found.trials)
                seconds[jobs].append(((over - begun).total_seconds(), whole))
                print(f"  {jobs} at a time: {seconds[jobs][-1][0]:.1f} s", file=sys.stderr)
    search, command = (
        median(two[i] for two in seconds[2]) / median(one[i] for one in seconds[1]) for i in (0, 1)
    )
    print(
        f"workers: 30 trials of the digits MLP take {median(s for s, _ in seconds[1]):.1f} s with "
        f"one worker, {median(s for s, _ in seconds[2]):.1f} s with two: {search:.2f} of it (whole "
        f"command, imports and final run too: {command:.2f}); target 0.6: "
        f"{'met' if search <= 0.6 else 'MISSED'}"
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
        print(f"  seed {seed}: {saved[-1]:.0%} saved, {scores}", file=sys.stderr)
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
    return [book.ledger() for book in ledger.books(cells, folder / "bench-store")]


@contextmanager
def _folder(page: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "page.yaml").write_text(page, encoding="utf-8")
        yield folder


def _bench(folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "bench", "run", "page.yaml", *options]
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
