"""Decoding, augmentation of batches, and masking of tokens."""
