"""Where Optuna keeps its studies: the journal's lock, PostgreSQL, and what is refused."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.search import optuna_storage
from tests.bench.search.conftest import Postgres

HOLD = """\
import fcntl, sys, time
lock = open(sys.argv[1] + ".flock", "a")
fcntl.flock(lock, fcntl.LOCK_EX)
with open(sys.argv[1], "ab") as stream:
    stream.write(b'{"op_code":4,"half')
print("held", flush=True)
time.sleep(60)
"""


def test_a_killed_holder_keeps_nobody_waiting_and_its_half_line_is_cut_off(tmp_path: Path) -> None:
    import optuna

    opened = optuna_storage.connect(None, tmp_path)
    study = optuna.create_study(storage=opened, study_name="s")
    study.tell(study.ask(), 1.0)
    journal = tmp_path / optuna_storage.JOURNAL
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(journal)], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    assert holder.stdout.readline() == "held\n"
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    began = time.monotonic()
    study.tell(study.ask(), 2.0)
    assert time.monotonic() - began < 5  # Optuna's own lock takes 30 s
    lines = journal.read_bytes().splitlines()
    assert all(json.loads(line) for line in lines)
    again = optuna.load_study(storage=optuna_storage.connect(None, tmp_path), study_name="s")
    assert [trial.value for trial in again.trials] == [1.0, 2.0]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///x.db", "SQLite hands one trial to two workers"),
        ("mysql://u:secret@h/d", "--storage mysql: valid: postgresql://"),
        ("postgres://u:secret@h/d", "--storage postgres: did you mean 'postgresql'"),
        ("secret.db", "--storage without ://: valid: postgresql"),
        ("postgresql://u:secret@h:port/d", "not an address of user@host:port/database"),
        ("postgresql://u:secret@127.0.0.1:1/d", r"127.0.0.1:1/d can't be used: .*refused"),
    ],
)
def test_what_cannot_be_used_is_one_line_without_the_password(
    tmp_path: Path, url: str, says: str
) -> None:
    if url.startswith("postgresql"):
        pytest.importorskip("psycopg")
    with pytest.raises(UserError, match=says) as caught:
        optuna_storage.connect(url, tmp_path)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_database_that_stays_away_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from sqlalchemy.exc import OperationalError

    monkeypatch.setattr(optuna_storage, "PATIENCE_S", 0.5)
    calls = []

    def work() -> None:
        calls.append(1)
        raise OperationalError("SELECT 1", {}, Exception("server closed the connection"))

    with pytest.raises(ConnectionError, match="has been away for"):
        optuna_storage.retry_until_back(work)
    assert len(calls) > 1


MEET = """\
import sys, time
import optuna, psycopg, sqlalchemy
from pathlib import Path
from lightning_bench.bench.search import optuna_storage as storage
print("ready", flush=True)
sys.stdin.readline()
print(len(storage.connect(sys.argv[1], Path(".")).get_all_studies()), flush=True)
"""


@pytest.mark.slow
def test_parents_that_find_a_new_database_at_once_all_get_it(postgres: Postgres) -> None:
    import psycopg

    parents = 6
    names = [f"new{number}" for number in range(3)]
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        for name in names:
            connection.execute(f"create database {name}")
    for name in names:
        url = postgres.url.replace("/postgres", f"/{name}")
        started = [
            subprocess.Popen([sys.executable, "-c", MEET, url], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(parents)
        ]  # fmt: skip
        for parent in started:
            assert parent.stdout
            assert parent.stdout.readline() == "ready\n"
        for parent in started:
            assert parent.stdin
            parent.stdin.write("\n")
            parent.stdin.flush()
        for parent in started:
            out, err = parent.communicate(timeout=120)
            assert out == "0\n", err
