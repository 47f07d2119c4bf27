"""Models of timm and transformers as they are, under the names and arguments of this registry."""

from collections.abc import Callable
from functools import cache

from torch import nn

from models.arguments import read_signature
from models.registry import Variant

PACKAGES = {"timm": "timm"}


@cache
def names(prefix: str) -> list[str]:
    """Return the names that may follow a prefix, sorted."""
    import timm

    return sorted(timm.list_models())


def timm_model(name: str) -> Callable[..., nn.Module]:
    """Return the function that makes a model of timm."""

    def make(
        *, channels: int = 3, image_size: int = 224, classes: int = 1000, pretrained: bool = False
    ) -> nn.Module:
        import timm

        fixed = timm.get_pretrained_cfg(name).fixed_input_size
        size = {"img_size": image_size} if fixed else {}
        return timm.create_model(
            name, pretrained=pretrained, in_chans=channels, num_classes=classes, **size
        )

    return make


def look_up(name: str) -> Variant:
    """Return the variant of a prefixed name."""
    rest = name.partition("/")[2]
    make = timm_model(rest)
    return Variant(name, rest, make, read_signature(make))
