"""Whole runs of each task, through what trains them."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from lightning_bench.bench.run.loading import DataProblem
from lightning_bench.bench.run.result import save_arrays
from lightning_bench.bench.run.training import Outcome, train
from tests.factory import spec
from tests.mirror import DATA, MODELS

pytestmark = pytest.mark.usefixtures("own_cache")
SMALL = {"width": 16, "depth": 1, "hidden": 32}


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing is read from, or left in, the cache of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    if DATA is None:
        pytest.skip("no data mirror: set BENCH_DATA")
    monkeypatch.setenv("BENCH_DATA", str(DATA))


@pytest.fixture
def weights(monkeypatch: pytest.MonkeyPatch) -> None:
    if MODELS is None:
        pytest.skip("no mirror of models: set BENCH_MODELS")
    monkeypatch.setenv("BENCH_MODELS", str(MODELS))


def run(model: str, args: dict[str, Any], data: dict[str, Any], **recipe: Any) -> Outcome:
    of = spec(model, data, args, {"epochs": 1, "batch_size": 32} | recipe)
    return train(of, device="cpu", on_epoch=lambda _: None)


def test_a_generated_task_is_learnt_from_order_not_words() -> None:
    outcome = run("lstm", {"width": 32}, {"name": "polarity"}, lr=1e-2)
    assert outcome.scored == outcome.data.test == 1000
    assert outcome.metrics.keys() == {
        "accuracy", "loss", "nll", "brier", "ece", "auroc", "macro_f1",
        "accuracy_train", "loss_train",
    }  # fmt: skip
    assert len(outcome.data.fingerprint) == 64


def test_masked_tokens_are_scored_by_their_perplexity() -> None:
    outcome = run("gmlp-text", SMALL, {"name": "python-docs"}, lr=3e-3)
    # Between nothing learnt, when all 4,000 tokens are alike, and something.
    assert 10 < outcome.metrics["perplexity"] < 4000
    assert outcome.metrics["perplexity"] == pytest.approx(math.exp(outcome.metrics["loss"]), 1e-4)
    assert (outcome.predictions["predicted"] <= outcome.predictions["target"]).all()


def test_words_and_pairs_are_learnt_at_once() -> None:
    outcome = run("gmlp-text", SMALL, {"name": "python-docs-pairs"}, lr=3e-3)
    known = {"perplexity", "masked_accuracy", "nsp_accuracy", "loss"}
    assert outcome.metrics.keys() == known | {f"{name}_train" for name in known}
    assert 10 < outcome.metrics["perplexity"] < 4000
    pairs = outcome.predictions["predicted"][:, 1] == outcome.predictions["target"][:, 1]
    assert outcome.metrics["nsp_accuracy"] == pairs.mean()
    assert outcome.metrics["loss"] > np.log(outcome.metrics["perplexity"])


def test_stsb_is_scored_by_correlations(mirror: None, weights: None) -> None:
    outcome = run("bag", {"width": 16, "hidden": 16}, {"name": "stsb"})
    known = {"pearson", "spearman", "loss"}
    assert outcome.metrics.keys() == known | {f"{name}_train" for name in known}
    found = outcome.predictions
    assert outcome.metrics["pearson"] == pytest.approx(
        np.corrcoef(found["predicted"], found["target"])[0, 1], abs=1e-5
    )


def test_pets_are_trained_with_all_augmentations(mirror: None) -> None:
    outcome = run(
        "lenet",
        {},
        {"name": "pets", "image_size": 32},
        crop=4,
        flip=True,
        mixup=0.2,
        cutmix=1.0,
        randaugment=9,
        erasing=0.25,
    )
    assert outcome.scored == 3669
    assert math.isfinite(outcome.metrics["loss"])


@pytest.mark.parametrize(
    ("data", "recipe", "says"),
    [
        ({"name": "polarity"}, {"flip": True}, "polarity: nothing here is done with flip"),
        ({"name": "digits"}, {"whole_words": True}, "nothing here is done with whole_words"),
        ({"name": "digits"}, {"resized_crop": 0.5}, "resized_crop is for images in files"),
        ({"name": "digits", "length": 64}, {}, "digits is a data set of images and has no length"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(
    data: dict[str, Any], recipe: dict[str, Any], says: str
) -> None:
    with pytest.raises(DataProblem, match=says):
        run("mlp", {}, data, **recipe)


def test_predictions_that_are_no_whole_numbers_are_kept(tmp_path: Path) -> None:
    values = {
        "predicted": np.array([-1.5, 0.25, 3.75], dtype=np.float32),
        "target": np.array([-1, 200, 5]),
        "index": np.array([0, 1, 70_000]),
    }
    save_arrays(tmp_path / "p.npz", values)
    kept = np.load(tmp_path / "p.npz")
    assert all(np.array_equal(kept[name], values[name]) for name in values)
    assert kept["target"].dtype == np.int16
    assert kept["index"].dtype == np.uint32


@pytest.mark.slow
@pytest.mark.parametrize("model", ["vit-b16", "mixer-b16", "timm/resnetv2_50x1_bit"])
def test_cifar10_enlarged_to_224_pixels_trains_and_scores(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real images at the published shape, a few of them: two steps, validation and test."""
    if DATA is None:
        pytest.skip("no data mirror: set BENCH_DATA")
    for split, rows in (("train", 20), ("test", 4)):
        (path,) = (DATA / "uoft-cs/cifar10/plain_text").glob(f"{split}-*.parquet")
        copy = tmp_path / "uoft-cs/cifar10/plain_text" / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.read_table(path).slice(0, rows), copy)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path))
    data = {"name": "cifar10", "image_size": 224, "sample": True}
    outcome = run(model, {}, data, batch_size=9, flip=True)
    assert (outcome.data.train, outcome.data.val, outcome.scored) == (18, 2, 4)
    assert [epoch.step for epoch in outcome.curve] == [2]
    assert outcome.data.preprocessing.startswith("mean 0.")


def test_a_recipe_of_steps_ends_in_the_middle_of_an_epoch() -> None:
    """Two steps an epoch, five in all; the learning rate falls to its end over just these."""
    outcome = train(
        spec("mlp", "digits", {"width": 8}, {"steps": 5, "batch_size": 500}),
        device="cpu",
        on_epoch=lambda _: None,
    )
    assert [(epoch.epoch, epoch.step) for epoch in outcome.curve] == [(1, 2), (2, 4), (3, 5)]
    assert outcome.scored == 359
