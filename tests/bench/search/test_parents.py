"""Several parents at one search: the total is exact, whatever dies meanwhile."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest

from lightning_bench.bench.search import optuna_storage
from lightning_bench.bench.study.load import load
from tests.bench.search.running import attempts, kill, ledgers, start, tuned_page, write
from tests.commands import wait_for

PARENTS, TRIALS = 4, 16

PAGE = tuned_page(
    {"trials": TRIALS, "space": {"lr": {"float": [1e-4, 1e-2], "log": True}}},
    entries={"Slow": {"model": "tests.bench.misbehaving:slow"}},
    seeds=1,
    recipe={"epochs": 4},
)

pytestmark = pytest.mark.slow


def check(folder: Path, url: str | None) -> None:
    """Every trial once, in the store and in Optuna's storage, and none running."""
    (found,) = ledgers(folder)
    assert [trial.number for trial in found.trials] == list(range(TRIALS))
    assert [trial.state for trial in found.trials] == ["done"] * TRIALS
    assert (found.running, found.interrupted, found.untold) == (0, 0, 0)
    # Random search: the same trials as one parent would draw; none lost, none doubled.
    assert len({str(trial.params) for trial in found.trials}) == TRIALS
    keys = Counter(key for trial in found.trials for key in trial.keys)
    tried = attempts(folder)
    assert keys == dict.fromkeys(tried, 1)
    # The one in flight when its parent was killed may have been begun again, and none beside it.
    assert TRIALS <= sum(map(len, tried.values())) <= TRIALS + 1
    cell = load(str(folder / "tuned.yaml")).cells()[0]
    memory = optuna_storage.connect(url, folder / "bench-store/searches/tuned-smoke")
    study = optuna.load_study(study_name=cell.name, storage=memory)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * TRIALS
    assert [trial.params for trial in study.trials] == [trial.params for trial in found.trials]
    assert [trial.value for trial in study.trials] == [trial.value for trial in found.trials]


def over(folder: Path) -> int:
    return len(ledgers(folder)[0].trials)


def search(folder: Path, url: str | None, meanwhile: Any = None) -> None:
    """Let four parents at it, kill one with its trial in flight, and do what shall happen then."""
    write(folder, PAGE)
    options = ["--jobs", "1", *(["--storage", url] if url else [])]
    parents = [start(folder, *options) for _ in range(PARENTS)]
    try:
        wait_for(lambda: over(folder), timeout_s=300)
        kill(parents[0].pid)
        if meanwhile:
            # A trial sleeps for three seconds and more: on any machine some are still to come.
            assert over(folder) < TRIALS - PARENTS
            meanwhile()
        parents[0].communicate()
        for parent in parents[1:]:
            out, err = parent.communicate(timeout=300)
            assert parent.returncode == 0, out + err
            assert "What tuning cost" in out
    finally:
        for parent in parents:
            parent.kill()
    check(folder, url)


def test_four_parents_share_one_journal_and_one_is_killed(tmp_path: Path) -> None:
    search(tmp_path, None)


def test_four_parents_share_one_postgresql_that_restarts_while_one_is_killed(
    tmp_path: Path, postgres: Any
) -> None:
    def restart() -> None:
        for how in ("fast", "immediate"):
            postgres.stop(how)
            time.sleep(1)  # long enough for every parent to run into it
            postgres.start()

    search(tmp_path, postgres.url, restart)
