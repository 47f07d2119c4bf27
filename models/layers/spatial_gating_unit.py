"""The spatial gating unit in its four variants (Liu et al., 2021, "Pay Attention to MLPs").

f(Z) = W norm(Z) + b along the sequence. W starts near zero and b at one, so that f starts as
one and a multiplicative gate lets Z through: the block starts as a plain feed-forward one.
"""

from typing import Literal

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.attention import Attention
from lightning_bench.models.layers.spatial_linear import Matrix, SquareLinear, ToeplitzLinear

Gate = Literal["linear", "additive", "multiplicative", "split"]


class SpatialProjection(nn.Module):
    """f(Z) = W norm(Z) + b; pads are zeroed before the product, so that they never leak."""

    def __init__(self, width: int, length: int, matrix: Matrix) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.spatial = SquareLinear(length) if matrix == "dense" else ToeplitzLinear(length)

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Project Z along the sequence; x, the block's input, is for the tiny attention."""
        z = self.norm(z)
        return self.spatial(z if mask is None else z * mask[..., None])


class AttendedProjection(SpatialProjection):
    """f(Z) + A(X): with one small attention head on the block's input (aMLP)."""

    def __init__(
        self, width: int, length: int, matrix: Matrix, input_width: int, attention: int
    ) -> None:
        super().__init__(width, length, matrix)
        self.attention = Attention(input_width, heads=1, inner=attention, out=width)

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Project Z and add what the attention finds in x."""
        return super().forward(z, x, mask) + self.attention(x, mask)


class LinearGate(nn.Module):
    """s(Z) = f(Z)."""

    def __init__(self, f: SpatialProjection) -> None:
        super().__init__()
        self.f = f

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Mix Z along the sequence."""
        return self.f(z, x, mask)


class AdditiveGate(LinearGate):
    """s(Z) = Z + f(Z)."""

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Add to Z what it is along the sequence."""
        return z + self.f(z, x, mask)


class MultiplicativeGate(LinearGate):
    """s(Z) = Z ⊙ f(Z)."""

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Gate Z by what it is along the sequence."""
        return z * self.f(z, x, mask)


class SplitGate(LinearGate):
    """s(Z) = Z₁ ⊙ f(Z₂), the two halves of the channels."""

    def forward(self, z: Tensor, x: Tensor, mask: Tensor | None) -> Tensor:
        """Gate one half of Z by the other."""
        z1, z2 = z.chunk(2, dim=-1)
        return z1 * self.f(z2, x, mask)


GATES: dict[Gate, type[LinearGate]] = {
    "linear": LinearGate,
    "additive": AdditiveGate,
    "multiplicative": MultiplicativeGate,
    "split": SplitGate,
}


def spatial_gate(
    gate: Gate, width: int, hidden: int, length: int, matrix: Matrix, attention: int
) -> tuple[LinearGate, int]:
    """Make the gate of a block on `hidden` channels, and tell how many channels it returns."""
    if gate == "split" and hidden % 2:
        raise ModelError(f"the split gate halves the channels, but {hidden} is odd")
    out = hidden // 2 if gate == "split" else hidden
    if attention:
        return GATES[gate](AttendedProjection(out, length, matrix, width, attention)), out
    return GATES[gate](SpatialProjection(out, length, matrix)), out
