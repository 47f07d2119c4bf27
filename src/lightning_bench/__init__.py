"""lightning-bench: reproducible comparisons of neural architectures on PyTorch Lightning."""

__version__ = "0.1.0"
