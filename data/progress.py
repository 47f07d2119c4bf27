"""What takes long says how far it is; whoever listens shows it, and mostly nobody does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Listener = Callable[[str], None]
# Not a context variable: the threads that fetch and decode would not see it.
_listeners: list[Listener] = []


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Tell the listener whatever is said inside."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def say(line: str) -> None:
    """Say how far something is; cheap where nobody listens."""
    for listener in _listeners:
        listener(line)


def size(count: int) -> str:
    """Bytes as people read them."""
    power = min(4, (len(str(int(count))) - 1) // 3)
    return f"{count / 1000**power:.{min(1, power)}f} {('B', 'kB', 'MB', 'GB', 'TB')[power]}"
