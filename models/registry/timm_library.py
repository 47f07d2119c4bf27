"""Any model of timm as `timm/NAME`, any encoder of transformers as `hf/NAME`.

Thin adapters: the library's model under this registry's arguments. The named variants that come
from timm (`resnet-50`, `efficientnet-b7`, …) are in `models.timm_convnets`, BERT in `models.bert`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from torch import nn

from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError, UnknownModel
from lightning_bench.models.registry.arguments import read_signature
from lightning_bench.models.registry.encoders import LEAKY, NO_ENCODERS, refuse_leaky
from lightning_bench.models.registry.model_variant import Variant
from lightning_bench.models.registry.transformers_library import HuggingFaceText, configuration

PACKAGES = {"hf": "transformers", "timm": "timm"}


@cache
def names(prefix: str) -> list[str]:
    """Return the names that may follow a prefix, sorted."""
    if prefix == "timm":
        import timm

        return sorted(timm.list_models())
    from transformers import MODEL_FOR_MASKED_LM_MAPPING, MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING

    classifiers = {config.model_type for config in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING}
    fillers = {config.model_type for config in MODEL_FOR_MASKED_LM_MAPPING}
    return sorted((classifiers & fillers) - NO_ENCODERS - LEAKY)


def _is_encoder(name: str) -> bool:
    """Whether transformers can both classify and fill in words with this type of model."""
    from transformers import (
        CONFIG_MAPPING,
        MODEL_FOR_MASKED_LM_MAPPING,
        MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING,
    )

    # One by one: to list all of them takes seconds.
    if name in NO_ENCODERS or name not in CONFIG_MAPPING:
        return False
    config = CONFIG_MAPPING[name]
    classifies = config in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
    return classifies and config in MODEL_FOR_MASKED_LM_MAPPING


def look_up(name: str) -> Variant:
    """Return the variant of `timm/NAME`, `hf/TYPE` (`hf/bert`) or `hf/ORGANISATION/NAME`."""
    prefix, _, rest = name.partition("/")
    make = _timm(rest) if prefix == "timm" else _hugging_face(rest)
    return Variant(name, f"{rest} ({PACKAGES[prefix]})", make, read_signature(make))


def timm_model(
    name: str, channels: int, image_size: int, classes: int, **settings: Any
) -> nn.Module:
    """Make a model of timm; those that are bound to an image size are made for this one."""
    import timm

    try:
        stated = timm.get_pretrained_cfg(name)
        if stated is not None and stated.fixed_input_size:
            settings["img_size"] = image_size
        return timm.create_model(name, in_chans=channels, num_classes=classes, **settings)
    except (AssertionError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(f"timm can't make {name}: {error}") from error


def _timm(name: str) -> Callable[..., nn.Module]:
    base = name.partition(".")[0]
    if base not in names("timm"):
        raise UnknownModel(f"timm has no model {name!r}{nearest(base, names('timm'), most=1)}")

    def make(
        *,
        channels: int = 3,
        image_size: int = 224,
        classes: int = 1000,
        pretrained: bool = False,
        dropout: float = 0.0,
        drop_path: float = 0.0,
    ) -> nn.Module:
        """Model of timm; `pretrained` loads its weights from the hub."""
        settings: dict[str, Any] = {"pretrained": pretrained}
        if dropout:
            settings["drop_rate"] = dropout
        if drop_path:
            settings["drop_path_rate"] = drop_path
        return timm_model(name, channels, image_size, classes, **settings)

    return make


def _hugging_face(name: str) -> Callable[..., nn.Module]:
    refuse_leaky(name, name)
    address = name if "/" in name else None
    if address is None and not _is_encoder(name):
        raise UnknownModel(
            f"transformers has no encoder {name!r}{nearest(name, names('hf'), most=1)}; "
            f"a model of the hub is named with its owner, hf/OWNER/{name}"
        )

    def make(
        *,
        vocab_size: int = 30522,
        length: int = 128,
        classes: int = 0,
        width: int | None = None,
        depth: int | None = None,
        heads: int | None = None,
        hidden: int | None = None,
        weights: str | None = address,
    ) -> HuggingFaceText:
        """Encoder of transformers; `weights` is a directory or hub address to load from."""
        try:
            config = configuration(
                name,
                weights,
                vocab_size=vocab_size,
                hidden_size=width,
                num_hidden_layers=depth,
                num_attention_heads=heads,
                intermediate_size=hidden,
            )
            refuse_leaky(name, config.model_type)
            known = getattr(config, "max_position_embeddings", length)
            if 0 < known < length:
                raise ModelError(f"hf/{name} reads {known} tokens at most, not {length}")
            return HuggingFaceText(config, classes, weights)
        except (AssertionError, NotImplementedError, RuntimeError) as error:
            raise ModelError(f"transformers can't make hf/{name}: {error}") from error

    return make
