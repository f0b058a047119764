"""Games as a user writes them: files that a test makes, and a process that has forgotten all it found."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from league.arena import consent, parts
from league.config import models
from league.envs import registry
from league.pool import samplers

GAME = '''
"""A matrix game of one file."""
from dataclasses import replace
from pathlib import Path

from league.envs.classic import matrix as _matrix
from league.envs.classic.matrix import Options

with (Path(__file__).resolve().parent / "runs.txt").open("a") as _file:
    _file.write("x")
NAME = "duel"


def spec(options):
    return replace(_matrix.spec(options), name=NAME)


class _Batch(_matrix.MatrixBatch):
    def __init__(self, rows, options):
        super().__init__(rows, options)
        self.spec = spec(options)


def make(rows, threads, options):
    return _Batch(rows, options)
'''
SUMS = """
from league.envs import Match


class Sums(Match):
    obs_size, action, max_steps = 1, 2, 4

    def reset(self, rng):
        self.steps = 0

    def observe(self, seat):
        return [self.steps / 4]

    def step(self, actions):
        self.steps += 1
        if self.steps == 3:
            self.end(int(actions[0]))
"""
SUMS_SETS = (
    *("env.rows=4", "learner.minibatch_size=32", "learner.rollout_steps=8", "pool.live_nets=1", "run.total_steps=128"),
    *("run.allow_short=true", "agent.lstm_size=8", "run.evaluate_games=2", "run.ladder_share=0"),
)


def write_game(path: Path, more: str = "", *, name: str = "duel", without: str = "") -> Path:
    """A file with the game `name`, followed by `more`; each import of it adds a letter to `runs.txt` beside it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = GAME.replace('"duel"', repr(name)).replace(without, "") if without else GAME.replace('"duel"', repr(name))
    path.write_text(text + more)
    return path


def times_run(folder: Path) -> int:
    """How often the code of games in `folder` ran."""
    path = folder / "runs.txt"
    return len(path.read_text()) if path.exists() else 0


def forget() -> None:
    """As another process begins: nothing was found, nothing named in it."""
    for name in registry._arrivals:
        registry._games.pop(name, None)
    registry._arrivals.clear()
    consent._here.clear()
    parts._known.clear()
    for name in samplers._registered:
        samplers.SAMPLERS.pop(name)
        models.SAMPLERS.remove(name)
    samplers._registered.clear()
    for name in [name for name in sys.modules if name.startswith("league_game_")]:
        del sys.modules[name]


@contextmanager
def new_user(folder: Path) -> Iterator[Path]:
    """Somebody who has named no game yet, in a process that knows none; gives the list's path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.setattr(sys, "path", list(sys.path))
        forget()
        try:
            yield folder / "config" / "league" / "games.json"
        finally:
            forget()
