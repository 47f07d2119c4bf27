"""Start: give a model the weights of an earlier run, or published ones.

What has the same name and shape is taken. Positions of another image size are resized, spatial
matrices can't be and say so; the outputs of another task, and what the earlier model lacked, stay
as they were initialised.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from lightning_bench.models.errors import ModelError
from lightning_bench.models.weights.convert_timm import convert
from lightning_bench.models.weights.heads import output_names


@dataclass(frozen=True)
class Started:
    """How many parameters have the weights of the start, and which tensors are new."""

    taken: int
    fresh: int
    new: tuple[str, ...]


def read(path: Path) -> dict[str, Tensor]:
    """The tensors in a file of weights; nothing in it is executed."""
    import safetensors.torch

    if path.suffix == ".safetensors":
        return dict(safetensors.torch.load_file(path))
    raise ModelError(f"{path.name} is no file of weights that can be read: it isn't .safetensors")


def start(
    model: nn.Module, state: Mapping[str, Tensor], *, of: str, same_outputs: bool = True
) -> Started:
    """Load weights into a model; `of` says in messages whose they are.

    With `same_outputs` the head is taken as well, where it has the same shape.
    """
    own = model.state_dict()
    outputs = tuple(f"{name}." for name in output_names(model))
    given = _under_own_names(model, state)
    chosen = {
        name: value
        for name, value in given.items()
        if name in own
        and (same_outputs or not name.startswith(outputs))
        and (value.shape == own[name].shape or _loads_by_itself(model, name))
    }
    counts = {name: p.numel() for name, p in model.named_parameters() if name in own}
    taken = sum(count for name, count in counts.items() if name in chosen)
    # A head's bias may fit by chance.
    body = {name for name in counts if not name.startswith(outputs)} or counts.keys()
    if not body & chosen.keys():
        there, here = next(iter(state), "nothing"), next(iter(own), "nothing")
        raise ModelError(
            f"{of} and {type(model).__name__} have no weights in common "
            f"(there {there!r}, here {here!r}): is it the same architecture?"
        )
    model.load_state_dict(chosen, strict=False)
    new = tuple(name for name in counts if name not in chosen)
    return Started(taken, sum(counts[name] for name in new), new)


def _under_own_names(model: nn.Module, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Weights as the model names and shapes them, where they are timm's."""
    # timm's architectures have this function each, which also resizes positions.
    adapt = getattr(sys.modules[type(model).__module__], "checkpoint_filter_fn", None)
    if callable(adapt) and type(model).__module__.startswith("timm."):
        return dict(adapt(dict(state), model))
    own = model.state_dict()
    converted = convert(state)
    return max((state, converted), key=lambda found: sum(name in own for name in found))


def _loads_by_itself(model: nn.Module, name: str) -> bool:
    """Whether a tensor's module resizes what it loads, or knows why it can't."""
    owner = type(model.get_submodule(name.rpartition(".")[0]))
    # torch's own, such as that of batch norms, takes no other shape.
    return not owner._load_from_state_dict.__module__.startswith("torch.")
