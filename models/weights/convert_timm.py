"""Load the weights of timm's Mixer, gMLP and ViT into ours; the outputs are the same.

    model = create("mixer-b16")
    load_timm(model, "mixer_b16_224.goog_in21k_ft_in1k")      # from the hub
    load_timm(model, "checkpoint.safetensors")                # from a file
    load_timm(model, timm_model.state_dict())                 # from memory

What is what, timm's name on the left (`RENAMED`): the layers are the same, in the same order, and
so are the shapes, but for the class token and the positions, which have leading ones in timm. A
head for another number of classes is left as it is.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from lightning_bench.common.messages import nearest
from lightning_bench.models.errors import ModelError

RENAMED = [
    # Mixer and gMLP
    (r"^stem\.proj\.", "patches.project."),
    (r"\.mlp_tokens\.fc1\.", ".tokens.expand."),
    (r"\.mlp_tokens\.fc2\.", ".tokens.contract."),
    (r"\.mlp_channels\.gate\.norm\.", ".gate.f.norm."),
    (r"\.mlp_channels\.gate\.proj\.", ".gate.f.spatial."),
    # ViT, and its hybrid
    (r"^patch_embed\.backbone\.", "patches.backbone."),
    (r"^patch_embed\.proj\.", "patches.project."),
    (r"^cls_token$", "token.weight"),
    (r"^pos_embed$", "positions.weight"),
    (r"\.attn\.qkv\.", ".attention.qkv."),
    (r"\.attn\.proj\.", ".attention.project."),
    (r"\.mlp\.fc1\.", ".mlp.expand."),
    (r"\.mlp\.fc2\.", ".mlp.contract."),
]
CHANNELS = {  # of Mixer and gMLP, which timm names alike
    "mixer": [
        (r"\.mlp_channels\.fc1\.", ".channels.expand."),
        (r"\.mlp_channels\.fc2\.", ".channels.contract."),
    ],
    "gmlp": [(r"\.mlp_channels\.fc1\.", ".u."), (r"\.mlp_channels\.fc2\.", ".v.")],
}


def convert(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return timm's weights of a Mixer, gMLP or ViT under our names."""
    kind = "gmlp" if any(".gate." in key for key in state) else "mixer"
    converted = {}
    for key, value in state.items():
        for pattern, name in [*RENAMED, *CHANNELS[kind]]:
            key = re.sub(pattern, name, key)
        if key in ("token.weight", "positions.weight"):
            value = value.reshape(-1, value.shape[-1])
            value = value[0] if key == "token.weight" else value
        converted[key] = value
    return converted


def load_timm(model: nn.Module, source: str | Path | Mapping[str, Tensor]) -> list[str]:
    """Load timm's weights into one of our models; return the names that kept their own.

    That is the head, where theirs is for another number of classes or missing. Positions of
    another image size are resized; the spatial matrices of Mixer and gMLP can't be: an error.
    """
    state = convert(_read(source))
    own = model.state_dict()
    kept = [
        name
        for name in own
        if name.startswith("head.") and (name not in state or state[name].shape != own[name].shape)
    ]
    state |= {name: own[name] for name in kept}
    for one, other in ((state, own), (own, state)):
        if extra := sorted(set(one) - set(other)):
            raise ModelError(
                f"these weights are not those of this architecture: {extra[0]!r} is only in one "
                f"of the two{nearest(extra[0], other, most=1)}"
            )
    model.load_state_dict(state)
    return kept


def _read(source: str | Path | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    if isinstance(source, Mapping):
        return source
    import timm

    if Path(source).is_file():
        return timm.models.load_state_dict(str(source))
    return timm.create_model(str(source), pretrained=True).state_dict()
