"""E-values against their definition, all subsets, and their promise at every number of seeds."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_bench.reports.statistics.e_values import closed_by_averages, e_values


@given(st.lists(st.floats(0, 1e4), min_size=1, max_size=8))
def test_closed_averages_are_the_least_mean_over_all_sets_of_pairs(values):
    e = np.array(values)
    sets = [
        subset
        for size in range(1, len(e) + 1)
        for subset in itertools.combinations(range(len(e)), size)
    ]
    least = [min(e[list(s)].mean() for s in sets if pair in s) for pair in range(len(e))]
    assert closed_by_averages(e) == pytest.approx(least)


@pytest.mark.parametrize("side", [None, 1, -1])
def test_a_bet_on_signs_is_a_fair_game_after_every_block(side):
    size = np.abs(np.random.default_rng(0).normal(size=7))
    signs = np.array(list(itertools.product([1, -1], repeat=7)))
    sides = None if side is None else np.full(len(signs), side)
    assert e_values(signs * size, sides).mean(axis=0) == pytest.approx(np.ones(7))


def test_what_a_block_adds_does_not_depend_on_what_comes_after_it():
    rows = np.random.default_rng(0).normal(0.5, 1, (3, 12))
    for number in range(1, 13):
        assert e_values(rows[:, :number])[:, -1] == pytest.approx(e_values(rows)[:, number - 1])


def test_a_missing_block_and_a_tie_bet_nothing():
    row = np.array([[1.0, 2.0, np.nan, 0.0]])
    found = e_values(row)[0]
    assert found[1] == pytest.approx(found[2]) == pytest.approx(found[3])


def test_clear_differences_reach_20_with_a_few_seeds_and_the_wrong_side_never():
    row = np.full((1, 8), 0.3)
    assert np.argmax(e_values(row)[0] >= 20) + 1 in (6, 7)
    assert e_values(row, np.array([1]))[0, 4] >= 20
    assert (e_values(row, np.array([-1]))[0] < 1).all()


def test_alike_entries_hardly_ever_reach_20_however_often_one_looks():
    rng = np.random.default_rng(11)
    a, b = np.triu_indices(4, 1)
    false = 0
    for _ in range(2_000):
        scores = rng.normal(size=(4, 20))
        e = e_values(scores[a] - scores[b])
        false += any((closed_by_averages(e[:, n]) >= 20).any() for n in range(20))
    assert 0 < false <= 100
