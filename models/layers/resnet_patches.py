"""The hybrid's stem: the feature map of a ResNet as a sequence of patches of one pixel."""

from functools import partial

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.layers.patch_embedding import check_shape

PATCH = 16  # pixels a side that the stages make one of


class ResNetPatches(nn.Module):
    """A ResNet-50 with its last stage moved into the third, as Dosovitskiy et al., 2021, use.

    Group norm and weight-standardised convolutions (BiT); stages of 3, 4 and 9 blocks; a
    sixteenth of the image's size.
    """

    def __init__(self, channels: int, image_size: int, width: int) -> None:
        super().__init__()
        # Here, since timm takes three seconds to import and only the hybrid needs it.
        from timm.layers import StdConv2dSame
        from timm.models.resnetv2 import ResNetV2

        if image_size % PATCH:
            raise ModelError(f"the ResNet stem divides images by 16; {image_size} doesn't divide")
        self.shape = (channels, image_size, image_size)
        self.count = (image_size // PATCH) ** 2  # S, the length of the sequence
        self.backbone = ResNetV2(
            layers=[3, 4, 9],
            in_chans=channels,
            num_classes=0,
            global_pool="",
            preact=False,
            stem_type="same",
            conv_layer=partial(StdConv2dSame, eps=1e-8),
        )
        self.project = nn.Conv2d(self.backbone.num_features, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Map images B×C×H×W to sequences B×S×width."""
        check_shape(x, self.shape)
        return self.project(self.backbone(x)).flatten(2).transpose(1, 2).contiguous()
