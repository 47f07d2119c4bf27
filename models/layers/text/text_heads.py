"""The heads of text models: fill in the masked words, classify, or both at once."""

from torch import Tensor, nn

from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.linear import Linear
from lightning_bench.models.layers.pooling import TextPool, pooling


class MaskedLMHead(nn.Module):
    """BERT's head: a transform, then the products with the word vectors themselves (tied)."""

    def __init__(self, width: int, words: nn.Embedding) -> None:
        super().__init__()
        self.transform = nn.Sequential(
            Linear(width, width), nn.GELU(), nn.LayerNorm(width, eps=1e-12)
        )
        self.transform.apply(initialise)
        self.decoder = Linear(width, words.num_embeddings)
        self.decoder.weight = words.weight
        nn.init.zeros_(self.decoder.bias)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map B×S×C to logits B×S×words."""
        return self.decoder(self.transform(x))


class ClassificationHead(nn.Module):
    """One vector a text, dropout, a linear layer."""

    def __init__(self, width: int, classes: int, pool: TextPool, dropout: float) -> None:
        super().__init__()
        self.pool = pooling(pool)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.linear = nn.Linear(width, classes)
        initialise(self.linear)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Map B×S×C to logits B×classes."""
        return self.linear(self.dropout(self.pool(x, mask)))


class BothHeads(nn.Module):
    """BERT's two heads of pre-training: the words, and whether the second part follows."""

    def __init__(self, words: MaskedLMHead, pairs: ClassificationHead) -> None:
        super().__init__()
        self.words, self.pairs = words, pairs

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Map B×S×C to logits B×S×words and B×classes."""
        return self.words(x, mask), self.pairs(x, mask)
