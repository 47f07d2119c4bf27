"""Models of known cost, made by the same kind of function as any model of one's own."""

import time

import torch
from torch import Tensor, nn


class Sleeper(nn.Module):
    """Does nothing for a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, images: Tensor) -> Tensor:
        if images.device.type != "meta":
            time.sleep(self.seconds)
        return images.flatten(1)[:, :10] + self.weight


class Products(nn.Module):
    """So many products of square matrices."""

    def __init__(self, products: int, side: int) -> None:
        super().__init__()
        self.products = products
        self.weight = nn.Parameter(torch.eye(side) / 2)

    def forward(self, images: Tensor) -> Tensor:
        x = self.weight
        for _ in range(self.products):
            x = x @ self.weight
        return images.flatten(1)[:, :10] * x[0, 0]


class Hoarder(nn.Module):
    """Holds so many bytes during each forward pass, and a weight of as many."""

    def __init__(self, megabytes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(megabytes * 250_000))

    def forward(self, images: Tensor) -> Tensor:
        held = torch.ones_like(self.weight)
        return images.flatten(1)[:, :10] + held[0]


class Breaker(nn.Module):
    """Ends its process in the middle of a round."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))
        self.until = 40

    def forward(self, images: Tensor) -> Tensor:
        self.until -= images.device.type != "meta"
        if self.until == 0:
            import os

            os._exit(7)
        time.sleep(0.01)
        return images.flatten(1)[:, :10] + self.weight


def sleeper(
    *, channels: int = 1, image_size: int = 4, classes: int = 10, seconds: float = 0.02
) -> Sleeper:
    """Sleep."""
    return Sleeper(seconds)


def products(
    *, channels: int = 1, image_size: int = 4, classes: int = 10, number: int = 20, side: int = 128
) -> Products:
    """Multiply."""
    return Products(number, side)


def hoarder(
    *, channels: int = 1, image_size: int = 4, classes: int = 10, megabytes: int = 200
) -> Hoarder:
    """Hold memory."""
    return Hoarder(megabytes)


def breaker(*, channels: int = 1, image_size: int = 4, classes: int = 10) -> Breaker:
    """Die."""
    return Breaker()
