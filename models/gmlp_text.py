"""gMLP for text (Liu et al., 2021), with a Toeplitz matrix (tMLP), with tiny attention (aMLP).

BERT's protocol without its positions: the spatial matrices know where a token stands. Liu et
al. read the class at the first token; where nothing was pre-trained, `pool="mean"` learns sooner.
"""

from torch import nn

from lightning_bench.models.gmlp import Block
from lightning_bench.models.layers.activation import Activation
from lightning_bench.models.layers.drop_path import drop_paths
from lightning_bench.models.layers.pooling import TextPool
from lightning_bench.models.layers.spatial_gating_unit import Gate
from lightning_bench.models.layers.spatial_linear import Matrix
from lightning_bench.models.layers.text.text_model import Stack, TextModel
from lightning_bench.models.layers.text.token_embedding import EncoderLayers, embedding
from lightning_bench.models.registry.registry import size, variant


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
    activation: Activation = "gelu",
) -> TextModel:
    """gMLP for text of any size; `encoder` names a frozen one to read from ("+ BERT")."""
    blocks: list[nn.Module] = [
        Block(width, hidden, length, gate, matrix, attention, drop, activation)
        for drop in drop_paths(drop_path, depth)
    ]
    words = embedding(vocab_size, width, encoder, encoder_layers)
    return TextModel(words, Stack(blocks, width), width, length, classes, pool, dropout)


for _blocks, _layers in ((18, 6), (36, 12), (72, 24), (144, 48)):
    size(
        gmlp_text,
        f"gmlp-text-{_blocks}",
        f"gMLP, {_blocks} blocks",
        f"gMLP for text with {_blocks} blocks; matches BERT with {_layers} layers in size.",
        {"width": 512, "depth": _blocks, "matrix": "dense", "attention": 0},
        depth=_blocks,
    )
size(
    gmlp_text,
    "tmlp-text-18",
    "tMLP, 18 blocks",
    "gMLP with Toeplitz spatial matrices: 2S - 1 weights instead of S².",
    {"width": 512, "depth": 18, "matrix": "toeplitz", "attention": 0},
    family="tmlp-text",
    depth=18,
)
size(
    gmlp_text,
    "amlp-text-18",
    "aMLP, 18 blocks",
    "gMLP with a tiny attention of one head, d=64, in each gate; any spatial matrix.",
    {"width": 512, "depth": 18, "attention": 64},
    family="amlp-text",
    depth=18,
)
