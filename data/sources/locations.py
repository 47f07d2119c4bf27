"""Where data, weights and caches lie on this machine; no run's result depends on it."""

import os
from pathlib import Path

#: A directory laid out like the hub's data repositories: `uoft-cs/cifar10/plain_text/…`.
DATA = "BENCH_DATA"
#: Likewise for model repositories, of which tokenisers are read here.
MODELS = "BENCH_MODELS"
#: The folder of the study's page, where that is a page of one's own.
PAGE_FOLDER = "BENCH_PAGE_FOLDER"


def page_folder() -> Path | None:
    """The folder that the paths of a page are relative to."""
    return _directory(PAGE_FOLDER)


def data_mirror() -> Path | None:
    """The mirror of data repositories, if there is one."""
    return _directory(DATA)


def models_mirror() -> Path | None:
    """The mirror of model repositories, if there is one."""
    return _directory(MODELS)


def _directory(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value).expanduser() if value else None
