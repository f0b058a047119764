"""What a check finds that a resume would lose: a bot's memory, a match's hidden state, and where it shows."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from league.envs import Match, registry
from league.envs.contract import games as game_checks
from league.testing import ContractError, check_bot, check_game

PLACE = r"row \d+.*, seat \d, step \d+.*: (obs|final_obs|reward_terms|mask)\[\d+\].* is .*, and was "


class Throws(Match):
    """Rock, paper, scissors, several throws a match; both see the last two."""

    name, action, obs_size, opponent_slice = "throws", 3, 6, (3, 6)
    end_reasons = ("won", "even")

    def __init__(self, length: int = 7) -> None:
        self.length = length

    def reset(self, rng: np.random.Generator) -> None:
        self.last: tuple[Any, Any] = (None, None)
        self.throws, self.ahead = 0, 0
        self.played: list[tuple[int, int]] = []

    def observe(self, seat: int) -> Any:
        return [self.last[who] == throw for who in (seat, 1 - seat) for throw in range(3)]

    def step(self, actions: tuple[Any, Any]) -> None:
        self.last = actions
        self.played.append(actions)
        self.throws += 1
        self.ahead += (0, 1, -1)[(actions[0] - actions[1]) % 3]
        if self.throws == self.length:
            self.end(None if not self.ahead else int(self.ahead < 0))


def counting(match: Any, seat: int, seed: int) -> Callable[[Any], int]:
    """Counts its own calls."""
    calls = [0]

    def play(legal: Any) -> int:
        calls[0] += 1
        return calls[0] % 3

    return play


def own_rng(match: Any, seat: int, seed: int) -> Callable[[Any], int]:
    """Draws from a generator that it makes once."""
    rng = np.random.default_rng(seed)
    return lambda legal: int(rng.choice(legal))


class Tally:
    """A bot whose object counts across all of its matches."""

    calls = 0

    def __call__(self, observation: Any, legal: Any, rng: Any) -> int:
        Tally.calls += 1
        return Tally.calls % 3


def by_the_match(match: Any, seat: int, seed: int) -> Callable[[Any], int]:
    """Sound: all follows from the seed and what was played."""
    return lambda legal: (len(match.played) + sum(own for own, _ in match.played) + seed) % 3


def fair(observation: Any, legal: Any, rng: Any) -> Any:
    """Sound."""
    return rng.choice(legal)


def game_with(length: int, **body: Any) -> str:
    """The name of a game with these bots, after two sound ones."""
    name = f"throws{length}{next(iter(next(iter(body.values()), {})), '')}".replace("_", "")
    bots = {"fair": fair, **body.get("bots", {})}
    players = {"sound": by_the_match, **body.get("players", {})}
    kind: Any = type("Own", (Throws,), {"name": name, "bots": bots, "players": players})
    return registry.adopt(kind, name)


@pytest.mark.parametrize(
    ("player", "length"),
    [(counting, 2), (counting, 12), (own_rng, 5)],
)
def test_a_player_whose_memory_is_lost_is_named(player: Any, length: int) -> None:
    """In matches of any length: by its name and seat, with row, step and column, in a second."""
    name = game_with(length, players={player.__name__: player})
    with pytest.raises(ContractError) as caught:
        check_game(name, {"length": length})
    message = str(caught.value)
    assert f"bot {player.__name__} in seat" in message and "does not continue alike" in message
    assert re.search(PLACE, message) and "Match.players" in message and "\n" not in message


@pytest.mark.parametrize("length", [2, 7])
def test_a_bot_that_keeps_something_is_named(length: int) -> None:
    """A bot is asked as if for the first time each time."""
    name = game_with(length, bots={"tally": Tally()})
    with pytest.raises(ContractError, match=r"bot tally in seat \d.*plays differently"):
        check_game(name, {"length": length})


@pytest.mark.parametrize("length", [1, 7])
def test_sound_players_pass(length: int) -> None:
    """A memory that is made again of the match is none that is lost."""
    name = game_with(length)
    assert check_game(name, {"length": length}) is not None
    for bot in ("fair", "sound", "random"):
        check_bot(name, bot, {"length": length})


class Hidden(Throws):
    """What it shows depends on how often the object was asked."""

    asked = 0

    def observe(self, seat: int) -> Any:
        self.asked += seat
        return [*super().observe(seat)[:-1], self.asked % 2]


class Carried(Throws):
    """`reset` leaves something of the match before."""

    debt = 0

    def observe(self, seat: int) -> Any:
        return [*super().observe(seat)[:-1], min(1, self.debt)]

    def step(self, actions: tuple[Any, Any]) -> None:
        self.debt += actions[0] == 0
        super().step(actions)


@pytest.mark.parametrize("kind", [Hidden, Carried])
def test_hidden_state_is_shown_where_it_shows(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the long runs: the line has row, seat, step and column."""
    monkeypatch.setattr(game_checks, "check_match_batch", None)
    name = registry.adopt(type(kind.__name__, (kind,), {"name": kind.__name__.lower()}), "own")
    with pytest.raises(ContractError) as caught:
        check_game(name, {"length": 7})
    assert re.search(r"row \d+.*, seat \d.*: obs\[5\] is .* (was|but) ", str(caught.value)), caught.value
