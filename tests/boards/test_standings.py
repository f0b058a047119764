"""The leaderboard: names, ranks, records, one board a game, and which snapshot is best."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from league.boards.headtohead import matchup
from league.boards.naming import best_snapshot, find_rated
from league.boards.payoff import payoffs
from league.boards.standings import leaderboard, rate_evaluation
from league.errors import StoreError, UsageError
from league.maths.elo import elo_ratings
from league.maths.ratings import bradley_terry
from league.play.summaries import counts_of
from league.store.exchange import import_matches
from league.store.rows import AgentRow, RunRow, SnapshotRow
from league.types import DRAW, MatchResult
from tests.helpers.stores import Filled, empty_store, make_gate, play
from tests.helpers.stores import begin_brawl as begin


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """An empty store."""
    return empty_store(tmp_path)


def train(store: Filled, run: str, games: list[tuple[str, int]], game_id: str = "g") -> None:
    """Training games of a run's learner: (opponent, winner), the learner in seat 0."""
    store.add_matches(
        MatchResult(run, "training", i, 0, 0, game_id, (run, opponent), i, winner, "time", 1, 1, "sample", 0, i)
        for i, (opponent, winner) in enumerate(games)
    )
    store.flush(force=True)


def test_everyone_is_named_ranked_and_counted(store: Filled) -> None:
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


def test_training_games_do_not_rate(store: Filled) -> None:
    """Training games show in the learner's moving Elo and record, and never in the ratings of fixed agents."""
    begin(store, "r", steps=640)
    play(store, "r2", "bot:based", 3, 0, 1)
    before = leaderboard(store).entries
    games = [("bot:based", 0), ("r0", 1), ("bot:based", DRAW), ("r0", 0), ("bot:based", 0)]
    train(store, "r", games)
    assert leaderboard(store).entries == before
    (learner,) = leaderboard(store).learners
    scores = {0: 1.0, 1: 0.0, DRAW: 0.5}
    assert learner.elo == elo_ratings(("r", opponent, scores[winner]) for opponent, winner in games)["r"]
    assert (learner.games, learner.wins, learner.draws, learner.losses) == (5, 3, 1, 1)
    assert (learner.run, learner.steps, learner.status) == ("r", 640, "died"), "no process has its lock"


def test_games_are_never_mixed(store: Filled) -> None:
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


def test_an_agent_of_two_runs_has_the_name_that_was_asked_for(store: Filled) -> None:
    """Two runs with one seed share their first snapshot: it is named after the run that is shown."""
    for run in ("r", "s"):
        begin(store, run)
        store.add_snapshot(SnapshotRow("shared", run, 5, 9, f"{run}/snapshots/5", "f"))
    store.flush(force=True)
    play(store, "shared", "bot:based", 1, 0, 1)
    assert {e.name for e in leaderboard(store, run="r").entries} == {"r@5", "bot:based"}
    assert {e.name for e in leaderboard(store, run="s").entries} == {"s@5", "bot:based"}


def test_unknown_names_are_refused(store: Filled) -> None:
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


@pytest.mark.parametrize("title", ["", "r0"], ids=["rated", "champion"])
@pytest.mark.parametrize(
    "how", [{}, {"sampling": "greedy"}, {"prior": 0.0}, {"is_brief": True}], ids=["usual", "greedy", "ml", "brief"]
)
def test_a_board_marks_the_best_of_each_run(store: Filled, how: dict[str, Any], title: str) -> None:
    """With any games and prior, a board marks RUN@best of each run, and no other snapshot."""
    begin(store, "r")
    begin(store, "s")
    for run in ("r", "s"):
        play(store, f"{run}0", "bot:based", 3, 0, 30, run=run)
        play(store, f"{run}1", "bot:based", 60, 0, 40, run=run)
        play(store, f"{run}2", "bot:based", 4, 1, 0, run=run)
    greedy = MatchResult("g", "evaluation", 0, 0, 0, "g", ("r2", "bot:based"), 1, 0, "time", 1, 1, "greedy")
    store.add_matches(
        dataclasses.replace(greedy, row=row, seed=row, agents=(agent, "bot:based"), winner=winner)
        for row, (agent, winner) in enumerate(
            (agent, winner) for agent in ("r0", "r1", "r2", "s0", "s1") for winner in (0, 1)
        )
    )
    store.flush(force=True)
    if title:
        gate = store.gate_begins(make_gate(run="r", challenger=title, opponent="r1"))
        store.end_gate(dataclasses.replace(gate, decision="passed", is_promoted=True), None)
    (board,) = leaderboard(store, **how).boards
    best = {best_snapshot(store, run) for run in ("r", "s")}
    assert best == {title or "r1", "s1"}
    assert {entry.agent_id for entry in board.entries if entry.is_best} == best


def test_without_evaluation_the_latest_is_best(store: Filled) -> None:
    """A run without evaluation games has its latest snapshot for best; one without snapshots is refused."""
    begin(store, "r")
    assert best_snapshot(store, "r") == "r2"
    store.begin_run(RunRow("bare", "brawl", "g", "f", 1, "smoke", "{}"))
    with pytest.raises(StoreError, match=r"run `bare` in .* has no snapshot yet"):
        best_snapshot(store, "bare")


def test_groups_are_named_and_not_compared(store: Filled) -> None:
    """Agents that no game links have ranks and a group of their own, no likelihood over the boundary, and a note."""
    begin(store, "r")
    play(store, "r2", "bot:based", 8, 0, 2)
    play(store, "r1", "bot:lone", 5, 1, 4)
    play(store, "r0", "bot:lone", 3, 0, 7)
    (board,) = leaderboard(store, against="bot:based").boards
    assert [(g.number, g.anchor, g.num_agents) for g in board.groups] == [(1, "bot:based", 2), (2, None, 3)]
    assert [(e.group, e.rank) for e in board.entries] == [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3)]
    assert [e.superiority is None for e in board.entries] == [False, True, False, False, True]
    assert [e.against is None for e in board.entries] == [False, False, True, True, True]
    assert any("2 groups that no game links" in note for note in board.notes)
    compared = matchup(store, "r@200", "r@100")
    assert compared.difference is compared.predicted is compared.superiority is compared.z is None
    assert compared.record.games == 0 and math.isnan(compared.record.score)
    assert best_snapshot(store, "r") == "r2", "only ratings of the anchor's group are compared"


def test_notes_say_what_to_mind(store: Filled) -> None:
    """One-sided records, a missing anchor, greedy games, repeats and circles are named; an even board has no note."""
    begin(store, "r")
    play(store, "r2", "bot:based", 8, 0, 2)
    assert leaderboard(store).boards[0].notes == ()
    play(store, "r1", "bot:based", 6, 0, 0)
    play(store, "r2", "bot:based", 8, 0, 2, run="again")
    greedy = MatchResult("g", "evaluation", 0, 0, 0, "g", ("r2", "bot:based"), 1, 0, "time", 1, 1, "greedy")
    store.add_matches([greedy, dataclasses.replace(greedy, row=1)])
    store.flush(force=True)
    notes = " | ".join(leaderboard(store).boards[0].notes)
    assert "all games won or all lost: r@100; " in notes and "2 greedy are rated apart (--greedy)" in notes
    assert "10 games that had been played before" in notes
    other = leaderboard(store, sampling="greedy").boards[0]
    assert [e.games for e in other.entries] == [1, 1] and any("26 sample" in note for note in other.notes)
    begin(store, "ring", "h")
    for row, (a, b) in enumerate([("ring0", "ring1"), ("ring1", "ring2"), ("ring2", "ring0")]):
        play(store, a, b, 60, 0, 0, run=f"ring{row}", game_id="h")
    board = leaderboard(store, game_id="h").boards[0]
    assert "bot:based has no game here" in board.notes[0] and "circles" in board.notes[-1]
    assert {(s.a, s.b) for s in board.surprises} == {
        ("ring@0", "ring@100"),
        ("ring@100", "ring@200"),
        ("ring@200", "ring@0"),
    }


def rate(store: Filled, update: int, agents: dict[str, str], **more: Any) -> None:
    """Writes what an evaluation of run r makes of `agents`, from the games that the store has of it."""
    counts = counts_of(store.matches("r", "evaluation"))
    rate_evaluation(store.folder("r"), counts, (1016.0, 1), store.game("g"), update, agents, **{"taken": {}} | more)
    store.flush()


def test_an_evaluation_is_kept_with_its_update(store: Filled) -> None:
    """A run's curve: at each update its learner's Elo and those whom the evaluation met, rated as a board does."""
    begin(store, "r")
    for update, agent in ((1, "r0"), (2, "r1"), (3, "r2")):
        play(store, agent, "bot:based", 3 + update, 1, 2)
        rate(store, update, {agent: agent, "bot:based": "bot:based"})
        columns, found = store.query(f'SELECT * FROM rating WHERE "update" = {update}')
        rows = [dict(zip(columns, row, strict=True)) for row in found]
        assert {row["agent_id"] for row in rows if row["system"] == "bradley_terry"} == {agent, "bot:based"}
        elo = [(row["agent_id"], row["rating"], row["games"]) for row in rows if row["system"] == "elo"]
        assert elo == [("r", 1016.0, 1)]
        before = store.query("SELECT count(*) FROM rating")
        entry = next(e for e in leaderboard(store).entries if e.agent_id == agent)
        assert store.query("SELECT count(*) FROM rating") == before, "a board writes nothing"
        [row] = [row for row in rows if row["agent_id"] == agent]
        assert (row["rating"], row["games"], row["run"]) == (entry.rating, entry.games, "r")


def test_agents_are_found_by_name_or_id(store: Filled) -> None:
    """An import goes by its name or the beginning of its id; what is ambiguous or too short is refused by name."""
    begin(store, "r")
    store.add_agent(AgentRow("abcdef0123456789", "import", "away@7", "g"))
    store.add_agent(AgentRow("abcdef01ffffffff", "import", "away@8", "g"))
    store.flush(force=True)
    for name in ("away@7", "abcdef012"):
        assert find_rated(store, name) == ("abcdef0123456789", "away@7")
    with pytest.raises(UsageError, match="not under folders; name RUN"):
        find_rated(store, "./folder")
    assert find_rated(store, "r@100") == ("r1", "r@100") and find_rated(store, "bot:x") == ("bot:x", "bot:x")
    for name in ("abcdef01", "abcdef0", "away"):
        with pytest.raises(UsageError, match=f"agent '{name}': no run `{name}`"):
            find_rated(store, name)


def test_names_that_two_agents_have_are_told_apart(store: Filled) -> None:
    """Guests of other stores whose name is a snapshot's here, or another guest's, end with the beginning of their id.

    Each goes by what the board and the payoffs call it; `RUN@STEP` is this store's own.
    """
    begin(store, "r")
    guests = {"abcdef0123456789": "r@100", "0123456789abcdef": "s@5", "fedcba9876543210": "s@5", "aaaabbbbcccc": "t@1"}
    for agent_id, name in guests.items():
        store.add_agent(AgentRow(agent_id, "snapshot", name, "g"))
        play(store, "r1", agent_id, 3, 0, 1)
    store.add_agent(AgentRow("r1", "snapshot", "r@100", "g"))
    store.flush(force=True)
    called = {"r1": "r@100", "aaaabbbbcccc": "t@1"} | {
        agent_id: f"{guests[agent_id]} ({agent_id[:8]})" for agent_id in list(guests)[:3]
    }
    (board,) = leaderboard(store, against="r@100 (abcdef01)").boards
    assert {e.agent_id: e.name for e in board.entries} == called and board.against == "r@100 (abcdef01)"
    (table,) = payoffs(store)
    assert {row.agent_id: row.name for row in table.rows} == called
    for agent_id, name in called.items():
        assert find_rated(store, name) == (agent_id, name)
    with pytest.raises(UsageError, match=r"'s@5' is no snapshot .* pass 's@5 \(01234567\)' or 's@5 \(fedcba98\)'"):
        find_rated(store, "s@5")
    store.add_agent(AgentRow("bbbbccccdddd", "snapshot", "r@7", "g"))
    store.flush(force=True)
    with pytest.raises(UsageError, match=r"'r@7' is no snapshot of this store; pass 'r@7 \(bbbbcccc\)'"):
        find_rated(store, "r@7")


def results(agents: tuple[str, str], winners: Sequence[int], run: str = "e", row: int = 0) -> list[MatchResult]:
    """Evaluation games without a shared seed."""
    return [
        MatchResult(run, "evaluation", 0, row, k, "g", agents, 1000 * row + k, winner, "x", 1, 1, "sample")
        for k, winner in enumerate(winners)
    ]


def ladder_file(folder: Path, flip: bool = False) -> Path:
    """Ten agents in a ladder; every line names the winner first, or with `flip` half of the time."""
    rng = np.random.default_rng(0)
    lines = ["seat0,seat1,winner"]
    for k in range(9):
        for game in range(100):
            won, lost = (k + 1, k) if rng.random() < 0.7 else (k, k + 1)
            is_flipped = flip and game % 2
            lines.append(f"a{lost},a{won},1" if is_flipped else f"a{won},a{lost},0")
    path = folder / f"ladder{flip}.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("flip", [False, True])
def test_winners_first_is_noticed(tmp_path: Path, flip: bool) -> None:
    """A file that names winners first rates as one that does not, and the board says what its seats are worth."""
    store = empty_store(tmp_path)
    assert import_matches(ladder_file(tmp_path, flip), game_id="g", store=store.path).is_listed == (not flip)
    [board] = leaderboard(store).boards
    assert [entry.name for entry in board.entries] == [f"a{k}" for k in range(9, -1, -1)]
    assert board.entries[0].rating - board.entries[-1].rating > 900
    said = [note for note in board.notes if "name winners first" in note]
    assert len(said) == (not flip) and (board.seat is None) == (not flip)
    assert not flip or (board.seat is not None and abs(board.seat.mean) < 100)


def test_the_prior_is_taken_and_said(tmp_path: Path) -> None:
    """`prior` holds ratings together; 0 is maximum likelihood and names who is infinite; below 0 is refused."""
    store = empty_store(tmp_path)
    games = [("bot:a", "bot:b", [0, 0, 0, 1, 1]), ("bot:b", "bot:a", [0, 1, 0, 1]), ("bot:c", "bot:a", [0] * 6)]
    for row, (a, b, winners) in enumerate(games):
        store.add_matches(results((a, b), winners, row=row))
    store.flush(force=True)
    spans = {}
    for prior in (None, 0.5, 4.0):
        [board] = leaderboard(store, prior=prior).boards
        assert board.prior == (1.25 if prior is None else prior) and len(board.entries) == 3 and not board.infinite
        spans[board.prior] = board.entries[0].rating - board.entries[-1].rating
    assert spans[0.5] > spans[1.25] > spans[4.0]
    [board] = leaderboard(store, prior=0).boards
    assert [entry.name for entry in board.entries] == ["bot:a", "bot:b"]
    assert [(x.name, x.sign) for x in board.infinite] == [("bot:c", 1)]
    assert any("infinitely above the others: bot:c" in note for note in board.notes)
    json.dumps(dataclasses.asdict(leaderboard(store, prior=0)), allow_nan=False)
    with pytest.raises(UsageError, match="against=bot:c: it has no finite rating with prior=0"):
        leaderboard(store, prior=0, against="bot:c")
    for wrong in (-1.0, math.nan, math.inf, 1e-320, 9e-4):
        with pytest.raises(UsageError, match="imagined draws an agent"):
            leaderboard(store, prior=wrong)
    assert leaderboard(store, prior=1e-3).boards[0].infinite == ()
