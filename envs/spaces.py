"""What Gymnasium and PettingZoo call a game's observations and actions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from league.types import ActionSpec, FloatArray, GameSpec

if TYPE_CHECKING:
    from gymnasium import spaces


def gymnasium_spaces(spec: GameSpec) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """One seat's observation and action space.

    The observation is a Box, or a Dict of its parts: a MultiDiscrete for tokens, a Box for others. The action is the
    space that its kind is named after, MultiDiscrete for `legal_tuples`, and a Dict or a Tuple for a mixture.
    """
    from gymnasium import spaces

    return _observation_space(spec, spaces), _action_space(spec.action, spaces)


def _observation_space(spec: GameSpec, spaces: Any) -> Any:
    if spec.observation is None:
        return spaces.Box(*spec.obs_range, (spec.obs_size,), np.float32)
    parts: dict[str, Any] = {}
    for part in spec.observation:
        if part.kind == "tokens":
            parts[part.name] = spaces.MultiDiscrete(np.full(part.shape, part.count))
        else:
            parts[part.name] = spaces.Box(*(part.bounds or spec.obs_range), part.shape, np.float32)
    return spaces.Dict(parts)


def _action_space(action: ActionSpec, spaces: Any) -> Any:
    if action.kind == "mixture":
        parts = [_action_space(part, spaces) for part in action.parts]
        return spaces.Dict(dict(zip(action.names, parts, strict=True))) if action.names else spaces.Tuple(parts)
    if action.kind == "box":
        low, high = np.array(action.bounds, np.float32).T
        return spaces.Box(low, high, dtype=np.float32)
    if action.kind == "discrete":
        return spaces.Discrete(action.choices[0])
    if action.kind == "multi_binary":
        return spaces.MultiBinary(action.num_parts)
    return spaces.MultiDiscrete(np.array(action.choices))


def show_observation(spec: GameSpec, obs: FloatArray) -> Any:
    """A copy of obs (..., obs_size) as Gymnasium's observation space has it: a dict where the spec has parts."""
    if spec.observation is None:
        return obs.copy()
    return {part.name: part.of(obs) for part in spec.observation}
