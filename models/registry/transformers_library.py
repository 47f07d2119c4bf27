"""An encoder of transformers behind the interface of our text models."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor, nn

from lightning_bench.common.messages import first_line
from lightning_bench.models.errors import ModelError


class HuggingFaceText(nn.Module):
    """Tokens to logits; `classes=0` gives the masked-LM head.

    Made from a configuration, with random weights, or from a directory or hub address.
    """

    def __init__(self, config: Any, classes: int, weights: str | None = None) -> None:
        super().__init__()
        import inspect

        from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

        kind = AutoModelForSequenceClassification if classes else AutoModelForMaskedLM
        config.num_labels = classes or 2  # transformers wants some, even where there is no class
        if weights is None:
            self.model = kind.from_config(config)
        else:
            # Some checkpoints are in half precision, and would be trained in it.
            self.model = kind.from_pretrained(weights, config=config, dtype=torch.float32)
        taken = inspect.signature(self.model.forward).parameters
        self.takes_segments = (
            "token_type_ids" in taken and getattr(config, "type_vocab_size", 2) > 1
        )
        self.read: Callable[[Any], Any] = attrgetter("logits")

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits B×classes, or B×S×words with the masked-LM head, or the latter and B×2."""
        given: dict[str, Tensor] = {}
        if mask is not None:
            given["attention_mask"] = mask.to(tokens.dtype)
        if segments is not None and self.takes_segments:
            given["token_type_ids"] = segments
        return self.read(self.model(input_ids=tokens, **given))

    def add_pair_head(self) -> None:
        """Put beside the masked-LM head one that tells whether the second part follows."""
        from transformers import AutoModelForPreTraining

        like = next(self.model.parameters())
        both = AutoModelForPreTraining.from_config(self.model.config)
        if not hasattr(getattr(both, "cls", None), "seq_relationship"):
            raise ModelError(
                f"{type(both).__name__} of transformers was not pre-trained on pairs of sentences: "
                "it has a masked-LM head only"
            )
        both.load_state_dict(self.model.state_dict(), strict=False)
        self.model = both.to(like.device, like.dtype)
        self.read = attrgetter("prediction_logits", "seq_relationship_logits")


def configuration(model_type: str, weights: str | None, **settings: int | float | None) -> Any:
    """Return a configuration of transformers; a setting that is None keeps its default."""
    from transformers import AutoConfig

    given = {name: value for name, value in settings.items() if value is not None}
    if weights is None:
        # The defaults point at places in the vocabulary of the model's own checkpoints.
        given |= {"pad_token_id": 0}
        return AutoConfig.for_model(model_type, **given)
    try:
        config = AutoConfig.from_pretrained(weights)
    except (OSError, ValueError) as error:
        raise ModelError(f"the weights {weights!r} can't be loaded: {first_line(error)}") from error
    if settings.get("vocab_size", 0) > config.vocab_size:
        raise ModelError(
            f"the weights {weights!r} know {config.vocab_size} tokens, the data has "
            f"{settings['vocab_size']}: read the texts with their own tokeniser"
        )
    return config
