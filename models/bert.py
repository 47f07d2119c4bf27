"""BERT (Devlin et al., 2019) by transformers: 6 to 48 layers, and small ones for CPUs.

The small ones are those of Turc et al., 2019, "Well-read students learn better".
"""

from typing import Unpack

from lightning_bench.models.registry.arguments import TextOptions
from lightning_bench.models.registry.registry import variant
from lightning_bench.models.registry.transformers_library import HuggingFaceText, configuration


class BertOptions(TextOptions, total=False):
    """What the named sizes leave open."""

    dropout: float


@variant("BERT")
def bert(
    *,
    vocab_size: int = 30522,
    length: int = 128,
    classes: int = 0,
    width: int = 768,
    depth: int = 12,
    heads: int = 12,
    hidden: int = 3072,
    dropout: float = 0.1,
) -> HuggingFaceText:
    """BERT of any size; the class is read at the first token, through BERT's pooler."""
    config = configuration(
        "bert",
        None,
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=hidden,
        max_position_embeddings=max(512, length),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    return HuggingFaceText(config, classes)


@variant("BERT, 6 layers", of=bert, depth=6)
def bert_6(**options: Unpack[BertOptions]) -> HuggingFaceText:
    """BERT with 6 layers of 768."""
    return bert(depth=6, **options)


@variant("BERT, 12 layers", of=bert, depth=12)
def bert_12(**options: Unpack[BertOptions]) -> HuggingFaceText:
    """BERT-base: 12 layers of 768."""
    return bert(depth=12, **options)


@variant("BERT, 24 layers", of=bert, depth=24)
def bert_24(**options: Unpack[BertOptions]) -> HuggingFaceText:
    """BERT with 24 layers of 768 (narrower than BERT-large)."""
    return bert(depth=24, **options)


@variant("BERT, 48 layers", of=bert, depth=48)
def bert_48(**options: Unpack[BertOptions]) -> HuggingFaceText:
    """BERT with 48 layers of 768."""
    return bert(depth=48, **options)


@variant("BERT-Tiny", of=bert)
def bert_tiny(**options: Unpack[BertOptions]) -> HuggingFaceText:
    """BERT with 2 layers of 128."""
    return bert(depth=2, width=128, heads=2, hidden=512, **options)


@variant("BERT-Mini", of=bert)
def bert_mini(**options: Unpack[BertOptions]) -> HuggingFaceText:
    """BERT with 4 layers of 256."""
    return bert(depth=4, width=256, heads=4, hidden=1024, **options)


@variant("BERT-Small", of=bert)
def bert_small(**options: Unpack[BertOptions]) -> HuggingFaceText:
    """BERT with 4 layers of 512."""
    return bert(depth=4, width=512, heads=8, hidden=2048, **options)
