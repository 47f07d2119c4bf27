"""Prepare: fetch, decode and tokenise what a study needs, so that it then runs without a network.

Also checks what is there: counts against the catalogue, contents against the fingerprint that they
were kept with.
"""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Literal

from lightning_bench.data.catalogue import find
from lightning_bench.data.dataset import MASKED, DataSet
from lightning_bench.data.errors import DataError
from lightning_bench.data.progress import reporting_to, size
from lightning_bench.data.sources import repository

#: Is told a line of what happens now.
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """What became of one data set, tokeniser or set of weights."""

    name: str
    state: Literal["ready", "failed"]
    detail: str
    splits: dict[str, int]
    bytes: int = 0
    fingerprint: str = ""
    revision: str = ""  # the commit of the hub's repository, where the files tell it


def prepare(
    names: Iterable[str | DataSet],
    progress: Progress,
    *,
    sample: bool = False,
    weights: Iterable[str] = (),
    passing: Progress = lambda line: None,
) -> list[Prepared]:
    """Prepare data sets, and weights of hub repositories; one that fails doesn't stop the others.

    Where `sample` is true, a part of a data set will do. `progress` is told each step, `passing`
    how far one is, many times a second.
    """
    results = []
    with reporting_to(passing):
        for name in names:
            label = name if isinstance(name, str) else name.name
            try:
                entry = find(name) if isinstance(name, str) else name
                progress(f"{label}: {_announcement(entry)}")
                results.append(_prepare(entry, progress, sample=sample))
            except DataError as error:
                results.append(Prepared(label, "failed", str(error), {}))
        for repo in weights:
            progress(f"{repo}: weights")
            try:
                results.append(_weights(repo))
            except DataError as error:
                results.append(Prepared(repo, "failed", str(error), {}))
    return results


def _weights(repo: str) -> Prepared:
    files = repository.files(repo, repository.WEIGHTS, kind="model")
    size = sum(path.stat().st_size for path in files)
    commit = repository.commit(repo, repository.WEIGHTS, kind="model")
    return Prepared(repo, "ready", str(files[0].parent), {}, size, revision=commit)


def _announcement(entry: DataSet) -> str:
    if entry.repository is None:
        return entry.source
    patterns = list(entry.files.values())
    place = repository.locate(entry.repository, patterns, revision=entry.revision)
    if place is not None:
        return f"found in {place}"
    about = f", about {size(entry.download_bytes)}" if entry.download_bytes else ""
    return f"fetching {entry.repository} from the hub{about}"


def _prepare(entry: DataSet, progress: Progress, *, sample: bool) -> Prepared:
    if entry.user_code:  # a process of its own has read all of it, and this one imports none of it
        return Prepared(entry.name, "ready", "complete", dict(entry.splits))
    from lightning_bench.data.modules import contract
    from lightning_bench.data.transforms.augment import Augmentation

    recipe = {**asdict(Augmentation()), "whole_words": False}
    data = contract.make(entry, recipe=recipe, batch_size=1, seed=0, sample=sample)
    data.setup()
    kept_bytes = 0
    if data.bundle is not None:
        progress(f"{entry.name}: verifying the fingerprint")
        if not data.bundle.verify():
            raise DataError(
                f"{entry.name}: {data.bundle.folder} is damaged; delete it and prepare again"
            )
        kept_bytes = sum(path.stat().st_size for path in data.bundle.folder.iterdir())
    promised = sum(entry.splits.values())
    there = sum(data.sizes.values())
    # A corpus counts rows, what is trained on are pieces of them.
    part = entry.task not in MASKED and entry.splits and there < promised
    detail = f"a sample of {promised:,}" if part else "complete"
    commit = _pin(entry)
    return Prepared(
        entry.name, "ready", detail, data.sizes, kept_bytes, data.fingerprint, revision=commit
    )


def _pin(entry: DataSet) -> str:
    """Return the commit of the files, and stay with it where the catalogue names none."""
    if entry.repository is None:
        return ""
    patterns = list(entry.files.values())
    commit = repository.commit(entry.repository, patterns, revision=entry.revision)
    if commit and entry.revision is None:
        repository.pin(entry.repository, commit)
    return commit
