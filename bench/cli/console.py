"""What commands print to: text as it is, never markup, with control characters made visible."""

from typing import Any

import rich.console
from rich.text import Text

from lightning_bench.common.messages import visible
from lightning_bench.common.processes import discard_output


class PlainConsole(rich.console.Console):
    """Rich's, to which brackets and colons are letters, and an escape sequence is no command."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        """The text of a string, in a line or in a cell."""
        return super().render_str(visible(text), **options)


class Console(PlainConsole):
    """One that nobody reads any more, as in `bench report | head`, ends nothing."""

    def on_broken_pipe(self) -> None:
        """Go on without a word: there may be files to write."""
        self.quiet = True
        discard_output()


def styled(word: str, style: str, rest: str = "") -> Text:
    """A word in a style, and what follows it."""
    return Text.assemble((visible(word), style), visible(rest))
