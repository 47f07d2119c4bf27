"""Runs found by name, their logs, status with earlier attempts, and asking them to end."""

import fcntl
import json
from pathlib import Path

import pytest

from lightning_bench.bench.cli.app import run
from lightning_bench.bench.cli.find_run import find
from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan import source_digests
from lightning_bench.bench.spec import RunSpec
from lightning_bench.bench.store.store import Store
from tests.commands import start
from tests.factory import failure, record, spec, study_page, with_provenance

WIDE, NARROW = ({"model": "mlp", "args": {"width": width}} for width in (16, 8))
PAGE = study_page(entries={"Wide": WIDE, "Narrow": NARROW}, seeds=2)


def mlp(width: int, seed: int) -> RunSpec:
    return spec(args={"width": width}, seed=seed)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Two attempts at the first run, of which the first failed, and one at another."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.yaml").write_text(PAGE, encoding="utf-8")
    store = Store(tmp_path / "bench-store")
    lost = failure("infrastructure", "was killed by SIGKILL", "runs/x/log.txt")
    for number, cause in ((1, lost), (2, None)):
        with store.claim(mlp(16, 0), number) as folder:
            (folder / "log.txt").write_text(f"attempt {number}\n", encoding="utf-8")
            store.write_record(folder, record(mlp(16, 0), number, cause))
    with store.claim(mlp(8, 1), 1) as folder:
        store.write_record(folder, record(mlp(8, 1)))
    return store


def test_a_run_is_found_by_key_or_words(store: Store) -> None:
    assert find(store, mlp(16, 0).key[:6]) == mlp(16, 0).key
    assert find(store, "mlp/digits/0") == find(store, "0 MLP") == mlp(16, 0).key
    with pytest.raises(UserError, match=r"'mlp' matches 2 runs: .*mlp/digits/.*give more words"):
        find(store, "mlp")
    with pytest.raises(UserError, match="no run is called 'mpl/digits/0'; did you mean 'mlp/dig"):
        find(store, "mpl/digits/0")
    with pytest.raises(UserError, match="has no run yet"):
        find(Store(store.root / "nowhere"), "mlp")


def test_logs_of_the_newest_attempt_or_of_any(store: Store, capsys) -> None:
    assert run(["logs", "narrow/1", "--study", "page.yaml"]) == 2
    assert "has printed nothing" in capsys.readouterr().err
    assert run(["logs", "Wide digits 0", "--study", "page.yaml"]) == 0
    out, err = capsys.readouterr()
    assert out == "attempt 2\n"
    assert err.endswith(f"{mlp(16, 0).key}.2/log.txt\n")
    assert run(["logs", "mlp/0", "--attempt", "1", "--follow"]) == 0
    assert capsys.readouterr().out == "attempt 1\n"
    assert run(["logs", "mlp/0", "--attempt", "7"]) == 2
    assert "has no attempt 7; there is 1, 2" in capsys.readouterr().err


def test_a_character_that_is_written_in_two_parts_is_followed_as_one(store: Store) -> None:
    run, text = mlp(16, 1), "café\n".encode()
    with store.claim(run, 1) as folder, (folder / "log.txt").open("wb", buffering=0) as log:
        follower = start("logs", run.key, "--follow", cwd=store.root.parent)
        log.write(text[:4])
        assert follower.stdout is not None
        assert follower.stdout.read(3) == "caf"  # it has read the first byte of the fourth
        log.write(text[4:])
        store.write_record(folder, record(run))
    out, err = follower.communicate(timeout=60)
    assert (follower.returncode, out) == (0, "é\n"), err


def test_status_lists_earlier_attempts_with_cause_and_log(store: Store, capsys) -> None:
    assert run(["status", "page.yaml"]) == 0
    out = capsys.readouterr().out
    assert "Wide, digits, seed 0: attempt 1 failed, it was tried again: infrastructure" in out
    assert "bench-store/runs/x/log.txt" in out


def test_watching_a_study_ends_when_it_is_over(store: Store, capsys) -> None:
    for width, seed in ((16, 1), (8, 0)):
        with store.claim(mlp(width, seed), 1) as folder:
            store.write_record(folder, record(mlp(width, seed)))
    # As the sources behind the made-up records are none of today's, only failed runs are over.
    for width, seed in ((16, 0), (16, 1), (8, 0), (8, 1)):
        number = 1 + max(n for key, n in store.attempts() if key == mlp(width, seed).key)
        with store.claim(mlp(width, seed), number) as folder:
            made = record(mlp(width, seed), number, failure())
            today = dict(source_digests.of_run(mlp(width, seed)))
            store.write_record(folder, with_provenance(made, sources=today))
    assert run(["status", "page.yaml", "--watch"]) == 0
    assert capsys.readouterr().out == "page (smoke): 4 runs: 4 failed\n"


def test_cancelling_asks_what_runs_and_tells_the_parents(store: Store, capsys) -> None:
    before = store.cancellation("page-smoke")
    with store.claim(mlp(16, 1), 1) as folder:
        assert run(["cancel", "page.yaml"]) == 0
        assert store.requested(folder) == "stop"
    assert capsys.readouterr().out == "asked 1 run to leave a checkpoint and end\n"
    assert store.cancellation("page-smoke") != before

    with (store.folder(mlp(8, 1).key, 1) / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a lock, but a record: it has ended
        assert run(["cancel", mlp(8, 1).key]) == 0
    assert capsys.readouterr().out == f"nothing of {mlp(8, 1).key} is running\n"
    assert store.requested(store.folder(mlp(8, 1).key, 1)) is None


def test_plan_says_once_that_a_store_is_of_version_0_1(
    tmp_path: Path, store: Store, capsys
) -> None:
    assert run(["plan", "page.yaml"]) == 0
    assert "0.1" not in capsys.readouterr().out
    for width, seed, number in ((16, 0, 3), (8, 1, 2)):
        old = with_provenance(record(mlp(width, seed), number), sources={"bench/standing.py": "1"})
        with store.claim(mlp(width, seed), number) as folder:
            store.write_record(folder, old)
    assert run(["plan", "page.yaml"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.startswith("2 runs were made by version 0.1")]) == 1
    assert run(["plan", "page.yaml", "--format", "json"]) == 0
    reasons = [row["reason"] for row in json.loads(capsys.readouterr().out)]
    assert reasons.count("made by version 0.1, before the code was rearranged") == 2
