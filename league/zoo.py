"""The games as PettingZoo parallel environments: both seats are played from outside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.utils import seeding

from league.duel import Matches, check_actions
from league.envs.base import gymnasium_spaces
from league.errors import UsageError
from league.types import SEATS, FloatArray

try:
    from pettingzoo import ParallelEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "league.zoo needs PettingZoo; install it with: pip install 'league-engine[pettingzoo]'"
    ) from error

Infos = dict[str, dict[str, Any]]


class ParallelMatch(ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """One match at a time; `player_0` is seat 0, `player_1` seat 1.

    Observations, actions, rewards and infos are those of `league.gym.MatchEnv`, for each player.

    Args:
        game: Its name or address (docs/games.md), or the module or class itself.
        rewards: Reward term -> weight, in place of that of `hyperparameters.toml`.
        render_mode: None, or `rgb_array` where the game can be drawn.
        options: The game's options, in place of those of `hyperparameters.toml`.

    Raises:
        UsageError: an argument, or later an action, breaks its rule.
    """

    def __init__(
        self,
        game: object,
        rewards: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._matches = Matches(
            game, 1, rewards=rewards, render_mode=render_mode, options=options, keywords=("rewards", "render_mode")
        )
        self.render_mode = render_mode
        name = f"league_{self._matches.spec.name}_v0"
        self.metadata = {**self._matches.metadata, "name": name, "is_parallelizable": True}
        self.possible_agents = [f"player_{seat}" for seat in range(SEATS)]
        self.agents: list[str] = []
        pairs = {agent: gymnasium_spaces(self._matches.spec) for agent in self.possible_agents}  # each seeded by itself
        self.observation_spaces = {agent: pair[0] for agent, pair in pairs.items()}
        self.action_spaces = {agent: pair[1] for agent, pair in pairs.items()}
        self._rng: np.random.Generator | None = None
        self._is_next_ready = False  # the batch starts the next match in the step that ends one

    def observation_space(self, agent: str) -> spaces.Box:
        """What `agent` sees; always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.MultiBinary | spaces.MultiDiscrete:
        """What `agent` may do; always the same object."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, FloatArray], Infos]:
        """Begins a match: with `seed` a reproducible one, after an end the next, else one that the generator draws.

        `options` has no effect; PettingZoo's own test passes some.
        """
        if seed is not None or self._rng is None:
            self._rng = seeding.np_random(seed)[0]
        if seed is not None or not self._is_next_ready:
            self._matches.start([self._rng])
        self.agents, self._is_next_ready = list(self.possible_agents), False
        return self._views()

    def step(
        self, actions: Mapping[str, npt.ArrayLike]
    ) -> tuple[dict[str, FloatArray], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """One decision of both players.

        Raises:
            UsageError: no match is being played, or there is not one action of its space for each player.
        """
        if not self.agents:
            raise UsageError("step: no match is being played; call reset() first")
        if set(actions) != set(self.agents):
            raise UsageError(f"actions: must have one for each of {', '.join(self.agents)}, got {sorted(actions)}")
        batch, spec, players = self._matches.batch, self._matches.spec, list(enumerate(self.agents))
        shape = (spec.action.num_parts,)
        for seat, checked in [
            (s, check_actions(f"actions['{a}']", actions[a], shape, spec.action)) for s, a in players
        ]:
            batch.actions[0, seat] = checked
        batch.step()
        terminated, truncated = bool(batch.terminated[0]), bool(batch.truncated[0])
        rewards = dict(zip(self.agents, map(float, self._matches.reward(batch.reward_terms[0])), strict=True))
        if terminated or truncated:
            views = {agent: self._matches.last_view(0, seat) for seat, agent in players}
            obs = {agent: view[0] for agent, view in views.items()}
            infos = {agent: view[1] for agent, view in views.items()}
            self.agents, self._is_next_ready = [], True
        else:
            obs, infos = self._views()
            for seat, agent in players:
                infos[agent]["reward_terms"] = self._matches.named_terms(batch.reward_terms[0, seat].copy())
        flags = (dict.fromkeys(obs, terminated), dict.fromkeys(obs, truncated))
        return obs, rewards, *flags, infos

    def render(self) -> npt.NDArray[np.uint8] | None:
        """The picture (height, width, 3), after an end of the next match's start; None without a render mode."""
        return None if self.render_mode is None else self._matches.frame(0)

    def close(self) -> None:
        """Nothing is held open."""

    def _views(self) -> tuple[dict[str, FloatArray], Infos]:
        batch, players = self._matches.batch, list(enumerate(self.agents))
        obs = {agent: batch.obs[0, seat].copy() for seat, agent in players}
        mask = batch.mask
        infos: Infos = {a: {} if mask is None else {"action_mask": mask[0, seat].copy()} for seat, a in players}
        return obs, infos
