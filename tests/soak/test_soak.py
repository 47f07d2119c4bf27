"""A study of forty runs in bad weather ends as in good weather, bit for bit.

Short as CI runs it; long by hand: `BENCH_SOAK_KILLS=100 pytest tests/soak`.
"""

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from lightning_bench.bench.store.store import read_record
from tests.commands import wait_for
from tests.soak.weather import OUTAGE, Place, Weather, assert_as_calm, results

KILLS = int(os.environ.get("BENCH_SOAK_KILLS", "12"))
SEED = int(os.environ.get("BENCH_SOAK_SEED", "0"))

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """The study, run without trouble."""
    place = Place(tmp_path_factory.mktemp("calm"))
    place.finish()
    assert len(results(place.store)) == 40
    return place


def kept(place: Place) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in place.store.runs.glob("[0-9a-f]*.*/record.json")}


def test_kills_and_damages_cost_the_runs_in_flight(
    tmp_path_factory: pytest.TempPathFactory, calm: Place
) -> None:
    """Kills of workers and parents, cut checkpoints and damaged records, at random moments."""
    chance = random.Random(SEED)
    kills = storms = 0
    total = {"parent": 0, "worker": 0, "checkpoint": 0, "record": 0}
    while kills < KILLS:
        # A study that came through is begun anew.
        place = Place(tmp_path_factory.mktemp("storm"))
        weather = Weather(place, chance)
        storms += 1
        parent = weather.begin()
        while kills < KILLS and len(kept(place)) < 38:
            try:
                parent.wait(chance.uniform(0.1, 2.5))
                break
            except subprocess.TimeoutExpired:
                pass
            before = kept(place)
            if chance.random() < 0.25:
                weather.parent(parent)
                kills += 1
                after = kept(place)
                assert {path: after.get(path) for path in before} == before, "a record is gone"
                if chance.random() < 0.5:
                    weather.truncate_a_checkpoint()
                    weather.damage_a_record()
                parent = weather.begin()
            else:
                kills += weather.worker()
        parent.communicate()
        place.finish()
        assert_as_calm(place, calm, weather.hurt)
        for what, times in weather.done.items():
            total[what] += times
    assert total["parent"]
    assert total["worker"]


def test_two_parents_share_a_store_while_the_tracker_is_out(tmp_path: Path, calm: Place) -> None:
    """Weights & Biases doesn't answer; workers and one of the parents are killed meanwhile."""
    place = Place(tmp_path, OUTAGE)
    weather = Weather(place, random.Random(SEED))
    parents = [place.start("--track", "wandb"), place.start()]
    for records in (5, 12):
        wait_for(lambda records=records: len(kept(place)) >= records and weather.worker())
    wait_for(lambda: len(kept(place)) >= 20)
    parents[1].kill()
    parents[1].communicate()
    out, err = parents[0].communicate(timeout=900)
    assert parents[0].returncode == 3, out + err
    assert_as_calm(place, calm)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes; skipped where one can't be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_costs_the_runs_in_flight(small_disk: Path, calm: Place) -> None:
    """It is said in one line; with room again, the same command goes on."""
    place = Place(small_disk)
    (small_disk / "ballast").write_bytes(bytes(900_000))
    parent = place.start()
    wait_for(lambda: len(kept(place)) >= 4)
    with suppress(OSError):
        (small_disk / "more").write_bytes(bytes(2_000_000))
    out, err = parent.communicate(timeout=300)
    assert parent.returncode == 1, out + err
    assert err.count("\n") == 1, err
    assert "No space left" in err
    assert "the same command goes on" in err
    for path in kept(place):
        read_record(path)
    (small_disk / "ballast").unlink()
    (small_disk / "more").unlink(missing_ok=True)
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    place.finish()
    assert_as_calm(place, calm)


def test_a_store_that_turns_read_only_costs_the_runs_in_flight(
    small_disk: Path, calm: Place
) -> None:
    """Files that are open stay writable, as on a file system that is remounted."""
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    place = Place(small_disk)
    store = str(place.store.root)
    parent = place.start()
    wait_for(lambda: len(kept(place)) >= 4)
    # Laid over itself, since a file system with open files can't be remounted.
    subprocess.run(["mount", "--bind", store, store], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", store], check=True)
    try:
        out, err = parent.communicate(timeout=300)
        assert parent.returncode == 1, out + err
        assert err.count("\n") == 1, err
        assert "Read-only file system" in err
    finally:
        subprocess.run(["umount", "--lazy", store], check=True)
    before = kept(place)
    place.finish()
    assert {path: path.read_bytes() for path in before} == before
    assert_as_calm(place, calm)
