"""What the compiled games accept: seeds, controllers, actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from league.types import EXTERNAL


def need_seed(seed: Any, rows: int) -> npt.NDArray[np.uint64] | int:
    """What `reset` was given, if it may be.

    Raises:
        ValueError: it is neither an int within [0, 2**64) nor a uint64 array (rows,).
    """
    if isinstance(seed, np.ndarray):
        if seed.dtype != np.uint64 or seed.shape != (rows,):
            raise ValueError(f"seed: array of {seed.dtype} {seed.shape} must be uint64 ({rows},)")
        return np.ascontiguousarray(seed)
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**64:
        raise ValueError(f"seed={seed!r} must be an int within [0, 2**64) or a uint64 array of one seed a row")
    return int(seed)


def need_controllers(controllers: npt.NDArray[np.int16], num_bots: int) -> None:
    """Names the first controller (rows, 2) that is unknown.

    Raises:
        ValueError: there is one.
    """
    for row, seat in np.argwhere((controllers < EXTERNAL) | (controllers >= num_bots)).tolist():
        raise ValueError(
            f"controllers[{row}, {seat}]={controllers[row, seat]} must be -1 (external) or a bot's id,"
            f" 0 to {num_bots - 1}"
        )


def need_keys(controllers: npt.NDArray[np.int16], actions: npt.NDArray[np.int32]) -> None:
    """Names the first action (rows, 2, keys) of an external seat that is not 0 or 1 for each key.

    Raises:
        ValueError: there is one.
    """
    is_wrong = (controllers == EXTERNAL) & ((actions < 0) | (actions > 1)).any(axis=-1)
    for row, seat in np.argwhere(is_wrong).tolist():
        raise ValueError(f"actions[{row}, {seat}]={actions[row, seat].tolist()} must hold 0 or 1 for each key")


def refuse_tuple(row: int, seat: int, actions: npt.NDArray[np.int32], choices: tuple[int, ...]) -> None:
    """Names an action that is no legal tuple.

    Raises:
        ValueError: always.
    """
    raise ValueError(
        f"actions[{row}, {seat}]={actions[row, seat].tolist()} is no action: type, card, slot and target are below"
        f" {', '.join(map(str, choices))}; choose a tuple of mask[{row}, {seat}]"
    )
