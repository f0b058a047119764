"""Tournaments: everybody meets whom they should, games are fresh and kept in batches, and the adaptive one ends."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from league.arena import agents as agents_module
from league.arena import tournaments
from league.arena.tournament_results import TournamentResult
from league.arena.tournaments import tournament
from league.boards.standings import leaderboard
from league.envs import registry
from league.envs.classic import matrix
from league.errors import UsageError
from league.runtime.signals import Interrupted, interrupt, on_signal
from league.store.folder import Folder
from league.store.rows import RunRow, SnapshotRow
from tests.helpers.stores import Filled, keeping_store

BOTS = ["bot:constant", "bot:random", "bot:biased"]


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """An empty store."""
    return keeping_store(tmp_path / "store")


def hold(store: Filled | None, *agents: str, **options: Any) -> TournamentResult:
    """A tournament of the matrix game's bots, unless others are named."""
    path = "nowhere" if store is None else store.path
    return tournament(agents or BOTS, env="matrix", device="cpu", store=path, **options)


def rows(store: Filled) -> list[tuple[Any, ...]]:
    """Run, agents, seed and sampling of all matches."""
    return store.query("SELECT run, seat0_agent, seat1_agent, seed, sampling FROM match ORDER BY ALL")[1]


def test_a_round_robin_is_kept_and_rated(store: Filled) -> None:
    """Each pair plays its games in both seats of each seed; ratings are the leaderboard's, records add up."""
    result = hold(store, games=6)
    assert (result.format, result.ended, result.games, result.sampling) == ("round-robin", "complete", 18, "sample")
    stored = rows(store)
    assert {row[0] for row in stored} == {result.tournament} and len(stored) == 18
    seatings = Counter((frozenset(row[1:3]), row[3]) for row in stored)
    assert len(seatings) == 9 and set(seatings.values()) == {2}, "three seeds a pair, each in both seatings"
    assert all(Counter(row[1:3] for row in stored)[a, b] == 3 for a in BOTS for b in BOTS if a != b)
    board = {entry.agent_id: entry for entry in leaderboard(store).entries}
    for standing in result.standings:
        entry = board[standing.agent_id]
        assert (standing.rating, standing.lower, standing.upper) == pytest.approx(
            (entry.rating, entry.lower, entry.upper)
        )
        assert standing.games == 12 == standing.wins + standing.draws + standing.losses
        assert (standing.rank, standing.wins, standing.losses) == (entry.rank, entry.wins, entry.losses)
    assert len(result.encounters) == 3 and sum(e.games for e in result.encounters) == 18


def test_the_anchor_is_the_games(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tournament holds the bot that its game names at 1000, and so does the board, which loads no game; without one
    the mean is held."""
    anchored = SimpleNamespace(
        Options=matrix.Options,
        make=matrix.make,
        spec=lambda options: replace(matrix.spec(options), name="held", anchor="random", floor=None),
    )
    monkeypatch.setitem(registry._games, "held", cast(Any, anchored))
    for env, anchor in (("held", "bot:random"), ("matrix", None)):
        result = tournament(BOTS, env=env, device="cpu", store=store.path, games=4)
        [board] = [board for board in leaderboard(store).boards if board.game == env]
        assert result.anchor == board.anchor == anchor
        assert any("no anchor is known" in note for note in board.notes) is (anchor is None)
        rating = {entry.agent_id: entry.rating for entry in board.entries}
        assert (np.mean(list(rating.values())) if anchor is None else rating[anchor]) == pytest.approx(0.0, abs=1e-9)


def test_a_gauntlet_is_the_first_against_the_others(store: Filled) -> None:
    """Nobody but the first meets two others, and with two seeds the third meets both."""
    hold(store, games=2, format="gauntlet")
    assert {frozenset(row[1:3]) for row in rows(store)} == {frozenset([BOTS[0], other]) for other in BOTS[1:]}
    result = hold(store, games=2, format="gauntlet", seeds=2)
    assert {(e.a, e.b) for e in result.encounters} == {(BOTS[0], BOTS[2]), (BOTS[1], BOTS[2])}


def test_every_tournament_plays_fresh_games(store: Filled, tmp_path: Path) -> None:
    """The same call again has other seeds, which the board counts; in a store as it was they are the same again."""
    hold(store, games=4)
    first = rows(store)
    hold(store, games=4)
    both = rows(store)
    assert len({row[3] for row in both}) == 2 * len({row[3] for row in first}) == 12
    assert leaderboard(store).entries[0].games == 16
    other = keeping_store(tmp_path / "other")
    hold(other, *reversed(BOTS), games=4)
    assert sorted(row[1:] for row in rows(other)) == sorted(row[1:] for row in first), "whatever the order of names"
    seeded = hold(other, games=4, seed=1)
    assert not {row[3] for row in rows(other) if row[0] == seeded.tournament} & {row[3] for row in both}


@pytest.mark.parametrize(
    ("breaks_off", "number"), [(KeyboardInterrupt(), 2), (Interrupted(signal.SIGTERM), signal.SIGTERM)]
)
def test_what_is_played_is_kept(
    breaks_off: BaseException, number: int, store: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal in the third batch leaves two batches in the store, level over all pairs, and a result that says so."""
    monkeypatch.setattr(tournaments, "BATCH_PAIRS", 3)
    calls, played = [], agents_module.play_pairings

    def stop(*arguments: Any, **options: Any) -> Any:
        calls.append(options["update"])
        if len(calls) == 3:
            raise breaks_off
        return played(*arguments, **options)

    monkeypatch.setattr(tournaments, "play_pairings", stop)
    result = hold(store, games=20)
    assert (result.ended, result.signal, result.games) == ("interrupted", number, 12) and len(rows(store)) == 12
    assert {encounter.games for encounter in result.encounters} == {4}
    monkeypatch.undo()
    again = hold(store, games=20)
    assert (again.games, again.signal) == (60, 0) and len({row[3] for row in rows(store)}) == 36


def test_a_batch_is_stored_and_counted_or_neither(store: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal between the two waits until both are done: the result has as many games as the store."""
    monkeypatch.setattr(tournaments, "BATCH_PAIRS", 3)
    added = Folder.add_matches

    def add(self: Folder, matches: Any) -> None:
        added(self, matches)
        if matches[0].update == 2:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Folder, "add_matches", add)
    with on_signal(interrupt) as received:
        result = hold(store, games=20)
    assert (result.ended, result.games, received) == ("interrupted", 18, [signal.SIGTERM])
    assert len(rows(store)) == 18


def test_a_signal_whose_error_was_swallowed_ends_it_after_the_batch(
    store: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python drops an error that is raised while an object is deleted: the batch is played, kept, and the last."""
    monkeypatch.setattr(tournaments, "BATCH_PAIRS", 3)
    played = agents_module.play_pairings

    def swallow(*arguments: Any, **options: Any) -> Any:
        if options["update"] == 1:
            with contextlib.suppress(Interrupted):
                signal.raise_signal(signal.SIGTERM)
        return played(*arguments, **options)

    monkeypatch.setattr(tournaments, "play_pairings", swallow)
    with on_signal(interrupt) as received:
        result = hold(store, games=20)
    assert (result.ended, result.signal, result.games) == ("interrupted", signal.SIGTERM, 12)
    assert received == [signal.SIGTERM] and len(rows(store)) == 12


def test_a_double_elimination_ends_with_one_agent_that_has_lost_once_at_most(store: Filled) -> None:
    """Every other agent lost two matches; who won each had the better score; all games are kept and rated."""
    result = hold(store, games=4, format="double-elimination")
    lost = Counter(match.a if match.winner == match.b else match.b for match in result.bracket)
    champion = result.bracket[-1].winner
    assert result.ended == "complete" and result.bracket[-1].bracket == "final"
    assert {agent: lost[agent] for agent in BOTS if agent != champion} == dict.fromkeys(set(BOTS) - {champion}, 2)
    assert lost[champion] <= 1 and len(result.bracket) == 4 + lost[champion]
    for match in result.bracket:
        paid = match.payoff.mean if match.payoff else match.score - 0.5
        assert match.winner == (match.b if paid < 0 else match.a) and match.games in (4, 6, 8)
        assert match.games == 4 or match.games == 8 or paid != 0
    assert sum(match.games for match in result.bracket) == result.games == len(rows(store))
    again = hold(store, games=4, format="double-elimination")
    best = [s.name for s in result.standings]
    assert again.bracket[0].a in best[:2], "the best rated has the bye, and the next is the better seed"


def throwers(folder: Path, **throws: int) -> list[str]:
    """Addresses of bots of rock, paper, scissors that always throw the same."""
    code = "".join(f"def {name}(obs, legal, rng):\n    return legal[{throw}]\n" for name, throw in throws.items())
    (folder / "throws.py").write_text(code)
    return [f"{folder / 'throws.py'}:{name}" for name in throws]


def test_level_matches_end_and_send_the_better_seed_on(store: Filled, tmp_path: Path) -> None:
    """Five bots that draw: each match has twice its games, and the first that entered wins without a loss."""
    same = throwers(tmp_path, one=0, two=0, three=0, four=0, five=0)
    result = tournament(own_bots=same, env="matrix", games=2, format="double-elimination", store=store.path)
    assert {(match.games, match.draws, match.winner) for match in result.bracket} == {
        (4, 4, match.a) for match in result.bracket
    }
    assert len(result.bracket) == 8 and result.bracket[-1].winner == "bot:one"


def test_who_always_wins_goes_through_the_winners_bracket(store: Filled, tmp_path: Path) -> None:
    """The last of six to enter throws what beats all others; no match of it is level, and it needs no second final."""
    bots = throwers(tmp_path, one=0, two=0, three=0, four=0, five=0, best=1)
    result = tournament(own_bots=bots, env="matrix", games=2, format="double-elimination", store=store.path)
    own = [match for match in result.bracket if "bot:best" in (match.a, match.b)]
    assert [match.bracket for match in own] == ["winners"] * 3 + ["final"]
    assert {(match.winner, match.games) for match in own} == {("bot:best", 2)} and len(result.bracket) == 10


def test_the_adaptive_one_ends_when_it_knows(store: Filled) -> None:
    """It ends as soon as no wanted interval is wider than `until`, and says what it wanted; or with its games."""
    result = hold(store, format="adaptive", until=1.0, max_games=4000)
    assert result.ended == "reached" and result.games < 4000
    assert len(result.wanted) == 3 and {w.b for w in result.wanted} == {None}, "nobody is held at 0 here"
    for wanted in result.wanted:
        assert wanted.difference is not None and wanted.difference.upper - wanted.difference.lower <= 1.0
    again = hold(store, format="adaptive", until=1.0, max_games=4000)
    assert (again.ended, again.games, again.tournament) == ("reached", 0, None), "the store knows it already"
    more = hold(store, format="adaptive", until=0.01, max_games=10, want="order")
    assert (more.ended, more.games, len(more.wanted)) == ("max-games", 10, 2)


def test_the_adaptive_one_ends_when_one_is_the_best(store: Filled) -> None:
    """`top` is reached once nobody else may be as good, whatever `until` says; nothing is wanted any more."""
    options: dict[str, Any] = {"env": "brawl", "device": "cpu", "store": store.path, "format": "adaptive"}
    result = tournament(["bot:constant", "bot:zoner", "bot:random"], **options, want="top", until=0.1, max_games=1000)
    assert (result.ended, result.standings[0].agent_id, result.wanted) == ("reached", "bot:zoner", ())
    assert result.games < 1000


EQUALS: dict[str, Any] = {"env": "matrix", "device": "cpu", "store": "nowhere", "format": "adaptive"}
"""Against a uniformly random choice of rock, paper or scissors a constant one scores a half."""


def test_a_lucky_streak_does_not_make_one_the_best() -> None:
    """An interval for one look excludes 0 after 128 games of this seed; the anytime-valid one does not, and says so."""
    result = tournament(["bot:random", "bot:constant"], **EQUALS, want="top", seed=31, max_games=128)
    [wanted] = result.wanted
    assert (result.ended, result.games, result.wanted_interval) == ("max-games", 128, "anytime-valid")
    assert wanted.difference is not None
    mean, lower, upper = wanted.difference
    assert lower < 0.0 < upper and abs(mean) > (upper - mean) * 1.96 / 3.3
    assert tournament(BOTS, **(EQUALS | {"format": "round-robin"}), games=2).wanted_interval is None


@pytest.mark.slow
def test_equals_are_told_apart_in_one_of_twenty_tournaments() -> None:
    """Of 60 tournaments of two equal bots, up to 1,000 games each, at most 3 name one as the best."""
    pair = ["bot:random", "bot:constant"]
    assert sum(tournament(pair, **EQUALS, want="top", seed=seed).ended == "reached" for seed in range(60)) <= 3


BAD: dict[str, tuple[list[str], dict[str, Any], str]] = {
    "one agent": (["bot:random"], {}, "needs two agents at least, and bot:random is alone"),
    "the same twice": (["bot:random", "bot:random"], {}, "bot:random is each of the 2 that are named"),
    "unknown bot": (["bot:random", "bot:bised"], {}, "did you mean `biased`"),
    "unknown run": (BOTS, {"runs": ["r2"]}, "no run `r2`.*did you mean `r`"),
    "pruned": (BOTS, {"runs": ["r"]}, "run=r: no snapshot of it has its files"),
    "odd games": (BOTS, {"games": 3}, "games=3: .*even"),
    "odd budget": (BOTS, {"format": "adaptive", "max_games": 3}, "max_games=3: .*even"),
    "format": (BOTS, {"format": "swiss"}, "format=swiss: no such format.*gauntlet"),
    "games of an adaptive one": (
        BOTS,
        {"format": "adaptive", "games": 2},
        "games: adaptive takes no games.*round-robin",
    ),
    "budget of a round robin": (BOTS, {"max_games": 10}, "max_games: round-robin takes no max_games.*adaptive"),
    "want": (BOTS, {"format": "adaptive", "want": "best"}, "want=best: no such objective"),
    "want and between": (BOTS, {"format": "adaptive", "want": "all", "between": ("a", "b")}, "pass one of the two"),
    "until": (BOTS, {"format": "adaptive", "until": 0.0}, "until=0: .*above 0"),
    "between strangers": (
        BOTS[:2],
        {"format": "adaptive", "between": ("bot:biased", "bot:random")},
        "not among the ent",
    ),
    "between one": (BOTS, {"format": "adaptive", "between": ("bot:random", "bot:random")}, "are the same agent"),
    "seeds": (BOTS, {"format": "gauntlet", "seeds": 3}, "seeds=3: .*pass 1 to 2"),
    "newest": (BOTS, {"newest": 3}, "newest=3: .*pass --run"),
    "seed": (BOTS, {"seed": -1}, "seed=-1"),
}


@pytest.mark.parametrize("case", BAD)
def test_tournaments_that_cannot_be_are_refused(case: str, store: Filled) -> None:
    """One line that names the setting, the rule and the next step; nothing is stored."""
    store.begin_run(RunRow(run="r", game="matrix", game_id="g", fingerprint="f", seed=0, stage="s", config="{}"))
    store.add_snapshot(SnapshotRow("net-0", "r", 0, 0, "r/snapshots/0", "f"))
    store.flush(force=True)
    store.mark_pruned("r", [0])
    agents, options, words = BAD[case]
    with pytest.raises(UsageError, match=words):
        hold(store, *agents, **options)
    assert rows(store) == []
