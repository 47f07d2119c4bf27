"""The worker process of a case: its data, a step on the meta device, then its training on the CPU.

The fork server imports this module once. What a case does stays in its process and in the
session's folder.
"""

import faulthandler
import os
import shutil
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import safetensors.torch
import torch
from torch import nn

from lightning_bench.bench.rehearse import cpu_pass, few_examples, meta_pass, random_weights
from lightning_bench.bench.rehearse.doing import Doing
from lightning_bench.bench.rehearse.few_examples import FewExamples
from lightning_bench.bench.rehearse.meta_pass import NeedsValues, TrainingStepCost, Weights
from lightning_bench.bench.rehearse.protocol import RehearsalJob, Rehearsed
from lightning_bench.bench.rehearse.random_weights import NoConfiguration
from lightning_bench.bench.run import initial_weights, loading
from lightning_bench.bench.run.initial_weights import WeightsFile, same_outputs
from lightning_bench.bench.spec import WEIGHTS, DataSpec, ModelSpec, RunSpec
from lightning_bench.bench.study.inputs import dataset_of, forget_datasets
from lightning_bench.common import memory
from lightning_bench.common.folders import CACHE_VARIABLE
from lightning_bench.common.processes import die_with_parent, send_output
from lightning_bench.data import catalogue
from lightning_bench.data.modules.contract import DataModule
from lightning_bench.models.registry import registry
from lightning_bench.models.weights.heads import add_pair_head

#: Of `auto`: the FLOPs of a step up to which a case trains on the CPU, where it is the one of its
#: kind that shows the training, and where it is not: some five seconds, and less than one.
_MOST_FLOPS, _LITTLE_FLOPS = 3e10, 5e9
#: Several processes hold about as much again as their step needs.
_SPARE = 2.0
#: What is not at hand is made up, not fetched.
_NO_NETWORK = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


def main(pipe: Connection, job: RehearsalJob) -> None:
    """Rehearse a case, and tell the parent what came out."""
    # The parent alone answers Ctrl-C, and ends us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    job.own_folder.mkdir(parents=True)
    send_output(job.own_folder / "log.txt")
    faulthandler.enable()
    os.environ.update({**job.environment, **_NO_NETWORK})
    os.environ[CACHE_VARIABLE] = str(job.folder / "cache")
    torch.set_num_threads(1)
    memory.limit_to_available(job.memory_share)
    started, used = time.perf_counter(), time.process_time()
    done = Rehearsal(job).outcome()
    seconds, cpu_s = time.perf_counter() - started, time.process_time() - used
    pipe.send(replace(done, seconds=seconds, cpu_s=cpu_s))
    shutil.rmtree(job.own_folder, ignore_errors=True)


@dataclass
class Rehearsal:
    """One case."""

    job: RehearsalJob

    def outcome(self) -> Rehearsed:
        """Whatever happens, as a row of the table."""
        self.doing = Doing()
        self.real: list[str] = []
        self.notes: list[str] = []
        try:
            return self._rehearse()
        except NoConfiguration as error:
            return self._row("not rehearsed", cause=str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is becomes the row's cause
            return self._row("fails", cause=self.doing.cause(error))

    def _row(self, status: str, **fields: object) -> Rehearsed:
        known = {"real": ", ".join(self.real), "notes": ", ".join(self.notes)}
        return Rehearsed(status, **known, **fields)  # type: ignore[arg-type]

    def _rehearse(self) -> Rehearsed:
        job = self.job
        few = self._few_examples()
        self.doing.now = "weights"
        spec = self._short(job.spec, few)
        self.doing.now = "data"
        data = loading.load(spec)
        data.batch_size = _batch_size(data, spec)
        spec = _with_recipe(spec, batch_size=data.batch_size)
        if job.spec.recipe.batch_size != data.batch_size:
            self.notes.append(f"batch {data.batch_size} for {job.spec.recipe.batch_size}")
        step, doubt = self._on_meta(spec, data)
        if step is not None and not self._trains_on_cpu(step):
            return self._row("ok", on="meta", peak_bytes=step.bytes)
        if job.on == "meta" and doubt is not None:
            if isinstance(doubt, NeedsValues):
                cause = f"its model looks at values, which the meta device has not ({doubt})"
                return self._row("not rehearsed", cause=cause)
            raise doubt
        # What only seems to fail without memory doesn't fail here.
        if doubt is not None and not isinstance(doubt, NeedsValues):
            self.notes.append(f"not on the meta device: {self.doing.cause(doubt)}")
        self.doing = Doing()
        memory.reset_peak([os.getpid()])
        cpu_pass.run(spec, job.own_folder, self._find_weights, self.doing, kept=job.kept_weights)
        return self._row("ok", on="cpu", peak_bytes=cpu_pass.peak_bytes(), measured=True)

    def _few_examples(self) -> FewExamples:
        """Prepare the data of this case, and have this process read it."""
        spec = self.job.spec
        if spec.start is not None:
            # Its facts are asked for; relative paths lead elsewhere from here on.
            catalogue.substitute(dataset_of(spec.start.data))
        count = self.job.examples * spec.recipe.accumulate
        few = few_examples.prepare(dataset_of(spec.data), self.job.folder / "data", count)
        few_examples.use(few)
        forget_datasets()
        if str(few):
            self.real.append(str(few))
        return few

    def _short(self, spec: RunSpec, few: FewExamples) -> RunSpec:
        """The run with one epoch, on these few examples, at a rate of its first steps.

        On a few steps a peak learning rate that is meant to come after a warm-up may diverge.
        """
        recipe = spec.recipe
        steps = max(1.0, sum(dataset_of(spec.data).splits.values()) / recipe.batch_size)
        _, all_steps = recipe.length(int(steps))
        rate = recipe.lr / max(1.0, recipe.warmup * all_steps)
        changes: dict[str, Any] = {"epochs": min(recipe.epochs, 1), "steps": None, "lr": rate}
        if recipe.precision in {"tf32", "fp16"}:
            changes["precision"] = "fp32" if recipe.precision == "tf32" else "bf16"
            self.notes.append(f"{changes['precision']} for {recipe.precision}")
        arguments, invented = random_weights.arguments(spec, self.job.weights_folder)
        if spec.weights:
            if random_weights.is_at_hand(spec.weights):
                self.real.append("weights")
            else:
                invented.append(spec.weights)
        elif WEIGHTS & arguments.keys() and not invented:
            self.real.append("weights")
        self.notes += [f"weights of {name} made up" for name in invented]
        data = DataSpec(name=spec.data.name, sample=few.sampled, shots=few.entry.shots)
        model = ModelSpec(name=spec.model.name, args=arguments)
        short = spec.model_copy(update={"data": data, "model": model})
        return _with_recipe(short, **changes)

    def _on_meta(
        self, spec: RunSpec, data: DataModule
    ) -> tuple[TrainingStepCost | None, Exception | None]:
        """What a step takes there, or why that can't be told."""
        if WEIGHTS & spec.model.args.keys():
            return None, NeedsValues("its weights are read from a folder")
        batches = {}
        if spec.recipe.epochs:
            batches = {
                "train": _first(data.train_dataloader()),
                "val": _first(data.val_dataloader()),
            }
        if spec.tested:
            loaders = zip(data.entry.tests, data.test_dataloader(), strict=True)
            batches |= {name: _first(loader) for name, loader in loaders}
        try:
            step = meta_pass.run(spec, data.entry, batches, self._meta_weights, self.doing)
        except NoConfiguration:
            raise
        except Exception as error:  # noqa: BLE001 - the CPU has the last word
            return None, error
        return step, None

    def _trains_on_cpu(self, step: TrainingStepCost) -> bool:
        """Whether there is memory for it, and where nobody insists, time."""
        available = memory.available_bytes()
        room = available is None or _SPARE * step.bytes < self.job.memory_share * available
        if self.job.on == "meta":
            return False
        if self.job.on == "cpu" or step.flops <= _LITTLE_FLOPS:
            return room
        return room and self.job.shows_training and step.flops <= _MOST_FLOPS

    def _meta_weights(self, device: str) -> Weights | None:
        """The initial weights as shapes, with a name, and whether the head is taken, too."""
        spec = self.job.spec
        if spec.weights:
            return random_weights.state(spec.weights, device), spec.weights, True
        if spec.start is None:
            return None
        with torch.device(device):
            state = dict(_model_of(spec.start).state_dict())
        return state, "its stage", same_outputs(spec.start, spec)

    def _find_weights(self, spec: RunSpec) -> WeightsFile | None:
        """A file of the initial weights: published, of the stage's rehearsal, or random."""
        if spec.weights:
            if random_weights.is_at_hand(spec.weights):
                return WeightsFile(initial_weights.published(spec.weights), name=spec.weights)
            made = random_weights.save_random(spec.weights, self.job.weights_folder)
            return WeightsFile(made, name=spec.weights)
        if spec.start is None:
            return None
        path = self.job.start_weights
        if path is None or not path.is_file():
            path = self.job.own_folder / "start.safetensors"
            state = _model_of(spec.start).state_dict()
            safetensors.torch.save_file({k: v.contiguous().clone() for k, v in state.items()}, path)
        return WeightsFile(path, key="of the rehearsal")


def _with_recipe(spec: RunSpec, **changes: Any) -> RunSpec:
    return spec.model_copy(update={"recipe": spec.recipe.model_copy(update=changes)})


def _batch_size(data: DataModule, spec: RunSpec) -> int:
    """Half of the examples, so that an epoch has two steps; no more than the recipe's."""
    most = spec.recipe.batch_size
    return min(most, max(1, data.sizes["train"] // 2)) if spec.recipe.epochs else min(most, 2)


def _first(loader: Iterable[Any]) -> Any:
    return next(iter(loader))


def _model_of(spec: RunSpec) -> nn.Module:
    """The model of a stage, as its run makes it."""
    entry = dataset_of(spec.data)
    model = registry.create(spec.model.name, **{**entry.facts(), **spec.model.args})
    if entry.task == "pretrain":
        add_pair_head(model)
    return model


# Read once in the fork server, shared by every case: our own modules, and nobody else's.
registry.variants()
