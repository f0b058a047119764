"""What passes between the parts.

Dimension letters, used in every docstring: `T` steps, `B` rows (matches side by side), `S` = 2 seats,
`A` action parts, `M` mask entries, `R` reward terms, `H` history tokens, `K` live frozen nets.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from league.errors import ContractError, shown
from league.types.observations import ObservationPart as ObservationPart
from league.types.observations import check_parts, check_pointers, check_unbounded, unbounded_numbers
from league.types.policy import Capturable as Capturable
from league.types.policy import Divisible as Divisible
from league.types.policy import Encoding as Encoding
from league.types.policy import Policy as Policy
from league.types.policy import PolicyStack as PolicyStack
from league.types.policy import PolicyState as PolicyState
from league.types.policy import Resting as Resting
from league.types.policy import Rollout as Rollout
from league.types.policy import Stackable as Stackable
from league.types.policy import Standardising as Standardising
from league.types.policy import Watched as Watched
from league.types.spaces import ActionSpec as ActionSpec
from league.types.spaces import BoolArray as BoolArray
from league.types.spaces import FloatArray as FloatArray
from league.types.spaces import Mask as Mask
from league.types.spaces import need_numbers, plain

SEATS = 2
EXTERNAL = -1
"""In `MatchBatch.controllers`: this seat's actions come from the engine, not from a native bot."""
DRAW = -1
"""In `winner`: nobody won."""
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""A whole name of a run, which is a folder's name and stands in tables."""
BOT_PREFIX = "bot:"
"""An agent of this beginning is a native bot of its game: `bot:NAME`."""


@dataclass(frozen=True)
class Source:
    """Where a game came from. It is stored with runs and snapshots, and is no part of what the game is."""

    address: str = ""
    """What `--env` takes: a file's whole path, a module, a scheme or an installed game, with `:NAME` where it has one.
    Empty: it came with this library, or as an object."""
    version: str = ""
    """Of the distribution that it is in; empty where it is in none."""
    sha256: str = ""
    """Of its file, in hex; empty where it is no file."""


@dataclass(frozen=True)
class Utility:
    """What a match pays, in games where that is more than the win.

    A match's payoff is half of what a seat was paid above the other: in a zero-sum game what it was paid.

    Raises:
        ValueError: the bound is not above 0.
    """

    term: str
    """The reward term whose unweighted sum over a match is a seat's utility."""
    bound: float | None = None
    """The most that a match can pay, and the most that it can cost, in the term's units. None: not known."""

    def __post_init__(self) -> None:
        if self.bound is not None and not 0.0 < self.bound < float("inf"):
            raise ValueError(f"bound={self.bound!r} must be a finite number above 0, or None where it is not known")


@dataclass(frozen=True)
class GameSpec:
    """What a game is. Two games with equal `name`, `version` and options are the same game.

    NumPy's numbers become Python's, and lists tuples.

    Raises:
        ValueError: a number that is none, less than a tick a step, an anchor, floor or activity that the game does not
            have, or parts that are not the whole observation.
    """

    name: str
    version: int
    """Goes up when behaviour changes, never on a refactor."""
    obs_size: int
    opponent_slice: tuple[int, int]
    """[start, stop) of the observation that shows the opponent, and what else is public: a token of the opponent's
    encoder. Empty: nothing does; `public_actions` says what may be shown instead."""
    obs_range: tuple[float, float]
    """The least and the greatest number that an observation can hold."""
    action: ActionSpec
    reward_terms: tuple[str, ...]
    metrics: tuple[str, ...]
    """Behaviour metrics, one number per seat and match, in the order of `result["metrics"]`."""
    end_reasons: tuple[str, ...]
    bots: tuple[str, ...]
    """Native bots; a bot's id is its index here."""
    tick_rate: float
    """Ticks a second of the game's own time."""

    # Not compared: the options decide the first, and what the others name changes neither play nor an agent.
    ticks_per_step: int = field(default=1, compare=False)
    """Ticks of a decision; an option that sets it has the same name."""
    anchor: str | None = field(default=None, compare=False)
    """The bot whose rating is held at 1000. None: the mean of a group of agents is."""
    floor: str | None = field(default=None, compare=False)
    """The bot that plays at random or no better: who loses to it has learned nothing. None: nobody is judged so."""
    activity: str | None = field(default=None, compare=False)
    """The metric that is 0 where a seat did nothing against its opponent. None: only time-outs tell of passivity."""
    observation: tuple[ObservationPart, ...] | None = field(default=None, compare=False)
    """How the observation's numbers are parts, all of them and in their order. None: they are numbers, one like the
    other. A network made for one reading keeps to it."""

    unbounded: tuple[tuple[int, int], ...] | None = field(default=None, compare=False)
    """[start, stop) of the observation, each of numbers without bounds that say how large they are: the library's
    network standardises them by running means and deviations. Left out, numbers without bounds of their own where
    `obs_range` goes beyond 20."""

    utility: Utility | None = field(default=None, compare=False)
    """What a match pays, by which evaluations, ratings, gates and samplers then score. None: by win, draw, loss."""

    public_actions: bool = field(default=False, compare=False)
    """Whether both seats may know every action once it is played. With an empty `opponent_slice` the opponent's last
    action is then added to what a seat observes (`league.envs.lastaction`); the game writes into `actions` what its
    native bots played. Not so where a hidden choice would be told, such as which card was laid face down."""

    imperfect_information: bool = field(default=False, compare=False)
    """Whether a seat decides without knowing all that matters: hidden cards, decisions at once. Good play is mixed
    then: a run without settings of its own learns by a magnet, mostly against itself (`league.arena.fitting`)."""

    @property
    def payoff_bound(self) -> float | None:
        """The most that a match can pay; None: not known, or the game has no utility."""
        return None if self.utility is None else self.utility.bound

    def payoff(self, reward_sums: npt.NDArray[np.float64]) -> float | None:
        """Seat 0's payoff (`Utility`) from a match's unweighted reward sums (S, R); None where the game has no utility.

        Raises:
            ContractError: it is more than `utility.bound`.
        """
        if self.utility is None:
            return None
        first, second = reward_sums[:, self.reward_terms.index(self.utility.term)].tolist()
        payoff = float((first - second) / 2.0)
        if abs(payoff) > 1.0001 * (self.utility.bound or np.inf):
            raise ContractError(
                f"{self.name}: a match pays {payoff:g}, more than utility.bound={self.utility.bound:g}; raise it"
            )
        return payoff

    def __post_init__(self) -> None:
        for name in (each.name for each in fields(self)):
            object.__setattr__(self, name, plain(getattr(self, name)))
        for name in ("version", "obs_size", "opponent_slice", "ticks_per_step"):
            need_numbers(name, getattr(self, name), int, is_one=name != "opponent_slice")
        for name in ("obs_range", "tick_rate"):
            need_numbers(name, getattr(self, name), float, is_one=name == "tick_rate")
        for name in ("opponent_slice", "obs_range"):
            if not isinstance(getattr(self, name), tuple) or len(getattr(self, name)) != 2:
                raise ValueError(f"{name}={getattr(self, name)!r} must be two numbers")
        if not isinstance(self.utility, Utility | None):
            raise ValueError(f"utility={shown(self.utility)} must be a Utility")
        if not isinstance(self.action, ActionSpec):
            raise ValueError(f"action={self.action!r} must be an ActionSpec")
        for name in ("reward_terms", "metrics", "end_reasons", "bots"):
            names = getattr(self, name)
            if not isinstance(names, tuple) or not all(isinstance(word, str) for word in names):
                raise ValueError(f"{name}={names!r} must be a tuple of names")
        if self.ticks_per_step < 1:
            raise ValueError(f"ticks_per_step={self.ticks_per_step} must be at least 1")
        for role, named, known in (
            ("anchor", self.anchor, self.bots),
            ("floor", self.floor, self.bots),
            ("activity", self.activity, self.metrics),
            ("utility", self.utility and self.utility.term, self.reward_terms),
        ):
            if named is not None and named not in known:
                what = {"activity": "metrics", "utility": "reward terms"}.get(role, "bots")
                raise ValueError(f"{role}={named!r} is none of the game's {what} ({', '.join(known) or 'it has none'})")
        if self.observation is not None:
            if not isinstance(self.observation, tuple) or not all(
                isinstance(part, ObservationPart) for part in self.observation
            ):
                raise ValueError(f"observation={self.observation!r} must be a tuple of ObservationPart")
            check_parts(self.observation, self.obs_size)
        parts = self.observation or ()
        check_pointers(self.action, parts)
        if self.unbounded is None:
            object.__setattr__(self, "unbounded", unbounded_numbers(self.obs_size, self.obs_range, parts))
        elif not isinstance(self.unbounded, tuple):
            raise ValueError(f"unbounded={self.unbounded!r} must be a tuple of [start, stop)")
        else:
            check_unbounded(self.unbounded, self.obs_size, parts)


def result_dtype(num_metrics: int) -> np.dtype[Any]:
    """The struct of `MatchBatch.result` for a game with `num_metrics` behaviour metrics."""
    return np.dtype(
        [
            ("winner", np.int8),  # seat 0 or 1, or DRAW
            ("end_reason", np.int8),  # index into GameSpec.end_reasons
            ("ticks", np.int32),  # length of the match
            ("seed", np.uint64),  # what the match was started with
            ("metrics", np.float32, (SEATS, num_metrics)),
        ]
    )


class MatchBatch(Protocol):
    """`B` two-seat matches stepped together, writing into arrays that they own (DESIGN, "The match batch").

    The arrays are allocated once and written in place; hold them, do not re-read them. A match that ends in a step
    is restarted in the same step: `terminated` or `truncated` and `result` speak of the match that ended, `final_obs`
    is its last observation, `obs` and `mask` are already the next match's first. A match's seed follows from its
    row's previous seed alone, so two rows reset with one seed play the same seeds in the same order. A game may write
    into `actions` what its native bots played, so that they can be imitated.
    """

    spec: GameSpec
    num_rows: int
    obs: FloatArray  # (B, S, obs_size)
    actions: npt.NDArray[Any]  # (B, S, A) of ActionSpec.dtype, written by the engine; not read where a native bot plays
    mask: Mask | None  # (B, S, M), legal now; None when everything always is
    reward_terms: FloatArray  # (B, S, R), unweighted
    terminated: BoolArray  # (B,)
    truncated: BoolArray  # (B,)
    final_obs: FloatArray  # (B, S, obs_size), rows that ended in this step only
    result: npt.NDArray[Any]  # (B,) of result_dtype, rows that ended in this step only
    controllers: npt.NDArray[np.int16]  # (B, S), EXTERNAL or a native bot's id, written by the engine

    def reset(self, seed: int | npt.NDArray[np.uint64]) -> None:
        """Starts a new match in every row: row i from a seed derived from (`seed`, i), or from `seed[i]` itself."""

    def step(self) -> None:
        """One decision of every match: `ticks_per_step` ticks with the actions held."""

    def get_state(self) -> bytes:
        """Everything that the next steps depend on, RNGs and controllers included."""

    def set_state(self, state: bytes) -> None:
        """Restores `get_state()` of a batch of the same game, options and size, and writes `obs` and `mask`.

        Raises:
            ValueError: the blob is damaged or of another game, version or size.
        """


@runtime_checkable
class Turns(Protocol):
    """What the `MatchBatch` of a game has as well in which not both seats decide in every step.

    A step is one decision of each seat that is to act, a native bot's as any other's; the actions of a seat that is not
    to act are not read, and its mask means nothing. Its observation is what it sees while it waits. A row that is held
    is left as it is by the step: no byte of its arrays and its state changes, but that its reward terms are 0 and
    nothing ended in it.

    A batch may have an attribute `absent` as well: ids of native bots that take no part. From its first decision on
    such a bot's seat is not to act any more.
    """

    to_act: BoolArray  # (B, S), who decides in the next step, at least one seat of each row; written as `obs` is
    held: BoolArray  # (B,), rows that the next step leaves as they are; written by the engine, at first False


class SeatCuts(Protocol):
    """What a `MatchBatch` has as well that says of each seat whether a match in `truncated` was cut for it.

    For a seat that it was not cut for, nothing can have followed: its own part was over.
    """

    cut_seats: BoolArray  # (B, S), rows that ended in this step only


def ends_of(batch: MatchBatch, seats: npt.NDArray[np.int64]) -> tuple[BoolArray, BoolArray]:
    """Where the last step ended a match, as `seats` (B,) have it: (terminated, truncated), (B,) each."""
    cut_seats = getattr(batch, "cut_seats", None)  # an isinstance of `SeatCuts` would take 38 us of every step
    if cut_seats is None:
        return batch.terminated.copy(), batch.truncated.copy()
    truncated = batch.truncated & cut_seats[np.arange(batch.num_rows), seats]
    return (batch.terminated | batch.truncated) & ~truncated, truncated


@runtime_checkable
class Regrouping(Protocol):
    """What a `MatchBatch` may do as well: its runs keep their matches where they go on in more or fewer lanes."""

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """The matches of `states`, in their order, as states of batches of `num_rows` rows each; changes nothing.

        Raises:
            ValueError: a blob is damaged or of another game or version, or the rows differ in number.
        """


@runtime_checkable
class Closing(Protocol):
    """What a `MatchBatch` has as well that holds more than memory, such as processes."""

    def close(self) -> None:
        """Lets go of it; the batch is of no more use. A batch that nobody refers to any more does so by itself."""


@dataclass(frozen=True)
class GameTree:
    """One match of a two-player zero-sum game with perfect recall, node by node: what exact game theory needs.

    `N` nodes, a parent before its children; `I` information sets, each one situation that a player can tell from the
    others; `A` actions (one action part), numbered as in play; `L` the most decisions up to an information set.
    Players are roles (who acts first), not seats. What chance deals is either a node of no player or several roots.
    """

    parent: npt.NDArray[np.int64]  # (N,), -1 for roots
    action: npt.NDArray[np.int64]  # (N,), taken at the parent by its player; -1 after chance and for roots
    player: npt.NDArray[np.int64]  # (N,), 0 or 1 to move; -1 for chance and leaves
    infoset: npt.NDArray[np.int64]  # (N,), of the player to move; -1 where nobody is
    chance: npt.NDArray[np.float64]  # (N,), probability of all that chance did up to here
    payoff: npt.NDArray[np.float64]  # (N,), player 0's at leaves, else 0; player 1 gets the negative
    legal: BoolArray  # (I, A)
    obs: FloatArray  # (I, L, obs_size), what the player has seen from the match's start on, one a decision; then zeros
    length: npt.NDArray[np.int64]  # (I,), how many of the L are seen


@dataclass(frozen=True)
class Origin:
    """Where matches were played, as each of their rows says it."""

    run: str
    game_id: str


@dataclass(frozen=True, slots=True)
class MatchResult:
    """One finished match, as the store keeps it. Key: (run, kind, update, row, ordinal)."""

    run: str
    kind: Literal["training", "evaluation"]
    update: int
    row: int
    ordinal: int
    game_id: str
    agents: tuple[str, str]
    """Who sat in seat 0 and seat 1: a snapshot's hash, `bot:NAME`, or in training the run's name (the learner)."""
    seed: int
    winner: int
    """Seat 0 or 1, or DRAW."""
    end_reason: str
    steps: int
    """Decisions."""
    ticks: int
    sampling: str
    """How the nets chose: `sample` or `greedy`."""
    update_begin: int | None = None
    """In training: the learner's update when the match began."""
    update_end: int | None = None
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Behaviour metric -> (seat 0, seat 1)."""
    rewards: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Unweighted reward term -> its sum over the match (seat 0, seat 1)."""
    payoff: float | None = None
    """Seat 0's payoff, in the units of the game's utility (`Utility`); seat 1's is minus that. None: it has none."""
    course: int | None = None
    """A hash of all that was observed, 64 bits; None where a side sampled its actions."""
    replay: str = field(default="", compare=False, repr=False)
    """The text of its replay (`league.play.recording`), where it was recorded; a row of its own in the store."""

    def outcome_of(self, agent: str) -> int:
        """0 where `agent` won, 1 for a draw, 2 where it lost: the index in (wins, draws, losses).

        Raises:
            ValueError: it did not sit in this match.
        """
        seat = self.agents.index(agent)
        return 1 if self.winner == DRAW else 0 if self.winner == seat else 2

    def score_of(self, agent: str) -> float:
        """What `agent` scored: 1 for a win, 0.5 for a draw, 0 for a loss.

        Raises:
            ValueError: it did not sit in this match.
        """
        return 1.0 - self.outcome_of(agent) / 2.0

    def payoff_of(self, agent: str) -> float | None:
        """The payoff of `agent`; None in a game of wins, draws and losses.

        Raises:
            ValueError: it did not sit in this match.
        """
        seat = self.agents.index(agent)
        return self.payoff if self.payoff is None or seat == 0 else -self.payoff
