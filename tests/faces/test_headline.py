"""What a page says first: RUN@best, and how it stands against the bots, worst first."""

import dataclasses
from pathlib import Path

import pytest

from league.boards.naming import LEAST_GAMES, best_snapshot
from league.faces.readings import read
from league.store.rows import AgentRow, GameRow
from tests.helpers.stores import Filled, empty_store, make_gate, make_run, make_snapshot, play


@pytest.fixture
def store(tmp_path: Path) -> Filled:
    """A run `a` of 300 steps with three snapshots, `hash100` to `hash300`, and three bots."""
    store = empty_store(tmp_path)
    store.begin_run(make_run("a"))
    store.update_run("a", steps=300)
    for step in (100, 200, 300):
        store.add_snapshot(make_snapshot("a", step))
    store.add_game(GameRow("g", "brawl", "bot:based"))
    for bot in ("bot:based", "bot:easy", "bot:hard"):
        store.add_agent(AgentRow(bot, "bot", bot, "g"))
    return store


def test_the_first_sentence_has_every_bot_worst_first(store: Filled) -> None:
    """Scores with intervals in order, what it loses to, and which bot it has not met, with the command that helps."""
    play(store, "hash200", "bot:hard", 10, 0, 90)
    play(store, "hash200", "bot:based", 52, 0, 48)
    play(store, "hash200", "bot:easy", 97, 0, 3)
    first, rating, alarm = read(store).summary.split(". ")
    assert first == (
        "brawl: a@200, the best snapshot of run a (300 steps), loses to bot:hard (score 0.10 [0.06 to 0.17] of 100"
        " games); is neither clearly better nor clearly worse than bot:based (0.52 [0.42 to 0.62] of 100 games);"
        " beats bot:easy (0.97 [0.92 to 0.99] of 100 games)"
    )
    assert rating.startswith("It is rated 1,0") and rating.endswith("where bot:based has 1,000, from 300 games")
    assert alarm == "No alarm is raised."
    play(store, "hash100", "bot:easy", 1, 0, 20)
    store.add_agent(AgentRow("bot:new", "bot", "bot:new", "g"))
    play(store, "hash100", "bot:new", 5, 0, 5)
    said = read(store).summary
    assert "; has not met bot:new. " in said
    assert f"`league tournament a@200 --bots --format gauntlet --store {store.path}` plays more" in said


@pytest.mark.parametrize("best", ["two games", "champion"])
def test_a_page_praises_the_best_of_the_rule(best: str, store: Filled) -> None:
    """Neither the highest rating of two games nor the highest bound beside a champion: the page names RUN@best."""
    play(store, "hash100", "bot:based", 20, 0, 80)
    play(store, "hash100", "bot:hard", 0, 0, 40)
    play(store, "hash200", "bot:based", 30, 0, 70)
    play(store, "hash300", "bot:based", 2, 0, 0)
    if best == "champion":
        gate = store.gate_begins(make_gate(challenger="hash100", opponent="hash200"))
        store.end_gate(dataclasses.replace(gate, decision="passed", is_promoted=True), None)
    wanted = {"two games": "a@200, the best snapshot", "champion": "a@100, the champion"}[best]
    (game,) = read(store).games
    rated = {entry.name: entry.rating for entry in game.board if entry.kind != "bot"}
    assert max(rated, key=lambda name: rated[name]) == "a@300", "the highest rating has two games"
    assert game.summary.startswith(f"brawl: {wanted} of run a (300 steps), loses to")
    [named] = [entry for entry in game.board if entry.is_best]
    assert named.agent_id == best_snapshot(store, "a") and game.summary.split()[1] == f"{named.name},"


def test_few_games_are_said_to_be_few(store: Filled) -> None:
    """Where no snapshot has enough games the page says so, with the command that plays more; without any, too."""
    assert read(store).summary.startswith("brawl: no snapshot of run a (300 steps) that can play is rated yet. ")
    play(store, "hash300", "bot:hard", 2, 0, 0)
    said = read(store).summary
    assert "a@300, the best snapshot of run a (300 steps), is neither clearly better nor clearly worse than" in said
    assert f"Fewer than {LEAST_GAMES} games are too few to tell which snapshot is the best: `league tournament" in said
    play(store, "hash300", "hash100", 30, 0, 0, run="evaluation-2")
    assert "too few" not in read(store).summary
