"""A run that goes on elsewhere: what of its state depends on the device, and what another one makes of it.

Weights, moments, counters, the pool and NumPy's generators are the same everywhere. A torch generator's state is not
(a CPU's has 5,056 bytes, a GPU's 16), nor are the lanes that the matches lie in, nor what `auto` decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from league.types import MatchBatch, Policy, PolicyState, Regrouping

ALONE = "none"
"""In place of a number of ranks: a process by itself, whose rows draw from one generator in turn."""
WORDS = {
    "device": "device",
    "lanes": "lanes",
    "nets": "steps of the nets",
    "opponents": "frozen nets",
    "products": "matrix products",
    "parts": "parts of a minibatch",
    "version": "version of league",
    "ranks": "ranks",
}
"""What is said of each part of a `ExecutionSetting` that is another one than before."""


@dataclass(frozen=True)
class ExecutionSetting:
    """What a run's bits depend on beside its config and seed, as its state keeps it."""

    device: str
    lanes: int
    nets: str
    """How the nets' steps are launched: `graphs` or `plain`."""
    opponents: str
    """How the frozen nets play: `stacked` or `net by net`."""
    products: str
    """What matrix products are at the run's precision (`league.runtime.device.products_of`)."""
    parts: int
    """`learner.accumulate`."""
    version: str
    """Of league."""
    ranks: str
    """How many processes train it, or `ALONE`."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


@dataclass(frozen=True)
class Taken:
    """What a collector took over of saved matches."""

    carried: int
    """Matches in play that go on."""
    lost: int
    """Matches in play that cannot go on here."""
    is_reseeded: bool
    """Whether the actions' generator was seeded, since the saved state is another kind of device's."""
    is_regrouped: bool
    """Whether the matches lie in other lanes than before."""


def seed_after(seed: int, update: int, *more: int) -> int:
    """A seed of a run for what must be seeded after `update`, from the run's own."""
    return int(np.random.SeedSequence([seed, update, *more]).generate_state(1)[0])


def regrouped(
    lanes: Sequence[Mapping[str, Any]],
    num_rows: Sequence[int],
    batch: MatchBatch,
    policy: Policy,
    guests: Mapping[str, Policy],
) -> list[dict[str, Any]] | None:
    """Saved lanes as lanes of `num_rows` rows each, the rows in the same order.

    Args:
        lanes: as `league.play.lanes.Lane.state_dict` gave them.
        num_rows: of each lane now.
        batch: any batch of the game.
        policy: makes the states that the nets' memories are put together in.
        guests: by agent id; each makes those of its own.

    Returns:
        None where that cannot be: there are more or fewer rows in all, other guests, or the game cannot regroup its
        matches.
    """
    saved_rows = [len(lane["opponents"]) for lane in lanes]
    if saved_rows == list(num_rows):
        return [dict(lane) for lane in lanes]
    if sum(saved_rows) != sum(num_rows) or not isinstance(batch, Regrouping):
        return None
    if any(lane.get("guests", {}).keys() != guests.keys() for lane in lanes):
        return None
    try:
        batches = batch.regroup([lane["batch"] for lane in lanes], num_rows)
    except ValueError:
        return None
    starts = list(pairwise([0, *np.cumsum(num_rows).tolist()]))
    parts: dict[str, list[Any]] = {"batch": batches}
    for name in [name for name in lanes[0] if name not in ("batch", "state", "opponent_state", "guests")]:
        values = [lane[name] for lane in lanes]
        is_array = isinstance(values[0], np.ndarray)
        whole = np.concatenate(values) if is_array else [x for part in values for x in part]
        parts[name] = [whole[a:b] for a, b in starts]
    for name, num_spare in (("state", 0), ("opponent_state", 1)):
        parts[name] = _regrouped_states([lane[name] for lane in lanes], saved_rows, starts, num_spare, policy)
    memories = {
        agent: _regrouped_states([lane["guests"][agent] for lane in lanes], saved_rows, starts, 0, guest)
        for agent, guest in guests.items()
    }
    parts["guests"] = [{agent: states[i] for agent, states in memories.items()} for i in range(len(starts))]
    return [{name: values[i] for name, values in parts.items()} for i in range(len(starts))]


def _regrouped_states(
    saved: Sequence[dict[str, torch.Tensor]],
    saved_rows: Sequence[int],
    starts: Sequence[tuple[int, int]],
    num_spare: int,
    policy: Policy,
) -> list[dict[str, torch.Tensor]]:
    """The tensors of policy states for rows [start, stop) of all; each state has `num_spare` rows more at its end."""
    states: list[PolicyState] = []
    device = next(policy.parameters()).device
    for tensors, count in zip(saved, saved_rows, strict=True):
        state = policy.initial_state(count + num_spare)
        state.load(tensors)
        states.append(state.select(torch.arange(count, device=device)))
    whole = states[0].join(states[1:])
    spare = [policy.initial_state(num_spare)] if num_spare else []
    return [whole.select(torch.arange(a, b, device=device)).join(spare).tensors() for a, b in starts]


def told(
    run: str, saved: Mapping[str, Any], now: ExecutionSetting, taken: Taken | None, seeded: Sequence[str]
) -> list[tuple[str, str]]:
    """What goes on otherwise than it was saved, as (kind of event, line): nothing where all is as it was.

    Args:
        run: its name.
        saved: of the state, `ExecutionSetting.to_json` or a part of it.
        now: the setting here.
        taken: what was taken over of the matches; None where the state had none.
        seeded: global generators that did not take the saved state (`league.play.randomness`).
    """
    lines = []
    there = now.to_json()
    parts = [
        f"{words} {saved[name]} -> {there[name]}"
        for name, words in WORDS.items()
        if name in saved and saved[name] != there[name]
    ]
    if taken is not None and taken.is_reseeded:
        parts.append("the actions' generator has another kind of state here and is seeded from the seed and the update")
    if seeded:
        parts.append(f"the global generators of {' and '.join(seeded)} are seeded likewise")
    if taken is not None and taken.lost:
        parts.append(f"{taken.lost:,} matches in play are lost, since they cannot be taken over, and new ones begin")
    elif parts and taken is not None:
        parts.append(f"all {taken.carried:,} matches in play go on")
    if parts:
        lines.append(("moved", f"run={run}: goes on otherwise than it was saved: {'; '.join(parts)}"))
    return lines
