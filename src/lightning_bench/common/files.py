"""Reading of regular files only, atomic writes, and file locks, which die with their holder."""

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

#: The most bytes of a file of JSON, which is read into memory as a whole.
MOST_BYTES = 256 * 2**20
#: Neither waits for whoever writes to a pipe, nor follows a link.
_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def open_regular(path: Path | str) -> BufferedReader:
    """Open a regular file for reading; an OSError for a link, a pipe, a device or a folder.

    In a store that others have sent there may be any of them: a pipe would be waited for without
    end, and a link leads out of it.
    """
    return os.fdopen(_open_regular(path)[0], "rb")


def read_regular(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """The content of a regular file of at most so many bytes; an OSError otherwise."""
    return read_with_status(path, most_bytes)[0]


def read_with_status(
    path: Path | str, most_bytes: int = MOST_BYTES
) -> tuple[bytes, os.stat_result]:
    """The content of a regular file, and its status when it was opened."""
    descriptor, status = _open_regular(path)
    try:
        if status.st_size > most_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        blocks = []
        while block := os.read(descriptor, max(status.st_size + 1, 4096)):
            blocks.append(block)
            if len(block) == status.st_size:
                break  # all of it, without asking again
        return b"".join(blocks), status
    finally:
        os.close(descriptor)


def _open_regular(path: Path | str) -> tuple[int, os.stat_result]:
    try:
        descriptor = os.open(path, _READING)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "A link, which is not followed", str(path)) from None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode):
        return descriptor, status
    os.close(descriptor)
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "Not a regular file", str(path))


def write_atomically(path: Path, content: bytes | str, *, durable: bool = True) -> None:
    """Write a temporary file beside and rename it; durable is flushed to the disk before."""
    with temporary_beside(path.parent, prefix=f".{path.name}.") as (beside, stream):
        stream.write(content.encode() if isinstance(content, str) else content)
        rename(beside, stream, path, durable=durable)


def set_aside(path: Path) -> Path:
    """Rename whatever is in a place to a hidden name beside it, so that the place is free."""
    for number in range(1, 1000):
        aside = path.with_name(f".{path.name}.damaged-{number}")
        if not os.path.lexists(aside):
            break
    return path.rename(aside)


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
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
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
