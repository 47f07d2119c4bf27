"""Texts of one's own (.txt, .json lines, parquet), and the interpreter's own documentation."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lightning_bench.data.errors import DataError
from lightning_bench.data.sources.folder import place
from lightning_bench.data.sources.readers import TABLES, CsvReader, Reader, reader_of

_SUFFIXES = {".txt", ".json", ".jsonl", ".gz", ".parquet", *TABLES}


@dataclass(frozen=True)
class TextsInMemory(Reader):
    """Texts in memory."""

    texts: tuple[str, ...]

    def column(self, name: str) -> Iterator[list[Any]]:
        """All texts in one piece."""
        yield list(self.texts)


def labels_of(path: str) -> tuple[str, ...]:
    """The labels of a table of texts that has a column `label`; empty of all else."""
    file = place(path)
    if file.suffix not in TABLES or not file.is_file():
        return ()
    table = CsvReader(f"text:{path}", [file])
    return table.names("label") if "label" in table.header() else ()


def splits(source: str) -> dict[str, Reader]:
    """Find the texts at a path, all of them in train; or Python's, in three splits."""
    if source.startswith("embedded"):
        return _python()
    root = place(source)
    inside = sorted(root.rglob("*")) if root.is_dir() else [root]
    files = [path for path in inside if path.is_file() and path.suffix in _SUFFIXES]
    if not files:
        raise DataError(f"there is no text at {root}")
    where = f"text:{source}/train"
    return {"train": reader_of(files)(where, files)}


def _python() -> dict[str, Reader]:
    from pydoc_data.topics import topics

    texts = [topics[name] for name in sorted(topics)]
    parts = {"train": [], "val": texts[8::10], "test": texts[9::10]}
    parts["train"] = [text for i, text in enumerate(texts) if i % 10 < 8]
    return {
        name: TextsInMemory(f"python-docs/{name}", [], tuple(part)) for name, part in parts.items()
    }
