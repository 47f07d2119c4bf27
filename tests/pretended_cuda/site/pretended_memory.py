"""The memory of pretended cards: an allocator that keeps what it had, on a card shared by all.

Counted are the parameters, gradients and buffers of modules on the card, the state of optimisers,
and the outputs of leaf modules of the present forward pass, until the next one begins; not those
of compiled code.
"""

import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pretended_host as host
from pretended_context import check, context, current
from pretended_tensors import compiling, place_of

#: What CUDA itself takes of a card in each process, where the card's capacity is told.
CONTEXT_BYTES = 1_000_000


class _Allocator:
    """What this process has of its current device."""

    def __init__(self) -> None:
        self.modules: weakref.WeakSet[Any] = weakref.WeakSet()
        self.optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self.activations = self.kept = 0
        self.reserved = self.peak = self.peak_reserved = 0
        self.depth = 0

    def standing(self) -> int:
        """The bytes of parameters, gradients, buffers and optimisers' states."""
        sizes: dict[int, int] = {}

        def add(tensor: Any) -> None:
            tensor = getattr(tensor, "_local_tensor", tensor)
            storage = tensor.untyped_storage()  # freed where its content waits on the host
            sizes[storage.data_ptr()] = storage.nbytes()

        for module in self.modules:
            for parameter in module.parameters():
                add(parameter)
                if parameter.grad is not None:
                    add(parameter.grad)
            for buffer in module.buffers():
                add(buffer)
        for optimizer in self.optimizers:
            for state in optimizer.state.values():
                for value in state.values():
                    if isinstance(value, context.torch.Tensor):
                        add(value)
        return sum(sizes.values())

    def note(self) -> None:
        """Take what is needed now from the card, or raise torch's error."""
        self.allocated = self.standing() + self.activations
        self.peak = max(self.peak, self.allocated)
        if self.allocated > self.reserved:
            self.take(self.allocated)

    def take(self, size: int) -> None:
        """Have so many bytes of the card from now on."""
        try:
            host.hold(host.visible()[current()], size + CONTEXT_BYTES)
        except host.OutOfCards as error:
            raise context.torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {size - self.reserved} bytes. {error}"
            ) from None
        self.reserved = size
        self.peak_reserved = max(self.peak_reserved, size)

    allocated = 0


_allocator = _Allocator()


def empty_cache() -> None:
    """Give back what is allocated no more."""
    if context.pid is not None and _allocator.reserved:
        _allocator.activations = 0
        _allocator.allocated = _allocator.standing()
        _allocator.take(_allocator.allocated)


def calls() -> dict[str, Callable[..., Any]]:
    """What `torch.cuda` is asked about memory."""

    def reset(device: Any = None) -> None:
        check(device)
        _allocator.peak = _allocator.allocated = _allocator.standing() + _allocator.activations
        _allocator.peak_reserved = _allocator.reserved

    def info(device: Any = None) -> tuple[int, int]:
        card = host.visible()[check(device)]
        total = host.OPTIONS["capacity"] or 80 * 2**30
        return total - sum(host.holders(card).values()), total

    return {
        "memory_allocated": lambda device=None: _allocator.allocated,
        "max_memory_allocated": lambda device=None: _allocator.peak,
        "memory_reserved": lambda device=None: _allocator.reserved,
        "max_memory_reserved": lambda device=None: _allocator.peak_reserved,
        "reset_peak_memory_stats": reset,
        "mem_get_info": info,
        "memory_stats": lambda device=None: {"allocated_bytes.all.peak": _allocator.peak},
    }


def patch(torch: ModuleType) -> None:
    """Hook into every module's forward pass and every optimiser's step."""
    modules = torch.nn.modules.module

    def begin(module: Any, _: Any) -> None:
        if compiling():
            return
        if isinstance(place_of(module), int):
            if _allocator.depth == 0:
                _allocator.activations = 0
                _allocator.modules.add(module)
            _allocator.depth += 1

    def end(module: Any, _: Any, output: Any) -> None:
        if compiling() or not isinstance(place_of(module), int):
            return
        _allocator.depth = max(0, _allocator.depth - 1)
        if isinstance(output, torch.Tensor) and not any(True for _ in module.children()):
            size = output.numel() * output.element_size()
            kept = _allocator.activations + size if torch.is_grad_enabled() else size
            _allocator.activations = max(_allocator.activations, kept)
        if _allocator.depth == 0:
            _allocator.note()

    def stepped(optimizer: Any, *_: Any) -> None:
        if context.pid is not None:
            _allocator.optimizers.add(optimizer)
            _allocator.note()

    modules.register_module_forward_pre_hook(begin)
    # Also where the module fails: the next pass would else be taken for a part of this one.
    modules.register_module_forward_hook(end, always_call=True)

    def patched_steps(module: ModuleType) -> None:
        module.register_optimizer_step_post_hook(stepped)

    from torch.optim import optimizer as optimizers

    patched_steps(optimizers)
