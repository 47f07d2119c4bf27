"""The rates of this host, for estimates: FLOP/s of products and convolutions, bytes and kernels.

Measured in some seconds in a process of its own (`python -m` prints them as JSON), and kept in the
cache for each processor and version of torch. They are rates of processor time, of which the load
of other programs is no part.
"""

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from lightning_bench.bench.errors import UserError
from lightning_bench.bench.plan.machines import DeviceRates
from lightning_bench.bench.store import provenance
from lightning_bench.common.files import write_atomically
from lightning_bench.common.folders import cache_folder
from lightning_bench.common.machine import usable_cores

_REPEATS = 7
#: What a further thread adds, of what the first one does.
_SHARED = 0.9
#: The share of these rates that training reaches: its products are smaller and of many shapes.
UTILISATION = 0.5
_MODULE = "lightning_bench.bench.measure.host_rates"
#: Changes where more is measured than before, or otherwise.
_MEASURED = "3: the start apart from what a warm process takes"
#: Epochs and batch sizes of trainings of next to nothing, of which steps, epochs and starts are
#: told apart: their network and data cost little beside them.
_TRAININGS = ((1, 512), (13, 512), (4, 16))


def host(threads: int = 1) -> DeviceRates:
    """The cores of this host as devices of so many threads, with their measured rates."""
    rates = _kept_rates()
    together = threads * _SHARED if threads > 1 else 1.0
    return DeviceRates(
        name="this host",
        devices=max(1, usable_cores() // threads),
        flops={name: together * rate for name, rate in rates["flops"].items()},
        convolution_flops={
            name: together * rate for name, rate in rates["convolution_flops"].items()
        },
        bytes_per_s=together * rates["bytes_per_s"],
        launch_s=rates["launch_s"],
        step_s=rates["step_s"],
        epoch_s=rates["epoch_s"],
        start_s=rates["start_s"],
        utilisation=UTILISATION,
        overlaps=False,
    )


def _kept_rates() -> dict[str, Any]:
    """The rates from the cache, or measured now."""
    torch_version = importlib.metadata.version("torch")
    made_of = "\0".join((provenance.cpu_model(), torch_version, _MEASURED))
    stamp = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    path = cache_folder() / f"host-rates-{stamp}.json"
    try:
        rates: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        rates = _measure_apart()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, json.dumps(rates))
        except OSError as error:
            sys.stderr.write(f"the host's rates could not be kept in {path.parent}: {error}\n")
    return rates


def _measure_apart() -> dict[str, Any]:
    """Measure in a process of its own, since that has to import torch."""
    pinned = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", _MODULE],
        capture_output=True,
        text=True,
        env={**os.environ, **pinned},
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"the rates of this host could not be measured: {last}")
    rates: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return rates


def measure() -> dict[str, Any]:
    """FLOP/s by precision, bytes a second and seconds a kernel, of one thread."""
    import torch
    from torch.nn import functional as F

    torch.set_num_threads(1)
    side, channels, pixels = 384, 32, 32
    flops, convolution_flops = {}, {}
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        a = torch.randn(side, side, dtype=dtype)
        weight = torch.randn(channels, channels, 3, 3, dtype=dtype)
        images = torch.randn(32, channels, pixels, pixels, dtype=dtype)
        flops[name] = 2 * side**3 / _processor_seconds(torch.mm, a, a)
        products = 2 * 9 * channels**2 * 32 * (pixels - 2) ** 2
        convolution_flops[name] = products / _processor_seconds(F.conv2d, images, weight)
    large, small = torch.randn(1 << 20), torch.randn(64, 64, requires_grad=True)

    def train_small() -> None:
        x = small
        for _ in range(20):
            x = x * 1.01
        x.sum().backward()

    return {
        "flops": flops,
        "convolution_flops": convolution_flops,
        "bytes_per_s": 3 * large.nbytes / _processor_seconds(torch.mul, large, large),
        "launch_s": _processor_seconds(train_small) / 60,  # forward once, backward twice
        **_of_training(),
    }


def _of_training() -> dict[str, float]:
    """Seconds of Python for a step, an epoch and a run, beside what the model computes.

    T = start + epochs · (epoch + batches · step), where a batch of validation counts as half a
    step; three trainings in a process that has trained before give epoch and step, and the first
    one of a process the start, since each run is one.
    """
    import numpy as np

    from lightning_bench.bench.plan.estimate import Workload, workload
    from lightning_bench.bench.spec import DataSpec, ModelSpec, Recipe, RunSpec
    from lightning_bench.bench.study.inputs import dataset_of

    nothing = dict.fromkeys(("parameters", "flops", "convolved", "outputs", "operations"), 0)
    specs, steps = [], []
    for epochs, batch_size in _TRAININGS:
        spec = RunSpec(
            model=ModelSpec(name="mlp", args={"depth": 1, "width": 8}),
            data=DataSpec(name="digits"),
            recipe=Recipe(epochs=epochs, batch_size=batch_size),
            seed=0,
        )
        work = workload(spec, dataset_of(spec.data), nothing)
        assert isinstance(work, Workload)
        specs.append(spec)
        steps.append(work.steps)
    first, *others = _trained_apart([specs[0], *specs, *specs])
    warm = np.reshape(others, (2, -1)).min(axis=0)  # noise only adds
    # A column each of runs, epochs and steps.
    times = np.array(
        [[1, epochs, step] for (epochs, _), step in zip(_TRAININGS, steps, strict=True)]
    )
    _, epoch_s, step_s = np.linalg.solve(times, warm).tolist()
    start_s = first - _TRAININGS[0][0] * epoch_s - steps[0] * step_s
    found = {"step_s": step_s, "epoch_s": epoch_s, "start_s": start_s}
    return {name: max(seconds, 1e-5) for name, seconds in found.items()}


def _trained_apart(specs: Sequence[Any]) -> list[float]:
    """Processor seconds of trainings in a fork that has imported what it needs, as runs are."""
    from lightning_bench.bench.run.training import train

    reading, writing = os.pipe()
    child = os.fork()
    if not child:  # its processor time begins at zero
        try:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
            ended = [0.0]
            for spec in specs:
                train(spec, device="cpu", on_epoch=lambda _: None)
                ended.append(time.process_time())
            each = [end - begin for begin, end in pairwise(ended)]
            os.write(writing, json.dumps(each).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    taken: list[float] = json.loads(told)
    return taken


def _processor_seconds(work: Callable[..., Any], *inputs: Any) -> float:
    """The median processor time of a piece of work: another program's load is not in it."""
    work(*inputs)
    started = time.process_time()
    work(*inputs)
    times = max(1, int(0.01 / max(time.process_time() - started, 1e-7)))
    taken = []
    for _ in range(_REPEATS):
        started = time.process_time()
        for _ in range(times):
            work(*inputs)
        taken.append((time.process_time() - started) / times)
    return median(taken)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure()) + "\n")
