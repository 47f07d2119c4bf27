"""E-values of paired differences: evidence that holds at every number of seeds of a growing study.

A bet on the sign of each block's difference: if two entries are alike, a block's difference might
as well have the other sign, and the stake, multiplied by 1 + b · sign(d), is a fair game. Its worth
after any number of blocks is an e-value: that it ever reaches 20 has a chance of 1 in 20 at most
(Ville), however often one looks. The bets b are fixed beforehand: half of the stake is laid whole
on each sign, the other half in shares of tanh(λ |d| / rms), over λ of ½, 1, 2 and 4 and the rms of
the differences so far. Half is bet on either direction, unless a direction was named.

Many pairs are tested by averages (closed testing; Vovk and Wang 2021, Hartog and Lei 2025): a pair
is claimed where the mean e-value of every set of pairs that holds it is 20 or more, whatever the
pairs have in common. What it assumes is what max-T does, of each seed given those before it.
"""

import numpy as np

from lightning_bench.reports.statistics.inference import Floats
from lightning_bench.reports.statistics.max_t import Sides

_LAMBDAS = (0.5, 1.0, 2.0, 4.0)
_ROWS = 256  # pairs whose averages are held at a time


def e_values(differences: Floats, sides: Sides = None) -> Floats:
    """The e-value of each pair after each block: pairs × blocks; no block, no bet."""
    return mixed(*directions(differences), sides)


def mixed(upwards: Floats, downwards: Floats, sides: Sides = None) -> Floats:
    """Half of the stake on either direction, or all of it on the one that was named."""
    both = (upwards + downwards) / 2
    if sides is None:
        return np.asarray(both)
    return np.asarray(
        np.where(sides[:, None] > 0, upwards, np.where(sides[:, None] < 0, downwards, both))
    )


def directions(differences: Floats) -> tuple[Floats, Floats]:
    """The e-values of "more than zero" and of "less than zero", pairs × blocks each."""
    known = np.nan_to_num(differences)
    signs = np.sign(known)
    met = np.cumsum(signs != 0, axis=1)
    rms = np.sqrt(np.cumsum(known**2, axis=1) / np.maximum(met, 1))
    size = np.abs(known) / np.where(rms > 0, rms, 1)
    bets = [np.ones_like(known), *(np.tanh(times * size) for times in _LAMBDAS)]
    stakes = [0.5, *[0.5 / len(_LAMBDAS)] * len(_LAMBDAS)]
    up, down = (
        sum(
            (stake * np.cumprod(1 + bet * side * signs, axis=1))
            for bet, stake in zip(bets, stakes, strict=True)
        )
        for side in (1, -1)
    )
    return np.asarray(up), np.asarray(down)


def closed_by_averages(e: Floats) -> Floats:
    """Of each pair the least mean e-value over all sets of pairs that hold it.

    Among sets of one size the least is that with the smallest others.
    """
    order = np.argsort(e, kind="stable")
    ascending = e[order]
    sums = np.concatenate([[0.0], np.cumsum(ascending)])[:-1]  # of the 0, 1, 2, … smallest
    sizes = np.arange(1, len(e) + 1)
    closed = np.empty(len(e))
    for start in range(0, len(e), _ROWS):
        places = np.arange(start, min(start + _ROWS, len(e)))
        means = (ascending[places, None] + sums) / sizes
        # Others no smaller than itself never lower the mean of itself and all smaller ones.
        means[sizes - 1 > places[:, None]] = np.inf
        closed[order[places]] = means.min(axis=1)
    return closed
