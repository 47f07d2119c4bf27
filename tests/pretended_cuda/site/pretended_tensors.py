"""Tensors on pretended cards: they lie in the host's memory, and some carry where they would be.

A tensor that was put on a card is marked with the card's index; one that was made without naming a
device, or was fetched by `.cpu()`, as the CPU's. What operations make of them carries no mark, and
is taken for being where it should be. Modules are marked alike; they refuse another device's marks,
but in compiled code, which torch's compiler makes of what it would be without these fakes, for the
host.
"""

import functools
import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

from pretended_context import check, context

#: Makers of tensors, on the CPU where nobody names a device.
_FACTORIES = (
    "arange", "as_tensor", "empty", "eye", "full", "linspace", "ones", "rand", "randint", "randn",
    "randperm", "tensor", "zeros",
)  # fmt: skip
#: Those that make it where another tensor is.
_LIKE = ("empty_like", "full_like", "ones_like", "rand_like", "randn_like", "zeros_like")
_NEW = ("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")
CPU = "cpu"


def place_of(what: Any) -> int | str | None:
    """The card of a marked tensor or module, "cpu", or None where nothing is known."""
    return getattr(what, "__dict__", {}).get("_pretended_place")


def on_card(device: Any) -> bool:
    """Whether a device given in any of torch's ways is a card."""
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    return isinstance(device, str | context.torch.device) and str(device).startswith("cuda")


def compiling() -> bool:
    """Whether torch's compiler follows this call: it is to see what torch does, and no mark."""
    return bool(context.torch.compiler.is_compiling())


def _default_device() -> Any:
    """The device of the innermost `with torch.device(...)`, if there is one."""
    modes = context.torch.overrides._get_current_function_mode_stack()
    return next((mode.device for mode in reversed(modes) if hasattr(mode, "device")), None)


def _marked(tensor: Any, place: int | str) -> Any:
    tensor._pretended_place = place
    return tensor


def _mapped(make: Any, *, defaults_to_cpu: bool) -> Any:
    """A maker of tensors that makes a card's in the host's memory."""

    @functools.wraps(make)
    def call(*arguments: Any, **options: Any) -> Any:
        device = options.get("device")
        if compiling():
            return make(*arguments, **(options | {"device": CPU} if on_card(device) else options))
        if device is None and defaults_to_cpu and (device := _default_device()) is not None:
            options["device"] = device
        if device is not None and on_card(device):
            place = check(device)
            options["device"] = CPU
            return _marked(make(*arguments, **options), place)
        made = make(*arguments, **options)
        ours = not sys._getframe(1).f_globals.get("__name__", "").startswith("torch.")
        if defaults_to_cpu and ours and (device is None or (device == CPU and type(device) is str)):
            _marked(made, CPU)
        return made

    return call


def patch(torch: ModuleType) -> None:
    """Replace what makes tensors on a card, or takes them there and back."""
    _patch_device_contexts(torch)
    for name in _FACTORIES:
        setattr(torch, name, _mapped(getattr(torch, name), defaults_to_cpu=True))
    for name in _LIKE:
        setattr(torch, name, _mapped(getattr(torch, name), defaults_to_cpu=False))
    tensor = torch.Tensor
    for name in _NEW:
        setattr(tensor, name, _mapped(getattr(tensor, name), defaults_to_cpu=False))
    _patch_moves(torch, tensor)
    _patch_modules(torch)
    autocast = torch.autocast.__init__

    def on_host(self: Any, device_type: str, *arguments: Any, **options: Any) -> None:
        autocast(self, CPU if device_type == "cuda" else device_type, *arguments, **options)

    torch.autocast.__init__ = on_host
    recur = torch.nn.LSTM.forward

    def recurred(self: Any, *arguments: Any) -> Any:
        half = torch.is_autocast_enabled(CPU) and torch.get_autocast_dtype(CPU) == torch.float16
        if not half:
            return recur(self, *arguments)
        with torch.backends.mkldnn.flags(enabled=False):  # which has no LSTM in fp16, as cuDNN has
            return recur(self, *arguments)

    torch.nn.LSTM.forward = recurred


def _patch_device_contexts(torch: ModuleType) -> None:
    """Have `with torch.device("meta")` know the makers that ours call; a card's is the host's."""
    contexts = importlib.import_module("torch.utils._device")
    contexts._device_constructors()  # remembered from now on
    context_applied = contexts.DeviceContext.__torch_function__

    def applied(self: Any, make: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.device.type == "cuda":
            return make(*args, **(kwargs or {}))
        return context_applied(self, make, types, args, kwargs)

    contexts.DeviceContext.__torch_function__ = applied


def _patch_moves(torch: ModuleType, tensor: Any) -> None:
    to, numpy = tensor.to, tensor.numpy

    @functools.wraps(to)
    def moved(self: Any, *arguments: Any, **options: Any) -> Any:
        device = options.get("device", arguments[0] if arguments else None)
        if not on_card(device):
            wants_cpu = isinstance(device, str | torch.device) and str(device) == CPU
            if wants_cpu and isinstance(place_of(self), int):
                return _marked(to(self, *arguments, **{**options, "copy": True}), CPU)
            return to(self, *arguments, **options)
        card = check(device)
        if "device" in options:
            options["device"] = CPU
        else:
            arguments = (CPU, *arguments[1:])
        if place_of(self) == card:
            return to(self, *arguments, **options)
        # A card's memory is another one: what changes here does not change there.
        return _marked(to(self, *arguments, **{**options, "copy": True}), card)

    def as_array(self: Any, **options: Any) -> Any:
        if isinstance(place_of(self), int):
            raise TypeError(
                f"can't convert cuda:{place_of(self)} device type tensor to numpy. Use "
                "Tensor.cpu() to copy the tensor to host memory first."
            )
        return numpy(self, **options)

    def pinned(self: Any, device: Any = None) -> Any:
        if isinstance(place_of(self), int):
            raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors")
        check()
        copy = _marked(self.clone(), CPU)
        copy._pretended_pinned = True
        return copy

    tensor.to = moved
    tensor.cpu = lambda self, *_, **__: moved(self, CPU)
    tensor.cuda = lambda self, device=None, *_, **__: moved(
        self, "cuda" if device is None else torch.device("cuda", check(device))
    )
    tensor.numpy = as_array
    tensor.pin_memory = pinned
    tensor.is_pinned = lambda self, *_: self.__dict__.get("_pretended_pinned", False)
    tensor.record_stream = lambda self, stream: None


def _patch_modules(torch: ModuleType) -> None:
    module = torch.nn.Module
    to, cpu = module.to, module.cpu

    def place(root: Any, where: int | str) -> None:
        for part in root.modules():
            part.__dict__["_pretended_place"] = where
        if "LightningModule" in [kind.__name__ for kind in type(root).__mro__]:
            context.task_on_cpu = where == CPU

    def moved(self: Any, *arguments: Any, **options: Any) -> Any:
        device = options.get("device", arguments[0] if arguments else None)
        result = to(self, *arguments, **options)
        if on_card(device):
            place(self, check(device))
        elif device is not None and str(device) == CPU:
            place(self, CPU)
        return result

    def fetched(self: Any) -> Any:
        result = cpu(self)
        place(self, CPU)
        return result

    def refuse(part: Any, inputs: Any) -> None:
        if compiling():
            return
        where = place_of(part)
        if not isinstance(where, int):
            return
        for each in inputs:
            there = place_of(each) if isinstance(each, torch.Tensor) and each.ndim else None
            if there is not None and there != where:
                other = there if there == CPU else f"cuda:{there}"
                raise RuntimeError(
                    "Expected all tensors to be on the same device, but found at least two "
                    f"devices, cuda:{where} and {other}!"
                )

    functools.update_wrapper(moved, to)
    module.to, module.cpu = moved, fetched
    module.cuda = lambda self, device=None: moved(
        self, "cuda" if device is None else torch.device("cuda", check(device))
    )
    torch.nn.modules.module.register_module_forward_pre_hook(refuse)
    assert inspect.isfunction(module.to)
