"""Games of one idea, one for each kind of space: what a seat sees says which action is right, afresh in each round.

Whoever was right more often wins. `Options.kind` is one of `KINDS`. Numpy only; the state is seeds and counters.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import BaseModel, ConfigDict

from league.envs import registry
from league.envs.arrays import ArrayBatch, Rows, UInts, streams, uniform
from league.types import DRAW, EXTERNAL, SEATS, ActionSpec, BoolArray, GameSpec, ObservationPart

KINDS = ("box", "tuples", "image", "tokens", "mixture", "entities")
MATCH = np.dtype([("seed", np.uint64), ("round", np.int32), ("score", np.float64, (SEATS,))])
DRAWS = 64
SIDE, COLOURS, TYPES, TARGETS, TUPLES, UNITS = 6, 4, 3, 4, 6, 8

ACTIONS = {
    "box": ActionSpec("box", bounds=((0.0, 10.0), (-1.0, 1.0))),
    "tuples": ActionSpec("legal_tuples", (TYPES, TARGETS), TUPLES),
    "image": ActionSpec("discrete", (4,)),
    "tokens": ActionSpec("multi_binary", (2, 2)),
    "mixture": ActionSpec(
        "mixture",
        parts=(
            ActionSpec("discrete", (3,)),
            ActionSpec("box", bounds=((-2.0, 2.0),)),
            ActionSpec("mixture", parts=(ActionSpec("multi_binary", (2, 2)), ActionSpec("multi_discrete", (2, 3)))),
        ),
        names=("pick", "aim", "rest"),
    ),
    "entities": ActionSpec("discrete", (UNITS,), pointers=tuple(range(UNITS))),
}
PARTS = {
    "box": None,
    "tuples": None,
    "image": (
        ObservationPart("board", 0, (SIDE, SIDE, 1), "image", bounds=(0.0, 255.0)),
        ObservationPart("rest", SIDE * SIDE, (2,)),
    ),
    "tokens": (ObservationPart("cards", 0, (2, 2), "tokens", COLOURS), ObservationPart("rest", 4, (1,))),
    "mixture": (ObservationPart("cards", 0, (3,), "tokens", 3), ObservationPart("wanted", 3, (3,))),
    "entities": (
        ObservationPart("units", 0, (UNITS, 4), "entities", bounds=(0.0, 1.0)),
        ObservationPart("rest", UNITS * 4, (2,)),
    ),
}
SIZES = {
    "box": 2,
    "tuples": TARGETS + TYPES * TARGETS,
    "image": SIDE * SIDE + 2,
    "tokens": 5,
    "mixture": 6,
    "entities": UNITS * 4 + 2,
}
RANGES = {
    **dict.fromkeys(("box", "tuples", "entities"), (0.0, 1.0)),
    **{"image": (0.0, 255.0), "tokens": (0.0, 3.0), "mixture": (-2.0, 2.0)},
}
SLICES = {"box": (0, 2), "tuples": (0, 16), "image": (36, 38), "tokens": (0, 4), "mixture": (0, 4), "entities": (0, 32)}


class Options(BaseModel):
    """What changes the game."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["box", "tuples", "image", "tokens", "mixture", "entities"] = "box"
    rounds: int = 4
    public: bool = False
    """Whether the opponent is shown by its actions instead of what the game shows."""


def spec(options: Options) -> GameSpec:
    """The game's figures."""
    kind = options.kind
    return GameSpec(
        name="guessing",
        version=1,
        obs_size=SIZES[kind],
        opponent_slice=(0, 0) if options.public else SLICES[kind],
        obs_range=RANGES[kind],
        action=ACTIONS[kind],
        reward_terms=("right",),
        metrics=("right",),
        end_reasons=("rounds",),
        bots=("random",),
        tick_rate=1.0,
        observation=PARTS[kind],
        public_actions=options.public,
    )


def make(rows: int, threads: int, options: Options) -> GuessingBatch:
    """`rows` matches."""
    del threads
    return GuessingBatch(rows, options)


class GuessingBatch(ArrayBatch):
    """The game's matches."""

    def __init__(self, rows: int, options: Options) -> None:
        self._options = options
        super().__init__(spec(options), rows, MATCH, options)

    def begin(self, rows: Rows, seeds: UInts) -> None:
        """Starts `rows`."""
        self.match[rows] = 0
        self.match["seed"][rows] = seeds

    def step(self) -> None:
        """One round of every match."""
        played = self.actions.copy()
        by_bot = self.controllers != EXTERNAL
        played[by_bot] = self.spec.action.legal_actions(self.mask, self._draws(1)[..., : self.spec.action.num_draws])[
            by_bot
        ]
        if self._options.public:
            self.actions[:] = played
        right = self._judge(played)
        self.reward_terms[..., 0] = right
        match = self.match
        match["score"] += right
        match["round"] += 1
        self.show()
        self.terminated[:] = match["round"] >= self._options.rounds
        ended = np.flatnonzero(self.terminated)
        lead = np.sign(match["score"][ended, 0] - match["score"][ended, 1])
        self.finish(
            ended,
            winner=np.select([lead > 0, lead < 0], [0, 1], default=DRAW),
            ticks=match["round"][ended],
            metrics=match["score"][ended, :, None] / self._options.rounds,
        )
        self.show()

    def possible(self, match: npt.NDArray[Any]) -> dict[str, BoolArray]:
        """The rounds that a match has."""
        return {"round": (match["round"] >= 0) & (match["round"] < self._options.rounds)}

    def _draws(self, which: int) -> npt.NDArray[np.float64]:
        """(B, S, DRAWS) numbers in [0, 1) of this round."""
        seeds = self.match["seed"][:, None] + np.arange(SEATS, dtype=np.uint64) + np.uint64(2 * which)
        return uniform(streams(seeds, DRAWS), self.match["round"][:, None, None])

    def show(self) -> None:
        """What both seats are to guess from."""
        unit = self._draws(0)
        if self.mask is not None and self.mask.dtype == np.bool_:
            self.mask[:] = True
        getattr(self, f"_show_{self._options.kind}")(unit)

    def _judge(self, played: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(getattr(self, f"_right_{self._options.kind}")(played, self._draws(0)), np.float32)

    def _show_box(self, unit: npt.NDArray[Any]) -> None:
        self.obs[:] = unit[..., :2]

    def _right_box(self, played: npt.NDArray[Any], unit: npt.NDArray[Any]) -> Any:
        """The first number should be ten times what is seen, the second its opposite half."""
        off = np.abs(played[..., 0] / 10 - unit[..., 0]) + np.abs(played[..., 1] + unit[..., 1] / 2) / 2
        return 1 - off

    def _show_tuples(self, unit: npt.NDArray[Any]) -> None:
        """Some of the pairs (type, target) are legal; shown is which, and by how much a target should exceed a type."""
        shift = (unit[..., 0] * TARGETS).astype(int)
        self.obs[:] = 0
        self.obs[..., :TARGETS] = shift[..., None] == np.arange(TARGETS)
        order = unit[..., 8 : 8 + TYPES * TARGETS].argsort(-1)  # all pairs in a random order
        suits = (order % TARGETS) == (order // TARGETS + shift[..., None]) % TARGETS
        first = np.argsort(~suits, axis=-1, kind="stable")[..., :2]  # two that suit are legal
        chosen = np.concatenate([first, np.argsort(suits, axis=-1, kind="stable")[..., : TUPLES - 2]], -1)
        pairs = np.take_along_axis(order, chosen, -1)
        tuples = np.stack([pairs // TARGETS, pairs % TARGETS], -1).astype(np.int16)
        count = 2 + (unit[..., 1] * (TUPLES - 1)).astype(int)
        tuples[np.arange(TUPLES) >= count[..., None]] = -1
        assert self.mask is not None
        self.mask[:] = tuples.reshape(self.mask.shape)
        legal = (pairs[..., None] == np.arange(TYPES * TARGETS)) & (np.arange(TUPLES) < count[..., None])[..., None]
        self.obs[..., TARGETS:] = legal.any(-2)

    def _right_tuples(self, played: npt.NDArray[Any], unit: npt.NDArray[Any]) -> Any:
        return played[..., 1] == (played[..., 0] + (unit[..., 0] * TARGETS).astype(int)) % TARGETS

    def _show_image(self, unit: npt.NDArray[Any]) -> None:
        """A bright spot on a dim board: in which quarter is it?"""
        board = unit[..., 8 : 8 + SIDE * SIDE] * 100
        spot = (unit[..., 0] * SIDE * SIDE).astype(int)
        np.put_along_axis(board, spot[..., None], 255, -1)
        self.obs[..., : SIDE * SIDE] = board
        self.obs[..., SIDE * SIDE :] = 0
        assert self.mask is not None

    def _right_image(self, played: npt.NDArray[Any], unit: npt.NDArray[Any]) -> Any:
        down, across = np.divmod((unit[..., 0] * SIDE * SIDE).astype(int), SIDE)
        return played[..., 0] == 2 * (down >= SIDE // 2) + (across >= SIDE // 2)

    def _show_tokens(self, unit: npt.NDArray[Any]) -> None:
        self.obs[..., :4] = np.floor(unit[..., :4] * COLOURS)
        self.obs[..., 4] = 1

    def _right_tokens(self, played: npt.NDArray[Any], unit: npt.NDArray[Any]) -> Any:
        """Each key should be pressed where the two cards of its row are of one colour."""
        cards = np.floor(unit[..., :4] * COLOURS)
        return ((played == 1) == (cards[..., ::2] == cards[..., 1::2])).mean(-1)

    def _show_mixture(self, unit: npt.NDArray[Any]) -> None:
        self.obs[..., :3] = np.floor(unit[..., :3] * 3)
        self.obs[..., 3:] = unit[..., 3:6] * 4 - 2
        assert self.mask is not None
        self.mask[..., 0] = unit[..., 0] < 0.5  # of the choices 0, 1, 2 the first is not always legal

    def _right_mixture(self, played: npt.NDArray[Any], unit: npt.NDArray[Any]) -> Any:
        """The last choice should be the first card, the number what is wanted."""
        off = np.abs(played[..., 1] - (unit[..., 3] * 4 - 2))
        return 0.5 * (played[..., -1] == np.floor(unit[..., 0] * 3)) - 0.1 * off

    def _show_entities(self, unit: npt.NDArray[Any]) -> None:
        """Units in some of the rows, and in absent ones numbers that mean nothing."""
        units = self._units(unit)
        self.obs[..., : UNITS * 4] = units.reshape(*units.shape[:2], -1)
        self.obs[..., UNITS * 4 :] = 0
        assert self.mask is not None
        self.mask[:] = units[..., 0] == 1

    def _right_entities(self, played: npt.NDArray[Any], unit: npt.NDArray[Any]) -> Any:
        """The unit whose first number exceeds its second by most."""
        there, first, second, _ = np.moveaxis(self._units(unit), -1, 0)
        return played[..., 0] == np.where(there, first - second, -2).argmax(-1)

    def _units(self, unit: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """(B, S, UNITS, 4); one at least is there."""
        units = unit[..., 8 : 8 + UNITS * 4].reshape(*unit.shape[:2], UNITS, 4).copy()
        units[..., 0] = (units[..., 0] < 0.5) | (np.arange(UNITS) == (unit[..., :1] * UNITS).astype(int))
        return units


GAME: Any = SimpleNamespace(Options=Options, spec=spec, make=make)


def register(monkeypatch: pytest.MonkeyPatch) -> str:
    """The game's name; it is registered for one test."""
    monkeypatch.setitem(registry._games, "guessing", GAME)
    return "guessing"
