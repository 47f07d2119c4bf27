"""The head of a model: which modules it is, and the second head of BERT's pre-training."""

from typing import Protocol, runtime_checkable

from torch import nn

from lightning_bench.models.errors import ModelError


@runtime_checkable
class HasPairHead(Protocol):
    """A model that can have BERT's second head of pre-training (the text models can)."""

    def add_pair_head(self) -> None:
        """Add it; the model then returns both heads' logits."""


def add_pair_head(model: nn.Module) -> None:
    """Give a masked-LM model the head that tells whether the second part follows the first."""
    if not isinstance(model, HasPairHead):
        raise ModelError(f"{type(model).__name__} can't have a head for pairs beside another")
    model.add_pair_head()


def output_names(model: nn.Module) -> tuple[str, ...]:
    """The names of the modules that turn features into the outputs of one task."""
    if (encoder := _encoder_of(model)) is not None:
        outer, name = encoder
        return tuple(f"model.{child}" for child, _ in outer.named_children() if child != name)
    stated = getattr(model, "pretrained_cfg", {}).get("classifier")  # timm
    names = (stated,) if isinstance(stated, str) else tuple(stated or ("head",))
    return tuple(name for name in names if _has(model, name))


def head_modules(model: nn.Module) -> list[nn.Module]:
    """What a linear probe trains; of transformers' encoders the pooler too, which may be new."""
    names = list(output_names(model))
    if (encoder := _encoder_of(model)) is not None:
        names.append(f"model.{encoder[1]}.pooler")
    modules = [model.get_submodule(name) for name in names if _has(model, name)]
    if not any(True for module in modules for _ in module.parameters()):
        raise ModelError(f"{type(model).__name__} has no head with weights that could be trained")
    return modules


def _encoder_of(model: nn.Module) -> tuple[nn.Module, str] | None:
    """The model of transformers inside ours, and the name of its encoder."""
    inner = getattr(model, "model", None)
    name = getattr(inner, "base_model_prefix", "")
    return (inner, name) if isinstance(inner, nn.Module) and name else None


def _has(model: nn.Module, name: str) -> bool:
    try:
        return model.get_submodule(name) is not None
    except AttributeError:
        return False
