"""What goes wrong with models, said in one line that names the nearest right answer."""

import difflib
from collections.abc import Iterable


class ModelError(ValueError):
    """A wrong argument, value or shape; the message says what, where and what to do next."""


class UnknownModel(ModelError):
    """No model has this name."""


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the known word most like this one, or nothing where none is."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {found[0]!r}?" if found else ""
