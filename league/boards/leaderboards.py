"""What a leaderboard says: its entries, notes and groups, as a call returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from league.boards import plots
from league.boards.naming import SHORT_HASH
from league.maths.existence import Parameter
from league.maths.ratings import Difference, Unit
from league.store.rows import Sampling
from league.types.results import Grid, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Entry:
    """One rated agent. Rating and 95 % interval in the board's unit, games from evaluation only; ranks are a group's
    own."""

    rank: int
    agent_id: str
    name: str
    kind: str
    rating: float
    lower: float
    upper: float
    games: int
    wins: int
    draws: int
    losses: int
    group: int
    """Counted from 1; agents of different groups are not rated against each other."""
    superiority: float | None
    """The probability that it is stronger than the next of its group (LOS); None for the last."""
    is_champion: bool
    """Whether a gate promoted it and nobody has taken its title since."""
    is_best: bool
    """Whether it is RUN@best of its run."""
    against: Difference | None
    """How far it is above the agent asked for, in the board's unit, with the 95 % interval."""


@dataclass(frozen=True)
class Rated:
    """What an agent that met others in an evaluation is rated then, with its 95 % interval, in Elo points.

    is_newest: whether it is the newest snapshot of the run that was evaluated.
    """

    name: str
    rating: float
    lower: float
    upper: float
    is_newest: bool


@dataclass(frozen=True)
class RatingGroup:
    """Agents that a chain of games links, without a prior one in which each scored against each other.

    `anchor` is held at 1000; None: the group's mean is.
    """

    number: int
    anchor: str | None
    num_agents: int


@dataclass(frozen=True)
class Unbounded:
    """An agent whose rating is infinitely above (1) or below (-1) its group's, or that nothing compares with it (0)."""

    agent_id: str
    name: str
    sign: int


@dataclass(frozen=True)
class PairSurprise:
    """A pair that the ratings explain badly: A's observed and predicted score, and how far apart in deviations."""

    a: str
    b: str
    games: int
    observed: float
    predicted: float
    z: float


@dataclass(frozen=True)
class TrainingEntry:
    """One run as its training games show it: the moving Elo (no interval) and the games so far."""

    run: str
    elo: float
    games: int
    wins: int
    draws: int
    losses: int
    steps: int
    status: str
    payoff: float | None
    """The learner's mean payoff a training match; None where the game has no utility, or no match has ended."""


@dataclass(frozen=True)
class Board:
    """One game's leaderboard: entries group by group, from best to worst.

    `anchor` is the agent held at 1000 (where payoffs are rated, at 0) in the first group; None: its mean is.
    """

    game: str
    game_id: str
    sampling: Sampling
    """How the nets chose in the games that are rated."""
    unit: Unit
    """Of the ratings: `elo`, Bradley and Terry's model of wins, draws and losses, in Elo points; `payoff`, the payoff a
    match in the units of the game's utility, by least squares."""
    anchor: str | None
    entries: tuple[Entry, ...]
    learners: tuple[TrainingEntry, ...]
    groups: tuple[RatingGroup, ...]
    against: str | None
    """The name of the agent that differences were asked for."""
    seat: Difference | None
    """The first seat's advantage in the board's unit, with its 95 % interval; None where no two agents met in both
    seatings, and it counts as 0."""
    prior: float
    """Imagined draws an agent, and of each snapshot with the one before it. 0: maximum likelihood, with no prior of
    seats and draws either; of payoffs least squares."""
    effect: float
    """The design effect of games in pairs: games of a pair tell as much as 1 / effect independent ones each. Intervals
    know it."""
    infinite: tuple[Unbounded, ...]
    """Agents without a finite rating, which are no entries; there are such only without a prior."""
    undetermined: tuple[Parameter, ...]
    """`seat`, `draws`: whether the first seat's advantage and the weight of draws have no finite estimate, likewise."""
    dispersion: float | None
    """The pairs' mean squared surprise: about 1 where one number an agent explains the scores; None: no pair tells."""
    surprises: tuple[PairSurprise, ...]
    notes: tuple[str, ...]
    """What to mind when reading this board."""
    num_left_out: int = 0
    """Rated agents that are shown nowhere in `entries`; there are such only on a brief board."""


@dataclass(frozen=True, repr=False)
class Leaderboard(Result):
    """One board a game id, the latest run's first; ratings of different games have nothing to do with each other."""

    boards: tuple[Board, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of all boards, board by board."""
        return tuple(entry for board in self.boards for entry in board.entries)

    @property
    def learners(self) -> tuple[TrainingEntry, ...]:
        """The learners of all boards, board by board."""
        return tuple(learner for board in self.boards for learner in board.learners)

    def grids(self) -> list[Grid]:
        """One a game, since ratings of two games may have two units."""
        columns = (
            *("game", "rank", "agent", "best", "rating", "lower", "upper", "unit", "games", "wins", "draws", "losses"),
            *("superiority", "group", "agent_id"),
        )
        rows = [
            [
                (
                    *(board.game, x.rank, x.name, x.is_best, x.rating, x.lower, x.upper, board.unit),
                    *(x.games, x.wins, x.draws, x.losses, x.superiority, x.group, x.agent_id[:SHORT_HASH]),
                )
                for x in board.entries
            ]
            for board in self.boards
        ]
        return [Grid(columns, entries) for entries in rows or [[]]]

    def plot(self) -> Figure:
        """The ratings of the first board that has any, with their intervals."""
        board = next((board for board in self.boards if board.entries), None)
        if board is None:
            return plots.ratings("nobody is rated yet", [])
        others = len([other for other in self.boards if other.entries]) - 1
        title = f"{board.game}: {len(board.entries):,} agents" + (f"; {others} other games" if others else "")
        rated = [(x.name, x.rating, x.lower, x.upper) for x in board.entries]
        return plots.ratings(title, rated, held=board.anchor, unit=board.unit)

    def __repr__(self) -> str:
        games = ", ".join(f"{board.game}: {len(board.entries)} agents" for board in self.boards)
        return f"Leaderboard({games or 'no games'})"
