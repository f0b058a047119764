"""Small games in plain Python: chance, actions and observations of all kinds, turns, and turns of both at once."""

from typing import Annotated, Any

import numpy as np
from pydantic import Field

from league.envs import Match
from league.types import ActionSpec, ObservationPart


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

    action, name = ActionSpec("multi_binary", (2, 2, 2)), "keyboard"
    action_names = ("left", "right", "jump")
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


def middle(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
    """Aims at the middle of what its bounds allow."""
    return [(low + high) / 2 for low, high in legal]


class Darts(Match):
    """Real numbers alone: who is nearer to a target that chance draws has the round."""

    action = ActionSpec("box", bounds=((0.0, 1.0), (-2.0, 3.0)))
    obs_size, opponent_slice, obs_range, end_reasons = 4, (2, 4), (-2.0, 3.0), ("rounds",)
    bots = {"middle": middle}  # noqa: RUF012, a mapping that is read only

    def reset(self, rng: np.random.Generator) -> None:
        self.rng, self.round, self.wins, self.last = rng, 0, [0, 0], [0.0, 0.0]
        self.target = self.rng.random()

    def observe(self, seat: int) -> Any:
        return [self.target, self.last[seat], self.last[1 - seat], self.wins[1 - seat] / 3]

    def step(self, actions: tuple[Any, Any]) -> None:
        assert all(type(action) is tuple and type(action[0]) is float for action in actions)
        self.round, self.last, self.target = self.round + 1, [action[1] for action in actions], self.rng.random()
        gap = [abs(action[0] - self.target) for action in actions]
        self.wins[int(gap[1] < gap[0])] += 1
        if self.round == 3:
            self.end(int(self.wins[1] > self.wins[0]), "rounds")


def dance(observation: Any, legal: Any, rng: np.random.Generator) -> Any:
    """A part of each kind by its name."""
    keys = [int(key in legal["rest"][0]) for key in range(2)]
    return {"move": legal["move"][-1], "aim": (0.25,), "rest": (keys, [0, 2])}


class Dance(Match):
    """A mixture with names and parts within parts; the observation is a dict of an image, tokens and numbers."""

    action = ActionSpec(
        "mixture",
        parts=(
            ActionSpec("discrete", (4,)),
            ActionSpec("box", bounds=((-1.0, 1.0),)),
            ActionSpec("mixture", parts=(ActionSpec("multi_binary", (2, 2)), ActionSpec("multi_discrete", (2, 3)))),
        ),
        names=("move", "aim", "rest"),
    )
    observation = (
        ObservationPart("floor", 0, (2, 3, 1), "image", bounds=(0.0, 8.0)),
        ObservationPart("shoes", 6, (2,), "tokens", count=5),
        ObservationPart("time", 8, (1,)),
    )
    public_actions, max_steps = True, 6
    bots = {"dance": dance}  # noqa: RUF012, a mapping that is read only

    def reset(self, rng: np.random.Generator) -> None:
        self.rng, self.floor, self.lead, self.made = rng, np.zeros((2, 3, 1)), 0.0, 0
        self.shoes = rng.integers(0, 5, (2, 2))

    def observe(self, seat: int) -> Any:
        floor = self.floor if seat == 0 else self.floor[::-1]
        return {"time": self.made / 6, "floor": floor, "shoes": self.shoes[seat]}

    def legal(self, seat: int) -> Any:
        return {"move": [0, 1 + int(self.shoes[seat, 0]) % 3], "rest": ([1], None)} if self.made % 2 else {}

    def step(self, actions: tuple[Any, Any]) -> None:
        self.move(0, actions[0])
        self.move(1, actions[1])
        self.finish()

    def move(self, seat: int, action: Any) -> None:
        keys, pair = action["rest"]
        assert set(action) == {"move", "aim", "rest"} and len(keys) == len(pair) == 2
        x = action["move"] % 3
        self.floor[seat, x] = min(8, self.floor[seat, x] + 1 + sum(keys) + pair[1])
        self.lead += (1 - 2 * seat) * action["aim"][0]

    def finish(self) -> None:
        self.made += 1
        if abs(self.lead) > 2:
            self.end(int(self.lead < 0))


class Waltz(Dance):
    """Dance, in turns; whoever begins is drawn, and seat 1 sometimes goes twice."""

    name, step = "waltz", Match.step

    def reset(self, rng: np.random.Generator) -> None:
        super().reset(rng)
        self.to_move = int(rng.integers(2))

    def play(self, action: Any) -> None:
        seat = self.to_move or 0
        self.move(seat, action)
        self.finish()
        self.to_move = 0 if seat and self.rng.random() < 0.7 else 1


class OpenHands(Hands):
    """Hands, of which every one that is played may be seen, and nothing else of the opponent."""

    name, opponent_slice, public_actions = "openhands", (0, 0), True
