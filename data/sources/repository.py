"""Find the files of a hub repository: in the mirror, in the Hugging Face cache, on the hub.

All three are directories of the same layout, so that what reads one reads them all.
"""

import os
import socket
import threading
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from lightning_bench.common.files import write_atomically
from lightning_bench.common.folders import cache_folder
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import locations

Kind = Literal["dataset", "model"]
#: How long to wait for the hub's first sign of life.
PATIENCE_S = 3.0


#: What of a model's repository is needed to load it.
WEIGHTS = ("*.safetensors", "*.json")


def files(
    repository: str, patterns: Sequence[str], *, revision: str | None = None, kind: Kind = "dataset"
) -> list[Path]:
    """Return the repository's files that match any of the patterns, sorted by name.

    Downloads what is nowhere on this machine; DataError, within seconds, where that can't be done.
    """
    folder = locate(repository, patterns, revision=revision, kind=kind)
    if folder is None:
        folder = _download(repository, patterns, revision, kind)
    return _matching(folder, patterns)


def locate(
    repository: str, patterns: Sequence[str], *, revision: str | None = None, kind: Kind = "dataset"
) -> Path | None:
    """Return the directory on this machine that holds all that is asked for, or None."""
    mirrored = _mirrored(repository, patterns, kind)
    return mirrored or _cached(repository, patterns, revision, kind)


def commit(
    repository: str, patterns: Sequence[str], *, revision: str | None = None, kind: Kind = "dataset"
) -> str:
    """The commit that the files on this machine are of; empty where a mirror doesn't tell."""
    if _mirrored(repository, patterns, kind) is not None:
        return ""
    folder = _cached(repository, patterns, revision, kind)
    return folder.name if folder is not None else ""


def demand(
    repository: str, patterns: Sequence[str], *, revision: str | None = None, kind: Kind = "dataset"
) -> None:
    """Raise DataError, within seconds, if this is neither on this machine nor can be fetched.

    Fetches nothing: for asking before a study starts.
    """
    if locate(repository, patterns, revision=revision, kind=kind) is None:
        _require_hub(repository, patterns, kind)


def _cached(
    repository: str, patterns: Sequence[str], revision: str | None, kind: Kind
) -> Path | None:
    """The snapshot in the Hugging Face cache, a folder named by its commit."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            repository,
            repo_type=kind,
            revision=revision or _pinned(repository, kind),
            allow_patterns=list(patterns),
            local_files_only=True,
        )
    except (LocalEntryNotFoundError, ValueError):  # not fetched, or no name of a repository
        return None
    return Path(folder) if _complete(Path(folder), patterns) else None


def _mirrored(repository: str, patterns: Sequence[str], kind: Kind) -> Path | None:
    """The repository's folder in the mirror, which may lack the owner: `all-MiniLM-L6-v2`."""
    mirror = locations.data_mirror() if kind == "dataset" else locations.models_mirror()
    if mirror is None:
        return None
    folders = (mirror / repository, mirror / repository.rpartition("/")[2])
    return next((folder for folder in folders if _complete(folder, patterns)), None)


def _complete(folder: Path, patterns: Sequence[str]) -> bool:
    return folder.is_dir() and all(_matching(folder, [pattern]) for pattern in patterns)


def _matching(folder: Path, patterns: Sequence[str]) -> list[Path]:
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
    return sorted(path for path in files if not fnmatch(path.name, ".*"))


def _require_hub(repository: str, patterns: Sequence[str], kind: Kind) -> None:
    if not _is_offline() and _reachable():
        return
    variable = locations.DATA if kind == "dataset" else locations.MODELS
    mirror = os.environ.get(variable)
    where = f"neither in {variable} ({mirror})" if mirror else "neither in a mirror"
    raise DataError(
        f"{repository} ({', '.join(patterns)}) is {where} nor in the Hugging Face cache, "
        f"and the hub can't be reached: {_advice(repository, kind)}"
    )


def _advice(repository: str, kind: Kind) -> str:
    variable = locations.DATA if kind == "dataset" else locations.MODELS
    return (
        f"run `bench prepare` where there is a network, "
        f"or point {variable} at a mirror that has {repository}"
    )


def _download(repository: str, patterns: Sequence[str], revision: str | None, kind: Kind) -> Path:
    _require_hub(repository, patterns, kind)
    from lightning_bench.data.sources.fetch import fetch

    pinned = revision or _pinned(repository, kind)
    try:
        folder = fetch(repository, patterns, pinned, kind)
    except DataError as error:
        raise DataError(
            f"{repository} could not be fetched ({error}): {_advice(repository, kind)}"
        ) from None
    if not _complete(folder, patterns):
        raise DataError(f"{repository} on the hub has no {', '.join(patterns)}")
    if pinned is None:
        pin(repository, folder.name, kind=kind)
    return folder


def pin(repository: str, commit: str, *, kind: Kind = "dataset") -> None:
    """Stay with this commit of a repository on this machine, where the catalogue names none."""
    path = _pin(repository, kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, commit)


def _pinned(repository: str, kind: Kind) -> str | None:
    path = _pin(repository, kind)
    return path.read_text(encoding="ascii").strip() if path.is_file() else None


def _pin(repository: str, kind: Kind) -> Path:
    return cache_folder() / "revisions" / f"{kind}s--{repository.replace('/', '--')}"


def _is_offline() -> bool:
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
    return any(os.environ.get(name, "").lower() in {"1", "true", "yes", "on"} for name in names)


def _reachable() -> bool:
    """Whether the hub (or the proxy before it) answers; the library itself tries for 40 s."""
    proxy = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    address = urlsplit(proxy or os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    host, port = address.hostname or "huggingface.co", address.port or 443
    answered = threading.Event()

    def knock() -> None:
        try:
            with socket.create_connection((host, port), timeout=PATIENCE_S):
                answered.set()
        except OSError:
            return

    # In a thread of its own, since looking up the name can't be given a time limit.
    thread = threading.Thread(target=knock, daemon=True)
    thread.start()
    thread.join(PATIENCE_S + 0.5)
    return answered.is_set()
