"""Units in any of ten rows, some of which are empty: attack the one with the most strength above its armour."""

import numpy as np

from league.envs import Match
from league.types import ActionSpec, ObservationPart

ROWS, ROUNDS = 10, 8
DEFAULTS = {"agent": {"opponent_encoder": False}, "learner": {"gamma": 0.0}, "rewards": {"win": 0.0, "right": 1.0}}


def best(observation, legal, rng):
    """Attacks as it should."""
    units = np.reshape(observation, (ROWS, 4))
    return max(legal, key=lambda row: units[row, 1] - units[row, 2])


class Units(Match):
    name, opponent_slice, bots = "units", (0, 0), {"best": best}
    observation = (ObservationPart("units", 0, (ROWS, 4), "entities", bounds=(0.0, 1.0)),)
    action = ActionSpec("discrete", (ROWS,), pointers=tuple(range(ROWS)))  # action i attacks the unit in row i
    reward_terms = ("right",)

    def reset(self, rng):
        self.rng, self.round, self.lead = rng, 0, 0
        self.draw()

    def draw(self):
        self.units = self.rng.random((2, ROWS, 4))  # present, strength, armour, and a number without a meaning
        self.units[:, :, 0] = self.rng.random((2, ROWS)) < 0.5
        self.units[:, self.rng.integers(ROWS), 0] = 1

    def observe(self, seat):
        return self.units[seat].ravel()

    def legal(self, seat):
        return np.flatnonzero(self.units[seat, :, 0]).tolist()

    def step(self, actions):
        for seat, action in enumerate(actions):
            right = action == best(self.units[seat], self.legal(seat), None)
            self.reward(seat, "right", float(right))
            self.lead += right if seat == 0 else -right
        self.round += 1
        self.draw()
        if self.round == ROUNDS:
            self.end(None if self.lead == 0 else int(self.lead < 0))
