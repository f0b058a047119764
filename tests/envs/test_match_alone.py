"""A match in plain Python that one may play alone, and one that is cut for one of the seats."""

from typing import Any

import numpy as np

from league.envs import registry
from league.envs.contract.check import check_match_batch
from league.envs.matches.match import Match
from league.policies.actor_critic import ActorCritic, Architecture
from league.types import Turns, ends_of
from tests.helpers.rollouts import make_collector


class Steps(Match):
    """Who takes two steps of three first is ahead; each walks alone. `nobody` walks not at all."""

    obs_size = 1
    obs_range = (0.0, 9.0)
    action = 2
    bots = {"nobody": None}  # noqa: RUF012

    def reset(self, rng: np.random.Generator) -> None:
        """Both at the start; the length is drawn."""
        self.length, self.at, self.absent = 3 + int(rng.integers(3)), [0, 0], [False, False]
        self.to_move = None

    def observe(self, seat: int) -> list[float]:
        """Where it is."""
        return [self.at[seat]]

    def step(self, actions: tuple[Any, Any]) -> None:
        """Both walk."""
        for seat, action in enumerate(actions):
            self._walk(seat, action)
        self._settle()

    def play(self, action: Any) -> None:
        """The one who is not there yet walks."""
        assert self.to_move is not None
        self._walk(self.to_move, action)
        self._settle()

    def _walk(self, seat: int, action: Any) -> None:
        if action is None:
            self.absent[seat] = True
        else:
            self.at[seat] += 1 + action

    def _settle(self) -> None:
        going = [seat for seat in range(2) if not self.absent[seat] and self.at[seat] < self.length]
        self.to_move = going[0] if len(going) == 1 else None
        if not going:
            self.end(None if self.at[0] == self.at[1] else int(self.at[1] > self.at[0]))


class HalfCut(Match):
    """Three steps, after which seat 0 is done and seat 1 cut off."""

    obs_size = 2
    action = 2

    def reset(self, rng: np.random.Generator) -> None:
        """Begins."""
        self.steps = 0

    def observe(self, seat: int) -> list[float]:
        """The steps made, and the seat."""
        return [self.steps / 3, seat]

    def step(self, actions: tuple[int, int]) -> None:
        """Counts."""
        self.steps += 1
        if self.steps == 3:
            self.end(None, cut=(False, True))


def test_nobody_takes_no_part() -> None:
    """Against it the other decides alone from the second step on, is brought back so, and the contract is kept."""
    game: Any = Steps.as_game()
    batch, other = (game.make(3, 1, game.Options()) for _ in range(2))
    assert isinstance(batch, Turns) and batch.absent == {0} and batch.spec.bots == ("nobody", "random")
    batch.controllers[:, 1] = 0
    batch.reset(1)
    assert batch.to_act.all()
    batch.step()
    assert batch.to_act.tolist() == [[True, False]] * 3
    other.set_state(batch.get_state())
    assert other.to_act.tolist() == batch.to_act.tolist() and other.obs.tolist() == batch.obs.tolist()
    while not batch.terminated[0]:
        batch.step()
    assert batch.result["winner"][0] == 0 and batch.final_obs[0, 1, 0] == 0
    check_match_batch(lambda rows, threads: game.make(rows, 1, game.Options()), rows=2, steps=20)


def network(game: str, options: dict[str, Any], seed: int) -> ActorCritic:
    """A small network without an encoder, whose values are not 0."""
    sizes = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 8, "encoder_feedforward": 8, "latents": 2}
    rest = {"observation_width": 8, "lstm_size": 8, "head_sizes": (8,), "opponent_encoder": False}
    net = ActorCritic(Architecture.of(registry.spec(game, options), history_tokens=2, **sizes, **rest))
    net.critic[-1].bias.data[:] = 3.0
    return net


def test_only_the_seat_that_was_cut_is_bootstrapped() -> None:
    """A learner whose own part is over expects nothing more, though the match was cut for the other."""
    name = registry.adopt(HalfCut, "HalfCut")
    collector = make_collector(name, rows=8, make_net=network)
    lane = collector.lanes[0]
    seats = lane.matches.seats.copy()
    rollout = collector.collect(3, 1)
    assert rollout.ends[2].all() and not rollout.ends[:2].any() and set(seats.tolist()) == {0, 1}
    after = rollout.next_value[2].numpy()
    assert (after[seats == 0] == 0).all() and (np.abs(after[seats == 1]) > 1).all()
    terminated, truncated = ends_of(lane.batch, np.zeros(8, np.int64))
    assert terminated.all() and not truncated.any()
    registry._leave(name)
