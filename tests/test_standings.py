"""The leaderboard: names, ranks, records, one board a game, and which snapshot is best."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from league.errors import StoreError, UsageError
from league.ratings import bradley_terry, elo_series
from league.standings import best_snapshot, leaderboard
from league.store import AgentRow, RunRow, SnapshotRow, Store
from league.types import DRAW, MatchResult


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store.create(tmp_path / "league.duckdb")


def begin(store: Store, run: str, game_id: str = "g", **changes: Any) -> None:
    """A run with snapshots of step 0, 100 and 200, whose ids are RUN0, RUN1 and RUN2."""
    store.begin_run(RunRow(run, "brawl", game_id, "f", 1, "smoke", "{}", **changes))
    for i in range(3):
        store.add_snapshot(SnapshotRow(f"{run}{i}", run, 100 * i, i, f"{run}/{i}", "f"))
    store.add_agent(AgentRow("bot:based", "bot", "bot:based", game_id))
    store.flush(force=True)


def play(
    store: Store, a: str, b: str, wins: int, draws: int, losses: int, *, run: str = "r", game_id: str = "g"
) -> None:
    """Evaluation games between two agents in alternating seats, with a's wins, draws and losses."""
    start = len(store.matches(run, "evaluation"))
    outcomes = [0] * wins + [DRAW] * draws + [1] * losses
    for i, outcome in enumerate(outcomes):
        seats = (a, b) if i % 2 == 0 else (b, a)
        winner = outcome if outcome == DRAW or i % 2 == 0 else 1 - outcome
        store.add_matches(
            [MatchResult(run, "evaluation", 0, start + i, 0, game_id, seats, i, winner, "time", 1, 1, "sample")]
        )
    store.flush(force=True)


def train(store: Store, run: str, games: list[tuple[str, int]], game_id: str = "g") -> None:
    """Training games of a run's learner: (opponent, winner), the learner in seat 0."""
    store.add_matches(
        MatchResult(run, "training", i, 0, 0, game_id, (run, opponent), i, winner, "time", 1, 1, "sample", 0, i)
        for i, (opponent, winner) in enumerate(games)
    )
    store.flush(force=True)


def test_everyone_is_named_ranked_and_counted(store: Store) -> None:
    """Snapshots show as RUN@STEP and bots by name, from best to worst, with their games; the anchor has 1000."""
    begin(store, "r")
    play(store, "r2", "bot:based", 14, 2, 4)
    play(store, "r0", "bot:based", 2, 2, 16)
    play(store, "r2", "r0", 9, 0, 1)
    (board,) = leaderboard(store).boards
    assert (board.game, board.game_id, board.anchor) == ("brawl", "g", "bot:based")
    assert [(e.rank, e.name, e.kind, e.agent_id) for e in board.entries] == [
        (1, "r@200", "snapshot", "r2"),
        (2, "bot:based", "bot", "bot:based"),
        (3, "r@0", "snapshot", "r0"),
    ]
    assert [(e.games, e.wins, e.draws, e.losses) for e in board.entries] == [
        (30, 23, 2, 5),
        (40, 20, 4, 16),
        (30, 3, 2, 25),
    ]
    assert [e.rating for e in board.entries][1] == 1000.0
    assert all(e.lower <= e.rating <= e.upper for e in board.entries)
    ratings = bradley_terry(store.pair_counts("g"), "bot:based", lineage=[("r0", "r2")])
    assert board.entries[0].rating == ratings.rating[ratings.index("r2")]


def test_training_games_do_not_rate(store: Store) -> None:
    """Training games show in the learner's moving Elo and record, and never in the ratings of fixed agents."""
    begin(store, "r", steps=640)
    play(store, "r2", "bot:based", 3, 0, 1)
    before = leaderboard(store).entries
    games = [("bot:based", 0), ("r0", 1), ("bot:based", DRAW), ("r0", 0), ("bot:based", 0)]
    train(store, "r", games)
    assert leaderboard(store).entries == before
    (learner,) = leaderboard(store).learners
    scores = {0: 1.0, 1: 0.0, DRAW: 0.5}
    assert learner.elo == elo_series(("r", opponent, scores[winner]) for opponent, winner in games)[0]["r"]
    assert (learner.games, learner.wins, learner.draws, learner.losses) == (5, 3, 1, 1)
    assert (learner.run, learner.steps, learner.status) == ("r", 640, "running")


def test_games_are_never_mixed(store: Store) -> None:
    """Two game ids make two boards, and what happens in one changes nothing in the other."""
    begin(store, "r")
    play(store, "r2", "bot:based", 8, 0, 2)
    alone = leaderboard(store).boards[0]
    begin(store, "other", "h")
    play(store, "other1", "bot:based", 1, 0, 9, run="other", game_id="h")
    boards = {board.game_id: board for board in leaderboard(store).boards}
    assert list(boards) == ["h", "g"]
    assert boards["g"] == alone
    assert [e.name for e in boards["h"].entries] == ["bot:based", "other@100"]
    assert leaderboard(store, game_id="g").boards == leaderboard(store, run="r").boards == (alone,)
    assert [e.games for e in boards["h"].entries] == [10, 10]


def test_a_run_shows_its_agents_the_bots_and_whom_they_met(store: Store) -> None:
    """With a run, other runs' agents that its own never met are left out; the ratings stay those of the whole game."""
    begin(store, "r")
    begin(store, "s")
    play(store, "r2", "bot:based", 8, 0, 2)
    play(store, "s1", "bot:based", 3, 0, 7, run="s")
    play(store, "s2", "s1", 6, 0, 4, run="s")
    play(store, "bot:random", "s1", 1, 0, 9, run="s")
    play(store, "r2", "s1", 5, 0, 5)
    everyone = {e.agent_id: e.rating for e in leaderboard(store).entries}
    shown = leaderboard(store, run="r")
    assert {e.agent_id for e in shown.entries} == {"r2", "bot:based", "bot:random", "s1"}
    assert all(e.rating == everyone[e.agent_id] for e in shown.entries)
    assert [e.rank for e in shown.entries] == [1, 2, 3, 4]
    assert [learner.run for learner in shown.learners] == ["r"]
    assert len(everyone) == 5 and len(leaderboard(store).learners) == 2


def test_an_agent_of_two_runs_has_the_name_that_was_asked_for(store: Store) -> None:
    """Two runs with one seed share their first snapshot: it is named after the run that is shown."""
    for run in ("r", "s"):
        begin(store, run)
        store.add_snapshot(SnapshotRow("shared", run, 5, 9, "p", "f"))
    store.flush(force=True)
    play(store, "shared", "bot:based", 1, 0, 1)
    assert {e.name for e in leaderboard(store, run="r").entries} == {"r@5", "bot:based"}
    assert {e.name for e in leaderboard(store, run="s").entries} == {"s@5", "bot:based"}


def test_agents_that_nobody_introduced_are_still_rated(store: Store) -> None:
    """A match may name agents that the store knows nothing of: a bot by its name, others by the start of their hash."""
    play(store, "f" * 64, "bot:new", 1, 0, 1)
    assert {(e.name, e.kind) for e in leaderboard(store).entries} == {("f" * 12, "unknown"), ("bot:new", "bot")}
    assert leaderboard(store).boards[0].anchor is None


def test_an_empty_store_has_no_boards(store: Store) -> None:
    """Before the first run there is nothing to show, and after it a board without entries."""
    assert leaderboard(store).boards == ()
    begin(store, "r")
    (board,) = leaderboard(store).boards
    assert board.entries == () and board.learners[0].elo == 1000.0


def test_json_is_plain(store: Store) -> None:
    """`to_json` gives what JSON can hold, and loses nothing."""
    begin(store, "r")
    play(store, "r2", "bot:based", 8, 0, 2)
    train(store, "r", [("bot:based", 0)])
    board = leaderboard(store)
    plain = board.to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["boards"][0]["entries"][0]["name"] == "r@200"
    assert plain["boards"][0]["learners"][0]["games"] == 1


def test_unknown_names_are_refused(store: Store) -> None:
    """A run or game id that is not there, or two that do not belong together, is one line with a suggestion."""
    begin(store, "first")
    with pytest.raises(UsageError, match=r"no run `frist` in .*; did you mean `first`"):
        leaderboard(store, run="frist")
    with pytest.raises(UsageError, match="no game id `h`"):
        leaderboard(store, game_id="h")
    with pytest.raises(UsageError, match="run `first` plays game id `g`, not `h`"):
        leaderboard(store, run="first", game_id="h")
    with pytest.raises(UsageError, match="no run `second`"):
        best_snapshot(store, "second")


def test_best_is_the_highest_lower_bound(store: Store) -> None:
    """A few lucky games do not beat many good ones: the lower bound decides, among this run's snapshots only."""
    begin(store, "r")
    begin(store, "s")
    play(store, "r1", "bot:based", 120, 0, 40)
    play(store, "r2", "bot:based", 3, 0, 0)
    play(store, "s0", "bot:based", 150, 0, 10, run="s")
    rating = {e.agent_id: e for e in leaderboard(store).entries}
    assert rating["r2"].rating > rating["r1"].rating and rating["r2"].lower < rating["r1"].lower
    assert best_snapshot(store, "r") == "r1"
    assert best_snapshot(store, "s") == "s0"


def test_without_evaluation_the_latest_is_best(store: Store) -> None:
    """A run without evaluation games has its latest snapshot for best; one without snapshots is refused."""
    begin(store, "r")
    assert best_snapshot(store, "r") == "r2"
    store.begin_run(RunRow("bare", "brawl", "g", "f", 1, "smoke", "{}"))
    with pytest.raises(StoreError, match=r"run `bare` in .* has no snapshot yet"):
        best_snapshot(store, "bare")
