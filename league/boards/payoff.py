"""Everybody against everybody: the cross table of a game's evaluation matches, and what the metagame says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from league.boards.naming import SHORT_HASH, named_agents
from league.boards.rating import games_of, rate_counts
from league.errors import UsageError
from league.maths.metagame import (
    Crosstable,
    alpha_rank,
    cycles,
    cyclic_share,
    cyclic_share_by_chance,
    nash,
    relative_population_performance,
)
from league.maths.pairs import PairCounts, PairSums
from league.maths.ratings import Ratings, Unit
from league.runtime.phases import phase
from league.store.reading import Reader
from league.store.rows import GameRow
from league.types.results import Grid, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = npt.NDArray[np.float64]

MAX_AGENTS = 2_000
"""Of a cross table: its cycles take the cube of that, ten seconds or so."""


@dataclass(frozen=True)
class PayoffRow:
    """One agent of a cross table. Rating and 95 % interval as on the leaderboard.

    nash, alpha_rank: its share, in [0, 1], of the two mixtures (`metagame.nash`, `metagame.alpha_rank`). group: counted
    from 1; agents of different groups are not rated against each other.
    """

    agent_id: str
    name: str
    rating: float
    lower: float
    upper: float
    games: int
    score: float
    nash: float
    alpha_rank: float
    group: int


@dataclass(frozen=True)
class Circle:
    """Three agents of which each beats the next and the last the first; see `metagame.Cycle`."""

    names: tuple[str, str, str]
    weakest: float
    certainty: float


@dataclass(frozen=True)
class Performance:
    """What population `a` gains on population `b` (a margin in [-1, 1]) where both mix as they do best.

    known: the share of their pairs that have met; the rest is the rating model's guess.
    """

    a: str
    b: str
    gain: float
    known: float


@dataclass(frozen=True, repr=False)
class Payoff(Result):
    """The cross table of one game, group by group, in each the best-rated agent first.

    unit: of ratings and scores, as of `standings.Board`. score[i][j]: the mean score of agent i against j, a draw as
    half a win, or its mean payoff a match; None where they never met. games: likewise. Mixtures, cycles and shares are
    of scores in [0, 1], to which payoffs are scaled by the most that a match can pay.
    groups: sets of agents that no chain of games links; above 1, the ratings across are the prior's guess.
    cyclic_share: see `metagame.cyclic_share`; chance_mean and chance_p: its mean where a ranking explains all, and how
    often it is then at least as large. num_cycles: 3-cycles that the results show; `circles` has the surest.
    """

    game: str
    game_id: str
    unit: Unit
    anchor: str | None
    rows: tuple[PayoffRow, ...]
    score: tuple[tuple[float | None, ...], ...]
    games: tuple[tuple[int, ...], ...]
    groups: int
    cyclic_share: float
    chance_mean: float
    chance_p: float
    num_cycles: int
    circles: tuple[Circle, ...]
    performances: tuple[Performance, ...]

    def grids(self) -> list[Grid]:
        """A row for each agent with its score against each."""
        names = [row.name for row in self.rows]
        rows = [
            (row.name, row.rating, row.nash, row.alpha_rank, *scores)
            for row, scores in zip(self.rows, self.score, strict=True)
        ]
        what = "score of the row" if self.unit == "elo" else "payoff of the row, a match"
        return [Grid(("agent", "rating", "nash", "alpha_rank", *names), rows, f"{self.game}: {what}")]

    def plot(self) -> Figure:
        """The heat map of `league payoff --png`.

        Raises:
            UsageError: no two agents have met, or matplotlib is not installed.
        """
        from league.boards import heatmap  # which draws what is defined here

        if not self.rows:
            raise UsageError(f"{self.game}: no two agents have met; play some with `league.evaluate(a, b)`")
        return heatmap.draw(self)

    def __repr__(self) -> str:
        return f"Payoff({self.game}, {len(self.rows)} agents)"

    @property
    def num_unmet(self) -> int:
        """Pairs without a game."""
        return (sum(row.count(None) for row in self.score) - len(self.rows)) // 2

    def to_json(self) -> dict[str, Any]:
        """The same as plain dicts and lists."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}  # asdict would copy each cell of the matrices
        for name in ("rows", "circles", "performances"):
            plain[name] = [asdict(item) for item in plain[name]]
        return {**plain, "num_unmet": self.num_unmet}


@phase("payoff")
def payoffs(store: Reader, run: str | None = None) -> tuple[Payoff, ...]:
    """One cross table a game, the latest run's first; with `run`, its own game's, of its snapshots and whom they met.

    Nash and alpha-rank are of the margins shrunk towards what the ratings expect, by `metagame.KAPPA` games: a pair
    that never met counts as the ratings have it. Everything else is of the games alone. A game without evaluation
    matches has an empty table.

    Raises:
        UsageError: no such run, or more than `MAX_AGENTS` agents.
        StoreError: the store cannot be read.
    """
    with store.reading():
        games = store.games()
        shown = games if run is None else [store.find_run(run).game_id]
        facts = [(g, store.payoff(g, run), *games_of(store, g, "sample")) for g in shown]
        names = {g: {agent: name for agent, (name, _) in named_agents(store, g).items()} for g in shown}
        populations = {
            g: {r.run: [s.agent_id for s in store.snapshots(r.run)] for r in store.runs() if r.game_id == g}
            for g in shown
        }
    return tuple(
        _payoff(games[g], known, met, counts, rate_counts(counts, lineages, known), names[g], populations[g])
        for g, met, counts, lineages, known in facts
    )


def _payoff(
    game: str,
    known: GameRow,
    met: Sequence[tuple[str, str, int, int, int]],
    counts: PairCounts,
    ratings: Ratings,
    names: Mapping[str, str],
    populations: Mapping[str, Sequence[str]],
) -> Payoff:
    rating = dict(zip(ratings.agents, ratings.rating.tolist(), strict=True))
    group = dict(zip(ratings.agents, ratings.group.tolist(), strict=True))
    if len({agent for agent, *_ in met}) > MAX_AGENTS:
        raise UsageError(
            f"more than {MAX_AGENTS:,} agents have met in {game} {known.game_id[:8]}, too many for a table of all; pass"
            f" --run"
        )
    agents = sorted({agent for agent, *_ in met}, key=lambda agent: (group[agent], -rating[agent], agent))
    table, largest = _crosstable(agents, met), 0.0
    if ratings.unit == "payoff" and counts.sums is not None:
        table, largest = _paid_crosstable(agents, counts.sums, known.bound)
    expected = ratings.scores(agents, largest)
    shown = table.score if not largest else largest * (2.0 * table.score - 1.0)
    margins = table.payoff(expected) if agents else np.zeros((0, 0))
    share = cyclic_share(2.0 * table.score - 1.0)
    chance = cyclic_share_by_chance(table, expected, np.random.default_rng(0)) if agents else np.zeros(0)
    count, surest = cycles(table)
    called = [names.get(agent, agent if ":" in agent else agent[:SHORT_HASH]) for agent in agents]
    return Payoff(
        game=game,
        game_id=known.game_id,
        unit=ratings.unit,
        anchor=ratings.anchor,
        rows=_rows(agents, called, table, ratings, margins, largest),
        score=tuple(tuple(None if math.isnan(x) else x for x in row) for row in shown.tolist()),
        games=tuple(map(tuple, np.rint(table.games).astype(np.int64).tolist())),
        groups=len({group[agent] for agent in agents}),
        cyclic_share=share,
        chance_mean=float(chance.mean()) if len(chance) else float("nan"),
        chance_p=float((1 + np.sum(chance >= share)) / (1 + len(chance))),
        num_cycles=count,
        circles=tuple(
            Circle((called[c.agents[0]], called[c.agents[1]], called[c.agents[2]]), c.weakest, c.certainty)
            for c in surest
        ),
        performances=_performances(agents, table, margins, populations),
    )


def _crosstable(agents: Sequence[str], met: Sequence[tuple[str, str, int, int, int]]) -> Crosstable:
    place = {agent: i for i, agent in enumerate(agents)}
    wins = np.zeros((len(agents), len(agents)), np.int64)
    draws = np.zeros_like(wins)
    for agent, opponent, won, drawn, _ in met:
        wins[place[agent], place[opponent]] = won
        draws[place[agent], place[opponent]] = drawn
    return Crosstable(tuple(agents), wins, draws)


def _paid_crosstable(agents: Sequence[str], sums: PairSums, bound: float | None) -> tuple[Crosstable, float]:
    """Mean payoffs as scores, from 0 at the largest loss of a match to 1 at the largest gain, and that gain.

    Where it is not known, twice the root mean square of the pair that scatters most is taken for it.
    """
    first, second, pairs = sums.merged(agents)
    games = pairs.column("games")
    largest = bound or 2.0 * float(np.sqrt((pairs.column("square") / games).max(initial=0.0))) or 1.0
    wins = np.zeros((len(agents), len(agents)))
    wins[first, second] = (games + pairs.column("payoff") / largest) / 2.0
    wins[second, first] = games - wins[first, second]
    return Crosstable(tuple(agents), wins, np.zeros_like(wins)), largest


def _rows(
    agents: Sequence[str],
    called: Sequence[str],
    table: Crosstable,
    ratings: Ratings,
    margins: Floats,
    largest: float,
) -> tuple[PayoffRow, ...]:
    if not agents:
        return ()
    mixture, shares = nash(margins).rows, alpha_rank(margins)
    games = table.games.sum(axis=1)
    points = (table.wins + 0.5 * table.draws).sum(axis=1)
    groups = sorted({int(ratings.group[ratings.index(agent)]) for agent in agents})
    ranks = {group: number for number, group in enumerate(groups, 1)}
    return tuple(
        PayoffRow(
            agent_id=agent,
            name=called[i],
            rating=float(ratings.rating[ratings.index(agent)]),
            lower=float(ratings.lower[ratings.index(agent)]),
            upper=float(ratings.upper[ratings.index(agent)]),
            games=round(games[i]),
            score=float(points[i] / games[i]) if not largest else float(largest * (2.0 * points[i] / games[i] - 1.0)),
            nash=float(mixture[i]),
            alpha_rank=float(shares[i]),
            group=ranks[ratings.group[ratings.index(agent)]],
        )
        for i, agent in enumerate(agents)
    )


def _performances(
    agents: Sequence[str], table: Crosstable, margins: Floats, populations: Mapping[str, Sequence[str]]
) -> tuple[Performance, ...]:
    """Run against run; of a lone run, the later half of its snapshots against the earlier one."""
    place = {agent: i for i, agent in enumerate(agents)}
    present = {run: [place[s] for s in snapshots if s in place] for run, snapshots in populations.items()}
    present = {run: members for run, members in present.items() if members}
    if len(present) == 1:
        [(run, members)] = present.items()
        half = len(members) // 2
        present = {f"{run}, later half": members[half:], f"{run}, earlier half": members[:half]} if half else {}
    found = []
    for (a, rows), (b, columns) in combinations(present.items(), 2):
        cells = np.ix_(rows, columns)
        gain = relative_population_performance(margins[cells])
        found.append(Performance(a, b, gain, float(np.mean(table.games[cells] > 0))))
    return tuple(found)
