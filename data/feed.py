"""Feeding a GPU: a thread prefetches batches: made on the host, pinned, copied, finished there.

The host makes of a batch what is small: uint8 pixels or the rows of images that the GPU has, and
random numbers, drawn as for a CPU. What is left, a loader's `finish`, is done on the GPU, on a
stream of its own beside the training. On a CPU nothing of this pays, and each batch is made as it
is asked for.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch import Tensor

from lightning_bench.data.batch import Batch

#: Batches that are made before they are asked for, and then lie on the GPU.
AHEAD = 1
#: Images are kept on a GPU that take no more than this part of what is free when it is first fed.
RESIDENT_SHARE = 0.05


class Feed:
    """The device that the batches of a data module go to, which all of its loaders share."""

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self._resident: dict[int, Tensor | None] = {}
        self._room: int | None = None
        self._threads: set[ThreadPoolExecutor] = set()

    def attach(self, device: torch.device) -> None:
        """Feed this device from now on."""
        self.device = device

    def batches(
        self, made: Generator[Any, None, None], finish: Callable[[Any], Batch]
    ) -> Iterator[Batch]:
        """Finish the batches that the host makes, which a thread does ahead for what is no CPU."""
        return map(finish, made) if self.device.type == "cpu" else self._prefetched(made, finish)

    def resident(self, images: Tensor) -> Tensor | None:
        """The images as the device keeps them; None where they are too large, or it is a CPU."""
        if self.device.type != "cuda":
            return None
        key = images.data_ptr()
        if key not in self._resident:
            if self._room is None:
                free, _ = torch.cuda.mem_get_info()
                self._room = int(RESIDENT_SHARE * free)
            fits = images.nbytes <= self._room
            self._room -= images.nbytes if fits else 0
            self._resident[key] = images.to(self.device) if fits else None
        return self._resident[key]

    def stop(self) -> None:
        """End the threads of batches that nobody is going to ask for."""
        for thread in tuple(self._threads):
            thread.shutdown(cancel_futures=True)
        self._threads.clear()

    def _prefetched(
        self, made: Generator[Any, None, None], finish: Callable[[Any], Batch]
    ) -> Iterator[Batch]:
        """Make batches in a thread, whose exceptions are raised here."""
        stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None

        def copied(tensor: Tensor) -> Tensor:
            if stream is None:
                return tensor.to(self.device)
            return tensor.pin_memory().to(self.device, non_blocking=True)

        def make() -> tuple[Batch, torch.cuda.Event | None] | None:
            batch = next(made, None)
            if batch is None:
                return None
            with torch.cuda.stream(stream):  # which does nothing where there is none
                finished = finish(apply_to_collection(batch, Tensor, copied))
                return finished, stream.record_event() if stream else None

        thread = self._thread()
        waiting: deque[Future[Any]] = deque(thread.submit(make) for _ in range(AHEAD))
        try:
            while (ready := waiting.popleft().result()) is not None:
                waiting.append(thread.submit(make))
                yield _taken(*ready)
        finally:
            thread.shutdown(cancel_futures=True)
            self._threads.discard(thread)
            made.close()

    def _thread(self) -> ThreadPoolExecutor:
        """One thread, whose GPU is this one's: which one is current, each thread has for itself."""
        if self.device.type == "cuda":
            current = torch.cuda.current_device()
            thread = ThreadPoolExecutor(1, "feed", torch.cuda.set_device, (current,))
        else:
            thread = ThreadPoolExecutor(1, "feed")
        self._threads.add(thread)
        return thread


def _taken(batch: Batch, finished: torch.cuda.Event | None) -> Batch:
    """A batch for the stream of the training, which waits until the other one has finished it."""
    if finished is not None:
        training = torch.cuda.current_stream()
        training.wait_event(finished)
        for tensor in (*batch.inputs, batch.target, batch.indices):
            # Else its memory would be the other stream's again before the training has read it.
            tensor.record_stream(training)
    return batch
