"""Practical equivalence: against brute force, at its margin's edge, and as the page gives it."""

import itertools

import numpy as np
import pytest

from lightning_bench.reports.build import build
from lightning_bench.reports.statistics.tiers.equivalence import tost


def one_sided(differences):
    """The share of all sign patterns with a sum as low as the observed, twice, as two-sided."""
    scale = np.sqrt((differences**2).sum())
    sums = [
        abs((np.array(signs) * differences).sum()) / scale
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return np.mean(np.array(sums) >= sums[0] - 1e-9) / 2


def test_of_one_pair_it_is_two_one_sided_sign_flip_tests():
    rng = np.random.default_rng(0)
    for _ in range(20):
        d = rng.normal(0.1, 1, 7)
        below, above = d - 0.8, d + 0.8
        expected = max(
            one_sided(below) if below.sum() < 0 else 1, one_sided(above) if above.sum() > 0 else 1
        )
        # Of one pair the two rows are a family of two; step-down leaves the weaker one alone.
        found = tost(d[None], np.array([0.8]))[0]
        assert found >= expected - 1e-12
        assert found <= max(2 * expected, expected)


def test_a_difference_beyond_the_margin_is_never_equal():
    d = np.full((1, 8), 0.6) + np.linspace(-0.01, 0.01, 8)
    assert tost(d, np.array([0.5]))[0] == 1
    assert tost(d, np.array([0.9]))[0] <= 0.05


@pytest.mark.parametrize("shift", [-1.0, 1.0])
def test_at_the_edge_of_the_margin_few_are_called_equal(shift):
    """Of two groups of entries that differ by just the margin, in either direction."""
    rng = np.random.default_rng(0)
    a, b = np.triu_indices(4, 1)
    edge = (a < 2) != (b < 2)
    wrong = 0
    for _ in range(600):
        scores = rng.normal(0, 0.4, (4, 8)) + shift * (np.arange(4) < 2)[:, None]
        wrong += bool((tost(scores[a] - scores[b], np.ones(len(a)))[edge] <= 0.05).any())
    assert 0.005 < wrong / 600 < 0.075


NEAR = {"a": 0.900, "b": 0.901, "c": 0.93}


def study(make, seeds=8, **changes):
    rng = np.random.default_rng(0)
    scores = {name: (mean + rng.normal(0, 0.001, seeds)).tolist() for name, mean in NEAR.items()}
    request, runs = make.study(scores)
    return make.change(request, **changes), runs


def test_entries_within_the_margin_are_called_equal(make):
    report = build(*study(make, margin=0.5))
    pairs = {(pair.a, pair.b): pair for pair in report.comparisons}
    assert [pair.equal for pair in pairs.values()] == [True, False, False]
    assert pairs["a", "b"].margin == 0.5
    (sentence,) = (line for line in report.findings if "equal within" in line)
    assert "On digits these are equal within 0.5 points: a and b (two one-sided" in sentence
    assert "corrected over 3 pairs at once" in sentence


@pytest.mark.parametrize(
    ("margin", "told"),
    [({"digits": 5.0}, True), ({"accuracy": 5.0}, True), ({"m": 5.0}, False)],
)
def test_a_margin_may_be_of_a_data_set_or_a_metric(make, margin, told):
    report = build(*study(make, margin=margin))
    assert [pair.equal for pair in report.comparisons] == [told] * 3


def test_without_a_margin_nothing_is_equal(make):
    report = build(*study(make))
    assert not any(pair.equal or pair.p_equal is not None for pair in report.comparisons)
    assert not any("equal within" in line for line in report.findings)


def test_five_seeds_can_call_nobody_equal(make):
    report = build(*study(make, seeds=5, margin=50.0))
    assert not any(pair.equal for pair in report.comparisons)
    assert any("needs 6 seeds or more" in line for line in report.findings)
