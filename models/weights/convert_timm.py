"""Convert checkpoints of timm's Mixer, gMLP and ViT into ours; the outputs are the same.

Timm's name on the left (`RENAMED`): the layers are the same, in the same order, and so are the
shapes, but for the class token and the positions, which have leading ones in timm.
"""

import re
from collections.abc import Mapping

from torch import Tensor

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
