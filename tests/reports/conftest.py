"""A small factory of requests, records and runs."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lightning_bench.bench.store.record import Failure, Record
from lightning_bench.bench.study.study import Entry, Study
from lightning_bench.reports.figures import draw, fork_pool
from lightning_bench.reports.request import ReportedRun, Request
from tests.factory import ENVIRONMENT, curve, record, spec


def make_record(
    entry: str = "mlp",
    dataset: str = "digits",
    seed: int = 0,
    metrics: Mapping[str, float] | None = None,
    failure: Failure | None = None,
    **changes: Any,
) -> Record:
    """A record of a run that is done, or failed when it is given a failure."""
    metrics = dict(metrics or {})
    points = curve(metrics) if metrics else []
    own = {"metrics": metrics, "curve": points, "failure": failure}
    return record(spec(entry, dataset, seed=seed), **(own | changes))


def make_run(
    entry: str, dataset: str, seed: int, value: float | None, **changes: Any
) -> ReportedRun:
    """A finished run with this accuracy, or one of another state with none."""
    made = None if value is None else make_record(entry, dataset, seed, {"accuracy": value})
    key = spec(entry, dataset, seed=seed).key
    fields: dict[str, Any] = {
        "entry": entry,
        "dataset": dataset,
        "seed": seed,
        "key": key,
        "state": "missing" if made is None else "done",
        "record": made,
        "folder": f"runs/{key}",
    }
    return ReportedRun(**(fields | changes))


def make_request(
    labels: Sequence[str], datasets: Sequence[str] = ("digits",), **changes: Any
) -> Request:
    """A request of a study made of these entries; changes are of the study, or of the request."""
    study = {
        "name": "quickstart",
        "scale": "smoke",
        "title": "Five small networks on handwritten digits",
        "question": "Which of five architectures of one size learns digits best?",
        "command": "bench run quickstart",
        "data": [{"name": dataset} for dataset in datasets],
        "entries": {label: {"model": label} for label in labels},
        "seeds": [],
    }
    metrics = {dataset: ["accuracy"] for dataset in datasets}
    of_study, rest = _split(changes)
    fields = {"metrics": metrics, "environments": {"e" * 64: ENVIRONMENT}} | rest
    return Request(study=Study.model_validate(study | of_study), **fields)


def change(request: Request, **changes: Any) -> Request:
    """The request with other fields, its own or those of its study."""
    of_study, rest = _split(changes)
    study = request.study.model_copy(update=of_study)
    return request.model_copy(update={"study": study, **rest})


def _split(changes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of a study, and those of a request; `published` is of the request, as rows."""
    of_study = (changes.keys() & Study.model_fields.keys()) - Request.model_fields.keys()
    return (
        {name: changes[name] for name in of_study},
        {name: value for name, value in changes.items() if name not in of_study},
    )


Scores = Mapping[str, Sequence[float | None]]


def make_study(scores: Scores, dataset: str = "digits") -> tuple[Request, list[ReportedRun]]:
    """A request and its runs from accuracies by entry, one for each seed."""
    runs = [
        make_run(entry, dataset, seed, value)
        for entry, values in scores.items()
        for seed, value in enumerate(values)
    ]
    return make_request(list(scores), [dataset]), runs


def make_scores(
    means: Mapping[str, float], seeds: int, sd: float = 0.006, rng: int = 0
) -> dict[str, list[float]]:
    """Accuracies that are counts over 360 examples, with a seed effect that all entries share."""
    generator = np.random.default_rng(rng)
    shared = generator.normal(0, sd, seeds)
    return {
        entry: (
            np.round(360 * np.clip(mean + shared + generator.normal(0, sd, seeds), 0, 1)) / 360
        ).tolist()
        for entry, mean in means.items()
    }


QUICKSTART = {"MLP": 0.955, "LeNet": 0.975, "ResNet": 0.985, "ViT": 0.962, "MLP-Mixer": 0.966}


@pytest.fixture
def quickstart() -> Callable[[int], tuple[Request, list[ReportedRun]]]:
    """The quickstart study with as many seeds as asked for."""
    return lambda seeds: make_study(make_scores(QUICKSTART, seeds))


HOSTILE = "<script>alert('x')</script> & 50%_of #1 {a}^2~b\\c $d | `e` *f* [g](h) -- \"i\" ± ↑ λ 日"
DATASETS = ["digits", "cifar_10", "cifar-100", "pets", "flowers", "imagenet", "R&D <b>100%</b>"]


def make_rough() -> tuple[Request, list[ReportedRun]]:
    """A study with all that can go wrong: states, names, heads, groups, one seed, no result."""
    entries = {
        HOSTILE: Entry(group="Odd names & groups_1", model="mlp"),
        "=cmd|' /C calc'!A0": Entry(group="Odd names & groups_1", model="lenet"),
        "ResNet-152": Entry(group="Convolutional neural networks", model="resnet152"),
        "NFNet-F4+": Entry(group="Convolutional neural networks", model="nfnet"),
        "ViT-B/16": Entry(group="Transformers", model="vit"),
    }
    labels = list(entries)
    scores = make_scores({label: 0.8 + 0.02 * i for i, label in enumerate(labels)}, 10)
    runs = [
        make_run(label, dataset, seed, scores[label][seed], group=entry.group)
        for dataset in DATASETS
        for label, entry in entries.items()
        for seed in range(10)
    ]
    by_place = {(run.entry, run.dataset, run.seed): place for place, run in enumerate(runs)}

    def alter(entry: int, dataset: int, seeds: Sequence[int], **changes: Any) -> None:
        for seed in seeds:
            place = by_place[labels[entry], DATASETS[dataset], seed]
            runs[place] = runs[place].model_copy(update=changes)

    diverged = Failure(kind="divergence", message="loss is NaN at step 40", log="runs/x/log_1.txt")
    failed = make_record("resnet152", failure=diverged, cost=None)
    alter(2, 0, [3], state="failed", record=failed)
    alter(2, 1, range(10), state="failed", record=failed)
    alter(3, 1, [8, 9], state="running", record=None, reason="epoch 3 of 10")
    alter(3, 2, range(10), state="missing", record=None)
    alter(4, 2, [0], state="stale", reason="models/vit.py changed since")
    alter(4, 3, range(1, 10), state="missing", record=None)
    nan = make_record("vit", "flowers", 2, {"accuracy": float("nan")})
    alter(4, 4, [2], record=nan)
    request = make_request(
        labels,
        DATASETS,
        entries=entries,
        title="A study of R&D_1: 100% {honest}",
        question="Is <b>this</b> 50% better ± 1 ~ $2 than #3?",
        unequal=["ViT-B/16 had 2 × the batch size & 50 % more epochs."],
    )
    return request, runs


@pytest.fixture
def rough() -> tuple[Request, list[ReportedRun]]:
    return make_rough()


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    """The factory."""
    return SimpleNamespace(
        record=make_record,
        run=make_run,
        request=make_request,
        change=change,
        study=make_study,
        scores=make_scores,
        rough=make_rough,
        hostile=HOSTILE,
    )


@pytest.fixture
def canvases(monkeypatch) -> list[Any]:
    """What is drawn from now on, in this process and into no file."""
    found: list[Any] = []
    monkeypatch.setattr(fork_pool, "FEW", 99)
    monkeypatch.setattr(draw, "drawn", lambda canvas, kinds: found.append(canvas) or {})
    return found


@pytest.fixture
def alone(monkeypatch) -> None:
    """As if no thread ran beside, which in a test is pytest's own and harmless to a fork."""
    monkeypatch.setattr(fork_pool.threading, "active_count", lambda: 1)


@pytest.fixture
def wait_for_end() -> Callable[[Sequence[int]], None]:
    """Wait until all of these processes have ended; fail if they don't."""

    def alive(pid: int) -> bool:
        """Whether it is there, and not merely waiting for somebody to ask how it ended."""
        try:
            return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def wait(pids: Sequence[int]) -> None:
        deadline = time.monotonic() + 20
        while any(map(alive, pids)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, pids))

    return wait
