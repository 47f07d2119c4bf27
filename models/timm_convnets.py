"""The convolutional networks that the documents only compare against, through timm.

NFNet-F4+ and HaloNet-H4 are not in timm; they are made from its configuration classes.
"""

from torch import nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.registry import variant
from lightning_bench.models.registry.timm_library import timm_model


# Of blocks of two convolutions, the deeper ones of three: no line over depth joins them.
@variant("ResNet-18", family="resnet-imagenet")
def resnet_18(*, channels: int = 3, image_size: int = 224, classes: int = 1000) -> nn.Module:
    """ResNet with 18 layers (He et al., 2016)."""
    return timm_model("resnet18", channels, image_size, classes)


@variant("ResNet-50", family="resnet-imagenet", depth=50)
def resnet_50(*, channels: int = 3, image_size: int = 224, classes: int = 1000) -> nn.Module:
    """ResNet with 50 layers (He et al., 2016)."""
    return timm_model("resnet50", channels, image_size, classes)


@variant("ResNet-152", family="resnet-imagenet", depth=152)
def resnet_152(*, channels: int = 3, image_size: int = 224, classes: int = 1000) -> nn.Module:
    """ResNet with 152 layers (He et al., 2016)."""
    return timm_model("resnet152", channels, image_size, classes)


@variant("EfficientNet-B0", family="efficientnet")
def efficientnet_b0(*, channels: int = 3, image_size: int = 224, classes: int = 1000) -> nn.Module:
    """EfficientNet-B0 (Tan and Le, 2019)."""
    return timm_model("efficientnet_b0", channels, image_size, classes)


@variant("EfficientNet-B7", family="efficientnet")
def efficientnet_b7(*, channels: int = 3, image_size: int = 600, classes: int = 1000) -> nn.Module:
    """EfficientNet-B7 (Tan and Le, 2019)."""
    return timm_model("tf_efficientnet_b7", channels, image_size, classes)


@variant("EfficientNet-L2 (Noisy Student)", family="efficientnet")
def efficientnet_l2(*, channels: int = 3, image_size: int = 800, classes: int = 1000) -> nn.Module:
    """EfficientNet-L2, the network of Noisy Student (Xie et al., 2020)."""
    return timm_model("tf_efficientnet_l2", channels, image_size, classes)


@variant("NFNet-F0", family="nfnet")
def nfnet_f0(*, channels: int = 3, image_size: int = 256, classes: int = 1000) -> nn.Module:
    """NFNet-F0 (Brock et al., 2021), at its test resolution."""
    return timm_model("dm_nfnet_f0", channels, image_size, classes)


@variant("BiT-R152x4", family="bit")
def bit_r152x4(*, channels: int = 3, image_size: int = 480, classes: int = 1000) -> nn.Module:
    """Big Transfer's ResNet-152 of fourfold width (Kolesnikov et al., 2020)."""
    return timm_model("resnetv2_152x4_bit", channels, image_size, classes)


@variant("NFNet-F4+", family="nfnet")
def nfnet_f4plus(*, channels: int = 3, image_size: int = 512, classes: int = 1000) -> nn.Module:
    """NFNet-F4+, the wider F4 for pre-training on JFT (Brock et al., 2021, appendix)."""
    from timm.models.nfnet import NormFreeNet, model_cfgs

    # F4 with wider stages, and a last convolution of twice the last width, as everywhere in F.
    return NormFreeNet(
        model_cfgs["dm_nfnet_f4"],
        num_classes=classes,
        in_chans=channels,
        channels=(384, 768, 2048, 2048),
        num_features=4096,
    )


@variant("HaloNet-H4", family="halonet")
def halonet_h4(
    *,
    channels: int = 3,
    image_size: int = 384,
    classes: int = 1000,
    base: int = 64,
    convolutions: int = 0,
) -> nn.Module:
    """HaloNet-H4 (Vaswani et al., 2021, table 2), for multiples of 384 pixels.

    The one for ImageNet-21k is the hybrid "H4 (base 128, Conv-12)": `base=128, convolutions=2`,
    3×3 convolutions in the place of attention in the first two stages. Made so it has 75.1 million
    parameters, 1.5 more than without; others print 87 for it, and 85 without.
    """
    if image_size % 384:
        raise ModelError(
            f"HaloNet-H4 reads images of multiples of 384 pixels, not {image_size}: its blocks of "
            "12 must divide each map down to a 32nd of the side"
        )
    from timm.models.byobnet import ByoBlockCfg, ByobNet, ByoModelCfg

    # b=12, h=2, r_v=1, r_b=3, 12 blocks in the third stage, a last convolution of 1,280.
    ratio, blocks, widths = 3, (3, 3, 12, 3), (base, 2 * base, 4 * base, 8 * base)
    config = ByoModelCfg(
        blocks=tuple(
            ByoBlockCfg(
                type="bottle" if stage < convolutions else "self_attn",
                d=depth,
                c=ratio * width,
                s=stride,
                gs=0,
                br=1 / ratio,
            )
            for stage, (depth, width, stride) in enumerate(
                zip(blocks, widths, (1, 2, 2, 2), strict=True)
            )
        ),
        stem_chs=base,
        stem_type="7x7",
        stem_pool="maxpool",
        num_features=20 * base,
        self_attn_layer="halo",
        self_attn_kwargs={"block_size": 12, "halo_size": 2},
    )
    return ByobNet(config, num_classes=classes, in_chans=channels, img_size=image_size)
