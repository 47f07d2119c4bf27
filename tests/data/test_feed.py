"""Feeding a device: prefetched in order, ended at once, no CPU tensor among a GPU's."""

import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from lightning_bench.data.batch import Batch
from lightning_bench.data.feed import AHEAD, Feed
from lightning_bench.data.loader import EpochOrder, generator
from lightning_bench.data.modules.image_data import ImageLoader
from lightning_bench.data.transforms import randaugment
from lightning_bench.data.transforms.augment import Augmentation, draw
from tests.pretended_cuda.environment import pretended

EVERYTHING = Augmentation(
    crop=2, flip=True, randaugment=9, erasing=0.5, mixup=0.4, cutmix=1.0
)  # fmt: skip


def images(
    augmentation: Augmentation = EVERYTHING, *, rank: int = 0, world_size: int = 1, shift: int = 0
) -> ImageLoader:
    """200 images of noise in batches of 64."""
    seeded = torch.Generator().manual_seed(0)
    order = EpochOrder(200, seed=3, shuffle=True, rank=rank, world_size=world_size)
    return ImageLoader(
        torch.randint(0, 256, (200, 3, 16, 16), dtype=torch.uint8, generator=seeded),
        torch.randint(0, 10, (200,), generator=seeded),
        mean=torch.full((3,), 0.4),
        std=torch.full((3,), 0.2),
        classes=10,
        augmentation=augmentation,
        batch_size=64,
        order=order,
        shift=shift,
    )


def fed() -> Feed:
    """A feed of a device that is no CPU, and that every machine has."""
    feed = Feed()
    feed.attach(torch.device("meta"))
    return feed


def numbered(number: int) -> Batch:
    return Batch((torch.zeros(2),), torch.zeros(2), torch.zeros(2), number)


def threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name.startswith("feed")]


def test_batches_are_made_ahead_in_a_thread_in_their_order_and_on_the_device() -> None:
    made: list[int] = []
    makers: set[str] = set()

    def host() -> Generator[Batch, None, None]:
        for number in range(6):
            makers.add(threading.current_thread().name)
            made.append(number)
            yield numbered(number)

    batches = fed().batches(host(), lambda batch: batch)
    first = next(batches)
    deadline = time.monotonic() + 10
    while len(made) < 1 + AHEAD and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert made == list(range(1 + AHEAD))  # and no more
    assert first.inputs[0].device.type == "meta"
    assert [batch.global_size for batch in batches] == [1, 2, 3, 4, 5]
    assert makers == {"feed_0"}
    assert not threads()


def test_a_cpu_is_fed_in_place() -> None:
    makers: set[str] = set()

    def host() -> Generator[Batch, None, None]:
        makers.add(threading.current_thread().name)
        yield numbered(0)

    assert len(list(Feed().batches(host(), lambda batch: batch))) == 1
    assert makers == {threading.current_thread().name}


def test_an_exception_is_raised_where_the_batch_is_asked_for_with_its_traceback() -> None:
    def host() -> Generator[Batch, None, None]:
        yield numbered(0)
        raise OSError("the disk is gone")

    batches = fed().batches(host(), lambda batch: batch)
    next(batches)
    with pytest.raises(OSError, match="the disk is gone") as raised:
        next(batches)
    assert "host" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert not threads()


@pytest.mark.parametrize("way", ["stopped", "closed", "forgotten"])
def test_a_thread_ends_with_what_asked_for_its_batches(way: str) -> None:
    left: list[bool] = []

    def host() -> Generator[Batch, None, None]:
        try:
            for number in range(1_000_000):
                yield numbered(number)
        finally:
            left.append(True)

    feed = fed()
    batches: Any = feed.batches(host(), lambda batch: batch)
    next(batches)
    assert threads()
    started = time.monotonic()
    if way == "stopped":
        feed.stop()
    elif way == "closed":
        batches.close()
    else:
        del batches
    assert not threads()
    assert time.monotonic() - started < 1
    if way != "stopped":
        assert left


def test_a_process_that_is_told_to_exit_waits_for_no_batch() -> None:
    """As a worker does that was asked to stop, with the epoch's batches still referred to."""
    script = (
        "import sys, tests.data.test_feed as t\n"
        "loader = t.images(); loader.feed = t.fed()\n"
        "batches = iter(loader); next(batches)\n"
        "sys.exit(64)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, timeout=60, check=False)
    assert done.returncode == 64


@pytest.mark.parametrize("name", ["crop", "flip", "randaugment", "erasing", "mixup", "cutmix"])
@pytest.mark.parametrize("world_size", [1, 2])
def test_no_cpu_tensor_meets_a_gpus_and_nothing_is_read_back(name: str, world_size: int) -> None:
    """Fake tensors have their devices' rules, and raise where an operation needs a value."""
    loader = images(
        replace(Augmentation(), **{name: getattr(EVERYTHING, name)}), world_size=world_size, shift=1
    )
    _finished_on_fake_cuda(loader)


def test_all_augmentations_together_stay_on_the_device() -> None:
    _finished_on_fake_cuda(images())
    _finished_on_fake_cuda(images(Augmentation()))


class OnlyOnGpu(TorchFunctionMode):
    """Refuses what CUDA accepts, too: an index in the host's memory, for which all would wait."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        made = function(*args, **(kwargs or {}))
        assert not isinstance(made, Tensor) or made.device.type == "cuda", function
        return made


def _finished_on_fake_cuda(loader: ImageLoader) -> None:
    made = next(loader.host_batches(0))
    mode = FakeTensorMode()

    def on_gpu(tensor: Tensor) -> Tensor:
        with mode:
            return torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")

    loader._middle, loader._scale = on_gpu(loader._middle), on_gpu(loader._scale)
    fake = apply_to_collection(made, Tensor, on_gpu)
    with mode, OnlyOnGpu():
        batch = loader.finish(fake)
    for tensor in (*batch.inputs, batch.target, batch.indices):
        assert tensor.device.type == "cuda"


CUDA = """
import sys, torch, tests.data.test_feed as t
from pretended_torch import Stream

waited, recorded, current = [], [], set()
Stream.wait_event = lambda self, event: waited.append(event.at)
torch.Tensor.record_stream = lambda self, stream: recorded.append(self.data_ptr())

def batches(**options):
    for a in (t.EVERYTHING, t.Augmentation(), t.Augmentation(flip=True, randaugment=9)):
        on_cpu, on_gpu = t.images(a, **options), t.images(a, **options)
        on_gpu.feed.attach(torch.device("cuda", torch.cuda.current_device()))
        finish = on_gpu.finish
        on_gpu.finish = lambda made: current.add(torch.cuda.current_device()) or finish(made)
        yield on_gpu, list(zip(on_cpu, on_gpu, strict=True))

torch.cuda.set_device(1)
for options in ({}, {"rank": 1, "world_size": 2}):
    for loader, pairs in batches(**options):
        assert (loader.feed.resident(loader.pixels) is not None) == (sys.argv[1] == "resident")
        host = next(loader.host_batches(0))
        assert host.pixels.dtype == (torch.int64 if sys.argv[1] == "resident" else torch.uint8)
        assert pairs
        for here, there in pairs:
            assert torch.equal(here.inputs[0], there.inputs[0])
            assert torch.equal(here.target, there.target)
            assert torch.equal(here.indices, there.indices)
            assert here.global_size == there.global_size
            # The training waits for what was done on another stream, and keeps its memory.
            assert waited.pop(0) > 0
            for tensor in (*there.inputs, there.target, there.indices):
                assert tensor.data_ptr() in recorded
        assert not waited
        recorded.clear()
assert current == {1}  # also in the thread
"""


@pytest.mark.parametrize(("capacity", "kept"), [(80_000_000, "resident"), (3_000_000, "sent")])
def test_a_gpu_gets_the_batches_of_a_cpu_whether_or_not_it_keeps_the_images(
    capacity: int, kept: str, tmp_path: Path
) -> None:
    """150 kB of images are less than a twentieth of the one, and more of the other."""
    root = Path(__file__).parents[2]
    env = os.environ | pretended(tmp_path, devices=2, capacity=capacity)
    done = subprocess.run(
        [sys.executable, "-c", CUDA, kept],
        cwd=root,
        env={name: value for name, value in env.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def as_one_did_it(loader: ImageLoader, number: int) -> tuple[Tensor, Tensor]:
    """A batch of one rank, by each example's own draw, one after the other."""
    order, a = loader.sampler, loader.augmentation
    members = loader.global_batches()[number]
    drawn = draw(a, len(members), (16, 16), generator(order.seed, order.epoch, number))
    assert drawn.corner is not None
    assert drawn.flip is not None
    assert drawn.operations is not None
    assert drawn.signs is not None
    assert drawn.erase is not None
    assert drawn.share is not None
    assert drawn.box is not None
    altered = []
    for place, row in enumerate(members.tolist()):
        padded = torch.nn.functional.pad(loader.pixels[row], (a.crop,) * 4)
        top, left = drawn.corner[place].tolist()
        image = padded[:, top : top + 16, left : left + 16]
        image = image.flip(-1) if drawn.flip[place] else image
        for operation, sign in zip(drawn.operations[place], drawn.signs[place], strict=True):
            strength = int(sign) * a.randaugment / randaugment.BINS
            image = randaugment.OPERATIONS[int(operation)](image[None], strength)[0]
        x = image.float().sub(0.4 * 255).mul(1 / (torch.tensor(0.2) * 255))
        top, left, bottom, right = drawn.erase[place].tolist()
        x[:, top:bottom, left:right] = 0
        altered.append(x)
    mixed, targets = [], []
    one_hot = torch.eye(10)[loader.target[members]]
    for place, x in enumerate(altered):
        partner, share = (place + 1) % len(members), drawn.share[place]
        top, left, bottom, right = drawn.box[place].tolist()
        cut = (bottom - top) * (right - left) > 0
        y = x.clone() if cut or share == 1 else torch.lerp(altered[partner], x, share)
        y[:, top:bottom, left:right] = altered[partner][:, top:bottom, left:right]
        mixed.append(y)
        targets.append(torch.lerp(one_hot[partner], one_hot[place], share))
    return torch.stack(mixed), torch.stack(targets)


def test_a_batch_is_what_its_draws_say_of_each_example() -> None:
    loader = images()
    for number, batch in enumerate(loader.batches()):
        x, target = as_one_did_it(loader, number)
        torch.testing.assert_close(batch.inputs[0], x, rtol=0, atol=1e-5)
        assert torch.equal(batch.target, target)
