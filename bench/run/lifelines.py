"""Lifelines: a TCP connection from each other rank to the first, which so hears of its failure.

NCCL notices neither a rank that failed nor one that was killed: who waits for it in a collective
waits for ten minutes. A connection closes with its process, on whatever host that is.
"""

import json
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from multiprocessing import connection
from threading import Thread
from typing import Any

from lightning_bench.bench.store.provenance import host
from lightning_bench.bench.store.record import Failure

#: How long a rank may take to say what happened to it, or to notice what happened to another.
FAILURE_TIMEOUT_S = 5.0


class Lifeline:
    """The connection of a rank to the first one, open for as long as its process lives."""

    def __init__(self, rank: int, address: str, port: str) -> None:
        """Connect; without a connection the run goes on, and a failure may be noticed late."""
        self._socket: socket.socket | None = None
        with suppress(OSError):
            self._socket = socket.create_connection((address, int(port)), FAILURE_TIMEOUT_S)
        self._send({"rank": rank, "host": host()})

    def report(self, failure: Failure) -> None:
        """Tell the first rank why this one fails."""
        self._send({"failure": failure.model_dump()})

    def part(self) -> None:
        """Tell the first rank that this one ends as it should."""
        self._send({"parted": True})

    def _send(self, message: dict[str, Any]) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.sendall(json.dumps(message).encode() + b"\n")


class Lifelines:
    """The first rank's ends of all lifelines.

    A thread watches them, since the main one may hang in a collective that nothing interrupts.
    """

    def __init__(self, address: str) -> None:
        """Listen; `address` is the one by which other ranks know this host."""
        if address.startswith("127."):
            self._server = socket.create_server((address, 0))
        elif socket.has_dualstack_ipv6():
            self._server = socket.create_server(
                ("", 0), family=socket.AF_INET6, dualstack_ipv6=True
            )
        else:
            self._server = socket.create_server(("", 0))
        self.port: int = self._server.getsockname()[1]
        self.failure: Failure | None = None  # the first that a rank reported
        self.lost = ""  # the first rank that ended without a word
        self.finished = False  # to be set when all ranks have done their part
        self._received: dict[socket.socket, bytes] = {}

    def watch(self, on_loss: Callable[[], None], sentinels: Sequence[int] = ()) -> None:
        """Call `on_loss` where a rank is lost, and the main thread has not noticed a while later.

        `sentinels` are those of the ranks' processes, as far as they are this one's.
        """

        def wait() -> None:
            while not self._loss(connection.wait([self._server, *self._received, *sentinels])):
                pass
            time.sleep(2 * FAILURE_TIMEOUT_S)
            if not self.finished:
                on_loss()

        Thread(target=wait, daemon=True, name="lifelines").start()

    def _loss(self, ready: Iterable[object]) -> bool:
        """Whether one of the events is a rank's failure or end."""
        loss = False
        for each in ready:
            if each is self._server:
                line, _ = self._server.accept()
                self._received[line] = b""
            elif isinstance(each, socket.socket):
                loss = self._read(each) or loss
            else:  # a sentinel
                loss = True
        return loss

    def _read(self, line: socket.socket) -> bool:
        """Read what a rank says; whether it has failed, or ended without parting."""
        try:
            said = line.recv(1 << 16)
        except OSError:
            said = b""
        self._received[line] += said
        received = self._received[line]
        if not said:
            del self._received[line]
            line.close()
        if not received.startswith(b'{"rank": '):
            return False  # none of ours
        messages = [json.loads(each) for each in received.splitlines(True) if each.endswith(b"\n")]
        if "failure" in messages[-1]:
            self.failure = self.failure or Failure.model_validate(messages[-1]["failure"])
            return True
        if said or "parted" in messages[-1]:
            return False
        self.lost = self.lost or "rank {rank} on {host}".format(**messages[0])
        return True
