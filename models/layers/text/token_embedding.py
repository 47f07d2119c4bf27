"""Tokens to vectors: an embedding of one's own, or a frozen encoder's contextual one ("+ BERT")."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from lightning_bench.common.messages import first_line
from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.linear import Linear
from lightning_bench.models.layers.text.cached_states import CachedStates, token_keys


class TokenEmbedding(nn.Module):
    """The sum of a token's vector and its segment's (Devlin et al., 2019), without positions."""

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, width)
        self.segments = nn.Embedding(2, width)
        for table in (self.tokens, self.segments):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """Map B×S to B×S×C; without segments all tokens are of the first."""
        of_segment = self.segments.weight[0] if segments is None else self.segments(segments)
        return self.tokens(tokens) + of_segment


#: Which of a frozen encoder's layers are read.
EncoderLayers = Literal["last", "all"]


class FrozenEncoder(nn.Module):
    """The hidden states of a pre-trained encoder, which isn't trained, then a projection.

    Its last layer's, or those of its word vectors and of all its layers side by side: what a task
    needs may stand in any of them (Peters et al., 2018), and the projection chooses.
    `name` is a directory or a hub address that transformers can load. The encoder's weights are
    no part of the state_dict: they are loaded from the same place again. With `cached_states` the
    encoder is not run on the texts that they hold.
    """

    cached_states: CachedStates | None = None

    def __init__(
        self, name: str, vocab_size: int, width: int, layers: EncoderLayers = "last"
    ) -> None:
        super().__init__()
        from transformers import AutoModel  # here, since few models need it

        try:
            # Some checkpoints are in half precision, which the layers after them are not.
            pretrained = AutoModel.from_pretrained(name, dtype=torch.float32)
        except (OSError, ValueError) as error:
            raise ModelError(
                f"the encoder {name!r} can't be loaded: {first_line(error)}"
            ) from error
        self.encoder = pretrained.eval().requires_grad_(False)
        known = self.encoder.config.vocab_size
        if vocab_size > known:
            raise ModelError(
                f"the encoder {name!r} knows {known} tokens, the data has {vocab_size}: "
                "read the texts with the encoder's own tokeniser"
            )
        self.layers = layers
        states = 1 + self.encoder.config.num_hidden_layers if layers == "all" else 1
        self.project = Linear(states * self.encoder.config.hidden_size, width)
        self.register_state_dict_post_hook(_leave_encoder_out)
        self.register_load_state_dict_post_hook(_expect_no_encoder)

    def forward(self, tokens: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """Map B×S to B×S×C, each token in the context of its text."""
        states = None
        if self.cached_states is not None and self.frozen:
            seen = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask
            states = self.cached_states.find(token_keys(tokens, segments), seen)
        if states is None:
            states = self.encode(tokens, mask, segments)
        return self.project(states.to(self.project.weight.dtype))

    def encode(self, tokens: Tensor, mask: Tensor | None, segments: Tensor | None) -> Tensor:
        """The encoder's hidden states, B×S×(its width times the layers that are read)."""
        seen = torch.ones_like(tokens) if mask is None else mask.to(tokens.dtype)
        given: dict[str, Any] = {} if segments is None else {"token_type_ids": segments}
        wanted = self.layers == "all"
        with torch.no_grad():
            output = self.encoder(tokens, attention_mask=seen, output_hidden_states=wanted, **given)
        return torch.cat(output.hidden_states, dim=-1) if wanted else output.last_hidden_state

    @property
    def frozen(self) -> bool:
        """Whether the encoder gives the same states for the same text at any time."""
        trained = any(weight.requires_grad for weight in self.encoder.parameters())
        return not trained and not self.encoder.training

    def train(self, mode: bool = True) -> "FrozenEncoder":
        """Train the projection; the encoder stays as it was in evaluation, without dropout."""
        super().train(mode)
        self.encoder.eval()
        return self


def _leave_encoder_out(
    module: nn.Module, state: dict[str, Any], prefix: str, _metadata: dict[str, Any]
) -> None:
    for key in [key for key in state if key.startswith(f"{prefix}encoder.")]:
        del state[key]


def _expect_no_encoder(module: nn.Module, incompatible: Any) -> None:
    # Called with the keys of the whole model; only those of an encoder can hold this name.
    missing = incompatible.missing_keys
    missing[:] = [key for key in missing if "embedding.encoder." not in f".{key}"]


def embedding(
    vocab_size: int, width: int, encoder: str | None, layers: EncoderLayers = "last"
) -> TokenEmbedding | FrozenEncoder:
    """Make an embedding of one's own, or that of a frozen encoder where one is named."""
    if encoder is None:
        if layers != "last":
            raise ModelError(f"encoder_layers={layers!r} needs a frozen encoder: set `encoder`")
        return TokenEmbedding(vocab_size, width)
    return FrozenEncoder(encoder, vocab_size, width, layers)
