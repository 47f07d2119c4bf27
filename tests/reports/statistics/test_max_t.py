"""Max-T against its definition by brute force, and its promises by simulation."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from lightning_bench.reports.statistics.max_t import (
    DRAWN,
    ENUMERATED,
    max_t,
    sign_flip,
    sign_patterns,
    simultaneous_half_widths,
)

counts = st.integers(-4, 4).map(lambda count: count / 360)
finite = st.one_of(counts, st.floats(-1, 1).filter(lambda x: x == 0 or abs(x) > 1e-3))
families = arrays(np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=finite)


def statistics_by_pattern(differences):
    """|Σ ε d| / √Σ d² of each pair (columns) under each of all sign patterns (rows)."""
    rows = []
    for signs in itertools.product([1, -1], repeat=differences.shape[1]):
        row = []
        for d in np.nan_to_num(differences).tolist():
            norm = math.sqrt(math.fsum(x * x for x in d))
            total = abs(math.fsum(s * x for s, x in zip(signs, d, strict=True)))
            row.append(total / norm if norm else 0.0)
        rows.append(row)
    return np.array(rows)


def by_definition(differences):
    """The adjusted p: from the clearest pair down, the largest statistic of it and all weaker."""
    flipped = statistics_by_pattern(differences)
    order = sorted(range(len(differences)), key=lambda pair: -flipped[0, pair])
    p, last = np.empty(len(differences)), 0.0
    for place, pair in enumerate(order):
        reached = flipped[:, order[place:]].max(axis=1) >= flipped[0, pair] - 1e-9
        p[pair] = last = max(last, float(reached.mean()))
    return p


@given(families, st.randoms())
def test_max_t_is_its_definition_with_missing_blocks_too(differences, rng):
    for row in differences:
        if rng.random() < 0.3:
            row[rng.randrange(len(row))] = np.nan
    assert max_t(differences) == pytest.approx(by_definition(differences))


@given(families)
def test_sign_flip_is_its_definition(differences):
    flipped = statistics_by_pattern(differences)
    expected = (flipped >= flipped[0] - 1e-9).mean(axis=0)
    assert sign_flip(differences) == pytest.approx(expected)


@pytest.mark.parametrize("n", [3, 6, 9, 12])
def test_sign_flip_agrees_with_scipy(n):
    differences = np.random.default_rng(n).normal(0.5, 1, (3, n))
    for row, p in zip(differences, sign_flip(differences), strict=True):
        other = stats.permutation_test(
            (row, np.zeros(n)),
            lambda a, b, axis: np.mean(a - b, axis=axis),
            permutation_type="samples",
            vectorized=True,
            n_resamples=np.inf,
        )
        assert p == pytest.approx(other.pvalue)


def test_sign_flip_of_some_pairs_is_that_of_all():
    differences = np.random.default_rng(0).normal(0.5, 1, (1_200, 16))  # fewer patterns than of 5
    every, some = sign_flip(differences), np.array([3, 700, 1_199])
    of_some = sign_flip(differences, pairs=some)
    assert of_some[some].tolist() == every[some].tolist()
    assert (np.delete(of_some, some) == 1).all()


def test_a_pair_alone_needs_no_correction():
    differences = np.random.default_rng(0).normal(0.5, 1, (1, 9))
    assert max_t(differences) == sign_flip(differences)


def test_equal_sums_count_as_equal():
    # 0.1 + 0.2 − 0.3 is 5.6e-17 in floats and 0 in truth: all eight patterns are as far from zero.
    assert sign_flip(np.array([[0.1, 0.2, -0.3]])) == [1.0]
    # |±0.1 ±0.2 ±0.3| = 0.6 for two of eight; with −0.1, 0.4 is reached by two more.
    assert sign_flip(np.array([[0.1, 0.2, 0.3], [-0.1, 0.2, 0.3]])).tolist() == [2 / 8, 4 / 8]


def test_no_blocks_and_no_differences_are_no_evidence():
    assert max_t(np.empty((2, 0))).tolist() == sign_flip(np.empty((2, 0))).tolist() == [1, 1]
    assert max_t(np.zeros((2, 20))).tolist() == sign_flip(np.zeros((2, 20))).tolist() == [1, 1]
    assert max_t(np.empty((0, 6))).tolist() == []


@pytest.mark.parametrize("blocks", [1, 6, ENUMERATED, ENUMERATED + 1])
def test_the_observed_pattern_is_one_of_them(blocks):
    patterns = sign_patterns(blocks)
    assert (patterns[0] == 1).all()
    if blocks <= ENUMERATED:
        assert len({tuple(row * row[-1]) for row in patterns}) == 2 ** (blocks - 1)
    else:
        assert len(patterns) == DRAWN + 1


def test_random_patterns_come_near_all_patterns():
    differences = np.random.default_rng(3).normal(0.6, 1, (6, ENUMERATED))
    alike = np.concatenate([differences, np.zeros((6, 1))], axis=1)  # a block without a difference
    assert max_t(alike) == pytest.approx(max_t(differences), abs=0.02)


def test_six_blocks_carry_a_claim_of_forty_five_pairs():
    a, b = np.triu_indices(10, 1)
    means = np.arange(10)[:, None] + np.random.default_rng(0).normal(0, 0.02, (10, 6))
    assert (max_t(means[a] - means[b]) == 2 / 64).all()


def test_a_restless_entry_does_not_silence_the_others():
    rng = np.random.default_rng(0)
    scores = rng.normal(0, 1, (3, 9)) * np.array([[0.01], [0.01], [5]]) + np.array([[1], [2], [0]])
    a, b = np.triu_indices(3, 1)
    assert max_t(scores[a] - scores[b])[0] < 0.02


@pytest.mark.parametrize("noise", ["normal", "counts", "unequal"])
def test_intervals_hold_for_all_pairs_at_once_in_95_of_100(noise):
    rng = np.random.default_rng(11)
    truth = np.arange(5.0)
    a, b = np.triu_indices(5, 1)
    studies, held = 400, 0
    for _ in range(studies):
        error = {
            "normal": lambda: rng.normal(size=(5, 8)),
            "counts": lambda: rng.binomial(20, 0.5, size=(5, 8)) - 10.0,
            "unequal": lambda: rng.normal(size=(5, 8)) * np.array([[1], [10], [1], [10], [1]]),
        }[noise]()
        scores = truth[:, None] + error
        differences = scores[a] - scores[b]
        away = np.abs(differences.mean(axis=1) - (truth[a] - truth[b]))
        held += bool((away <= simultaneous_half_widths(differences, 0.05)).all())
    # Of 400 studies two standard errors are 2.2 %.
    assert held / studies >= 0.95 - 0.022


def test_five_blocks_bound_nothing_at_once():
    differences = np.random.default_rng(0).normal(size=(3, 5))
    assert np.isinf(simultaneous_half_widths(differences, 0.05)).all()
    assert np.isfinite(
        simultaneous_half_widths(np.random.default_rng(0).normal(size=(3, 9)), 0.05)
    ).all()


def sided_by_definition(differences, sides):
    """As `by_definition`, where a pair with a side counts in that direction alone."""
    rows = []
    for signs in itertools.product([1, -1], repeat=differences.shape[1]):
        totals = (np.nan_to_num(differences) * signs).sum(axis=1)
        norms = np.sqrt((np.nan_to_num(differences) ** 2).sum(axis=1))
        t = np.divide(totals, norms, out=np.zeros_like(norms), where=norms > 0)
        rows.append(np.where(sides == 0, np.abs(t), sides * t))
    flipped = np.array(rows)
    order = sorted(range(len(differences)), key=lambda pair: -flipped[0, pair])
    p, last = np.empty(len(differences)), 0.0
    for place, pair in enumerate(order):
        reached = flipped[:, order[place:]].max(axis=1) >= flipped[0, pair] - 1e-9
        p[pair] = last = max(last, float(reached.mean()))
    return p


@given(families, st.randoms())
def test_named_directions_are_their_definition(differences, rng):
    sides = np.array([rng.choice([-1, 0, 1]) for _ in differences])
    expected = pytest.approx(sided_by_definition(differences, sides))
    assert max_t(differences, sides) == expected


def test_a_named_direction_needs_five_blocks_and_the_other_never_counts():
    rows = np.linspace(1, 2, 5)[None]
    assert max_t(np.vstack([rows, 2 * rows]), np.array([1, 1])) == pytest.approx([1 / 32, 1 / 32])
    assert max_t(rows, np.array([-1])) == pytest.approx([1])
    assert sign_flip(rows[:1], np.array([1])) == pytest.approx([1 / 32])
    assert max_t(rows)[0] == pytest.approx(1 / 16)
    halves = simultaneous_half_widths(rows[:1], 0.05, np.array([1]))
    assert 0 < halves[0] < np.inf
    assert simultaneous_half_widths(rows[:1], 0.05)[0] == np.inf


def test_beyond_enumeration_named_directions_are_half_of_the_two_sided_p():
    row = np.random.default_rng(3).normal(0.4, 1, (1, 20))
    one, two = sign_flip(row, np.array([1]))[0], sign_flip(row)[0]
    assert one == pytest.approx(two / 2, rel=0.2)
    assert sign_flip(row, np.array([-1]))[0] == pytest.approx(1 - one, abs=0.01)
