"""Environments of Gymnasium with something odd about them, for tests: `gymnasium:tests.helpers.gym_envs:ID`."""

import random
import sys
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env[Any, Any]):
    """Ten steps; the sum of what was chosen is seen. `kind` says what is odd."""

    def __init__(self, kind: str = "plain", length: int = 10) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(3, start=-1)
        self.kind, self.length, self.sum, self.steps, self.episodes = kind, length, 0.0, 0, 0
        if kind == "prints":
            print("made")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins at a place that is drawn."""
        super().reset(seed=seed)
        self.steps, self.episodes = 0, self.episodes + 1
        self.sum = float(self.np_random.integers(5))
        if self.kind == "remembers":
            self.sum += self.episodes
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Adds the choice and what is drawn from somewhere."""
        assert action in (-1, 0, 1)
        self.steps += 1
        self.sum += float(action)
        if self.kind == "globals":
            self.sum += random.random() + np.random.random()
        elif self.kind == "entropy":
            self.sum += np.random.default_rng().random()
        elif self.kind == "prints":
            print("a step")
            print("an error", file=sys.stderr)
        pay = self.sum
        if self.kind == "remembers_pay":
            pay = self.sum * self.episodes
        elif self.kind == "entropy_pay":
            pay = np.random.default_rng().random()
        end = self.length + (self.episodes % 3 if self.kind == "remembers_end" else 0)
        return self._see(), pay / 10, self.steps == end, False, {}

    def _see(self) -> Any:
        return np.array([self.sum, float(self.steps)])


class Nothing(Walk):
    """Cannot be seen or acted in, as `kind` says."""

    def __init__(self, kind: str = "text") -> None:
        super().__init__()
        if kind == "text":
            self.observation_space = spaces.Text(10)
        elif kind == "unbounded":
            self.action_space = spaces.Box(-np.inf, np.inf, (2,))
        else:
            raise ValueError("no such\nkind")


for name, kind in {"Plain": "plain", "Globals": "globals", "Entropy": "entropy", "Prints": "prints"}.items():
    gymnasium.register(f"Walk{name}-v0", Walk, kwargs={"kind": kind}, max_episode_steps=50)
for kind in ("remembers", "remembers_pay", "remembers_end", "entropy_pay"):
    gymnasium.register(f"Walk{kind.title().replace('_', '')}-v0", Walk, kwargs={"kind": kind}, max_episode_steps=50)
for name in ("text", "unbounded", "broken"):
    gymnasium.register(f"{name.title()}-v0", Nothing, kwargs={"kind": name})


class Swarm(Walk):
    """As many rows as the steps since the beginning, modulo 4."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Sequence(spaces.Box(-100.0, 100.0, (2,), np.float64))

    def _see(self) -> Any:
        return tuple(np.array([self.sum, number]) for number in range(self.steps % 4))


gymnasium.register("Swarm-v0", Swarm)


class Scaled(gymnasium.Env[Any, Any]):
    """Eight steps; right is whichever side of its mean the first number is on. What is seen has no bounds.

    Args:
        scale, shift: of what is seen.
        paid: of a right answer.
    """

    def __init__(self, scale: float = 1.0, shift: float = 0.0, paid: float = 1.0) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.scale, self.shift, self.paid, self.steps = scale, shift, paid, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins."""
        super().reset(seed=seed)
        self.steps = 0
        return self._see(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Pays a right answer."""
        paid = self.paid * (int(action) == (self.seen[0] > 0.0))
        self.steps += 1
        return self._see(), paid, self.steps == 8, False, {}

    def _see(self) -> Any:
        self.seen = np.append(self.np_random.normal(size=2), 1.0)  # the last number never changes
        return self.scale * self.seen + self.shift


gymnasium.register("Scaled-v0", Scaled)
