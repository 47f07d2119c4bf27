"""A study of forty runs, what hurts it, and how its store is held against that of a calm one."""

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Damaged, Store, read_record
from tests.commands import TESTS_IMPORTABLE, lock_holders, start, wait_for

PAGE = """\
title: Forty runs
question: Does the weather change the table?
data: [digits]
entries:
  MLP: {model: mlp, args: {width: 32}, recipe: {epochs: 80}}
  LeNet: {model: lenet, recipe: {epochs: 24}}
  ViT:
    model: vit
    args: {patch: 4, width: 16, depth: 1, heads: 2, hidden: 32, dropout: 0.2}
    recipe: {epochs: 20, crop: 1}
  Diverges: {model: "tests.bench.misbehaving:not_a_number"}
  Too large: {model: "tests.bench.misbehaving:out_of_memory"}
seeds: 8
recipe: {epochs: 2, lr: 3e-3}
scales: {smoke: {}}
"""
#: `bench run` where two entries never give a result.
RUNS_FAILED = 3
#: Where a mirror is to look for Weights & Biases, and nobody answers.
OUTAGE = {
    "WANDB_API_KEY": "0" * 40,
    "WANDB_BASE_URL": "http://127.0.0.1:9",
    "WANDB_SILENT": "true",
}


@dataclass
class Place:
    """A folder with the study's page, and a store in it."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "forty.yaml").write_text(PAGE, encoding="utf-8")

    @property
    def store(self) -> Store:
        return Store(self.folder / "bench-store")

    def start(self, *options: str) -> subprocess.Popen[str]:
        """A parent in a session of its own; a checkpoint whenever one can be written."""
        always = ("--jobs", "2", "--checkpoint-minutes", "0.01")
        environment = TESTS_IMPORTABLE | self.environment
        return start("run", "forty.yaml", *always, *options, cwd=self.folder, env=environment)

    def finish(self, *options: str) -> str:
        """Run what is left, to the end."""
        parent = self.start(*options)
        out, err = parent.communicate(timeout=900)
        assert parent.returncode == RUNS_FAILED, out + err
        return out

    def locks(self) -> list[Path]:
        """Those of attempts without a record."""
        runs = self.store.runs.glob("[0-9a-f]*.*")
        return [run / "lock" for run in runs if not (run / "record.json").exists()]

    def workers(self) -> list[int]:
        """The processes that hold an attempt."""
        return [pid for lock in self.locks() for pid in lock_holders(lock)]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Weather:
    """Kills, cuts and damages at random, and remembers what it did."""

    place: Place
    chance: random.Random
    done: Counter[str] = field(default_factory=Counter)
    hurt: set[str] = field(default_factory=set)  # keys whose record was damaged

    def begin(self) -> subprocess.Popen[str]:
        """Start a parent; mostly wait until it has work under way, since to start takes seconds."""
        process = self.place.start()
        if self.chance.random() < 0.8:
            wait_for(lambda: self.place.workers() or process.poll() is not None)
        return process

    def parent(self, process: subprocess.Popen[str]) -> None:
        """Kill the parent; its workers have to follow by themselves."""
        kill(process.pid)
        process.communicate()
        self.done["parent"] += 1
        deadline = time.monotonic() + 20
        while self.place.workers():
            assert time.monotonic() < deadline, "workers outlive their parent"
            time.sleep(0.05)

    def worker(self) -> bool:
        """Kill a worker, if there is one."""
        workers = self.place.workers()
        if workers:
            kill(self.chance.choice(workers))
            self.done["worker"] += 1
        return bool(workers)

    def truncate_a_checkpoint(self) -> None:
        """Cut the newest checkpoint of an attempt that nobody holds."""
        left = [lock.parent for lock in self.place.locks() if not lock_holders(lock)]
        found = [max(f) for run in left if (f := list((run / "checkpoints").glob("[0-9]*.pt")))]
        if found:
            path = self.chance.choice(found)
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
            self.done["checkpoint"] += 1

    def damage_a_record(self) -> None:
        """Change one byte of a record."""
        found = sorted(self.place.store.runs.glob("[0-9a-f]*.*/record.json"))
        if found:
            path = self.chance.choice(found)
            content = bytearray(path.read_bytes())
            content[self.chance.randrange(len(content))] ^= 0x55
            path.write_bytes(content)
            self.hurt.add(path.parent.name.partition(".")[0])
            self.done["record"] += 1


def results(store: Store) -> dict[str, list[Record]]:
    """Every readable record by key, the newest last."""
    found: dict[str, list[tuple[int, Record]]] = {}
    for key, number in store.attempts():
        try:
            record = read_record(store.folder(key, number) / "record.json")
        except (OSError, Damaged):
            continue
        found.setdefault(key, []).append((number, record))
    return {key: [record for _, record in sorted(of, key=_number)] for key, of in found.items()}


def _number(pair: tuple[int, Record]) -> int:
    return pair[0]


def final(records: list[Record]) -> list[Record]:
    """Those that a run ends with: not lost on the way."""
    return [r for r in records if r.failure is None or r.failure.kind != "infrastructure"]


def told(record: Record) -> dict[str, Any]:
    """What a record says of the run itself, and not of the time and place."""
    return {
        "status": record.status,
        "metrics": record.metrics,
        "scored": record.scored,
        "curve": [epoch.model_dump_json() for epoch in record.curve],
        "predictions": record.predictions,
        "data": record.data,
        "failure": record.failure and record.failure.kind,
    }


def table(place: Place) -> list[Any]:
    """The report's results and comparisons, to the last bit."""
    (path,) = place.store.root.glob("reports/*/report.json")
    report = json.loads(path.read_text(encoding="utf-8"))
    (results,) = (each for each in report["tables"] if each["id"] == "results")
    return [results["rows"], report["comparisons"], report["examples"]]


def assert_as_calm(place: Place, calm: Place, hurt: Collection[str] = ()) -> None:
    """Nothing lost, nothing twice, nothing different, nobody left."""
    ours, theirs = results(place.store), results(calm.store)
    assert ours.keys() == theirs.keys()
    for key, records in ours.items():
        last = final(records)
        assert len(last) == 1 or (key in hurt and last), f"{key} ran {len(last)} times"
        assert told(last[-1]) == told(final(theirs[key])[0]), key
    assert table(place) == table(calm)
    assert not place.workers()
