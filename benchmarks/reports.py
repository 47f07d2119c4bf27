"""How long a report on 10,000 records takes.

    python -m benchmarks.reports            # about two minutes
    python -m benchmarks.reports command    # `bench report` alone, as a user calls it
    python -m benchmarks.reports 20 10 50   # the steps, of so many entries, data sets and seeds

Prints the seconds of the whole command on a store of finished, current records (target: 3 s), and
those of each step with the ratio of building the report to reading its records as JSON, measured
in one run. The records are made up; a share of the pairs differ.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from benchmarks.common import BENCH, verdict
from benchmarks.planning import fill
from lightning_bench.bench.spec import DataSpec, ModelSpec, RunSpec
from lightning_bench.bench.store.record import Cost, DataFacts, Epoch, Provenance, Record
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.study.study import Entry, Study
from lightning_bench.reports.build import build
from lightning_bench.reports.inputs_digest import inputs
from lightning_bench.reports.render.write import write
from lightning_bench.reports.report import Report
from lightning_bench.reports.request import ReportedRun, Request

T = TypeVar("T")
PAGE = """\
title: Thousands
question: How long does a report take?
data: [digits, mnist, fashion-mnist, cifar10, cifar100]
entries:
{entries}
seeds: 50
scales: {{smoke: {{}}}}
"""
SHAPES = [(20, 10, 50), (100, 10, 10), (80, 10, 12), (200, 10, 5)]  # entries × data sets × seeds


def record(entry: str, dataset: str, seed: int, accuracy: float) -> Record:
    """A record with a curve of ten epochs."""
    spec = RunSpec(model=ModelSpec(name=entry), data=DataSpec(name=dataset), seed=seed)
    return Record(
        key=spec.key,
        attempt=1,
        status="done",
        spec=spec,
        started="2026-01-01T00:00:00Z",
        ended="2026-01-01T00:00:09Z",
        metrics={"accuracy": accuracy},
        scored=10_000,
        curve=[
            Epoch(epoch=n, step=n, train_loss=1 / n, metrics={"accuracy": accuracy - 1 / (9 + n)})
            for n in range(1, 11)
        ],
        cost=Cost(
            parameters=1_000_000,
            trainable_parameters=1_000_000,
            train_s=9.0,
            total_s=10.0,
            device_h=10 / 3600,
            train_examples_per_s=1_000.0,
            peak_memory_bytes=10**9,
        ),
        data=DataFacts(fingerprint="f" * 64, train=50_000, val=5_000, test=10_000),
        provenance=Provenance(
            environment="e" * 64,
            sources={f"models/{n}.py": "d" * 64 for n in range(5)},
            command=["bench", "run"],
            bench_version="0",
            git_revision="a" * 40,
            git_dirty=False,
            host="host",
            device="cuda",
            devices=1,
            threads=1,
        ),
    )


def study(entries: int, datasets: int, seeds: int) -> tuple[Request, list[ReportedRun]]:
    """A request and its runs, all done."""
    rng = np.random.default_rng(0)
    means = 0.8 + 0.1 * rng.random((entries, 1, 1))
    scores = np.round(rng.normal(means, 0.01, (entries, datasets, seeds)), 4)
    labels, names = [f"model {i}" for i in range(entries)], [f"data{i}" for i in range(datasets)]
    runs = []
    for (entry, dataset, seed), accuracy in np.ndenumerate(scores):
        made = record(labels[entry], names[dataset], seed, float(accuracy))
        place = {"entry": labels[entry], "dataset": names[dataset], "seed": seed}
        runs.append(ReportedRun(**place, key=made.key, state="done", record=made))
    page = Study(
        name="speed",
        scale="full",
        title="Speed",
        question="",
        data=[DataSpec(name=name) for name in names],
        entries={label: Entry(model=label) for label in labels},
        seeds=list(range(seeds)),
    )
    return Request(study=page, metrics={name: ["accuracy"] for name in names}), runs


def timed(what: str, function: Callable[[], T]) -> tuple[T, float]:
    """Run it, print how long it took."""
    start = time.perf_counter()
    result = function()
    seconds = time.perf_counter() - start
    print(f"  {what:<34}{seconds:7.2f} s")
    return result, seconds


def measure(entries: int, datasets: int, seeds: int) -> None:
    """Time each step of one study's report."""
    request, runs = study(entries, datasets, seeds)
    print(f"{len(runs):,} runs: {entries} entries × {datasets} data sets × {seeds} seeds")
    texts = [run.record.model_dump_json() for run in runs if run.record]
    _, reading = timed("read records", lambda: [*map(Record.model_validate_json, texts)])
    timed("digest", lambda: inputs(request, runs))
    report, building = timed("build (with digest)", lambda: build(request, runs))
    text, _ = timed("report.json", report.model_dump_json)
    timed(f"read it back ({len(text) / 1e6:.1f} MB)", lambda: Report.model_validate_json(text))
    with tempfile.TemporaryDirectory() as folder:
        timed("write csv", lambda: write(report, runs, Path(folder), ["csv"]))
    print(f"  build / read = {building / reading:.2f}")


def command() -> None:
    """Time `bench report` in a fresh process, as often as it takes to believe it."""
    with tempfile.TemporaryDirectory() as folder:
        page, store = Path(folder, "thousands.yaml"), Path(folder, "store")
        entries = "".join(f"  M{n}: {{model: mlp, args: {{width: {64 + n}}}}}\n" for n in range(40))
        page.write_text(PAGE.format(entries=entries), encoding="utf-8")
        print("bench report of 10,000 finished runs: 40 entries × 5 data sets × 50 seeds")
        fill(Store(store), page)
        five = "md,latex,html,csv,json"
        for formats in ("json", "csv", "md", "latex", "html", five, f"{five},parquet"):
            took = []
            for _ in range(5):
                began = time.perf_counter()
                subprocess.run(
                    [*BENCH, "report", str(page), "--store", str(store), "--format", formats],
                    check=True,
                    stdout=subprocess.DEVNULL,
                )
                took.append(time.perf_counter() - began)
            low, high = min(took), max(took)
            held = verdict(median(took), 3, "s")
            print(
                f"  {formats:<31}{median(took):5.2f} s ({low:.2f} to {high:.2f}); {held}",
                flush=True,
            )


def main() -> None:
    """Time the command and each shape of study, or what is asked for."""
    if sys.argv[1:] in ([], ["command"]):
        command()
    if sys.argv[1:] == ["command"]:
        return
    build(*study(2, 1, 14))  # imports scipy, which is not what is measured
    given = [int(word) for word in sys.argv[1:]]
    for entries, datasets, seeds in [given] if given else SHAPES:
        measure(entries, datasets, seeds)


if __name__ == "__main__":
    main()
