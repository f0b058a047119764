"""Hungry Geese of Kaggle for two agents: what is around the agent's head, as planes. An action is a direction."""

import numpy as np

MOVES = {"NORTH": (-1, 0), "EAST": (0, 1), "SOUTH": (1, 0), "WEST": (0, -1)}


class Encoder:
    def __init__(self, configuration):
        self.rows, self.columns = configuration["rows"], configuration["columns"]
        self.action, self.obs_size = len(MOVES), 4 * self.rows * self.columns

    def encode(self, observation):
        """Planes of its own goose, the other one, its head, and the food, with the own head as the first cell."""
        own, other = self.geese(observation)
        planes = np.zeros((4, self.rows * self.columns))
        for plane, cells in zip(planes, (own, other, other[:1], observation["food"]), strict=True):
            plane[cells] = 1
        row, column = divmod(own[0] if own else 0, self.columns)
        return np.roll(planes.reshape(4, self.rows, self.columns), (-row, -column), (1, 2))

    def legal(self, observation):
        """All directions but back into its neck."""
        own, _ = self.geese(observation)
        row, column = divmod(own[0], self.columns)
        ahead = [(row + y) % self.rows * self.columns + (column + x) % self.columns for y, x in MOVES.values()]
        return [action for action, cell in enumerate(ahead) if cell not in own[1:2]]

    def decode(self, action, observation):
        return list(MOVES)[action]

    def geese(self, observation):
        return observation["geese"][observation["index"]], observation["geese"][1 - observation["index"]]
