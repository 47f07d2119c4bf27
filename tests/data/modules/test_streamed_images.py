"""Streamed images: real ImageNet photographs, scored by a real model."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torchvision.transforms import v2

from lightning_bench.common.machine import usable_cores
from lightning_bench.data import dataset
from lightning_bench.data.batch import Batch
from lightning_bench.data.catalogue import find
from lightning_bench.data.loader import generator
from lightning_bench.data.modules import contract, streamed_images
from lightning_bench.data.modules.streamed_images import StreamedImages, crop_box
from lightning_bench.data.transforms.augment import Augmentation
from tests.data.tiny import RECIPE


@pytest.fixture(scope="module")
def photographs(mirror: Path) -> StreamedImages:
    data = StreamedImages(
        find("imagenet1k-real", image_size=96), batch_size=8, seed=0, sample=True, workers=0
    )
    data.setup("test")
    return data


def test_the_test_split_alone_is_enough(photographs: StreamedImages) -> None:
    assert photographs.sizes == {"test": 500}
    labels = photographs.test_dataloader()[0].target
    assert labels.ndim == 2
    assert (labels[:, 0] == -1).sum() == 28  # images that ReaL gives no label


def test_workers_change_nothing(photographs: StreamedImages) -> None:
    augmentation = Augmentation(resized_crop=0.1, flip=True)
    batches = []
    for workers in (0, 2):
        photographs.workers = workers
        loader = photographs._loader("test", shuffle=True, augmentation=augmentation)
        batches.append([batch for batch, _ in zip(loader, range(3), strict=False)])
    for alone, spread in zip(*batches, strict=True):
        assert torch.equal(alone.indices, spread.indices)
        assert torch.equal(alone.inputs[0], spread.inputs[0])


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("mixed", [False, True])
def test_ranks_crop_augment_and_mix_as_one_device_would(
    mirror: Path, ranks: int, mixed: bool
) -> None:
    mixing = {"mixup": 0.4, "cutmix": 1.0} if mixed else {}
    augmentation = Augmentation(resized_crop=0.1, flip=True, randaugment=9, erasing=0.5, **mixing)
    entry = find("imagenet1k", image_size=64)

    def first(rank: int, world_size: int) -> Batch:
        data = StreamedImages(
            entry, batch_size=9, seed=0, sample=True, rank=rank, world_size=world_size, workers=0
        )
        data.setup("test")
        return next(iter(data._loader("test", shuffle=True, augmentation=augmentation)))

    together = first(0, 1)
    for rank in range(ranks):
        share = first(rank, ranks)
        assert torch.equal(share.indices, together.indices[rank::ranks])
        assert torch.equal(share.inputs[0], together.inputs[0][rank::ranks])
        assert torch.equal(share.target, together.target[rank::ranks])


def test_as_many_threads_decode_as_the_rank_has_cores() -> None:
    data = StreamedImages(find("imagenet1k"), batch_size=8, seed=0, world_size=2, cores=3)
    assert data.workers == 3
    assert StreamedImages(find("imagenet1k"), batch_size=8, seed=0).workers == usable_cores()


def test_crops_are_torchvisions() -> None:
    torch.manual_seed(0)
    usual = v2.RandomResizedCrop(8, scale=(0.08, 1.0))
    image = torch.zeros(1, 60, 90)
    theirs = [usual.make_params([image]) for _ in range(3000)]
    ours = [crop_box((90, 60), 0.08, generator(i)) for i in range(3000)]
    for i, name in enumerate(("left", "top", "width", "height")):
        found = stats.ks_2samp([box[i] for box in ours], [box[name] for box in theirs])
        assert found.pvalue > 1e-3, name


@pytest.mark.slow
def test_a_real_model_scores_as_it_is_known_to(mirror: Path, weights: Path) -> None:
    """MobileNetV2 has 66.0 % top-1 and 74.8 % ReaL on these 500 images, give or take a resize."""
    import timm
    from safetensors.torch import load_file

    model = timm.create_model("mobilenetv2_100").eval()
    kept = load_file(weights / "mobilenetv2_100.tv_in1k" / "model.safetensors")
    model.load_state_dict({name: value.float() for name, value in kept.items()}, strict=False)
    found = {}
    for name in ("imagenet1k", "imagenet1k-real"):
        data = StreamedImages(find(name), batch_size=50, seed=0, sample=True, workers=0)
        data.setup("test")
        if not found:
            with torch.inference_mode():
                guesses = [model(*b.inputs).argmax(-1) for b in data.test_dataloader()[0]]
            predicted = torch.cat(guesses)
        target = data.test_dataloader()[0].target
        target = target if target.ndim == 2 else target[:, None]
        labelled = target[:, 0] >= 0
        found[name] = (predicted[:, None] == target).any(1)[labelled].double().mean().item()
    assert np.isclose(found["imagenet1k"], 0.660, atol=0.01)
    assert np.isclose(found["imagenet1k-real"], 0.748, atol=0.01)


def own_images(root: Path, *, sharded: bool, count: int = 40) -> None:
    """A folder of noisy grey images, whose shade tells the class, by classes or in tar files."""
    draw = np.random.default_rng(0)
    for i in range(count):
        stream = io.BytesIO()
        shade = np.clip(draw.normal(80 + 90 * (i % 2), 20, (24, 24, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(shade).save(stream, "PNG")
        if sharded:
            with tarfile.open(root / f"{i % 3}.tar", "a") as file:
                for suffix, data in ((".png", stream.getvalue()), (".cls", b"%d" % (i % 2))):
                    member = tarfile.TarInfo(f"{i:03}{suffix}")
                    member.size = len(data)
                    file.addfile(member, io.BytesIO(data))
        else:
            path = root / ("a", "b")[i % 2] / f"{i:03}.png"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(stream.getvalue())


@pytest.mark.parametrize("sharded", [False, True])
def test_a_folder_too_large_for_memory_is_streamed_and_normalised_as_one_that_fits(
    sharded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_images(tmp_path, sharded=sharded)
    name = f"folder:{tmp_path}"
    kept = contract.make(find(name, image_size=16), recipe=RECIPE, batch_size=8, seed=0)
    monkeypatch.setattr(dataset, "IN_MEMORY_BYTES", 1000)
    data = contract.make(find(name, image_size=16), recipe=RECIPE, batch_size=8, seed=0)
    assert isinstance(data, StreamedImages)
    for module in (kept, data):
        module.setup()
    assert data.sizes == kept.sizes == {"train": 32, "val": 4, "test": 4}
    assert torch.equal(data.mean, kept.mean)
    assert torch.equal(data.std, kept.std)
    for one, other in (
        (data.train_dataloader(), kept.train_dataloader()),
        (data.test_dataloader()[0], kept.test_dataloader()[0]),
    ):
        for streamed, mapped in zip(one, other, strict=True):
            assert torch.equal(streamed.inputs[0], mapped.inputs[0])
            assert torch.equal(streamed.target, mapped.target)


def test_moments_are_of_training_images_and_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_images(tmp_path, sharded=False)
    monkeypatch.setattr(dataset, "IN_MEMORY_BYTES", 1000)
    entry = find(f"folder:{tmp_path}", image_size=16)
    first = StreamedImages(entry, batch_size=8, seed=0)
    first.setup()
    trained = np.stack([first.pixels("train", row) for row in range(32)]) / 255
    assert np.allclose(first.mean, trained.mean((0, 2, 3)), atol=1e-6)
    assert np.allclose(first.std, trained.std((0, 2, 3)), atol=1e-6)
    monkeypatch.setattr(streamed_images, "counted", None)  # nothing is measured again
    second = StreamedImages(entry, batch_size=8, seed=1)
    second.setup("test")  # of a run that only scores: the moments are still training's
    assert torch.equal(second.mean, first.mean)


def test_one_run_is_scored_by_both_sets_of_labels(mirror: Path) -> None:
    """Of the same images: ImageNet's own labels, and ReaL's as a test of another name."""
    entry = find("imagenet1k-both", image_size=32)
    assert entry.reported == ("accuracy", "accuracy_real")
    data = StreamedImages(entry, batch_size=50, seed=0, sample=True, workers=0)
    data.setup("test")
    assert data.sizes == {"test": 500, "real": 500}
    own, real = data.test_dataloader()
    assert (own.target.ndim, real.target.ndim) == (1, 2)
    alone = StreamedImages(
        find("imagenet1k-real", image_size=32), batch_size=50, seed=0, sample=True, workers=0
    )
    alone.setup("test")
    assert torch.equal(real.target, alone.test_dataloader()[0].target)
    one, other = next(iter(own)), next(iter(real))
    assert torch.equal(one.inputs[0], other.inputs[0])


def test_images_that_fit_into_memory_can_be_cropped_and_resized_at_random(tmp_path: Path) -> None:
    own_images(tmp_path, sharded=False)
    entry = find(f"folder:{tmp_path}", image_size=16)
    assert not entry.streamed
    data = contract.make(entry, recipe=RECIPE | {"resized_crop": 0.3}, batch_size=8, seed=0)
    data.setup()
    plain = contract.make(entry, recipe=RECIPE, batch_size=8, seed=0)
    plain.setup()
    cropped, whole = (next(iter(each.train_dataloader())) for each in (data, plain))
    assert torch.equal(cropped.target, whole.target)
    assert not torch.equal(cropped.inputs[0], whole.inputs[0])
    tests = (next(iter(each.test_dataloader()[0])) for each in (data, plain))
    assert torch.equal(*(batch.inputs[0] for batch in tests))
