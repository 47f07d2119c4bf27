"""The splits of a data set as its source has them: a hub repository, a folder, somebody's texts."""

from dataclasses import replace

from lightning_bench.data.dataset import DataSet
from lightning_bench.data.sources import folder, repository, table, user_text
from lightning_bench.data.sources.readers import Reader, reader_of


def source_splits(entry: DataSet, splits: tuple[str, ...] | None = None) -> dict[str, Reader]:
    """A reader of each of the source's splits, of all of them or of those that are asked for."""
    if entry.name.startswith("folder:"):
        return folder.splits(entry.source)
    if entry.label_columns:
        return table.splits(entry)
    if entry.repository is None:
        return user_text.splits(entry.source)
    wanted = {split: entry.files[split] for split in splits or entry.files if split in entry.files}
    files = repository.files(entry.repository, list(wanted.values()), revision=entry.revision)
    readers = {}
    for split, pattern in wanted.items():
        matching = [path for path in files if path.match(pattern)]
        readers[split] = reader_of(matching)(f"{entry.name}/{split}", matching)
    return readers


def without_missing_tests(entry: DataSet) -> DataSet:
    """The entry without those further test splits that this machine lacks (a sample may)."""
    if entry.repository is None:
        return entry
    lacking = {
        split
        for split in entry.tests[1:]
        if split in entry.files  # a shifted one has none of its own
        and not repository.locate(entry.repository, [entry.files[split]], revision=entry.revision)
    }
    return replace(
        entry,
        splits={split: size for split, size in entry.splits.items() if split not in lacking},
        files={split: files for split, files in entry.files.items() if split not in lacking},
    )
