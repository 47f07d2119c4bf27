"""The catalogue of named data sets: plain facts, read without torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set before it is loaded."""

    name: str
    title: str
    kind: Literal["image", "text"]
    classes: int
    channels: int
    image_size: int
    metrics: tuple[str, ...]  # the first one ranks
    splits: Mapping[str, int]
    policy: str
    source: str
    licence: str
    citation: str

    @property
    def module(self) -> str:
        """The module of the data module that loads it."""
        return "data.images"

    def facts(self) -> dict[str, int]:
        """The model arguments that the data set decides."""
        return {"channels": self.channels, "image_size": self.image_size, "classes": self.classes}


#: Whether more of a metric is better.
HIGHER_IS_BETTER: Mapping[str, bool] = {"accuracy": True, "loss": False}

_DATA_SETS = (
    DataSet(
        name="digits",
        title="Optical recognition of handwritten digits",
        kind="image",
        classes=10,
        channels=1,
        image_size=8,
        metrics=("accuracy",),
        splits={"train": 1079, "val": 359, "test": 359},
        policy="no official split here: 20 % of each class for test, 20 % for validation, seed 0",
        source="embedded in scikit-learn, no network needed",
        licence="CC BY 4.0",
        citation="Alpaydin and Kaynak, 1998, doi:10.24432/C50P49",
    ),
)


def entries() -> Mapping[str, DataSet]:
    """Every data set by its name, in alphabetical order."""
    return {entry.name: entry for entry in sorted(_DATA_SETS, key=lambda entry: entry.name)}
