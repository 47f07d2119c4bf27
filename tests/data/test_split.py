"""Splits carved with a fixed seed: the size that is asked for, and each class its share."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from lightning_bench.data.split import carve_count, carve_fraction


@given(st.integers(1, 5), st.integers(20, 60), st.integers(0, 99))
def test_splits_take_their_share_of_each_class(classes: int, each: int, seed: int) -> None:
    labels = np.repeat(np.arange(classes), each)
    kept, carved = carve_fraction(labels, fraction=0.25, seed=seed)
    assert sorted([*kept, *carved]) == list(range(len(labels)))
    assert np.bincount(labels[carved]).tolist() == [round(each / 4)] * classes
    again = carve_fraction(labels, fraction=0.25, seed=seed)
    assert np.array_equal(again[1], carved)


@given(st.lists(st.integers(0, 4), min_size=5, max_size=200), st.floats(0, 0.9), st.integers(0, 9))
def test_a_carved_split_has_its_exact_size_and_share(
    labels: list[int], part: float, seed: int
) -> None:
    given_labels = np.array(labels)
    size = int(part * len(labels))
    kept, carved = carve_count(given_labels, size=size, seed=seed)
    assert len(carved) == size
    assert sorted([*kept, *carved]) == list(range(len(labels)))
    for label in set(labels):
        exact = size * labels.count(label) / len(labels)
        assert abs((given_labels[carved] == label).sum() - exact) < 1
    assert np.array_equal(carve_count(given_labels, size=size, seed=seed)[1], carved)
