"""Who is best: the agents of each game rated from evaluation games, and how each run's learner is doing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from league.errors import StoreError, UsageError, nearest
from league.ratings import ELO_START, PairCounts, Ratings, bradley_terry, elo_series
from league.records import RunRow
from league.store import Store
from league.types import BOT_PREFIX

ANCHOR = "bot:based"
"""The agent held at 1000 where it has played."""
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
        return {
            "boards": [
                asdict(board)
                | {"entries": [asdict(e) for e in board.entries], "learners": [asdict(x) for x in board.learners]}
                for board in self.boards
            ]
        }


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
        facts = [_read(store, games[g], g, run) for g in shown]
    return Leaderboard(tuple(_board(f) for f in facts))


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


@dataclass(frozen=True)
class _Facts:
    """What one board is made from; read at one moment, so that the store is let go before anything is worked out."""

    game: str
    game_id: str
    counts: PairCounts
    known: Mapping[str, tuple[str, str]]
    """Agent id -> name and kind."""
    own: frozenset[str] | None
    """The snapshots of the run that was asked for."""
    training: tuple[tuple[RunRow, list[tuple[str, float]]], ...]
    """Every run shown with its training games."""


def _read(store: Store, game: str, game_id: str, run: str | None) -> _Facts:
    known = {agent.agent_id: (agent.name, str(agent.kind)) for agent in store.agents(game_id)}
    own = {} if run is None else {row.agent_id: f"{run}@{row.step}" for row in store.snapshots(run)}
    runs = [row for row in store.runs() if row.game_id == game_id and run in (None, row.run)]
    return _Facts(
        game=game,
        game_id=game_id,
        counts=store.pair_counts(game_id),
        known=known | {agent_id: (name, "snapshot") for agent_id, name in own.items()},
        own=None if run is None else frozenset(own),
        training=tuple((row, store.training_games(row.run)) for row in runs),
    )


def _board(facts: _Facts) -> Board:
    ratings = bradley_terry(facts.counts, ANCHOR)
    shown = set(ratings.agents) if facts.own is None else _company(facts.counts, facts.own)
    return Board(
        game=facts.game,
        game_id=facts.game_id,
        anchor=ratings.anchor,
        entries=_entries(ratings, shown, facts.known),
        learners=tuple(_learner(row, games) for row, games in facts.training),
    )


def _company(counts: PairCounts, own: frozenset[str]) -> set[str]:
    """The run's own agents, whoever they met, and the bots."""
    pairs = list(zip(counts.seat0, counts.seat1, strict=True))
    met = {agent for pair in pairs if own.intersection(pair) for agent in pair}
    return met | {agent for pair in pairs for agent in pair if agent.startswith(BOT_PREFIX)}


def _entries(ratings: Ratings, shown: set[str], known: Mapping[str, tuple[str, str]]) -> tuple[Entry, ...]:
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
    return (agent_id, "bot") if agent_id.startswith(BOT_PREFIX) else (agent_id[:SHORT_HASH], "unknown")


def _learner(run: RunRow, games: Sequence[tuple[str, float]]) -> Learner:
    ratings, _ = elo_series((run.run, opponent, score) for opponent, score in games)
    scores = [score for _, score in games]
    return Learner(
        run=run.run,
        elo=ratings.get(run.run, ELO_START),
        games=len(scores),
        wins=scores.count(1.0),
        draws=scores.count(0.5),
        losses=scores.count(0.0),
        steps=run.steps,
        status=run.status,
    )
