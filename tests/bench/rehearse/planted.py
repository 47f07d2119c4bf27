"""Models with planted failures, written beside a page; each would fail a run in its own way."""

SOURCE = '''\
import os
import signal

import torch
from torch import nn


class Image(nn.Module):
    """Flattens and maps; what is wrong is in `go_wrong`, which no trial of an example reaches."""

    def __init__(self, pixels, classes):
        super().__init__()
        self.body = nn.Linear(pixels, 16)
        self.head = nn.Linear(16, classes)
        self.calls = 0

    def forward(self, images):
        logits = self.head(torch.relu(self.body(images.flatten(1))))
        return self.go_wrong(logits, images) if len(images) > 2 else logits

    def go_wrong(self, logits, images):
        return logits


def variant(kind):
    def make(*, channels: int = 1, image_size: int = 16, classes: int = 10) -> nn.Module:
        return kind(channels * image_size**2, classes)
    return make


class Fine(Image):
    pass


class Shape(Image):
    def __init__(self, pixels, classes):
        super().__init__(pixels, classes)
        self.further = nn.Linear(classes if pixels == 256 else classes + 1, classes)

    def go_wrong(self, logits, images):
        return self.further(logits)


class Head(Image):
    def go_wrong(self, logits, images):
        return logits[:, :3]


class Silent(Image):
    def go_wrong(self, logits, images):
        assert images.shape[-1] % 16 == 0
        return logits


class Forgets(Image):
    def go_wrong(self, logits, images):
        if self.training:
            self.calls += 1
        return logits * (1 + 0.5 * self.calls)


class Unpicklable(Image):
    def get_extra_state(self):
        return lambda: None

    def set_extra_state(self, state):
        pass


class Infinite(Image):
    def go_wrong(self, logits, images):
        return logits / 0


class Killed(Image):
    def go_wrong(self, logits, images):
        if not logits.is_meta:
            os.kill(os.getpid(), signal.SIGKILL)
        return logits


class Positions(nn.Module):
    """Has 48 positions, whatever the length of the texts."""

    def __init__(self, vocab_size):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, 16)
        self.positions = nn.Parameter(torch.zeros(48, 16))
        self.head = nn.Linear(16, vocab_size)

    def forward(self, tokens, mask=None, segments=None):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        if len(tokens) <= 2:
            places = places.clamp(max=47)
        return self.head(self.tokens(tokens) + self.positions[places])


fine, shape, head, silent = (variant(kind) for kind in (Fine, Shape, Head, Silent))
forgets, unpicklable = variant(Forgets), variant(Unpicklable)
infinite, killed = variant(Infinite), variant(Killed)


def positions(*, vocab_size: int = 500, length: int = 32, classes: int = 0) -> nn.Module:
    return Positions(vocab_size)
'''
