"""The rehearsal of a case on the CPU: two steps, a validation, a test, a checkpoint and its resume.

It is the training of a run, called as its worker calls it, on a few examples.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from lightning_bench.bench.rehearse.doing import Doing
from lightning_bench.bench.run.checkpoint import Checkpoints, State
from lightning_bench.bench.run.control import Control
from lightning_bench.bench.run.initial_weights import WeightsFile
from lightning_bench.bench.run.training import Outcome, train
from lightning_bench.bench.spec import RunSpec
from lightning_bench.common import memory


class NotResumed(Exception):
    """A checkpoint was written, and the training can't go on from it, or not as it was."""


@dataclass
class FirstCheckpoint(Checkpoints):
    """Keeps the checkpoint after the first step alone, where it stays when the run is over."""

    saved: bool = field(default=False, init=False)

    def save(self, state: State, part: State | None = None) -> None:
        """Write the first one."""
        if not self.saved:
            super().save(state, part)
            self.saved = any(self.folder.glob("*.pt"))


def run(
    spec: RunSpec,
    folder: Path,
    find_weights: Callable[[RunSpec], WeightsFile | None],
    doing: Doing,
    *,
    kept: Path | None = None,
) -> None:
    """Train as a run does, then once more from the checkpoint after the first step.

    Both end with the same weights. These are written to `kept`, for those that start from them.
    """
    doing.now = "training and test" if spec.recipe.epochs else "test"
    first = FirstCheckpoint(folder / "first", {})
    outcome = _train(spec, first, find_weights)
    if kept is not None and outcome.weights is not None:
        safetensors.torch.save_file(_contiguous(outcome.weights), kept)
    if not spec.recipe.epochs:
        return
    doing.now = "checkpoint"
    if not first.saved:
        raise NotResumed("no checkpoint could be written")
    doing.now = "resume"
    second = Checkpoints(folder / "second", {}, earlier=[(1, folder / "first")])
    untested = spec.model_copy(update={"tested": False})
    resumed = _train(untested, _Unsaved.of(second), find_weights)
    if resumed.resumed_from != [1]:
        raise NotResumed(second.afresh or "its checkpoint can't be read")
    _compare(outcome.weights or {}, resumed.weights or {})
    shutil.rmtree(folder / "first", ignore_errors=True)


class _Unsaved(Checkpoints):
    """Reads those of earlier attempts, and writes none."""

    @classmethod
    def of(cls, other: Checkpoints) -> "_Unsaved":
        return cls(other.folder, other.made_with, other.earlier)

    def save(self, state: State, part: State | None = None) -> None:
        """Nothing."""


def peak_bytes() -> int:
    """The most memory that this process took since `reset_peak`."""
    import os

    return memory.peak_bytes([os.getpid()])


def _train(
    spec: RunSpec,
    checkpoints: Checkpoints,
    find_weights: Callable[[RunSpec], WeightsFile | None],
) -> Outcome:
    control = Control(checkpoints=checkpoints, checkpoint_s=0.0, most_steps=1)
    return train(
        spec,
        device="cpu",
        on_epoch=lambda epoch: None,
        control=control,
        find_weights=find_weights,
        keep_weights=True,
    )


def _compare(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    for name, value in one.items():
        if name not in other:
            raise NotResumed(f"after resuming there is no {name}")
        if not torch.equal(value, other[name]):
            apart = (value.double() - other[name].double()).abs().max().item()
            raise NotResumed(
                f"after resuming from the checkpoint {name} ends otherwise (by {apart:.2g}): "
                "something that training changes is not in the state_dict"
            )


def _contiguous(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.contiguous().clone() for name, value in state.items()}
