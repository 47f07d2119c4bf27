"""One run in its own process: worker, training, checkpoints, process group. Torch from here on."""
