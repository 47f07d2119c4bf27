"""The store under kills, damage and competition."""

import json
import math
import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.store.record import Curve, Environment, Epoch, Example, Examples, Record
from lightning_bench.bench.store.store import AttemptTaken, Damaged, Store, read_record
from lightning_bench.common.files import write_atomically
from tests.factory import SPEC, record


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def finish(store: Store, attempt: int = 1) -> Path:
    with store.claim(SPEC, attempt) as folder:
        store.write_record(folder, record(attempt=attempt))
    return folder / "record.json"


def test_an_absent_store_is_an_empty_one(store: Store) -> None:
    assert store.scan() == {}
    assert not store.root.exists()


def test_a_record_comes_back_as_it_went_in(store: Store) -> None:
    finish(store)
    found = store.scan()[SPEC.key]
    assert found.state == "recorded"
    assert found.record == record()


def test_examples_are_kept_once_and_damaged_ones_are_none(store: Store) -> None:
    made = []

    def make() -> Examples:
        made.append(Examples(shown=[Example(label="a", texts=["b"])]))
        return made[-1]

    assert store.read_examples("f" * 64) is None
    for _ in range(2):
        store.write_examples("f" * 64, make)
    assert len(made) == 1
    assert store.read_examples("f" * 64) == made[0]
    next(store.root.rglob("ffff*")).write_text("half", encoding="utf-8")
    assert store.read_examples("f" * 64) is None


def test_the_newest_attempt_counts(store: Store) -> None:
    finish(store, 1)
    finish(store, 2)
    assert store.scan([SPEC.key])[SPEC.key].number == 2
    assert store.scan(["0" * 20]) == {}


def test_a_deleted_attempt_hides_none_of_the_later_ones(store: Store) -> None:
    for number in (1, 2, 3):
        finish(store, number)
    shutil.rmtree(store.folder(SPEC.key, 2))
    newest = store.newest(SPEC.key)
    assert newest == store.scan()[SPEC.key]
    assert newest is not None
    assert [attempt.number for attempt in store.earlier(newest)] == [1]
    assert store.newest("0" * 20) is None


def test_running_and_interrupted_are_told_by_the_lock(store: Store) -> None:
    with store.claim(SPEC, 1):
        assert store.scan()[SPEC.key].state == "running"
    assert store.scan()[SPEC.key].state == "interrupted"


def test_an_attempt_is_given_once(store: Store) -> None:
    with store.claim(SPEC, 1), pytest.raises(AttemptTaken), store.claim(SPEC, 1):
        pass
    with pytest.raises(AttemptTaken), store.claim(SPEC, 1):
        pass
    # The loser's half-made folder is gone.
    assert [path.name for path in store.runs.iterdir()] == [f"{SPEC.key}.1"]


def test_every_truncation_is_noticed(store: Store) -> None:
    path = finish(store)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        found = store.scan()[SPEC.key]
        assert found.state == "damaged", length
        assert found.problem
    path.write_bytes(whole)
    assert store.scan()[SPEC.key].state == "recorded"


@given(st.data())
@settings(max_examples=200)
def test_every_changed_byte_is_noticed(tmp_path_factory, data: st.DataObject) -> None:
    store = Store(tmp_path_factory.mktemp("store"))
    path = finish(store)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(Damaged):
        read_record(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "not a record"), (b"{}", "not a record"), (b'{"sha256":"', "cut short")],
)
def test_damage_is_named(store: Store, content: bytes, says: str) -> None:
    path = finish(store)
    path.write_bytes(content)
    assert says in store.scan()[SPEC.key].problem


def test_a_record_of_another_schema_or_run_is_not_trusted(store: Store) -> None:
    path = finish(store)
    other = SPEC.model_copy(update={"seed": 9})
    store.write_record(path.parent, record(other))
    assert store.scan()[SPEC.key].problem == f"it is attempt 1 of run {other.key}"
    later = record().model_construct(**{**record().__dict__, "schema_version": 99, "status": 7})
    store.write_record(path.parent, later)
    assert store.scan()[SPEC.key].problem == "schema 99, this bench reads 1"


def test_a_damaged_record_is_set_aside_and_kept(store: Store) -> None:
    finish(store).write_bytes(b"half")
    aside = store.set_aside(store.scan()[SPEC.key])
    assert aside.name == "record.json.damaged"
    assert aside.read_bytes() == b"half"
    assert store.scan()[SPEC.key].state == "interrupted"


def test_strangers_in_the_folder_are_left_alone(store: Store) -> None:
    finish(store)
    (store.runs / "notes.txt").write_text("mine")
    (store.runs / ".half").mkdir()
    (store.runs / "x.y").mkdir()
    assert list(store.scan()) == [SPEC.key]


def test_environments_are_shared(store: Store) -> None:
    environment = Environment(
        python="3", platform="p", cpu="c", cores=2, memory_bytes=1, packages={"torch": "2"}
    )
    store.prepare()
    first, second = store.write_environment(environment), store.write_environment(environment)
    assert first == second
    assert store.read_environment(first) == environment
    assert store.read_environment("gone") is None


def test_a_store_that_can_not_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="can't be written: Not a directory; name another"):
        Store(tmp_path / "file" / "store").prepare()


def test_an_atomic_write_leaves_the_old_file_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, ["not bytes"])  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def _race(root: Path, barrier: object, won: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    for seed in range(20):
        spec = SPEC.model_copy(update={"seed": seed})
        try:
            with Store(root).claim(spec, 1) as folder:
                Store(root).write_record(folder, record(spec))
                won.put(seed)  # type: ignore[attr-defined]
        except AttemptTaken:
            pass


def test_of_many_processes_each_attempt_is_won_once(store: Store) -> None:
    context = multiprocessing.get_context("fork")
    barrier, won = context.Barrier(4), context.Queue()
    racers = [
        context.Process(target=_race, args=(store.root, barrier, won))
        for _ in range(barrier.parties)
    ]
    for racer in racers:
        racer.start()
    winners = sorted(won.get(timeout=60) for _ in range(20))
    for racer in racers:
        racer.join()
    assert winners == list(range(20))
    assert won.empty()
    assert {attempt.state for attempt in store.scan().values()} == {"recorded"}


def _write_for_ever(root: Path) -> None:
    store = Store(root)
    attempt = 0
    while True:
        for seed in range(5):
            spec = SPEC.model_copy(update={"seed": seed})
            found = store.scan([spec.key]).get(spec.key)
            attempt = found.number + 1 if found else 1
            with store.claim(spec, attempt) as folder:
                store.write_record(folder, record(spec, attempt))


def test_kill_9_at_any_moment_leaves_it_readable(store: Store) -> None:
    """Whatever moment the writer dies at, a reader sees whole records or none, never damage."""
    context = multiprocessing.get_context("fork")
    store.prepare()
    for round_ in range(25):
        writer = context.Process(target=_write_for_ever, args=(store.root,))
        writer.start()
        time.sleep(0.002 + 0.003 * round_)
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
        states = {attempt.state for attempt in store.scan().values()}
        assert states <= {"recorded", "interrupted"}
    assert store.scan()


def test_a_record_keeps_numbers_that_json_has_not(store: Store) -> None:
    """A correlation with a constant is no number, and a perplexity may be too large for one."""
    point = Epoch(epoch=1, step=1, train_loss=1.0, val_loss=math.inf, metrics={"pearson": math.nan})
    odd = record(curve=Curve.of([point]), metrics={"pearson": math.nan, "loss": math.inf})
    with store.claim(odd.spec, 1) as folder:
        store.write_record(folder, odd)
    found = store.read(odd.key, 1).record
    assert found is not None
    assert found.curve[0].val_loss == found.metrics["loss"] == math.inf
    assert math.isnan(found.curve[0].metrics["pearson"])
    assert math.isnan(found.metrics["pearson"])
    assert Epoch.model_validate_json(point.model_dump_json()).val_loss == math.inf


def test_a_curve_is_its_points_however_it_was_written() -> None:
    """Earlier records have a point an epoch; a metric need not be in all."""
    points = [
        Epoch(epoch=1, step=10, train_loss=2.0, metrics={"a": 0.5}),
        Epoch(epoch=2, step=20, train_loss=1.0, val_loss=1.5, metrics={"a": 0.6, "b": 3.0}),
    ]
    columns = record(curve=Curve.of(points))
    payload = json.loads(columns.model_dump_json())
    earlier = payload | {"curve": [json.loads(point.model_dump_json()) for point in points]}
    for text in (json.dumps(payload), json.dumps(earlier)):
        found = Record.model_validate_json(text).curve
        assert found == columns.curve
        assert list(found) == points
        assert (found[-1], found[:1], len(found)) == (points[1], points[:1], 2)
    assert not record().curve
