"""Class metrics: what is known, beside accuracy, of every classifier's test predictions.

They are in every record that can have them; a page's `metrics:` makes them columns of its tables.
`models.tasks.probability_scores` computes them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lightning_bench.data.dataset import DataSet

#: Classes from which on the five likeliest are not simply all.
TOP5_FROM = 6
#: No more probabilities than these are kept of a run: ImageNet's, of 1,000 classes, are 100 MB.
MOST_BYTES = 256 * 2**20


@dataclass(frozen=True)
class ClassMetric:
    """A metric's facts, without any code that computes it."""

    title: str
    higher_is_better: bool
    of_probabilities: bool = True


CLASS_METRICS: Mapping[str, ClassMetric] = {
    "top5": ClassMetric("share of examples whose class is among the five likeliest", True),
    "nll": ClassMetric(
        "negative log likelihood in nats; a probability below float16's smallest, 6e-8, counts as"
        " that",
        False,
    ),
    "brier": ClassMetric("Brier score, the squared error summed over classes: from 0 to 2", False),
    "ece": ClassMetric(
        "expected calibration error of the likeliest class, 15 bins of equal width (Guo et al."
        " 2017)",
        False,
    ),
    "auroc": ClassMetric(
        "area under the ROC curve, each class against the rest, mean over classes", True
    ),
    "macro_f1": ClassMetric(
        "F1 of each class, mean over those that occur", True, of_probabilities=False
    ),
}


def is_class_metric(name: str) -> bool:
    """Whether a record's metric is one of these, of whatever test."""
    return any(name == metric or name.startswith(f"{metric}_") for metric in CLASS_METRICS)


def shown(wanted: Iterable[str], dataset: DataSet) -> list[str]:
    """Those of the wanted metrics that a data set can have and does not show by itself."""
    of_training = [name for name in wanted if name in dataset.of_training]
    if dataset.task != "classify":
        return of_training
    few = dataset.classes < TOP5_FROM
    known = [name for name in wanted if name in CLASS_METRICS and name not in dataset.metrics]
    return [*of_training, *(name for name in known if not (name == "top5" and few))]


def tests_kept(dataset: DataSet) -> list[str]:
    """The tests whose class probabilities are kept: of a classifier's, those that are no shift."""
    if dataset.task != "classify":
        return []
    return [name for name in dataset.tests if not dataset.made_of(name)[1]]


def probability_bytes(dataset: DataSet, sizes: Mapping[str, int]) -> int:
    """What the class probabilities of one run take before they are compressed, in float16."""
    return 2 * dataset.classes * sum(sizes.get(name, 0) for name in tests_kept(dataset))


def too_many(dataset: DataSet, sizes: Mapping[str, int]) -> str:
    """Why all probabilities are not kept, where they are too many; the likeliest classes are."""
    size = probability_bytes(dataset, sizes)
    if size <= MOST_BYTES:
        return ""
    return (
        f"{dataset.classes:,} classes of all test examples are {size / 1e6:,.0f} MB, more than"
        f" {MOST_BYTES / 1e6:,.0f} MB; the 5 likeliest classes are kept"
    )
