"""Ranks and the signed-rank test against scipy's, and its exact null by trying all patterns."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lightning_bench.reports.statistics.signed_ranks import midranks, signed_ranks


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(-4, 4), min_size=6, max_size=6), min_size=1, max_size=5))
def test_equal_values_share_their_ranks(rows):
    values = np.array(rows, float)
    assert midranks(values).tolist() == stats.rankdata(values, axis=1).tolist()
    assert midranks(values[0]).tolist() == stats.rankdata(values[0]).tolist()


@pytest.mark.parametrize("n", [1, 2, 7, 13, 50])
def test_exact_without_ties(n):
    differences = np.random.default_rng(n).normal(0.2, 1, (40, n))
    expected = [stats.wilcoxon(row, method="exact").pvalue for row in differences]
    assert signed_ranks(differences)[1] == pytest.approx(expected)


def test_the_exact_null_is_all_sign_patterns():
    sums = [sum(r for r, s in zip(range(1, 9), signs, strict=True) if s) for signs in
            product([0, 1], repeat=8)]  # fmt: skip
    row = np.array([[1, 2, -3, 4, 5, -6, 7, 8.0]])
    total, p = signed_ranks(row)
    assert total == [18]
    assert p[0] == 2 * sum(s >= 27 for s in sums) / 256


@settings(max_examples=50)
@given(st.lists(st.integers(-5, 7), min_size=14, max_size=60))
def test_normal_with_ties_and_zeros_left_out(values):
    row = np.array(values, float)
    kept = row[row != 0]
    total, p = signed_ranks(row[None])
    if len(kept) == 0:
        assert p == [1.0]
        return
    ranks = stats.rankdata(np.abs(kept))
    assert total == pytest.approx([(np.sign(kept) * ranks).sum()])
    tied = len(np.unique(np.abs(kept))) < len(kept)
    how = "asymptotic" if tied or len(kept) > 50 else "exact"
    other = stats.wilcoxon(kept, method=how, correction=how == "asymptotic").pvalue
    # Where the correction for continuity would carry past the mean there is no evidence at all.
    assert p == pytest.approx([1.0 if abs(total[0]) < 1 else other])


def test_beyond_fifty_it_is_normal():
    differences = np.random.default_rng(0).normal(0.2, 1, (10, 80))
    expected = [
        stats.wilcoxon(row, method="asymptotic", correction=True).pvalue for row in differences
    ]
    assert signed_ranks(differences)[1] == pytest.approx(expected)


def test_a_row_is_tested_as_if_it_were_alone():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(0.3, 1, (5, 20)), rng.integers(-3, 4, (5, 20))])
    alone = [signed_ranks(row[None])[1][0] for row in rows]
    assert signed_ranks(rows)[1].tolist() == alone
