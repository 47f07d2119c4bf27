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

from lightning_bench.bench.measure import energy, machine_state, model_counts
from lightning_bench.bench.measure import step as step_module
from lightning_bench.bench.measure.clock import Clock, Step, clock_of
from lightning_bench.bench.measure.process_group import ProcessGroup, SingleProcess
from lightning_bench.bench.measure.protocol import Failed, MeasureJob, Ready, Taken
from lightning_bench.bench.measure.warm_up import Pace, steps_a_block, warm_up
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
        if job.setting.device == "cpu":
            memory.limit_to_available()
        worker = Worker(job)
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

    step: Step
    steps: int


class Worker:
    """A contender at its pace."""

    def __init__(self, job: MeasureJob) -> None:
        self.setting, pace = job.setting, job.pace
        torch.set_num_threads(self.setting.threads)
        torch.manual_seed(0)
        self.clock: Clock = clock_of(self.setting.device)
        self.group = _process_group(job)
        counts = _count(job) if job.counted and job.rank == 0 else None
        idle = memory.resident_bytes(memory.tree())
        made = step_module.make(job.contender, self.setting)
        self._reset_peak()
        compile_s = None
        model = self.group.data_parallel(made.model) if self.setting.mode == "train" else made.model
        step = made.step(model, self.setting.batch_size)
        first_batch_s = self.clock.time(step, 1).wall_s
        if self.setting.compile:
            model = torch.compile(model)  # type: ignore[assignment]
            step = made.step(model, self.setting.batch_size)
            compile_s = _compile_s(self.clock, step)
        warmed, self.throughput = self._at_pace(step, pace, pace.block_s)
        measured = self._peak(idle)
        # Single examples, whose times are the latency, share the round.
        self.latency: _Timed | None = None
        if self.setting.mode == "infer" and job.latency and self.setting.devices == 1:
            self.latency = self._latency(made.step(model, 1), pace)
        self.meter = _meter(self.setting.device)
        self.ready = Ready(
            counts=counts,
            unit="images" if made.variant.kind == "image" else "tokens",
            per_example=_units(job),
            shape=_shape(job),
            first_batch_s=first_batch_s,
            compile_s=compile_s,
            warm_up=warmed,
            memory=measured,
            energy_source=self.meter.source if self.meter else None,
            round_s=self._round_s,
            gpus=[torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        )

    def block(self, number: int) -> Taken:
        """One round: a block of steps, and some single examples."""
        busy, own = machine_state.busy_s(), time.process_time()
        began = time.perf_counter()
        timed = self.throughput
        if timed.steps > 1:
            timed.step()  # the others have used the caches meanwhile
            self.clock.wait()
        joules = self.meter.read_j() if self.meter else 0.0
        self.group.barrier()
        wall_s, device_s, waited_s = self.clock.time(timed.step, timed.steps)
        energy_j = self.meter.read_j() - joules if self.meter else None
        latencies = []
        if self.latency:
            self.latency.step()
            self.clock.wait()
            latencies = [
                self.clock.time(self.latency.step, 1).own_s for _ in range(self.latency.steps)
            ]
        took = time.perf_counter() - began
        others = None
        if busy is not None and (after := machine_state.busy_s()) is not None:
            others = max(0.0, after - busy - (time.process_time() - own)) / took
        return Taken(
            Block(
                round=number,
                steps=timed.steps,
                wall_s=wall_s,
                device_s=device_s,
                waited_s=waited_s,
                others_cores=others,
                energy_j=energy_j,
            ),
            latencies,
        )

    def _at_pace(self, step: Step, pace: Pace, block_s: float) -> tuple[WarmUp, _Timed]:
        warmed, step_s = warm_up(step, self.clock, pace, self.group.all_agree)
        step_s = self.group.all_max(step_s)
        timed = _Timed(step, steps_a_block(step_s, block_s))
        self._round_s = step_s * (timed.steps + (timed.steps > 1))
        return warmed, timed

    def _latency(self, step: Step, pace: Pace) -> _Timed:
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


def _compile_s(clock: Clock, step: Step) -> float:
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


def _meter(device: Literal["cpu", "cuda"]) -> energy.Meter | None:
    if device == "cpu":
        return energy.cpu_meter()
    return energy.gpu_meter(f"GPU-{torch.cuda.get_device_properties(0).uuid}")


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
