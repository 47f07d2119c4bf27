"""Encoders of transformers that are none of ours, each set with its reason; read without torch."""

from lightning_bench.models.errors import UnknownModel

#: In transformers' lists of encoders, and yet: decoders that need an end token in every text,
#: readers of images or tables too, and one that must be told a language.
NO_ENCODERS = {
    "bart",
    "mbart",
    "modernvbert",
    "mvp",
    "perceiver",
    "tapas",
    "ultravbert",
    "xmod",
}
#: Whose results depend on the pads, and so on the company in a batch: they have no mask for them,
#: or mix across it (measured: the logits of fnet's masked words move by 0.28).
LEAKY = {"convbert", "fnet", "nystromformer", "yoso"}


def refuse_leaky(name: str, model_type: str) -> None:
    """Raise an UnknownModel if this type of model lets pads change its results."""
    if model_type in LEAKY:
        raise UnknownModel(
            f"hf/{name}: {model_type} of transformers lets pads change its results, which then "
            "depend on the other texts of a batch; take another encoder"
        )
