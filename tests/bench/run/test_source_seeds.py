"""Each source of randomness by itself: what another seed of it changes, and what it leaves."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lightning_bench.bench.run.loading import load, load_model
from lightning_bench.bench.run.trainer import seed_everything
from lightning_bench.bench.run.training import train
from lightning_bench.bench.spec import RunSpec
from tests import factory

HELD = {"weights": 0, "order": 0, "augmentation": 0, "dropout": 0, "shots": 0, "split": 0}
SMALL = {"patch": 4, "width": 16, "depth": 1, "heads": 2, "hidden": 32}
RECIPE = {"epochs": 1, "batch_size": 20, "crop": 1, "mixup": 0.2}
#: What of a run each source decides; split and shots decide which examples there are to order.
DECIDES = {
    "weights": {"initial weights"},
    "order": {"order", "batches"},
    "augmentation": {"batches"},
    "dropout": set(),
    "shots": {"splits", "batches"},
    "split": {"splits", "batches"},
}


def spec(seed: int, varied: str, **changes: Any) -> RunSpec:
    """A run whose seed is that of one source alone."""
    held = {source: seed_ for source, seed_ in HELD.items() if source != varied}
    data = {"name": "digits", "split": "seed", "shots": 10}
    fields = {"args": {**SMALL, "dropout": 0.3}, "recipe": RECIPE, **changes}
    return factory.spec("vit", data, seed=seed, source_seeds=held, **fields)


def facts(of: RunSpec) -> dict[str, list[torch.Tensor]]:
    """The parts of a run that a source may decide, as they are before the first step."""
    seed_everything(of.seed_of("weights"))
    data = load(of)
    model, _, _ = load_model(of, data, lambda spec: None)
    loader = data.train_dataloader()
    epochs = []
    for epoch in (0, 1):
        loader.sampler.set_epoch(epoch)
        epochs += list(loader)
    splits = data.splits
    return {
        "initial weights": list(model.state_dict().values()),
        "order": [batch.indices for batch in epochs],
        "batches": [batch.inputs[0] for batch in epochs],
        "splits": [torch.from_numpy(splits[name].pixels) for name in ("train", "val", "test")],
    }


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.parametrize("varied", DECIDES)
def test_a_source_varied_alone_leaves_everything_else_bit_for_bit(varied: str) -> None:
    one, other = facts(spec(1, varied)), facts(spec(2, varied))
    assert {part for part in one if not equal(one[part], other[part])} == DECIDES[varied]


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Other processes are at work, too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def final_loss(of: RunSpec) -> float:
    return train(of, device="cpu", on_epoch=lambda epoch: None).curve[-1].train_loss


@pytest.mark.usefixtures("one_thread")
def test_dropout_has_a_stream_of_its_own() -> None:
    again = final_loss(spec(1, "dropout"))
    assert final_loss(spec(1, "dropout")) == again
    assert final_loss(spec(2, "dropout")) != again
    without = {"args": SMALL}
    one, other = (final_loss(spec(seed, "dropout", **without)) for seed in (1, 2))
    assert one == other


def test_runs_that_vary_different_sources_have_different_keys() -> None:
    keys = {spec(1, varied).key for varied in DECIDES}
    assert len(keys | {factory.spec("vit", seed=1).key}) == len(DECIDES) + 1


def test_a_text_s_masks_are_augmentation_and_its_batches_order() -> None:
    def masked(order: int, augmentation: int) -> list[torch.Tensor]:
        seeds = {"order": order, "augmentation": augmentation}
        data = load(factory.spec("bert-tiny", "python-docs", seed=5, source_seeds=seeds))
        batches = list(data.train_dataloader())
        return [*(batch.indices for batch in batches), *(batch.inputs[0] for batch in batches)]

    def halves(found: list[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        return found[: len(found) // 2], found[len(found) // 2 :]

    (order, inputs), (same_order, other_inputs) = halves(masked(1, 1)), halves(masked(1, 2))
    assert equal(order, same_order)
    assert not equal(inputs, other_inputs)
    assert not equal(order, halves(masked(2, 1))[0])
