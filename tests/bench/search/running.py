"""`bench run` of small searches, as users start it: real processes and real training."""

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_bench.bench.search import ledger
from lightning_bench.bench.store.store import Store
from lightning_bench.bench.store.trial import Ledger
from lightning_bench.bench.study.load import load
from tests import commands
from tests.factory import study_page

SEARCH = {
    "trials": 12,
    "sampler": "random",
    "pruner": "none",
    "space": {"lr": {"float": [1e-3, 1e-1], "log": True}},
}
MLP = {"model": "mlp", "args": {"width": 16}, "space": {"args.depth": {"int": [1, 3]}}}


def tuned_page(search: Mapping[str, Any] | None = None, **changes: Any) -> str:
    """A page that searches for a learning rate and an MLP's depth."""
    page = {"entries": {"MLP": MLP}, "seeds": 2, "recipe": {"epochs": 1, "lr": 3e-3}}
    return study_page(**(page | changes), search=SEARCH | dict(search or {}))


def write(folder: Path, text: str = "", name: str = "tuned.yaml") -> None:
    (folder / name).write_text(text or tuned_page(), encoding="utf-8")


def start(folder: Path, *arguments: str, command: str = "run") -> subprocess.Popen[str]:
    return commands.start(
        command, "tuned.yaml", *arguments, cwd=folder, env=commands.TESTS_IMPORTABLE
    )


def bench(folder: Path, *arguments: str, command: str = "run", code: int = 0) -> str:
    words = (command, "tuned.yaml", *arguments)
    done = commands.bench(*words, cwd=folder, env=commands.TESTS_IMPORTABLE)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def ledgers(folder: Path, *settings: str) -> list[Ledger]:
    cells = load(str(folder / "tuned.yaml"), None, settings).cells()
    return [searched.ledger() for searched in ledger.search_folders(cells, folder / "bench-store")]


def attempts(folder: Path) -> dict[str, list[Any]]:
    """Every attempt at a trial's run, by key, oldest first."""
    store = Store(folder / "bench-store")
    newest = store.scan()
    found = {key: [*store.earlier(attempt), attempt] for key, attempt in newest.items()}
    return {
        key: tried
        for key, tried in found.items()
        if any(one.record and not one.record.spec.tested for one in tried)
        or '"tested": false' in (tried[0].folder / "spec.json").read_text(encoding="utf-8")
    }


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
