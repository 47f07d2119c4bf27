"""What reports replace in other libraries; a test notices when one of them changes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def fonts_without_layout() -> Iterator[None]:
    """Embed fonts in this thread's PDF files without layout tables, all text being laid out.

    Reading these tables takes most of the time that a file's fonts take: 0.3 of 0.5 s a figure.
    matplotlib, which calls fontTools' `subset.load_font` for each font, has no option for it, so
    that function is replaced for as long as a file is written, and for nobody else.
    """
    from fontTools import subset

    load_font, thread = subset.load_font, threading.get_ident()

    def load_bare(*args: Any, **options: Any) -> Any:
        font = load_font(*args, **options)
        if threading.get_ident() == thread:
            for table in {"GDEF", "GPOS", "GSUB", "kern"} & {*font.keys()}:
                del font[table]
        return font

    subset.load_font = load_bare
    try:
        yield
    finally:
        subset.load_font = load_font
