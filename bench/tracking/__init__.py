"""Experiment trackers that mirror the store: Weights & Biases, TensorBoard, CSV.

They are fed by the parent, so that they see each run once, whatever its number of ranks; from a
process of their own, so that an outage can't slow training; and from what the store holds, so that
`bench sync` can send all of it again.
"""

from typing import Literal, get_args

TrackerName = Literal["wandb", "tensorboard", "csv"]
TRACKERS: tuple[str, ...] = get_args(TrackerName)
