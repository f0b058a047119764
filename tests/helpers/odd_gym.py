"""Environments that break Gymnasium's API, or keep it in an unusual way: `gymnasium:tests.helpers.odd_gym:CLASS`."""

import os
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces


class Base(gymnasium.Env[Any, Any]):
    """Eight steps; the second action is right."""

    observation_space: Any = spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = spaces.Discrete(3)
    length = 8

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begins at a place that is drawn."""
        super().reset(seed=seed)
        self.t, self.x = 0, float(self.np_random.uniform(-0.5, 0.5))
        return self.see(), self.info()

    def step(self, action: Any) -> Any:
        """Pays for the second action."""
        self.t += 1
        return self.see(), self.pay(action), self.t >= self.length, False, self.info()

    def see(self) -> Any:
        """The place and the time."""
        return np.array([self.x, self.t / self.length], np.float32)

    def pay(self, action: Any) -> Any:
        """The reward."""
        return float(int(np.asarray(action).ravel()[0]) == 1)

    def info(self) -> Any:
        """The info."""
        return {}


def paying(pay: Callable[[Any], Any]) -> type[Base]:
    """Gives another reward."""
    return type("Paying", (Base,), {"pay": lambda self, action: pay(self)})


def seeing(see: Callable[[Any], Any], space: Any = Base.observation_space) -> type[Base]:
    """Gives another observation, maybe of another space."""
    return type("Seeing", (Base,), {"see": see, "observation_space": space})


def telling(info: Callable[[Any], Any], **more: Any) -> type[Base]:
    """Gives another info."""
    return type("Telling", (Base,), {"info": info, **more})


def stepping(step: Callable[[Any], Any]) -> type[Base]:
    """Gives otherwise what a step gives."""
    return type("Stepping", (Base,), {"step": lambda self, action: step(Base.step(self, action))})


def having(**attributes: Any) -> type[Base]:
    """Has other attributes."""
    return type("Having", (Base,), attributes)


def at_six(value: Any, else_: Any) -> Callable[[Any], Any]:
    """One thing in the sixth step, another before and after."""
    return lambda env: value if env.t == 6 else else_


Box, Dict, Discrete, Keys, Choices = spaces.Box, spaces.Dict, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete

ArrayReward = paying(lambda env: np.array([0.5]))
VastReward = paying(lambda env: 10**400)
EndlessReward = paying(lambda env: 10**5000)
NanReward = paying(lambda env: float("nan") if env.t == 5 else 0.0)
NoReward = paying(lambda env: None)
HugeReward = paying(lambda env: 1e38)
Idle = paying(lambda env: np.bool_(True))
OldStep = stepping(lambda given: (*given[:3], given[4]))
TextFlag = stepping(lambda given: (*given[:2], "no", False, {}))
OldReset = having(reset=lambda self, **keywords: Base.reset(self, **keywords)[0])
NoInfo = telling(lambda env: None)
WrongShape = seeing(lambda env: np.zeros(3 if env.t == 6 else 2, np.float32))
Nan = seeing(lambda env: np.array([np.nan if env.t == 6 else env.x, 0], np.float32))
Complex = seeing(lambda env: np.array([env.x + 1j, 0]))
Digits = seeing(lambda env: np.array(["0.5", "0"]))
NoArray = seeing(lambda env: "left")
NoKey = seeing(lambda env: {"a": np.zeros(1, np.float32)}, Dict({"a": Box(-1, 1, (1,)), "b": Discrete(3)}))
NoSuchToken = seeing(lambda env: {"b": at_six(3, 1)(env)}, Dict({"b": Discrete(3)}))
NoActions = having(action_space=Dict({}))
NoNumbers = having(action_space=Box(-1, 1, (0,)))
RateInWords = having(metadata={"render_modes": ["rgb_array"], "render_fps": "fast"})
ModesByNumber = having(metadata={"render_modes": 5})
OneLong = seeing(lambda env: np.array([env.t]), Discrete(9))
NothingLegal = telling(lambda env: {"action_mask": np.full(3, env.t != 6, np.int8)})
WrongMask = telling(lambda env: {"action_mask": np.ones(4, np.int8)})
OfAnotherForm = seeing(lambda env: Base.see(env)[None])
KeysOfAnotherForm = seeing(lambda env: {"k": np.full(4, env.t % 2)}, Dict({"k": Keys((2, 2))}))
ChoicesOfAnotherForm = seeing(lambda env: (np.full((2, 1), env.t), env.t), spaces.Tuple((Choices([9, 9]), Discrete(9))))
KeyOfTwo = seeing(lambda env: np.array([env.t % 2, 2]), Keys(2))
KeyBelow = seeing(lambda env: np.array([env.t % 2, -1]), Keys(2))
HalfAKey = seeing(lambda env: np.array([env.t % 2, 0.5]), Keys(2))
ChoiceOfAnother = seeing(lambda env: np.array([env.t, at_six(5, 1)(env)]), Choices([9, 3]))
HalfAChoice = seeing(lambda env: np.array([env.t, 0.5]), Choices([9, 3]))
HalfANumber = seeing(lambda env: np.array([env.t, 0.5]), Box(-9, 9, (2,), np.int64))
Below = seeing(lambda env: np.array([-99 if env.t == 6 else env.x, 0], np.float32))
BelowInPart = having(
    see=Below.see, observation_space=Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32))
)
LostMask = telling(lambda env: {"action_mask": np.ones(3, np.int8)} if env.t < 4 else {})
SaidMask = seeing(lambda env: {"o": Base.see(env)}, Dict({"o": Box(-1, 1, (2,)), "action_mask": Keys(3)}))
TwoMasks = having(
    see=lambda self: {"o": Base.see(self), "action_mask": np.array([1, 1, 0], np.int8)},
    observation_space=Dict({"o": Box(-1, 1, (2,)), "action_mask": Keys(3)}),
    info=lambda self: {"action_mask": np.array([1, 1, int(self.t == 6)], np.int8)},
)
NeedsSize = having(__init__=lambda self, size: None)
MaskOfLogits = telling(lambda env: {"action_mask": np.array([0, 0, -np.inf])})
MaskOfTwo = telling(lambda env: {"action_mask": np.array([1, 1, 2, 1, 1])}, action_space=Choices([3, 2]))
NamedSpace = having(observation_space="Box")
CountedActions = having(action_space=3)
ListedActions = having(__init__=lambda self: setattr(self, "action_space", [0, 1]))
Vast = having(observation_space=Box(0, 1, (3000, 3000), np.float16))
PART = Box(0, 1, (1500, 1500), np.float16)
VastParts = having(observation_space=Dict({"a": PART, "b": spaces.Tuple((PART, PART))}))
VastActions = having(action_space=Keys(10**6))

# What keeps the API in an unusual way.
Ring = seeing(lambda env: env.t % 4, Discrete(4))
ZeroAtEnds = seeing(lambda env: np.zeros(2, np.float32) if env.t in (0, 8) else Base.see(env))
KeysAlike = seeing(
    lambda env: {"a.b": Base.see(env), "a": {"b": env.t}},
    Dict({"a.b": Box(-1, 1, (2,)), "a": Dict({"b": Discrete(9)})}),
)
AllEmpty = seeing(
    lambda env: {"o": Base.see(env), "t": env.t, "no": np.zeros(0, np.float32)},
    Dict({"o": Box(-1, 1, (2,)), "t": Discrete(9), "no": Box(0, 1, (0,))}),
)
Astray = seeing(lambda env: np.array([env.x * 4, env.t / 4], np.float32))


class Marathon(Base):
    """Takes 34 steps."""

    length = 34


class NoSeed(Base):
    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32), {}


class Raises(Base):
    def step(self, action: Any) -> Any:
        if self.t == 6:
            raise RuntimeError("simulator lost")
        return super().step(action)


class Moves(Base):
    """Changes the process's folder and torch's type, as it is made and stepped."""

    def __init__(self) -> None:
        os.chdir("/")
        torch.set_default_dtype(torch.float64)

    def step(self, action: Any) -> Any:
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
        return super().step(action)


class Reused(Base):
    """Gives the same array each time."""

    def see(self) -> Any:
        if not hasattr(self, "seen"):
            self.seen = np.zeros(2, np.float32)
        self.seen[:] = super().see()
        return self.seen


class LateMask(Base):
    """Tells what is legal from the first step on, and no more as it ends."""

    def info(self) -> Any:
        return {"action_mask": np.array([1, 1, 0], np.int8)} if 0 < self.t < 8 else {}

    def pay(self, action: Any) -> Any:
        assert action != 2 or self.t == 1  # before the first step all is legal, and t has grown since
        return super().pay(action)


class MaskedParts(Base):
    """A mask of each part, in a Dict."""

    action_space = Dict({"go": Discrete(3), "by": Box(-1, 1, (1,))})

    def info(self) -> Any:
        return {"action_mask": {"go": np.array([1, 1, 0], np.int8)}}

    def pay(self, action: Any) -> Any:
        assert action["go"] != 2
        return float(action["go"] == 1) + float(action["by"][0])
