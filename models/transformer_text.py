"""The text Transformer (Vaswani et al., 2017), norms first; sinusoidal positions or others."""

import math

from torch import Tensor, nn

from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.pooling import TextPool
from lightning_bench.models.layers.position_embedding import Positions, positions
from lightning_bench.models.layers.text.text_model import Stack, TextModel
from lightning_bench.models.layers.text.token_embedding import EncoderLayers, embedding
from lightning_bench.models.registry.registry import variant
from lightning_bench.models.vit import Block


class Encoder(Stack):
    """√d x + p, then the layers; √d lifts the word vectors to the sinusoids' size."""

    def __init__(
        self, blocks: list[nn.Module], width: int, length: int, position_name: Positions
    ) -> None:
        super().__init__(blocks, width)
        self.scale = math.sqrt(width)
        self.positions = positions(position_name, length, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map B×S×C to B×S×C."""
        return super().forward(self.positions(self.scale * x), mask)


@variant("Transformer for text")
def transformer_text(
    *,
    vocab_size: int = 30522,
    length: int = 128,
    classes: int = 0,
    width: int = 512,
    depth: int = 6,
    heads: int = 8,
    hidden: int = 2048,
    pool: TextPool = "token",
    positions: Positions = "sinusoidal",
    encoder: str | None = None,
    encoder_layers: EncoderLayers = "last",
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> TextModel:
    """Transformer encoder for text of any size; any or no position embedding."""
    blocks: list[nn.Module] = [
        Block(width, heads, hidden, dropout, drop) for drop in drop_paths(drop_path, depth)
    ]
    words = embedding(vocab_size, width, encoder, encoder_layers)
    body = Encoder(blocks, width, length, positions)
    return TextModel(words, body, width, length, classes, pool, dropout)
