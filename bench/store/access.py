"""Access to the store from inside a run: its errors are the machine's, not the model's."""

from collections.abc import Iterator
from contextlib import contextmanager


class StoreAccessError(OSError):
    """The store can't be read or written."""


@contextmanager
def store_access() -> Iterator[None]:
    """Tell an OSError of the store from one of the model's own files."""
    try:
        yield
    except OSError as error:
        raise StoreAccessError(error.errno, error.strerror, error.filename) from error
