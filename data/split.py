"""Splits carved with a fixed seed, the same on every machine."""

import numpy as np


def by_class(labels: np.ndarray, *, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sorted indices (kept, carved): `fraction` of each class is carved out, rounded.

    PCG64 is fixed by name, because NumPy's default generator may change.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    carved = []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        carved.append(generator.permutation(members)[: round(fraction * len(members))])
    out = np.sort(np.concatenate(carved))
    return np.setdiff1d(np.arange(len(labels)), out), out
