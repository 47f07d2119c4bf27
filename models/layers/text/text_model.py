"""What all our text models share: an embedding, a body, and one of two heads."""

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.initialise import initialise
from lightning_bench.models.layers.pooling import TextPool
from lightning_bench.models.layers.text.text_heads import (
    BothHeads,
    ClassificationHead,
    MaskedLMHead,
)
from lightning_bench.models.layers.text.token_embedding import FrozenEncoder, TokenEmbedding


class Stack(nn.Module):
    """Blocks that map (B×S×C, mask) to B×S×C, one after the other, then a layer norm."""

    def __init__(self, blocks: list[nn.Module], width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """Apply the blocks in turn."""
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)


class TextModel(nn.Module):
    """Tokens to logits; `classes=0` gives the masked-LM head, with the embedding tied to it.

    The mask is true where a token is, false where a pad is; a padded text gives the same logits
    as the text alone. Without a mask every token counts.
    """

    def __init__(
        self,
        embedding: TokenEmbedding | FrozenEncoder,
        body: nn.Module,
        width: int,
        length: int,
        classes: int,
        pool: TextPool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.width, self.length, self.pool, self.rate = width, length, pool, dropout
        self.embedding = embedding
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()
        self.body = body
        self.body.apply(initialise)
        if classes:
            self.head: nn.Module = ClassificationHead(width, classes, pool, dropout)
        elif isinstance(embedding, TokenEmbedding):
            self.head = MaskedLMHead(width, embedding.tokens)
        else:
            raise ModelError(
                "the masked-LM head (classes=0) needs word vectors of its own to tie to, "
                "which a frozen encoder doesn't give: leave out `encoder`, or set classes"
            )

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, segments: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Return logits B×classes, or B×S×words with the masked-LM head, or the latter and B×2."""
        check_length(tokens, self.length)
        x = self.dropout(self.embedding(tokens, mask, segments))
        return self.head(self.body(x, mask), mask)

    def add_pair_head(self) -> None:
        """Put beside the masked-LM head one that tells whether the second part follows."""
        if not isinstance(self.head, MaskedLMHead):
            raise ModelError("a head for pairs stands beside the masked-LM head (classes=0)")
        like = next(self.body.parameters())
        pairs = ClassificationHead(self.width, 2, self.pool, self.rate)
        self.head = BothHeads(self.head, pairs.to(like.device, like.dtype))


def check_length(tokens: Tensor, length: int) -> None:
    """Raise a ModelError where texts are longer than the model was made for."""
    if tokens.shape[1] > length:
        raise ModelError(
            f"texts of {tokens.shape[1]} tokens are too long: the model was made for {length}; "
            "cut them, or make it with a larger length"
        )
