"""`env.strict_masks`: quiet on a sound game, loud on a wrong mask, a stale observation or an illegal action."""

import dataclasses
import re

import numpy as np
import pytest

from league.envs import lastaction, registry
from league.envs.classic import matrix
from league.errors import LeagueError
from league.play.strict import StrictMasks
from league.types import ActionSpec, MatchBatch, Turns
from tests.helpers import guessing
from tests.helpers.matches import Hands


def started() -> tuple[MatchBatch, StrictMasks]:
    """A brawl batch some steps into its matches, and its check."""
    batch, twin = (registry.make("brawl", rows=4, threads=1, options={}) for _ in range(2))
    batch.controllers[:] = -1
    batch.reset(0)
    rng = np.random.default_rng(0)
    check = StrictMasks(batch, lambda rows: twin)
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


@pytest.mark.parametrize("name", ["obs", "mask", "terminated", "reward_terms", "result"])
def test_an_array_that_moves_stops(name: str) -> None:
    """The engine holds the arrays that it was given: one that is another is read by nobody, however right it is."""
    batch, twin = (matrix.make(4, 1, matrix.Options()) for _ in range(2))
    if name == "mask":
        batch.mask, twin.mask = (np.ones((4, 2, 3), np.bool_) for _ in range(2))  # type: ignore[misc]
    check = StrictMasks(batch, lambda rows: twin)
    check.check()
    batch.step()
    setattr(batch, name, getattr(batch, name).copy())
    with pytest.raises(LeagueError, match=rf"matrix: {name} moved, .*write self.{name}\[:\] = "):
        check.check()


def test_an_observation_outside_its_range_stops() -> None:
    """Also where the state gives the same: the spec is wrong then, and what the nets see is not what it says."""
    batch, twin = (matrix.make(4, 1, matrix.Options()) for _ in range(2))
    batch.spec = twin.spec = dataclasses.replace(batch.spec, obs_range=(0.0, 0.05))
    check = StrictMasks(batch, lambda rows: twin)
    check.check()
    batch.step()
    with pytest.raises(LeagueError, match=r"row 0, seat 0: obs\[0\] \(the seat's own\) is 1.0, outside obs_range"):
        check.check()


def test_a_token_that_is_none_stops() -> None:
    """Also where it is within the range of all observations, and the state gives the same."""
    batch, twin = (guessing.make(4, 1, guessing.Options(kind="tokens")) for _ in range(2))
    check = StrictMasks(batch, lambda rows: twin)
    check.check()
    show = guessing.GuessingBatch._observe

    def half(self: guessing.GuessingBatch) -> None:
        show(self)
        self.obs[2, 1, 3] = 0.5

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guessing.GuessingBatch, "_observe", half)
        batch.step()
        with pytest.raises(
            LeagueError, match=r"row 2, seat 1: obs: part 'cards' has 0.5; its tokens are whole numbers"
        ):
            check.check()


def test_an_array_that_moves_under_last_actions_stops() -> None:
    """A game with the opponent's last action added is looked at where its own arrays are."""
    made = (guessing.make(4, 1, guessing.Options(kind="tokens", public=True)) for _ in range(2))
    batch, twin = (lastaction.wrap(each) for each in made)
    check = StrictMasks(batch, lambda rows: twin)
    check.check()
    batch._batch.mask = batch._batch.mask.copy()  # type: ignore[attr-defined]
    with pytest.raises(LeagueError, match="guessing: mask moved"):
        check.check()


def test_of_a_game_in_turns_waiting_seats_are_not_looked_at() -> None:
    """Masks and actions count where a seat is to act and its row is not held; `to_act` is rebuilt, too."""
    batch, twin = (Hands.as_game().make(rows, 1, Hands.as_game().Options()) for rows in (4, 1))
    assert isinstance(batch, Turns) and batch.mask is not None
    check = StrictMasks(batch, lambda rows: twin)
    for step in range(12):
        batch.actions[:] = -5
        firsts = batch.mask.reshape(4, 2, 8, 2)[:, :, 0]
        batch.actions[batch.to_act] = firsts[batch.to_act]
        batch.held[:] = np.arange(4) == step % 5
        batch.actions[batch.held] = -5
        batch.mask[~batch.to_act] = -9
        check.check(step % 4)
        batch.step()
    batch.held[:] = False
    row, seat = np.argwhere(batch.to_act)[0].tolist()
    batch.actions[:] = -5
    with pytest.raises(LeagueError, match=rf"row {row}, seat {seat}: action .* is not legal"):
        check.check()
    batch.to_act[row] = ~batch.to_act[row]
    with pytest.raises(LeagueError, match=f"row {row}, seat 0: to_act is .*, rebuilt from the state"):
        check.check(row)


def test_choices_are_looked_up_part_by_part() -> None:
    """In multi_discrete each part's choice is judged by its own stretch of the mask."""
    spec = ActionSpec("multi_discrete", (2, 3))
    mask = np.array([[[True, False, True, True, False], [True, True, False, False, True]]])
    assert spec.is_legal(np.array([[[0, 1], [1, 2]]], np.int32), mask).tolist() == [[True, True]]
    assert spec.is_legal(np.array([[[1, 1], [1, 1]]], np.int32), mask).tolist() == [[False, False]]
