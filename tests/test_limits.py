"""Every number has an upper bound: one mistyped, or a stranger's, is refused in a line before it costs anything."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import league
from league import config
from league.arena import agents
from league.bench import bench_env, bench_learner, bench_ratings
from league.config import updates
from league.config.models import SECTIONS, Config
from league.device import DeviceMemory
from league.errors import ConfigError, LeagueError, SnapshotError, UsageError
from league.maths.sprt import Sprt
from league.pool import roster
from league.pool.roles import ROLES
from league.schema import MAX_COUNT, MAX_GAMES, MAX_HISTORY, MAX_SEED
from league.sessions.failures import Evidence, read_evidence
from league.snapshots import Agent
from league.snapshots.io import MANIFEST
from league.snapshots.manifest import Manifest
from league.store.exchange import import_matches
from league.store.store import Store
from tests.helpers.sizes import TINY

HUGE = 10**26


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, a run `r` and its export `agent`; nobody may change it."""
    folder = tmp_path_factory.mktemp("trained")
    sets = [*TINY, "agent.opponent_encoder=true"]
    league.train("smoke", env="matrix", run="r", store=folder, overrides=sets)
    league.export("r", folder / "agent", store=folder)
    return folder


def refusal(call: Callable[[], object], kind: type[LeagueError] = UsageError) -> str:
    """The one line with which `call` is refused."""
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def unbounded(model: type[BaseModel]) -> list[str]:
    """The fields of a model that take a number and have no upper bound."""

    def is_open(schema: dict[str, Any]) -> bool:
        parts = [*schema.get("anyOf", []), *([schema["items"]] if "items" in schema else [])]
        inside = schema.get("additionalProperties")
        parts += [inside] if isinstance(inside, dict) else []
        is_number = schema.get("type") in ("integer", "number") and not {"enum", "const"} & set(schema)
        return any(map(is_open, parts)) or (is_number and not {"maximum", "exclusiveMaximum"} & set(schema))

    return [name for name, schema in model.model_json_schema()["properties"].items() if is_open(schema)]


def test_every_number_that_is_read_has_an_upper_bound() -> None:
    """In settings, a league's roles, manifests and evidence; games have theirs by the same library."""
    models: list[type[BaseModel]] = [*(model for model in SECTIONS.values() if model), *ROLES.values(), Manifest]
    assert {model.__name__: found for model in models if (found := unbounded(model))} == {
        "EnvConfig": ["options"]  # the game's, which has bounds of its own
    }
    assert unbounded(Evidence) == ["reward_terms"], "a list of what was seen"
    assert "rewards" not in unbounded(Config)


@pytest.mark.parametrize("value", [2**31, 2**63, HUGE, -1, "nan", "inf", "1e308"])
def test_no_setting_takes_whatever_number(value: object) -> None:
    """At an edge each setting is refused by its name, or what is made of it is small."""
    for section, model in SECTIONS.items():
        for key in model.model_fields if model else ():
            try:
                updates.check(config.load("10m", env="matrix", overrides=[f"{section}.{key}={value}"]))
            except ConfigError as error:
                assert key in str(error) or "total_steps" in str(error), error


def test_what_small_numbers_make_together_is_bounded() -> None:
    """Snapshots of a long run are counted without listing them, and minibatches without trying each number."""
    sets = ["pool.snapshot_every=1", "run.total_steps=1_000_000_000_000", "pool.snapshot_every_after=1"]
    assert "more than 10,000 snapshots" in refusal(lambda: updates.check(config.load(overrides=sets)), ConfigError)
    sets = ["learner.minibatches=1_000_000"]
    assert "set learner.minibatches=64" in refusal(lambda: updates.check(config.load(overrides=sets)), ConfigError)


def test_numbers_of_a_call_are_bounded(trained: Path) -> None:
    """What the commands and functions take besides settings; each says its bounds."""
    store = trained
    calls: list[Callable[[], object]] = [
        lambda: league.evaluate("bot:random", "bot:biased", HUGE, env="matrix", store=store),
        lambda: league.evaluate("bot:random", "bot:biased", 2, seed=HUGE, env="matrix", store=store),
        lambda: league.gate("bot:random", "bot:biased", max_games=HUGE, env="matrix", store=store),
        lambda: league.tournament(["bot:random"], bots=True, games=MAX_GAMES + 2, env="matrix", store=store),
        lambda: league.train(against="bot:random", steps=MAX_COUNT + 1, env="matrix", store=store),
        lambda: league.train("smoke", env="matrix", seed=MAX_SEED + 1, store=store, overrides=TINY),
        lambda: league.leaderboard(prior=1e300, store=store),
        lambda: Store.open(store).reward_terms("r", 2**63),
        lambda: Sprt(elo1=1e308),
        lambda: bench_env("matrix", rows=10**12, threads=1, seconds=1.0),
        lambda: bench_env("matrix", rows=1, threads=2**31, seconds=1.0),
        lambda: bench_env("matrix", rows=1, threads=1, seconds=1e300),
        lambda: bench_learner("fast", repeats=HUGE),
        lambda: bench_learner("fast", threads=2**31),
        lambda: bench_ratings(HUGE, 1),
        lambda: bench_ratings(2, HUGE),
        lambda: bench_ratings(2, 2, seed=HUGE),
    ]
    for call in calls:
        refusal(call)


LEAGUES = {
    "roles.main=5\n[learners.main]\nrole='main'\n": "roles.main=5 is not a table",
    "[learners.main]\nrole=['main']\n": "role=['main'] is no role",
    "[learners.main]\nrole='main'\nconfig=[1,2]\n": "config=[1, 2] is not a table",
    "[learners.main]\nrole='main'\nconfig.env=3\n": "env=3 is not a table",
    "[roles.main]\nmin_steps=1000000000000000000\n[learners.main]\nrole='main'\n": "min_steps=",
    "".join(f"[learners.x{i}]\nrole='main'\n" for i in range(100)): "100 learners",
}


@pytest.mark.parametrize("text", LEAGUES, ids=list(LEAGUES.values()))
def test_a_leagues_file_of_any_shape_is_one_line(text: str, tmp_path: Path) -> None:
    """Tables that are none, and numbers without measure."""
    path = tmp_path / "league.toml"
    path.write_text(f"turn_steps=100\n{text}")
    assert LEAGUES[text] in refusal(lambda: roster.load(path), ConfigError)
    path.write_text(f"turn_steps={MAX_COUNT + 1}\n[learners.main]\nrole='main'\n")
    assert "turn_steps" in refusal(lambda: roster.load(path), ConfigError)


def edited(trained: Path, folder: Path, **changes: Any) -> str:
    """A copy of the agent whose manifest says something else."""
    shutil.copytree(trained / "agent", folder, dirs_exist_ok=True)
    path = folder / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return str(folder)


@pytest.mark.parametrize("told", [{}, {"env": 5}, {"pool": 5}, {"run": {"total_steps": HUGE}}])
def test_a_strangers_settings_are_checked_before_they_are_learned_with(
    told: dict[str, Any], trained: Path, tmp_path: Path
) -> None:
    """An exploiter of an agent whose manifest has no settings, or others than can be, ends in one line."""
    whole = json.loads((trained / "agent" / MANIFEST).read_text())["config"]
    wrong = (
        told
        if len(told) == 0
        else {**whole, **{k: {**whole[k], **v} if k == "env" and v != 5 else v for k, v in told.items()}}
    )
    name = edited(trained, tmp_path / "theirs", config=wrong)
    store = tmp_path / "runs"
    assert "its manifest has no settings" in refusal(
        lambda: league.train(against=name, steps=64, store=store), SnapshotError
    )
    assert not store.exists()


def test_a_strangers_memory_is_bounded(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network remembers more than an hour, and those of all matches together have to fit, which is known before."""
    sizes = json.loads((trained / "agent" / MANIFEST).read_text())["architecture"]
    tokens = 1_000_000
    name = edited(trained, tmp_path / "a", history_tokens=tokens, architecture={**sizes, "history_tokens": tokens})
    assert "history_tokens" in refusal(lambda: Agent.load(name), SnapshotError)
    name = edited(
        trained, tmp_path / "b", history_tokens=MAX_HISTORY, architecture={**sizes, "history_tokens": MAX_HISTORY}
    )
    monkeypatch.setattr(agents, "read_memory", lambda device: DeviceMemory(2**20, 2**20))
    store = tmp_path / "runs"
    assert "GiB are free" in refusal(lambda: league.evaluate(name, "bot:random", 64, store=store))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_nothing_waits_for_a_pipe(tmp_path: Path) -> None:
    """Each file that somebody names is opened only if it is a regular one."""
    pipe = tmp_path / "m.jsonl"
    os.mkfifo(pipe)
    for call in (
        lambda: read_evidence(pipe),
        lambda: config.load(config_file=pipe),
        lambda: roster.load(pipe),
        lambda: import_matches(pipe, store=tmp_path / "s"),
    ):
        refusal(call, LeagueError)
