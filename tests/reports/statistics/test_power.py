"""The power of planned looks: tried against the tests themselves on fresh noise."""

import numpy as np
import pytest

from lightning_bench.reports.statistics import e_values, inference, max_t, power

LOOKS = ((6, 0.03125), (9, 0.01171875), (12, 0.00703125))


def studies(sds: float, entries: int, seeds: int, number: int = 300):
    """Differences of all pairs, of which the first differs by so many SDs."""
    rng = np.random.default_rng(9)
    a, b = np.triu_indices(entries, 1)
    for _ in range(number):
        noise = rng.normal(size=(entries, seeds)) / np.sqrt(2)
        differences = noise[a] - noise[b]
        differences[0] += sds
        yield differences


@pytest.mark.parametrize("entries", [2, 4])
def test_looks_show_the_difference_in_about_80_of_100_studies(entries: int) -> None:
    pairs = entries * (entries - 1) // 2
    shown = power.by_looks(LOOKS, pairs)
    assert shown is not None
    decided = []
    for differences in studies(shown.sds, entries, 12):
        at = [n for n, alpha in LOOKS if max_t.max_t(differences[:, :n])[0] <= alpha]
        decided.append(at[0] if at else None)
    found = [n for n in decided if n]
    assert 0.7 < len(found) / len(decided) < 0.9
    mean = np.mean([n or 12 for n in decided])
    assert shown.blocks == pytest.approx(mean, abs=0.5)
    # Three looks show more than the last alone, and less than all twelve seeds at once.
    at_once = inference.detectable_difference(12, pairs)
    assert at_once < shown.sds < inference.detectable_difference(12, pairs, LOOKS[-1][1])


@pytest.mark.parametrize("one_sided", [False, True])
def test_e_values_show_the_difference_in_about_80_of_100_studies(one_sided: bool) -> None:
    stops = tuple(range(6, 15))
    shown = power.by_e_values(stops, 3, one_sided=one_sided)
    assert shown is not None
    sides = np.ones(3, np.intp) if one_sided else None
    found = 0
    for differences in studies(shown.sds, 3, 14):
        e = e_values.e_values(differences, sides)
        found += any(e_values.closed_by_averages(e[:, n - 1])[0] >= 20 for n in stops)
    assert 0.7 < found / 300 < 0.9


def test_what_can_not_be_shown_or_tried_is_none() -> None:
    assert power.by_looks(((4, 0.03), (5, 0.02)), 1) is None
    assert power.by_looks(((6, 0.03125), (100, 0.01)), 1) is None
    assert power.by_e_values(tuple(range(6, 200)), 1) is None


def test_a_small_alpha_is_told_with_patterns_enough() -> None:
    shown = power.by_looks(((12, 0.0006),), 1)
    assert shown is not None
    assert shown.sds < 5
    assert inference.detectable_difference(12, 1, 0.0006) < 5
