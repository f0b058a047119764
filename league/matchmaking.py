"""Who meets whom: samplers over the snapshots of a pool. Pure functions."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def sampler_weights(sampler: str, num_snapshots: int, *, recent_window: int) -> npt.NDArray[np.float64]:
    """Probabilities (num_snapshots,) of the snapshots, oldest first.

    `uniform`: all alike (fictitious self-play). `latest`: the newest alone. `recent`: the newest `recent_window` alike.
    """
    weights = np.zeros(num_snapshots)
    window = {"uniform": num_snapshots, "latest": 1, "recent": recent_window}[sampler]
    weights[-window:] = 1.0
    return weights / weights.sum()


def draw_targets(
    snapshots: Sequence[str], weights: npt.NDArray[np.float64], num_targets: int, rng: np.random.Generator
) -> list[str]:
    """At most `num_targets` different snapshots, drawn by `weights`."""
    count = min(num_targets, int((weights > 0).sum()))
    chosen = rng.choice(len(snapshots), size=count, replace=False, p=weights)
    return [snapshots[i] for i in sorted(chosen)]
