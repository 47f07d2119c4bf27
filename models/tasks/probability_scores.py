"""The metrics of class probabilities, from just what is kept of them: so they can be recomputed.

Probabilities are kept in float16; each row is made to sum to one before it is scored. NumPy alone:
`bench check` computes the same from the file, without torch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

#: Bins of the reliability diagram and of ECE: ((m - 1) / 15, m / 15], as in Guo et al. (2017).
BINS = 15
#: The smallest positive float16; what was rounded to nothing counts as this in a likelihood.
SMALLEST = 2.0**-24
_CHUNK = 2_000_000  # numbers in float64 at a time
_COLUMNS = 32  # classes at a time, laid one after the other
_INFINITY = 0x7C00  # bits of float16; beyond are what is no number


def scores(kept: Mapping[str, Array]) -> dict[str, float]:
    """The metrics that can be computed of a test split.

    `kept` has each example's `target` and `predicted` class, and as far as they were kept the
    `likeliest` classes and the `probabilities` of all. Where an example has several right classes,
    or a class that the model does not know, there are none.
    """
    target, predicted = kept["target"], kept["predicted"]
    if target.ndim != 1 or not len(target) or target.min() < 0:
        return {}
    found = {"macro_f1": macro_f1(predicted, target)}
    if (likeliest := kept.get("likeliest")) is not None:
        found["top5"] = float(np.mean((likeliest == target[:, None]).any(axis=1)))
    probabilities = kept.get("probabilities")
    if probabilities is None or target.max() >= probabilities.shape[1]:
        return found
    nll = brier = 0.0
    confidence = []
    for place, rows, sums in _chunks(probabilities):
        p = rows / sums
        at_target = np.arange(len(p)), target[place]
        nll -= float(np.log(np.maximum(rows[at_target], SMALLEST) / sums[:, 0]).sum())
        brier += float((p**2).sum() - 2 * p[at_target].sum()) + len(p)
        confidence.append(p.max(axis=1))
    right = predicted == target
    found["nll"] = nll / len(target)
    found["brier"] = brier / len(target)
    found["ece"] = calibration_error(reliability(np.concatenate(confidence), right))
    if (area := auroc(probabilities, target)) is not None:
        found["auroc"] = area
    return found


def bins_of(probabilities: Array, right: Array) -> Floats:
    """The reliability diagram's bins of all examples."""
    tops = [(rows / sums).max(axis=1) for _, rows, sums in _chunks(probabilities)]
    return reliability(np.concatenate(tops) if tops else np.empty(0), right)


def reliability(confidence: Floats, right: Array) -> Floats:
    """A row a bin: examples, and the sums of their confidence and of their being right."""
    with np.errstate(invalid="ignore"):  # what diverged is in the first bin, and its sums are none
        places = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)
    columns = (np.ones_like(confidence), confidence, right.astype(np.float64))
    return np.stack([np.bincount(places, column, BINS) for column in columns], axis=1)


def calibration_error(bins: Floats) -> float:
    """ECE: the distance of mean confidence and accuracy in a bin, weighed by its examples."""
    return float(np.abs(bins[:, 1] - bins[:, 2]).sum() / bins[:, 0].sum())


def macro_f1(predicted: Array, target: Array) -> float:
    """The mean F1 of the classes that are predicted or right somewhere."""
    classes = int(max(predicted.max(), target.max())) + 1
    hits = np.bincount(target[predicted == target], minlength=classes)
    counts = np.bincount(predicted, minlength=classes) + np.bincount(target, minlength=classes)
    occur = counts > 0
    return float(np.mean(2 * hits[occur] / counts[occur]))


def auroc(probabilities: Array, target: Array) -> float | None:
    """The mean over classes of the area under the ROC curve of each against the rest.

    Of the classes that some examples have and some have not; None where there is none. Ties count
    half. Positive float16 numbers have the order of their bits, of which there are few: so counts
    of each value take the place of sorting.
    """
    bits = probabilities.view(np.uint16)
    if bits.max(initial=0) > _INFINITY:
        return float("nan")
    order = np.argsort(target, kind="stable")
    ends = np.searchsorted(target[order], np.arange(probabilities.shape[1] + 1))
    areas = []
    for first in range(0, probabilities.shape[1], _COLUMNS):
        columns = np.ascontiguousarray(bits[:, first : first + _COLUMNS].T)
        for k, column in enumerate(columns, start=first):
            own = order[ends[k] : ends[k + 1]]
            negatives = len(target) - len(own)
            if not len(own) or not negatives:
                continue
            every = np.bincount(column)
            above = np.bincount(column[own], minlength=len(every))
            others = every - above
            below = np.cumsum(others) - 0.5 * others
            areas.append(float(above @ below) / (len(own) * negatives))
    return float(np.mean(areas)) if areas else None


def _chunks(probabilities: Array) -> Iterator[tuple[slice, Floats, Floats]]:
    """Rows in float64 with the sum of each, a part of them at a time, and which they are."""
    size = max(1, _CHUNK // probabilities.shape[1])
    for start in range(0, len(probabilities), size):
        place = slice(start, start + size)
        rows = probabilities[place].astype(np.float64)
        yield place, rows, rows.sum(axis=1, keepdims=True)
