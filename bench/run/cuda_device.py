"""The GPU of a rank: which one it takes, whether it works, and what a record tells of it."""

import torch

from lightning_bench.bench.execute.devices import names_and_driver, power_and_profile
from lightning_bench.bench.store import provenance
from lightning_bench.bench.store.record import Environment, Gpu


class NoDevice(RuntimeError):
    """The GPU that a run is to use can't be used on this host."""


def take(local: int, ranks: int) -> None:
    """Make the GPU of a rank of this host, of so many, the current device.

    NoDevice says the reason where there is none.

    A run that was to train on a GPU never trains on something else: its speed, and the last bits
    of its results, would be another device's.
    """
    visible = torch.cuda.device_count()
    # A cluster may show each of a node's tasks a GPU of its own.
    index = 0 if visible == 1 else local
    if visible not in {0, 1} and visible < ranks:
        raise NoDevice(f"{_where()}: {ranks} ranks are to use a GPU each, and {visible} are there")
    try:
        torch.cuda.set_device(index)
        torch.zeros(1, device="cuda")
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"GPU {index} can't be used" if visible else "no GPU is visible"
        raise NoDevice(f"{_where()}: {what}: {reason}") from None


def describe(devices: int) -> list[Gpu]:
    """The first so many GPUs that this process sees; to be called where CUDA is in use already."""
    visible = range(min(devices, torch.cuda.device_count()))
    return [_gpu(index) for index in visible]


def of_this_rank() -> Gpu:
    """The GPU that this rank has taken."""
    return _gpu(torch.cuda.current_device())


def environment() -> Environment:
    """The machine with all of its GPUs, whichever of them a run may use."""
    names, driver = names_and_driver()
    kinds = {torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    return provenance.environment(names or sorted(kinds), driver=driver, libraries=_libraries())


def _gpu(index: int) -> Gpu:
    card = torch.cuda.get_device_properties(index)
    power_limit_w, mig = power_and_profile(str(card.uuid))
    return Gpu(name=card.name, memory_bytes=card.total_memory, power_limit_w=power_limit_w, mig=mig)


def _libraries() -> dict[str, str]:
    """CUDA, cuDNN and NCCL (or what stands for them), which need not be packages of pip."""
    found = {"cuda": torch.version.cuda, "rocm": torch.version.hip}
    cudnn = torch.backends.cudnn.version()
    found["cudnn"] = str(cudnn) if cudnn else None
    if torch.distributed.is_nccl_available():
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    return {name: version for name, version in found.items() if version}


def _where() -> str:
    named = provenance.visible_devices()
    return provenance.host() + (
        "" if named is None else f", CUDA_VISIBLE_DEVICES {named or 'empty'}"
    )
