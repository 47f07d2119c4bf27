"""What the measurements have in common: the command line, and what a target is held against."""

import sys

#: `bench` of this very interpreter.
BENCH = [sys.executable, "-c", "from lightning_bench.bench.cli import main; main()"]


def verdict(value: float, target: float, unit: str = "") -> str:
    """Whether a value that shall be small met its target."""
    return f"target {target:g}{unit and f' {unit}'}: {'met' if value <= target else 'MISSED'}"
