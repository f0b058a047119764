"""Rock, paper, scissors: the other's last throw, the score and the time. An action is a throw."""

from typing import Any

import numpy as np


class RpsEncoder:
    """Of 3 to 5 signs."""

    obs_range = (-1, 1)
    imperfect_information = True

    def __init__(self, configuration: Any) -> None:
        self.action, self.steps = configuration["signs"], configuration["episodeSteps"]
        self.obs_size = self.action + 2

    def encode(self, observation: Any) -> Any:
        """(signs + 2,): the other's last throw, one-hot, none at first; the score in hundreds; the share of time."""
        seen = np.zeros(self.obs_size)
        if observation["step"]:
            seen[observation["lastOpponentAction"]] = 1
        seen[-2:] = np.clip(observation["reward"] / 100, -1, 1), observation["step"] / self.steps
        return seen

    def decode(self, action: int, observation: Any) -> int:
        """The throw."""
        return action

    def encode_action(self, action: int, observation: Any) -> int:
        """The throw."""
        return action
