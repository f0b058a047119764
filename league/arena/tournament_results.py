"""What a tournament returns: standings, encounters, and what is not decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from league.boards import plots
from league.maths.ratings import Difference, Unit
from league.maths.record import Record
from league.store.rows import Sampling
from league.types.results import Grid, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Format = Literal["round-robin", "gauntlet", "adaptive", "double-elimination"]
Ended = Literal["complete", "reached", "max-games", "interrupted"]


@dataclass(frozen=True)
class Standing:
    """One entrant: its rating from all evaluation games of its kind, and what it did in this tournament.

    rating, lower, upper: as on the leaderboard; None for one without a game. group: see `standings.Entry`.
    """

    rank: int
    name: str
    agent_id: str
    rating: float | None
    lower: float | None
    upper: float | None
    group: int | None
    games: int
    wins: int
    draws: int
    losses: int
    forfeits: int
    """Of the losses."""


@dataclass(frozen=True)
class Encounter(Record):
    """What A did against B in this tournament."""

    a: str
    b: str


@dataclass(frozen=True)
class BracketMatch(Record):
    """A match of a double elimination, A's games against B in it.

    a: the better seed, in the final the one from the winners' bracket, who goes on where the match is level.

    bracket: `winners`, `losers` or `final`; round: counted from 1 in each.
    """

    bracket: str
    round: int
    a: str
    b: str

    @property
    def margin(self) -> float:
        """A's mean payoff, or its score above one half; 0 where the match is level."""
        return self.score - 0.5 if self.payoff is None else self.payoff.mean

    @property
    def winner(self) -> str:
        """Who goes on."""
        return self.b if self.margin < 0 else self.a


@dataclass(frozen=True)
class ContrastEstimate:
    """Elo points of A above B, or above the mean of all where `b` is None, with an anytime-valid interval.

    difference: None where no game links the two.
    """

    a: str
    b: str | None
    difference: Difference | None


@dataclass(frozen=True, repr=False)
class TournamentResult(Result):
    """What a tournament came to; `tournament` is the name of its matches in the store, None where there is no store.

    ended: `complete`, all games were played; of an adaptive one `reached`, every wanted interval is narrow enough, or
    `max-games`, they were used up; `interrupted`, by Ctrl+C or another signal to end (its number is `signal`), with the
    batches played until then. wanted: the differences that the games were chosen for, as they are now.
    wanted_interval: which 95 % intervals these have and the tournament decided by: `anytime-valid`, which hold at all
    looks together (`scheduling.anytime`). Those of standings and encounters hold at one number of games, fixed before.
    unit: of ratings and differences, as of `standings.Board`. bracket: the matches of a double elimination in their
    order, whose last one is won by the champion where it is complete.
    """

    tournament: str | None
    game: str
    game_id: str
    format: Format
    sampling: Sampling
    seed: int
    ended: Ended
    games: int
    unit: Unit
    anchor: str | None
    standings: tuple[Standing, ...]
    encounters: tuple[Encounter, ...]
    wanted: tuple[ContrastEstimate, ...]
    wanted_interval: Literal["anytime-valid"] | None = None
    signal: int = 0
    bracket: tuple[BracketMatch, ...] = ()

    def grids(self) -> list[Grid]:
        """The standings, then who met whom."""
        columns = ("rank", "agent", "rating", "lower", "upper", "games", "wins", "draws", "losses")
        standings = [
            (s.rank, s.name, s.rating, s.lower, s.upper, s.games, s.wins, s.draws, s.losses) for s in self.standings
        ]
        pairs = [(e.a, e.b, e.games, e.wins, e.draws, e.losses, *e.measured) for e in self.encounters]
        judged = self.encounters[0].measured._fields if self.encounters else ("score", "lower", "upper")
        met = Grid(("agent", "against", *columns[5:], *judged), pairs)
        return [Grid(columns, standings, f"{self.game}: {self.format}, {self.games:,} games, {self.ended}"), met]

    def plot(self) -> Figure:
        """The ratings of the entrants, with their intervals."""
        rated = [
            (s.name, s.rating, s.lower, s.upper)
            for s in self.standings
            if s.rating is not None and s.lower is not None and s.upper is not None
        ]
        return plots.ratings(
            f"{self.game}: {self.format}, {self.games:,} games", rated, held=self.anchor, unit=self.unit
        )

    def __repr__(self) -> str:
        return f"TournamentResult({self.game}, {len(self.standings)} agents, {self.games:,} games, {self.ended})"
