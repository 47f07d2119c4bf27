"""Layer-wise learning-rate decay: which layer of a model each parameter belongs to.

Layer 0 is all that comes before the blocks (patches, embeddings, positions, class token), layer i
the i-th block, and the last layer all that comes after them (norm, pooler, head), as for BEiT (Bao
et al., 2022). The blocks are the list of most trained parameters whose members are all alike; so a
layer of Mixer is one token mixing with its channel mixing, and one of ViT an attention with its
MLP. Models of timm say themselves what their layers are.
"""

from torch import nn

from lightning_bench.models.errors import ModelError


def layers(model: nn.Module) -> dict[str, int]:
    """The layer of each parameter by its name; the highest is the head's."""
    if callable(matcher := getattr(model, "group_matcher", None)):
        from timm.models import group_parameters

        of_timm: dict[str, int] = group_parameters(model, matcher(coarse=False), reverse=True)
        return of_timm
    prefix, members = blocks(model)
    numbers = {}
    reached = False
    for name, _ in model.named_parameters():
        inside = name.startswith(prefix)
        reached = reached or inside
        block = int(name.removeprefix(prefix).partition(".")[0]) if inside else 0
        numbers[name] = block + 1 if inside else len(members) + 1 if reached else 0
    return numbers


def blocks(model: nn.Module) -> tuple[str, list[nn.Module]]:
    """The names' beginning and the members of the list of blocks."""
    most, largest = 0, ("", list[nn.Module]())
    for name, module in model.named_modules():
        members = list(module.children())
        if not isinstance(module, nn.ModuleList | nn.Sequential) or len({*map(type, members)}) != 1:
            continue
        trained = sum(p.numel() for p in module.parameters() if p.requires_grad)
        if len(members) > 1 and trained > most:
            most, largest = trained, (f"{name}." if name else "", members)
    if not most:
        raise ModelError(
            f"{type(model).__name__} has no list of equal blocks: there are no layers whose "
            "learning rates could decay; leave out layer_decay"
        )
    return largest
