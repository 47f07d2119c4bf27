"""Attention on a CPU: plain products against torch's fused kernel, forward and backward, in turns.

    python -m benchmarks.attention

Prints the median time of each in bfloat16, and the ratio of the fused kernel's to ours, which shall
be above 1: it is what `models/layers/attention.py` gains. Half a minute on one core.
"""

import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from lightning_bench.models.layers.attention import attend

ROUNDS = 15
#: Examples, heads, positions, channels of a head: a small ViT, BERT, ViT-S, ViT-B at 384 pixels.
SHAPES = [(128, 3, 64, 32), (32, 12, 128, 64), (8, 6, 196, 64), (1, 12, 576, 64)]

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


def fused(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> Tensor:
    """Torch's own."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def once(way: Attend, shape: tuple[int, int, int, int]) -> float:
    """Milliseconds of CPU time that a step takes."""
    batch, heads, length, width = shape
    qkv = torch.randn(3, batch, heads, length, width, dtype=torch.bfloat16, requires_grad=True)
    began = time.process_time()
    way(*qkv.unbind(), None).sum().backward()
    return 1e3 * (time.process_time() - began)


def main() -> None:
    """Print a line for each shape."""
    torch.set_num_threads(1)
    for shape in SHAPES:
        took: dict[Attend, list[float]] = {attend: [], fused: []}
        for _ in range(ROUNDS):
            for way, times in took.items():
                times.append(once(way, shape))
        ours, theirs = median(took[attend][2:]), median(took[fused][2:])
        ratios = [b / a for a, b in zip(took[attend][2:], took[fused][2:], strict=True)]
        print(
            f"{' × '.join(map(str, shape)):<18} products {ours:7.1f} ms, fused {theirs:7.1f} ms: "
            f"ratio {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
