"""Encoder cache: the states of a frozen encoder for a data set's texts, computed once for all runs.

The states are kept in half precision beside the tokenised texts, named by what they were computed
from. Every run maps the same file; what is in it doesn't depend on how many cores computed it.
"""

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import transformers
from torch import nn

from lightning_bench.common.folders import cache_folder
from lightning_bench.common.machine import usable_cores
from lightning_bench.data import cache, progress
from lightning_bench.data.modules.text_data import TextData
from lightning_bench.data.token_arrays import Texts
from lightning_bench.models.layers.text.cached_states import CachedStates
from lightning_bench.models.layers.text.token_embedding import FrozenEncoder

#: More than this is not kept, but computed as it is read.
MOST_BYTES = 8 * 2**30
_FORMAT = 1
_TOKENS = 2048  # in a batch, about


class NotCacheable(Exception):
    """Why the states can't be kept."""


def attach(
    model: nn.Module, data: object, device_kind: str, others: Mapping[str, str] | None = None
) -> None:
    """Give the model's frozen encoder, if it has one, the cache of its states for these texts.

    Says in the log where that is kept, or why it is not. `others` are the digests of modules that
    are not ours and were imported to make the model: they may have changed what is computed.
    """
    embedding = getattr(model, "embedding", None)
    if not isinstance(embedding, FrozenEncoder) or not isinstance(data, TextData):
        return
    started = time.perf_counter()
    device = _current_device(device_kind)
    texts = _distinct(data.splits.values())
    drawn = data.entry.split != "fixed"
    if drawn:  # one file for all seeds: they deal the same texts out otherwise
        texts.sort(key=lambda text: (len(text), text.tobytes()))
    width = embedding.project.in_features
    size = sum(map(len, texts)) * width * np.dtype(np.float16).itemsize

    def fill(draft: cache.Draft) -> None:
        _check_room(size)
        starts = np.cumsum([0, *map(len, texts)])
        draft.save("signs", np.concatenate(texts))
        draft.save("starts", starts)
        states = draft.empty("states", (int(starts[-1]), width), np.float16)
        _encode_all(embedding, texts, starts, states, device)

    made_from = _made_from(embedding, data, device) | ({"modules": dict(others)} if others else {})
    if drawn:
        made_from["texts"] = cache.fingerprint(("text", text) for text in texts)
    try:
        kept = cache.bundle(f"{data.entry.name}-states", made_from, fill, verified=True)
    except (NotCacheable, OSError) as error:
        _log(f"the encoder's states are computed in every epoch, since {error}")
        return
    arrays = (torch.from_numpy(kept.array(name)) for name in ("signs", "starts", "states"))
    embedding.cached_states = CachedStates(*arrays)
    _log(
        f"the encoder's states of {len(texts):,} texts take {progress.size(size)} in {kept.folder} "
        f"(ready in {time.perf_counter() - started:.1f} s)"
    )


def _current_device(kind: str) -> torch.device:
    """This rank's device with its index, since which one is current is each thread's own."""
    if kind == "cuda":
        return torch.device(kind, torch.cuda.current_device())
    return torch.device(kind)


def _made_from(embedding: FrozenEncoder, data: TextData, device: torch.device) -> dict[str, Any]:
    encoder = embedding.encoder
    settings = json.loads(encoder.config.to_json_string())
    settings.pop("_name_or_path", None)  # a place on this machine
    weights = ((name, value.numpy()) for name, value in sorted(encoder.state_dict().items()))
    # A trial has no test split, and so other texts.
    splits = {} if set(data.entry.tests) <= data.splits.keys() else {"splits": sorted(data.splits)}
    layers = {} if embedding.layers == "last" else {"layers": embedding.layers}
    # The last bits of half precision are a device's own.
    computed_on = {}
    if device.type == "cuda":
        computed_on["device"] = torch.cuda.get_device_name(device)
        computed_on["precision"] = torch.backends.cuda.matmul.fp32_precision
    return {
        **splits,
        **layers,
        **computed_on,
        "format": _FORMAT,
        "texts": data.fingerprint,
        "encoder": cache.fingerprint(weights),
        "settings": settings,
        "versions": [torch.__version__, transformers.__version__],
    }


def _distinct(splits: Iterable[Texts]) -> list[np.ndarray]:
    """The signs of each text once, by length, so that batches need hardly any pads."""
    texts: dict[bytes, np.ndarray] = {}
    for split in splits:
        place = np.arange(len(split.tokens)) - np.repeat(split.starts[:-1], split.lengths)
        second = place >= np.repeat(split.second, split.lengths)
        together = (split.tokens * 2 + second).astype(np.int32)
        for start, end in pairwise(split.starts.tolist()):
            text = together[start:end]
            texts.setdefault(text.tobytes(), text)
    return sorted(texts.values(), key=len)


def _check_room(size: int) -> None:
    """Raise NotCacheable where so many bytes are too many, or more than half of what is free."""
    free = shutil.disk_usage(cache_folder()).free
    limits = {"are the most that is kept": MOST_BYTES, "are half the room in the cache": free // 2}
    for what, limit in limits.items():
        if size > limit:
            raise NotCacheable(
                f"they would take {progress.size(size)}; {progress.size(limit)} {what}"
            )


def _encode_all(
    embedding: FrozenEncoder,
    texts: Sequence[np.ndarray],
    starts: np.ndarray,
    states: np.ndarray,
    device: torch.device,
) -> None:
    """Fill in the states: on a CPU with one thread a core, each at a batch of its own."""

    def encode(rows: range) -> None:
        tokens = torch.zeros(len(rows), len(texts[rows[-1]]), dtype=torch.int64)
        mask = torch.zeros(tokens.shape, dtype=torch.bool)
        for i, row in enumerate(rows):
            tokens[i, : len(texts[row])] = torch.from_numpy(texts[row])
            mask[i, : len(texts[row])] = True
        inputs = (tokens >> 1).to(device), mask.to(device), (tokens & 1).to(device)
        encoded = embedding.encode(*inputs)[inputs[1]]
        if not encoded.abs().max() < np.finfo(np.float16).max:
            raise NotCacheable("they are too large for half precision")
        states[starts[rows[0]] : starts[rows[-1] + 1]] = encoded.half().cpu().numpy()

    threads, cores = torch.get_num_threads(), usable_cores()
    pool = ThreadPoolExecutor(cores if device.type == "cpu" else 1)
    embedding.encoder.to(device)
    torch.set_num_threads(1)
    try:
        for done in pool.map(encode, _batches(texts)):
            del done
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
        embedding.encoder.to("cpu")


def _batches(texts: Sequence[np.ndarray]) -> Iterator[range]:
    """Rows of about as many tokens together."""
    start = 0
    while start < len(texts):
        count = max(1, _TOKENS // len(texts[start]))
        yield range(start, min(start + count, len(texts)))
        start += count


def _log(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - the log
