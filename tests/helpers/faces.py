"""Runs to be shown, two seeds of a small game among them, and an agent with a name that would harm a careless page."""

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import league
from league.store.rows import AgentRow
from league.types import MatchResult
from tests.helpers.sizes import TINY
from tests.helpers.stores import Filled

HOSTILE = "</script><img src=x onerror=\"document.title='harmed'\"><a href='javascript:1'>{{7*7}}\u202e\n%{x}"
SETTINGS = (*TINY, "run.replays=1")


def make_runs(folder: Path) -> Path:
    """A store with the runs `m-0` and `m-1`, seeds of one thing, `k-1` of another game, and games of a hostile name."""
    for seed in (0, 1):
        league.train("smoke", env="matrix", run=f"m-{seed}", seed=seed, overrides=SETTINGS, store=folder)
    league.train("smoke", env="kuhn", run="k-1", overrides=SETTINGS, store=folder)
    store = Filled.open(folder)
    run = store.find_run("m-0")
    newest = store.snapshots("m-0")[-1].agent_id
    store.add_agent(AgentRow("imported", "import", HOSTILE, run.game_id))
    game, agents = run.game_id, (newest, "imported")
    store.add_matches(
        MatchResult("by-hand", "evaluation", 0, row, 0, game, agents, row, row % 2, "rounds", 9, 9, "sample")
        for row in range(6)
    )
    store.flush(force=True)
    return folder


def content(page: str) -> dict[str, Any]:
    """What a report's page has packed in it."""
    packed = page.split('id="data">')[1].split("<")[0]
    found: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(packed)))
    return found
