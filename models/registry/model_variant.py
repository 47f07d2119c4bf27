"""A variant: a named function that makes a model, and what is known of it without a call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.arguments import Argument

if TYPE_CHECKING:
    from torch import nn

Kind = Literal["image", "text", "any"]

NEEDED: dict[Literal["image", "text"], set[str]] = {
    "image": {"channels", "image_size", "classes"},
    "text": {"vocab_size", "length", "classes"},
}


@dataclass(frozen=True)
class Variant:
    """A registered function that makes a model."""

    name: str
    title: str
    function: "Callable[..., nn.Module]"
    arguments: Mapping[str, Argument]
    #: Models that differ in size alone are one family; empty: it is the only one of its own.
    family: str = ""
    #: Blocks or layers, where those of its family that have a depth differ in nothing else.
    depth: int | None = None

    @property
    def kind(self) -> Kind:
        """What it reads, by its arguments, as the harness fills them from the data set."""
        for kind, needed in NEEDED.items():
            if needed <= set(self.arguments):
                return kind
        raise ModelError(
            f"{self.name}: a variant takes channels, image_size and classes (images), "
            "or vocab_size, length and classes (text)"
        )

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]
