"""What a game and an agent must agree in before it plays: what it sees and what it does, and nothing else."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import league
from league.config.models import AGENT_PREFIX
from league.errors import LeagueError
from tests.helpers.cases import cases
from tests.helpers.games import forget, new_user
from tests.helpers.sizes import TINY

GAME = """
from league.envs import Match
from league.types import ActionSpec, ObservationPart


def first(observation, legal, rng):
    return 0


class Coins(Match):
    name, action, max_steps = "coins", 3, 4
    obs_size, opponent_slice, obs_range = 6, (3, 6), (0.0, 1.0)
    observation = (ObservationPart("own", 0, (3,)), ObservationPart("theirs", 3, (3,)))
    reward_terms, metrics, end_reasons = ("coins", "style"), ("moves",), ("over", "bored")
    bots = {"first": first}

    def reset(self, rng):
        self.last = (0, 0)

    def observe(self, seat):
        return [self.last[who] == throw for who in (seat, 1 - seat) for throw in range(3)][: self.obs_size]

    def step(self, actions):
        self.last = actions
        for seat in (0, 1):
            for term in self.reward_terms:
                self.reward(seat, term, actions[seat] / 4)
            for metric in self.metrics:
                self.measure(seat, metric)
        if actions[0] != actions[1]:
            self.end(int(actions[1] > actions[0]), self.end_reasons[0])
"""
SETS = (*TINY, "pool.mix={self_play = 0.5, 'bot:random' = 0.5}")
NO_MATTER = (
    ('("coins", "style")', '("speed",)'),
    ('("moves",)', "()"),
    ('("over", "bored")', '("done", "over", "late")'),
    ('{"first": first}', "{}"),
    ('"coins", 3, 4', '"coins", 3, 4\n    tick_rate = 30.0'),
)

MATTER = {
    "action": ('"coins", 3, 4', '"coins", 4, 4', ("action", "(3,)", "(4,)")),
    "slice": ("6, (3, 6)", "6, (0, 3)", ("opponent_slice", "(3, 6)", "(0, 3)")),
    "range": ("(0.0, 1.0)", "(0.0, 2.0)", ("obs_range", "(0.0, 1.0)", "(0.0, 2.0)")),
    "kind": ('("own", 0, (3,))', '("own", 0, (3,), "tokens", count=2)', ("observation", "'own'", "numbers", "tokens")),
    "layout": ("    observation = (", "    layout = (", ("observation", "'own'", "None")),
    "version": ("    name, action", "    version = 2\n    name, action", ("version", "1", "2")),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the game, a run `r` of it in a store, and its agent exported as `agent`."""
    folder = tmp_path_factory.mktemp("coins")
    with pytest.MonkeyPatch.context() as patch, new_user(folder):
        patch.chdir(folder)
        Path("game.py").write_text(GAME)
        league.train("smoke", env="game.py", run="r", overrides=SETS, store="league.duckdb")
        league.export("r", "agent", store="league.duckdb")
        yield folder


@pytest.fixture
def changed(trained: Path) -> Iterator[Callable[..., None]]:
    """Writes another game into the file, in a process that has seen none yet."""

    def write(*changes: tuple[str, str]) -> None:
        text = GAME
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (trained / "game.py").write_text(text)
        forget()

    yield write
    (trained / "game.py").write_text(GAME)
    forget()


def doors(folder: Path) -> dict[str, Callable[[], Any]]:
    known: dict[str, Any] = {"env": "game.py", "store": "league.duckdb"}
    fresh = f"new-{len(list(folder.glob('new-*')))}"
    mix = (*TINY, f"pool.mix={{self_play = 0.5, '{AGENT_PREFIX}./agent' = 0.5}}")
    return {
        "evaluate": lambda: league.evaluate("r", "bot:random", games=2, **known),
        "two agents": lambda: league.evaluate("r", "r@0", games=2, **known),
        "an export": lambda: league.evaluate("./agent", "bot:random", games=2, **known),
        "gate": lambda: league.gate("r", "bot:random", max_games=2, **known),
        "tournament": lambda: league.tournament(["r", "r@0", "bot:random"], games=2, **known),
        "watch": lambda: league.watch("r", "bot:random", out=f"{fresh}.html", **known),
        "exploit": lambda: league.train(against="r", steps=32, games=2, **known),
        "a mix": lambda: league.train("smoke", run=fresh, overrides=mix, **known),
    }


@pytest.mark.slow
def test_what_is_neither_seen_nor_done_may_differ(trained: Path, changed: Callable[..., None]) -> None:
    changed(*NO_MATTER)
    for name, play in doors(trained).items():
        forget()
        assert play() is not None, name


@pytest.mark.parametrize("what", cases("action", "layout", slow=MATTER))
def test_what_is_seen_or_done_is_named_where_it_differs(what: str, trained: Path, changed: Callable[..., None]) -> None:
    old, new, words = MATTER[what]
    changed((old, new))
    known: dict[str, Any] = {"env": "game.py", "store": "league.duckdb"}
    calls = {**doors(trained), "resume": lambda: league.resume("r", overrides=["run.total_steps=128"], **known)}
    for name, play in calls.items():
        forget()
        with pytest.raises(LeagueError) as caught:
            play()
        message = str(caught.value)
        assert all(word in message for word in words), (name, message)
        assert "\n" not in message and ("r@" in message or "agent:" in message), (name, message)
