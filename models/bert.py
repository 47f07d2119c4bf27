"""BERT (Devlin et al., 2019) by transformers: 6 to 48 layers, and small ones for CPUs.

The small ones are those of Turc et al., 2019, "Well-read students learn better".
"""

from lightning_bench.models.registry.registry import size, variant
from lightning_bench.models.registry.transformers_library import HuggingFaceText, configuration


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


BASE = {"width": 768, "heads": 12, "hidden": 3072}
for _name, _title, _summary, _depth in (
    ("bert-6", "BERT, 6 layers", "BERT with 6 layers of 768.", 6),
    ("bert-12", "BERT, 12 layers", "BERT-base: 12 layers of 768.", 12),
    ("bert-24", "BERT, 24 layers", "BERT with 24 layers of 768 (narrower than BERT-large).", 24),
    ("bert-48", "BERT, 48 layers", "BERT with 48 layers of 768.", 48),
):
    size(bert, _name, _title, _summary, {**BASE, "depth": _depth}, depth=_depth)

for _name, _title, _depth, _width, _heads in (
    ("bert-tiny", "BERT-Tiny", 2, 128, 2),
    ("bert-mini", "BERT-Mini", 4, 256, 4),
    ("bert-small", "BERT-Small", 4, 512, 8),
):
    _fixed = {"depth": _depth, "width": _width, "heads": _heads, "hidden": 4 * _width}
    size(bert, _name, _title, f"BERT with {_depth} layers of {_width}.", _fixed)
