"""The worker process of one contender: makes the model and times blocks of steps.

Importing this module imports torch, as the fork server does once; the parent imports it only by
name. The parent asks by `None` for an end and by a number for that round's block.
"""

import os
import signal
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal

import torch
from torch import nn

from lightning_bench.bench.execute import devices
from lightning_bench.bench.measure import energy, machine_state, model_counts
from lightning_bench.bench.measure import step as step_module
from lightning_bench.bench.measure.clock import Clock, clock_of
from lightning_bench.bench.measure.nvml import GpuState, NvmlGpu
from lightning_bench.bench.measure.offload import Offload
from lightning_bench.bench.measure.process_group import ProcessGroup, SingleProcess
from lightning_bench.bench.measure.protocol import Failed, MeasureJob, Ready, Taken
from lightning_bench.bench.measure.step import TimedModel, TimedStep
from lightning_bench.bench.measure.warm_up import Pace, steps_a_block, warm_up
from lightning_bench.bench.run import cuda_device
from lightning_bench.bench.run.determinism import (
    begins_strict,
    nondeterministic_operation,
    use_deterministic_algorithms,
    use_deterministic_attention,
)
from lightning_bench.bench.run.precision import kernels, set_float32_precision
from lightning_bench.bench.store.measurements import Block, Counts, Memory, WarmUp
from lightning_bench.common import memory
from lightning_bench.common.processes import die_with_parent, send_output
from lightning_bench.models.registry import example_inputs as examples
from lightning_bench.models.registry.registry import look_up


def main(pipe: Connection, job: MeasureJob) -> None:
    """Answer the parent until it has enough; what goes wrong is an answer, too."""
    # The parent alone answers Ctrl-C, and ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    # Whatever a model prints is not ours to show.
    send_output(os.devnull)
    try:
        worker = Worker(job)
        worker.leave_device()
        pipe.send(worker.ready)
        while (number := pipe.recv()) is not None:
            pipe.send(worker.block(number))
        worker.group.destroy()
    except (EOFError, BrokenPipeError):
        return  # the parent has gone
    except Exception as error:  # noqa: BLE001 - whatever it is becomes the measurement's failure
        pipe.send(_failed(error))


@dataclass
class _Timed:
    """Steps that are at their pace, and how many of them are a block."""

    step: TimedStep
    steps: int


class Worker:
    """A contender at its pace."""

    def __init__(self, job: MeasureJob) -> None:
        self.setting, pace = job.setting, job.pace
        torch.set_num_threads(self.setting.threads)
        torch.manual_seed(0)
        self._gpu = _gpu(job)
        # A GPU's context is there by now, for which the driver maps more than there is.
        memory.limit_to_available()
        self.clock: Clock = clock_of(self.setting.device)
        self.group = _process_group(job)
        counts = _count(job) if job.counted and job.rank == 0 else None
        self._choose_kernels()
        nondeterministic: list[str] = []
        idle = memory.resident_bytes(memory.tree())
        try:
            made, model, step, first_batch_s = self._first_step(job)
        except RuntimeError as error:
            if not (operation := nondeterministic_operation(error)):
                raise
            # As in training, which then begins again.
            nondeterministic.append(operation)
            use_deterministic_algorithms()
            made, model, step, first_batch_s = self._first_step(job)
        compile_s = None
        if self.setting.compile:
            model = torch.compile(model)  # type: ignore[assignment]
            step = made.step(model, self.setting.batch_size)
            compile_s = _compile_s(self.clock, step)
        self.meter = _meter(self.setting.device, self._gpu)
        least_s = self.meter.least_block_s if self.meter else 0.0
        block_s = max(pace.block_s, self.group.all_max(least_s))
        warmed, self.throughput = self._at_pace(step, pace, block_s)
        measured = self._peak(idle)
        # Single examples, whose times are the latency, share the round.
        self.latency: _Timed | None = None
        if self.setting.mode == "infer" and job.latency and self.setting.devices == 1:
            self.latency = self._latency(made.step(model, 1), pace)
        self._offload: Offload | None = None
        on_gpu = self.setting.device == "cuda"
        self._leaves = job.shared and on_gpu
        self.ready = Ready(
            counts=counts,
            unit="images" if made.variant.kind == "image" else "tokens",
            per_example=_units(job),
            shape=_shape(job),
            first_batch_s=first_batch_s,
            compile_s=compile_s,
            warm_up=warmed,
            kernels=kernels(nondeterministic),
            memory=measured,
            energy_source=self.meter.source if self.meter else None,
            round_s=self._round_s,
            gpus=cuda_device.describe(self.setting.devices) if on_gpu else [],
            environment=cuda_device.environment() if on_gpu and job.rank == 0 else None,
        )

    def _choose_kernels(self) -> None:
        """Take the kernels that training would."""
        set_float32_precision(self.setting.precision, self.setting.device)
        strict = begins_strict(self.setting.device)
        if strict:
            use_deterministic_attention()
        use_deterministic_algorithms(strict=strict and self.setting.mode == "train")

    def _first_step(self, job: MeasureJob) -> tuple[TimedModel, nn.Module, TimedStep, float]:
        """The model as it was made, as it steps, its step, and how long the first one took."""
        made = step_module.make(job.contender, self.setting)
        self._reset_peak()
        trains = self.setting.mode == "train"
        model = self.group.data_parallel(made.model) if trains else made.model
        step = made.step(model, self.setting.batch_size)
        return made, model, step, self.clock.time(step, 1).wall_s

    def leave_device(self) -> None:
        """Leave the GPU's memory to whoever's turn is next."""
        if not self._leaves:
            return
        for timed in self._timed():
            timed.step.drop_inputs()
        self._offload = Offload(each for timed in self._timed() for each in timed.step.state())
        torch.cuda.empty_cache()

    def _enter_device(self) -> None:
        """Have it again."""
        if self._offload is None:
            return
        self._offload.restore()
        for timed in self._timed():
            timed.step.make_inputs()

    def _timed(self) -> list[_Timed]:
        return [self.throughput, *([self.latency] if self.latency else [])]

    def block(self, number: int) -> Taken:
        """One round: a block of steps, and some single examples."""
        self._enter_device()
        busy, own = machine_state.busy_s(), time.process_time()
        began = time.perf_counter()
        timed = self.throughput
        if timed.steps > 1 or self._leaves:
            timed.step()  # the others have used the caches meanwhile
            self.clock.wait()
        joules = self.meter.read_j() if self.meter else 0.0
        self.group.barrier()
        wall_s, device_s, waited_s = self.clock.time(timed.step, timed.steps)
        energy_j = self.meter.read_j() - joules if self.meter else None
        gpu = self._gpu.state() if self._gpu else GpuState()
        latencies = []
        if self.latency:
            self.latency.step()
            self.clock.wait()
            latencies = [
                self.clock.time(self.latency.step, 1).own_s for _ in range(self.latency.steps)
            ]
        took = time.perf_counter() - began
        own_cores = (time.process_time() - own) / took
        others = None
        if busy is not None and (after := machine_state.busy_s()) is not None:
            others = max(0.0, (after - busy) / took - own_cores)
        self.leave_device()
        return Taken(
            Block(
                round=number,
                steps=timed.steps,
                wall_s=wall_s,
                device_s=device_s,
                waited_s=waited_s,
                others_cores=others,
                energy_j=energy_j,
                clock_mhz=gpu.clock_mhz,
                throttled=list(gpu.throttled),
            ),
            latencies,
            own_cores,
            gpu.processes,
        )

    def _at_pace(self, step: TimedStep, pace: Pace, block_s: float) -> tuple[WarmUp, _Timed]:
        warmed, step_s = warm_up(step, self.clock, pace, self.group.all_agree)
        step_s = self.group.all_max(step_s)
        timed = _Timed(step, steps_a_block(step_s, block_s))
        self._round_s = step_s * (timed.steps + (timed.steps > 1))
        return warmed, timed

    def _latency(self, step: TimedStep, pace: Pace) -> _Timed:
        before = self._round_s
        _, timed = self._at_pace(step, pace, pace.block_s / 2)
        # At least a hundred over all rounds, so that there is a 99th percentile.
        least = -(-120 // pace.rounds)
        single_s = self._round_s / (timed.steps + (timed.steps > 1))
        timed.steps = max(timed.steps, least)
        self._round_s = before + single_s * (timed.steps + 1)
        return timed

    def _reset_peak(self) -> None:
        if self.setting.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        else:
            memory.reset_peak(memory.tree())

    def _peak(self, idle: int) -> Memory:
        if self.setting.device == "cpu":
            return Memory(peak_bytes=memory.peak_bytes(memory.tree()), idle_bytes=idle)
        return Memory(
            peak_bytes=torch.cuda.max_memory_allocated(),
            reserved_bytes=torch.cuda.max_memory_reserved(),
        )


def _process_group(job: MeasureJob) -> SingleProcess:
    setting = job.setting
    if setting.devices == 1:
        return SingleProcess()
    return ProcessGroup(setting.device, job.rank, setting.devices, job.meeting)


def _compile_s(clock: Clock, step: TimedStep) -> float:
    """What the first compiled step takes beyond the second."""
    first, second = clock.time(step, 1), clock.time(step, 1)
    return first.wall_s - second.wall_s


def _count(job: MeasureJob) -> Counts:
    try:
        return model_counts.count(job.contender.model, job.contender.args)
    except NotImplementedError:
        # Some operation of it doesn't know the meta device: count it with its weights.
        variant = look_up(job.contender.model)
        model = variant.function(**job.contender.args)
        inputs = examples.example(variant, 1, **job.contender.args)
        return model_counts.count_model(model, inputs, variant, job.contender.args)


def _units(job: MeasureJob) -> int:
    variant = look_up(job.contender.model)
    if variant.kind == "image":
        return 1
    (tokens,) = _example(job)
    return int(tokens.shape[1])


def _shape(job: MeasureJob) -> str:
    (inputs,) = _example(job)
    sizes = "×".join(map(str, inputs.shape[1:]))
    return f"{sizes} tokens" if inputs.ndim == 2 else sizes


def _example(job: MeasureJob) -> tuple[torch.Tensor, ...]:
    with torch.device("meta"):
        return examples.example(look_up(job.contender.model), 1, **job.contender.args)


def _gpu(job: MeasureJob) -> NvmlGpu | None:
    """The GPU of this process, made its current one, as NVML sees it."""
    devices.show(job.gpus)
    if job.setting.device == "cpu":
        return None
    cuda_device.take(job.rank, job.setting.devices)
    return NvmlGpu.of_uuid(str(torch.cuda.get_device_properties().uuid))


def _meter(device: Literal["cpu", "cuda"], gpu: NvmlGpu | None) -> energy.Meter | None:
    if device == "cpu":
        return energy.cpu_meter()
    return gpu if gpu and gpu.metered() else None


def _failed(error: Exception) -> Failed:
    text = " ".join(str(error).split())
    if memory.is_out_of_memory(error):
        return Failed("out-of-memory", text[:300])
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""  # noqa: PTH119
    return Failed("code", f"{type(error).__name__}: {text}"[:300] + place)


# Once in the fork server instead of in every child: the first count on the meta device imports
# half of torch's compiler, three seconds of it.
model_counts.count("lenet", {})
