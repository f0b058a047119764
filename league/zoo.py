"""The games as PettingZoo environments, parallel and, for games in turns, one agent after the other (AEC).

Both seats are played from outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from league.arena.duel import Matches, flat_actions, generator
from league.envs.spaces import gymnasium_spaces, show_observation
from league.errors import UsageError, nearest, quoted, shown
from league.types import SEATS, ActionSpec, Mask, MatchBatch, ends_of
from league.types.arguments import door, typed

try:
    from pettingzoo import AECEnv, ParallelEnv
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "league.zoo needs PettingZoo; install it with: pip install 'league-engine[pettingzoo]'"
    ) from error

Infos = dict[str, dict[str, Any]]

_T = TypeVar("_T")


class _Match:
    """What both faces of one match have: the players by name, their spaces, and one generator.

    Raises:
        UsageError: an argument, or later an action, breaks its rule.
    """

    _is_parallel: ClassVar[bool]

    @door
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
        if self._is_parallel and self._matches.turns is not None:
            raise UsageError(f"game={game!r}: it is played in turns; use league.zoo.TurnMatch")
        self.render_mode, spec = render_mode, self._matches.spec
        name = f"league_{spec.name}_v0"
        self.metadata = {**self._matches.metadata, "name": name, "is_parallelizable": self._is_parallel}
        self.possible_agents = [f"player_{seat}" for seat in range(SEATS)]
        self.agents: list[str] = []
        pairs = {agent: gymnasium_spaces(spec) for agent in self.possible_agents}  # each seeded by itself
        self.observation_spaces = {agent: pair[0] for agent, pair in pairs.items()}
        self.action_spaces = {
            agent: pair[1]
            if self._is_parallel or not _is_number(spec.action)
            else spaces.Discrete(spec.action.choices[0])
            for agent, pair in pairs.items()
        }
        self._rng: np.random.Generator | None = None
        self._is_next_ready = False  # the batch starts the next match in the step that ends one

    @typed
    def observation_space(self, agent: str) -> spaces.Space[Any]:
        """What `agent` sees; always the same object."""
        return _of(self.observation_spaces, agent)

    @typed
    def action_space(self, agent: str) -> spaces.Space[Any]:
        """What `agent` may do; always the same object."""
        return _of(self.action_spaces, agent)

    def render(self) -> npt.NDArray[np.uint8] | None:
        """The picture (height, width, 3), after an end of the next match's start; None without a render mode."""
        return None if self.render_mode is None else self._matches.frame(0)

    def close(self) -> None:
        """Nothing is held open."""

    def _start(self, seed: int | None) -> None:
        if seed is not None or self._rng is None:
            self._rng = generator(seed)
        if seed is not None or not self._is_next_ready:
            self._matches.start([self._rng])
        self.agents, self._is_next_ready = list(self.possible_agents), False


class ParallelMatch(_Match, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """One match at a time; `player_0` is seat 0, `player_1` seat 1.

    Observations, actions, rewards and infos are those of `league.gym.MatchEnv`, for each player.

    Args:
        game: Its name or address (docs/bring.md), or the module or class itself.
        rewards: Reward term -> weight, in place of that of `hyperparameters.toml`.
        render_mode: None, or `rgb_array` where the game can be drawn.
        options: The game's options, in place of those of `hyperparameters.toml`.

    Raises:
        UsageError: an argument, or later an action, breaks its rule.
    """

    _is_parallel = True

    @typed
    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], Infos]:
        """Begins a match: with `seed` a reproducible one, after an end the next, else one that the generator draws.

        `options` has no effect; PettingZoo's own test passes some.
        """
        self._start(seed)
        return self._views()

    def step(
        self, actions: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """One decision of both players.

        Raises:
            UsageError: no match is being played, or there is not one action of its space for each player.
        """
        if not self.agents:
            raise UsageError("step: no match is being played; call reset() first")
        if not isinstance(actions, Mapping) or set(actions) != set(self.agents):
            raise UsageError(f"actions={shown(actions)}: must have one for each of {', '.join(self.agents)}")
        batch, spec, players = self._matches.batch, self._matches.spec, list(enumerate(self.agents))
        for seat, checked in [(s, flat_actions(f"actions['{a}']", actions[a], (), spec.action)) for s, a in players]:
            batch.actions[0, seat] = checked
        batch.step()
        ends = {agent: _ends(batch, seat) for seat, agent in players}
        rewards = dict(zip(self.agents, map(float, self._matches.reward(batch.reward_terms[0])), strict=True))
        if any(ends[self.agents[0]]):
            views = {agent: self._matches.last_view(0, seat) for seat, agent in players}
            obs = {agent: view[0] for agent, view in views.items()}
            infos = {agent: view[1] for agent, view in views.items()}
            self.agents, self._is_next_ready = [], True
        else:
            obs, infos = self._views()
            for seat, agent in players:
                infos[agent]["reward_terms"] = self._matches.named_terms(batch.reward_terms[0, seat].copy())
        flags = ({agent: end[0] for agent, end in ends.items()}, {agent: end[1] for agent, end in ends.items()})
        return obs, rewards, *flags, infos

    def _views(self) -> tuple[dict[str, Any], Infos]:
        batch, players = self._matches.batch, list(enumerate(self.agents))
        obs = {agent: show_observation(self._matches.spec, batch.obs[0, seat]) for seat, agent in players}
        mask = batch.mask
        infos: Infos = {a: {} if mask is None else {"action_mask": mask[0, seat].copy()} for seat, a in players}
        return obs, infos


class TurnMatch(_Match, AECEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """One match at a time of a game in turns; `player_0` is seat 0, `player_1` seat 1. Any other game will do, too.

    Actions are as PettingZoo's own games have them: a number where there is one choice in an action, else an array.
    What is legal is the `action_mask` of the info of the agent that is to decide, as `sample` of its action space takes
    it; of legal tuples it is `legal_tuples`, a list. Where both decide at once, `player_0` decides first, and does not
    see what the other does. Observations, rewards and the last info are those of `league.gym.MatchEnv`.

    Args:
        game: Its name or address (docs/bring.md), or the module or class itself.
        rewards: Reward term -> weight, in place of that of `hyperparameters.toml`.
        render_mode: None, or `rgb_array` where the game can be drawn.
        options: The game's options, in place of those of `hyperparameters.toml`.

    Raises:
        UsageError: an argument, or later an action, breaks its rule.
    """

    _is_parallel = False
    agent_selection: str
    _views: dict[str, Any]

    @typed
    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begins a match: with `seed` a reproducible one, after an end the next, else one that the generator draws.

        `options` has no effect; PettingZoo's own test passes some.
        """
        self._start(seed)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._look()

    def __getattr__(self, name: str) -> Any:
        """Names the cure where what `reset` sets is asked for before it."""
        cure = "" if "rewards" in self.__dict__ else "; call reset() first"
        raise AttributeError(f"TurnMatch has no {name}{cure}")

    def observe(self, agent: str) -> Any:
        """What `agent` sees now; after the end its last view of the match."""
        view = _of(self._views, agent)
        return {name: part.copy() for name, part in view.items()} if isinstance(view, dict) else view.copy()

    def step(self, action: Any) -> None:
        """One decision of `agent_selection`.

        Raises:
            UsageError: no match is being played, or the action is not one of the action space; nothing has moved.
        """
        if not self.agents:
            raise UsageError("step: no match is being played; call reset() first")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        batch, spec = self._matches.batch, self._matches.spec.action
        is_one = _is_number(spec) and spec.kind != "discrete" and np.ndim(action) == 0
        given = np.asarray(action).reshape(1) if is_one else action
        batch.actions[0, self.possible_agents.index(agent)] = flat_actions(f"{agent}'s action", given, (), spec)
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        self._waiting.remove(agent)
        if self._waiting:
            self._accumulate_rewards()
            self.agent_selection = self._waiting[0]
            return
        batch.step()
        rewards = self._matches.reward(batch.reward_terms[0]).tolist()
        for seat, name in enumerate(self.agents):
            self.rewards[name] = rewards[seat]
            self.terminations[name], self.truncations[name] = _ends(batch, seat)
            if batch.terminated[0] or batch.truncated[0]:
                self._views[name], self.infos[name] = self._matches.last_view(0, seat)
                self._is_next_ready = True
        if not self._is_next_ready:
            self._look()
            for seat, name in enumerate(self.agents):
                self.infos[name]["reward_terms"] = self._matches.named_terms(batch.reward_terms[0, seat].copy())
        self._accumulate_rewards()
        self._deads_step_first()

    def _look(self) -> None:
        """Takes over what both see, who is to decide, and what is legal for them."""
        batch, turns, spec = self._matches.batch, self._matches.turns, self._matches.spec
        self._views = {agent: show_observation(spec, batch.obs[0, seat]) for seat, agent in enumerate(self.agents)}
        self._waiting = [agent for seat, agent in enumerate(self.agents) if turns is None or turns.to_act[0, seat]]
        self.agent_selection = self._waiting[0]
        self.infos: Infos = {agent: {} for agent in self.agents}
        if batch.mask is not None:
            for agent in self._waiting:
                mask = batch.mask[0, self.possible_agents.index(agent)]
                self.infos[agent] = _aec_info(spec.action, mask)


def _of(table: Mapping[str, _T], agent: str) -> _T:
    """What a table has of an agent.

    Raises:
        UsageError: there is no such agent.
    """
    if agent not in table:
        raise UsageError(f"agent={quoted(agent)}: there is no such agent{nearest(agent, table)}")
    return table[agent]


def _is_number(action: ActionSpec) -> bool:
    """Whether there is one choice in an action, which is then a number."""
    return action.num_parts == 1 and action.kind in ("discrete", "multi_discrete", "legal_tuples")


def _aec_info(action: ActionSpec, mask: Mask) -> dict[str, Any]:
    """What a mask (M,) allows: a list of legal tuples, or what `sample` of the action space takes."""
    if action.kind == "legal_tuples":
        tuples = action.tuples(mask)
        return {"legal_tuples": [tuple(x) for x in tuples[tuples[:, 0] >= 0].tolist()]}
    if not action.mask_size:
        return {}
    sampling = _sampling_mask(action, mask)
    return {"action_mask": sampling[0] if _is_number(action) and action.kind != "discrete" else sampling}


def _sampling_mask(action: ActionSpec, mask: Mask) -> Any:
    """A mask (M,) as `sample` of the space of `league.envs.contract.check.gymnasium_spaces` takes it."""
    if action.kind == "box":
        return None
    if action.kind == "mixture":
        own = np.split(mask, np.cumsum([part.mask_size for part in action.parts])[:-1])
        parts = [_sampling_mask(part, seen) for part, seen in zip(action.parts, own, strict=True)]
        return dict(zip(action.names, parts, strict=True)) if action.names else tuple(parts)
    if action.kind == "multi_binary":
        return np.where(mask, 2, 0).astype(np.int8)  # 2 is for: 0 or 1
    choices = tuple(part.astype(np.int8) for part in action.split(mask))
    return choices[0] if action.kind == "discrete" else choices


def _ends(batch: MatchBatch, seat: int) -> tuple[bool, bool]:
    """Whether the match of the first row was terminated or truncated for a seat."""
    terminated, truncated = ends_of(batch, np.full(batch.num_rows, seat))
    return bool(terminated[0]), bool(truncated[0])
