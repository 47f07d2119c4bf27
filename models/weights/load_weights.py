"""Load pre-trained weights into a model: those of an earlier run, or published ones.

What has the same name and shape is taken. Positions of another image size are resized, spatial
matrices can't be and say so; the outputs of another task, and what the earlier model lacked, stay
as they were initialised.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from lightning_bench.models.compat import checkpoint_filter
from lightning_bench.models.errors import ModelError
from lightning_bench.models.weights.convert_timm import convert
from lightning_bench.models.weights.heads import output_names


@dataclass(frozen=True)
class LoadedWeights:
    """How many parameters have the weights of the start, and which tensors are new."""

    taken: int
    fresh: int
    new: tuple[str, ...]


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors in a file of weights; nothing in it is executed."""
    import safetensors.torch

    if path.suffix == ".safetensors":
        return dict(safetensors.torch.load_file(path))
    raise ModelError(f"{path.name} is no file of weights that can be read: it isn't .safetensors")


def load_weights(
    model: nn.Module, state: Mapping[str, Tensor], *, source: str, same_outputs: bool = True
) -> LoadedWeights:
    """Load weights into a model; `source` names them in messages.

    With `same_outputs` the head is taken as well, where it has the same shape.
    """
    own = model.state_dict()
    outputs = tuple(f"{name}." for name in output_names(model))
    named = {
        name: value
        for name, value in _under_own_names(model, state).items()
        if name in own and (same_outputs or not name.startswith(outputs))
    }
    fitted = {name: _fitted(model, name, value, own[name]) for name, value in named.items()}
    chosen = {name: v for name, v in fitted.items() if v.shape == own[name].shape}
    counts = {name: p.numel() for name, p in model.named_parameters() if name in own}
    taken = sum(count for name, count in counts.items() if name in chosen)
    # A head's bias may fit by chance.
    body = {name for name in counts if not name.startswith(outputs)} or counts.keys()
    if not body & chosen.keys():
        there, here = next(iter(state), "nothing"), next(iter(own), "nothing")
        raise ModelError(
            f"{source} and {type(model).__name__} have no weights in common "
            f"(there {there!r}, here {here!r}): is it the same architecture?"
        )
    model.load_state_dict(chosen, strict=False)
    new = tuple(name for name in counts if name not in chosen)
    return LoadedWeights(taken, sum(counts[name] for name in new), new)


def _under_own_names(model: nn.Module, state: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """Weights as the model names and shapes them, where they are timm's."""
    if (adapt := checkpoint_filter(model)) is not None:
        return adapt(dict(state), model)
    own = model.state_dict()
    converted = convert(state)
    return max((state, converted), key=lambda found: sum(name in own for name in found))


def _fitted(model: nn.Module, name: str, value: Tensor, own: Tensor) -> Tensor:
    """A tensor as its module resizes it for itself (`fit_loaded`), which may be an error."""
    module = model.get_submodule(name.rpartition(".")[0])
    fit = getattr(module, "fit_loaded", None)
    return fit(value) if value.shape != own.shape and callable(fit) else value
