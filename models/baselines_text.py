"""The plain text baselines: an LSTM, and the mean of the word vectors."""

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.feedforward import FeedForward
from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.pooling import TextPool, pooling
from lightning_bench.models.layers.text.text_model import TextModel
from lightning_bench.models.layers.text.token_embedding import (
    EncoderLayers,
    FrozenEncoder,
    TokenEmbedding,
    embedding,
)
from lightning_bench.models.registry.registry import variant


class OneDirection(nn.Module):
    """LSTM layers from left to right (Hochreiter and Schmidhuber, 1997); pads come last, so that
    no token ever sees one."""

    def __init__(self, width: int, depth: int, dropout: float) -> None:
        super().__init__()
        between = dropout if depth > 1 else 0.0
        self.lstm = nn.LSTM(width, width, depth, batch_first=True, dropout=between)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map B×S×C to B×S×C."""
        return self.lstm(x)[0]


class Bag(nn.Module):
    """The mean of the word vectors, an MLP with one hidden layer, a linear head."""

    def __init__(
        self, words: TokenEmbedding | FrozenEncoder, width: int, hidden: int, classes: int
    ) -> None:
        super().__init__()
        self.embedding = words
        self.pool = pooling("mean")
        self.mlp = FeedForward(width, hidden, "relu")
        self.head = nn.Linear(width, classes)
        self.mlp.apply(initialise)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """Return logits B×classes."""
        return self.head(self.mlp(self.pool(self.embedding(tokens, mask, segments), mask)))


@variant("LSTM")
def lstm(
    *,
    vocab_size: int = 30522,
    length: int = 128,
    classes: int = 2,
    width: int = 256,
    depth: int = 1,
    pool: TextPool = "last",
    encoder: str | None = None,
    encoder_layers: EncoderLayers = "last",
    dropout: float = 0.0,
) -> TextModel:
    """LSTM in one direction; the class is read at the last token."""
    words = embedding(vocab_size, width, encoder, encoder_layers)
    body = OneDirection(width, depth, dropout)
    return TextModel(words, body, width, length, classes, pool, dropout)


@variant("Bag of words")
def bag(
    *,
    vocab_size: int = 30522,
    length: int = 128,
    classes: int = 2,
    width: int = 256,
    hidden: int = 512,
    encoder: str | None = None,
    encoder_layers: EncoderLayers = "last",
) -> Bag:
    """Mean of the word vectors, then an MLP; the order of words is lost."""
    if not classes:
        raise ModelError("bag has no masked-LM head: the order of words is lost; set classes")
    return Bag(embedding(vocab_size, width, encoder, encoder_layers), width, hidden, classes)
