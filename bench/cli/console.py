"""What commands print to, unless they run things."""

import os
import sys

import rich.console


class Console(rich.console.Console):
    """Rich's, but one that nobody reads any more, as in `bench report | head`, ends nothing."""

    def on_broken_pipe(self) -> None:
        """Go on without a word: there may be files to write."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
