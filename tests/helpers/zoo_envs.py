"""Environments of PettingZoo with something odd about them, for tests: a module each, as the library has them."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

AGENTS = ["wide", "narrow"]


class Uneven(ParallelEnv[str, Any, Any]):
    """Two agents at once that see and do different things; the second is cut after three steps, the first goes on."""

    def __init__(self, length: int = 6, render_mode: str | None = None) -> None:
        self.metadata = {"name": "uneven_v0", "render_modes": []}
        self.render_mode, self.length = render_mode, length
        self.possible_agents = list(AGENTS)

    def observation_space(self, agent: str) -> Any:
        """Two numbers for one, one for the other."""
        return spaces.Box(-10, 10, (2 if agent == "wide" else 1,), np.float32)

    def action_space(self, agent: str) -> Any:
        """Four actions for one, two for the other."""
        return spaces.Discrete(4 if agent == "wide" else 2)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begins at numbers that are drawn."""
        self.agents, self.steps = list(AGENTS), 0
        self.rng = np.random.default_rng(seed)
        self.start = self.rng.integers(5, size=2)
        return self._see(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> Any:
        """Pays each what it chose."""
        assert set(actions) == set(self.agents)
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items())
        self.steps += 1
        seen = self._see()
        rewards = {agent: float(action) for agent, action in actions.items()}
        out = {agent: agent == "wide" and self.steps == self.length for agent in actions}
        cut = {agent: agent == "narrow" and self.steps == 3 for agent in actions}
        self.agents = [agent for agent in self.agents if not (out[agent] or cut[agent])]
        return seen, rewards, out, cut, {agent: {} for agent in seen}

    def _see(self) -> Any:
        seen = {"wide": [*self.start[:1], self.steps], "narrow": [self.start[1]]}
        return {agent: np.array(seen[agent], np.float32) for agent in self.agents}


class Swarms(Uneven):
    """Each agent sees a sequence: two rows of two numbers, and five of one."""

    def observation_space(self, agent: str) -> Any:
        """Of any length."""
        return spaces.Sequence(spaces.Box(0, 4, (2 if agent == "wide" else 1,), np.float32))

    def _see(self) -> Any:
        seen = {"wide": np.full((2, 2), 3, np.float32), "narrow": np.full((5, 1), 3, np.float32)}
        return {agent: seen[agent] for agent in self.agents}


class Payday(AECEnv[str, Any, Any]):
    """Agents in turn; each is paid for the other's choices, too. The second is out of it after two turns of its own."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.metadata = {"name": "payday_v0", "render_modes": []}
        self.render_mode, self.possible_agents = render_mode, list(AGENTS)

    def observation_space(self, agent: str) -> Any:
        """Turns made, and what may be done."""
        return spaces.Dict({"observation": spaces.Discrete(20), "action_mask": spaces.Box(0, 1, (3,), np.int8)})

    def action_space(self, agent: str) -> Any:
        """Three actions."""
        return spaces.Discrete(3)

    def observe(self, agent: str) -> Any:
        """The turns made; the third action is legal in every other turn."""
        mask = np.array([1, 1, self.turns % 2], np.int8)
        return {"observation": self.turns, "action_mask": mask}

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begins; who is first is drawn."""
        self.agents, self.turns = list(AGENTS), 0
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations, self.truncations = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, False)
        self.infos = {agent: {} for agent in AGENTS}
        self.made = dict.fromkeys(AGENTS, 0)
        self.agent_selection = AGENTS[int(np.random.default_rng(seed).integers(2))]

    def step(self, action: Any) -> None:
        """Pays the one who chose, and the other half of it."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        assert Payday.observe(self, agent)["action_mask"][action]
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        for each in self.agents:
            self.rewards[each] = float(action) if each == agent else action / 2
        self._accumulate_rewards()
        self.turns += 1
        self.made[agent] += 1
        if agent == "narrow" and self.made[agent] == 2:
            self.terminations[agent] = True
        if agent == "wide" and self.made[agent] == 4:
            self.truncations[agent] = True
        others = [each for each in self.agents if each != agent and not self._is_out(each)]
        self.agent_selection = others[0] if others else agent
        self._deads_step_first()

    def _is_out(self, agent: str) -> bool:
        return self.terminations[agent] or self.truncations[agent]


class Emptied(Uneven):
    """Truncates both agents after four steps, and clears the list."""

    def step(self, actions: dict[str, Any]) -> Any:
        """As `Uneven.step`."""
        seen, rewards, *_ = super().step(actions)
        self.agents = [] if self.steps == 4 else list(AGENTS)
        out = dict.fromkeys(AGENTS, False)
        return seen, rewards, out, dict.fromkeys(AGENTS, self.steps == 4), {agent: {} for agent in AGENTS}


class StillListed(Uneven):
    """Truncates both agents after four steps, and forgets to clear the list."""

    def step(self, actions: dict[str, Any]) -> Any:
        """As `Uneven.step`."""
        seen, rewards, *_ = super().step(actions)
        self.agents = list(AGENTS)
        seen = self._see()
        return (
            seen,
            rewards,
            dict.fromkeys(AGENTS, False),
            dict.fromkeys(AGENTS, self.steps == 4),
            {a: {} for a in AGENTS},
        )


class EmptiedInTurns(Payday):
    """Truncates both agents after four turns and clears the list, without a last turn."""

    def step(self, action: Any) -> None:
        """As `Payday.step`, with nobody out before."""
        self.made = dict.fromkeys(AGENTS, 0)
        super().step(action)
        if self.turns == 4:
            self.truncations, self.agents = dict.fromkeys(AGENTS, True), []


class Numbered(Uneven):
    """Its agents are the numbers 0 and 1."""

    NAMES: tuple[Any, Any] = (0, 1)

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.possible_agents = list(self.NAMES)

    def observation_space(self, agent: Any) -> Any:
        """Two numbers."""
        return spaces.Box(-10, 10, (2,), np.float32)

    def action_space(self, agent: Any) -> Any:
        """Three actions."""
        return spaces.Discrete(3)

    def names(self) -> list[Any]:
        """The agents of the match that begins."""
        return list(self.NAMES)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """As `Uneven.reset`."""
        super().reset(seed)
        self.agents = self.names()
        return self._see(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[Any, Any]) -> Any:
        """Pays what was chosen; four steps."""
        assert set(actions) == set(self.agents)
        self.steps += 1
        seen, over = self._see(), self.steps == 4
        flags = dict.fromkeys(self.agents, over), dict.fromkeys(self.agents, False)
        rewards, infos = {a: float(x) for a, x in actions.items()}, {a: {} for a in self.agents}
        if over:
            self.agents = []
        return seen, rewards, *flags, infos

    def _see(self) -> Any:
        return {agent: np.array([self.start[0], self.steps], np.float32) for agent in self.agents}


class Paired(Numbered):
    """Its agents are tuples."""

    NAMES = (("team", 0), ("team", 1))


class Renamed(Numbered):
    """Calls its agents otherwise in every match."""

    NAMES = ("first", "second")

    def names(self) -> list[Any]:
        """As `Numbered.names`."""
        self.match = getattr(self, "match", 0) + 1
        return [f"{name}_{self.match}" for name in self.NAMES]


class NoPossible(Renamed):
    """Does not say which agents are possible."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        del self.possible_agents


class Roles(Numbered):
    """Agents whose Dict observations and actions of several kinds differ in size."""

    NAMES = ("hunter", "prey")

    def observation_space(self, agent: Any) -> Any:
        """Parts that both have, of unequal sizes, and one that only the hunter has."""
        large = agent == "hunter"
        parts = {"me": spaces.Box(-9, 9, (3 if large else 2,)), "near": spaces.MultiDiscrete([4] * (3 if large else 1))}
        return spaces.Dict({**parts, "map": spaces.Box(0, 1, (5, 6, 1) if large else (3, 4, 1))})

    def action_space(self, agent: Any) -> Any:
        """Choices of unequal sizes, keys that only one has."""
        large = agent == "hunter"
        parts = {"move": spaces.MultiDiscrete([5, 3] if large else [4]), "aim": spaces.Box(-1, 1, (2 if large else 1,))}
        return spaces.Dict({**parts, "keys": spaces.MultiBinary(2)} if large else parts)

    def step(self, actions: dict[Any, Any]) -> Any:
        """Pays by every part."""
        assert all(self.action_space(agent).contains(action) for agent, action in actions.items()), actions
        paid = {a: float(x["move"].sum() + x["aim"].sum() + np.sum(x.get("keys", 0))) for a, x in actions.items()}
        return super().step(paid)

    def _see(self) -> Any:
        seen = {}
        for agent in self.agents:
            space = self.observation_space(agent)
            me, near = (
                np.full(space["me"].shape, self.steps, np.float32),
                np.full(space["near"].shape, 1 + self.steps % 3),
            )
            seen[agent] = {"me": me, "near": near, "map": np.full(space["map"].shape, self.start[0] / 5, np.float32)}
        return seen


def odd(base: type[Any], step: Callable[[Any, Any], Any] | None = None, **attributes: Any) -> type[Any]:
    """`base` with other attributes, and with `step(env, given)` in place of what its step gives."""
    if step is not None:
        attributes["step"] = lambda self, actions: step(self, base.step(self, actions))
    return type("Odd", (base,), attributes)


def begun(base: type[Any], change: Callable[[Any, Any], Any]) -> type[Any]:
    """`base` whose reset gives `change(env, given)`."""
    return type("Odd", (base,), {"reset": lambda self, seed=None, options=None: change(self, base.reset(self, seed))})


def changed(place: int, change: dict[Any, Any]) -> type[Any]:
    """`Numbered` whose second step has another dict at a place of the five; None takes an agent out."""

    def step(env: Any, given: Any) -> Any:
        both = {**given[place], **(change if env.steps == 2 else {})}
        return *given[:place], {agent: x for agent, x in both.items() if x is not None}, *given[place + 1 :]

    return odd(Numbered, step)


def one_number(agent: Any) -> Any:
    """A number for one agent, a choice for the other, by one name."""
    return spaces.Dict({"x": spaces.Box(-1, 1, (1,)) if agent == 0 else spaces.Discrete(3)})


def leave(env: Any, given: Any) -> Any:
    """The second agent leaves after two steps, and nobody says why."""
    env.agents = env.agents[:1] if env.steps == 2 else env.agents
    return given


def come_back(env: Any, given: Any) -> Any:
    """An agent is listed again that has left by its end."""
    env.agents = [0] if env.steps == 2 else [0, 1]
    return *given[:2], given[2] | {1: env.steps == 2}, *given[3:]


class GoneInTurns(Payday):
    """Clears the list after four turns, and nobody says why."""

    def step(self, action: Any) -> None:
        """As `Payday.step`."""
        self.made = dict.fromkeys(AGENTS, 0)
        super().step(action)
        if self.turns == 4:
            self.agents = []


class LosesMask(Payday):
    """Forgets to say what is legal from its third turn on, which its space does not promise."""

    def observation_space(self, agent: str) -> Any:
        """Turns made."""
        return spaces.Dict({"observation": spaces.Discrete(20)})

    def observe(self, agent: str) -> Any:
        """As `Payday.observe`."""
        seen = super().observe(agent)
        return {"observation": self.turns} if self.turns >= 3 else seen


def showing(show: Callable[[Any, Any], dict[str, Any]]) -> type[Any]:
    """`Payday` that shows `show(env, seen)` besides."""
    return odd(Payday, observe=lambda self, agent: {**(seen := Payday.observe(self, agent)), **show(self, seen)})


WithLast = odd(Numbered, last=lambda self: None, rewards=0, agent_selection=0)
Unlike = odd(Numbered, observation_space=lambda self, agent: one_number(agent))
ActsUnlike = odd(Numbered, action_space=lambda self, agent: one_number(agent))
OldDones = odd(Numbered, lambda env, given: (*given[:3], given[4]))
OldBegin = begun(Numbered, lambda env, given: given[0])
Uncounted = begun(Numbered, lambda env, given: (given[0], {}))
Listless = begun(Numbered, lambda env, given: (setattr(env, "agents", None), given)[1])
Unseen = odd(Numbered, _see=lambda self: {a: x for a, x in Numbered._see(self).items() if self.steps < 2 or a == 0})
ListedRewards = odd(Numbered, lambda env, given: (given[0], [0.0, 1.0], *given[2:]))
FarOff = odd(Numbered, _see=lambda self: {agent: x * 99 for agent, x in Numbered._see(self).items()})
Spaceless = odd(Numbered, action_space=lambda self, agent: 3)
Undescribed = odd(Numbered, __init__=lambda self, **_: (Numbered.__init__(self), setattr(self, "metadata", None))[0])
Twice = odd(Numbered, names=lambda self: [0, 0])
Gone = odd(Numbered, leave)
Back = odd(Numbered, come_back)
Stranger = odd(Payday, lambda env, _: setattr(env, "agent_selection", "nobody"))
Unpaid = odd(Payday, lambda env, _: setattr(env, "rewards", {}))
Unended = begun(Payday, lambda env, _: setattr(env, "terminations", {}))
Uninformed = begun(Payday, lambda env, _: setattr(env, "infos", None))
Nobody = begun(Payday, lambda env, _: setattr(env, "agents", []))
Stuck = showing(lambda env, seen: {"action_mask": np.zeros(3, np.int8)} if env.turns == 2 else {})
FarOffInTurns = showing(lambda env, seen: {"observation": -1})
FormOff = showing(lambda env, seen: {"observation": [env.turns]})


def module(kind: type[Any]) -> ModuleType:
    """A module of an environment, as the library has one for each."""
    found: Any = ModuleType(f"tests.helpers.{kind.__name__.lower()}_v0")
    setattr(found, "parallel_env" if issubclass(kind, ParallelEnv) else "env", kind)
    return found
