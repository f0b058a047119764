"""The bots of the RoShamBo competitions: a match follows from its seed and throws, whatever is played beside it."""

import ctypes
import functools
from typing import Any

import numpy as np
import pytest

from league.envs.adapters import openspiel, spielbots
from league.envs.matches.row import next_seed
from league.types import EXTERNAL
from tests.helpers.cases import cases

pyspiel = pytest.importorskip("pyspiel")
SHORT = "repeated_game(stage_game=matrix_rps(),num_repetitions=120,recall=1)"
WHOLE = openspiel.REPEATED_RPS
NAMES = pyspiel.roshambo_bot_names()
libc = ctypes.PyDLL(None)


opened = functools.cache(openspiel.open)


def batch_of(rest: str, rows: int) -> Any:
    """A batch of the game."""
    return opened(rest).make(rows, 1, opened(rest).Options())


def seat_bots(batch: Any, bots: list[str], seat: int) -> None:
    """Row i has the bot i in a seat."""
    batch.controllers[:] = EXTERNAL
    batch.controllers[:, seat] = [batch.spec.bots.index(bot) for bot in bots]


def throws(batch: Any, rows: list[int], steps: int, *, spoil: bool = False) -> list[list[tuple[int, int]]]:
    """What is thrown in each row, its other seat by a generator of the number in `rows`."""
    rngs = [np.random.default_rng(row) for row in rows]
    seen: list[list[tuple[int, int]]] = [[] for _ in rows]
    for _ in range(steps):
        batch.actions[:] = np.stack([rng.choice(3, (2, 1), p=(0.5, 0.3, 0.2)) for rng in rngs])
        if spoil:
            libc.random()
        batch.step()
        for i, match in enumerate(batch.matches):
            history = match.state.history()
            if len(history) >= 2:
                seen[i].append((history[-2:][match.player_of(0)], history[-2:][match.player_of(1)]))
    return seen


@pytest.mark.parametrize("rest", cases(SHORT, slow=[WHOLE]))
def test_a_match_alone_is_the_match_among_many(rest: str) -> None:
    """All 43 bots, each against the same throws: alone in a batch, and twice among all the others."""
    steps = opened(rest).match.game.get_parameters()["num_repetitions"] - 1
    bots, numbers = [spielbots.PREFIX + name for name in NAMES] * 2, list(range(len(NAMES))) * 2
    assert len(NAMES) == 43
    seeds = np.array(numbers, np.uint64) + np.uint64(2**40)
    for seat in range(2):
        many = batch_of(rest, len(bots))
        seat_bots(many, bots, seat)
        many.reset(seeds)
        together = throws(many, numbers, steps, spoil=True)
        assert together[:43] == together[43:]
        for number, bot in enumerate(bots[:43]):
            one = batch_of(rest, 1)
            seat_bots(one, [bot], seat)
            one.reset(seeds[number : number + 1])
            assert throws(one, [number], steps) == [together[number]], bot


@pytest.mark.parametrize("name", cases("greenberg", "randbot", slow=NAMES))
def test_a_bot_plays_what_openspiel_alone_plays(name: str) -> None:
    """Twin: OpenSpiel's own bot and game and nothing else, with the process's own `random()` seeded for the match."""
    batch = batch_of(WHOLE, 1)
    seat_bots(batch, [spielbots.PREFIX + name], 1)
    batch.reset(np.array([11], np.uint64))
    match, steps = batch.matches[0], 300
    player = match.player_of(1)
    [played] = throws(batch, [4], steps)
    game, rng = pyspiel.load_game(openspiel.SHORT[WHOLE]), np.random.default_rng(4)
    bot, state = pyspiel.make_roshambo_bot(player, name), game.new_initial_state()
    seed = next_seed(11, 2)
    libc.srandom(ctypes.c_uint((seed ^ seed >> 32) & 0xFFFFFFFF))
    for own, its in played:
        assert rng.choice(3, (2, 1), p=(0.5, 0.3, 0.2))[0, 0] == own and bot.step(state) == its
        state.apply_actions([its, own] if player == 0 else [own, its])


@pytest.mark.parametrize(("one", "two", "won"), [("copybot", "rotatebot", 1), ("copybot", "multibot", -997)])
def test_bots_without_chance_score_what_the_published_table_says(one: str, two: str, won: int) -> None:
    """Two cells of the cross table beside Lanctot et al. 2023 (arXiv:2303.03196), which draws have no part in."""
    batch = batch_of(WHOLE, 1)
    batch.controllers[0] = [batch.spec.bots.index(spielbots.PREFIX + name) for name in (one, two)]
    batch.reset(0)
    paid = 0.0
    for _ in range(1_000):
        batch.step()
        paid += batch.reward_terms[0, 0, 0]
    assert paid == won and batch.terminated[0] and batch.result["winner"][0] == int(won < 0)
    assert batch.result["metrics"][0].tolist() == [[won], [-won]]
