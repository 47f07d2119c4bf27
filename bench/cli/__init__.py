"""The command line: the front door, which alone may import everything, and does so lazily."""

import sys


def main() -> None:
    """Entry point of the `bench` command."""
    # A worker re-imports this module, so nothing heavy stands at its top.
    from lightning_bench.bench.cli.app import run

    sys.exit(run())
