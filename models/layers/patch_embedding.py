"""Images to sequences of patches (Dosovitskiy et al., 2021, equation 1)."""

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError


class Patches(nn.Module):
    """Cut an image into P×P patches and project each linearly: S = (H / P)² rows of `width`."""

    def __init__(self, channels: int, image_size: int, patch: int, width: int) -> None:
        super().__init__()
        if image_size % patch:
            raise ModelError(f"patches of {patch} don't divide images of {image_size}")
        self.shape = (channels, image_size, image_size)
        self.count = (image_size // patch) ** 2  # S, the length of the sequence
        self.project = nn.Conv2d(channels, width, patch, stride=patch)

    def forward(self, x: Tensor) -> Tensor:
        """Project images B×C×H×W to sequences B×S×width."""
        check_shape(x, self.shape)
        # Without `contiguous` the transposed layout spreads through the residual stream, and
        # every layer norm makes the copy that is made here once.
        return self.project(x).flatten(2).transpose(1, 2).contiguous()


def check_shape(x: Tensor, shape: tuple[int, int, int]) -> None:
    """Raise a ModelError unless x holds images of this shape."""
    if tuple(x.shape[1:]) != shape:
        wanted, got = ("×".join(map(str, each)) for each in (shape, x.shape[1:]))
        raise ModelError(f"the model was made for images of {wanted}, not {got}")


def check_channels(x: Tensor, channels: int) -> None:
    """Raise a ModelError unless x holds images of so many channels, whatever their size."""
    if x.ndim != 4 or x.shape[1] != channels:
        got = "×".join(map(str, x.shape))
        raise ModelError(f"the model was made for images B×{channels}×H×W, not {got}")
