"""The largest batch that fits."""

import pytest

from lightning_bench.bench.measure.batch_search import largest_batch


@pytest.mark.parametrize(("room", "found"), [(0, 0), (1, 1), (100, 64), (128, 128)])
def test_the_largest_batch_is_a_power_of_two_that_fits(room, found):
    tried = []

    def fits(size: int) -> bool:
        tried.append(size)
        return size <= room

    assert largest_batch(fits) == found
    assert tried == [2**i for i in range(len(tried))]
