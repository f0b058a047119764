"""Planet Wars: the planets, those first that are worth most to the agent. An action is a target and a share.

All of the agent's planets send that share of their ships to the target, or none.
"""

from typing import Any

import numpy as np

PLANETS, NUMBERS = 30, 9
"""The planets that are seen, at most, and the numbers of each. A drawn map has 15 to 30."""
TARGETS = 8
"""The first of these planets: an action aims at one of them."""
SHARES = (0.25, 0.5, 1.0)


class PlanetWarsEncoder:
    """Of any map."""

    obs_range = (-1, 1)
    action = (TARGETS + 1, len(SHARES))
    obs_size = PLANETS * NUMBERS + 5

    def __init__(self, configuration: Any) -> None:
        self.steps = configuration["episodeSteps"]

    def encode(self, observation: Any) -> Any:
        """(275,): of each planet whether it is there, the agent's, the other's, its ships, growth and distance, both
        sides' ships on the way to it, and the ships that it still takes; then both sides' ships and growth, and the
        share of time."""
        own, rows = observation["player"], self._sorted(observation)
        ships, growth = [0.0, 0.0], [0.0, 0.0]
        for owner, count, *_ in observation["fleets"]:
            ships[owner != own] += count
        for _, _, _, owner, count, grows in observation["planets"]:
            if owner:
                ships[owner != own] += count
                growth[owner != own] += grows
        seen = np.zeros((PLANETS, NUMBERS))
        for row, (_, _, owner, count, grows, away, mine, theirs, need) in zip(seen, rows, strict=False):
            owned = owner == own, owner == 3 - own
            row[:] = 1, *owned, count / 100, grows / 5, away / 30, mine / 100, theirs / 100, need / 100
        time = observation["step"] / self.steps
        return np.clip([*seen.ravel(), *np.divide(ships, 1000), *np.divide(growth, 50), time], -1, 1)

    def legal(self, observation: Any) -> list[list[int]]:
        """No target, and the first planets."""
        return [list(range(min(len(observation["planets"]), TARGETS) + 1)), list(range(len(SHARES)))]

    def decode(self, action: tuple[int, int], observation: Any) -> list[list[int]]:
        """The orders [from, to, ships]."""
        target, share = action
        if not target:
            return []
        goal = self._sorted(observation)[target - 1][1]
        own = [planet for planet in observation["planets"] if planet[3] == observation["player"] and planet[0] != goal]
        sent = [[planet[0], goal, int(planet[4] * SHARES[share])] for planet in own]
        return [order for order in sent if order[2]]

    def _sorted(self, observation: Any) -> list[Any]:
        """Of each planet its order, number, owner, ships, growth, distance from the agent's strongest planet, both
        sides' ships on the way to it, and the ships that it takes. First come planets to conquer, of much growth for
        their ships and distance; then those for which enough ships are on the way, and the agent's own."""
        own, planets = observation["player"], observation["planets"]
        coming = [[0, 0] for _ in planets]
        for owner, count, _, goal, _, _ in observation["fleets"]:
            coming[goal][owner != own] += count
        _, home_x, home_y, *_ = max(planets, key=lambda planet: (planet[3] == own, planet[4]))
        rows = []
        for (number, x, y, owner, count, grows), (mine, theirs) in zip(planets, coming, strict=True):
            away = ((x - home_x) ** 2 + (y - home_y) ** 2) ** 0.5
            need = count + theirs + grows * away - mine if owner == 3 - own else count - mine
            worth = (grows + 0.1) * (1 + (owner != 0)) / (max(need, 0) + 10) / (away + 5)
            order = 2 if owner == own else 1 if need < 0 else -worth
            rows.append((order, number, owner, count, grows, away, mine, theirs, need))
        return sorted(rows)[:PLANETS]
