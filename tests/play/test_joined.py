"""The learner in the stack of the frozen nets: who is in which entry, and how many entries there are."""

from typing import Any

import numpy as np
import pytest
import torch

from league.play.opponents import NO_SLOT, Opponents
from league.types import SEATS
from tests.helpers.rollouts import make_collector


class Stack:
    """A stack that keeps which net was put where."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.nets: dict[int, Any] = {}

    def reserve(self, num_slots: int) -> None:
        """Room for as many."""
        self.num_slots = max(self.num_slots, num_slots)

    def put(self, slot: int, policy: Any) -> None:
        """A net in a slot that there is."""
        assert slot < self.num_slots
        self.nets[slot] = policy


class Nets:
    """A pool whose nets are their names."""

    guests = ()

    def policy(self, agent_id: str) -> Any:
        """The net of that name."""
        return agent_id


@pytest.mark.parametrize(("num_rows", "live_nets"), [(64, 4), (1000, 16), (2048, 16), (3, 4)])
@pytest.mark.parametrize("is_skewed", [False, True])
def test_each_seat_has_one_entry_of_its_net(num_rows: int, live_nets: int, is_skewed: bool) -> None:
    """Of all that nets play, in a slot that holds its net; entries are at most about twice the rows, even where one
    net has most of them, as rows change hands."""
    stack, rng = Stack(2 * live_nets), np.random.default_rng(num_rows)
    played: Any = Opponents(Nets(), stack, torch.device("cpu"), "me", num_rows, joins=True)  # type: ignore[arg-type]
    played.refresh()
    names = [f"net-{i}" for i in range(2 * live_nets)]
    weights = np.array([50.0, *[1.0] * (len(names) - 1)]) if is_skewed else np.ones(len(names))
    slots, seats = np.full(num_rows, NO_SLOT), rng.integers(0, SEATS, num_rows)
    own = np.arange(num_rows) * SEATS + seats
    for _ in range(20):
        for row in np.flatnonzero(rng.random(num_rows) < 0.5):
            is_bot = rng.random() < 0.05
            slot = NO_SLOT if is_bot else played.enter(str(rng.choice(names, p=weights / weights.sum())))
            played.leave(int(slots[row]))
            slots[row] = slot
        (group,) = played.joined(slots, own, with_learner=True)
        width = len(group.rows) // group.num_slots
        assert group.num_slots <= stack.num_slots and group.seats is not None and group.where is not None
        assert torch.equal(group.rows[:num_rows], torch.arange(num_rows)), "the learner's rows come first"
        for row in range(num_rows):
            mine, theirs = int(group.where[own[row]]), int(group.where[own[row] ^ 1])
            assert int(group.rows[mine]) == row and int(group.seats[mine]) == own[row]
            assert stack.nets[mine // width] == "me"
            if slots[row] != NO_SLOT:
                assert int(group.rows[theirs]) == num_rows + row and int(group.seats[theirs]) == own[row] ^ 1
                assert stack.nets[theirs // width] == played.agents[slots[row]]
        num_played = num_rows + int((slots != NO_SLOT).sum())
        assert int((group.rows < 2 * num_rows).sum()) == num_played, "each once; the others are the spare row"
        assert num_rows < 8 or len(group.rows) <= 2.3 * num_played


def test_only_opponents_reply() -> None:
    """Where the learner waits none of its rows is in the call."""
    played: Any = Opponents(Nets(), Stack(4), torch.device("cpu"), "me", 8, joins=True)  # type: ignore[arg-type]
    slots = np.array([played.enter("net") if row % 2 else NO_SLOT for row in range(8)])
    (group,) = played.joined(slots, np.arange(8) * SEATS, with_learner=False)
    assert sorted(x for x in group.rows.tolist() if x < 16) == [9, 11, 13, 15]
    assert played.joined(np.full(8, NO_SLOT), np.arange(8) * SEATS, with_learner=False) == []


@pytest.mark.parametrize("game", ["leduc", "matrix"])
def test_games_of_all_kinds_are_played_joined(game: str) -> None:
    """In turns, with views between decisions and replies of the opponents alone, a replay gives the log-probabilities
    of play, also after the learner's weights have changed."""
    collector = make_collector(game, joins=True)
    for update in (1, 2):
        with torch.no_grad():
            for parameter in collector.policy.parameters():
                parameter.add_(0.01 * torch.randn_like(parameter))
        rollout = collector.collect(30, update)
        arrays = (rollout.obs, rollout.action, rollout.is_first, rollout.mask)
        obs, action, is_first, mask = (None if x is None else x.transpose(0, 1) for x in arrays)
        with torch.no_grad():
            found, _, value = collector.policy.sequence(obs, action, rollout.state, is_first, mask, rollout.watched)
        assert (found.T - rollout.log_prob).abs().max() < 1e-5 and (value.T - rollout.value).abs().max() < 1e-5
