"""What commands print to; `bench run` keeps rich's own, which ends where nobody reads."""

import rich.console

from lightning_bench.common.processes import discard_output


class Console(rich.console.Console):
    """Rich's, but one that nobody reads any more, as in `bench report | head`, ends nothing."""

    def on_broken_pipe(self) -> None:
        """Go on without a word: there may be files to write."""
        self.quiet = True
        discard_output()
