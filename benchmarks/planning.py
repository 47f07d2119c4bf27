"""What planning and collecting ten thousand runs costs; ratios measured in one run.

    python -m benchmarks.planning            about a minute

Prints (1) `bench plan` of 10,000 runs on an empty store and on one that holds all their records,
and (2) reading and verifying the 10,000 records, beside a bare `json.loads` of the same files.
Targets: 2 s for a plan, 3 s for collecting.
"""

import gc
import hashlib
import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks.common import BENCH, verdict
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.store.record import Cost, DataFacts, Epoch, Provenance, Record
from lightning_bench.bench.store.store import PREDICTIONS, Store
from lightning_bench.bench.study.load import load

PAGE = """\
title: Ten thousand
question: How long does a plan take?
data: [digits]
entries:
{entries}
seeds: 250
recipe: {{epochs: 30}}
scales: {{smoke: {{}}}}
"""


def fill(store: Store, page: Path) -> None:
    """Put a finished record of every run into the store, with a curve of 30 epochs, and a file of
    predictions."""
    store.prepare()
    predictions = bytes(400)
    digest = hashlib.sha256(predictions).hexdigest()
    for number, run in enumerate(load(str(page)).runs()):
        metrics = {"accuracy": 0.9 + number % 97 / 1000}
        record = Record(
            key=run.key,
            attempt=1,
            status="done",
            spec=run.spec,
            started="2026-01-01T00:00:00.000+00:00",
            ended="2026-01-01T00:00:09.000+00:00",
            metrics=metrics,
            scored=359,
            curve=[
                Epoch(epoch=e, step=16 * e, train_loss=1 / e, val_loss=1 / e, metrics=metrics)
                for e in range(1, 31)
            ],
            cost=Cost(
                parameters=20_000, trainable_parameters=20_000, train_s=1.5, total_s=2.0,
                device_h=2 / 3600, train_examples_per_s=20_000, peak_memory_bytes=600_000_000,
            ),
            data=DataFacts(fingerprint="0" * 64, train=1079, val=359, test=359),
            predictions=digest,
            provenance=Provenance(
                environment=None, sources=dict(source_digests.of_run(run.spec)), command=["bench"],
                bench_version="0", git_revision="0" * 40, git_dirty=False, host="h",
                device="cpu", devices=1, threads=1,
            ),
        )  # fmt: skip
        folder = store.folder(run.key, 1)
        folder.mkdir()
        (folder / PREDICTIONS).write_bytes(predictions)
        store.write_record(folder, record)


def seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """The median time of some work."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return median(times)


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        page = folder / "many.yaml"
        labels = [f"  E{i}: {{model: mlp, args: {{width: {i + 8}}}}}" for i in range(40)]
        page.write_text(PAGE.format(entries="\n".join(labels)), encoding="utf-8")
        store = Store(folder / "store")

        def plan() -> None:
            command = [*BENCH, "plan", str(page), "--store", str(store.root)]
            subprocess.run(command, check=True, capture_output=True)

        empty = seconds(plan)
        print(f"plan of 10,000 runs, empty store: {empty:.2f} s; {verdict(empty, 2, 's')}")
        fill(store, page)
        full = seconds(plan)
        print(f"plan of 10,000 runs, all recorded: {full:.2f} s; {verdict(full, 2, 's')}")
        gc.set_threshold(100_000, 50, 1000)  # as the command line does
        paths = list(store.runs.glob("*/record.json"))
        collected = seconds(lambda: store.scan())
        bare = seconds(lambda: [json.loads(path.read_bytes()) for path in paths])
        print(
            f"collecting 10,000 records: {collected:.2f} s; bare json.loads {bare:.2f} s; "
            f"ratio {collected / bare:.2f}; {verdict(collected, 3, 's')}"
        )


if __name__ == "__main__":
    main()
