"""When the warm-up ends, how long a block is, and whose turn it is."""

from collections.abc import Iterable, Iterator

import pytest

from lightning_bench.bench.measure import warm_up as warm_up_module
from lightning_bench.bench.measure.clock import Timing
from lightning_bench.bench.measure.warm_up import (
    CAREFUL,
    LEAST_ROUNDS,
    Pace,
    turns,
    warm_up,
)


class Told:
    """A clock whose times are given; it lets the wall clock run as fast."""

    def __init__(self, times: Iterable[float], monkeypatch: pytest.MonkeyPatch) -> None:
        self.times: Iterator[float] = iter(times)
        self.now = 0.0
        monkeypatch.setattr(warm_up_module.time, "perf_counter", lambda: self.now)

    def time(self, step: object, steps: int) -> Timing:
        took = next(self.times)
        self.now += took
        return Timing(took)

    def wait(self) -> None:
        raise AssertionError("a warm-up step is synchronised by its timing")


def falling(start: float, end: float, rate: float) -> Iterator[float]:
    value = start - end
    while True:
        yield end + value
        value *= rate


def test_a_steady_model_is_warm_after_ten_steps_and_three_seconds(monkeypatch):
    slow, _ = warm_up(print, Told(iter([0.5] * 99), monkeypatch), CAREFUL)
    assert (slow.steps, slow.settled) == (10, True)
    fast, step_s = warm_up(print, Told(iter([0.1] * 99), monkeypatch), CAREFUL)
    assert fast.steps == pytest.approx(30, abs=1)
    assert fast.seconds >= 3
    assert step_s == pytest.approx(0.1)


def test_a_model_that_still_speeds_up_is_not_warm(monkeypatch):
    warmed, step_s = warm_up(print, Told(falling(2.0, 0.1, 0.95), monkeypatch), CAREFUL)
    assert warmed.settled
    assert warmed.steps > 60
    assert step_s == pytest.approx(0.1, rel=0.05)


def test_what_never_settles_is_given_up_and_says_so(monkeypatch):
    restless = (0.1 * 1.2**i for i in range(999))
    warmed, _ = warm_up(print, Told(restless, monkeypatch), CAREFUL)
    assert not warmed.settled
    assert warmed.seconds >= CAREFUL.most_s


def test_several_devices_stop_together(monkeypatch):
    votes = []

    def agree(mine: bool) -> bool:
        votes.append(mine)
        return mine and len(votes) > 25

    warmed, _ = warm_up(print, Told(iter([0.5] * 99), monkeypatch), CAREFUL, agree)
    assert warmed.steps == 26


def test_a_block_holds_as_many_steps_as_fill_it():
    assert warm_up_module.steps_a_block(0.1, 0.5) == 5
    assert warm_up_module.steps_a_block(2.0, 0.5) == 1


def test_models_take_turns_each_round_in_another_order():
    rounds = 300
    taken = [name for _, name in turns("ABC", rounds)]
    orders = ["".join(taken[start : start + 3]) for start in range(0, 3 * rounds, 3)]
    assert {"".join(sorted(order)) for order in orders} == {"ABC"}
    assert len(set(orders)) == 6
    # Nobody comes later than the others on the whole, so that a drift strikes all alike.
    for name in "ABC":
        assert sum(order.index(name) for order in orders) / rounds == pytest.approx(1, abs=0.1)
    assert [number for number, _ in turns("AB", 2)] == [0, 0, 1, 1]
    assert taken == [name for _, name in turns("ABC", rounds)]


def test_there_are_at_least_thirty_rounds():
    assert LEAST_ROUNDS == 30
    assert Pace(1, 0, 0, 0).rounds == 30
