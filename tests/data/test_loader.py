"""The order of training and the shares of ranks."""

import hypothesis.strategies as st
import torch
from hypothesis import given

from lightning_bench.data.loader import EpochOrder, SampleOrder

sizes = st.integers(1, 300)


@given(sizes, st.integers(0, 2**32 - 1), st.integers(0, 100))
def test_the_order_depends_on_seed_and_epoch_alone(size: int, seed: int, epoch: int) -> None:
    first = EpochOrder(size, seed=seed, shuffle=True)
    first.set_epoch(epoch)
    torch.manual_seed(0)
    again = EpochOrder(size, seed=seed, shuffle=True)
    again.set_epoch(epoch)
    assert torch.equal(first.indices(), again.indices())
    assert torch.equal(first.indices().sort().values, torch.arange(size))
    if size > 20:
        again.set_epoch(epoch + 1)
        assert not torch.equal(first.indices(), again.indices())


@given(sizes, st.integers(1, 8), st.booleans())
def test_ranks_share_the_examples_without_padding(size: int, ranks: int, shuffle: bool) -> None:
    orders = [
        EpochOrder(size, seed=1, shuffle=shuffle, rank=rank, world_size=ranks)
        for rank in range(ranks)
    ]
    together = torch.cat([order.indices() for order in orders])
    assert torch.equal(together.sort().values, torch.arange(size))


@given(st.integers(2, 16), st.integers(1, 4))
def test_a_global_batch_is_the_same_on_any_number_of_ranks(batch: int, ranks: int) -> None:
    alone = EpochOrder(200, seed=5, shuffle=True).indices()
    shares = [EpochOrder(200, seed=5, shuffle=True, rank=r, world_size=ranks) for r in range(ranks)]
    first = torch.cat([share.indices()[:batch] for share in shares])
    assert set(first.tolist()) == set(alone[: batch * ranks].tolist())


@given(sizes, st.integers(1, 400), st.integers(1, 8))
def test_a_sample_is_the_same_for_every_seed_and_shared_by_ranks(
    size: int, wanted: int, ranks: int
) -> None:
    samples = [
        SampleOrder(EpochOrder(size, seed=1, shuffle=False, rank=rank, world_size=ranks), wanted)
        for rank in range(ranks)
    ]
    other = SampleOrder(EpochOrder(size, seed=2, shuffle=True), wanted)
    other.set_epoch(3)
    assert torch.equal(other.permutation(), samples[0].permutation())
    shares = torch.cat([sample.indices() for sample in samples]).sort().values
    assert torch.equal(shares, samples[0].permutation())
    assert len(shares.unique()) == min(size, wanted)
    assert shares.max() < size
