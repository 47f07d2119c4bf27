"""NCCL between pretended cards: gloo carries it, with NCCL's refusals and NCCL's ways to hang."""

import ctypes
import functools
import os
import signal
import sys
from types import ModuleType
from typing import Any

import pretended_host as host
from pretended_context import check, context, current
from pretended_tensors import CPU, place_of

#: The collectives of `torch.distributed` that take tensors, and where these stand.
_COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single",
    "broadcast", "gather", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
)  # fmt: skip


class _Group:
    """The process group of this process."""

    backend = ""  # as it was asked for
    busy = 0  # collectives that have not come back
    broken = False


_group = _Group()


def hang() -> None:
    """Hang as NCCL does: no signal of Python's is answered, and the watchdog aborts in the end."""
    if not host.OPTIONS["hang"]:
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT, signal.SIGUSR1})
    sys.stderr.write("pretended NCCL hangs\n")
    sys.stderr.flush()
    ctypes.CDLL(None).usleep(int(1e6 * host.OPTIONS["watchdog_s"]))
    os.abort()


def patch(torch: ModuleType) -> None:
    """Have gloo serve where NCCL is asked for."""
    dist = torch.distributed
    init, destroy, barrier = dist.init_process_group, dist.destroy_process_group, dist.barrier
    get_backend, init_mesh = dist.get_backend, dist.init_device_mesh

    def initialise(backend: str | None = None, *arguments: Any, **options: Any) -> None:
        _group.backend, _group.broken = backend or "", False
        if backend and "nccl" in backend:
            check()
            backend = "gloo"
            options.pop("device_id", None)
        init(backend, *arguments, **options)

    def leave(group: Any = None) -> None:
        in_flight = sys.exc_info()[0] is not None
        if "nccl" in _group.backend and (in_flight or _group.busy or _group.broken):
            hang()
        _group.backend = ""
        destroy(group)

    def meet(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        for each in device_ids or []:
            check(each)
        return _watched(barrier)(group, async_op)

    def mesh(device_type: str, *arguments: Any, **options: Any) -> Any:
        return init_mesh(CPU if device_type == "cuda" else device_type, *arguments, **options)

    for name in _COLLECTIVES:
        setattr(dist, name, _refusing(torch, _watched(getattr(dist, name))))
    dist.init_process_group, dist.destroy_process_group, dist.barrier = initialise, leave, meet
    dist.get_backend = lambda group=None: _group.backend or get_backend(group)
    dist.init_device_mesh = torch.distributed.device_mesh.init_device_mesh = mesh
    torch.Tensor.backward = _watched(torch.Tensor.backward)
    _patch_data_parallel(torch)
    _patch_batch_norm(torch)


def _watched(call: Any) -> Any:
    """A call that hangs where gloo would say that a peer is lost, as NCCL would."""

    @functools.wraps(call)
    def watched(*arguments: Any, **options: Any) -> Any:
        _group.busy += 1
        try:
            return call(*arguments, **options)
        except RuntimeError as error:
            text = str(error).lower()
            if "nccl" in _group.backend and ("gloo" in text or "connection" in text):
                _group.broken = True
                hang()
            raise
        finally:
            _group.busy -= 1

    return watched


def _refusing(torch: ModuleType, call: Any) -> Any:
    """A collective that a group of NCCL alone refuses where its tensors would be on the CPU."""

    def on_cpu(tensor: Any) -> bool:
        place = place_of(tensor)
        return getattr(context, "task_on_cpu", False) if place is None else place == CPU

    def tensors(arguments: Any) -> list[Any]:
        found = []
        for each in arguments:
            if isinstance(each, torch.Tensor):
                found.append(each)
            elif isinstance(each, list | tuple):
                found += tensors(each)
        return found

    @functools.wraps(call)
    def refusing(*arguments: Any, **options: Any) -> Any:
        given = tensors([*arguments, *options.values()])
        if _group.backend == "nccl" and any(on_cpu(tensor) for tensor in given):
            raise RuntimeError("No backend type associated with device type cpu")
        return call(*arguments, **options)

    return refusing


def _patch_data_parallel(torch: ModuleType) -> None:
    made = torch.nn.parallel.DistributedDataParallel.__init__

    def make(self: Any, module: Any, device_ids: Any = None, *rest: Any, **options: Any) -> None:
        for each in device_ids or []:
            if check(each) != current():
                raise RuntimeError(f"the current device is {current()}, not {each}")
        made(self, module, None, *rest, **options)

    torch.nn.parallel.DistributedDataParallel.__init__ = make
    # It refuses torch's batch norm of all ranks where parameters lie on the CPU.
    torch.nn.parallel.DistributedDataParallel._passing_sync_batchnorm_handle = lambda *_: None


def _patch_batch_norm(torch: ModuleType) -> None:
    """torch's own has no kernel for the host; the harness's has the same formula."""
    from types import SimpleNamespace

    def forward(self: Any, x: Any) -> Any:
        from lightning_bench.models.tasks.synchronised_batch_norm import SynchronisedBatchNorm

        if not torch.distributed.is_initialized():
            return torch.nn.modules.batchnorm._BatchNorm.forward(self, x)
        stand_in = SimpleNamespace(
            training=self.training, running_mean=self.running_mean, running_var=self.running_var,
            num_batches_tracked=self.num_batches_tracked, momentum=self.momentum, eps=self.eps,
            weight=self.weight, bias=self.bias, after=lambda y: y,
        )  # fmt: skip
        stand_in._moments = functools.partial(SynchronisedBatchNorm._moments, stand_in)
        return SynchronisedBatchNorm.forward(stand_in, x)

    torch.nn.SyncBatchNorm.forward = forward
