"""The spatial gating unit in its four variants (Liu et al., 2021, "Pay Attention to MLPs").

f(Z) = W norm(Z) + b along the sequence. Each gate starts as s(Z) ≈ Z, so that the block starts as
a plain feed-forward one: W near zero, and b one for the products, zero for the sum; where the gate
is f itself, W is the identity and b zero, so that s(Z) starts as norm(Z).
"""

from typing import Literal

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.attention import Attention
from lightning_bench.models.layers.spatial_linear import Matrix, SquareLinear, ToeplitzLinear

Gate = Literal["linear", "additive", "multiplicative", "split"]


class SpatialProjection(nn.Module):
    """f(Z) = W norm(Z) + b; pads are zeroed before the product, so that they never leak.

    With `attention` channels a small attention head on the block's input X is added (aMLP):
    f(Z) + A(X).
    """

    def __init__(
        self, width: int, length: int, matrix: Matrix, input_width: int, attention: int
    ) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.spatial = SquareLinear(length) if matrix == "dense" else ToeplitzLinear(length)
        self.attention = (
            Attention(input_width, heads=1, inner=attention, out=width) if attention else None
        )

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Project Z along the sequence, and add what the attention finds in X."""
        z = self.norm(z)
        f = self.spatial(z if mask is None else z * mask[..., None])
        return f if self.attention is None else f + self.attention(x, mask)


class SpatialGate(nn.Module):
    """s(Z): f(Z), Z + f(Z), Z ⊙ f(Z), or of the two halves of the channels Z₁ ⊙ f(Z₂)."""

    def __init__(self, gate: Gate, f: SpatialProjection) -> None:
        super().__init__()
        self.gate, self.f = gate, f

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Gate Z by what it is along the sequence; X is the block's input."""
        if self.gate == "split":
            z1, z2 = z.chunk(2, dim=-1)
            return z1 * self.f(z2, x, mask)
        f = self.f(z, x, mask)
        if self.gate == "linear":
            return f
        return z + f if self.gate == "additive" else z * f

    def start_open(self) -> None:
        """Let Z through: give W and b what makes s(Z) ≈ Z."""
        spatial = self.f.spatial
        if self.gate in {"linear", "additive"}:
            nn.init.zeros_(spatial.bias)
        if self.gate == "linear":
            spatial.start_as_identity()


def spatial_gate(
    gate: Gate, width: int, hidden: int, length: int, matrix: Matrix, attention: int
) -> tuple[SpatialGate, int]:
    """Make the gate of a block on `hidden` channels, and tell how many channels it returns."""
    if gate == "split" and hidden % 2:
        raise ModelError(f"the split gate halves the channels, but {hidden} is odd")
    out = hidden // 2 if gate == "split" else hidden
    made = SpatialGate(gate, SpatialProjection(out, length, matrix, width, attention))
    made.start_open()
    return made, out
