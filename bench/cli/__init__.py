"""The command line: the front door, which alone may import everything, and does so lazily."""

import os
import sys


def main() -> None:
    """Entry point of the `bench` command."""
    # Processes that this one starts (the fork server by `python -c`) are not to import from the
    # working directory: a torch.py there would be taken for torch. A user's model is found there
    # by `models.registry.user_code`.
    os.environ["PYTHONSAFEPATH"] = "1"
    from lightning_bench.bench.cli import interruption

    interruption.install()
    try:
        # A worker re-imports this module, so nothing heavy stands at its top.
        from lightning_bench.bench.cli.app import run

        code = run()
    except KeyboardInterrupt:  # while it imports, or at its very end
        sys.stderr.write("bench: stopped\n")
        code = interruption.answer()
    sys.exit(code)
