"""Statistics against closed forms, other packages and the definition itself."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from lightning_bench.reports.statistics import inference
from lightning_bench.reports.statistics.max_t import max_t

finite = st.floats(-1e3, 1e3).filter(lambda x: x == 0 or abs(x) > 1e-6)
samples = st.lists(finite, min_size=2, max_size=30)


@given(samples)
def test_summary_agrees_with_statsmodels(values):
    found, other = inference.summarise(values), DescrStatsW(values)
    assert found.mean == pytest.approx(other.mean, abs=1e-9)
    assert found.sd == pytest.approx(np.std(values, ddof=1), abs=1e-9)
    if found.sd > 1e-9:
        assert (found.low, found.high) == pytest.approx(other.tconfint_mean(0.05), abs=1e-6)


def test_summary_of_two_by_hand():
    # sd = |a − b| / √2 and t(0.975, 1) = tan(0.475 π), so half = tan(0.475 π) · |a − b| / 2.
    found = inference.summarise([0.90, 0.94])
    half = math.tan(0.475 * math.pi) * 0.02
    assert found.sd == pytest.approx(0.04 / math.sqrt(2))
    assert (found.low, found.high) == pytest.approx((0.92 - half, 0.92 + half))


def test_one_run_tells_nothing_of_the_spread():
    assert inference.summarise([0.5]) == inference.Summary(1, 0.5, None, None, None)


@given(samples, st.randoms())
def test_summary_is_the_same_bits_in_any_order(values, rng: random.Random):
    shuffled = rng.sample(values, len(values))
    assert inference.summarise(shuffled) == inference.summarise(values)


def test_interval_covers_the_mean_in_95_of_100():
    rng = np.random.default_rng(1)
    covered = 0
    for sample in rng.normal(0.3, 2.0, (4_000, 5)):
        found = inference.summarise(sample.tolist())
        covered += found.low <= 0.3 <= found.high
    assert 0.94 <= covered / 4_000 <= 0.96


@given(st.floats(0.05, 5), st.sampled_from([1, 3, 10, 45]))
def test_seeds_to_show_is_the_first_number_that_detects(effect, pairs):
    found = inference.seeds_to_show(-2 * effect, 2.0, pairs)
    if found is None:
        assert inference.detectable_difference(1_000, pairs) > effect
    else:
        assert inference.detectable_difference(found, pairs) <= effect
        assert found >= inference.blocks_needed()
        if found > inference.blocks_needed():
            assert inference.detectable_difference(found - 1, pairs) > effect


def test_seeds_to_show_at_the_ends():
    assert inference.seeds_to_show(0.0, 1.0) is None
    assert inference.seeds_to_show(1e-9, 1.0) is None
    assert inference.seeds_to_show(0.1, 0.0, 10) == inference.blocks_needed()


@pytest.mark.parametrize(("right", "examples"), [(0, 50), (332, 500), (500, 500)])
def test_the_interval_of_a_share_is_wilsons(right, examples):
    expected = proportion_confint(right, examples, method="wilson")
    assert inference.share_of_examples(right / examples, examples) == pytest.approx(expected)


def test_six_blocks_are_enough_and_five_never():
    assert inference.least_p(5) == 0.0625
    assert inference.least_p(6) <= inference.ALPHA
    assert inference.blocks_needed() == 6
    assert inference.blocks_needed(0.0117) == 8


def test_nothing_is_detectable_with_too_few_seeds():
    assert inference.detectable_difference(5) == inference.detectable_difference(5, 10) == math.inf


@pytest.mark.parametrize(("n", "entries"), [(6, 2), (8, 2), (6, 4), (10, 5), (30, 5)])
def test_detectable_difference_is_detected_in_about_80_of_100(n, entries):
    a, b = np.triu_indices(entries, 1)
    difference = inference.detectable_difference(n, len(a))
    rng = np.random.default_rng(n)
    claimed = 0
    for _ in range(400):
        scores = rng.normal(0, 1 / math.sqrt(2), (entries, n))
        differences = scores[a] - scores[b]
        differences[0] += difference
        claimed += max_t(differences)[0] <= 0.05
    assert 0.72 <= claimed / 400 <= 0.92


def test_more_pairs_and_fewer_seeds_hide_more():
    of_pairs = [inference.detectable_difference(8, pairs) for pairs in (1, 10, 100, 4_000)]
    of_seeds = [inference.detectable_difference(n, 10) for n in (6, 8, 12, 20, 80)]
    assert of_pairs == sorted(of_pairs)
    assert of_seeds == sorted(of_seeds, reverse=True)


def test_a_family_without_a_pair_has_the_power_of_one():
    """As where the mean over data sets is the family, and no two entries meet on all of them."""
    assert inference.detectable_difference(7, 0) == inference.detectable_difference(7, 1)
