"""Give a trained model a fresh head for another number of classes."""

from typing import Protocol, runtime_checkable

from torch import nn

from models.errors import ModelError


@runtime_checkable
class HasResetHead(Protocol):
    """A model that knows how to replace its head (the text models do)."""

    def reset_head(self, classes: int) -> None:
        """Replace the head."""


def reset_head(model: nn.Module, classes: int) -> None:
    """Replace the model's head by a fresh one for `classes`, in place; all else is kept.

    Takes our own models, those of timm, and any other that has a method `reset_head` or ends in
    a linear layer named `head`.
    """
    if classes < 1:
        raise ModelError(f"a head needs at least one class, not {classes}")
    head = getattr(model, "head", None)
    if isinstance(model, HasResetHead):
        model.reset_head(classes)
    elif callable(reset := getattr(model, "reset_classifier", None)):  # timm
        reset(classes)
    elif isinstance(head, nn.Linear):
        like = {"device": head.weight.device, "dtype": head.weight.dtype}
        model.head = nn.Linear(head.in_features, classes, bias=head.bias is not None, **like)
        nn.init.xavier_uniform_(model.head.weight)
        if head.bias is not None:
            nn.init.zeros_(model.head.bias)
    else:
        raise ModelError(
            f"{type(model).__name__} has no head to reset: it needs a method reset_head(classes) "
            "or an nn.Linear named `head`"
        )
