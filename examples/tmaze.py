"""A T-maze (Bakker 2002): a cue at the start says which way to go at the junction, and is seen there alone.

`gymnasium:tmaze:TMaze-v0`, in this folder. Without memory half of all choices are wrong.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

AHEAD, LEFT, RIGHT = range(3)


class TMaze(gymnasium.Env[npt.NDArray[np.float32], int]):
    """A seat sees (cue left, cue right, is at the junction). It is paid 1 for the way of the cue, -1 for the other.

    length: steps from the start to the junction. Turning before it is paid -0.1.
    """

    def __init__(self, length: int = 10) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (3,), np.float32)
        self.action_space = spaces.Discrete(3)
        self._length, self._at, self._side = length, 0, LEFT

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begins at the start, with a cue of either side."""
        super().reset(seed=seed)
        self._at, self._side = 0, int(self.np_random.integers(LEFT, RIGHT + 1))
        return self._see(), {}

    def step(self, action: int) -> tuple[npt.NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """One step ahead, or a turn."""
        if self._at == self._length and action != AHEAD:
            return self._see(), 1.0 if action == self._side else -1.0, True, False, {}
        self._at = min(self._at + (action == AHEAD), self._length)
        return self._see(), 0.0 if action == AHEAD else -0.1, False, False, {}

    def _see(self) -> npt.NDArray[np.float32]:
        is_start = self._at == 0
        cue = [is_start and self._side == LEFT, is_start and self._side == RIGHT]
        return np.array([*cue, self._at == self._length], np.float32)


gymnasium.register("TMaze-v0", TMaze, max_episode_steps=40, reward_threshold=0.9)
