"""Fetch files of a hub repository into the Hugging Face cache, saying how many bytes are there."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from lightning_bench.common.messages import first_line
from lightning_bench.data import progress
from lightning_bench.data.errors import DataError


def fetch(
    repository: str,
    patterns: Sequence[str],
    revision: str | None,
    kind: Literal["dataset", "model"],
) -> Path:
    """Return the folder of the fetched commit; DataError with the hub's own first line.

    Asks for the commit and the sizes first, so that all files are of one commit.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError

    wanted: dict[str, Any] = {"repo_type": kind, "allow_patterns": list(patterns)}
    try:
        files = snapshot_download(repository, revision=revision, dry_run=True, **wanted)
        if not files:
            raise DataError(f"{repository} on the hub has no {', '.join(patterns)}")
        total = sum(file.file_size or 0 for file in files if file.will_download)
        progress.report(f"{repository}: fetching {len(files)} files, {progress.size(total)}")
        folder = snapshot_download(
            repository,
            revision=files[0].commit_hash,
            tqdm_class=_bar(repository, total),
            **wanted,
        )
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise DataError(first_line(error)) from None
    return Path(folder)


def _bar(repository: str, total: int) -> type:
    """A progress bar that draws nothing and says the bytes."""
    from tqdm.auto import tqdm

    class Bar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **{**options, "disable": False, "file": io.StringIO()})

        def update(self, n: float | None = 1) -> bool | None:
            shown: bool | None = super().update(n)
            if self.unit == "B":
                there = f"{progress.size(self.n)} of {progress.size(total)}"
                progress.report(f"{repository}: {there}")
            return shown

    return Bar
