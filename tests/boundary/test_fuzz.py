"""What comes in from outside is taken or refused in one line: no traceback, no hang.

Each target is fuzzed by Hypothesis: some dozens of cases always, thousands in the slow part (`TARGETS`).
"""

import hashlib
import io
import json
import math
import os
import shutil
import signal
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from league import config
from league.arena import games
from league.boards.alarms import alarms
from league.boards.standings import leaderboard
from league.config import updates
from league.config.models import SECTIONS
from league.envs import registry
from league.envs.blob import HEADER
from league.errors import LeagueError, SnapshotError, UsageError, visible
from league.sessions.settling import check_mix, settle
from league.snapshots import Agent
from league.snapshots.files import MANIFEST, WEIGHTS
from league.snapshots.state import load_state, save_state
from league.store.exchange import import_matches
from league.store.formats import FORMATS
from league.store.store import Store
from league.types import Source
from tests.helpers.commands import call, commands
from tests.helpers.games import forget, new_user, times_run, write_game
from tests.helpers.sizes import TINY
from tests.helpers.stores import files_of

CPU_SECONDS = 30
"""Of one case; more is a hang. Not the clock's, which goes on while a machine is busy with something else."""


@pytest.fixture(scope="module")
def world(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working folder: the store `runs`, the exported agent `agent` and some files."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("world") / "here")
    (folder / "good.toml").write_text("[learner]\ngamma = 0.9\n")
    (folder / "bad.toml").write_bytes(b"[learner\ngamma\0= \xff")
    (folder / "m.jsonl").write_text('{"seat0": "a", "seat1": "b", "winner": 0}\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield folder


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


# What is strange

NAMES = """r r@64 r@best r@ @ r@-1 bot:random bot:nobody bot: agent ./agent ../.. /etc/passwd /dev/null runs
    runs/league.duckdb agent/manifest.json m.jsonl good.toml bad.toml matrix brawl cpu cuda sample greedy smoke fast
    auto logistic nan inf -1 0 1 1e309 0x10 true off [] {} ' " -- - --json %s%n"""
ODD = ["", " ", "r@" + "9" * 30, "9" * 40, "a\x1b[31mred", "a\u202eb", "a\nb", "a\tb", "\udcff", "é" * 200, "x" * 5000]
WORDS = st.sampled_from([*NAMES.split(), *ODD, "'; DROP TABLE match; --"])
TEXTS = st.one_of(WORDS, st.text(st.characters(exclude_characters="\0"), max_size=12))
JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
    | st.sampled_from([10**4000, -1, 2**63, 2**64, 1e308]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
LIMITS = "0 -1 1 2 3 nan -nan inf -inf 1e308 1e-320 -0.0 0.5 1_000 0x10 $(touch) bot:random r agent"
EDGES = [*LIMITS.split(), *map(str, (2**31, 2**63 - 1, 2**63, 10**18, 10**26)), "-" + "9" * 30, "", " ", "\u0661"]
EDGES += ["9" * 5_000, "x" * 100_000, "\x01", "a\x00b", "\ud800", "\U0001f4a5"]
"""Numbers and words at the edges of what an option takes."""
FIELDS = [(name, key) for name, model in SECTIONS.items() if model for key in model.model_fields]
SETTINGS = [f"{name}.{key}" for name, key in FIELDS]


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


def config_file(world: Path, draw: st.DataObject) -> None:
    """A TOML file for --config: known and unknown sections and keys, TOML literals whole and broken, any bytes."""
    odd = ["1979-05-27", "07:32:00", "1_000", "0b1", "{a=1}", "[1,[2]]", "'''\n'''", "[" * 3000, "+inf"]
    literals = st.one_of(JSONS.map(json.dumps), TEXTS, st.sampled_from(odd))
    sections = st.sampled_from([*SECTIONS, "game", "preset.fast", "stage", "pool.mix", "pool.groups", "", "[env"])
    keys = st.sampled_from([*(key for _, key in FIELDS), "ticks_per_step", "rounds", "payoff", "win"]) | TEXTS
    lines = []
    for _ in range(draw.draw(st.integers(1, 3))):
        lines.append(f"[{draw.draw(sections)}]")
        lines += [f"{draw.draw(keys)} = {draw.draw(literals)}" for _ in range(draw.draw(st.integers(0, 3)))]
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    path = world / "drawn.toml"
    path.write_bytes(data if draw.draw(st.integers(0, 4)) else damage(data, draw))
    resolve("smoke", "fast", draw.draw(st.sampled_from([None, "matrix", "brawl"])), path, ())


def overrides(world: Path, draw: st.DataObject) -> None:
    """Values of --set: known keys and others, any literal."""
    more = "env.rounds env.payoff env.bot_mix env.stocks rewards.win pool.mix.self_play pool.groups.g"
    names = st.sampled_from([*SETTINGS, *more.split()]) | TEXTS
    values = st.one_of(TEXTS, JSONS.map(json.dumps))
    pairs = st.builds(lambda a, b, c: f"{a}{b}{c}", names, st.sampled_from(["=", "=", "=", ""]), values)
    sets = draw.draw(st.lists(pairs, min_size=1, max_size=3))
    stage = draw.draw(st.sampled_from(["smoke", "test50k", "10m"]))
    preset = draw.draw(st.sampled_from(["fast", "heavy"]))
    resolve(stage, preset, draw.draw(st.sampled_from([None, "matrix"])), None, sets)


def resolve(stage: str, preset: str, env: str | None, file: Path | None, sets: tuple[str, ...] | list[str]) -> None:
    """All that `league train` checks of settings before it measures the memory."""
    found, spec, _, _ = settle(stage, preset, env, file, sets)
    updates.check(found)
    updates.check_rewards(found, spec)
    check_mix(found, spec)
    assert config.from_json(json.loads(json.dumps(config.to_json(found)))) == found


def manifest(world: Path, draw: st.DataObject) -> None:
    """An agent's manifest with fields changed, or bytes."""
    folder = shutil.copytree(world / "agent", world / "stranger", dirs_exist_ok=True)
    data = json.loads((world / "agent" / MANIFEST).read_text())
    for _ in range(draw.draw(st.integers(1, 2))):
        data = spoil(data, draw)
    text = json.dumps(data).encode()
    (folder / MANIFEST).write_bytes(text if draw.draw(st.integers(0, 4)) else damage(text, draw))
    play(folder)


def weights(world: Path, draw: st.DataObject) -> None:
    """An agent's weights file with bytes, header or values changed, whose hash the manifest tells."""
    folder = shutil.copytree(world / "agent", world / "stranger", dirs_exist_ok=True)
    data = (world / "agent" / WEIGHTS).read_bytes()
    act = draw.draw(st.integers(0, 2))
    if act == 0:
        data = damage(data, draw)
    elif act == 1:
        size = int.from_bytes(data[:8], "little")
        header = json.dumps(spoil(json.loads(data[8 : 8 + size]), draw)).encode()
        told = draw.draw(st.sampled_from([len(header)] * 9 + [2**63, 0, 2**24]))
        data = told.to_bytes(8, "little") + header + data[8 + size :]
    else:
        tensors = safetensors.torch.load(data)
        name = draw.draw(st.sampled_from(sorted(tensors)))
        value = draw.draw(st.sampled_from([math.nan, -math.inf, 3e38, -3e38, 1e-45, 1e20]))
        tensors[name] = torch.full_like(tensors[name], value)
        data = safetensors.torch.save(tensors)
    (folder / WEIGHTS).write_bytes(data)
    told = json.loads((world / "agent" / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({**told, "agent_id": hashlib.sha256(data).hexdigest()}))
    play(folder)


def play(folder: Path) -> None:
    """Opens the agent and plays three decisions."""
    agent = Agent.load(folder)
    agent.reset(seed=0)
    for _ in range(3):
        action = agent.act(np.zeros(agent.policy.architecture.obs_size, np.float32))
        assert (action >= 0).all() and (action < agent.policy.architecture.action.choices).all()


def game_state(world: Path, draw: st.DataObject) -> None:
    """A game's state blob, damaged, with its checksum mended or not; what is taken plays on."""
    name = draw.draw(st.sampled_from(["matrix", "brawl"]))
    batch = registry.make(name, rows=2, threads=1, options={})
    batch.reset(draw.draw(st.integers(0, 9)))
    for _ in range(draw.draw(st.integers(0, 3))):
        batch.step()
    whole = batch.get_state()
    blob = bytearray(damage(whole, draw))
    size = HEADER.size
    if draw.draw(st.booleans()) and len(blob) >= size:
        blob[: size - 4] = whole[: size - 4]
        struct.pack_into("<I", blob, size - 4, zlib.crc32(bytes(blob[size:])))
    try:
        batch.set_state(bytes(blob))
    except ValueError as error:  # what the batch's contract names
        assert batch.get_state() == whole
        raise UsageError(str(error)) from None
    for _ in range(3):
        batch.step()
    assert np.isfinite(batch.obs).all() and np.isfinite(batch.reward_terms).all()


def run_state(world: Path, draw: st.DataObject) -> None:
    """A run's saved state: the index and the data file, damaged, their hashes mended or not."""
    folder = world / "state"
    shutil.rmtree(folder, ignore_errors=True)
    save_state(folder, {"counters": {"update": 3}, "a": [torch.ones(2), np.arange(3), b"bytes", {"x": None, "y": 1.5}]})
    index = folder / "state.json"
    head = json.loads(index.read_text())
    file = folder / head["data"]
    act = draw.draw(st.integers(0, 3))
    if act == 1:
        file.write_bytes(damage(file.read_bytes(), draw))
        head["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    elif act == 2:
        head = spoil(head, draw)
    elif act == 3:
        head["tree"] = json.dumps(spoil(json.loads(head["tree"]), draw))
        head["tree_sha256"] = hashlib.sha256(head["tree"].encode()).hexdigest()
    index.write_bytes(json.dumps(head).encode() if act else damage(index.read_bytes(), draw))
    assert isinstance(load_state(folder), dict)


def store_files(world: Path, draw: st.DataObject) -> None:
    """A run's folder in a store: one of its JSON files or segments, damaged or with other values."""
    folder = world / "drawn"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(world / "runs" / "r", folder / "r", ignore=shutil.ignore_patterns("snapshots", "state"))
    file = draw.draw(st.sampled_from(sorted(x for x in folder.rglob("*") if x.suffix in (".json", ".parquet"))))
    if file.suffix == ".json" and draw.draw(st.booleans()):
        file.write_text(json.dumps(spoil(json.loads(file.read_text()), draw)))
    else:
        file.write_bytes(damage(file.read_bytes(), draw))
    told: list[str] = []
    try:
        opened = Store.open(folder, told.append)
        assert opened.runs() or told, "what is left out is told"
        leaderboard(opened)
        alarms(opened)
        opened.query("SELECT * FROM metric, run")
    except LeagueError as error:
        raise AssertionError(f"one folder keeps the whole store from being read: {error}") from None
    finally:
        assert not [line for line in told if "\n" in line or not visible(line).encode()]


def import_file(world: Path, draw: st.DataObject) -> None:
    """A file of matches taken into the store: rows of columns and values, whole and broken, in each format."""
    suffix = draw.draw(st.sampled_from(list(FORMATS)))
    good = {"seat0": "a", "seat1": "b", "winner": 0, "seed": 1, "end_reason": "x", "steps": 1, "ticks": 1}
    good |= {"game_id": "g", "sampling": "sample", "kind": "evaluation", "played_at": "2026-01-01T00:00:00+00:00"}
    values = st.one_of(TEXTS, st.integers(), st.none(), st.sampled_from(["draw", "1-0", "*", "0001-01-01T00:00+23:59"]))
    rows = []
    for _ in range(draw.draw(st.integers(1, 4))):
        changes = draw.draw(st.dictionaries(st.sampled_from(sorted(good)), values, max_size=2))
        rows.append(good | changes)
    try:
        FORMATS[suffix].write(rows, text := io.StringIO(newline=""))
        data = text.getvalue().encode("utf-8", "surrogatepass")
    except (AttributeError, KeyError, TypeError):  # no such value can be written as PGN
        data = json.dumps(rows[0]).encode()
    path = world / f"drawn{suffix}"
    path.write_bytes(damage(data, draw) if draw.draw(st.booleans()) else data)
    done = import_matches(path, game_id=draw.draw(st.sampled_from([None, "g"])), store=world / "imports")
    assert done.imported >= 1


SQL = """SELECT * FROM WHERE ( ) , ; = ' " -- /* */ $1 ? NULL 1 [ ] { } :: . % run match LIMIT EXPLAIN COPY SET ATTACH
    count(*) metrics read_text('/etc/passwd') range(10) 'a' UPDATE"""
PHRASES = ["UPDATE EXTENSIONS", "interval 1 year", "GROUP BY", "ORDER BY", "UNION ALL", "WITH x AS (", "CASE WHEN"]


def statement(world: Path, draw: st.DataObject) -> None:
    """SQL for `league query`: its words in any order, and text."""
    words = st.sampled_from([*SQL.split(), *PHRASES, "INSERT INTO run", "VALUES (1)", "9" * 19])
    text = draw.draw(st.one_of(st.lists(words, max_size=12).map(" ".join), TEXTS))
    before = files_of(world / "runs")
    try:
        columns, rows = Store.open(world / "runs").query(text, seconds=5)
        assert all(len(row) == len(columns) for row in rows)
    finally:
        assert files_of(world / "runs") == before


PLACES = {
    "out": ["new.gif", "new.png", "new", "agent", ".", "no/where.gif"],
    "png": ["new.png", "agent", "no/where.png"],
    "store": ["runs"] * 8 + ["no", ".", "runs/r", "/dev/null", "agent/manifest.json", "a\udcff"],
}
"""Where a command writes: no other values are drawn."""
COSTLY = {"games": "2", "max_games": "4", "steps": "64", "seconds": "0.02", "rows": "2", "matches": "20", "agents": "3"}
COSTLY |= {"repeats": "1", "threads": "1"}
"""Options whose greater legal values take long by their meaning: of those, an edge is taken only if it is refused."""
FITTING = {"agent": "r", "a": "r", "b": "bot:random", "agents": "bot:random", "file": "m.jsonl", "sql": "SELECT 1"}
FITTING |= {"against": "bot:biased", "run": "r", "env": "matrix", "out": "new.png"}


IDLE = ("serve", "play", "selftest")
"""Commands that wait for a person, or train for long with any option."""


def command_line(world: Path, draw: st.DataObject) -> None:
    """A command as it would be called, with some of its options at an edge or strange, and words that do not belong."""
    known = {words: command for words, command in commands().items() if words not in IDLE}
    words = draw.draw(st.sampled_from(sorted(known)))
    params = [parameter for parameter in known[words].params if parameter.name != "help"]
    chosen = draw.draw(st.lists(st.sampled_from(params), min_size=1, max_size=3, unique=True))
    strange, arguments = st.sampled_from(EDGES) | TEXTS, []
    for parameter in params:
        name, is_option = parameter.name, parameter.param_type_name == "option"
        value = FITTING.get(name, "r")
        if is_option and name in COSTLY:
            legal = ("1", "2", "3", "0.5", "1_000", str(2**31))
            value = draw.draw(st.sampled_from([x for x in EDGES if x not in legal])) if parameter in chosen else ""
            value = value or COSTLY[name]
            if (words, name) == ("tournament", "max_games"):
                continue
        elif parameter in chosen:
            value = draw.draw(st.sampled_from(PLACES[name]) if name in PLACES else strange)
            if name == "overrides":
                value = f"{draw.draw(st.sampled_from(SETTINGS))}={value}"
        elif is_option and not parameter.required:
            continue
        if not is_option:
            arguments.append(value)
        elif getattr(parameter, "is_flag", False):
            arguments.append(parameter.opts[0])
        else:
            arguments += [parameter.opts[0], *[value] * (2 if name == "between" else 1)]
    if words in ("train", "resume", "exploit", "bench learner"):
        fixed = TINY if words in ("train", "resume") else TINY[5:] if words == "bench learner" else TINY[:4]
        arguments = [*(word for pair in fixed for word in ("--set", pair)), *arguments]
    if not draw.draw(st.integers(0, 9)):
        arguments.insert(draw.draw(st.integers(0, len(arguments))), draw.draw(TEXTS))
    for left in ("new", "new.gif", "new.png"):
        shutil.rmtree(left) if os.path.isdir(left) else Path(left).unlink(missing_ok=True)
    with warnings.catch_warnings():
        called = call(*words.split(), *arguments)
    assert called.code in ((0, 1, 2, 3, 4) if words == "gate" else (0, 1, 2)), called
    assert not {"\x1b", "\u202e"} & set(called.out + called.err)
    if words == "doctor" and called.code == 1:
        assert "broken" in called.out, "its table says it"
    elif called.code in (1, 2):
        lines = [line for line in called.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1 or "Usage: " in called.err, called.err
        raise UsageError("refused")
    if called.code == 0 and "--json" in arguments:
        json.loads(called.out)


ADDRESSES = """game.py ./game.py agent/../game.py game.py:Duel game kuhn matrix r agent runs/x.py openspiel
    pettingzoo gymnasium league.envs.classic.matrix league json.tool no.such ../ ~ : :: . .py / \\ % - spec Options make
    __file__"""
PIECES = [*ADDRESSES.split(), "\0", " ", "é", "\ud800"]


def address(world: Path, draw: st.DataObject) -> None:
    """What `--env` takes, and what a store or manifest says of a game: taken or refused, and nothing strange runs.

    The file in the folder is a game, whose code leaves a trace: it may run where it was typed, else never.
    """
    with new_user(world) as named:
        named.unlink(missing_ok=True)
        write_game(world / "game.py")
        (world / "runs.txt").unlink(missing_ok=True)
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
                assert times_run(world) == 0


def defaults(world: Path, draw: st.DataObject) -> None:
    """A game's `DEFAULTS`: any values in known and unknown sections and keys."""
    sections = st.sampled_from([*SECTIONS, "game", ""])
    keys = st.sampled_from([*(key for _, key in FIELDS), "rounds", "payoff", "win", "self_play"]) | TEXTS
    tables = st.dictionaries(keys, JSONS | st.sampled_from([(1,), {1}, b"x", np.int64(3), math.nan]), max_size=3)
    brought: Any = draw.draw(st.dictionaries(sections | TEXTS, tables | JSONS, max_size=3) | JSONS)
    with new_user(world):
        write_game(world / "game.py", "DEFAULTS = {}\n")
        assert games.enter("game.py") == "duel"
        game = registry._games["duel"]
        forget()
        game.DEFAULTS = brought  # type: ignore[union-attr]
        resolve("smoke", "fast", games.enter(game), None, ())


Target = Callable[[Path, st.DataObject], None]
TARGETS: dict[str, tuple[Target, int, int]] = {
    "config file": (config_file, 40, 2_000),
    "--set": (overrides, 40, 2_000),
    "manifest": (manifest, 40, 1_500),
    "weights": (weights, 30, 1_000),
    "game state": (game_state, 60, 1_500),
    "run state": (run_state, 40, 1_000),
    "store": (store_files, 40, 2_000),
    "import file": (import_file, 25, 700),
    "query": (statement, 25, 700),
    "command line": (command_line, 60, 3_000),
    "address": (address, 40, 2_000),
    "defaults": (defaults, 20, 1_000),
}
"""Name -> target, cases always, cases in the slow part: together 460 and 18,400."""


def fuzz(target: Target, world: Path, cases: int) -> tuple[int, int]:
    """Plays that many cases of a target; how many it took and how many it refused."""
    counts = [0, 0]
    how: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}

    @settings(max_examples=cases, phases=[Phase.generate, Phase.shrink], **how)
    @given(st.data())
    def check(draw: st.DataObject) -> None:
        with no_hang():
            try:
                target(world, draw)
            except LeagueError as error:
                assert str(error).strip() and "\n" not in str(error) and visible(str(error)).encode()
                counts[1] += 1
            else:
                counts[0] += 1

    check()
    return counts[0], counts[1]


@pytest.mark.parametrize("name", TARGETS)
def test_what_comes_in_is_taken_or_refused(name: str, world: Path) -> None:
    """Some dozens of cases of each target end in success or in one line of ours."""
    target, cases, _ = TARGETS[name]
    assert sum(fuzz(target, world, cases)) >= cases


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", TARGETS)
def test_thousands_of_cases(name: str, world: Path) -> None:
    target, _, cases = TARGETS[name]
    assert sum(cases for _, _, cases in TARGETS.values()) >= 10_000
    taken, refused = fuzz(target, world, cases)
    print(f"{name}: {taken:,} taken, {refused:,} refused")
    assert taken + refused >= cases


def test_a_traceback_and_a_hang_are_seen(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness itself fails where a target raises anything but ours, prints two lines, or does not end."""

    def raising(error: Exception) -> Target:
        def target(world: Path, draw: st.DataObject) -> None:
            raise error

        return target

    def endless(world: Path, draw: st.DataObject) -> None:
        while True:
            pass

    assert fuzz(raising(SnapshotError("no")), world, 1) == (0, 1)
    with pytest.raises(KeyError):
        fuzz(raising(KeyError("x")), world, 1)
    monkeypatch.setattr(UsageError, "__str__", lambda self: "a\nb")
    with pytest.raises(AssertionError):
        fuzz(raising(UsageError("a")), world, 1)
    monkeypatch.undo()
    monkeypatch.setitem(globals(), "CPU_SECONDS", 1)
    with pytest.raises(AssertionError, match="hang"):
        fuzz(endless, world, 1)
