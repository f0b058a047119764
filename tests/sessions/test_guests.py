"""Agents from elsewhere in a run's mix: found by name, kept with the run, and the same wherever they lie."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import league
from league.config.models import AGENT_PREFIX
from league.errors import LeagueError
from league.sessions.folders import GUESTS
from league.snapshots import Agent
from league.store.store import Store
from tests.helpers.runs import learned, stopping
from tests.helpers.sizes import TINY

OTHER_SIZES = ("agent.lstm_size=6", "agent.encoder_width=16", "agent.history_frames=3")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the run `old` in a store, and the agent `champion`, of another shape than `TINY`."""
    folder = tmp_path_factory.mktemp("old")
    store = folder / "league.duckdb"
    league.train("smoke", env="matrix", run="old", store=store, overrides=[*TINY, *OTHER_SIZES])
    league.export("old", folder / "champion", store=store)
    return folder


def mix(*names: str, **groups: list[str]) -> list[str]:
    """`--set` for a mix of self-play and these, and groups."""
    shares = {"self_play": 0.4, **{name: 0.6 / len(names) for name in names}}

    def table(values: dict[str, Any]) -> str:
        return "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(value)}" for key, value in values.items()) + "}"

    return [f"pool.mix={table(shares)}", f"pool.groups={table(groups)}"]


def train(folder: Path, sets: list[str], **more: Any) -> Any:
    """A tiny run `r` whose store is in `folder`."""
    folder.mkdir(exist_ok=True)
    store, sets = folder / "league.duckdb", [*TINY, "run.total_steps=160", *sets]
    return league.train("smoke", env="matrix", run="r", store=store, overrides=sets, **more)


def test_a_run_meets_agents_from_elsewhere(exported: Path, tmp_path: Path) -> None:
    champion = Agent.load(exported / "champion").manifest
    result = train(tmp_path, mix(f"{AGENT_PREFIX}{exported / 'champion'}"))
    store = Store.open(tmp_path / "league.duckdb")
    assert result.status == "finished"
    for kind in ("training", "evaluation"):
        met = [match for match in store.matches("r", kind) if champion.agent_id in match.agents]
        assert len(met) >= 2, kind
    assert [path.name for path in (tmp_path / "r" / GUESTS).iterdir()] == [champion.agent_id]
    settings = json.loads(store.find_run("r").config)["pool"]
    assert settings["mix"] == {"self_play": 0.4, f"agent:{champion.agent_id}": 0.6}
    names = {agent.agent_id: (agent.kind, agent.name) for agent in store.agents(store.find_run("r").game_id)}
    assert names[champion.agent_id] == ("import", f"old@{champion.step}")
    board = league.leaderboard(store=store.path)
    assert f"old@{champion.step}" in {entry.name for found in board.boards for entry in found.entries}


def test_it_is_the_same_run_wherever_they_lie(exported: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(exported / "champion", tmp_path / "moved")
    train(tmp_path / "a", mix(f"agent:{exported / 'champion'}"))
    train(tmp_path / "b", mix(f"agent:{moved}", f"agent:{exported / 'champion'}"))
    rows = [Store.open(tmp_path / name / "league.duckdb").find_run("r") for name in "ab"]
    assert rows[0].fingerprint == rows[1].fingerprint
    assert learned(tmp_path / "a", "r") == learned(tmp_path / "b", "r")


def test_it_goes_on_without_the_originals(exported: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(exported / "champion", tmp_path / "moved")
    sets = mix("strong", strong=[f"agent:{moved}", "bot:biased"])
    train(tmp_path / "whole", sets)
    with stopping(2):
        assert train(tmp_path / "broken", sets).status == "stopped"
    shutil.rmtree(moved)
    resumed = league.resume("r", store=tmp_path / "broken" / "league.duckdb")
    assert resumed.status == "finished" and learned(tmp_path / "broken", "r") == learned(tmp_path / "whole", "r")
    met = {agent for match in learned(tmp_path / "whole", "r")[1] for agent in match["agents"]}
    assert "bot:biased" in met and any(len(agent) == 64 for agent in met)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("agent:{}/nowhere", "no snapshot at .*/nowhere"),
        ("agent:nobody", "no store at"),
        ("agent:bot:random", "bot:random"),
        ("agent:{}/other", "option rounds was 3 and is 10"),
        ("agent:{}/damaged", "is damaged"),
        ("agent:", "is no group or member"),
    ],
)
def test_what_cannot_be_met_is_one_line(name: str, words: str, exported: Path, tmp_path: Path) -> None:
    if "other" in name:
        league.train("smoke", env="matrix", run="x", store=tmp_path, overrides=[*TINY, "env.rounds=3"])
        league.export("x", tmp_path / "other", store=tmp_path / "league.duckdb")
    if "damaged" in name:
        weights = shutil.copytree(exported / "champion", tmp_path / "damaged") / "weights.safetensors"
        weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(LeagueError, match=words) as caught:
        train(tmp_path / "new", mix(name.format(tmp_path)))
    assert "\n" not in str(caught.value) and not list(tmp_path.glob("new/*"))
