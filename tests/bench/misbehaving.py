"""Models that go wrong, each in its own way, named as `tests.bench.misbehaving:raises`."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn


class _Broken(nn.Module):
    def __init__(self, pixels: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(pixels, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits = self.head(images.flatten(1))
        # On the meta device the catalogue only counts.
        return logits if logits.is_meta else self.go_wrong(logits)

    def go_wrong(self, logits: Tensor) -> Tensor:
        raise NotImplementedError


class _Raises(_Broken):
    def go_wrong(self, logits: Tensor) -> Tensor:
        raise RuntimeError("line one\n  line two")


class _Killed(_Broken):
    def go_wrong(self, logits: Tensor) -> Tensor:
        os.kill(os.getpid(), signal.SIGKILL)
        return logits


class _Exits(_Broken):
    def go_wrong(self, logits: Tensor) -> Tensor:
        os._exit(0)


class _OutOfMemory(_Broken):
    def go_wrong(self, logits: Tensor) -> Tensor:
        return logits + torch.empty(10**15)


class _NotANumber(_Broken):
    def go_wrong(self, logits: Tensor) -> Tensor:
        return logits * float("nan")


class _Slow(_Broken):
    def go_wrong(self, logits: Tensor) -> Tensor:
        time.sleep(0.05)
        return logits


class _SlowToScore(_Broken):
    """Says in the log when it is scored, and takes its time."""

    def go_wrong(self, logits: Tensor) -> Tensor:
        if not self.training:
            print("scoring", flush=True)  # noqa: T201 - the log
            time.sleep(0.2)
        return logits


def raises(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Raise in the first step."""
    return _Raises(channels * image_size**2, classes)


def killed(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Die without a word in the first step."""
    return _Killed(channels * image_size**2, classes)


def exits(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """End the process as if all were well."""
    return _Exits(channels * image_size**2, classes)


def out_of_memory(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Ask for a petabyte."""
    return _OutOfMemory(channels * image_size**2, classes)


def not_a_number(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Diverge."""
    return _NotANumber(channels * image_size**2, classes)


def slow(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Take a second an epoch, so that it can be interrupted."""
    return _Slow(channels * image_size**2, classes)


def slow_to_score(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Take seconds for a validation or a test."""
    return _SlowToScore(channels * image_size**2, classes)


class _Second(_Broken):
    """Goes wrong in the second step of the second rank, and nowhere else."""

    def __init__(self, how: Callable[[], None], pixels: int, classes: int) -> None:
        super().__init__(pixels, classes)
        self.how, self.steps = how, 0

    def go_wrong(self, logits: Tensor) -> Tensor:
        self.steps += 1
        if self.steps == 2 and torch.distributed.get_rank() == 1:
            self.how()
        return logits


def _raise() -> None:
    raise RuntimeError("only here")


def second_raises(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Raise on the second rank."""
    return _Second(_raise, channels * image_size**2, classes)


def second_killed(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Die without a word on the second rank."""
    return _Second(lambda: os.kill(os.getpid(), signal.SIGKILL), channels * image_size**2, classes)


def second_exits(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """End the second rank as if all were well."""
    return _Second(lambda: os._exit(0), channels * image_size**2, classes)


def _run_out() -> None:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


def second_out_of_memory(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Run out of memory on the second rank."""
    return _Second(_run_out, channels * image_size**2, classes)


class _FirstWaits(_Second):
    """The second rank ends, and the first waits for it, as in a collective of NCCL."""

    def go_wrong(self, logits: Tensor) -> Tensor:
        if self.steps == 1 and torch.distributed.get_rank() == 0:
            time.sleep(600)
        return super().go_wrong(logits)


def second_killed_first_waits(
    *, channels: int = 1, image_size: int = 8, classes: int = 10
) -> nn.Module:
    """Die without a word on the second rank, and notice nothing on the first."""
    how = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    return _FirstWaits(how, channels * image_size**2, classes)


def second_raises_first_waits(
    *, channels: int = 1, image_size: int = 8, classes: int = 10
) -> nn.Module:
    """Raise on the second rank, and notice nothing on the first."""
    return _FirstWaits(_raise, channels * image_size**2, classes)


class _Hopeless(nn.Module):
    """Tells so many classes; where that is one, it takes its time.

    It writes down its steps, and whether the ranks have parted when its process ends.
    """

    def __init__(self, told: int, pixels: int, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(pixels, classes)
        self.told, self.steps = told, 0
        Finalize(None, _part, exitpriority=0)

    def forward(self, images: Tensor) -> Tensor:
        logits = self.head(images.flatten(1))
        if logits.is_meta:
            return logits
        if self.training:
            self.steps += 1
            _write(f"step {self.steps}")
            if self.told == 1:
                time.sleep(0.1)
        hidden = torch.arange(logits.shape[1]) >= self.told
        return logits.masked_fill(hidden, -30.0)


def _part() -> None:
    _write("together" if torch.distributed.is_initialized() else "parted")


def _write(line: str) -> None:
    """Into the rank's log."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def hopeless(
    *, told: int = 5, channels: int = 1, image_size: int = 8, classes: int = 10
) -> nn.Module:
    """Tell no more than so many classes, and with one take seconds an epoch on any machine."""
    return _Hopeless(told, channels * image_size**2, classes)


def forgetful(*, channels: int = 1, image_size: int = 8, classes: int = 10) -> nn.Module:
    """Drop out half of what it sees, which is not misbehaving."""
    pixels = channels * image_size**2
    hidden = nn.Sequential(nn.Flatten(), nn.Linear(pixels, 64), nn.ReLU(), nn.Dropout(0.5))
    return nn.Sequential(hidden, nn.Linear(64, classes))


class _Attention(torch.autograd.Function):
    """Chooses its backward pass as torch's fused attention does on a GPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        if torch.is_deterministic_algorithms_warn_only_enabled():
            warnings.warn(
                "Flash Attention defaults to a non-deterministic algorithm. ", stacklevel=2
            )
        return gradient


class _Attends(_Broken):
    """Attends, and may put values where they belong, which has no deterministic form."""

    def __init__(self, puts: bool, pixels: int, classes: int) -> None:
        super().__init__(pixels, classes)
        self.puts = puts

    def go_wrong(self, logits: Tensor) -> Tensor:
        if self.puts or not self.training:
            torch.zeros(1).put_(torch.zeros(1, dtype=torch.long), torch.ones(1))
        return _Attention.apply(logits)


def attends(
    *, puts: bool = False, channels: int = 1, image_size: int = 8, classes: int = 10
) -> nn.Module:
    """Attend, and in evaluation always do what has no deterministic form."""
    return _Attends(puts, channels * image_size**2, classes)


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class _NoException(BaseException):
    pass


def _hold_the_gil() -> None:
    ctypes.PyDLL(None).sleep(600)  # a PyDLL's functions keep the lock


def _leave_a_thread() -> None:
    threading.Thread(target=time.sleep, args=(600,)).start()


def _leave_a_child() -> None:
    subprocess.Popen(["sleep", "611"], start_new_session=True)


def _throw(error: BaseException) -> None:
    raise error


def _flood() -> None:
    """Print 300 MB, as a loop that forgot its `break` does."""
    for _ in range(300):
        print("x" * 10**6)  # noqa: T201 - the log
        time.sleep(0.01)
    print("the flood is over")  # noqa: T201


#: What a model may do, once, in its third training step.
WAYS: dict[str, Callable[[], object]] = {
    "exit 75": lambda: os._exit(75),
    "exit 76": lambda: os._exit(76),
    "sys.exit": lambda: sys.exit(0),
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "base exception": lambda: _throw(_NoException("not even an Exception")),
    "interrupt": lambda: _throw(KeyboardInterrupt()),
    "unprintable": lambda: _throw(_Unprintable()),
    "surrogate": lambda: _throw(ValueError("\udcff is no text")),
    "long": lambda: _throw(ValueError("x" * 10**8)),
    "no file": lambda: Path("/nowhere/weights.bin").read_bytes(),
    "words": lambda: _throw(ValueError("gloo: connection reset; out of memory of last year")),
    "curve": lambda: _spoil("curve.jsonl"),
    "record": lambda: _spoil("record.json"),
    "thread": _leave_a_thread,
    "child": _leave_a_child,
    "GIL": _hold_the_gil,
    "SIGSTOP": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "sleep": lambda: time.sleep(600),
    "flood": _flood,
}


def _spoil(name: str) -> None:
    """Damage a file of the run's own folder, where its log is."""
    path = Path("/proc/self/fd/1").readlink().with_name(name)
    if name == "record.json":
        path.mkdir()
        raise ValueError("in place of the record")
    path.write_bytes(b"{not json\n\xff\x00\n")


class _Third(_Broken):
    def __init__(self, way: str, pixels: int, classes: int) -> None:
        super().__init__(pixels, classes)
        self.way, self.steps = way, 0

    def go_wrong(self, logits: Tensor) -> Tensor:
        self.steps += self.training
        if self.steps == 3 and self.training:
            WAYS[self.way]()
        return logits


def goes_wrong(
    *, way: str = "none", channels: int = 1, image_size: int = 8, classes: int = 10
) -> nn.Module:
    """Go wrong in the third training step, in one of the WAYS."""
    return _Third(way, channels * image_size**2, classes)


class _SecondGoesWrong(_Third):
    def go_wrong(self, logits: Tensor) -> Tensor:
        if torch.distributed.get_rank() == 1:
            return super().go_wrong(logits)
        return logits


def second_goes_wrong(
    *, way: str = "none", channels: int = 1, image_size: int = 8, classes: int = 10
) -> nn.Module:
    """Go wrong in the third training step of the second rank."""
    return _SecondGoesWrong(way, channels * image_size**2, classes)
