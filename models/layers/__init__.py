"""Layers that several architectures share, one idea a file."""
