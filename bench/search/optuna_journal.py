"""Optuna's journal storage in a file, under a lock that dies with its holder.

The lock of Optuna's own `JournalFileBackend` is a file that outlives a killed holder and stalls
everybody for 30 s; and it waits for the disk at every operation. Here nothing does: after a power
cut the store, which waits, fills a journal again.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from optuna.storages.journal import BaseJournalBackend

from lightning_bench.common.files import locked


class Journal(BaseJournalBackend):
    """One JSON object a line, as `JournalFileBackend` and `optuna-dashboard` read it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.touch()
        self._read = 0, 0  # whole lines, and their bytes

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """The operations from this number on; a line without an end is not there yet."""
        number, end = self._read if self._read[0] <= log_number_from else (0, 0)
        with self.path.open("rb") as stream:
            stream.seek(end)
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                number, end = number + 1, end + len(line)
                self._read = number, end
                if number > log_number_from:
                    yield json.loads(line)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Add operations, after cutting off a line that somebody died in."""
        lines = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with locked(Path(f"{self.path}.flock")), self.path.open("rb+") as stream:
            stream.truncate(_whole_lines(stream))
            stream.seek(0, os.SEEK_END)
            stream.write(lines.encode())


def _whole_lines(stream: BinaryIO) -> int:
    """The length of the file up to the end of its last whole line."""
    end = stream.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 4096)
        stream.seek(start)
        newline = stream.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0
