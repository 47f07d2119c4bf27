"""The starting weights of our attention and MLP models."""

from torch import nn


def initialise(module: nn.Module) -> None:
    """Set linear layers and patch projections to Xavier uniform, with biases of zero.

    As the authors' code for ViT and Mixer does (Dosovitskiy et al., 2021; Tolstikhin et al.,
    2021). To be used with `model.apply`; layers with a start of their own (the spatial gate, the
    embeddings) set it themselves, on parameters of their own.
    """
    if isinstance(module, nn.Linear | nn.Conv2d):
        # A patch projection is a linear layer on flattened patches; its fan-out is its width.
        nn.init.xavier_uniform_(module.weight.view(module.weight.shape[0], -1))
        if module.bias is not None:
            nn.init.zeros_(module.bias)
