"""One copy of an environment of Kaggle, stepped as `kaggle_environments.core.Environment` steps it, but faster."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from kaggle_environments import utils

from league.envs.adapters.isolation import BOTH, Apart, Drawn
from league.envs.adapters.replies import ReplyError, giving, reward_of, told
from league.envs.matches.choices import Choices
from league.envs.matches.row import flat_of
from league.types import SEATS, FloatArray

ACTIVE, INACTIVE, DONE = "ACTIVE", "INACTIVE", "DONE"
INVALID, ERROR = "INVALID", "ERROR"
FAULTS = (INVALID, ERROR, "TIMEOUT")
"""Statuses of an agent that has lost by a fault."""
SEEDS = ("seed", "randomSeed")
"""Keys of a configuration that the match sets."""
PLAYERS = range(SEATS)
PLAIN = frozenset({int, float, str, bool, type(None)})
RAW = "raw"
"""The key of an action that is JSON for the environment, as its own agents give it. One that failed gives none."""
NUMBERED = "numbers"
"""The key beside it of the encoder's action, where the encoder tells (`encode_action`)."""


class KaggleEncoder(Protocol):
    """Turns observations into arrays and actions into JSON, and remembers nothing. `Encoder(configuration)` makes one.

    It may also have `obs_range`, (0, 1) if left out; `imperfect_information`, as of `Match`, False if left out;
    `legal(observation)`: a list of the legal actions, or such a list for each part; and `encode_action(action,
    observation)`, the inverse of `decode`, or None, by which bots are imitated.
    """

    obs_size: int
    action: Any
    """The number of actions, or such a number for each part."""

    def encode(self, observation: Any) -> npt.ArrayLike:
        """An observation as (obs_size,) numbers, also of an agent that waits or is out."""

    def decode(self, action: Any, observation: Any) -> Any:
        """An action, a number or a tuple of one a part, as the environment takes it."""


@dataclass(frozen=True)
class KaggleFacts:
    """What an environment under one configuration is."""

    env: Any
    """The `Environment`, which has not begun."""
    interpret: Callable[..., Any]
    shared: tuple[str, ...]
    """Keys of an observation that lie in the first agent's alone."""
    hidden: tuple[str, ...]
    """Keys that no agent sees."""
    action: Mapping[str, Any]
    """JSON schema of an action."""
    is_valid: Callable[[Any], bool]
    """Whether JSON is an action."""
    encoder: KaggleEncoder
    choices: Choices
    in_turns: bool = False
    has_mask: bool = False
    remembers: bool = False
    drawn: Drawn = BOTH
    is_won: bool = False
    """As `probing.ProbeResult` has the last four."""


class KaggleTable:
    """One copy of the environment, a match at a time."""

    def __init__(self, facts: KaggleFacts) -> None:
        self.facts, self._apart = facts, Apart(facts.drawn)
        self._env = facts.env
        self.has_mask = hasattr(facts.encoder, "legal")
        self._seen: list[Any] = [None] * SEATS
        self._rewards = [0.0] * SEATS

    @property
    def env(self) -> Any:
        """The `Environment`: its `steps` have the states of both agents, its `configuration` the match's seed."""
        return self._env

    @property
    def statuses(self) -> list[str]:
        """Of both agents."""
        return [agent.status for agent in self._env.state]

    @property
    def is_over(self) -> bool:
        """Whether no agent is to act."""
        return bool(self._env.done)

    @property
    def rewards(self) -> list[float]:
        """Kaggle's reward of each agent; that of one that has lost by a bad status is the last before."""
        return self._rewards

    def begin(self, seed: int) -> None:
        """Begins the match of a seed, as `Environment.reset` does."""
        env = self._env = copy.copy(self.facts.env)
        env.configuration, env.info, env.logs = copied(env.configuration), {}, []
        for word in SEEDS:
            if word in env.specification.configuration:
                setattr(env.configuration, word, seed)
        statuses = self.statuses
        state = copied(env.state)
        for agent in state:
            agent.status = INACTIVE
        env.state, env.steps = state, [state]
        self._apart.seed(seed)
        self._interpret(state, "reset")
        env.steps = [env.state]
        if env.done:
            for agent, status in zip(env.state, statuses, strict=True):
                agent.status = status
        self._rewards = [0.0] * SEATS
        self._look()

    def step(self, actions: Mapping[int, Any]) -> None:
        """Plays what the agents who are to act do, as numbers of the encoder, or as JSON under the key `raw`."""
        env, given = self._env, []
        for player, agent in enumerate(self._env.state):
            is_acting = agent.status == ACTIVE
            given.append({**agent, **(self._acted(player, actions[player]) if is_acting else {"action": None})})
        self._interpret(copied(given), f"step {len(env.steps)}")
        if env.state[0].observation.step >= env.configuration.episodeSteps - 1:
            for agent in env.state:
                agent.status = DONE if agent.status in (ACTIVE, INACTIVE) else agent.status
        env.steps.append(env.state)
        self._look()

    def observation(self, player: int) -> Any:
        """What an agent sees; not to be changed."""
        if self._seen[player] is None:
            self._seen[player] = self.observed(self._env.state, player)
        return self._seen[player]

    def observed(self, state: Any, player: int) -> Any:
        """What an agent saw in a state."""
        first, own = state[0].observation, state[player].observation
        seen = {**own, **{key: first[key] for key in self.facts.shared if key in first}}
        return utils.Struct(**{key: value for key, value in seen.items() if key not in self.facts.hidden})

    def view(self, player: int) -> FloatArray:
        """What the encoder makes of that: (obs_size,), its own array perhaps.

        Raises:
            ReplyError: it is something else.
        """
        encoder = self.facts.encoder
        seen = encoder.encode(self.observation(player))
        try:
            return flat_of(seen, encoder.obs_size, f"{type(encoder).__name__}.encode")
        except ValueError as error:
            raise ReplyError(str(error)) from None

    def legal(self, player: int) -> Any:
        """What an agent that is to act may do: what the encoder says, where it does."""
        legal = getattr(self.facts.encoder, "legal", None)
        if legal is None or self._env.state[player].status != ACTIVE:
            return self.facts.choices.everything
        return legal(self.observation(player))

    def numbered(self, player: int, action: Mapping[str, Any]) -> dict[str, Any]:
        """What else an agent's JSON holds: the encoder's action that it stands for, where the encoder tells one."""
        encode = getattr(self.facts.encoder, "encode_action", None)
        if encode is None or RAW not in action or (found := encode(action[RAW], self.observation(player))) is None:
            return {}
        choices, legal = self.facts.choices, self.legal(player)
        try:
            return {NUMBERED: choices.check(found, choices.look_up(legal)[0] if self.has_mask else choices.everything)}
        except ValueError as error:
            raise ReplyError(f"encode_action {error}") from None

    def act_at_random(self, rng: np.random.Generator) -> float:
        """See `probing.ProbedCopy`."""
        choices, before = self.facts.choices, sum(self._rewards)
        self.step({player: choices.draw(choices.look_up(self.legal(player))[0], rng) for player in PLAYERS})
        return sum(self._rewards) - before

    def show(self) -> npt.NDArray[Any]:
        """See `probing.ProbedCopy`."""
        acting = [status == ACTIVE for status in self.statuses]
        return np.concatenate([*(np.ravel(self.view(player)) for player in PLAYERS), acting])

    def drawn_since(self, seed: int) -> Drawn:
        """See `probing.ProbedCopy`."""
        return self._apart.drawn_since(seed)

    def _acted(self, player: int, action: Any) -> dict[str, Any]:
        """What an agent's state changes to by its action, as `Environment.step` has it."""
        if type(action) is not dict:
            found = self.facts.encoder.decode(action, self.observation(player))
        elif RAW in action:
            found = copy.deepcopy(action[RAW])
        else:
            return {"action": None, "status": ERROR}
        found = utils.default_schema(self.facts.action, found)
        return {"action": found} if self.facts.is_valid(found) else {"action": None, "status": INVALID}

    def _interpret(self, state: Any, call: str) -> None:
        """Calls the interpreter, as `Environment` does."""
        env, interpret = self._env, self.facts.interpret
        arguments: tuple[Any, ...] = (state, env, [])[: interpret.__code__.co_argcount]
        with self._apart, giving(call):
            found = interpret(*arguments)
            if not isinstance(found, list) or len(found) != SEATS:
                raise ReplyError(f"{told(found)}, which must be the states of {SEATS} agents")
        found[0].observation["step"] = 0 if env.done else len(env.steps)
        found = copied(found)
        for agent in found:
            if agent.status not in (ACTIVE, INACTIVE, DONE, *FAULTS):
                agent.status = INVALID
            if agent.status in FAULTS:
                agent.reward = None
        env.state = found

    def _look(self) -> None:
        self._seen = [None] * SEATS
        for player, agent in enumerate(self._env.state):
            if agent.reward is not None:
                self._rewards[player] = reward_of(agent.reward)


def copied(value: Any) -> Any:
    """As `utils.structify`, which copies lists and makes a `Struct` of each dictionary, several times as fast."""
    if isinstance(value, list):
        return [x if type(x) in PLAIN else copied(x) for x in value]
    if isinstance(value, dict):
        return utils.Struct(**{key: x if type(x) in PLAIN else copied(x) for key, x in value.items()})
    return value
