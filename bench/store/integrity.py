"""Integrity of the files beside a record: its predictions and weights, by the digests in it."""

import hashlib
import os
import stat
from functools import cache
from typing import Literal

from lightning_bench.common.files import open_regular

Problem = Literal["", "gone", "damaged"]


def problem(path: str, sha256: str, recorded_ns: int = 0) -> Problem:
    """What is wrong with a file: whether it is gone, or has not the digest of its record.

    It is read where its inode has changed (by writing, renaming or copying) since the record was
    written, at this time; and in any case where none is given.
    """
    try:
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            return "damaged"
        if status.st_ctime_ns < recorded_ns:
            return ""
        identity = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return "" if _digest(path, identity) == sha256 else "damaged"
    except FileNotFoundError:
        return "gone"
    except OSError:
        return "damaged"


@cache
def _digest(path: str, identity: tuple[int, ...]) -> str:
    """The SHA-256 of a file in this state."""
    del identity
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
