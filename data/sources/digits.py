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
    return _split(_scans(), test_seed, val_seed)


def digits_28(test_seed: int = 0, val_seed: int = 0) -> dict[str, Images]:
    """The same scans laid out as MNIST's: 20 × 20 in the middle of 28 × 28, in 256 greys."""
    enlarged = resized(_scans() / _WHITE * 255, 20)
    return _split(np.pad(enlarged, ((0, 0), (0, 0), (4, 4), (4, 4))), test_seed, val_seed)


def digits_inverted(test_seed: int = 0, val_seed: int = 0) -> dict[str, Images]:
    """The same scans, a random half of them black on white, which no linear function reads well.

    The mean of every class is about one grey, so that all depends on products of pixels, as in XOR.
    """
    scans = _scans()
    inverted = np.random.Generator(np.random.PCG64(0)).random(len(scans)) < 0.5
    return _split(
        np.where(inverted[:, None, None, None], _WHITE - scans, scans), test_seed, val_seed
    )


def resized(pixels: np.ndarray, size: int) -> np.ndarray:
    """Images B×C×H×H enlarged to another side by bilinear interpolation, in uint8."""
    side = pixels.shape[-1]
    places = np.clip((np.arange(size) + 0.5) * side / size - 0.5, 0, side - 1)
    weights = np.clip(1 - np.abs(places[:, None] - np.arange(side)), 0, None)
    enlarged: np.ndarray = np.rint(weights @ pixels @ weights.T).astype(np.uint8)
    return enlarged


#: The brightest of the 17 greys.
_WHITE = 16


def _scans() -> np.ndarray:
    pixels: np.ndarray = load_digits().images[:, None].astype(np.uint8)
    return pixels


def _split(pixels: np.ndarray, test_seed: int, val_seed: int) -> dict[str, Images]:
    labels = load_digits().target.astype(np.int64)
    rest, test = carve_fraction(labels, fraction=0.2, seed=test_seed)
    parts = carve_fraction(labels[rest], fraction=0.25, seed=val_seed)
    train, val = (rest[part] for part in parts)
    return {
        name: Images(pixels[index], labels[index])
        for name, index in (("train", train), ("val", val), ("test", test))
    }
