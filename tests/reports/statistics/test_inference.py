"""Statistics against closed forms, other packages and the definition itself."""

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.weightstats import DescrStatsW

from lightning_bench.reports.statistics import inference

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


@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=7), elements=finite))
def test_sign_flip_is_its_definition(differences):
    def by_definition(row):
        observed = abs(math.fsum(row)) - 1e-9 * sum(map(abs, row))
        patterns = itertools.product([1, -1], repeat=len(row))
        sums = [
            abs(math.fsum(s * d for s, d in zip(signs, row, strict=True))) for signs in patterns
        ]
        return sum(total >= observed for total in sums) / len(sums)

    expected = [by_definition(row) for row in differences.tolist()]
    assert inference.sign_flip(differences) == pytest.approx(expected)


@given(st.floats(0.05, 5), st.sampled_from([1, 3, 10, 45]))
def test_seeds_to_show_is_the_first_number_that_detects(effect, pairs):
    found = inference.seeds_to_show(-2 * effect, 2.0, pairs)
    if found is None:
        assert inference.detectable_difference(1_000, pairs) > effect
    else:
        assert inference.detectable_difference(found, pairs) <= effect
        assert found >= inference.seeds_needed(pairs)
        if found > inference.seeds_needed(pairs):
            assert inference.detectable_difference(found - 1, pairs) > effect


def test_seeds_to_show_at_the_ends():
    assert inference.seeds_to_show(0.0, 1.0) is None
    assert inference.seeds_to_show(1e-9, 1.0) is None
    assert inference.seeds_to_show(0.1, 0.0, 10) == inference.seeds_needed(10)


@pytest.mark.parametrize("n", [3, 6, 9, 12])
def test_sign_flip_agrees_with_scipy(n):
    differences = np.random.default_rng(n).normal(0.5, 1, (3, n))
    for row, p in zip(differences, inference.sign_flip(differences), strict=True):
        other = stats.permutation_test(
            (row, np.zeros(n)),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        )
        assert p == pytest.approx(other.pvalue)


def test_sign_flip_counts_equal_sums_as_equal():
    # 0.1 + 0.2 − 0.3 is 5.6e-17 in floats and 0 in truth: all eight patterns are as far from zero.
    assert inference.sign_flip(np.array([[0.1, 0.2, -0.3]])) == [1.0]
    # |±0.1 ±0.2 ±0.3| = 0.6 for two of eight; with −0.1, 0.4 is reached by two more.
    assert inference.sign_flip(np.array([[0.1, 0.2, 0.3], [-0.1, 0.2, 0.3]])).tolist() == [
        2 / 8,
        4 / 8,
    ]


@pytest.mark.parametrize("n", range(1, 13))
def test_sign_flip_of_one_sided_differences_is_the_least_p(n):
    differences = np.linspace(0.1, 0.2, n)[None]
    assert inference.sign_flip(differences)[0] == inference.least_p(n) == min(1, 2 / 2**n)


def test_sign_flip_in_chunks_is_the_same_as_alone():
    differences = np.random.default_rng(0).normal(0.3, 1, (5_000, 12))
    together = inference.sign_flip(differences)
    for index in (0, 2_047, 2_048, 4_999):
        assert together[index] == inference.sign_flip(differences[[index]])[0]


def test_no_seeds_no_evidence():
    assert inference.sign_flip(np.empty((2, 0))).tolist() == [1.0, 1.0]


def test_many_seeds_are_tested_by_ranks():
    differences = np.random.default_rng(0).normal(0.4, 1, (20, 30))
    name, p = inference.paired_test(differences)
    assert name == "Wilcoxon signed-rank"
    expected = [stats.wilcoxon(row).pvalue for row in differences]
    agree = [np.sum(np.sign(row) * stats.rankdata(abs(row))) * row.sum() > 0 for row in differences]
    assert p == pytest.approx(np.where(agree, expected, 1.0))
    assert sum(agree) > 10


def test_ranks_claim_nothing_where_there_is_no_difference_or_the_mean_leans_the_other_way():
    outlier = np.array([1.0] * 19 + [-100.0])
    assert stats.wilcoxon(outlier).pvalue < 0.05
    assert inference.paired_test(np.array([np.zeros(20), outlier]))[1].tolist() == [1.0, 1.0]


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40).map(np.array))
def test_holm_agrees_with_statsmodels(p):
    assert inference.holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@given(st.integers(1, 10_000))
def test_seeds_needed_is_the_first_number_that_can_claim(pairs):
    n = inference.seeds_needed(pairs)
    assert inference.least_p(n) * pairs <= 0.05 < inference.least_p(n - 1) * pairs


def test_five_seeds_are_never_enough():
    assert inference.least_p(5) == 0.0625
    assert inference.seeds_needed(1) == 6
    assert inference.seeds_needed(10) == 9


def test_detectable_difference_agrees_with_statsmodels_power():
    effect = TTestPower().solve_power(nobs=30, alpha=0.05 / 3, power=0.8)
    assert inference.detectable_difference(30, pairs=3) == pytest.approx(effect, rel=0.02)


def test_nothing_is_detectable_with_too_few_seeds():
    assert inference.detectable_difference(5) == inference.detectable_difference(8, 10) == math.inf


@pytest.mark.parametrize(("n", "pairs"), [(6, 1), (8, 1), (9, 10), (10, 10), (12, 10)])
def test_detectable_difference_is_detected_in_about_80_of_100(n, pairs):
    difference = inference.detectable_difference(n, pairs)
    drawn = np.random.default_rng(n + 1).normal(difference, 1.0, (2_000, n))
    power = np.mean(inference.sign_flip(drawn) * pairs <= 0.05)
    assert 0.75 <= power <= 0.85
