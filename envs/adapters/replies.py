"""What an environment gives from `reset` and `step`, read by the APIs of Gymnasium and PettingZoo.

What these do not allow is refused in their words. A message continues `reset gave` or `step 6 gave`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from league.envs.matches.row import MatchError

MOST = 1e30
"""Of a reward: the return of a million steps fits float32."""
MOST_LETTERS = 80
BASES = ("gymnasium.core", "pettingzoo.utils.env")
"""Modules whose own `render` is that of an environment which has none."""
FLAGS = ("terminated", "truncated")
SOLO = ("observation", "reward", *FLAGS, "info")
"""What a step of Gymnasium gives."""
PARALLEL = ("observations", "rewards", "terminations", "truncations", "infos")
"""What a step of a `ParallelEnv` gives: dicts by agent."""
LAST = SOLO
"""What `last()` of an `AECEnv` gives."""


class ReplyError(MatchError):
    """An environment gave what its library's API does not allow."""


@contextmanager
def giving(call: str) -> Iterator[None]:
    """Puts the call in front of a `ReplyError` raised within, such as `step 6`."""
    try:
        yield
    except ReplyError as error:
        raise ReplyError(f"{call} gave {error}") from None


def drawn_by(env: Any, make: Callable[..., Any], usual: float) -> tuple[frozenset[str], float]:
    """The render modes that an environment can have, and the frames a second; its `metadata` tells them.

    Without a `render` of its own it has no mode.

    make: what has made it; if that takes no `render_mode`, the environment keeps its own. usual: frames a second of one
        that tells none.

    Raises:
        ReplyError: it is no dict, or holds something else under these names.
    """
    metadata = getattr(env, "metadata", {})
    if not isinstance(metadata, Mapping):
        raise ReplyError(f"metadata={told(metadata)}, which must be a dict")
    modes, rate = metadata.get("render_modes") or (), metadata.get("render_fps") or usual
    if not isinstance(modes, list | tuple | set | frozenset):
        raise ReplyError(f"metadata['render_modes']={told(modes)}, which must be a list")
    if not (isinstance(rate, int | float | np.number) and 0 < rate <= MOST):
        raise ReplyError(f"metadata['render_fps']={told(rate)}, which must be a number above 0, at most {MOST:g}")
    own = modes if mode_of(make, "any") else (getattr(env, "render_mode", None),)
    render = getattr(getattr(env, "unwrapped", env), "render", None)
    if getattr(render, "__module__", "") in BASES:
        own = ()
    return frozenset(mode for mode in modes if isinstance(mode, str) and mode in own), float(rate)


def mode_of(make: Callable[..., Any], mode: str | None) -> dict[str, str]:
    """The keyword `render_mode` for what makes an environment, if it takes one."""
    with suppress(TypeError, ValueError):  # of what has no signature
        taken = inspect.signature(make).parameters
        if "render_mode" not in taken and all(one.kind is not one.VAR_KEYWORD for one in taken.values()):
            return {}
    return {} if mode is None else {"render_mode": mode}


def begun(reply: Any, names: Sequence[str]) -> tuple[Any, Any]:
    """The two values of a reset, `names` being those of a step.

    Raises:
        ReplyError: it is something else.
    """
    if isinstance(reply, tuple) and len(reply) == 2 and isinstance(reply[1], Mapping):
        return reply
    wanted = f"({names[0]}, {names[-1]})"
    if isinstance(reply, tuple) and len(reply) == 2:
        raise ReplyError(f"{names[-1]}={told(reply[1])}, which must be a dict: {wanted}")
    raise ReplyError(f"{told(reply)}, not {wanted}; without {names[-1]} is the old API of Gym and PettingZoo")


def stepped(reply: Any, names: Sequence[str]) -> tuple[Any, Any, Any, Any, Any]:
    """The five values of a step.

    Raises:
        ReplyError: it is something else.
    """
    wanted = f"({', '.join(names)})"
    if not isinstance(reply, tuple | list):
        raise ReplyError(f"{told(reply)}, not {wanted}")
    if len(reply) != len(names):
        old = "; with one `done` for both flags is the old API of Gym and PettingZoo" if len(reply) == 4 else ""
        raise ReplyError(f"{len(reply)} values, not {wanted}{old}")
    if not isinstance(reply[4], Mapping):
        raise ReplyError(f"{names[4]}={told(reply[4])}, which must be a dict")
    return reply[0], reply[1], reply[2], reply[3], reply[4]


def by_agent(name: str, value: Any) -> Mapping[Any, Any]:
    """A dict by agent.

    Raises:
        ReplyError: it is none.
    """
    if isinstance(value, Mapping):
        return value
    raise ReplyError(f"{name}={told(value)}, which must be a dict by agent")


def reward_of(value: Any, whose: str = "") -> float:
    """A reward as a number.

    whose: ` of agent 'a'`, for errors.

    Raises:
        ReplyError: it is none, or not finite.
    """
    try:
        paid = float(value) if not isinstance(value, str | bytes) else None
    except (TypeError, ValueError):
        paid = None
    except OverflowError:  # an integer beyond all floats
        paid = np.inf
    if paid is None:
        raise ReplyError(f"the reward {told(value)}{whose}, which must be a number")
    if not abs(paid) <= MOST:
        raise ReplyError(f"the reward {told(value)}{whose}, which must be finite, at most {MOST:g}")
    return paid


def flag_of(name: str, value: Any, whose: str = "") -> bool:
    """`terminated` or `truncated`; a number 0 or 1 serves as well.

    Raises:
        ReplyError: it is something else.
    """
    if value is True or value is False or (isinstance(value, np.bool_ | int | np.integer) and value in (0, 1)):
        return bool(value)
    raise ReplyError(f"{name}={told(value)}{whose}, which must be a bool")


def told(value: Any) -> str:
    """A value on a line."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an integer of more digits than Python writes
        text = f"one of type {type(value).__name__}"
    return text if len(text) <= MOST_LETTERS else text[: MOST_LETTERS - 3] + "..."
