"""Atomic writes and file locks: a file is whole or absent, and a lock dies with its holder."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


def write_atomically(path: Path, content: bytes | str, *, durable: bool = True) -> None:
    """Write a temporary file beside and rename it; durable is flushed to the disk before."""
    with temporary_beside(path.parent, prefix=f".{path.name}.") as (beside, stream):
        stream.write(content.encode() if isinstance(content, str) else content)
        rename(beside, stream, path, durable=durable)


@contextmanager
def temporary_beside(folder: Path, prefix: str = ".") -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file in a folder, hidden by its leading dot; removed unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=prefix, dir=folder)
    beside = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield beside, stream
    finally:
        beside.unlink(missing_ok=True)


def rename(beside: Path, stream: BinaryIO, path: Path, *, durable: bool = True) -> None:
    """Give a temporary file, which others may read from then on, its final name."""
    stream.flush()
    if durable:
        os.fsync(stream.fileno())
    beside.chmod(0o644)
    beside.replace(path)
    if durable:
        flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk: without it a power cut may take a new name back."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems don't know it of folders
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, after waiting for whoever holds it."""
    descriptor = open_for_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def lock_at_once(path: Path) -> int | None:
    """Take an exclusive lock until the returned descriptor is closed; None where it is held."""
    descriptor = open_for_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock, which it does until it dies."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def open_for_lock(path: Path) -> int:
    """The descriptor of a lock file, which is made where it is missing."""
    return os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
