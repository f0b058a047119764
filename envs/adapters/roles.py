"""Two agents of one environment with spaces of their own, as the two seats of a game, which share one of each.

The shared space has room for either agent: what one of them lacks is zero where it is seen, and a choice without
another where it acts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.adapters.actions import Acts
from league.envs.adapters.spaces import Seen, SpaceError
from league.types import SEATS, ActionSpec, FloatArray, ObservationPart
from league.types.observations import slices_of

CHOICES = ("discrete", "multi_discrete")
CURE = "wrap the environment so that both agents have one kind of space there"


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class _Share:
    """How an agent's actions stand in the shared ones."""

    narrow: Callable[[Any], Any] = _same
    """A shared action as the agent's own."""
    widen: Callable[[Any], Any] = _same
    """What is legal of its own, None being everything, as what is legal of the shared."""


class SharedLayout:
    """What the agents see, in one layout: their parts by name, each of the larger size, and at the end which agent.

    Args:
        one, two: what each agent sees.

    Raises:
        SpaceError: a part is of two kinds.
    """

    def __init__(self, one: Seen, two: Seen) -> None:
        self._seen = one, two
        own = [{part.name: part for part in seen.layout} for seen in (one, two)]
        parts, at = list[ObservationPart](), 0
        for name in dict.fromkeys([*own[0], *own[1]]):
            pair = [parts_of[name] for parts_of in own if name in parts_of]
            if len({part.kind for part in pair}) > 1:
                kinds = " and as ".join(part.kind for part in pair)
                raise SpaceError(f"its agents see {name!r} as {kinds}; {CURE}")
            parts.append(_larger(pair, at))
            at = parts[-1].stop
        label = "player"
        while label in {part.name for part in parts}:
            label += "_"
        self.layout = (*parts, ObservationPart(label, at, (SEATS,), bounds=(0.0, 1.0)))
        """All parts, the agent's number last."""
        self.size = at + SEATS
        shared = {part.name: part for part in parts}
        self._places = tuple(
            np.concatenate([_places(part, shared[part.name]) for part in seen.layout]) for seen in self._seen
        )
        marks = np.zeros(self.size, np.bool_)
        for seen, places in zip(self._seen, self._places, strict=True):
            marks[places] |= seen.is_unbounded
        self.unbounded = slices_of(marks)
        """As a spec has them."""

    def of(self, player: int) -> Seen:
        """What an agent sees by itself."""
        return self._seen[player]

    def flat(self, player: int, observation: Any) -> FloatArray:
        """(size,): an agent's observation.

        Raises:
            ReplyError: as `Seen.flat`.
        """
        out = np.zeros(self.size, np.float32)
        out[self._places[player]] = self._seen[player].flat(observation)
        out[player - SEATS] = 1
        return out


class Deeds:
    """What the agents do, in one spec.

    Args:
        one, two: what each agent does.

    Raises:
        SpaceError: a part is of two kinds, or of two ranges of real numbers.
    """

    def __init__(self, one: Acts, two: Acts) -> None:
        self._acts = one, two
        self.spec, *shares = _shared(one.spec, two.spec, "what they do")
        self._shares = tuple(shares)
        self.is_unequal = one.spec != two.spec

    def to_library(self, player: int, action: Any) -> Any:
        """A shared action as the agent's space has it."""
        return self._acts[player].to_library(self._shares[player].narrow(action))

    def legal(self, player: int, mask: Any) -> Any:
        """What is legal of the shared spec by a mask of the agent's own, None without one; None: everything.

        Raises:
            ReplyError: as `Acts.legal`.
        """
        return self._shares[player].widen(self._acts[player].legal(mask))


def _larger(pair: list[ObservationPart], start: int) -> ObservationPart:
    """A part with room for both."""
    shape = tuple(max(sizes) for sizes in zip(*(part.shape for part in pair), strict=True))
    bounds = None
    if pair[0].bounds is not None:
        lows, highs = zip(*(part.bounds or (0.0, 0.0) for part in pair), strict=True)
        bounds = min(lows), max(highs)
    return ObservationPart(pair[0].name, start, shape, pair[0].kind, max(part.count for part in pair), bounds)


def _places(part: ObservationPart, room: ObservationPart) -> npt.NDArray[np.int64]:
    """Where the numbers of a part lie in the shared layout."""
    grid = np.arange(room.start, room.stop).reshape(room.shape)
    return np.asarray(grid[tuple(slice(size) for size in part.shape)].ravel(), np.int64)


def _shared(one: ActionSpec, two: ActionSpec, where: str) -> tuple[ActionSpec, _Share, _Share]:
    """A spec with room for both, and how each stands in it."""
    if one == two:
        return one, _Share(), _Share()
    if one.kind in CHOICES and two.kind in CHOICES:
        choices = tuple(max(pair) for pair in zip_longest(one.choices, two.choices, fillvalue=0))
        kind = "discrete" if one.kind == two.kind == "discrete" else "multi_discrete"
        return ActionSpec(kind, choices), _choosing(one, len(choices)), _choosing(two, len(choices))  # type: ignore[arg-type]
    if one.kind == two.kind == "multi_binary":
        larger = max(one, two, key=lambda spec: spec.num_parts)
        return larger, _pressing(one.num_parts), _pressing(two.num_parts)
    if one.kind == two.kind == "mixture" and bool(one.names) == bool(two.names):
        return _mixing(one, two, where)
    if one.kind == two.kind == "box":
        longer, shorter = sorted((one, two), key=lambda spec: -spec.num_parts)
        if longer.bounds[: shorter.num_parts] == shorter.bounds:
            return longer, _beginning(one.num_parts), _beginning(two.num_parts)
        raise SpaceError(f"its agents differ in the bounds of {where}; rescale them to one (RescaleAction)")
    raise SpaceError(f"its agents differ in {where}: {one.kind} and {two.kind}; {CURE}")


def _choosing(own: ActionSpec, room: int) -> _Share:
    """Of choices: those of an agent come first, and of a part that it lacks the first choice is legal."""
    count, everything = own.num_parts, [list(range(size)) for size in own.choices]

    def narrow(action: Any) -> Any:
        parts = (action,) if room == 1 else action
        return parts[0] if count == 1 else parts[:count]

    def widen(legal: Any) -> Any:
        lists = everything if legal is None else [legal] if count == 1 else list(legal)
        lists = [*lists, *([0] for _ in range(room - count))]
        return lists[0] if room == 1 else lists

    return _Share(narrow, widen)


def _beginning(count: int) -> _Share:
    return _Share(lambda action: action[:count])


def _pressing(count: int) -> _Share:
    return _Share(lambda action: action[:count], lambda legal: list(range(count)) if legal is None else legal)


def _mixing(one: ActionSpec, two: ActionSpec, where: str) -> tuple[ActionSpec, _Share, _Share]:
    """Of mixtures: parts of one name, or without names of one place, share; what only one has the other cannot use."""
    own = [dict(zip(spec.names or range(len(spec.parts)), spec.parts, strict=True)) for spec in (one, two)]
    keys = list(dict.fromkeys([*own[0], *own[1]]))
    parts, shares = [], [dict[Any, _Share | None](), dict[Any, _Share | None]()]
    for key in keys:
        both: list[_Share | None]
        if all(key in each for each in own):
            part, *both = _shared(own[0][key], own[1][key], f"{key!r} of {where}")
        else:
            part = next(each[key] for each in own if key in each)
            both = [_Share() if key in each else None for each in own]
        parts.append(part)
        for each, share in zip(shares, both, strict=True):
            each[key] = share
    names = tuple(map(str, keys)) if one.names else ()
    spec = replace(one, parts=tuple(parts), names=names)
    return spec, *(_within(each, dict(zip(keys, parts, strict=True)), bool(names)) for each in shares)  # type: ignore[return-value]


def _within(shares: dict[Any, _Share | None], parts: dict[Any, ActionSpec], is_named: bool) -> _Share:
    """Of a mixture: `shares` of each part, None of one that the agent lacks."""
    own = {key: share for key, share in shares.items() if share is not None}

    def narrow(action: Any) -> Any:
        taken = {key: share.narrow(action[key]) for key, share in own.items()}
        return taken if is_named else tuple(taken.values())

    def widen(legal: Any) -> Any:
        found = {}
        for key, share in shares.items():
            given = None if legal is None else legal[key] if share is not None else None
            found[key] = _nothing(parts[key]) if share is None else share.widen(given)
        return found if is_named else tuple(found.values())

    return _Share(narrow, widen)


def _nothing(spec: ActionSpec) -> Any:
    """What is legal of a part that an agent lacks: as little as can be."""
    if spec.kind == "mixture":
        inner = [_nothing(part) for part in spec.parts]
        return dict(zip(spec.names, inner, strict=True)) if spec.names else tuple(inner)
    if spec.kind in CHOICES:
        return [0] if spec.num_parts == 1 else [[0]] * spec.num_parts
    return None if spec.kind == "box" else []
