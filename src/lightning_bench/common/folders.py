"""Where caches lie on this machine; no run's result depends on it."""

import os
from pathlib import Path

CACHE_VARIABLE = "BENCH_CACHE"


def cache_folder() -> Path:
    """The folder of decoded images, tokenised texts and counted models; safe to delete."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "lightning-bench"
