"""What the processes of a contender on several devices say, made one block."""

from lightning_bench.bench.measure.contender_processes import _merged
from lightning_bench.bench.measure.protocol import Taken
from lightning_bench.bench.store.measurements import Block


def taken(wall_s: float, own_cores: float, *pids: int, **facts: object) -> Taken:
    values = {"round": 3, "steps": 2, "wall_s": wall_s, "others_cores": 1.75} | facts
    processes = frozenset(pids) if pids else None
    return Taken(Block.model_validate(values), [], own_cores, processes)


def test_the_slowest_device_decides_and_ranks_are_no_strangers() -> None:
    parts = [
        taken(0.5, 0.25, device_s=0.4, clock_mhz=1980, energy_j=20.0),
        taken(0.6, 1.0, device_s=0.55, clock_mhz=1200, energy_j=30.0, throttled=["heat"]),
    ]
    block = _merged(parts, "cuda", frozenset({1, 2}), frozenset({1, 2}))
    assert (block.wall_s, block.device_s, block.clock_mhz) == (0.6, 0.55, 1200)
    assert (block.energy_j, block.throttled) == (50.0, ["heat"])
    # Of the 1.75 cores that rank 0 saw others use one was its sibling's.
    assert block.others_cores == 0.75
    assert block.foreign_processes is None


def test_a_processors_meter_counts_all_of_its_cores_once() -> None:
    parts = [taken(0.5, 1.0, energy_j=20.0), taken(0.5, 1.0, energy_j=20.5)]
    assert _merged(parts, "cpu", frozenset(), frozenset()).energy_j == 20.0


def test_foreign_processes_are_those_that_are_not_ours_and_unknown_in_a_container() -> None:
    members, own = frozenset({1, 2}), frozenset({1, 2, 3})
    seen = [taken(0.5, 1.0, 1, 3, 70), taken(0.5, 1.0, 2, 70, 71)]
    assert _merged(seen, "cuda", members, own).foreign_processes == 2
    host_pids = [taken(0.5, 1.0, 9001, 9002), taken(0.5, 1.0, 9001, 9003)]
    assert _merged(host_pids, "cuda", members, own).foreign_processes is None
