"""Settings of wandb whose names begin with `x_`, which it doesn't promise to keep; used here alone.

`tests/bench/tracking/test_compat.py` fails where they are gone, or do something else.
"""

import wandb


def private_settings() -> wandb.Settings:
    """Send and print nothing of the machine or the user beyond what the record holds."""
    return wandb.Settings(
        console="off",
        silent=True,
        disable_git=True,
        save_code=False,
        init_timeout=30,
        x_disable_stats=True,
        x_disable_meta=True,
    )
