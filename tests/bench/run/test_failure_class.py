"""What torch, CUDA and NCCL say, in their own words, and which class of failure it is."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from lightning_bench.bench.run.failure_class import classify_failure, is_lost_connection
from lightning_bench.bench.store.record import FailureClass

OF_THE_MACHINE = [
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed "
    "a driver from http://www.nvidia.com/Download/index.aspx",
    "The NVIDIA driver on your system is too old (found version 12020). Please update your GPU "
    "driver by downloading and installing a new version",
    "No CUDA GPUs are available",
    "CUDA error: CUDA driver version is insufficient for CUDA runtime version",
    "CUDA error: uncorrectable ECC error encountered",
    "CUDA error: the launch timed out and was terminated",
    "CUDA error: CUDA-capable device(s) is/are busy or unavailable",
    "CUDA error: no CUDA-capable device is detected",
    "CUDA error: invalid device ordinal",
    "CUDA error: unknown error",
    "CUDA error: system not yet initialized",
    "CUDA error: no kernel image is available for execution on the device",
    "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
    "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
    "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "Torch not compiled with CUDA enabled",
    "NCCL error in: ProcessGroupNCCL.cpp:3384, unhandled cuda error, NCCL version 2.27.5\n"
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 214 "
    "'uncorrectable ECC error encountered'",
]
OUT_OF_MEMORY = [
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.15 GiB",
    "CUDA error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "NCCL error in: ProcessGroupNCCL.cpp:3384, unhandled cuda error, NCCL version 2.27.5\n"
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n"
    "Cuda failure 2 'out of memory'",
]
OF_THE_PROGRAM = [
    "CUDA error: device-side assert triggered",
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: unspecified launch failure",
    "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)",
    "Expected all tensors to be on the same device, but found two devices, cuda:0 and cpu!",
]
CLASSES: list[tuple[FailureClass, list[str]]] = [
    ("infrastructure", OF_THE_MACHINE),
    ("out-of-memory", OUT_OF_MEMORY),
    ("code", OF_THE_PROGRAM),
]


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in CLASSES for text in texts]
)
def test_each_message_has_its_class_and_tells_of_no_other_rank(
    kind: FailureClass, text: str
) -> None:
    for error in (RuntimeError(text), torch.AcceleratorError(text)):
        assert classify_failure(error, Path("log.txt")).kind == kind
        assert not is_lost_connection(error)
    # NCCL wraps the same words.
    assert kind == "code" or not is_lost_connection(dist.DistBackendError(text))


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]"),
        RuntimeError("Connection reset by peer"),
        dist.DistBackendError(
            "NCCL communicator was aborted on rank 0. Original reason for failure was: ..."
        ),
        dist.DistNetworkError("The client socket has timed out"),
        dist.DistBackendError(
            "NCCL error in: ProcessGroupNCCL.cpp:3384, remote process exited or there was a "
            "network error, NCCL version 2.27.5\nncclRemoteError: A call failed possibly due to a "
            "network error or a remote process exiting prematurely."
        ),
    ],
)
def test_what_only_says_that_another_rank_is_gone(error: RuntimeError) -> None:
    assert is_lost_connection(error)


def test_memory_that_ran_out_while_a_network_was_made_is_no_fault_of_its_code(
    tmp_path: Path,
) -> None:
    wrapped = ValueError("can't be made")
    wrapped.__cause__ = RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
    wrapped.__cause__.__cause__ = wrapped  # a circle, which Python lets one tie
    assert classify_failure(wrapped, tmp_path).kind == "out-of-memory"
    wrapped.__cause__ = ValueError("out of memory, says a program about something else")
    assert classify_failure(wrapped, tmp_path).kind == "code"
