"""Statistics of blocks under the noise of a shared machine."""

import numpy as np
import pytest
from scipy.stats import binom

from lightning_bench.bench.store.measurements import Block, Contender, Measurement, Setting
from lightning_bench.reports.statistics import timing


def taken(times, label="a", batch_size=2, **changes) -> Measurement:
    """A measurement of one-step blocks."""
    return Measurement(
        contender=Contender(label=label, model="m"),
        setting=Setting(mode="infer", batch_size=batch_size, **changes),
        unit="images",
        blocks=[Block(round=i, steps=1, wall_s=t) for i, t in enumerate(times)],
    )


def noise(rng: np.random.Generator, n: int, correlation: float = 0.9) -> np.ndarray:
    """A machine's pace: a drift that lasts, and spikes of up to several times a block."""
    steps = rng.normal(size=n) * 0.05 * np.sqrt(1 - correlation**2)
    drift = np.empty(n)
    drift[0] = rng.normal() * 0.05
    for i in range(1, n):
        drift[i] = correlation * drift[i - 1] + steps[i]
    spikes = np.where(rng.random(n) < 0.05, rng.exponential(0.5, n), 0)
    return np.exp(drift) * (1 + 0.01 * rng.normal(size=n)) + spikes


def race(rng, slower: float = 1.0, correlation: float = 0.9) -> timing.TimingSpread:
    """Two of three models, which took 30 turns each on one noisy machine."""
    models = 3
    pace = noise(rng, 30 * models, correlation)
    a, b = pace[0::models], slower * pace[1::models]
    found = timing.ratio(dict(enumerate(a.tolist())), dict(enumerate(b.tolist())))
    assert found is not None
    return found


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9, 0.99])
def test_null_the_same_model_twice(correlation):
    rng = np.random.default_rng(0)
    found = [race(rng, correlation=correlation) for _ in range(100)]
    assert sum(each.low <= 1 <= each.high for each in found) >= 95
    assert np.median([abs(each.median - 1) for each in found]) < 0.02


def test_five_per_cent_slower_is_found_slower():
    rng = np.random.default_rng(0)
    found = [race(rng, slower=1.05) for _ in range(100)]
    assert sum(each.low > 1 for each in found) >= 95
    assert not any(each.high < 1 for each in found)


@pytest.mark.parametrize("n", [6, 10, 29, 30, 31, 100])
def test_the_interval_of_a_median_covers_it_95_times_in_100(n):
    rank = timing._rank(n)
    coverage = 1 - 2 * binom.cdf(rank, n, 0.5)
    narrower = 1 - 2 * binom.cdf(rank + 1, n, 0.5)
    assert coverage >= 0.95 > narrower


def test_of_ten_equal_models_hardly_ever_one_is_called_slower():
    rng = np.random.default_rng(5)
    sessions, alarms = 150, 0
    for _ in range(sessions):
        measured = [taken((1 + rng.normal(0, 0.01, 30)).tolist(), f"m{i}") for i in range(10)]
        best, _ = timing.tied(measured)
        alarms += len(best) < 10
    assert alarms / sessions <= 0.06


def test_thirty_blocks_take_the_tenth_of_each_end():
    zigzag = [float(v) for i in range(1, 16) for v in (i, 31 - i)]  # 1 to 30, in turns
    assert timing.inflation(zigzag) == 1
    assert timing.median_interval(zigzag) == (10, 21)


def test_samples_that_follow_each_other_widen_the_interval():
    drifting = [float(i) for i in range(30)]
    low, high = timing.median_interval(drifting)
    assert high - low > 20


def test_noise_is_marked_and_hopeless_noise_not_ranked():
    quiet = taken([1.0, 1.01, 0.99] * 10, "quiet")
    noisy = taken([1.0, 1.1, 0.9] * 10, "noisy")
    hopeless = taken([0.5, 1.0, 2.0] * 10, "hopeless")
    spreads = [timing.throughput(m) for m in (quiet, noisy, hopeless)]
    assert [s.noisy for s in spreads] == [False, True, True]
    assert [s.hopeless for s in spreads] == [False, False, True]
    best, unranked = timing.tied([quiet, noisy, hopeless])
    assert 2 not in best
    assert list(unranked) == [2]


def test_the_fastest_shares_its_rank_with_what_cannot_be_told_from_it():
    rng = np.random.default_rng(1)
    pace = noise(rng, 120)
    paces = (1.0, 1.0, 1.3, 0.7)
    found = [taken((pace[i::4] * slow).tolist()) for i, slow in enumerate(paces)]
    assert timing.tied(found[:3])[0] == {0, 1}
    assert timing.tied(found)[0] == {3}


def test_throughput_is_of_a_core_and_of_all_examples():
    spread = timing.throughput(taken([0.5] * 30, batch_size=8, devices=2, threads=4))
    assert spread.median == pytest.approx(8 * 2 / 0.5 / 8)
    on_gpu = timing.throughput(taken([0.5] * 30, batch_size=8, device="cuda", threads=4))
    assert on_gpu.median == pytest.approx(16)


def test_an_exponent_and_its_interval():
    x = [16, 64, 256, 784]
    pure = timing.exponent(x, [3 * v**1.5 for v in x])
    assert pure.value == pytest.approx(1.5)
    assert pure.high - pure.low < 1e-6
    bent = timing.exponent(x, [v + v * v / 400 for v in x])
    assert bent.low < 1.25 < bent.high
    assert timing.exponent([1, 2], [1, 2]) is None


def test_an_exponents_interval_covers_it():
    rng = np.random.default_rng(0)
    x = np.array([16, 36, 64, 144, 256])
    hits = 0
    for _ in range(400):
        found = timing.exponent(x, x**2 * np.exp(0.05 * rng.normal(size=5)))
        hits += found.low <= 2 <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_the_degree_of_exact_counts():
    x = [16, 64, 256, 784]
    assert timing.degree(x, [5 * v + 3 for v in x]) == 1
    assert timing.degree(x, [2 * v * v + 5 * v for v in x]) == 2
    assert timing.degree(x, [v**7 for v in x]) is None
