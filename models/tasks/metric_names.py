"""Metrics by name: those of ours, torchmetrics' with arguments, and the user's own; without torch.

A page writes `accuracy`, `F1Score(average=macro)` (torchmetrics' own names and arguments) or
`module:callable`, which is given predictions and targets. `class_probabilities` in place of
predictions asks for what each class is given: so a callable whose first parameter is called
`probabilities` gets these. A test compares the facts below with torchmetrics.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import yaml

from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError

Value = bool | int | float | str | None

#: What tables print in per cent.
_SHARES = {
    *("AUROC", "Accuracy", "AveragePrecision", "CalibrationError", "ExactMatch", "F1Score"),
    *("FBetaScore", "HammingDistance", "JaccardIndex", "NegativePredictiveValue", "Precision"),
    *("Recall", "Specificity"),
}
#: torchmetrics' metrics of classes that are one number, and whether more of it is better.
OF_CLASSES: Mapping[str, bool] = {
    "AUROC": True,
    "Accuracy": True,
    "AveragePrecision": True,
    "CalibrationError": False,
    "CohenKappa": True,
    "ExactMatch": True,
    "F1Score": True,
    "FBetaScore": True,
    "HammingDistance": False,
    "HingeLoss": False,
    "JaccardIndex": True,
    "LogAUC": True,
    "MatthewsCorrCoef": True,
    "NegativePredictiveValue": True,
    "Precision": True,
    "Recall": True,
    "Specificity": True,
}
#: Those that there are for several labels of an example, too.
OF_LABELS = OF_CLASSES.keys() - {"CalibrationError", "CohenKappa", "HingeLoss"}
#: Those that are of class probabilities, however they are called.
_OF_PROBABILITIES = {"AUROC", "AveragePrecision", "CalibrationError", "HingeLoss", "LogAUC"}
#: Whose default average, micro, is accuracy itself where an example has one class.
_MICRO = {"F1Score", "FBetaScore", "Precision", "Recall"}
#: torchmetrics' metrics of numbers, and whether more of it is better.
OF_NUMBERS: Mapping[str, bool] = {
    "ConcordanceCorrCoef": True,
    "CosineSimilarity": True,
    "ExplainedVariance": True,
    "KendallRankCorrCoef": True,
    "LogCoshError": False,
    "MeanAbsoluteError": False,
    "MeanAbsolutePercentageError": False,
    "MeanSquaredError": False,
    "MeanSquaredLogError": False,
    "MinkowskiDistance": False,
    "NormalizedRootMeanSquaredError": False,
    "PearsonCorrCoef": True,
    "R2Score": True,
    "RelativeSquaredError": False,
    "SpearmanCorrCoef": True,
    "SymmetricMeanAbsolutePercentageError": False,
    "TweedieDevianceScore": False,
    "WeightedMeanAbsolutePercentageError": False,
}
#: The tasks that have a metric of ours.
OURS: Mapping[str, frozenset[str]] = {
    "accuracy": frozenset({"classify"}),
    "f1": frozenset({"classify"}),
    "matthews": frozenset({"classify"}),
    "pearson": frozenset({"regress"}),
    "spearman": frozenset({"regress"}),
}
_SPELLED = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<arguments>.*)\))?")


@dataclass(frozen=True)
class MetricName:
    """A metric as a page spells it, taken apart."""

    spelled: str
    name: str
    arguments: Mapping[str, Value] = field(default_factory=dict)

    @property
    def own(self) -> bool:
        """Whether it is the user's, `module:callable`."""
        return ":" in self.name

    @property
    def tasks(self) -> frozenset[str]:
        """The tasks of data sets that can have it."""
        if self.own:
            return frozenset({"classify", "multilabel", "regress"})
        if self.name in OURS:
            return OURS[self.name]
        found = {"classify"} if self.name in OF_CLASSES else set()
        found |= {"multilabel"} if self.name in OF_LABELS else set()
        return frozenset(found | ({"regress"} if self.name in OF_NUMBERS else set()))

    @property
    def higher_is_better(self) -> bool | None:
        """Whether more of it is better; None where nobody but its author knows."""
        if self.name in OURS:
            return True
        return {**OF_CLASSES, **OF_NUMBERS}.get(self.name)

    @property
    def is_share(self) -> bool:
        """Whether tables print it in per cent."""
        return self.name in _SHARES

    @property
    def of_probabilities(self) -> bool:
        """Whether it needs what each class is given, not the likeliest class alone."""
        return self.name in _OF_PROBABILITIES or bool({"top_k", "threshold"} & {*self.arguments})


def parse(spelled: str) -> MetricName:
    """Take a metric's name and arguments apart; a ModelError says what is wrong with it."""
    found = _SPELLED.fullmatch(spelled.strip())
    if found is None:
        raise ModelError(f"{spelled}: a metric is spelled Name or Name(argument=value, …)")
    name, inside = found["name"], found["arguments"]
    arguments: dict[str, Value] = {}
    for part in filter(None, (part.strip() for part in (inside or "").split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise ModelError(f"{spelled}: give arguments by name, as in {name}(average=macro)")
        arguments[key.strip()] = scalar(value.strip())
    metric = MetricName(spelled, name, arguments)
    if not metric.tasks:
        known = [*OURS, *OF_CLASSES, *OF_NUMBERS, "nll", "ece", "brier", "auroc", "macro_f1"]
        raise ModelError(
            f"there is no metric {name!r}{nearest(name, known)}; "
            "your own is written module:callable"
        )
    if name in _MICRO and not {"average", "top_k"} & arguments.keys():
        raise ModelError(
            f"{name} without an average is torchmetrics' micro, which is accuracy itself where "
            f"an example has one class: write {name}(average=macro), or weighted, or micro"
        )
    return metric


def scalar(text: str) -> Value:
    """A value as YAML has it, and numbers such as 1e-3 that YAML 1.1 takes for text."""
    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value if isinstance(value, bool | int | float) else None
