"""Large images and memory, beside the usual way, in one run.

    BENCH_DATA=… python -m benchmarks.images [--rounds 5]

Photographs: the mirror's ImageNet images to 96 pixels, decoded straight to about that size and
normalised as batches, against decoded whole, resized and normalised one by one by torchvision.
Passes: what one pass over the 500 of them takes of the clock, decoded in place, by our threads, and
by the processes of torch's DataLoader, forked or, as inside a run, asked of the fork server.
Memory: what opening CIFAR-10 and reading all of it adds to a process (its proportional share, PSS),
alone and with a second process that does the same: at most 1.2 × the data, and shared.
Takes about a minute.
"""

import argparse
import io
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

from lightning_bench.common.machine import usable_cores
from lightning_bench.data.catalogue import find
from lightning_bench.data.modules.image_data import ImageData
from lightning_bench.data.modules.streamed_images import StreamedImages

SIZE = 96


class Whole(Dataset[Any]):
    """Photographs decoded whole, then resized and cropped by torchvision."""

    def __init__(self, photographs: list[bytes], mean: list[float], std: list[float]) -> None:
        self.photographs = photographs
        self.transform = transforms.Compose(
            [
                transforms.Resize(round(SIZE / 0.875), transforms.InterpolationMode.BICUBIC),
                transforms.CenterCrop(SIZE),
                transforms.ToTensor(),
                transforms.Normalize(mean, std),
            ]
        )

    def __len__(self) -> int:
        return len(self.photographs)

    def __getitem__(self, index: int) -> Any:
        image = Image.open(io.BytesIO(self.photographs[index])).convert("RGB")
        return self.transform(image)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}; medians of {options.rounds} rounds")
    photographs(options.rounds)
    passes(options.rounds)
    memory()


def photographs(rounds: int) -> None:
    """CPU time an image, which is what a worker does, taken in turns; the first round warms up."""
    torch.set_num_threads(1)
    entry = find("imagenet1k", image_size=SIZE)
    data = StreamedImages(entry, batch_size=50, seed=0, sample=True, workers=0)
    data.setup("test")
    table, members = data.sources["test"]
    whole = Whole(
        [table[int(row)]["image"]["bytes"] for row in members],
        data.mean.tolist(),
        data.std.tolist(),
    )
    ways: dict[str, Callable[[], Any]] = {
        "decoded whole, resized": lambda: [whole[i] for i in range(len(whole))],
        "decoded to the size": lambda: list(data.test_dataloader()[0]),
    }
    took_ms: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, read in ways.items():
            started = time.process_time()
            read()
            if number:
                took_ms[name].append(1e3 * (time.process_time() - started) / len(whole))
    usual, ours = (statistics.median(found) for found in took_ms.values())
    for name, found in took_ms.items():
        print(f"  {name:<24} {statistics.median(found):.2f} ms of CPU an image")
    print(f"  {usual / ours:.1f}×")


def passes(rounds: int) -> None:
    """Seconds of one pass at the full size, from its first request on, ways taken in turns."""
    cores = usable_cores()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lightning_bench.bench.run.worker"])
    mine, other = context.Pipe()
    run = context.Process(target=_passes, args=(other, cores, rounds), daemon=False)
    run.start()
    other.close()
    print(f"one pass over 500 photographs at 224 pixels, {cores} cores:")
    for name, took_s in mine.recv().items():
        print(f"  {name:<34} {statistics.median(took_s):.2f} s")
    run.join()


def _passes(end: Connection, cores: int, rounds: int) -> None:
    """Measured in a child of the fork server, as every run is."""
    torch.set_num_threads(1)
    data = StreamedImages(find("imagenet1k"), batch_size=50, seed=0, sample=True)
    data.setup("test")

    def ours(threads: int) -> Callable[[], Any]:
        data.workers = threads
        loader = data.test_dataloader()[0]
        return lambda: list(loader)

    def torchs(start: str) -> Callable[[], Any]:
        decoder = data._decoder("test")
        requests = [[(row, ()) for row in range(i, i + 50)] for i in range(0, 500, 50)]
        loader = DataLoader(
            decoder,  # type: ignore[arg-type]  # it needs no more than `[]`
            batch_sampler=requests,
            num_workers=cores,
            multiprocessing_context=start,
        )
        return lambda: list(loader)

    ways = {
        "in place": ours(0),
        f"{cores} threads": ours(cores),
        f"{cores} processes, forked": torchs("fork"),
        f"{cores} processes, of the fork server": torchs("forkserver"),
    }
    took_s: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, read in ways.items():
            started = time.perf_counter()
            read()
            took_s[name].append(time.perf_counter() - started)
    end.send(took_s)


def memory() -> None:
    """What CIFAR-10 adds to one process, and to each of two."""
    context = multiprocessing.get_context("spawn")
    ends = []
    for number in (1, 2):
        mine, other = context.Pipe()
        context.Process(target=_reader, args=(other,), daemon=True).start()
        data_mb, alone_mb = mine.recv()
        ends.append(mine)
        if number == 1:
            ratio = alone_mb / data_mb
            print(f"CIFAR-10: {data_mb:.0f} MB; one process has {alone_mb:.0f} MB: {ratio:.2f} ×")
    for end in ends:
        end.send("again")
    shares = [end.recv() for end in ends]
    print(f"  two processes: {shares[0]:.0f} and {shares[1]:.0f} MB, "
          f"together {sum(shares) / data_mb:.2f} ×")  # fmt: skip


def _reader(end: Connection) -> None:
    torch.set_num_threads(1)
    _read_all("digits")  # so that what is imported late counts for nobody
    before = _pss_mb()
    data = _read_all("cifar10")
    pixels = sum(images.pixels.nbytes for images in data.splits.values())
    end.send((pixels / 1e6, _pss_mb() - before))
    end.recv()
    end.send(_pss_mb() - before)
    time.sleep(2)  # until both have looked


def _read_all(name: str) -> ImageData:
    data = ImageData(name, batch_size=256, seed=0)
    data.setup()
    for loader in (data.train_dataloader(), data.val_dataloader(), *data.test_dataloader()):
        for _ in loader:
            pass
    return data


def _pss_mb() -> float:
    """This process's memory, pages that others map too by its share of them."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1000


if __name__ == "__main__":
    main()
