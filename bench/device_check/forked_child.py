"""A child started as runs are, from the fork server: this process never touches a device itself."""

from collections.abc import Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from lightning_bench.bench.execute.job import WORKER
from lightning_bench.bench.measure.protocol import WORKER as MEASURING_WORKER
from lightning_bench.common.machine import worker_context
from lightning_bench.common.messages import first_line
from lightning_bench.common.processes import how_it_ended, preload

#: The module of the functions that a child may be asked for, by name alone: it imports torch.
ON_DEVICE = "lightning_bench.bench.device_check.on_device"


class ChildFailed(Exception):
    """The child raised, died, or did not answer in time; the message says which."""


def call(function: str, *arguments: Any, timeout_s: float = 60.0) -> Any:
    """What a function of ON_DEVICE returns in a child of its own."""
    context = worker_context()
    # Whoever comes first starts the fork server, with all that any step wants of it.
    preload(context, [WORKER, MEASURING_WORKER, ON_DEVICE])
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, function, arguments), daemon=True)
    try:
        process.start()
    except (EOFError, OSError):  # the fork server has ended
        raise ChildFailed(f"{function}: no process could be started") from None
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            raise ChildFailed(f"{function} did not answer within {timeout_s:.0f} s")
        error, value = ours.recv()
    except EOFError:
        process.join()
        how = how_it_ended(process.exitcode or 0)
        raise ChildFailed(f"{function}: its process {how}") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if error:
        raise ChildFailed(f"{function}: {error}")
    return value


def _answer(pipe: Connection, function: str, arguments: Sequence[Any]) -> None:
    """In the child: call the function, and send what it returns or raises."""
    try:
        value = getattr(import_module(ON_DEVICE), function)(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever it is, the step tells it
        pipe.send((f"{type(error).__name__}: {first_line(error)}", None))
    else:
        pipe.send(("", value))
