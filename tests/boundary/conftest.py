"""What the boundary's tests find: a store with a run, its exported agent, and names that a terminal could obey."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import league
from league.store.store import Store
from tests.helpers.games import new_user
from tests.helpers.sizes import TINY
from tests.helpers.stores import keeping_store, store_of_match


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the store `runs`, a run `r` in it and its export `agent`; nobody may change it."""
    folder = tmp_path_factory.mktemp("made")
    sets = [*TINY, "agent.opponent_encoder=true"]
    league.train("smoke", env="matrix", run="r", store=folder / "runs", overrides=sets)
    league.export("r", folder / "agent", store=folder / "runs")
    return folder


@pytest.fixture
def agent(made: Path, tmp_path: Path) -> Path:
    """A copy of the exported agent, for a stranger to change."""
    return shutil.copytree(made / "agent", tmp_path / "agent")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store without games."""
    return keeping_store(tmp_path / "runs")


@pytest.fixture(scope="session")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a match of two agents, one of whose names has an escape, a line feed and a letter of Chinese."""
    return store_of_match(tmp_path_factory.mktemp("named"), "import:\x1b[31m李\nerror: x")


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Path]:
    """A folder for a user's code; the user has named no game yet."""
    with new_user(tmp_path):
        yield tmp_path
