"""torch's CUDA calls, answered for pretended cards; their tensors lie in the host's memory."""

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pretended_collectives
import pretended_host as host
import pretended_memory
import pretended_tensors
from pretended_context import check, context, current, initialise

TOTAL = 80 * 2**30


class Stream:
    """A stream, whose work is done as soon as it is asked for."""

    cuda_stream = stream_id = 0
    device_type = 1

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        initialise()
        self.device = context.torch.device("cuda", check(device))
        self.device_index, self.priority = self.device.index, priority

    def _nothing(self, *_: Any, **__: Any) -> None:
        """What there is to wait for has happened."""

    wait_stream = wait_event = synchronize = _nothing

    def query(self) -> bool:
        """Whether all is done."""
        return True

    def record_event(self, event: "Event | None" = None) -> "Event":
        """The event, recorded."""
        event = event or Event()
        event.record(self)
        return event

    def is_capturing(self) -> bool:
        """Whether a graph is captured."""
        return False

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing was changed."""


class Event:
    """An event, which happens when it is recorded."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        initialise()
        self.enable_timing, self.at = enable_timing, 0.0

    def record(self, stream: Any = None) -> None:
        """It happens now."""
        self.at = time.perf_counter()

    def elapsed_time(self, other: "Event") -> float:
        """Milliseconds between the two."""
        if not self.enable_timing or not other.enable_timing:
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return 1000 * (other.at - self.at)

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def _nothing(self, *_: Any) -> None:
        """It has happened."""

    synchronize = wait = _nothing


class Device:
    """The context manager `torch.cuda.device`."""

    def __init__(self, device: Any) -> None:
        self.index = check(device)

    def __enter__(self) -> None:
        self.before, context.thread.device = current(), self.index

    def __exit__(self, *_: object) -> None:
        context.thread.device = self.before


def patch(torch: ModuleType) -> None:
    """Replace torch's calls of CUDA."""
    context.torch = torch
    cuda = torch.cuda

    def initialised(answer: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            initialise()
            return answer(*arguments, **options)

        return call

    def device_count() -> int:
        return len(host.visible())

    def is_available() -> bool:
        if cuda._nvml_based_avail() and host.OPTIONS["nvml"]:
            return device_count() > 0
        return device_count() > 0 and not host.OPTIONS["driver"]

    def set_device(device: Any) -> None:
        context.thread.device = check(device)

    def properties(device: Any = None) -> Any:
        card = host.visible()[check(device)]
        major, minor = host.OPTIONS["capability"]
        return SimpleNamespace(
            name=host.name(card), major=major, minor=minor, multi_processor_count=108,
            total_memory=host.OPTIONS["capacity"] or TOTAL, warp_size=32,
            uuid=host.uuid(card).removeprefix("GPU-"), gcnArchName="gfx90a",
        )  # fmt: skip

    def stream(stream: Any) -> Any:
        return stream or Stream()

    answers: dict[str, Callable[..., Any]] = {
        "set_device": set_device,
        "current_device": current,
        "get_device_name": lambda device=None: properties(device).name,
        "get_device_properties": properties,
        "get_device_capability": lambda device=None: tuple(host.OPTIONS["capability"]),
        "is_bf16_supported": lambda *_, **__: host.OPTIONS["capability"][0] >= 8,
        "get_arch_list": lambda: ["sm_80"],
        "synchronize": lambda device=None: check(device),
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "get_rng_state_all": lambda: [torch.zeros(16, dtype=torch.uint8)] * device_count(),
        "current_stream": Stream,
        "default_stream": Stream,
        "set_stream": lambda stream: None,
        "stream": stream,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "ipc_collect": lambda: None,
        **pretended_memory.calls(),
    }
    for name, answer in answers.items():
        setattr(cuda, name, initialised(answer))
    # These are kept for later where CUDA is not initialised.
    cuda.set_rng_state = cuda.set_rng_state_all = lambda state, device=None: None
    cuda.manual_seed = cuda.manual_seed_all = lambda seed: None
    # These alone may be asked without CUDA's being initialised.
    cuda.device_count, cuda.is_available = device_count, is_available
    cuda.is_initialized = lambda: context.pid is not None
    cuda.empty_cache = pretended_memory.empty_cache  # does nothing where nothing was allocated
    cuda.Stream, cuda.Event, cuda.device = Stream, Event, Device
    # What torch's compiler asks, and has compiled code ask.
    cuda.is_current_stream_capturing = lambda: False
    torch._C._dynamo.utils.get_current_stream = lambda device: Stream(device)
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):
        torch._C._cuda_clearCublasWorkspaces = lambda: None
    if host.OPTIONS["hip"]:
        torch.version.hip, torch.version.cuda = host.OPTIONS["hip"], None
    _patch_accelerator(torch, device_count, is_available)
    pretended_tensors.patch(torch)
    pretended_memory.patch(torch)
    pretended_collectives.patch(torch)


def _patch_accelerator(
    torch: ModuleType, count: Callable[[], int], available: Callable[[], bool]
) -> None:
    accelerator = torch.accelerator

    def of_its_own(answer: Callable[..., Any]) -> Callable[..., Any]:
        # torch's compiler has a handler for each of both modules' functions, by identity.
        return lambda *arguments, **options: answer(*arguments, **options)

    accelerator.current_accelerator = lambda check_available=False: (
        torch.device("cuda") if available() or not check_available else None
    )
    answers = {
        "device_count": count,
        "is_available": available,
        "current_stream": Stream,
        "current_device_index": torch.cuda.current_device,
        "set_device_index": torch.cuda.set_device,
        "synchronize": torch.cuda.synchronize,
        "empty_cache": torch.cuda.empty_cache,
    }
    answers |= {n: getattr(torch.cuda, n) for n in pretended_memory.calls()}
    for name, answer in answers.items():
        if hasattr(accelerator, name):
            setattr(accelerator, name, of_its_own(answer))
