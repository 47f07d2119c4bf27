"""How many images a core of the host can hand over to a GPU, beside the whole work done there.

    python -m benchmarks.feeding [--rounds 5]

Images of noise at 32 and 224 pixels, plain and with DeiT's recipe (crop, flip, RandAugment, random
erasing, mixup and cutmix), as milliseconds of CPU time an image, of all of the process's threads,
whose operations have one thread each. Ways, taken in turns:

- whole batches: gathered, augmented and normalised on the host, as on a CPU and as once for a GPU;
- handed over: what the host makes for a GPU, uint8 pixels and random numbers, in a thread, with a
  copy in place of the one that pins it; the consumer takes it and does nothing;
- of images that the GPU keeps: rows are handed over, and no pixels;
- called: the operations that the GPU is to compute, called on images of 8 pixels, of which the
  calls take nearly all; the same thread does it.

Target: with DeiT's recipe at 224 pixels at least 2550 images a second and core, five times the 510
that whole batches once were. No GPU is needed, and none is used. Takes about a minute.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Generator, Iterable
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor

from benchmarks.common import verdict
from lightning_bench.data.batch import Batch
from lightning_bench.data.loader import EpochOrder
from lightning_bench.data.modules.image_data import ImageLoader
from lightning_bench.data.transforms.augment import Augmentation

DEIT = Augmentation(crop=4, flip=True, randaugment=9, erasing=0.25, mixup=0.8, cutmix=1.0)
RECIPES = {"plain": Augmentation(), "DeiT": DEIT}
#: Pixels, images, images a batch.
SIZES = ((32, 8192, 256), (224, 512, 64))
TARGET = 5 * 510

#: A pass over all images.
Way = Callable[[], None]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}; medians of {options.rounds} rounds")
    for size, count, batch in SIZES:
        pixels = torch.randint(0, 256, (count, 3, size, size), dtype=torch.uint8)
        for recipe, augmentation in RECIPES.items():
            ways = ways_of(pixels, augmentation, batch)
            took_ms = measured(ways, options.rounds, count)
            print(f"{size} pixels, {recipe}:")
            show(took_ms)
            if (size, recipe) == (224, "DeiT"):
                both = took_ms["handed over"] + took_ms["called"]
                print(
                    f"  handed over and called {both:.3f} ms, {verdict(both, 1000 / TARGET, 'ms')}"
                )


class FedLoader(ImageLoader):
    """A loader that feeds a device which computes nothing."""

    keeps = False

    def host_batches(self, start: int) -> Generator[Any, None, None]:
        """What the host makes, copied as it would be to be pinned."""
        for made in super().host_batches(start):
            yield apply_to_collection(made, Tensor, Tensor.clone)

    def kept_on_device(self) -> Tensor | None:
        """All images, or none."""
        return self.pixels.to(self.feed.device) if self.keeps else None

    def finish(self, made: Any) -> Any:
        """Take the batch and do nothing."""
        return made


def ways_of(pixels: Tensor, augmentation: Augmentation, batch: int) -> dict[str, Way]:
    """The ways of feeding these images."""

    def loader(kind: type[ImageLoader], pixels: Tensor) -> ImageLoader:
        return kind(
            pixels,
            torch.zeros(len(pixels), dtype=torch.int64),
            mean=torch.full((3,), 0.5),
            std=torch.full((3,), 0.25),
            classes=1000,
            augmentation=augmentation,
            batch_size=batch,
            order=EpochOrder(len(pixels), seed=0, shuffle=True),
        )

    def fed(*, keeps: bool = False) -> Way:
        ours = loader(FedLoader, pixels)
        assert isinstance(ours, FedLoader)
        ours.keeps = keeps
        ours.feed.attach(torch.device("meta"))
        return lambda: drain(ours)

    whole, small = loader(ImageLoader, pixels), loader(ImageLoader, pixels[..., :8, :8].clone())
    prepared = list(small.host_batches(0))
    return {
        "whole batches": lambda: drain(whole),
        "handed over": fed(),
        "of images that are kept": fed(keeps=True),
        "called": lambda: drain(small.finish(made) for made in prepared),
    }


def drain(batches: Iterable[Batch]) -> None:
    """Take all batches, and do nothing with them."""
    for _ in batches:
        pass


def measured(ways: dict[str, Way], rounds: int, count: int) -> dict[str, float]:
    """Milliseconds of CPU an image, taken in turns; the first round warms up."""
    took_ms: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, go in ways.items():
            started = time.process_time()
            go()
            if number:
                took_ms[name].append(1e3 * (time.process_time() - started) / count)
    return {name: statistics.median(found) for name, found in took_ms.items()}


def show(took_ms: dict[str, float]) -> None:
    """A line a way."""
    whole = took_ms["whole batches"]
    for name, took in took_ms.items():
        print(f"  {name:<24} {took:8.4f} ms   {1000 / took:>9,.0f} a second   {whole / took:6.1f}×")


if __name__ == "__main__":
    main()
