"""The registry of variants, its committed catalogue, counting, and the model contract."""
