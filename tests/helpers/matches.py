"""Small games in plain Python: chance, parts, keys, legal tuples, turns, and turns in which both may decide at once."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from league.envs import Match
from league.types import ActionSpec


class Grid(Match):
    """Two parts, of which chance forbids some choices; own reward terms and metrics; a clock that nobody sees."""

    action = (2, 3)
    obs_size, opponent_slice, obs_range = 6, (2, 4), (-1.0, 3.0)
    reward_terms, metrics, end_reasons = ("coins",), ("threes", "moves"), ("rich", "clock")

    def __init__(self, target: Annotated[int, Field(ge=1, le=9)] = 3, rounds: int = 6, *, lucky: bool = True) -> None:
        if rounds < target:
            raise ValueError(f"env.rounds={rounds} must be at least env.target={target}")
        self.target, self.rounds, self.lucky = target, rounds, lucky

    def reset(self, rng: np.random.Generator) -> None:
        self.rng, self.round, self.coins, self.last = rng, 0, [0, 0], [0, 0]
        self.draw()

    def draw(self) -> None:
        self.open = [int(self.rng.integers(1, 3)) if self.lucky else 2 for _ in range(2)]

    def observe(self, seat: int) -> Any:
        own = [[self.coins[who] / 9, self.last[who] - 1.0] for who in (seat, 1 - seat)]
        return np.array([*own, [self.open[seat], self.round / self.rounds]])

    def legal(self, seat: int) -> Any:
        return [[0, 1], list(range(self.open[seat] + 1))]

    def step(self, actions: tuple[Any, Any]) -> None:
        self.round += 1
        self.last = [action[1] for action in actions]
        for seat, (take, choice) in enumerate(actions):
            self.measure(seat, "moves")
            if take and choice > 0 and choice >= actions[1 - seat][1]:
                self.coins[seat] += 1
                self.reward(seat, "coins", choice / 2)
                self.measure(seat, "threes", choice == 2)
        self.draw()
        if max(self.coins) >= self.target and self.coins[0] != self.coins[1]:
            self.end(int(self.coins[1] > self.coins[0]), "rich")
        elif self.round == self.rounds:
            self.end(None, "clock", cut=True)


def hold(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
    """Presses nothing."""
    return [0, 0, 0]


class Keys(Match):
    """Keys, one of which rests after it was pressed."""

    action, keys, name = ActionSpec("multi_binary", (2, 2, 2)), ("left", "right", "jump"), "keyboard"
    obs_size, opponent_slice = 4, (2, 4)
    bots, anchor, max_steps, ticks_per_step = {"hold": hold}, "hold", 5, 3

    def reset(self, rng: np.random.Generator) -> None:
        self.tired, self.x = [False, False], [0, 0]

    def observe(self, seat: int) -> Any:
        return [x for who in (seat, 1 - seat) for x in (self.tired[who], self.x[who] / 9)]

    def legal(self, seat: int) -> Any:
        return [0, 1] if self.tired[seat] else (0, 1, 2)

    def step(self, actions: tuple[Any, Any]) -> None:
        for seat, (left, right, jump) in enumerate(actions):
            assert not (jump and self.tired[seat])
            self.tired[seat] = bool(jump)
            self.x[seat] = max(0, self.x[seat] + right - left + 2 * jump)
        if max(self.x) > 5:
            self.end(None if self.x[0] == self.x[1] else int(self.x[1] > self.x[0]))


class Hands(Match):
    """Hidden hands, in turns: legal tuples (card, target)."""

    action, obs_size = ActionSpec("legal_tuples", (5, 2), 8), 8
    opponent_slice = (6, 7)

    def reset(self, rng: np.random.Generator) -> None:
        deck = rng.permutation(5).tolist()
        self.hands, self.piles, self.to_move = [sorted(deck[:2]), sorted(deck[2:4])], [0, 0], int(rng.integers(2))

    def observe(self, seat: int) -> Any:
        hand = [card in self.hands[seat] for card in range(5)]
        return np.array([*hand, *(self.piles[who] / 20 for who in (seat, 1 - seat)), self.to_move == seat])

    def legal(self, seat: int) -> Any:
        return [(card, target) for card in self.hands[seat] for target in range(2)]

    def play(self, action: Any) -> None:
        card, target = action
        self.hands[self.to_move].remove(card)
        self.piles[self.to_move if target == 0 else 1 - self.to_move] += card + 1
        self.to_move = 1 - self.to_move
        if not any(self.hands):
            self.end(None if self.piles[0] == self.piles[1] else int(self.piles[1] > self.piles[0]))


class Auction(Match):
    """Both bid at once; who bids more (seat 0 where equal) then takes one to three of what is left."""

    action, obs_size, opponent_slice, end_reasons = 3, 4, (1, 2), ("empty",)
    to_move = None

    def reset(self, rng: np.random.Generator) -> None:
        self.left, self.taken, self.to_move = int(rng.integers(4, 8)), [0, 0], None

    def observe(self, seat: int) -> Any:
        phase = 0.5 if self.to_move is None else float(self.to_move == seat)
        return [self.taken[seat] / 9, self.taken[1 - seat] / 9, self.left / 9, phase]

    def step(self, actions: tuple[Any, Any]) -> None:
        self.to_move = int(actions[1] > actions[0])

    def play(self, action: Any) -> None:
        amount = min(action + 1, self.left)
        self.taken[self.to_move or 0] += amount
        self.left -= amount
        self.to_move = None
        if self.left == 0:
            self.end(None if self.taken[0] == self.taken[1] else int(self.taken[1] > self.taken[0]), "empty")
