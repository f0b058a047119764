"""Environments that break Gymnasium's API, or keep it in an unusual way: `gymnasium:tests.helpers.odd_gym:CLASS`."""

import os
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces


class Base(gymnasium.Env[Any, Any]):
    """Eight steps; the second action is right."""

    observation_space: Any = spaces.Box(-1, 1, (2,), np.float32)
    action_space: Any = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begins at a place that is drawn."""
        super().reset(seed=seed)
        self.t, self.x = 0, float(self.np_random.uniform(-0.5, 0.5))
        return self.see(), self.info()

    def step(self, action: Any) -> Any:
        """Pays for the second action."""
        self.t += 1
        return self.see(), self.pay(action), self.t >= 8, False, self.info()

    def see(self) -> Any:
        """The place and the time."""
        return np.array([self.x, self.t / 8], np.float32)

    def pay(self, action: Any) -> Any:
        """The reward."""
        return float(int(np.asarray(action).ravel()[0]) == 1)

    def info(self) -> Any:
        """The info."""
        return {}


class ArrayReward(Base):
    def pay(self, action: Any) -> Any:
        return np.array([0.5])


class Moves(Base):
    """Changes the process's folder and torch's type, as it is made and stepped."""

    def __init__(self) -> None:
        os.chdir("/")
        torch.set_default_dtype(torch.float64)

    def step(self, action: Any) -> Any:
        os.chdir("/")
        torch.set_default_dtype(torch.float64)
        return super().step(action)


class VastReward(Base):
    def pay(self, action: Any) -> Any:
        return 10**400


class EndlessReward(Base):
    def pay(self, action: Any) -> Any:
        return 10**5000


class NanReward(Base):
    def pay(self, action: Any) -> Any:
        return float("nan") if self.t == 5 else 0.0


class NoReward(Base):
    def pay(self, action: Any) -> Any:
        return None


class HugeReward(Base):
    def pay(self, action: Any) -> Any:
        return 1e38


class OldStep(Base):
    def step(self, action: Any) -> Any:
        observation, reward, done, _, info = super().step(action)
        return observation, reward, done, info


class OldReset(Base):
    def reset(self, **keywords: Any) -> Any:
        return super().reset(**keywords)[0]


class NoInfo(Base):
    def info(self) -> Any:
        return None


class NoSeed(Base):
    def reset(self) -> Any:  # type: ignore[override]
        return np.zeros(2, np.float32), {}


class WrongShape(Base):
    def see(self) -> Any:
        return np.zeros(3 if self.t == 6 else 2, np.float32)


class Nan(Base):
    def see(self) -> Any:
        return np.array([np.nan if self.t == 6 else self.x, 0], np.float32)


class Complex(Base):
    def see(self) -> Any:
        return np.array([self.x + 1j, 0])


class Digits(Base):
    def see(self) -> Any:
        return np.array(["0.5", "0"])


class NoActions(Base):
    action_space = spaces.Dict({})


class NoArray(Base):
    def see(self) -> Any:
        return "left"


class NoKey(Base):
    observation_space = spaces.Dict({"a": spaces.Box(-1, 1, (1,)), "b": spaces.Discrete(3)})

    def see(self) -> Any:
        return {"a": np.zeros(1, np.float32)}


class NoSuchToken(Base):
    observation_space = spaces.Dict({"b": spaces.Discrete(3)})

    def see(self) -> Any:
        return {"b": 3 if self.t == 6 else 1}


class RateInWords(Base):
    metadata = {"render_modes": ["rgb_array"], "render_fps": "fast"}  # noqa: RUF012


class ModesByNumber(Base):
    metadata = {"render_modes": 5}  # noqa: RUF012


class KeysAlike(Base):
    """Two parts whose keys, joined by dots, are one name."""

    observation_space = spaces.Dict({"a.b": spaces.Box(-1, 1, (2,)), "a": spaces.Dict({"b": spaces.Discrete(9)})})

    def see(self) -> Any:
        return {"a.b": super().see(), "a": {"b": self.t}}


class OneLong(Base):
    observation_space = spaces.Discrete(9)

    def see(self) -> Any:
        return np.array([self.t])


class TextFlag(Base):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:2], "no", False, {}


class NothingLegal(Base):
    def info(self) -> Any:
        return {"action_mask": np.full(3, self.t != 6, np.int8)}


class WrongMask(Base):
    def info(self) -> Any:
        return {"action_mask": np.ones(4, np.int8)}


class Idle(Base):
    def pay(self, action: Any) -> Any:
        return np.bool_(True)


class Raises(Base):
    def step(self, action: Any) -> Any:
        if self.t == 6:
            raise RuntimeError("simulator lost")
        return super().step(action)


class Ring(Base):
    """Ends where it began."""

    observation_space = spaces.Discrete(4)

    def see(self) -> Any:
        return self.t % 4


class ZeroAtEnds(Base):
    def see(self) -> Any:
        return np.zeros(2, np.float32) if self.t in (0, 8) else super().see()


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

    action_space = spaces.Dict({"go": spaces.Discrete(3), "by": spaces.Box(-1, 1, (1,))})

    def info(self) -> Any:
        return {"action_mask": {"go": np.array([1, 1, 0], np.int8)}}

    def pay(self, action: Any) -> Any:
        assert action["go"] != 2
        return float(action["go"] == 1) + float(action["by"][0])


class AllEmpty(Base):
    """Has a part without numbers."""

    observation_space = spaces.Dict(
        {"o": spaces.Box(-1, 1, (2,)), "t": spaces.Discrete(9), "no": spaces.Box(0, 1, (0,))}
    )

    def see(self) -> Any:
        return {"o": super().see(), "t": self.t, "no": np.zeros(0, np.float32)}


# What has passed in silence


class OfAnotherForm(Base):
    def see(self) -> Any:
        return super().see()[None]


class KeysOfAnotherForm(Base):
    observation_space = spaces.Dict({"k": spaces.MultiBinary((2, 2))})

    def see(self) -> Any:
        return {"k": np.full(4, self.t % 2)}


class ChoicesOfAnotherForm(Base):
    observation_space = spaces.Tuple((spaces.MultiDiscrete([9, 9]), spaces.Discrete(9)))

    def see(self) -> Any:
        return np.full((2, 1), self.t), self.t


class KeyOfTwo(Base):
    observation_space = spaces.MultiBinary(2)

    def see(self) -> Any:
        return np.array([self.t % 2, 2])


class KeyBelow(KeyOfTwo):
    def see(self) -> Any:
        return np.array([self.t % 2, -1])


class HalfAKey(KeyOfTwo):
    def see(self) -> Any:
        return np.array([self.t % 2, 0.5])


class ChoiceOfAnother(Base):
    """Its second choice is one that only its first has."""

    observation_space = spaces.MultiDiscrete([9, 3])

    def see(self) -> Any:
        return np.array([self.t, 5 if self.t == 6 else 1])


class HalfAChoice(ChoiceOfAnother):
    def see(self) -> Any:
        return np.array([self.t, 0.5])


class HalfANumber(Base):
    observation_space = spaces.Box(-9, 9, (2,), np.int64)

    def see(self) -> Any:
        return np.array([self.t, 0.5])


class Below(Base):
    def see(self) -> Any:
        return np.array([-99 if self.t == 6 else self.x, 0], np.float32)


class BelowInPart(Below):
    observation_space = spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32))


class LostMask(Base):
    def info(self) -> Any:
        return {"action_mask": np.ones(3, np.int8)} if self.t < 4 else {}


class SaidMask(Base):
    observation_space = spaces.Dict({"o": spaces.Box(-1, 1, (2,)), "action_mask": spaces.MultiBinary(3)})

    def see(self) -> Any:
        return {"o": super().see()}


class MaskOfLogits(Base):
    def info(self) -> Any:
        return {"action_mask": np.array([0, 0, -np.inf])}


class MaskOfTwo(Base):
    action_space = spaces.MultiDiscrete([3, 2])

    def info(self) -> Any:
        return {"action_mask": np.array([1, 1, 2, 1, 1])}


class NamedSpace(Base):
    observation_space = "Box"


class CountedActions(Base):
    action_space = 3


class ListedActions(Base):
    def __init__(self) -> None:
        self.action_space = [0, 1]


class Vast(Base):
    observation_space = spaces.Box(0, 1, (3000, 3000), np.float16)


class VastParts(Base):
    part = spaces.Box(0, 1, (1500, 1500), np.float16)
    observation_space = spaces.Dict({"a": part, "b": spaces.Tuple((part, part))})


class VastActions(Base):
    action_space = spaces.MultiBinary(10**6)


class Astray(Base):
    """Leaves its bounds a little, as numbers of a simulation do."""

    def see(self) -> Any:
        return np.array([self.x * 4, self.t / 4], np.float32)


class Marathon(Base):
    """Takes 34 steps."""

    def see(self) -> Any:
        return np.array([self.x, self.t / 34], np.float32)

    def step(self, action: Any) -> Any:
        return *super().step(action)[:2], self.t >= 34, False, {}
