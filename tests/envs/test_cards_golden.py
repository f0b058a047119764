"""The duel's golden playthroughs: matches of the compiled game, kept as text that a reviewer can follow.

`python tests/envs/test_cards_golden.py --write` writes them again into tests/envs/golden/; read the difference before
you commit.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from league.envs.cards import env
from league.envs.cards.env import SPEC, Options
from league.envs.cards.rules import BOTS
from league.envs.cards.words import creature, decision, name_of
from tests.oracles.cards.bots import choose
from tests.oracles.cards.match import ReferenceMatch

FOLDER = Path(__file__).parent / "golden"
SCENES: dict[str, tuple[str, tuple[str, str], int, Options]] = {
    "curve_greedy": ("`curve` in seat 0 against `greedy`.", ("curve", "greedy"), 53, Options()),
    "random": (
        "`random` against itself, small decks and little health: creatures return, decks run out.",
        ("random", "random"),
        11,
        Options(health=12, deck=10, decision_limit=60),
    ),
}


def play(name: str) -> list[str]:
    """The match as lines of text."""
    title, bots, seed, options = SCENES[name]
    batch: Any = env.make(1, 1, options)
    batch.reset(np.array([seed], np.uint64))
    lines = [
        f"# {title}",
        "# Written by `python tests/envs/test_cards_golden.py --write`. One line for each decision, with what it left:",
        "# health, oil (and lamps), cards in hand (and in the deck), slots 1 to 4 of seat 0, then of seat 1.",
        "# `eel 3/2*` has 3 power and 2 health and may act; ~ is snared.",
        f"# Seed {seed}; {options!r}.",
    ]
    record = batch.record(0)
    for seat, keeper in enumerate(record["keepers"]):
        lines.append(f"# Hand of seat {seat}: {', '.join(map(name_of, keeper['hand'][: keeper['hand_size']]))}.")
    while not batch.terminated[0]:
        before = batch.record(0)
        seat = int(before["acting"])
        match = ReferenceMatch.of_record(batch.rules, before)
        match.me.rng.state += int(before["decisions"])  # an external seat's stream stands still
        action = choose(match, BOTS.index(bots[seat]))
        batch.actions[0, seat] = action
        batch.step()
        told = decision(action, before["keepers"][seat]["board"])
        lines.append(f"{before['decisions'] + 1:3} | {seat} {told:52} | {after(batch)}".rstrip())
    result = batch.result[0]
    lines.append(f"the match ends: {SPEC.end_reasons[result['end_reason']]}, winner {result['winner']}")
    for seat in (0, 1):
        numbers = ", ".join(f"{k} {v:g}" for k, v in zip(SPEC.metrics, result["metrics"][seat], strict=True) if v)
        lines.append(f"seat {seat}: {numbers}")
    return lines


def after(batch: Any) -> str:
    """What a decision left, and the terms that it brought."""
    terms = [
        f"{seat}: {name} {value:g}"
        for seat in (0, 1)
        for name, value in zip(SPEC.reward_terms, batch.reward_terms[0, seat], strict=True)
        if value
    ]
    if batch.terminated[0]:
        return "; ".join(terms)
    keepers = batch.record(0)["keepers"]
    parts = [
        " ".join(f"{k['health']:2}" for k in keepers),
        " ".join(f"{k['oil']}({k['lamps']})" for k in keepers),
        " ".join(f"{k['hand_size']}({k['deck_size']})" for k in keepers),
        " || ".join(", ".join(map(creature, k["board"])) for k in keepers),
    ]
    return " | ".join(parts) + (" | " + "; ".join(terms) if terms else "")


@pytest.mark.parametrize("name", SCENES)
def test_the_game_plays_as_it_is_written(name: str) -> None:
    assert play(name) == (FOLDER / f"cards_{name}.txt").read_text(encoding="utf-8").splitlines()


def test_the_playthroughs_show_the_game() -> None:
    text = "\n".join((FOLDER / f"cards_{name}.txt").read_text(encoding="utf-8") for name in SCENES)
    for words in ("ends the turn", "for a lamp", "plays", "casts", "attacks", "uses its ability", "keeper_fell"):
        assert words in text


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("pass --write to write the playthroughs again")
    for scene in SCENES:
        (FOLDER / f"cards_{scene}.txt").write_text("\n".join(play(scene)) + "\n", encoding="utf-8")
