"""The channel MLP of Transformers and of Mixer: W₂ GELU(W₁ x)."""

from torch import Tensor, nn

from lightning_bench.models.layers.activation import Activation, activation
from lightning_bench.models.layers.linear import Linear


class FeedForward(nn.Module):
    """Two linear layers on the channels, each position on its own."""

    def __init__(
        self,
        width: int,
        hidden: int,
        activation_name: Activation = "gelu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.expand = Linear(width, hidden)
        self.activation = activation(activation_name)
        self.contract = Linear(hidden, width)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Map ...×width to ...×width."""
        return self.dropout(self.contract(self.activation(self.expand(x))))
