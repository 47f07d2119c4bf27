"""Where the tests find real data and weights: BENCH_DATA and BENCH_MODELS, or `../shared/`."""

import os
from pathlib import Path

SHARED = Path(__file__).parents[2] / "shared"


def _mirror(variable: str, folder: str) -> Path | None:
    path = Path(os.environ.get(variable, SHARED / folder))
    return path if path.is_dir() else None


#: Read when the tests start: some of them clear the variables.
DATA, MODELS = _mirror("BENCH_DATA", "data"), _mirror("BENCH_MODELS", "models")
