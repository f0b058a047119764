"""The two forms of PettingZoo's environments, agents in turn (AEC) and all at once (parallel), as one table for two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.adapters.actions import mask_of, need_mask
from league.envs.adapters.isolation import BOTH, Apart, Drawn, silent
from league.envs.adapters.replies import (
    LAST,
    PARALLEL,
    ReplyError,
    begun,
    by_agent,
    flag_of,
    giving,
    reward_of,
    stepped,
    told,
)
from league.envs.adapters.roles import Deeds, SharedLayout
from league.envs.drawing import as_picture
from league.envs.matches.choices import Choices
from league.types import SEATS, FloatArray

PLAYERS = range(SEATS)
DEAD_TURNS = 100
"""Turns of agents that are out of the game, one after the other; more is an environment that has forgotten to end."""


@dataclass(frozen=True)
class ZooFacts:
    """What an environment with certain keywords is. Players are its agents, in the order of `agents_of`."""

    make: Callable[[str | None], Any]
    """(render mode) -> the environment."""
    is_parallel: bool
    views: SharedLayout
    deeds: Deeds
    choices: Choices
    frame_rate: float
    has_mask: bool = False
    remembers: bool = False
    """As `solo.Facts.remembers`."""
    drawn: Drawn = BOTH
    is_won: bool = False
    """As `probing.Found.is_won`."""


def agents_of(env: Any) -> tuple[Any, ...]:
    """The agents of an environment that was reset, in the order of `possible_agents`.

    Without these, or where the reset has called its agents otherwise, in that of `agents`.

    Raises:
        ReplyError: it has none.
    """
    agents = listed(env)
    if not agents:
        raise ReplyError("no agents: `agents` is empty")
    if len({*agents}) < len(agents):
        raise ReplyError(f"agents={told(agents)}, which names an agent twice")
    possible = getattr(env, "possible_agents", None)
    possible = tuple(possible) if isinstance(possible, list | tuple) else ()
    return possible if set(agents) <= set(possible) else tuple(agents)


def listed(env: Any) -> list[Any] | tuple[Any, ...]:
    """Its `agents`.

    Raises:
        ReplyError: they are no list.
    """
    agents = getattr(env, "agents", None)
    if isinstance(agents, list | tuple):
        return agents
    raise ReplyError(f"agents={told(agents)}, which must be a list")


@dataclass
class TwoAgentTable:
    """One copy of the environment, a match at a time.

    facts: what it is. render_mode: of its library; None: it cannot be drawn.
    """

    facts: ZooFacts
    render_mode: str | None = None
    to_act: tuple[int, ...] = ()
    """The players who decide next; empty: it is over."""
    paid: list[float] = field(default_factory=lambda: [0.0] * SEATS)
    """What each player was paid since `take_pay`."""
    terminated: list[bool] = field(default_factory=lambda: [False] * SEATS)
    """Whether the environment has terminated each player."""
    truncated: list[bool] = field(default_factory=lambda: [False] * SEATS)
    """Whether it has truncated each player."""

    def __post_init__(self) -> None:
        self._apart, self._is_used = Apart(self.facts.drawn), False
        self._env = self._make()
        self._views: list[FloatArray] = []
        self._masks: list[Any] = [None] * SEATS
        self._had_mask = [False] * SEATS
        self._legal: list[Any] = [None] * SEATS
        self._living: tuple[int, ...] = ()
        """The players that `agents` listed and that were not out."""
        self._steps = 0
        self.agents: tuple[Any, ...] = ()
        """What the environment calls the players in this match."""
        self._gone: frozenset[Any] = frozenset()
        """Agents that have left `agents` by an end."""
        self._names: frozenset[Any] = frozenset()
        self._seen_ends: Any = None
        """The agents and ends that `_need_ended` has last looked at."""

    @property
    def is_over(self) -> bool:
        """Whether nobody is left."""
        return not self.to_act

    @property
    def has_mask(self) -> bool:
        """Whether it tells what is legal."""
        return any(self._had_mask)

    @property
    def cuts(self) -> tuple[bool, bool]:
        """Whether each player is truncated if the match ends now: one that was not terminated in a match that was cut.

        The environment has truncated a player, or the match ends while a player is still to act.
        """
        is_cut = not self.is_over or any(self.truncated)
        return is_cut and not self.terminated[0], is_cut and not self.terminated[1]

    def begin(self, seed: int) -> None:
        """Begins the match of a seed."""
        if self.facts.remembers and self._is_used:
            self._env.close()
            self._apart.seed(0)
            self._env = self._make()
        self._is_used, self.paid = True, [0.0] * SEATS
        self.terminated, self.truncated = [False] * SEATS, [False] * SEATS
        self._views = [np.zeros(self.facts.views.size, np.float32) for _ in PLAYERS]
        self._masks, self._had_mask, self._living, self._steps = [None] * SEATS, [False] * SEATS, (), 0
        self._apart.seed(seed)
        with self._apart, giving("reset"):
            self._begin(seed)
            self._read_masks()

    def step(self, actions: Mapping[int, Any]) -> None:
        """Plays the actions of the players who are to act; of others they are ignored."""
        given = {player: self.facts.deeds.to_library(player, actions[player]) for player in self.to_act}
        self._steps += 1
        with self._apart, giving(f"step {self._steps}"):
            self._step(given)
            self._read_masks()

    def view(self, player: int) -> FloatArray:
        """What a player sees, or saw last."""
        return self._views[player]

    def legal(self, player: int) -> Any:
        """What a player may do; None where everything."""
        return self._legal[player]

    def cut_off(self) -> None:
        """Pays what players would learn at their next turn, in a match that ends before it."""

    def take_pay(self) -> list[float]:
        """What each player was paid since it was last asked."""
        paid, self.paid = self.paid, [0.0] * SEATS
        return paid

    def render(self) -> npt.NDArray[np.uint8]:
        """Its picture, of a table that was made to be drawn."""
        with silent(), self._apart:
            return as_picture(self._env.render())

    def act_at_random(self, rng: np.random.Generator) -> float:
        """See `probing.Played`."""
        choices, actions = self.facts.choices, {}
        for player in self.to_act:
            legal = self.legal(player)
            actions[player] = choices.draw(choices.everything if legal is None else choices.look_up(legal)[0], rng)
        self.step(actions)
        return self.take_pay()[0]

    def show(self) -> npt.NDArray[Any]:
        """See `probing.Played`."""
        return np.concatenate([*self._views, [player in self.to_act for player in PLAYERS]])

    def drawn_since(self, seed: int) -> Drawn:
        """See `probing.Played`."""
        return self._apart.drawn_since(seed)

    def _begin(self, seed: int) -> None:
        raise NotImplementedError

    def _step(self, actions: dict[int, Any]) -> None:
        raise NotImplementedError

    def _note_end(self, player: int, terminated: Any, truncated: Any) -> None:
        self.terminated[player] |= flag_of("terminated", terminated, self._whose(player))
        self.truncated[player] |= flag_of("truncated", truncated, self._whose(player))

    def _make(self) -> Any:
        with silent(), self._apart:
            return self.facts.make(self.render_mode)

    def _see(self, player: int, observation: Any, info: Any) -> None:
        try:
            self._views[player] = self.facts.views.flat(player, observation)
            if isinstance(info, Mapping):
                self._masks[player] = mask_of(observation, info)
        except ReplyError as error:
            raise ReplyError(f"{error}{self._whose(player)}") from None
        if not isinstance(info, Mapping):
            raise ReplyError(f"infos with {told(info)}{self._whose(player)}, which must be a dict")

    def _read_masks(self) -> None:
        for player in self.to_act:
            mask = self._masks[player]
            try:
                if mask is None:
                    need_mask(self._had_mask[player], self.facts.views.of(player))
                self._legal[player] = self.facts.deeds.legal(player, mask)
            except ReplyError as error:
                raise ReplyError(f"{error}{self._whose(player)}") from None
            self._had_mask[player] = mask is not None

    def _need_ended(self) -> None:
        """Refuses an agent that has left `agents` without an end, and notes who is left."""
        agents = listed(self._env)
        ends = (*agents, *self.terminated, *self.truncated)
        if ends == self._seen_ends:
            return
        self._seen_ends = ends
        for agent in agents:
            self._need_known(agent)
            if agent in self._gone:
                raise ReplyError(f"agents={told(agents)} with {agent!r}, which had left them")
        for player in self._living:
            if self.agents[player] not in agents and not (self.terminated[player] or self.truncated[player]):
                raise ReplyError(
                    f"agents={told(agents)} without {self.agents[player]!r}, which was neither terminated nor truncated"
                )
        self._gone |= {self.agents[player] for player in self._living}.difference(agents)
        is_out = [self.terminated[player] or self.truncated[player] for player in PLAYERS]  # some still list these
        self._living = tuple(p for p in PLAYERS if self.agents[p] in agents and not is_out[p])

    def _need_agents_in(self, name: str, value: Any, players: tuple[int, ...]) -> Mapping[Any, Any]:
        """A dict by agent that has these players, and nobody but the players."""
        if type(value) is dict and value.keys() == self._names:
            return value  # of most steps
        given = by_agent(name, value)
        for player in players:
            if self.agents[player] not in given:
                raise ReplyError(f"{name} without agent {self.agents[player]!r}, which is in `agents`")
        for agent in given:
            self._need_known(agent, f"{name} with ")
        return given

    def _whose(self, player: int) -> str:
        return f" of agent {self.agents[player]!r}"

    def _need_two(self) -> None:
        self.agents = agents_of(self._env)
        self._names, self._seen_ends, self._gone = frozenset(self.agents), None, frozenset()
        if len(self.agents) != SEATS:
            raise ReplyError(f"the agents {told(list(self.agents))}, which must be {SEATS}")

    def _need_known(self, agent: Any, whose: str = "an agent ") -> None:
        if agent not in self.agents:
            raise ReplyError(f"{whose}{agent!r}, which is none of {told(list(self.agents))}")


OF_AGENTS = ("rewards", "terminations", "truncations", "infos")
"""What an AEC environment has by agent."""


class InTurns(TwoAgentTable):
    """Of an AEC environment. A player is paid what `last()` tells it when its turn comes."""

    def cut_off(self) -> None:
        """As `TwoAgentTable.cut_off`: what `last()` would tell the players that are not to act."""
        for player, agent in enumerate(self.agents):
            if player not in self.to_act and agent in self._env.agents:
                self.paid[player] += reward_of(self._env._cumulative_rewards.get(agent, 0.0), self._whose(player))

    def _begin(self, seed: int) -> None:
        self._env.reset(seed=seed)
        self._need_two()
        self._look()
        self._go_on()

    def _step(self, actions: dict[int, Any]) -> None:
        for action in actions.values():
            self._env.step(action)
        self._look()
        self._go_on()

    def _look(self) -> None:
        env = self._env
        agents = listed(env)
        present = tuple(player for player, agent in enumerate(self.agents) if agent in agents)
        _, terminated, truncated, infos = (
            self._need_agents_in(name, getattr(env, name, None), present) for name in OF_AGENTS
        )
        for player, agent in enumerate(self.agents):
            if player in present:
                self._see(player, env.observe(agent), infos[agent])
            self._note_end(player, terminated.get(agent, False), truncated.get(agent, False))

    def _go_on(self) -> None:
        """Pays whose turn it is, and takes out who is out."""
        env = self._env
        for _ in range(DEAD_TURNS):
            self._need_ended()
            if not env.agents:
                self.to_act = ()
                return
            self._need_known(env.agent_selection, "agent_selection=")
            player = self.agents.index(env.agent_selection)
            _, paid, terminated, truncated, _ = stepped(env.last(observe=False), LAST)
            self.paid[player] += reward_of(paid, self._whose(player))
            if not (terminated or truncated):
                self.to_act = (player,)
                return
            self._note_end(player, terminated, truncated)
            env.step(None)
        raise ReplyError(f"{DEAD_TURNS} turns to agents that are terminated or truncated; take them out of `agents`")


class AtOnce(TwoAgentTable):
    """Of a parallel environment. Who is out waits for the other."""

    def _begin(self, seed: int) -> None:
        observations, infos = begun(self._env.reset(seed=seed), PARALLEL)
        self._need_two()
        self._look(observations, infos)

    def _step(self, actions: dict[int, Any]) -> None:
        given = {self.agents[player]: action for player, action in actions.items()}
        observations, *dicts, infos = stepped(self._env.step(given), PARALLEL)
        rewards, terminated, truncated = (
            self._need_agents_in(*pair, self._living) for pair in zip(PARALLEL[1:4], dicts, strict=True)
        )
        for player, agent in enumerate(self.agents):
            self.paid[player] += reward_of(rewards.get(agent, 0.0), self._whose(player))
            self._note_end(player, terminated.get(agent, False), truncated.get(agent, False))
        self._look(observations, infos)

    def _look(self, observations: Any, infos: Any) -> None:
        self._need_ended()
        self.to_act = self._living
        seen = self._need_agents_in(PARALLEL[0], observations, self.to_act)
        told_of = self._need_agents_in(PARALLEL[4], infos, self.to_act)
        for player, agent in enumerate(self.agents):
            if agent in seen:
                self._see(player, seen[agent], told_of.get(agent, {}))
