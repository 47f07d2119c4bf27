"""A user's own network as it stands: called with what the page and the data give, and tried out.

Its outputs may be a tensor, a tuple, a mapping or an object with `.logits`; lazy layers get their
shapes from a made-up example of the data. A function or class that makes a LightningModule is
called in the same way, and trained by itself (`bench.run.own_training`).
"""

import inspect
import random
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn

from lightning_bench.common.messages import first_line
from lightning_bench.models.errors import ModelError
from lightning_bench.models.registry.arguments import (
    OTHERS,
    Argument,
    missing,
    needs,
    read_any_signature,
)
from lightning_bench.models.registry.data_arguments import facts_of, filled
from lightning_bench.models.registry.instantiate import instantiated
from lightning_bench.models.registry.model_variant import NEEDED, Kind, Variant

Form = Literal["network", "lightning"]
#: What the second and third tensor of a text batch are called by those who take them.
_MASKS = {"mask", "attention_mask", "padding_mask", "pad_mask"}
_SEGMENTS = {"segments", "segment_ids", "token_type_ids"}
#: The keys of a mapping of outputs, or fields of an object, that hold the logits.
_LOGITS = ("logits", "out", "output", "outputs", "pred", "preds", "y_hat")
_SIZES = (32, 224, 28, 64, 96, 16, 8)


@dataclass(frozen=True)
class UserModel(Variant):
    """A callable of the user's own that makes a network or a LightningModule."""

    target: Callable[..., Any] | None = None

    @property
    def kind(self) -> Kind:
        """What it reads, as far as its arguments tell."""
        facts = {argument.fact for argument in self.arguments.values()}
        if facts & {"channels", "image_size"}:
            return "image"
        return "text" if "vocab_size" in facts else "any"

    @property
    def form(self) -> Form:
        """Whether it is, or says that it returns, a LightningModule."""
        return "lightning" if lightning_package(self._made) else "network"

    @property
    def canonical(self) -> bool:
        """Whether it takes all facts by our own names, and so all inputs in our order."""
        return any(needed <= set(self.arguments) for needed in NEEDED.values())

    @property
    def _made(self) -> Any:
        if isinstance(self.target, type):
            return self.target
        try:
            return get_type_hints(self.target).get("return")
        except Exception:  # noqa: BLE001 -- hints that can't be resolved tell nothing
            return None

    def takes(self, fact: str) -> bool:
        """Whether a fact of the data fills an argument."""
        return any(argument.fact == fact for argument in self.arguments.values())


def user_model(name: str, target: Any) -> UserModel:
    """The model of this name, of whatever is called so in the user's module."""
    if isinstance(target, nn.Module):
        raise ModelError(f"{name}: this is a network already: name its class, or a function")
    if not callable(target):
        raise ModelError(f"{name}: a {type(target).__name__} makes no network")
    arguments = read_any_signature(target)

    def make(**values: Any) -> Any:
        return _make(made, values)

    make.__doc__, make.__module__ = target.__doc__, getattr(target, "__module__", "") or ""
    title = name.rpartition(":")[2]
    made = UserModel(name, title, make, arguments, target=target)
    return made


def lightning_package(kind: Any) -> str:
    """The package whose LightningModule a class is: one of the two, or empty."""
    for base in kind.__mro__ if isinstance(kind, type) else ():
        for package in ("pytorch_lightning", "lightning.pytorch"):
            if base.__name__ == "LightningModule" and base.__module__.startswith(f"{package}."):
                return package
    return ""


def _make(model: UserModel, values: Mapping[str, Any]) -> Any:
    """Call the model's function, and make of its network one from a batch's inputs to logits."""
    made = _called(model, values)
    if lightning_package(type(made)):
        if model.form != "lightning":
            kind = type(made).__name__
            raise ModelError(
                f"{model.name} makes a LightningModule: say so (`-> {kind}`), or name its class"
            )
        return made
    if not isinstance(made, nn.Module):
        raise ModelError(f"{model.name} gives a {type(made).__name__}, not an nn.Module")
    facts = facts_of(values)
    if _is_lazy(made):
        with random_states_kept(made):
            _tried(model, made, _inputs(model, facts, made))
    if not facts.get("classes") or not {"channels", "vocab_size"} & facts.keys():
        return made
    return _adapted(model, made, values, facts)


def _called(model: UserModel, values: Mapping[str, Any]) -> Any:
    arguments, facts = model.arguments, facts_of(values)
    given: dict[str, Any] = {}
    for name, argument in arguments.items():
        if name in values:
            given[name] = values[name]
        elif argument.fact and facts.get(argument.fact):
            given[name] = facts[argument.fact]
    own = NEEDED["image"] | NEEDED["text"]
    if OTHERS in arguments:
        given |= {name: v for name, v in values.items() if name not in own | given.keys()}
    if lacking := [*missing(arguments, given), *_unfilled(arguments, given)]:
        raise ModelError(f"{model.name}{needs(lacking)}")
    where = f"{model.name}: args"
    made = {name: instantiated(filled(v, facts), where) for name, v in given.items()}
    for name, argument in arguments.items():
        if isinstance(made.get(name), list) and _is_tuple(model, argument):
            made[name] = tuple(made[name])
    assert model.target is not None
    positional = [
        made.pop(p.name)
        for p in _parameters(model.target)
        if p.kind is inspect.Parameter.POSITIONAL_ONLY and p.name in made
    ]
    try:
        return model.target(*positional, **made)
    except ModelError:
        raise
    except Exception as error:  # whatever a user's code does
        raise ModelError(f"{model.name} can't be made: {_told(error)}") from error


def _unfilled(arguments: Mapping[str, Argument], given: Mapping[str, Any]) -> list[str]:
    """Arguments without a default that this data has no fact for."""
    return [a.name for a in arguments.values() if a.required and a.fact and a.name not in given]


def _parameters(target: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return [*inspect.signature(target).parameters.values()]
    except (TypeError, ValueError):
        return []


def _is_tuple(model: UserModel, argument: Argument) -> bool:
    """Whether a list of the page stands for a tuple, as the default is one."""
    assert model.target is not None
    found = [p.default for p in _parameters(model.target) if p.name == argument.name]
    return bool(found) and isinstance(found[0], tuple)


def _adapted(
    model: UserModel, network: nn.Module, values: Mapping[str, Any], facts: Mapping[str, int]
) -> nn.Module:
    """The network, as it is or behind an adapter, after its logits were seen to be the data's."""
    if (tried := _on_meta(model, values)) is not None:
        probe, inputs = tried
        try:
            return _fitted(model, network, probe, inputs, facts)
        except ModelError:
            pass  # some code works on real tensors alone
    with random_states_kept(network):
        return _fitted(model, network, network, _inputs(model, facts, network), facts)


def _on_meta(
    model: UserModel, values: Mapping[str, Any]
) -> tuple[nn.Module, tuple[Tensor, ...]] | None:
    """The same network and inputs on the meta device, where that works."""
    with random_states_kept():
        try:
            with torch.device("meta"):
                probe = _called(model, values)
                inputs = _inputs(model, facts_of(values), probe)
                if _is_lazy(probe):
                    probe.eval()(*inputs[: accepted(model, probe, len(inputs))])
        except Exception:  # noqa: BLE001 -- then it is tried on real tensors
            return None
    return probe, inputs


def _fitted(
    model: UserModel,
    network: nn.Module,
    probe: nn.Module,
    inputs: tuple[Tensor, ...],
    facts: Mapping[str, int],
) -> nn.Module:
    taken = accepted(model, probe, len(inputs))
    output = _tried(model, probe, inputs[:taken])
    found = logits_of(output)
    if found is None:
        kind = type(output).__name__
        raise ModelError(f"{model.name} gives a {kind} in which no logits are found")
    _check_shape(model, tuple(found.shape), inputs[0], facts)
    plain = isinstance(output, Tensor) and isinstance(_in_training(probe, inputs[:taken]), Tensor)
    return network if plain and taken == len(inputs) else Adapted(network, taken)


def _check_shape(
    model: UserModel, shape: tuple[int, ...], first: Tensor, facts: Mapping[str, int]
) -> None:
    wanted = (len(first), facts["classes"])
    if shape == wanted:
        return
    size = "×".join(map(str, first.shape[1:]))
    what = f"images of {size}" if first.is_floating_point() else f"texts of {size} tokens"
    hint = ""
    if len(shape) == 2 and not model.takes("classes"):
        alike = [
            a.name
            for a in model.arguments.values()
            if a.default == shape[1] and not isinstance(a.default, bool)
        ]
        if OTHERS in model.arguments:
            alike = alike or ["num_classes"]
        if alike:
            hint = f'; try `args: {{{alike[0]}: "{{classes}}"}}`'
    if len(shape) == 2 and shape[0] == wanted[0]:
        message = f"gives {shape[1]} outputs an example, and the data has {wanted[1]} classes"
    else:
        message = f"gives a tensor of {shape} for {len(first)} {what}, not of {wanted}"
    raise ModelError(f"{model.name} {message}{hint}")


def accepted(model: UserModel, network: nn.Module, count: int) -> int:
    """How many of a batch's tensors the network's forward takes."""
    if count == 1 or model.canonical:
        return count
    names = [
        p.name
        for p in _parameters(network.forward)
        if p.kind in {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    ]
    taken = 1
    for place, known in ((1, _MASKS), (2, _SEGMENTS)):
        if taken == place and len(names) > place and names[place] in known:
            taken += 1
    return min(taken, count)


def logits_of(output: Any) -> Tensor | None:
    """The logits in what a network gives: itself, `.logits`, of a mapping, or a tuple's first."""
    if isinstance(output, Tensor):
        return output
    for name in _LOGITS:
        found = output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)
        if isinstance(found, Tensor):
            return found
    if isinstance(output, Mapping):
        tensors = [each for each in output.values() if isinstance(each, Tensor)]
        return tensors[0] if len(tensors) == 1 else None
    if isinstance(output, tuple | list):
        return next((logits for each in output if (logits := logits_of(each)) is not None), None)
    return None


def at_defaults(model: UserModel) -> tuple[nn.Module, tuple[Tensor, ...] | None]:
    """The model with its own defaults, and an example that it reads, where one is found."""
    with random_states_kept(), torch.device("meta"):
        try:
            made = _called(model, {})
        except ModelError:
            with torch.device("cpu"):
                made = _called(model, {})
        if model.form == "network" and lightning_package(type(made)):
            kind = type(made).__name__
            raise ModelError(
                f"{model.name} makes a LightningModule: say so (`-> {kind}`), or name its class"
            )
        if not isinstance(made, nn.Module):
            raise ModelError(f"{model.name} gives a {type(made).__name__}, not an nn.Module")
        if model.kind == "text" or model.form == "lightning":
            return made, None
        device = next(made.parameters(), torch.empty(0)).device
        for channels, size in shapes(model, {}):
            inputs = (torch.zeros(1, channels, size, size, device=device),)
            try:
                _tried(model, made, inputs)
            except ModelError:
                continue
            return made, inputs
    return made, None


def tried_out(model: UserModel, values: Mapping[str, Any]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The model for data with these facts, and an example of them: on the meta device if it can."""
    facts = facts_of(values)
    if model.form == "lightning":
        made = model.function(**values)
        return made, _inputs(model, facts, made, batch=1)[:1]
    with random_states_kept():
        try:
            with torch.device("meta"):
                made = model.function(**values)
                inputs = _inputs(model, facts, made, batch=1)
                made.eval()(*inputs[: accepted(model, made, len(inputs))])
        except Exception:  # noqa: BLE001 -- then on real tensors, where its message is worth more
            made = model.function(**values)
            inputs = _inputs(model, facts, made, batch=1)
    return made, inputs[: accepted(model, made, len(inputs))]


def small_data(model: UserModel) -> dict[str, int]:
    """Facts of made-up data that the model reads: small where its arguments leave it open."""
    if model.kind == "text":
        return {"vocab_size": 100, "length": 16, "classes": 5}
    problems = []
    for channels, size in shapes(model, {}, smallest=True):
        facts = {"channels": channels, "image_size": size}
        for classes in (5, 10, 2, 100, 1000):
            try:
                tried_out(model, {**facts, "classes": classes})
            except ModelError as error:
                problems.append(error)
            else:
                return {**facts, "classes": classes}
            if "outputs an example" not in str(problems[-1]):
                break
    raise problems[0]


class Adapted(nn.Module):
    """A network behind the interface of ours: a batch's inputs in, logits out."""

    def __init__(self, network: nn.Module, taken: int) -> None:
        super().__init__()
        self.network, self.taken = network, taken

    def forward(self, *inputs: Tensor) -> Tensor:
        """The logits of the inputs that it takes."""
        logits = logits_of(self.network(*inputs[: self.taken]))
        assert logits is not None
        return logits


def _inputs(
    model: UserModel, facts: Mapping[str, int], network: nn.Module, batch: int = 2
) -> tuple[Tensor, ...]:
    """Made-up inputs of the data's shape, where the network is; of a text all its tensors."""
    parameter = next(network.parameters(), torch.empty(0))
    device = parameter.device
    if "vocab_size" in facts:
        shape = (batch, facts.get("length", 16))
        tokens = torch.ones(shape, dtype=torch.long, device=device)
        return tokens, torch.ones_like(tokens, dtype=torch.bool), torch.zeros_like(tokens)
    for channels, size in shapes(model, facts):
        inputs = torch.linspace(-1, 1, batch * channels * size**2).to(device)
        # A row of numbers is one pixel.
        return (inputs.view((batch, channels, size, size) if size > 1 else (batch, channels)),)
    raise ModelError(f"{model.name}: the shape of its inputs isn't known")


def shapes(
    model: UserModel, facts: Mapping[str, int], *, smallest: bool = False
) -> Iterator[tuple[int, int]]:
    """Channels and sizes of images that it may read: the data's, its defaults', common ones."""
    if "image_size" in facts:
        yield facts.get("channels", 3), facts["image_size"]
        return
    default = {a.fact: a.default for a in model.arguments.values() if isinstance(a.default, int)}
    sizes = [default["image_size"]] if "image_size" in default and not smallest else _SIZES
    for channels in [default["channels"]] if "channels" in default else (3, 1):
        for size in sizes:
            yield channels, size


def _tried(model: UserModel, network: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """What the network gives in evaluation, without anything left changed."""
    was_training = network.training
    try:
        with torch.no_grad():
            return network.eval()(*inputs)
    except Exception as error:
        shape = "×".join(map(str, inputs[0].shape[1:]))
        what = f"images of {shape}" if inputs[0].is_floating_point() else f"texts of {shape} tokens"
        raise ModelError(f"{model.name} fails on {what}: {_told(error)}") from error
    finally:
        network.train(was_training)


def _in_training(network: nn.Module, inputs: tuple[Tensor, ...]) -> Any:
    """What it gives in training, on the meta device alone: elsewhere that would change it."""
    if inputs[0].device.type != "meta":
        return inputs[0]
    try:
        with torch.no_grad():
            return network.train()(*inputs)
    except Exception:  # noqa: BLE001 -- a batch norm of one value, or numbers that it needs
        return inputs[0]


def _is_lazy(network: nn.Module) -> bool:
    tensors = [*network.parameters(), *network.buffers()]
    return any(nn.parameter.is_lazy(tensor) for tensor in tensors)


@contextmanager
def random_states_kept(lazy: nn.Module | None = None) -> Iterator[None]:
    """Leave the generators as they were, unless lazy layers are to draw their weights."""
    if lazy is not None and _is_lazy(lazy):
        yield
        return
    python, numpy, torch_state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        torch.set_rng_state(torch_state)


def _told(error: Exception) -> str:
    """An exception of the user's code in a line, with the place."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "<" not in f.filename]
    own = [f for f in frames if not {"site-packages", "torch"} & set(Path(f.filename).parts)]
    own = [f for f in own if Path(f.filename).name != Path(__file__).name]
    last = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    return f"{type(error).__name__}: {first_line(error)}{last}"
