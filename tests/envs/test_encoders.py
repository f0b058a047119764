"""Encoders of Kaggle's environments and what a submission is made of, without the package."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from league.envs import adapters
from league.envs.adapters.encoders import ENCODERS, HERE, submission_files
from league.envs.adapters.encoders.connectx import ConnectxEncoder
from league.envs.adapters.encoders.planet_wars import PlanetWarsEncoder
from league.errors import ConfigError
from league.types import Source


@pytest.mark.parametrize(
    ("rest", "parts"),
    {
        "connectx": ("", "", "connectx"),
        "main.py": ("", "", "main.py"),
        "halite:a/b.py": ("halite:", "a/b.py", ""),
        "halite:/x:y/b.py:Own": ("halite:", "/x:y/b.py", ":Own"),
    }.items(),
)
def test_an_address_has_the_file_behind_the_environment(rest: str, parts: tuple[str, str, str]) -> None:
    """A file without an environment is none: it is a bot's."""
    assert adapters.file_of("kaggle", rest) == parts
    assert adapters.module_of("kaggle", rest) == ""


def test_without_the_package_the_next_step_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """No extra can bring it."""
    for name in ("kaggle_environments", "league.envs.adapters.kaggle", "league.envs.adapters.kaggletables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "kaggle_environments", None)
    with pytest.raises(ConfigError, match=r"pip install jsonschema requests && pip install --no-deps kaggle-env"):
        adapters.load("kaggle")


def test_connectx_shows_what_completes_a_line() -> None:
    """The cells with which a side would win are those that a search of all lines finds."""
    rng, found = np.random.default_rng(0), 0
    for rows, columns, length in ((6, 7, 4), (4, 5, 3)):
        encoder = ConnectxEncoder({"rows": rows, "columns": columns, "inarow": length})
        for _ in range(30):
            board = rng.integers(3, size=(rows, columns))
            seen = np.reshape(encoder.encode({"board": board.ravel().tolist(), "mark": 2}), (5, rows, columns))
            assert np.array_equal(seen[0], board == 2) and np.array_equal(seen[1], board == 1)
            for plane, mark in ((3, 2), (4, 1)):
                for row, column in np.ndindex(rows, columns):
                    wins = not board[row, column] and completes(board, row, column, mark, length)
                    assert seen[plane, row, column] == wins
                    found += wins
    assert found > 50


def completes(board: Any, row: int, column: int, mark: int, length: int) -> bool:
    """Whether a stone in a cell makes a line, walking from it both ways."""
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        run = 1
        for way in (1, -1):
            y, x = row + way * down, column + way * right
            while 0 <= y < board.shape[0] and 0 <= x < board.shape[1] and board[y, x] == mark:
                run, y, x = run + 1, y + way * down, x + way * right
        if run >= length:
            return True
    return False


def test_planet_wars_orders_are_within_what_lies_there() -> None:
    """Each from an own planet to the target, of its share of the ships, and the best target is the first."""
    planets = [[0, 0, 0, 1, 100, 5], [1, 3, 4, 0, 10, 5], [2, 30, 0, 2, 100, 5], [3, 1, 0, 1, 1, 1]]
    seen = {"planets": planets, "fleets": [[2, 7, 2, 0, 9, 3]], "player": 1, "step": 5}
    encoder = PlanetWarsEncoder({"episodeSteps": 200})
    assert encoder.legal(seen) == [[0, 1, 2, 3, 4], [0, 1, 2]]
    assert encoder.decode((0, 2), seen) == []
    assert encoder.decode((1, 1), seen) == [[0, 1, 50]]
    assert encoder.decode((1, 2), seen) == [[0, 1, 100], [3, 1, 1]]
    row = np.reshape(encoder.encode(seen)[:270], (30, 9))[0]
    assert row.tolist() == [1, 0, 0, 0.1, 1, 5 / 30, 0, 0, 0.1]


@pytest.mark.parametrize("name", ENCODERS)
def test_a_submission_has_the_encoder_and_its_name(name: str) -> None:
    """In files that import neither league nor torch; a game of another library has none."""
    files = submission_files(Source(f"kaggle:{name}"))
    assert files["encoder.py"] == (HERE / f"{name}.py").read_bytes()
    assert f'ENCODER = "{ENCODERS[name]}"' in files["main.py"].decode()
    assert submission_files(Source("gymnasium:CartPole-v1")) == {} == submission_files(Source())


def test_a_submission_knows_its_folder_without_a_name(tmp_path: Path) -> None:
    """Kaggle compiles `main.py` under its path and runs it without `__file__`."""
    path = tmp_path / "main.py"
    path.write_bytes(submission_files(Source("kaggle:rps"))["main.py"])
    code = "import sys; own = {}; exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'), own); print(own['HERE'])"
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, cwd="/")
    assert done.stdout.strip() == str(tmp_path), done.stderr
