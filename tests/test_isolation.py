"""Modules of others change torch and the harness when they are imported: of nobody else's models.

By the installed command: beside models of such a file, such a module and such an installed package,
a model of ours gives what it gives alone, bit for bit.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from lightning_bench.bench.store.record import Record
from lightning_bench.bench.store.store import Store
from lightning_bench.models.registry.catalogue import COMMITTED
from tests.commands import bench

#: Leaves a word of each process that imports it; its own models survive all of it.
HOSTILE = """\
import dataclasses
import os

import torch
import torch.nn.functional as F
from torch import nn

import lightning_bench.bench.run.training as training
import lightning_bench.models.registry.flops as flops

with open(os.environ["IMPORTED"], "a") as file:
    file.write(f"{__name__} {os.getpid()}\\n")

gelu, seed_everything, reset, count = (
    F.gelu, training.seed_everything, nn.Linear.reset_parameters, flops.count
)
F.gelu = lambda x, *a, **k: gelu(x, *a, **k) * 0.5
training.seed_everything = lambda seed: seed_everything(seed + 1)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(2)


def halved(linear):
    reset(linear)
    with torch.no_grad():
        linear.weight.mul_(0.5)


def doubled(*given):
    counted = count(*given)
    return dataclasses.replace(counted, flops=2 * counted.flops)


nn.Linear.reset_parameters, flops.count = halved, doubled


def make(*, channels: int = 1, image_size: int = 8, classes: int = 10, width: int = 4) -> nn.Module:
    body = nn.Linear(channels * image_size**2, width)
    model = nn.Sequential(nn.Flatten(), body, nn.GELU(), nn.Linear(width, classes))
    return model.to(torch.float32)
"""
MIXER = {"patch": 2, "width": 8, "depth": 1, "token_width": 8, "channel_width": 8}
OURS = {"Mixer": {"model": "mixer", "args": MIXER}}
OTHERS = {
    "Module": {"model": "hostile:make"},
    "File": {"model": "nets/hostile_file.py:make"},
    "Package": {"model": "installed-net"},
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a module, a file and an installed package, all of them hostile."""
    (tmp_path / "nets").mkdir()
    info = tmp_path / "site" / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[lightning_bench.models]\ninstalled-net = acme_nets:make\n"
    )
    (tmp_path / "site" / "acme_nets.py").write_text(HOSTILE)
    (tmp_path / "hostile.py").write_text(HOSTILE)
    (tmp_path / "nets" / "hostile_file.py").write_text(HOSTILE)
    return tmp_path


def told(project: Path, *words: str, code: int = 0) -> str:
    """What `bench` prints, the package being installed."""
    environment = {
        "PYTHONPATH": str(project / "site"),
        "BENCH_CACHE": str(project / "cache"),
        "IMPORTED": str(project / "imported"),
    }
    done = bench(*words, cwd=project, env=environment)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def write_page(project: Path, entries: Mapping[str, Any], **changes: Any) -> str:
    """A page that trains these entries for two epochs; its name."""
    page = {
        "title": "t",
        "question": "q",
        "data": ["digits"],
        "entries": entries,
        "seeds": 1,
        "recipe": {"epochs": 2},
        **changes,
        "scales": {"smoke": {}},
    }
    (project / "page.yaml").write_text(yaml.safe_dump(page, sort_keys=False))
    return "page.yaml"


def processes(project: Path) -> list[str]:
    """The processes that imported a hostile module; none did two."""
    lines = (project / "imported").read_text().splitlines()
    found = [line.split()[1] for line in lines]
    assert len(found) == len(set(found)), lines
    return found


def results(project: Path, store: str) -> dict[str, Record]:
    """The records of a store by model."""
    attempts = Store(project / store).scan().values()
    records = [attempt.record for attempt in attempts if attempt.record]
    return {f"{record.spec.model.name} {record.key}": record for record in records}


def test_a_run_is_as_if_it_were_alone(project: Path) -> None:
    told(project, "run", write_page(project, OURS), "--jobs", "1", "--store", "alone")
    assert not (project / "imported").exists()
    page = write_page(project, {**OTHERS, **OURS})
    told(project, "run", page, "--jobs", "1", "--store", "beside")
    beside = results(project, "beside")
    # Once for its facts, once for its run; modules and files are tried on the data before, too.
    assert len(beside) == 4
    assert len(processes(project)) == 3 + 3 + 2
    for name, alone in results(project, "alone").items():
        same = beside[name]
        assert same.metrics == alone.metrics
        assert same.predictions == alone.predictions
        assert same.curve == alone.curve
        assert same.cost
        assert alone.cost
        assert same.cost.parameters == alone.cost.parameters


@pytest.mark.slow
def test_a_search_is_as_if_it_were_alone(project: Path) -> None:
    space = {"lr": {"float": [1e-4, 1e-2], "log": True}}
    search = {"search": {"trials": 2, "sampler": "random", "space": space}}
    page = write_page(project, OURS, **search)
    told(project, "run", page, "--jobs", "1", "--store", "alone")
    page = write_page(project, {**OTHERS, **OURS}, **search)
    told(project, "run", page, "--jobs", "1", "--store", "beside")
    beside = results(project, "beside")
    alone = results(project, "alone")
    assert len(alone) == 3
    for name, record in alone.items():
        assert (beside[name].metrics, beside[name].curve) == (record.metrics, record.curve)


def counted(project: Path, *words: str) -> dict[str, Any]:
    """The row of the mixer in what `bench measure` prints as JSON."""
    tables = json.loads(told(project, "measure", *words, "--format", "json"))
    rows = [row for table in tables for row in table.get("rows", [])]
    return next(row for row in rows if row["label"] == "mixer-s32")


@pytest.mark.slow
def test_counts_are_as_if_they_were_alone(project: Path) -> None:
    models = [entry["model"] for entry in OTHERS.values()]
    alone = counted(project, "--mode", "count", "mixer-s32")
    assert counted(project, "--mode", "count", *models, "mixer-s32") == alone
    described = json.loads(told(project, "describe", "mixer-s32", "--format", "json"))
    known = json.loads(COMMITTED.read_text())["variants"]["mixer-s32"]
    assert [described[0][name] for name in ("parameters", "flops")] == [
        known[name] for name in ("parameters", "flops")
    ]
    assert processes(project)
    # A report of counts alone trains nothing, and asks for all counts at once.
    entries = {"S": OURS["Mixer"]}
    told(project, "report", write_page(project, entries, seeds=[]), "--store", "alone")
    told(project, "report", write_page(project, {**OTHERS, **entries}, seeds=[]), "--store", "all")
    found = []
    for store in ("alone", "all"):
        path = project / store / "reports" / "page-smoke" / "report.json"
        report = json.loads(path.read_text())
        rows = [row for table in report["tables"] for row in table["rows"]]
        found.append(next(row["cells"] for row in rows if row["label"] == "S"))
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_measurement_is_as_if_it_were_alone(project: Path) -> None:
    models = [entry["model"] for entry in OTHERS.values()]

    def counts(*words: str, code: int = 0) -> Mapping[str, Any]:
        told(project, "measure", *words, "lenet", "--quick", "--store", "store", code=code)
        newest = max((project / "store" / "measurements").glob("*.json"))
        measured = json.loads(newest.read_text())["record"]["measurements"]
        return next(m["counts"] for m in measured if m["contender"]["label"] == "lenet")

    # The others fail by their own torch of 64 bits.
    assert counts() == counts(*models, code=3)
