"""Midranks against scipy's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lightning_bench.reports.statistics.ranks import midranks


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(-4, 4), min_size=6, max_size=6), min_size=1, max_size=5))
def test_equal_values_share_their_ranks(rows):
    values = np.array(rows, float)
    assert midranks(values).tolist() == stats.rankdata(values, axis=1).tolist()
    assert midranks(values[0]).tolist() == stats.rankdata(values[0]).tolist()
