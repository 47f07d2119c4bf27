"""Data sets that come with a package that is installed anyway, and so need no network."""

from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_digits

from lightning_bench.data.split import carve_fraction


class Images(NamedTuple):
    """Pixels (count, channels, height, width) in uint8 and labels of one split."""

    pixels: np.ndarray
    labels: np.ndarray


def digits(test_seed: int = 0, val_seed: int = 0) -> dict[str, Images]:
    """scikit-learn's 1,797 scans of handwritten digits, 8 × 8 pixels in 17 greys."""
    bunch = load_digits()
    pixels = bunch.images[:, None].astype(np.uint8)
    labels = bunch.target.astype(np.int64)
    rest, test = carve_fraction(labels, fraction=0.2, seed=test_seed)
    parts = carve_fraction(labels[rest], fraction=0.25, seed=val_seed)
    train, val = (rest[part] for part in parts)
    return {
        name: Images(pixels[index], labels[index])
        for name, index in (("train", train), ("val", val), ("test", test))
    }
