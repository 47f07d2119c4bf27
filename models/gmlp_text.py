"""gMLP for text (Liu et al., 2021), with a Toeplitz matrix (tMLP), with tiny attention (aMLP).

BERT's protocol without its positions: the spatial matrices know where a token stands. Liu et
al. read the class at the first token; where nothing was pre-trained, `pool="mean"` learns sooner.
"""

from typing import Unpack

from torch import nn

from lightning_bench.models.gmlp import Block
from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.spatial_gating_unit import Gate
from lightning_bench.models.layers.spatial_linear import Matrix
from lightning_bench.models.layers.text.text_model import Stack, TextModel
from lightning_bench.models.layers.text.text_pooling import TextPool
from lightning_bench.models.layers.text.token_embedding import EncoderLayers, embedding
from lightning_bench.models.registry.arguments import TextOptions
from lightning_bench.models.registry.registry import variant


class GMLPTextOptions(TextOptions, total=False):
    """What the named sizes leave open."""

    hidden: int
    gate: Gate
    pool: TextPool
    encoder: str | None
    encoder_layers: EncoderLayers
    dropout: float
    drop_path: float


@variant("gMLP for text")
def gmlp_text(
    *,
    vocab_size: int = 30522,
    length: int = 128,
    classes: int = 0,
    width: int = 512,
    depth: int = 18,
    hidden: int = 3072,
    gate: Gate = "split",
    matrix: Matrix = "dense",
    attention: int = 0,
    pool: TextPool = "token",
    encoder: str | None = None,
    encoder_layers: EncoderLayers = "last",
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> TextModel:
    """gMLP for text of any size; `encoder` names a frozen one to read from ("+ BERT")."""
    blocks: list[nn.Module] = [
        Block(width, hidden, length, gate, matrix, attention, drop)
        for drop in drop_paths(drop_path, depth)
    ]
    words = embedding(vocab_size, width, encoder, encoder_layers)
    return TextModel(words, Stack(blocks, width), width, length, classes, pool, dropout)


@variant("gMLP, 18 blocks", of=gmlp_text, depth=18)
def gmlp_text_18(**options: Unpack[GMLPTextOptions]) -> TextModel:
    """gMLP for text with 18 blocks; matches BERT with 6 layers in size."""
    return gmlp_text(depth=18, **options)


@variant("gMLP, 36 blocks", of=gmlp_text, depth=36)
def gmlp_text_36(**options: Unpack[GMLPTextOptions]) -> TextModel:
    """gMLP for text with 36 blocks; matches BERT with 12 layers in size."""
    return gmlp_text(depth=36, **options)


@variant("gMLP, 72 blocks", of=gmlp_text, depth=72)
def gmlp_text_72(**options: Unpack[GMLPTextOptions]) -> TextModel:
    """gMLP for text with 72 blocks; matches BERT with 24 layers in size."""
    return gmlp_text(depth=72, **options)


@variant("gMLP, 144 blocks", of=gmlp_text, depth=144)
def gmlp_text_144(**options: Unpack[GMLPTextOptions]) -> TextModel:
    """gMLP for text with 144 blocks; matches BERT with 48 layers in size."""
    return gmlp_text(depth=144, **options)


@variant("tMLP, 18 blocks", of=gmlp_text, family="tmlp-text", depth=18)
def tmlp_text_18(**options: Unpack[GMLPTextOptions]) -> TextModel:
    """gMLP with Toeplitz spatial matrices: 2S - 1 weights instead of S²."""
    return gmlp_text(depth=18, matrix="toeplitz", **options)


@variant("aMLP, 18 blocks", of=gmlp_text, family="amlp-text", depth=18)
def amlp_text_18(
    *,
    vocab_size: int = 30522,
    length: int = 128,
    classes: int = 0,
    hidden: int = 3072,
    gate: Gate = "split",
    matrix: Matrix = "dense",
    pool: TextPool = "token",
    encoder: str | None = None,
    encoder_layers: EncoderLayers = "last",
    dropout: float = 0.0,
    drop_path: float = 0.0,
) -> TextModel:
    """gMLP with a tiny attention of one head, d=64, in each gate; any spatial matrix."""
    return gmlp_text(
        vocab_size=vocab_size,
        length=length,
        classes=classes,
        depth=18,
        hidden=hidden,
        gate=gate,
        matrix=matrix,
        attention=64,
        pool=pool,
        encoder=encoder,
        encoder_layers=encoder_layers,
        dropout=dropout,
        drop_path=drop_path,
    )
