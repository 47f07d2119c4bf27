"""ClassProbabilities: what a classifier gives each class of a test split, gathered on rank 0."""

import torch
from torch import Tensor, distributed

#: Likeliest classes that are kept of each example, in the order of their float32 probabilities.
TOP = 5
#: Bytes that all ranks sum at a time; beside the array itself gathering takes no more than this.
CHUNK_BYTES = 4 * 2**20


class ClassProbabilities:
    """Softmax probabilities in float16 and the likeliest classes, collected on the host by batch.

    Of `classes_only` the likeliest classes alone are kept: all probabilities would be too many.
    """

    def __init__(self, *, classes_only: bool = False) -> None:
        self._classes_only = classes_only
        self._index: list[Tensor] = []
        self._columns: dict[str, list[Tensor]] = {}

    def add(self, index: Tensor, logits: Tensor) -> None:
        """Add a batch of this rank's examples."""
        logits = logits.detach().float()
        probabilities = logits.softmax(-1)
        kept = {} if self._classes_only else {"probabilities": probabilities.half()}
        classes = probabilities.shape[-1]
        if classes > TOP:
            # By the logits: the probabilities of several classes may round to zero.
            likeliest = logits.topk(TOP, dim=-1).indices
            kept["likeliest"] = likeliest.to(torch.int16 if classes <= 2**15 else torch.int32)
        self._index.append(index.cpu())
        for name, rows in kept.items():
            self._columns.setdefault(name, []).append(rows.cpu())

    def gather(self, examples: int, device: torch.device) -> dict[str, Tensor]:
        """All ranks' examples in the split's order, on rank 0; nothing on the others.

        All ranks must call it. Each example is one rank's, and its bytes are zero on the others, so
        that a sum of bytes, a few at a time, puts every rank's rows in place exactly: by gloo and
        NCCL alike, and without a second copy of the array on any of them.
        """
        together = distributed.is_available() and distributed.is_initialized()
        places = torch.cat(self._index) if self._index else torch.empty(0, dtype=torch.long)
        found = {}
        for name, width, dtype in self._layout(together=together):
            rows = torch.zeros(examples, width, dtype=dtype)
            start, parts = 0, self._columns.pop(name, [])[::-1]
            while parts:  # each is let go once its rows are in place
                part = parts.pop()
                rows[places[start : start + len(part)]] = part
                start += len(part)
            if together:
                _sum_on_first(rows, device)
            if not together or distributed.get_rank() == 0:
                found[name] = rows
        self._index.clear()
        return found

    def _layout(self, *, together: bool) -> list[tuple[str, int, torch.dtype]]:
        """Name, width and type of each array; a rank that scored nothing learns it of another."""
        own = [(name, parts[0].shape[1], parts[0].dtype) for name, parts in self._columns.items()]
        if not together:
            return own
        every: list[list[tuple[str, int, torch.dtype]]] = [[]] * distributed.get_world_size()
        distributed.all_gather_object(every, own)
        return max(every, key=len)


def _sum_on_first(rows: Tensor, device: torch.device) -> None:
    """Add up the bytes of all ranks' rows in those of rank 0."""
    if not rows.numel():
        return
    flat = rows.view(torch.uint8).view(-1)
    for start in range(0, len(flat), CHUNK_BYTES):
        part = flat[start : start + CHUNK_BYTES]
        summed = part.to(device)
        distributed.reduce(summed, dst=0)
        part.copy_(summed)
