"""`env.strict_masks`: quiet on a sound game, loud on a wrong mask, a stale observation or an illegal action."""

import re

import numpy as np
import pytest

from league.envs import registry
from league.errors import LeagueError
from league.play.strict import StrictMasks
from league.types import ActionSpec, MatchBatch


def started() -> tuple[MatchBatch, StrictMasks]:
    """A brawl batch some steps into its matches, and its check."""
    batch, twin = (registry.make("brawl", rows=4, threads=1, options={}) for _ in range(2))
    batch.controllers[:] = -1
    batch.reset(0)
    rng = np.random.default_rng(0)
    check = StrictMasks(batch, twin)
    for _ in range(200):
        assert batch.mask is not None
        batch.actions[:] = rng.integers(0, 2, batch.actions.shape) * batch.mask
        check.check()
        batch.step()
    batch.actions[:] = 0
    return batch, check


def test_sound_play_passes() -> None:
    """200 steps of legal random play raise nothing."""
    started()


@pytest.mark.parametrize("name", ["mask", "obs"])
def test_a_mask_or_observation_that_differs_from_the_state_stops(name: str) -> None:
    """One wrong entry is named with its row, seat and place."""
    batch, check = started()
    array = getattr(batch, name)
    array[2, 1, 5] = ~array[2, 1, 5] if name == "mask" else array[2, 1, 5] + 0.25
    owner = "" if name == "mask" else " (the seat's own)"
    with pytest.raises(LeagueError, match=re.escape(f"row 2, seat 1: {name}[5]{owner} is")):
        check.check()


def test_an_illegal_action_stops_unless_a_bot_plays_the_seat() -> None:
    """`pickup` does nothing in brawl, so pressing it is illegal; a native bot's seat is not looked at."""
    batch, check = started()
    batch.actions[3, 0, 5] = 1
    with pytest.raises(LeagueError, match=r"row 3, seat 0: action .* is not legal"):
        check.check()
    batch.controllers[3, 0] = 0
    check.check()


def test_choices_are_looked_up_part_by_part() -> None:
    """In multi_discrete each part's choice is judged by its own stretch of the mask."""
    spec = ActionSpec("multi_discrete", (2, 3))
    mask = np.array([[[True, False, True, True, False], [True, True, False, False, True]]])
    assert spec.is_legal(np.array([[[0, 1], [1, 2]]], np.int32), mask).tolist() == [[True, True]]
    assert spec.is_legal(np.array([[[1, 1], [1, 1]]], np.int32), mask).tolist() == [[False, False]]
