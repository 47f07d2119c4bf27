"""How fast the data is, beside the usual way, in one run, interleaved.

    BENCH_DATA=… BENCH_MODELS=… python benchmarks/data.py [--rounds 5] [--no-model]

Prints medians and ratios. Images: CIFAR-10, random crop and flip, normalised, batches of 256, on
all cores given. Text: SST-2, batches of 32, training steps of the 18-block gMLP (its feed-forward
256 wide, so that a CPU can train it), padded to 128 and by length. Needs the mirror; takes about
two minutes.
"""

import argparse
import io
import os
import statistics
import sys
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

# Run as a script, this file would hide the package of the same name.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from lightning_bench.data.batch import Batch  # noqa: E402
from lightning_bench.data.catalogue import entries  # noqa: E402
from lightning_bench.data.modules.image_data import ImageData  # noqa: E402
from lightning_bench.data.modules.text_data import TextData  # noqa: E402
from lightning_bench.data.sources import repository  # noqa: E402
from lightning_bench.data.transforms.augment import Augmentation  # noqa: E402
from lightning_bench.models.registry import registry  # noqa: E402

BATCH = 256


class Usual(Dataset[Any]):
    """CIFAR-10 as PIL images, already decoded, one transform an image."""

    def __init__(self, images: list[Image.Image], mean: list[float], std: list[float]) -> None:
        self.images = images
        self.transform = transforms.Compose(
            [
                transforms.RandomCrop(32, padding=4),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(mean, std),
            ]
        )

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        return self.transform(self.images[index]), 0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-model", action="store_true", help="leave out the text model")
    options = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    print(f"{cores} cores, load {os.getloadavg()[0]:.1f}; medians of {options.rounds} rounds\n")
    images(options.rounds, cores)
    text(options.rounds, model=not options.no_model)


def images(rounds: int, cores: int) -> None:
    """CIFAR-10, augmented one by one and as batches."""
    started = time.perf_counter()
    data = ImageData(
        "cifar10", batch_size=BATCH, seed=0, augmentation=Augmentation(crop=4, flip=True)
    )
    data.setup()
    first_s = time.perf_counter() - started
    opening = []
    for _ in range(5):
        started = time.perf_counter()
        again = ImageData("cifar10", batch_size=BATCH, seed=0)
        again.setup()
        opening.append(time.perf_counter() - started)
    print(f"CIFAR-10: first opening {first_s:.2f} s, again {statistics.median(opening):.4f} s")
    usual = Usual(_decoded(20_480), data.mean.tolist(), data.std.tolist())
    loaders = {
        workers: DataLoader(
            usual, BATCH, shuffle=True, num_workers=workers, persistent_workers=workers > 0
        )
        for workers in (0, cores)
    }
    ours = data.train_dataloader()
    ways: dict[str, Callable[[], int]] = {
        "per sample, torchvision, 1 process": lambda: _count(islice(loaders[0], 12)),
        f"per sample, torchvision, {cores} workers": lambda: _count(islice(loaders[cores], 80)),
        "batched, 1 thread": lambda: _threads(1, lambda: _count(ours)),
        f"batched, {cores} threads": lambda: _threads(cores, lambda: _count(ours)),
    }
    speeds = _race(ways, rounds)
    _show("images", speeds)
    names = list(speeds)
    one = statistics.median(speeds[names[2]]) / statistics.median(speeds[names[0]])
    best = max(statistics.median(speeds[name]) for name in names[2:])
    all_ = best / statistics.median(speeds[names[1]])
    print(f"  on one core {one:.1f}×; on {cores} cores {all_:.1f}×\n")


def text(rounds: int, *, model: bool) -> None:
    """SST-2, padded to 128 and by length."""
    data = TextData("sst2", batch_size=32, seed=0)
    data.setup()
    loader = data.train_dataloader()
    seen = padded = sentences = 0
    for batch in loader:
        mask = batch.inputs[1]
        seen, padded = seen + int(mask.sum()), padded + mask.numel()
        sentences += len(mask)
    print(f"SST-2: {1 - seen / padded:.1%} pads, padded to 128 {1 - seen / (128 * sentences):.1%}")
    if not model:
        return
    torch.set_num_threads(1)
    net = registry.create("gmlp-text-18", **data.facts(), hidden=256)
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)

    def steps(pad: bool, count: int) -> int:
        done = 0
        for batch in islice(loader, count):
            inputs = _to_128(batch) if pad else batch.inputs
            F.cross_entropy(net(*inputs), batch.target).backward()
            optimizer.step()
            optimizer.zero_grad()
            done += len(batch.target)
        return done

    speeds = _race(
        {"padded to 128": lambda: steps(True, 2), "by length": lambda: steps(False, 12)}, rounds
    )
    _show("sentences", speeds)
    plain, ours = (statistics.median(values) for values in speeds.values())
    print(f"  {ours / plain:.1f}×")


def _decoded(count: int) -> list[Image.Image]:
    entry = entries()["cifar10"]
    assert entry.repository is not None
    (path,) = repository.files(entry.repository, [entry.files["train"]], revision=entry.revision)
    cells = next(pq.ParquetFile(path).iter_batches(count, columns=["img"])).column(0)
    return [Image.open(io.BytesIO(c["bytes"].as_py())).convert("RGB") for c in cells]


def _to_128(batch: Batch) -> tuple[torch.Tensor, ...]:
    return tuple(F.pad(part, (0, 128 - part.shape[1])) for part in batch.inputs)


def _count(batches: Any) -> int:
    return sum(len(batch[0] if isinstance(batch, list) else batch.target) for batch in batches)


def _threads(count: int, what: Callable[[], int]) -> int:
    torch.set_num_threads(count)
    return what()


def _race(ways: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """Examples a second of each way, taken in turns; the first round only warms up."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, run in ways.items():
            started = time.perf_counter()
            done = run()
            if number:
                speeds[name].append(done / (time.perf_counter() - started))
    return speeds


def _show(unit: str, speeds: dict[str, list[float]]) -> None:
    for name, values in speeds.items():
        spread = (max(values) - min(values)) / statistics.median(values)
        print(f"  {name:<40} {statistics.median(values):>10,.0f} {unit}/s  (range {spread:.0%})")


if __name__ == "__main__":
    main()
