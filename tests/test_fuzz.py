"""Whatever comes in from outside is taken or refused in one line: no traceback, no hang.

Each target is fuzzed by Hypothesis: some dozens of cases always, thousands in the slow part (`CASES`).
"""

import hashlib
import io
import json
import math
import os
import shutil
import signal
import struct
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
import typer
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import league
from league import config
from league.arena import games
from league.boards.alarms import alarms
from league.boards.standings import leaderboard
from league.cli import app, main
from league.config import updates
from league.config.models import SECTIONS
from league.envs import registry
from league.envs.blob import HEADER_SIZE
from league.envs.classic.shared import HEADER
from league.errors import LeagueError, SnapshotError, UsageError, visible
from league.sessions.settling import check_mix, settle
from league.snapshots import Agent
from league.snapshots.files import MANIFEST, WEIGHTS
from league.snapshots.state import load_state, save_state
from league.store.exchange import import_matches
from league.store.formats import COLUMNS, FORMATS
from league.store.store import Store
from league.types import Source
from tests.helpers.games import forget, new_user, times_run, write_game
from tests.helpers.sizes import TINY
from tests.helpers.stores import files_of

CPU_SECONDS = 30
"""Of one case; more is a hang. Not the clock's, which goes on while a machine is busy with something else."""


@dataclass(frozen=True)
class World:
    """What the cases find: a store with a run, an exported agent and the state of a run, in a folder of their own."""

    folder: Path

    @property
    def store(self) -> Path:
        """The match store."""
        return self.folder / "runs"

    @property
    def agent(self) -> Path:
        """The exported agent."""
        return self.folder / "agent"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world, whose folder is the current one."""
    made = World(tmp_path_factory.mktemp("world"))
    league.train("smoke", env="matrix", run="r", store=made.store, overrides=TINY)
    league.arena.agents.export("r", made.agent, store=made.store)
    (made.folder / "good.toml").write_text("[learner]\ngamma = 0.9\n")
    (made.folder / "bad.toml").write_bytes(b"[learner\ngamma\0= \xff")
    (made.folder / "m.jsonl").write_text('{"seat0": "a", "seat1": "b", "winner": 0}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.folder)
        yield made


@contextmanager
def no_hang() -> Iterator[None]:
    """Fails where what is done within takes more than `CPU_SECONDS` of the processor."""

    def end(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"a hang: more than {CPU_SECONDS} s of the processor")

    previous = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)


def one_line(error: BaseException) -> None:
    """The message of a known error is one line, with something to read."""
    assert str(error).strip() and "\n" not in str(error)


# What is strange

WORDS = st.sampled_from(
    [
        *(
            "",
            " ",
            "r",
            "r@64",
            "r@best",
            "r@",
            "@",
            "r@-1",
            "r@" + "9" * 30,
            "bot:random",
            "bot:nobody",
            "bot:",
            "agent",
        ),
        *(
            "./agent",
            "../..",
            "/etc/passwd",
            "/dev/null",
            "runs",
            "runs/league.duckdb",
            "agent/manifest.json",
            "m.jsonl",
        ),
        *(
            "nan",
            "inf",
            "-1",
            "0",
            "1",
            "1e309",
            "9" * 40,
            "0x10",
            "true",
            "off",
            "[]",
            "{}",
            "'",
            '"',
            "--",
            "-",
            "--json",
        ),
        *(
            "a\x1b[31mred",
            "a\u202eb",
            "a\nb",
            "a\tb",
            "\udcff",
            "é" * 200,
            "x" * 5000,
            "'; DROP TABLE match; --",
            "%s%n",
        ),
        *(
            "matrix",
            "brawl",
            "cpu",
            "cuda",
            "sample",
            "greedy",
            "smoke",
            "fast",
            "auto",
            "logistic",
            "good.toml",
            "bad.toml",
        ),
    ]
)
TEXTS = st.one_of(WORDS, st.text(st.characters(exclude_characters="\0"), max_size=12))
JSONS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | TEXTS
    | st.sampled_from([10**4000, -1, 2**63, 2**64, 1e308]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


def spoil(data: Any, draw: st.DataObject, depth: int = 0) -> Any:
    """A copy of a JSON value in which something, anywhere, is gone, added or another thing."""
    if isinstance(data, dict) and data and depth < 6 and draw.draw(st.integers(0, 4)):
        key = draw.draw(st.sampled_from(sorted(data)))
        act = draw.draw(st.integers(0, 9))
        if act == 0:
            return {k: v for k, v in data.items() if k != key}
        if act == 1:
            return {**data, draw.draw(TEXTS): draw.draw(JSONS)}
        return {**data, key: spoil(data[key], draw, depth + 1)}
    if isinstance(data, list) and data and draw.draw(st.booleans()):
        place = draw.draw(st.integers(0, len(data) - 1))
        return [*data[:place], spoil(data[place], draw, depth + 1), *data[place + draw.draw(st.integers(0, 1)) :]]
    if isinstance(data, int) and not isinstance(data, bool) and draw.draw(st.booleans()):
        real = float(data) if abs(data) < 2**1023 else math.inf
        return draw.draw(st.sampled_from([data + 1, data - 1, -data, 2 * data, 0, 2**31, 2**63, 10**30, real, True]))
    return draw.draw(JSONS)


def damage(data: bytes, draw: st.DataObject) -> bytes:
    """Bytes flipped, cut out, doubled or put in."""
    for _ in range(draw.draw(st.integers(1, 4))):
        place = draw.draw(st.integers(0, len(data)))
        act = draw.draw(st.integers(0, 4))
        if act <= 1 and place < len(data):
            data = data[:place] + bytes([data[place] ^ draw.draw(st.integers(1, 255))]) + data[place + 1 :]
        elif act == 2:
            data = data[:place] + data[place + draw.draw(st.integers(1, 64)) :]
        elif act == 3:
            data = data[:place] + draw.draw(st.binary(max_size=16)) + data[place:]
        else:
            data = data[:place]
    return data


# Targets: each makes one case of what is drawn, and raises what must not be


def config_file(world: World, draw: st.DataObject) -> None:
    """A TOML file for --config: known and unknown sections and keys, TOML literals whole and broken, any bytes."""
    literals = st.one_of(
        JSONS.map(lambda value: json.dumps(value)),
        TEXTS,
        st.sampled_from(["1979-05-27", "07:32:00", "1_000", "0b1", "{a=1}", "[1,[2]]", "'''\n'''", "[" * 3000, "+inf"]),
    )
    sections = st.sampled_from([*SECTIONS, "game", "preset.fast", "stage", "pool.mix", "pool.groups", "", "[env"])
    fields = [key for model in SECTIONS.values() if model for key in model.model_fields]
    keys = st.one_of(st.sampled_from([*fields, "ticks_per_step", "rounds", "payoff", "win"]), TEXTS)
    lines = []
    for _ in range(draw.draw(st.integers(1, 3))):
        lines.append(f"[{draw.draw(sections)}]")
        for _ in range(draw.draw(st.integers(0, 3))):
            lines.append(f"{draw.draw(keys)} = {draw.draw(literals)}")
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    if not draw.draw(st.integers(0, 4)):
        data = damage(data, draw)
    path = world.folder / "drawn.toml"
    path.write_bytes(data)
    resolve("smoke", "fast", draw.draw(st.sampled_from([None, "matrix", "brawl"])), path, ())


def overrides(world: World, draw: st.DataObject) -> None:
    """Values of --set: known keys and others, any literal."""
    names = [f"{name}.{key}" for name, model in SECTIONS.items() if model for key in model.model_fields]
    names += [
        "env.rounds",
        "env.payoff",
        "env.bot_mix",
        "env.stocks",
        "rewards.win",
        "pool.mix.self_play",
        "pool.groups.g",
    ]
    values = st.one_of(TEXTS, JSONS.map(lambda value: json.dumps(value)))
    pairs = st.builds(
        lambda a, b, c: f"{a}{b}{c}", st.sampled_from(names) | TEXTS, st.sampled_from(["=", "=", "=", ""]), values
    )
    sets = draw.draw(st.lists(pairs, min_size=1, max_size=3))
    stage, preset = (
        draw.draw(st.sampled_from(["smoke", "test50k", "10m"])),
        draw.draw(st.sampled_from(["fast", "heavy"])),
    )
    resolve(stage, preset, draw.draw(st.sampled_from([None, "matrix"])), None, sets)


def resolve(stage: str, preset: str, env: str | None, file: Path | None, sets: tuple[str, ...] | list[str]) -> None:
    """All that `league train` checks of settings before it measures the memory."""
    found, spec, _, _ = settle(stage, preset, env, file, sets)
    updates.check(found)
    updates.check_rewards(found, spec)
    check_mix(found, spec)
    assert config.from_json(json.loads(json.dumps(config.to_json(found)))) == found


def manifest(world: World, draw: st.DataObject) -> None:
    """An agent's manifest with fields changed, or bytes."""
    folder = world.folder / "stranger"
    shutil.copytree(world.agent, folder, dirs_exist_ok=True)
    data = json.loads((world.agent / MANIFEST).read_text())
    for _ in range(draw.draw(st.integers(1, 2))):
        data = spoil(data, draw)
    text = json.dumps(data).encode()
    if not draw.draw(st.integers(0, 4)):
        text = damage(text, draw)
    (folder / MANIFEST).write_bytes(text)
    play(folder)


def weights(world: World, draw: st.DataObject) -> None:
    """An agent's weights file with bytes, header or values changed, whose hash the manifest tells."""
    folder = world.folder / "stranger"
    shutil.copytree(world.agent, folder, dirs_exist_ok=True)
    data = (world.agent / WEIGHTS).read_bytes()
    act = draw.draw(st.integers(0, 2))
    if act == 0:
        data = damage(data, draw)
    elif act == 1:
        size = int.from_bytes(data[:8], "little")
        header = json.dumps(spoil(json.loads(data[8 : 8 + size]), draw)).encode()
        data = (
            draw.draw(st.sampled_from([len(header)] * 9 + [2**63, 0, 2**24])).to_bytes(8, "little")
            + header
            + data[8 + size :]
        )
    else:
        tensors = safetensors.torch.load(data)
        name = draw.draw(st.sampled_from(sorted(tensors)))
        value = draw.draw(st.sampled_from([float("nan"), float("-inf"), 3e38, -3e38, 1e-45, 1e20]))
        tensors[name] = torch.full_like(tensors[name], value)
        data = safetensors.torch.save(tensors)
    (folder / WEIGHTS).write_bytes(data)
    told = json.loads((world.agent / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**told, "agent_id": hashlib.sha256(data).hexdigest()}))
    play(folder)


def play(folder: Path) -> None:
    """Opens the agent and plays three decisions."""
    agent = Agent.load(folder)
    agent.reset(seed=0)
    for _ in range(3):
        action = agent.act(np.zeros(agent.policy.architecture.obs_size, np.float32))
        assert (action >= 0).all() and (action < agent.policy.architecture.action.choices).all()


def game_state(world: World, draw: st.DataObject) -> None:
    """A game's state blob, damaged, with its checksum mended or not; what is taken plays on."""
    name = draw.draw(st.sampled_from(["matrix", "brawl"]))
    batch = registry.make(name, rows=2, threads=1, options={})
    batch.reset(draw.draw(st.integers(0, 9)))
    for _ in range(draw.draw(st.integers(0, 3))):
        batch.step()
    whole = batch.get_state()
    blob = bytearray(damage(whole, draw))
    size, place = (HEADER_SIZE, HEADER_SIZE - 4) if name == "brawl" else (HEADER.size, HEADER.size - 4)
    if draw.draw(st.booleans()) and len(blob) >= size:
        blob[:place] = whole[:place]
        struct.pack_into("<I", blob, place, zlib.crc32(bytes(blob[size:])))
    try:
        batch.set_state(bytes(blob))
    except ValueError as error:  # what the batch's contract names
        one_line(error)
        assert batch.get_state() == whole
        raise UsageError("refused") from None
    for _ in range(3):
        batch.step()
    assert np.isfinite(batch.obs).all() and np.isfinite(batch.reward_terms).all()


def run_state(world: World, draw: st.DataObject) -> None:
    """A run's saved state: the index and the data file, damaged, their hashes mended or not."""
    folder = world.folder / "state"
    shutil.rmtree(folder, ignore_errors=True)
    save_state(folder, {"counters": {"update": 3}, "a": [torch.ones(2), np.arange(3), b"bytes", {"x": None, "y": 1.5}]})
    index = folder / "state.json"
    head = json.loads(index.read_text())
    file = folder / head["data"]
    act = draw.draw(st.integers(0, 3))
    if act == 0:
        index.write_bytes(damage(index.read_bytes(), draw))
    elif act == 1:
        file.write_bytes(damage(file.read_bytes(), draw))
        head["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
        index.write_text(json.dumps(head))
    elif act == 2:
        index.write_text(json.dumps(spoil(head, draw)))
    else:
        head["tree"] = json.dumps(spoil(json.loads(head["tree"]), draw))
        head["tree_sha256"] = hashlib.sha256(head["tree"].encode()).hexdigest()
        index.write_text(json.dumps(head))
    assert isinstance(load_state(folder), dict)


def store_files(world: World, draw: st.DataObject) -> None:
    """A run's folder in a store: one of its JSON files or segments, damaged or with other values."""
    folder = world.folder / "drawn"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world.store / "r", folder / "r", ignore=shutil.ignore_patterns("snapshots", "state"))
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".json", ".parquet"))
    file = draw.draw(st.sampled_from(found))
    if file.suffix == ".json" and draw.draw(st.booleans()):
        file.write_text(json.dumps(spoil(json.loads(file.read_text()), draw)))
    else:
        file.write_bytes(damage(file.read_bytes(), draw))
    said: list[str] = []
    try:
        opened = Store.open(folder, said.append)
        assert opened.runs() or said, "what is left out is told"
        leaderboard(opened)
        alarms(opened)
        opened.query("SELECT * FROM metric, run")
    except LeagueError as error:
        raise AssertionError(f"one folder keeps the whole store from being read: {error}") from None
    finally:
        assert not [line for line in said if "\n" in line or not visible(line).encode()]


def import_file(world: World, draw: st.DataObject) -> None:
    """A file of matches taken into the store: rows of columns and values, whole and broken, in each format."""
    suffix = draw.draw(st.sampled_from(list(FORMATS)))
    good = {"seat0": "a", "seat1": "b", "winner": 0, "seed": 1, "end_reason": "x", "steps": 1, "ticks": 1}
    good |= {"game_id": "g", "sampling": "sample", "kind": "evaluation", "played_at": "2026-01-01T00:00:00+00:00"}
    values = st.one_of(TEXTS, st.integers(), st.none(), st.sampled_from(["draw", "1-0", "*", "0001-01-01T00:00+23:59"]))
    rows = []
    for _ in range(draw.draw(st.integers(1, 4))):
        row: dict[str, Any] = dict(good)
        for _ in range(draw.draw(st.integers(0, 2))):
            row[draw.draw(st.sampled_from(COLUMNS))] = draw.draw(values)
        rows.append({key: row[key] for key in COLUMNS if key in row})
    try:
        data = "".join(FORMATS[suffix].write(rows)).encode("utf-8", "surrogatepass")
    except (AttributeError, KeyError, TypeError):  # no such value can be written as PGN
        data = json.dumps(rows[0]).encode()
    if draw.draw(st.booleans()):
        data = damage(data, draw)
    path = world.folder / f"drawn{suffix}"
    path.write_bytes(data)
    done = import_matches(path, game_id=draw.draw(st.sampled_from([None, "g"])), store=world.folder / "imports")
    assert done.imported >= 1


def statement(world: World, draw: st.DataObject) -> None:
    """SQL for `league query`: its words in any order, and text."""
    words = st.sampled_from(
        [
            *(
                "SELECT",
                "*",
                "FROM",
                "WHERE",
                "(",
                ")",
                ",",
                ";",
                "=",
                "'",
                '"',
                "--",
                "/*",
                "*/",
                "$1",
                "?",
                "NULL",
                "1",
            ),
            *("9" * 19, "[", "]", "{", "}", "::", ".", "%", "run", "match", "UPDATE EXTENSIONS", "interval 1 year"),
            *(
                "GROUP BY",
                "ORDER BY",
                "LIMIT",
                "UNION ALL",
                "WITH x AS (",
                "EXPLAIN",
                "COPY",
                "SET",
                "ATTACH",
                "count(*)",
            ),
            *(
                "metrics",
                "read_text('/etc/passwd')",
                "range(10)",
                "CASE WHEN",
                "'a'",
                "INSERT INTO run",
                "UPDATE",
                "VALUES (1)",
            ),
        ]
    )
    text = draw.draw(st.one_of(st.lists(words, max_size=12).map(" ".join), TEXTS))
    before = files_of(world.store)
    try:
        columns, rows = Store.open(world.store).query(text, seconds=5)
        assert all(len(row) == len(columns) for row in rows)
    finally:
        assert files_of(world.store) == before


def commands() -> dict[str, Any]:
    """Every command by its words, such as `bench env`; but `serve`, which goes on until a signal ends it."""

    def walk(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, sub in getattr(command, "commands", {}).items():
            yield from walk(sub, f"{words} {name}".strip())
        if not hasattr(command, "commands"):
            yield words, command

    return {words: x for words, x in walk(typer.main.get_command(app), "") if words != "serve"}


SHORT = {
    "seconds": ["-1", "0", "nan", "inf", "x", "0.02"],
    "rows": ["-1", "0", "x", "2"],
    "repeats": ["-1", "0", "x"],
    "agents": ["-1", "0", "1", "3"],
    "matches": ["-1", "0", "x", "20"],
    "games": ["-2", "0", "1", "x", "2"],
    "max_games": ["-2", "0", "1", "x", "4"],
    "threads": ["-1", "0", "x", "1"],
    "out": ["new.gif", "new.png", "new", "agent", ".", "no/where.gif"],
    "png": ["new.png", "agent", "no/where.png"],
    "store": ["runs"] * 8 + ["no", ".", "runs/r", "/dev/null", "agent/manifest.json", "a\udcff"],
}
"""Values of parameters that decide how long a command takes, or where it writes: no others are drawn."""


def command_line(world: World, draw: st.DataObject) -> None:
    """Any command with any of its options, each with a value that may fit, and words that do not belong."""
    words, command = draw.draw(st.sampled_from(sorted(commands().items(), key=lambda item: item[0])))
    arguments: list[str] = []
    for parameter in command.params:
        values = st.sampled_from(SHORT[parameter.name]) if parameter.name in SHORT else TEXTS
        is_needed = parameter.name in SHORT or parameter.param_type_name == "argument"
        if not is_needed and draw.draw(st.integers(0, 3)):
            continue
        if parameter.param_type_name == "argument":
            arguments.append(draw.draw(values))
        elif getattr(parameter, "is_flag", False):
            arguments.append(parameter.opts[0])
        else:
            arguments += [parameter.opts[0], draw.draw(values)]
    if "train" in words or "resume" in words:
        arguments += [word for pair in TINY for word in ("--set", pair)]
    if words == "bench learner":
        arguments += [word for pair in TINY[5:] for word in ("--set", pair)]
    if not draw.draw(st.integers(0, 9)):
        arguments.insert(draw.draw(st.integers(0, len(arguments))), draw.draw(TEXTS))
    for left in ("new", "new.gif", "new.png"):
        shutil.rmtree(left) if os.path.isdir(left) else Path(left).unlink(missing_ok=True)
    code, out, err = call([*words.split(), *arguments])
    assert code in ((0, 1, 2, 3, 4) if words == "gate" else (0, 1, 2)), (code, err)
    assert not {"\x1b", "\u202e"} & set(out + err)
    if words == "doctor" and code == 1:
        assert "broken" in out, "its table says it"
    elif code in (1, 2):
        said = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(said) == 1 or "Usage: " in err, err
        raise UsageError("refused")
    if code == 0 and "--json" in arguments:
        json.loads(out)


def call(arguments: list[str]) -> tuple[int, str, str]:
    """Runs `league ARGUMENTS` in this process: exit code, stdout, stderr. What `main` lets through is raised."""
    code, out, err = 0, io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        patch.setattr(sys, "argv", ["league", *arguments])
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


EDGES = st.sampled_from(
    [
        *("0", "-1", "1", "2", "3", str(2**31), str(2**63 - 1), str(2**63), str(10**18), str(10**26), "-" + "9" * 30),
        *("nan", "-nan", "inf", "-inf", "1e308", "1e-320", "-0.0", "0.5", "1_000", "0x10", "", " ", "\u0661"),
        *(
            "9" * 5_000,
            "x" * 100_000,
            "\x01",
            "a\x00b",
            "\ud800",
            "\U0001f4a5",
            "$(touch x)",
            "bot:random",
            "r",
            "agent",
        ),
    ]
)
"""Numbers and words at the edges of what an option takes."""
COSTLY = {"games", "max_games", "steps", "seconds", "rows", "matches", "agents", "repeats", "threads"}
"""Options whose greater legal values take long by their meaning: of those, an edge is taken only if it is refused."""


def option_edges(world: World, draw: st.DataObject) -> None:
    """A command as it would be called, with one or two of its options at an edge."""
    words, command = draw.draw(st.sampled_from(sorted(commands().items(), key=lambda item: item[0])))
    arguments: list[str] = []
    fitting = {"agent": "r", "a": "r", "b": "bot:random", "agents": "bot:random", "file": "m.jsonl", "sql": "SELECT 1"}
    given = {"against": "bot:biased", "run": "r", "env": "matrix", "out": "new.png", "games": "2", "max_games": "4"}
    given |= {
        "seconds": "0.02",
        "rows": "2",
        "matches": "20",
        "agents": "3",
        "repeats": "1",
        "threads": "1",
        "steps": "64",
    }
    options = [p for p in command.params if p.param_type_name == "option" and p.name not in ("store", "help")]
    valued = [p for p in options if not getattr(p, "is_flag", False)]
    chosen = draw.draw(st.lists(st.sampled_from(valued), min_size=1, max_size=2, unique=True)) if valued else []
    for parameter in command.params:
        name = parameter.name
        if parameter.param_type_name == "argument":
            arguments.append(draw.draw(EDGES) if not draw.draw(st.integers(0, 4)) else fitting.get(name, "r"))
        elif parameter in chosen:
            value = draw.draw(EDGES)
            if name in COSTLY and value in ("2", "3", "0.5", "1_000", str(2**31)) and words != "evaluate":
                value = given.get(name, value)
            pair = [value] * (2 if name == "between" else 1)
            key = draw.draw(st.sampled_from(SETTINGS)) if name == "overrides" else ""
            arguments += [parameter.opts[0], *([f"{key}={value}"] if key else pair)]
        elif name in given and (parameter.required or name in COSTLY) and (words, name) != ("tournament", "max_games"):
            arguments += [parameter.opts[0], given[name]]
    if words in ("train", "resume", "exploit", "bench learner"):
        fixed = TINY if words in ("train", "resume") else TINY[5:] if words == "bench learner" else TINY[:4]
        arguments = [*(word for pair in fixed for word in ("--set", pair)), *arguments]
    Path("new.png").unlink(missing_ok=True)
    code, _, err = call([*words.split(), *arguments])
    assert code in ((0, 1, 2, 3, 4) if words == "gate" else (0, 1, 2)), (code, err)
    if code in (1, 2):
        said = [line for line in err.splitlines() if line.startswith("error: ")]
        assert len(said) == 1 or "Usage: " in err, err
        raise UsageError("refused")


PIECES = [
    *("game.py", "./game.py", "agent/../game.py", "game.py:Duel", "game", "kuhn", "matrix", "r", "agent", "runs/x.py"),
    *(
        "openspiel",
        "pettingzoo",
        "gymnasium",
        "league.envs.classic.matrix",
        "league",
        "json.tool",
        "no.such",
        "../",
        "~",
    ),
    *(":", "::", ".", ".py", "/", "\\", "\0", " ", "%", "-", "spec", "Options", "make", "__file__", "é", "\ud800"),
]


def address(world: World, draw: st.DataObject) -> None:
    """What `--env` takes, and what a store or manifest says of a game: taken or refused, and nothing strange runs.

    The file in the folder is a game, whose code leaves a trace: it may run where it was typed, else never.
    """
    with new_user(world.folder) as named:
        named.unlink(missing_ok=True)
        write_game(world.folder / "game.py")
        (world.folder / "runs.txt").unlink(missing_ok=True)
        text = draw.draw(st.one_of(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map("".join), TEXTS))
        if draw.draw(st.booleans()):
            name = games.enter(text)
            assert name is not None and registry.make(name, rows=2, threads=1, options={}).num_rows == 2
        else:
            mark = draw.draw(st.sampled_from(["", "ab" * 32, hashlib.sha256(Path("game.py").read_bytes()).hexdigest()]))
            name = draw.draw(st.sampled_from(["duel", "kuhn", "nobody", text]))
            try:
                games.find_again(name, Source(text, "", mark), "run r")
            finally:
                assert times_run(world.folder) == 0


def defaults(world: World, draw: st.DataObject) -> None:
    """A game's `DEFAULTS`: any values in known and unknown sections and keys."""
    sections = st.sampled_from([*SECTIONS, "game", ""])
    fields = [key for model in SECTIONS.values() if model for key in model.model_fields]
    keys = st.one_of(st.sampled_from([*fields, "rounds", "payoff", "win", "self_play"]), TEXTS)
    tables = st.dictionaries(keys, JSONS | st.sampled_from([(1,), {1}, b"x", np.int64(3), float("nan")]), max_size=3)
    brought: Any = draw.draw(st.dictionaries(sections | TEXTS, tables | JSONS, max_size=3) | JSONS)
    with new_user(world.folder):
        write_game(world.folder / "game.py", "DEFAULTS = {}\n")
        found = games.enter("game.py")
        assert found == "duel"
        game = registry._games["duel"]
        forget()
        game.DEFAULTS = brought  # type: ignore[union-attr]
        name = games.enter(game)
        resolve("smoke", "fast", name, None, ())


SETTINGS = [f"{name}.{key}" for name, model in SECTIONS.items() if model for key in model.model_fields]

TARGETS: dict[str, tuple[Callable[[World, st.DataObject], None], int, int]] = {
    "config file": (config_file, 40, 2_000),
    "--set": (overrides, 40, 2_000),
    "manifest": (manifest, 40, 1_500),
    "weights": (weights, 30, 1_000),
    "game state": (game_state, 60, 1_500),
    "run state": (run_state, 40, 1_000),
    "store": (store_files, 40, 2_000),
    "import file": (import_file, 25, 700),
    "query": (statement, 25, 700),
    "command line": (command_line, 30, 1_000),
    "option edges": (option_edges, 30, 2_000),
    "address": (address, 40, 2_000),
    "defaults": (defaults, 20, 1_000),
}
"""Name -> target, cases always, cases in the slow part: together 490 and 18,400."""


def fuzz(target: Callable[[World, st.DataObject], None], world: World, cases: int) -> tuple[int, int]:
    """Plays that many cases of a target; how many it took and how many it refused."""
    counts = [0, 0]

    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.data())
    def check(draw: st.DataObject) -> None:
        with no_hang():
            try:
                target(world, draw)
            except LeagueError as error:
                one_line(error)
                assert visible(str(error)).encode()
                counts[1] += 1
            else:
                counts[0] += 1

    check()
    return counts[0], counts[1]


@pytest.mark.parametrize("name", TARGETS)
def test_whatever_comes_in_is_taken_or_refused(name: str, world: World) -> None:
    """Some dozens of cases of each target end in success or in one line of ours."""
    target, cases, _ = TARGETS[name]
    assert sum(fuzz(target, world, cases)) >= cases


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", TARGETS)
def test_thousands_of_cases(name: str, world: World) -> None:
    """The same at length; the targets together have more than ten thousand cases."""
    target, _, cases = TARGETS[name]
    assert sum(cases for _, _, cases in TARGETS.values()) >= 10_000
    taken, refused = fuzz(target, world, cases)
    print(f"{name}: {taken:,} taken, {refused:,} refused")
    assert taken + refused >= cases


def test_a_traceback_and_a_hang_are_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself fails where a target raises anything but ours, prints two lines, or does not end."""

    def broken(world: World, draw: st.DataObject) -> None:
        raise KeyError("x")

    def two_lines(world: World, draw: st.DataObject) -> None:
        raise UsageError("a\nb")

    def endless(world: World, draw: st.DataObject) -> None:
        while True:
            pass

    def refusing(world: World, draw: st.DataObject) -> None:
        raise SnapshotError("no")

    assert fuzz(refusing, world, 1) == (0, 1)
    with pytest.raises(KeyError):
        fuzz(broken, world, 1)
    with pytest.raises(AssertionError):
        fuzz(two_lines, world, 1)
    monkeypatch.setitem(globals(), "CPU_SECONDS", 1)
    with pytest.raises(AssertionError, match="hang"):
        fuzz(endless, world, 1)
