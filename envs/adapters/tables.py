"""The two forms of PettingZoo's environments, agents in turn (AEC) and all at once (parallel), as one table for two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.adapters.apart import BOTH, Apart, Drawn, silent
from league.envs.adapters.spaces import Acts, Seen, mask_of
from league.envs.choices import Choices
from league.types import SEATS, FloatArray, ObservationPart

PLAYERS = range(SEATS)
DEAD_TURNS = 100
"""Turns of agents that are out of the game, one after the other; more is an environment that has forgotten to end."""


@dataclass(frozen=True)
class Facts:
    """What an environment with certain keywords is. Players are its agents, in the order of `possible_agents`."""

    make: Callable[[str | None], Any]
    """(render mode) -> the environment."""
    is_parallel: bool
    agents: tuple[str, str]
    seen: tuple[Seen, Seen]
    """Of each player."""
    acts: Acts
    """Of the player who has more of them."""
    num_actions: tuple[int, int] | None
    """Of each player, where they differ; None where they do not."""
    choices: Choices
    frame_rate: float
    has_mask: bool = False
    remembers: bool = False
    """As `solo.Facts.remembers`."""
    drawn: Drawn = BOTH
    weight: float = 1.0

    @property
    def size(self) -> int:
        """How many numbers a seat sees: its own view, zeros where the other's is larger, and which player it is."""
        return max(seen.size for seen in self.seen) + SEATS

    @property
    def parts(self) -> tuple[ObservationPart, ...]:
        """The parts of these; empty where all are numbers."""
        own = self.seen[0].parts
        return (*own, ObservationPart("player", self.size - SEATS, (SEATS,))) if own else ()


@dataclass
class Table:
    """One copy of the environment, a match at a time.

    facts: what it is. render_mode: of its library; None: it cannot be drawn.
    """

    facts: Facts
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
        self._views: list[FloatArray] = [np.zeros(self.facts.size, np.float32) for _ in PLAYERS]
        self._masks: list[Any] = [None] * SEATS

    @property
    def is_over(self) -> bool:
        """Whether nobody is left."""
        return not self.to_act

    @property
    def has_mask(self) -> bool:
        """Whether it tells what is legal."""
        return any(mask is not None for mask in self._masks)

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
        self._views = [np.zeros(self.facts.size, np.float32) for _ in PLAYERS]
        self._masks = [None] * SEATS
        self._apart.seed(seed)
        with self._apart:
            self._begin(seed)

    def step(self, actions: Mapping[int, Any]) -> None:
        """Plays the actions of the players who are to act; of others they are ignored."""
        given = {player: self.facts.acts.to_library(actions[player]) for player in self.to_act}
        with self._apart:
            self._step(given)

    def view(self, player: int) -> FloatArray:
        """What a player sees, or saw last."""
        return self._views[player]

    def legal(self, player: int) -> Any:
        """What a player may do; None where everything."""
        mask, counts = self._masks[player], self.facts.num_actions
        if mask is not None:
            return self.facts.acts.legal(mask)
        return None if counts is None else list(range(counts[player]))

    def cut_off(self) -> None:
        """Pays what players would learn at their next turn, in a match that ends before it."""

    def take_pay(self) -> list[float]:
        """What each player was paid since it was last asked."""
        paid, self.paid = self.paid, [0.0] * SEATS
        return paid

    def render(self) -> npt.NDArray[np.uint8]:
        """Its picture, of a table that was made to be drawn."""
        with silent(), self._apart:
            return np.asarray(self._env.render(), np.uint8)

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

    def _note_end(self, player: int, terminated: bool, truncated: bool) -> None:
        self.terminated[player] |= terminated
        self.truncated[player] |= truncated

    def _make(self) -> Any:
        with silent(), self._apart:
            return self.facts.make(self.render_mode)

    def _see(self, player: int, observation: Any, info: Mapping[str, Any]) -> None:
        seen, flat = self.facts.seen[player], np.zeros(self.facts.size, np.float32)
        flat[: seen.size] = seen.flat(observation)
        flat[player - SEATS] = 1
        self._views[player], self._masks[player] = flat, mask_of(observation, info)


class InTurns(Table):
    """Of an AEC environment. A player is paid what `last()` tells it when its turn comes."""

    def _begin(self, seed: int) -> None:
        self._env.reset(seed=seed)
        self._look()
        self._go_on()

    def _step(self, actions: dict[int, Any]) -> None:
        for action in actions.values():
            self._env.step(action)
        self._look()
        self._go_on()

    def cut_off(self) -> None:
        """As `Table.cut_off`: what `last()` would tell the players that are not to act."""
        for player, agent in enumerate(self.facts.agents):
            if player not in self.to_act and agent in self._env.agents:
                self.paid[player] += float(self._env._cumulative_rewards.get(agent, 0.0))

    def _look(self) -> None:
        env = self._env
        for player, agent in enumerate(self.facts.agents):
            if agent in env.agents:
                self._see(player, env.observe(agent), env.infos.get(agent) or {})
            self._note_end(player, bool(env.terminations.get(agent)), bool(env.truncations.get(agent)))

    def _go_on(self) -> None:
        """Pays whose turn it is, and takes out who is out."""
        env = self._env
        for _ in range(DEAD_TURNS):
            if not env.agents:
                self.to_act = ()
                return
            player = self.facts.agents.index(env.agent_selection)
            _, paid, terminated, truncated, _ = env.last(observe=False)
            self.paid[player] += float(paid)
            if not (terminated or truncated):
                self.to_act = (player,)
                return
            env.step(None)
        raise RuntimeError(f"agents that are out have had {DEAD_TURNS} turns, and are still listed")


class AtOnce(Table):
    """Of a parallel environment. Who is out waits for the other."""

    def _begin(self, seed: int) -> None:
        observations, infos = self._env.reset(seed=seed)
        self._look(observations, infos or {})

    def _step(self, actions: dict[int, Any]) -> None:
        agents = self.facts.agents
        given = {agents[player]: action for player, action in actions.items()}
        observations, rewards, terminated, truncated, infos = self._env.step(given)
        for player, agent in enumerate(agents):
            self.paid[player] += float(rewards.get(agent, 0.0))
            self._note_end(player, bool(terminated.get(agent)), bool(truncated.get(agent)))
        self._look(observations, infos)

    def _look(self, observations: Mapping[str, Any], infos: Mapping[str, Any]) -> None:
        for player, agent in enumerate(self.facts.agents):
            if agent in observations:
                self._see(player, observations[agent], infos.get(agent) or {})
        self.to_act = tuple(
            player
            for player in PLAYERS
            if self.facts.agents[player] in self._env.agents
            and not (self.terminated[player] or self.truncated[player])  # some forget to take them off the list
        )
