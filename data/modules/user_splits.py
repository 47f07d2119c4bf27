"""The splits that the user's own code gives: found, read, and with what they draw seeded.

Its callable gives a LightningDataModule of either package, or a mapping of datasets by the names of
their splits. Of a LightningDataModule the datasets and what collates them are taken.
"""

import contextlib
import inspect
import json
import os
import random
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    default_collate,
)

from lightning_bench.common.files import locked
from lightning_bench.common.folders import cache_folder
from lightning_bench.common.messages import first_line
from lightning_bench.data import cache
from lightning_bench.data.errors import DataError
from lightning_bench.data.sources import user_data

#: A split is kept in memory, once it was read, up to so many bytes.
_KEPT_BYTES = 1 << 30
#: So many examples are read twice, to see whether they are the same.
_TWICE = 16
_LABELS = ("labels", "label", "target", "y")
_TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
#: Words in an argument's name that make a text a path, which may start at the page's folder.
_OF_PATHS = ("dir", "path", "root", "folder", "file")
#: Arguments without a default that the harness fills, since it makes the batches itself.
FILLED = {"batch_size": 64, "num_workers": 0}
_HOOKS = {"train": "train_dataloader", "val": "val_dataloader", "test": "test_dataloader"}
_PLAIN_SAMPLERS = (RandomSampler, SequentialSampler, DistributedSampler, SubsetRandomSampler)


@dataclass(frozen=True)
class Split:
    """The examples of a split, and what makes a batch of some."""

    where: str
    dataset: Any
    collate: Callable[[list[Any]], Any]

    def batch(self, examples: list[int], seeds: list[int]) -> tuple[tuple[Tensor, ...], Tensor]:
        """The inputs and targets of these examples; each draws what its seed gives."""
        states = _random_states()
        try:
            rows = []
            for example, seed in zip(examples, seeds, strict=True):
                _seed_all(seed)
                rows.append(self.dataset[example])
            return _parts(self.where, self.collate(rows))
        except DataError:
            raise
        except Exception as error:
            raise DataError(f"{self.where}, example {examples[0]}: {_told(error)}") from error
        finally:
            _set_random_states(states)


class Read(NamedTuple):
    """A split after all of it was read."""

    inputs: tuple[Tensor, ...] | None  # of all examples; None where they are read again each epoch
    target: Tensor
    fingerprint: str
    shapes: set[tuple[int, ...]]  # of examples' first inputs
    largest: int  # of whole numbers
    dtype: torch.dtype
    draws: bool  # random numbers, as a transform does


def given(name: str, arguments: str, batch_size: int, stage: str | None) -> dict[str, Split]:
    """The splits that a callable gives with these arguments; of a trial no test."""
    module = user_data.import_module(name)
    target = getattr(module, name.rpartition(":")[2], None)
    if not callable(target):
        raise DataError(f"{name}: the module has nothing to call by this name")
    states = _random_states()
    try:
        _seed_all(0)
        with contextlib.redirect_stdout(None):
            made = target(**_arguments(name, target, json.loads(arguments or "{}"), batch_size))
            wanted = [split for split in _HOOKS if stage != "fit" or split != "test"]
            if isinstance(made, Mapping):
                found = _of_mapping(name, made)
            elif hasattr(made, "train_dataloader"):
                found = _of_data_module(name, made, wanted)
            else:
                raise DataError(
                    f"{name} gives a {type(made).__name__}, neither a LightningDataModule nor a "
                    "mapping of datasets by split"
                )
    except DataError:
        raise
    except (Exception, SystemExit) as error:  # whatever a user's code does
        raise DataError(f"{name}: {_told(error)}") from error
    finally:
        _set_random_states(states)
    for split in wanted:
        if split not in found:
            titles = {"train": "training", "val": "validation", "test": "test"}
            hint = f"; it has {', '.join(map(str, made))}" if isinstance(made, Mapping) else ""
            raise DataError(f"{name} gives no {titles[split]} split ({split}){hint}")
    return found


def _arguments(
    name: str, target: Callable[..., Any], stated: dict[str, Any], batch_size: int
) -> dict[str, Any]:
    """Those of the page, paths in them found, and those that have no default and are filled."""
    folder = Path(os.environ.get("BENCH_PAGE_FOLDER", "."))
    for key, value in stated.items():
        if isinstance(value, str) and any(word in key for word in _OF_PATHS):
            stated[key] = str(folder / value) if (folder / value).exists() else value
    parameters = inspect.signature(target).parameters
    others = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for key in stated.keys() - parameters.keys() if not others else ():
        raise DataError(f"{name} has no argument {key!r}; it has {', '.join(parameters) or 'none'}")
    filled = {**FILLED, "batch_size": batch_size}
    lacking = {
        key
        for key, p in parameters.items()
        if p.default is p.empty and p.kind not in {p.VAR_POSITIONAL, p.VAR_KEYWORD}
    } - stated.keys()
    for key in sorted(lacking - filled.keys()):
        raise DataError(f"{name} needs {key!r}: say so, as in args: {{{key}: …}}")
    return {**stated, **{key: filled[key] for key in lacking}}


def _of_mapping(name: str, made: Mapping[Any, Any]) -> dict[str, Split]:
    found = {}
    for split, dataset in made.items():
        where = f"{name}/{split}"
        if isinstance(dataset, DataLoader):
            found[str(split)] = _of_loader(where, dataset)
        else:
            found[str(split)] = _indexed(where, dataset, default_collate)
    return found


def _of_data_module(name: str, module: Any, wanted: list[str]) -> dict[str, Split]:
    """The datasets of a LightningDataModule's loaders, after its hooks in Lightning's order."""
    root = cache_folder()
    root.mkdir(parents=True, exist_ok=True)
    with locked(root / "user-data.lock"):  # one process of a machine at a time downloads
        module.prepare_data()
    found = {}
    for stage, splits in (("fit", ("train", "val")), ("test", ("test",))):
        if set(splits) & set(wanted):
            module.setup(stage)
        for split in splits:
            if split not in wanted:
                continue
            kind = type(module)
            hook = getattr(kind, _HOOKS[split], None)
            if hook is None or hook.__qualname__.startswith(("LightningDataModule.", "DataHooks.")):
                continue
            loader = getattr(module, _HOOKS[split])()
            if isinstance(loader, list | tuple) and len(loader) == 1:
                loader = loader[0]
            found[split] = _of_loader(f"{name}/{split}", loader)
    return found


def _of_loader(where: str, loader: Any) -> Split:
    """What is in a DataLoader; a DataError where the harness can't make its batches itself."""
    if not isinstance(loader, DataLoader):
        raise DataError(f"{where} is a {type(loader).__name__}; the harness takes a DataLoader")
    if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
        return _indexed(where, loader.dataset, loader.collate_fn)
    kind = next(
        (
            type(each)
            for each, known in (
                (loader.sampler, _PLAIN_SAMPLERS), (loader.batch_sampler, (BatchSampler,)),
            )
            if type(each) not in known
        ),
        None,
    )  # fmt: skip
    if kind is not None:
        raise DataError(
            f"{where} has a {kind.__name__}, whose order would not be the run's: every entry sees "
            "each example once an epoch, in the order of its seed"
        )
    dataset: Any = loader.dataset
    if isinstance(loader.sampler, SubsetRandomSampler):
        dataset = Subset(dataset, list(loader.sampler.indices))
    return _indexed(where, dataset, loader.collate_fn)


def _indexed(where: str, dataset: Any, collate: Callable[[list[Any]], Any]) -> Split:
    if isinstance(dataset, IterableDataset) or not (
        hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    ):
        raise DataError(
            f"{where} is a {type(dataset).__name__} without an order of its own (no __getitem__ and"
            " __len__): the seed could not decide which examples come when"
        )
    if not len(dataset):
        raise DataError(f"{where} has no examples")
    return Split(where, dataset, collate)


def read(split: Split) -> Read:
    """Read a whole split once: its labels, its fingerprint, and itself, where nothing is drawn."""
    _same_twice(split)
    states = _random_states()
    try:
        _seed_all(0)
        before = _random_states()
        digests: list[np.ndarray] = []
        targets: list[Tensor] = []
        rows: list[tuple[Tensor, ...]] | None = []
        shapes: set[tuple[int, ...]] = set()
        size, largest, dtype = 0, 0, torch.float32
        for i in range(len(split.dataset)):
            try:
                inputs, target = _parts(split.where, split.collate([split.dataset[i]]))
            except DataError:
                raise
            except Exception as error:
                raise DataError(f"{split.where}, example {i}: {_told(error)}") from error
            if len(target) != 1:
                raise DataError(f"{split.where}, example {i}: {len(target)} targets for one")
            digests.append(_digest((*inputs, target)))
            targets.append(target)
            shapes.add(tuple(inputs[0].shape[1:]))
            dtype = inputs[0].dtype
            if not dtype.is_floating_point:
                largest = max(largest, int(inputs[0].max()))
            size += sum(part.nbytes for part in inputs)
            if rows is not None:
                rows.append(inputs)
            if size > _KEPT_BYTES or len(shapes) > 1:
                rows = None
        drawn = not _equal(before, _random_states())
    finally:
        _set_random_states(states)
    kept = None if rows is None or drawn else tuple(map(torch.cat, zip(*rows, strict=True)))
    fingerprint = cache.fingerprint([("examples", np.stack(digests))])
    return Read(kept, torch.cat(targets), fingerprint, shapes, largest, dtype, drawn)


def _same_twice(split: Split) -> None:
    """A DataError where an example is another one each time, in spite of the same seed."""
    for i in range(min(_TWICE, len(split.dataset))):
        one, other = ([*split.batch([i], [i])[0], *split.batch([i], [i])[1:]] for _ in range(2))
        if not all(torch.equal(a, b) for a, b in zip(one, other, strict=True)):
            raise DataError(
                f"{split.where}, example {i}: another one each time it is read, whatever the seed "
                "of torch, numpy and random: has it a generator of its own?"
            )


def _parts(where: str, batch: Any) -> tuple[tuple[Tensor, ...], Tensor]:
    """The inputs and the target of a batch."""
    if isinstance(batch, Mapping):
        labels = [name for name in _LABELS if name in batch]
        if "input_ids" in batch and labels:
            tokens = torch.as_tensor(batch["input_ids"])
            mask = torch.as_tensor(batch.get("attention_mask", torch.ones_like(tokens))).bool()
            kinds = torch.as_tensor(batch.get("token_type_ids", torch.zeros_like(tokens)))
            return (tokens, mask, kinds), torch.as_tensor(batch[labels[0]])
        listed = ", ".join(map(str, batch))
        raise DataError(f"{where}: a batch is a mapping of {listed}; give (input, target), or of "
                        f"texts {', '.join(_TEXT_INPUTS)} and labels")  # fmt: skip
    parts: list[Any] = list(batch) if isinstance(batch, tuple | list) else [batch]
    if len(parts) != 2 or not all(isinstance(part, Tensor) for part in parts):
        types = ", ".join(type(part).__name__ for part in parts)
        raise DataError(f"{where}: a batch is ({types}); give (input, target), two tensors")
    inputs, target = parts
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.is_floating_point() or (target.dtype is torch.bool and target.ndim == 2):
        target = target.float()
    else:
        target = target.long()
    return (inputs.float() if inputs.is_floating_point() else inputs,), target


def _digest(tensors: tuple[Tensor, ...]) -> np.ndarray:
    arrays = [(str(i), part.detach().contiguous().numpy()) for i, part in enumerate(tensors)]
    return np.frombuffer(bytes.fromhex(cache.fingerprint(arrays)), np.uint8)


def mixed(*numbers: int) -> int:
    """A seed of 32 bits out of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1)[0])


def _seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)


def _random_states() -> tuple[Any, Any, Tensor]:
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def _set_random_states(states: tuple[Any, Any, Tensor]) -> None:
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def _equal(one: tuple[Any, Any, Tensor], other: tuple[Any, Any, Tensor]) -> bool:
    of_numpy = all(np.array_equal(a, b) for a, b in zip(one[1], other[1], strict=True))
    return one[0] == other[0] and of_numpy and torch.equal(one[2], other[2])


def _told(error: BaseException) -> str:
    """An exception of a user's code in one line, with the last place in it."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "<" not in f.filename]
    last = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {first_line(error)}{last}"


def shape_text(shape: tuple[int, ...]) -> str:
    """As in `3×32×32`."""
    return "×".join(map(str, shape)) or "a single number"
