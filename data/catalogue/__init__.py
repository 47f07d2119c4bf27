"""The catalogue of named data sets: facts on YAML pages, read without torch.

A page has `data_sets`, by name, and the `defaults` that they share; their fields are those of
`DataSet` (data/dataset.py). Besides these names, `folder:PATH` is any folder of images
(`PATH/CLASS/…` or `PATH/SPLIT/CLASS/…`), `table:PATH` any table of texts, numbers or image files
with labels, `hub:OWNER/NAME` any data set of the hub that lies there as Parquet, and `text:PATH`
any .txt file (a paragraph is an example), folder of them, or parquet or .csv with a column `text`;
a .csv with a column `label` too is to be classified. `module:callable` is data of the user's own
code (`data.sources.user_data`). A relative PATH starts at the page's folder,
else at the data mirror, so that a run's key holds no machine's path.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from lightning_bench.common.messages import nearest
from lightning_bench.data.dataset import HIGHER_IS_BETTER, DataSet, SplitBy
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import user_data
from lightning_bench.data.sources.user_data import is_user_data

__all__ = ["HIGHER_IS_BETTER", "DataSet", "entries", "find", "substitute"]

#: Corpora whose pairs of segments are a task of their own.
_NEXT_SENTENCE = ("python-docs", "wikitext103")


_substitutes: dict[str, DataSet] = {}


def substitute(entry: DataSet) -> None:
    """Have this process find an entry in the place of the one of its name.

    So a rehearsal reads a few examples wherever the data set is asked for.
    """
    _substitutes[entry.name] = entry


@cache
def entries() -> Mapping[str, DataSet]:
    """Every data set by its name, in alphabetical order."""
    known = [entry for page in Path(__file__).parent.glob("*.yaml") for entry in _entries_of(page)]
    known += [pairs for corpus in known if corpus.task == "masked-lm" for pairs in _pairs(corpus)]
    return {entry.name: entry for entry in sorted(known, key=lambda entry: entry.name)}


def _entries_of(page: Path) -> Iterator[DataSet]:
    # libyaml, where PyYAML has it, reads all pages in 4 ms instead of 30.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    stated = yaml.load(page.read_text(encoding="utf-8"), Loader=loader)
    for name, facts in stated["data_sets"].items():
        fields: dict[str, Any] = {**stated["defaults"], **facts}
        fields |= {key: tuple(value) for key, value in fields.items() if isinstance(value, list)}
        yield DataSet(name=name, **fields)


def _pairs(corpus: DataSet) -> Iterator[DataSet]:
    """Tasks with pairs of a corpus' segments, half of which follow each other."""
    paired = replace(
        corpus,
        labels=("other", "next"),
        policy=f"{corpus.policy}; half of the pairs follow each other, seed 0",
        splits={},
    )
    # As BERT was pre-trained.
    yield replace(
        paired,
        name=f"{corpus.name}-pairs",
        title=f"{corpus.title}: masked words, and is the second part what follows?",
        task="pretrain",
        metrics=("perplexity", "masked_accuracy", "nsp_accuracy"),
    )
    if corpus.name in _NEXT_SENTENCE:
        yield replace(
            paired,
            name=f"{corpus.name}-nsp",
            title=f"{corpus.title}: is the second part what follows?",
            task="classify",
            classes=2,
            metrics=("accuracy",),
        )


def _users_texts(path: str) -> DataSet:
    """The entry of somebody's own texts, to be classified where they have labels.

    A table (.csv, .tsv) has a column `text`, and perhaps `label`; without labels masked words are
    filled in.
    """
    if path.endswith((".csv", ".tsv")):
        from lightning_bench.data.sources.user_text import labels_of  # looks at the disk

        if labels := labels_of(path):
            masked = _masked(path)
            return replace(
                masked,
                task="classify",
                classes=len(labels),
                labels=labels,
                metrics=("accuracy",),
                policy="10 % of each class for validation, 10 % for test, seed 0",
            )
    return _masked(path)


def _masked(path: str) -> DataSet:
    return DataSet(
        name=f"text:{path}",
        title=f"The texts in {path}",
        kind="text",
        task="masked-lm",
        metrics=("perplexity", "masked_accuracy"),
        splits={},
        policy="10 % of the texts for validation, 10 % for test, seed 0",
        source=path,
        columns=("text",),
        carves=("test", "val"),
        tokenizer="train:8000",
        vocab_size=8000,
        length=128,
        licence="not stated",
        citation="",
    )


def find(
    name: str,
    *,
    image_size: int | None = None,
    length: int | None = None,
    tokenizer: str | None = None,
    shots: int | None = None,
    shifts: int = 0,
    split: SplitBy = "fixed",
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    interpolation: str | None = None,
    crop: float | None = None,
    columns: tuple[str, ...] = (),
    label: tuple[str, ...] = (),
    task: str = "",
    split_column: str = "",
    config: str = "",
    revision: str | None = None,
    title: str = "",
    args: Mapping[str, Any] | None = None,
) -> DataSet:
    """Return the entry of a name with these settings; DataError names the nearest known name."""
    prefix, colon, path = name.partition(":")
    if name in _substitutes:
        entry = _substitutes[name]
    elif colon and prefix == "folder":
        from lightning_bench.data.sources.folder import describe  # looks at the disk

        entry = describe(path)
    elif colon and prefix in {"table", "hub"}:
        from lightning_bench.data.sources import table  # reads it

        entry = table.describe(
            name,
            columns=columns,
            label=label,
            task=task,
            split_column=split_column,
            config=config,
            revision=revision,
        )
    elif colon and prefix == "text":
        entry = _users_texts(path)
    elif is_user_data(name):
        entry = user_data.describe(name, args or {})
    elif name in entries():
        entry = entries()[name]
    else:
        raise DataError(f"unknown data set {name!r}{nearest(name, entries())}")
    if args and not entry.user_code:
        raise DataError(f"{name} is no module:callable, and takes no args")
    _demand_table(entry, columns=columns, label=label, task=task, split_column=split_column)
    if title:
        entry = replace(entry, title=title)
    settings: dict[str, Any] = {"image_size": image_size, "length": length, "tokenizer": tokenizer}
    settings |= {"shots": shots, "shifts": shifts or None}
    if split != "fixed":
        entry = _split_by_seed(entry, split)
    settings |= {"mean": mean, "std": std, "interpolation": interpolation, "crop": crop}
    return _with(entry, {key: value for key, value in settings.items() if value is not None})


def _demand_table(entry: DataSet, **given: object) -> None:
    """A DataError where settings of a table are given for what is none."""
    if entry.label_columns:
        return
    for name, value in given.items():
        if value:
            raise DataError(f"{entry.name} is no table:PATH or hub:OWNER/NAME, and has no {name}")


def _split_by_seed(entry: DataSet, split: SplitBy) -> DataSet:
    """The entry with splits that the run's seed draws; a DataError where there are none to draw."""
    if not entry.carved:
        raise DataError(
            f"{entry.name} comes with its splits, and none is left to draw: split is fixed"
        )
    if split == "seed" and "test" not in entry.carved:
        raise DataError(
            f"the test split of {entry.name} is official; "
            "`split: validation` draws its validation split by the seed"
        )
    if split == "validation" and "val" not in entry.carved:
        raise DataError(
            f"the validation split of {entry.name} is its own; "
            "`split: seed` draws its test split by the seed"
        )
    titles = {"test": "test", "val": "validation"}
    drawn = ("val",) if split == "validation" else entry.carved
    which = " and ".join(titles[name] for name in drawn)
    how = f"here the run's seed draws {which}, instead of seed 0"
    return replace(entry, split=split, policy=f"{entry.policy}; {how}")


_OF_IMAGES = {"image_size", "shifts", "mean", "std", "interpolation", "crop"}


def _with(entry: DataSet, settings: dict[str, Any]) -> DataSet:
    """The entry with other settings; those that mean nothing for it are a DataError."""
    if entry.user_code and settings:
        given = ", ".join(key.replace("_", " ") for key in settings)
        raise DataError(f"{entry.name} gives its examples as they are: {given} is up to its code")
    for key in settings.keys() - {"shots"}:
        of = "image" if key in _OF_IMAGES else "text"
        if key != "shots" and of != entry.kind:
            what = {"image": "images", "text": "texts", "table": "numbers"}[entry.kind]
            raise DataError(f"{entry.name} is a data set of {what} and has no {key}")
    if settings.keys() & {"shots", "shifts"} and entry.task != "classify":
        raise DataError(f"{entry.name} has no classes: no shots of each, no shifts")
    changed = replace(entry, **settings)
    if changed.shifts >= changed.image_size > 0:
        raise DataError(
            f"{entry.name} is {changed.image_size} pixels wide: "
            f"nothing is left of it after shifts of {changed.shifts}"
        )
    if "tokenizer" in settings:
        from lightning_bench.data.tokenisers import vocab_size

        changed = replace(changed, vocab_size=vocab_size(changed.tokenizer))
    return changed
