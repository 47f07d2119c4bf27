"""Checkpoint: where training stands, so exactly that going on from there changes no bit.

Files lie in `checkpoints/` of an attempt, named `<epoch>-<step>-<digest>.pt`: the name tells
whether the content is whole, so that one renaming puts both in place. Contents are tensors and
plain types, read with `weights_only`.
"""

import hashlib
import os
import random
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pytorch_lightning as pl
import torch
import torch.distributed as dist

from models.tasks.task import Task

State = dict[str, Any]

_KEPT = 2
_NAME = re.compile(r"\d{6}-\d{9}-([0-9a-f]{16})\.pt")


@dataclass
class Checkpoints:
    """The checkpoints of one attempt, and those of earlier ones that it may go on from.

    `made_with` is what has to be equal for that: sources, packages, device.
    """

    folder: Path
    made_with: Mapping[str, str]
    earlier: Sequence[tuple[int, Path]] = ()  # attempts and their folders, the newest first
    last_cost_s: float = field(default=0.0, init=False)

    def save(self, state: State) -> None:
        """Write one beside and rename it; keep the last two.

        A full disk costs the checkpoint, not the run.
        """
        started = time.perf_counter()
        try:
            self._write({**state, "made_with": dict(self.made_with)})
        except OSError as error:
            print(f"no checkpoint could be written: {error}", flush=True)  # noqa: T201 - the log
        self.last_cost_s = time.perf_counter() - started

    def newest(self) -> tuple[int, State] | None:
        """The newest that can be read of the earlier attempts, with the attempt's number.

        Why one is passed over is printed to the attempt's log.
        """
        for attempt, folder in self.earlier:
            for path in _newest_first(folder):
                state = read(path)
                if state is None:
                    _say(f"attempt {attempt}: {path.name} is damaged")
                    continue
                other = differing(state["made_with"], self.made_with)
                if other:
                    _say(f"attempt {attempt} was made with other {other}; this one starts afresh")
                    return None
                _say(f"goes on from {path.name} of attempt {attempt}")
                return attempt, state
        return None

    def delete(self) -> None:
        """Delete all of them, of earlier attempts too: the run is over."""
        for folder in (self.folder, *(folder for _, folder in self.earlier)):
            for path in _newest_first(folder):
                path.unlink(missing_ok=True)
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def _write(self, state: State) -> None:
        self.folder.mkdir(exist_ok=True)
        descriptor, beside = tempfile.mkstemp(prefix=".", dir=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as stream:
                hashing = _Hashing(stream)
                torch.save(state, hashing)  # type: ignore[arg-type]
                stream.flush()
                os.fsync(descriptor)
            name = f"{state['epoch']:06}-{state['step']:09}-{hashing.digest.hexdigest()[:16]}.pt"
            Path(beside).replace(self.folder / name)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
        for path in _newest_first(self.folder)[_KEPT:]:
            path.unlink()


def read(path: Path) -> State | None:
    """A checkpoint's content on the CPU, or None where it is cut short or altered."""
    found = _NAME.fullmatch(path.name)
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if found is None or digest[:16] != found[1]:
            return None
        state: State = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        return None
    return state


def differing(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """The names of what differs, in words; empty where nothing does."""
    names = sorted(theirs.keys() | ours.keys())
    return ", ".join(name for name in names if theirs.get(name) != ours.get(name))


def capture(trainer: pl.Trainer, task: Task, epoch: int) -> State | None:
    """Where training stands, on rank 0; all ranks must call it.

    `epoch` is the one that goes on next, from the task's own `batch`.
    """
    strategy = trainer.strategy
    mine = {"random": random_states(), "loss_sum": task.progress.loss_sum.cpu()}
    # All ranks take part, since a sharded model or optimiser is gathered from them.
    weights = strategy.lightning_module_state_dict()
    optimizer = strategy.optimizer_state(strategy.optimizers[0])
    ranks = [mine]
    if trainer.world_size > 1:
        ranks = [{} for _ in range(trainer.world_size)]
        dist.all_gather_object(ranks, mine)
    if not trainer.is_global_zero:
        return None
    return {
        "epoch": epoch,
        "step": task.progress.step,
        "batch": task.progress.batch,
        "weights": weights,
        "optimizer": optimizer,
        "precision": trainer.precision_plugin.state_dict(),
        "ranks": ranks,
    }


def restore(trainer: pl.Trainer, task: Task, state: State) -> None:
    """Put training where it stood; to be called when Lightning has set all up."""
    strategy = trainer.strategy
    strategy.load_model_state_dict({"state_dict": state["weights"]})
    strategy.load_optimizer_state_dict({"optimizer_states": [state["optimizer"]]})
    trainer.precision_plugin.load_state_dict(state["precision"])
    progress: Any = trainer.fit_loop.epoch_progress.current
    progress.ready = progress.started = progress.processed = progress.completed = state["epoch"]
    task.progress.step, task.progress.batch = state["step"], state["batch"]
    mine = state["ranks"][trainer.global_rank]
    task.progress.loss_sum = mine["loss_sum"].to(task.device)
    set_random_states(mine["random"])


def random_states() -> State:
    """The state of every global generator of this process, as tensors and plain types."""
    version, numbers, gauss = random.getstate()
    name, keys, place, has_gauss, cached = cast("Any", np.random.get_state(legacy=True))
    return {
        "python": [version, list(numbers), gauss],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), place, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
    }


def set_random_states(states: State) -> None:
    """Set every generator to where it was."""
    version, numbers, gauss = states["python"]
    random.setstate((version, tuple(numbers), gauss))
    name, keys, place, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), place, has_gauss, cached))
    torch.set_rng_state(states["torch"])
    if states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"])


class _Hashing:
    """A file that is hashed while it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.digest = stream, hashlib.sha256()

    def write(self, content: bytes) -> int:
        self.digest.update(content)
        return self.stream.write(content)

    def flush(self) -> None:
        self.stream.flush()


def _newest_first(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def _say(text: str) -> None:
    print(f"resume: {text}", flush=True)  # noqa: T201 - to the attempt's log
