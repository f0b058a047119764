"""What a class of `league.envs.Match` says and has, looked at before anything is made or called by it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from operator import lt
from typing import Any

from league.errors import UsageError
from league.types import Utility

MOST = 2**22
"""Numbers of an observation, or choices of an action; a batch of as many takes gigabytes."""
METHODS: dict[str, tuple[str, ...]] = {
    "reset": ("rng",),
    "observe": ("seat",),
    "legal": ("seat",),
    "step": ("actions",),
    "play": ("action",),
    "render": (),
    "drawing": ("seat",),
}
"""What each method is called with."""


def _is_whole(x: Any) -> bool:
    return isinstance(x, Integral) and not isinstance(x, bool)


def _is_number(x: Any) -> bool:
    return isinstance(x, Real) and not isinstance(x, bool)


def _is_pair(x: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(x, Iterable) and len(pair := list(x)) == 2 and all(map(of, pair))


def _are_many(x: Any) -> bool:
    return isinstance(x, Iterable) and not isinstance(x, str)


def _are_names(x: Any) -> bool:
    return _are_many(x) and all(isinstance(name, str) for name in x)


def _is_name(x: Any) -> bool:
    return x is None or isinstance(x, str)


ATTRIBUTES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda x: isinstance(x, str), "text"),
    "version": (_is_whole, "a whole number"),
    "obs_size": (lambda x: _is_whole(x) and 0 <= x <= MOST, f"a whole number from 1 to {MOST:,}"),
    "obs_range": (lambda x: _is_pair(x, _is_number) and lt(*x), "the least and a greater number of an observation"),
    "opponent_slice": (lambda x: _is_pair(x, _is_whole), "two whole numbers, [start, stop) of the observation"),
    "max_steps": (lambda x: x is None or (_is_whole(x) and x > 0), "a whole number from 1 on, or None"),
    "ticks_per_step": (_is_whole, "a whole number"),
    "tick_rate": (_is_number, "a number"),
    **dict.fromkeys(("reward_terms", "metrics"), (_are_names, "a tuple of names")),
    "end_reasons": (lambda x: _are_names(x) and len(tuple(x)) > 0, "a tuple of names, at least one"),
    **dict.fromkeys(("bots", "players", "defaults"), (lambda x: isinstance(x, Mapping), "a dict by name")),
    **dict.fromkeys(("anchor", "floor", "activity"), (_is_name, "a name or None")),
    "utility": (lambda x: x is None or isinstance(x, Utility), "a league.types.Utility or None"),
    **dict.fromkeys(("observation", "layout"), (_are_many, "a tuple of ObservationPart")),
    "unbounded": (lambda x: x is None or _are_many(x), "a tuple of (start, stop) or None"),
    "action_names": (_are_names, "a tuple of strings, one for each choice"),
    **dict.fromkeys(("public_actions", "imperfect_information"), (lambda x: isinstance(x, bool), "True or False")),
}
"""Attribute -> whether a value can be its, and in words what it must be."""


def takes(function: Callable[..., Any], *words: str) -> bool:
    """Whether a function can be called with these arguments; where Python cannot tell, it can."""
    try:
        inspect.signature(function).bind(*words)
    except TypeError:
        return False
    except ValueError:  # compiled, without a signature
        return True
    return True


def check_members(match: Any, base: type, where: str) -> None:
    """Refuses attributes of another type, and methods and bots that cannot be called as the engine calls them.

    Args:
        match: a match of the class.
        base: `Match`, whose own methods are left out.
        where: what errors call the class.

    Raises:
        UsageError: the first of these.
    """
    for name, (fits, rule) in ATTRIBUTES.items():
        value = getattr(match, name)
        if not fits(value):
            raise UsageError(f"{where}: {name}={value!r} must be {rule}")
    for name, words in METHODS.items():
        if getattr(type(match), name, None) is not getattr(base, name):
            _check_call(getattr(match, name, None), f"{where}: {name}", words)
    for table, words in (("bots", ("observation", "legal", "rng")), ("players", ("match", "seat", "seed"))):
        for name, bot in getattr(match, table).items():
            if bot is not None or table == "players":
                _check_call(bot, f"{where}: {table}[{name!r}]", words)


def _check_call(function: Any, where: str, words: tuple[str, ...]) -> None:
    called = f"({', '.join(words)})"
    if not callable(function):
        raise UsageError(f"{where}={function!r} must be a function of {called}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise UsageError(f"{where} has `async` or `yield`, so a call does nothing; write it without")
    if not takes(function, *words):
        raise UsageError(f"{where} is called with {called}, and takes {inspect.signature(function)}; change it")
