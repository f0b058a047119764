"""Who is best: the agents of each game rated from evaluation games, and how each run's learner is doing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from league.errors import StoreError, UsageError, nearest
from league.ratings import ELO_START, PairCounts, Ratings, bradley_terry, elo_series
from league.records import RunRow
from league.store import Store

ANCHOR = "bot:based"
"""The agent held at 1000 where it has played."""
BOT = "bot:"
SHORT_HASH = 12


@dataclass(frozen=True)
class Entry:
    """One rated agent. Rating and 95 % interval in Elo points, games from evaluation only."""

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


@dataclass(frozen=True)
class Learner:
    """One run as its training games show it: the moving Elo (no interval) and the games so far."""

    run: str
    elo: float
    games: int
    wins: int
    draws: int
    losses: int
    steps: int
    status: str


@dataclass(frozen=True)
class Board:
    """One game's leaderboard: entries from best to worst. `anchor` is the agent held at 1000; None: the mean is."""

    game: str
    game_id: str
    anchor: str | None
    entries: tuple[Entry, ...]
    learners: tuple[Learner, ...]


@dataclass(frozen=True)
class Leaderboard:
    """One board a game id, the latest run's first; ratings of different games have nothing to do with each other."""

    boards: tuple[Board, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of all boards, board by board."""
        return tuple(entry for board in self.boards for entry in board.entries)

    @property
    def learners(self) -> tuple[Learner, ...]:
        """The learners of all boards, board by board."""
        return tuple(learner for board in self.boards for learner in board.learners)

    def to_json(self) -> dict[str, Any]:
        """The same as plain dicts and lists."""
        return {"boards": [asdict(board) for board in self.boards]}


def leaderboard(store: Store, run: str | None = None, game_id: str | None = None) -> Leaderboard:
    """Ranks the agents of every game in the store, of one run's game, or of one game.

    Ratings are Bradley-Terry's over all evaluation games of the game id (`bradley_terry`). With `run`, only that
    run's snapshots, the bots and whoever its snapshots met are shown, and only that run as a learner; the ratings
    are the same.

    Raises:
        UsageError: no such run or game id, or the run plays another game than `game_id`.
        StoreError: the store cannot be read.
    """
    with store.reading():
        games = store.games()
        if run is not None:
            game_id = _game_of(store, run, game_id)
        elif game_id is not None and game_id not in games:
            raise UsageError(f"no game id `{game_id}` in {store.path}{nearest(game_id, games)}")
        shown = games if game_id is None else [game_id]
        return Leaderboard(tuple(_board(store, games[g], g, run) for g in shown))


def best_snapshot(store: Store, run: str) -> str:
    """The agent id of RUN@best: the run's snapshot with the highest lower 95 % bound, else its latest.

    Raises:
        UsageError: no such run.
        StoreError: the run has no snapshot, or the store cannot be read.
    """
    with store.reading():
        game_id = store.find_run(run).game_id
        snapshots = store.snapshots(run)
        ratings = bradley_terry(store.pair_counts(game_id), ANCHOR)
    if not snapshots:
        raise StoreError(f"run `{run}` in {store.path} has no snapshot yet; train it further")
    lower = dict(zip(ratings.agents, ratings.lower, strict=True))
    rated = [snapshot for snapshot in snapshots if snapshot.agent_id in lower]
    if not rated:
        return snapshots[-1].agent_id
    return max(rated, key=lambda snapshot: (lower[snapshot.agent_id], snapshot.step)).agent_id


def _game_of(store: Store, run: str, game_id: str | None) -> str:
    found = store.find_run(run).game_id
    if game_id not in (None, found):
        raise UsageError(f"run `{run}` plays game id `{found}`, not `{game_id}`; pass only one of them")
    return found


def _board(store: Store, game: str, game_id: str, run: str | None) -> Board:
    counts = store.pair_counts(game_id)
    ratings = bradley_terry(counts, ANCHOR)
    runs = [row for row in store.runs() if row.game_id == game_id and run in (None, row.run)]
    own = {} if run is None else {row.agent_id: f"{run}@{row.step}" for row in store.snapshots(run)}
    shown = set(ratings.agents) if run is None else _company(counts, own)
    known = {agent.agent_id: (agent.name, agent.kind) for agent in store.agents(game_id)}
    known |= {agent_id: (name, "snapshot") for agent_id, name in own.items()}
    return Board(
        game=game,
        game_id=game_id,
        anchor=ratings.anchor,
        entries=_entries(ratings, shown, known),
        learners=tuple(_learner(store, row) for row in runs),
    )


def _company(counts: PairCounts, own: Iterable[str]) -> set[str]:
    """The run's own agents, whoever they met, and the bots."""
    mine = set(own)
    pairs = list(zip(counts.seat0, counts.seat1, strict=True))
    met = {agent for pair in pairs if mine.intersection(pair) for agent in pair}
    return mine | met | {agent for pair in pairs for agent in pair if agent.startswith(BOT)}


def _entries(ratings: Ratings, shown: set[str], known: dict[str, tuple[str, str]]) -> tuple[Entry, ...]:
    order = sorted(range(len(ratings.agents)), key=lambda i: (-ratings.rating[i], ratings.agents[i]))
    entries: list[Entry] = []
    for i in order:
        agent_id = ratings.agents[i]
        if agent_id not in shown:
            continue
        name, kind = known.get(agent_id) or _unknown(agent_id)
        wins, draws, losses = int(ratings.wins[i]), int(ratings.draws[i]), int(ratings.losses[i])
        entries.append(
            Entry(
                rank=len(entries) + 1,
                agent_id=agent_id,
                name=name,
                kind=kind,
                rating=float(ratings.rating[i]),
                lower=float(ratings.lower[i]),
                upper=float(ratings.upper[i]),
                games=wins + draws + losses,
                wins=wins,
                draws=draws,
                losses=losses,
            )
        )
    return tuple(entries)


def _unknown(agent_id: str) -> tuple[str, str]:
    """Name and kind of an agent that only match rows know."""
    return (agent_id, "bot") if agent_id.startswith(BOT) else (agent_id[:SHORT_HASH], "import")


def _learner(store: Store, run: RunRow) -> Learner:
    games = store.training_games(run.run)
    ratings, _ = elo_series((run.run, opponent, score) for opponent, score in games)
    records = store.training_records(run.run)
    return Learner(
        run=run.run,
        elo=ratings.get(run.run, ELO_START),
        games=len(games),
        wins=sum(record.wins for record in records),
        draws=sum(record.draws for record in records),
        losses=sum(record.losses for record in records),
        steps=run.steps,
        status=run.status,
    )
