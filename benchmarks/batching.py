"""Does batching by length cost accuracy? The same 18-layer text model both ways, paired by seed.

    BENCH_DATA=… BENCH_MODELS=… python -m benchmarks.batching [--seeds 5] [--examples 12800]

SST-2: batches of whatever length padded to 128, as the usual recipe has it, against batches of
about one length padded to the longest. The model is an 18-block gMLP, narrow so that a CPU can
train it; it starts from the same weights and sees the same examples in each pair. Prints the
test accuracies, the mean of the paired differences with its 95 % interval, and the time taken.
Target: the interval holds zero. About eight minutes on one core.
"""

import argparse
import math
import time
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from scipy import stats
from torch import Tensor, nn

from lightning_bench.data.loader import Loader
from lightning_bench.data.modules.text_data import TextData
from lightning_bench.data.token_arrays import TextLoader, Texts
from lightning_bench.models.registry import registry

Way = Literal["padded to 128", "by length"]
WAYS: tuple[Way, ...] = ("padded to 128", "by length")
BATCH, LENGTH, RATE = 32, 128, 2e-3


class AnyLength(TextLoader):
    """Batches in the order of the permutation, whatever their texts' lengths."""

    def permutation(self) -> Tensor:
        """The permutation itself."""
        return Loader.permutation(self)


def main() -> None:
    """Train both ways with each seed, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=12_800)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[Way, list[float]] = {way: [] for way in WAYS}
    took_s: dict[Way, list[float]] = {way: [] for way in WAYS}
    for seed in range(options.seeds):
        for way in WAYS:
            started = time.perf_counter()
            found[way].append(accuracy(way, seed, options.examples))
            took_s[way].append(time.perf_counter() - started)
        print(f"seed {seed}: " + ", ".join(f"{way} {found[way][-1]:.2%}" for way in WAYS))
    difference = np.subtract(found["by length"], found["padded to 128"])
    mean, error = difference.mean(), stats.sem(difference)
    low, high = stats.t.interval(0.95, len(difference) - 1, mean, error)
    for way in WAYS:
        print(f"{way}: {np.mean(found[way]):.2%} ± {np.std(found[way], ddof=1):.2%} (SD), "
              f"{np.median(took_s[way]):.0f} s a run")  # fmt: skip
    print(f"by length − padded: {mean:+.2%}, 95 % interval {low:+.2%} to {high:+.2%}, "
          f"{len(difference)} pairs")  # fmt: skip
    print("within noise" if low <= 0 <= high else "NOT within noise")


def accuracy(way: Way, seed: int, examples: int) -> float:
    """Train one epoch on the first examples, and return the test accuracy."""
    data = TextData("sst2", batch_size=BATCH, seed=seed)
    data.setup()
    data.splits["train"] = _first(data.splits["train"], examples)
    torch.manual_seed(seed)
    model = registry.create("gmlp-text", **data.facts(), width=32, hidden=64, depth=18, pool="mean")
    loader = data.train_dataloader()
    if way == "padded to 128":
        loader = AnyLength(data.splits["train"], batch_size=BATCH, order=loader.sampler)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.01, fused=True)
    steps = len(loader)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 40, 0.5 + 0.5 * math.cos(math.pi * step / steps))
    )
    for batch in loader:
        F.cross_entropy(model(*_inputs(way, batch.inputs)), batch.target).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
    with torch.inference_mode():
        right = [
            (model(*_inputs(way, batch.inputs)).argmax(-1) == batch.target).float()
            for batch in data.test_dataloader()[0]
        ]
    return torch.cat(right).mean().item()


def _inputs(way: Way, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    if way == "by length":
        return inputs
    return tuple(F.pad(part, (0, LENGTH - part.shape[1])) for part in inputs)


def _first(texts: Texts, count: int) -> Texts:
    return Texts(
        texts.tokens[: texts.starts[count]],
        texts.starts[: count + 1],
        texts.second[:count],
        texts.labels[:count],
    )


if __name__ == "__main__":
    main()
