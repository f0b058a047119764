"""A match that uses the process's generators or relative paths plays as one that uses `rng` and whole paths."""

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.envs import Match, registry
from league.errors import CodeError, ContractError, LeagueError
from league.testing import check_game
from tests.helpers.cases import cases
from tests.helpers.games import forget, new_user
from tests.helpers.runs import stopping
from tests.helpers.sizes import TINY


class Dice(Match):
    """Both guess a die; everything that can draws from a global generator."""

    action, obs_size, obs_range = 6, 4, (0.0, 6.0)
    opponent_slice = (1, 2)

    def __init__(self) -> None:
        self.sides = [self.roll() for _ in range(3)]

    def roll(self) -> float:
        return random.random()

    def reset(self, rng: np.random.Generator) -> None:
        self.throws = 0
        self.start = self.roll()
        self.last = [0, 0]

    def observe(self, seat: int) -> Any:
        return [self.last[seat], self.last[1 - seat], self.start, self.roll()]

    def legal(self, seat: int) -> Any:
        return sorted({int(self.roll() * 6), 0, 5})

    def step(self, actions: Any) -> None:
        self.throws += 1
        self.last = list(actions)
        if self.roll() < 0.2 or self.throws > 8:
            self.end(int(self.roll() * 2))


def rolling(roll: Any) -> type[Match]:
    """The game with another generator, and a bot that draws from it too."""
    bots = {"gut": lambda observation, legal, rng: legal[int(roll() * len(legal))]}
    name = f"dice{len(registry.games())}"
    return type(name, (Dice,), {"roll": lambda self: roll(), "bots": bots, "name": name})


SOURCES: dict[str, Any] = {
    "random": random.random,
    "random.choice": lambda: random.choice(range(100)) / 100,
    "gauss": lambda: abs(random.gauss(0, 1)) % 1,
    "np.random.rand": lambda: float(np.random.rand()),
    "np.random.randint": lambda: np.random.randint(100) / 100,
    "np.random.standard_normal": lambda: abs(np.random.standard_normal()) % 1,
    "both": lambda: (random.random() + float(np.random.rand())) / 2,
}


@pytest.mark.parametrize("source", cases("random", "np.random.rand", "both", slow=SOURCES))
def test_global_generators_are_the_matchs(source: str) -> None:
    """It keeps the contract, and the process's generators are left as they were."""
    name = registry.adopt(rolling(SOURCES[source]), source)
    random.seed(5)
    np.random.seed(5)
    np.random.standard_normal()
    before = random.getstate(), repr(np.random.get_state())
    check_game(name)
    assert (random.getstate(), repr(np.random.get_state())) == before


def sown(seed: int) -> float:
    """Seeds what is the process's, and moves it to another zone of time."""
    random.seed(seed)
    np.random.seed(seed)
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    return 0.3


@pytest.mark.parametrize(("door", "seed"), [("check_game", 5), ("watch", 0)])
@pytest.mark.slow
def test_a_game_that_seeds_leaves_the_callers_process(
    door: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its generators and its environment are as they were, by each door."""
    name = registry.adopt(rolling(lambda: sown(seed)), "sown")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    random.seed(7)
    np.random.seed(7)
    before = random.getstate(), repr(np.random.get_state()), dict(os.environ), time.tzname
    if door == "watch":
        league.watch("bot:random", "bot:random", env=name, out=tmp_path / "a.html", store=tmp_path / "none")
    else:
        check_game(name)
    assert (random.getstate(), repr(np.random.get_state()), dict(os.environ), time.tzname) == before


def test_a_game_that_draws_from_elsewhere_is_refused() -> None:
    name = registry.adopt(rolling(lambda: int.from_bytes(os.urandom(4)) / 2**32), "os")
    with pytest.raises(LeagueError, match="draw all chance from"):
        check_game(name)


FILES = """
from pathlib import Path
import random
from league.envs import Match

{at_import}
ORDER = random.sample(range(6), 6)


class Level(Match):
    name, action, obs_size, max_steps = "level", 3, 3, 5

    def __init__(self):
        {at_start}

    def reset(self, rng):
        {at_reset}
        self.at = [0, 0]

    def observe(self, seat):
        return [self.at[seat] / 20, self.at[1 - seat] / 20, self.width / 9]

    def step(self, actions):
        {at_step}
        self.at = [at + action for at, action in zip(self.at, actions)]

    def drawing(self, seat=None):
        from league.envs.drawing import Drawing

        open("data/level.txt").close()
        return Drawing((0, 0, 100, 40))
"""
READ = 'self.width = int(open("data/level.txt").read())'
PLACES = {"at_import": READ.replace("self.width", "WIDTH"), "at_start": READ, "at_reset": READ, "at_step": READ}


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user in an empty folder; the game is in another one, with its file."""
    (tmp_path / "here").mkdir()
    (tmp_path / "game" / "data").mkdir(parents=True)
    (tmp_path / "game" / "data" / "level.txt").write_text("7")
    monkeypatch.chdir(tmp_path / "here")
    with new_user(tmp_path):
        yield tmp_path


def write(folder: Path, place: str) -> Path:
    """The game that reads its file at this place, and else knows what is in it."""
    known = {"at_import": "WIDTH = 7", "at_start": "self.width = 7", "at_reset": "pass", "at_step": "pass"}
    path = folder / "game" / "game.py"
    path.write_text(FILES.format(**{**known, place: PLACES[place]}))
    return path


@pytest.mark.parametrize("place", cases("at_step", slow=PLACES))
@pytest.mark.slow
def test_relative_paths_lead_from_the_games_folder(place: str, user: Path) -> None:
    """Where the current folder has no such file; which folder is current changes for nobody else."""
    path = write(user, place)
    check_game(str(path))
    assert Path.cwd() == user / "here" and not list((user / "here").iterdir())


def test_a_run_finds_the_files_from_any_folder(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is trained, resumed with worker processes, evaluated and drawn from three folders."""
    path = write(user, "at_reset")
    store = user / "league.duckdb"
    with stopping(1):
        league.train("smoke", env=str(path), run="r", overrides=TINY, store=store)
    for folder, call in {
        "a": lambda: league.resume("r", store=store, overrides=["env.workers=2"]),
        "b": lambda: league.evaluate("r", "bot:random", games=2, store=store),
        "c": lambda: league.watch("r", "bot:random", out="x.html", store=store),
    }.items():
        (user / folder).mkdir()
        monkeypatch.chdir(user / folder)
        forget()
        assert call() is not None
        assert Path.cwd() == user / folder


def test_a_file_that_is_nowhere_is_one_line(user: Path) -> None:
    path = write(user, "at_reset")
    (user / "game" / "data" / "level.txt").unlink()
    with pytest.raises(CodeError, match=r"FileNotFoundError.*level.txt.*game.py, line \d+"):
        check_game(str(path))


@pytest.mark.parametrize("draws", ["hash('level')", "int.from_bytes(''.join(set('abcdefgh')).encode())"])
def test_a_game_that_another_process_plays_differently_is_refused(
    draws: str, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts have another hash in each process, so a resumed run would play other matches."""
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    path = write(user, "at_reset")
    path.write_text(path.read_text().replace(READ, f"self.width = {draws} % 999_983 / 2e5"))
    with pytest.raises(ContractError, match=r"another process plays differently: .*obs\[2\] is .*, and was"):
        check_game(str(path))
