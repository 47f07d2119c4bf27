"""Progress reports of what takes long: lines of text for whoever listens, mostly nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str], None]
# Not a context variable: the threads that fetch and decode would not see it.
_listeners: list[Listener] = []


@contextmanager
def reporting_to(listener: Listener) -> Iterator[None]:
    """Have the listener called with every line that is reported inside."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(line: str) -> None:
    """Report how far something is; cheap where nobody listens."""
    for listener in _listeners:
        listener(line)


def size(count: int) -> str:
    """Bytes as people read them."""
    power = min(4, (len(str(int(count))) - 1) // 3)
    return f"{count / 1000**power:.{min(1, power)}f} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
