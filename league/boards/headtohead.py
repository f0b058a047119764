"""Two agents compared: what they did against each other, and what everybody's games say of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from league.boards import plots
from league.boards.naming import find_rated
from league.boards.rating import rate
from league.errors import UsageError
from league.maths.ratings import Difference, Probabilities, Unit
from league.maths.record import Record
from league.store.reading import Reader
from league.store.rows import Sampling
from league.types.results import Grid, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Matchup(Result):
    """A against B in one game: their own games, and what the ratings of all say, None where no chain links the two.

    unit: of the ratings, `elo` or `payoff`. predicted: the probabilities of A's win, draw and loss, the mean of both
    seatings; None where payoffs are rated. difference: Elo points of A above B, or what a match pays A against B, with
    the 95 % interval. superiority: the probability that A is the stronger (LOS). z: how far their own score lies
    above the predicted one, in standard deviations; None where they never met, or where nothing else links them.
    """

    a: str
    b: str
    game: str
    game_id: str
    sampling: Sampling
    unit: Unit
    record: Record
    """All their games, as seen from A."""
    seat0: Record
    """The games in which A sat first."""
    seat1: Record
    predicted: Probabilities | None
    predicted_score: float | None
    difference: Difference | None
    superiority: float | None
    z: float | None

    def grids(self) -> list[Grid]:
        """A row for all games, and one for either seating."""
        columns = ("agent", "against", "seat", "games", "wins", "draws", "losses", *self.record.measured._fields)
        seatings = ((None, self.record), (0, self.seat0), (1, self.seat1))
        rows = [(self.a, self.b, seat, r.games, r.wins, r.draws, r.losses, *r.measured) for seat, r in seatings]
        told = [] if self.predicted_score is None else [f"predicted score {self.predicted_score:.3f}"]
        told += [] if self.superiority is None else [f"stronger with probability {self.superiority:.2f}"]
        return [Grid(columns, rows, "; ".join(told))]

    def plot(self) -> Figure:
        """The record, of all games and by seat."""
        named = (("all games", self.record), ("in seat 0", self.seat0), ("in seat 1", self.seat1))
        return plots.scores(f"{self.a} against {self.b}", [(name, r) for name, r in named if r.games])


def matchup(store: Reader, a: str, b: str, *, sampling: Sampling = "sample") -> Matchup:
    """What is known of A against B from evaluation games, in the latest game that both have played.

    Args:
        store: the match store.
        a, b: agents, by the names that `league.boards.naming.find_rated` takes.
        sampling: how the nets chose in the games that count.

    Raises:
        UsageError: no such agent, the same agent twice, or no game in which both have evaluation games.
        StoreError: the store cannot be read.
    """
    with store.reading():
        (a_id, a_name), (b_id, b_name) = find_rated(store, a), find_rated(store, b)
        if a_id == b_id:
            raise UsageError(f"{a} and {b} are the same agent ({a_name}); name two different ones")
        games = store.games()
        for game_id in games:
            counts = store.pair_counts(game_id, sampling=sampling)
            if {a_id, b_id} <= {*counts.seat0, *counts.seat1}:
                ratings = rate(store, game_id, sampling)
                record, seat0, seat1 = store.head_to_head(game_id, a_id, b_id, sampling)
                break
        else:
            raise UsageError(
                f"{a} and {b} have no game in which both have evaluation matches with sampling={sampling};"
                f" play some with `league evaluate A --against B`"
            )
    is_linked = ratings.group[ratings.index(a_id)] == ratings.group[ratings.index(b_id)]
    difference = ratings.difference(a_id, b_id) if is_linked else None
    predicted = ratings.predict(a_id, b_id) if is_linked and ratings.unit == "elo" else None
    surprise = ratings.surprise(a_id, b_id)
    return Matchup(
        a=a_name,
        b=b_name,
        game=games[game_id],
        game_id=game_id,
        sampling=sampling,
        unit=ratings.unit,
        record=record,
        seat0=seat0,
        seat1=seat1,
        predicted=predicted,
        predicted_score=None if predicted is None else predicted.score,
        difference=difference,
        superiority=ratings.superiority(a_id, b_id) if is_linked else None,
        z=None if surprise is None else surprise.z,
    )
