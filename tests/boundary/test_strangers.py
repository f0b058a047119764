"""What strangers hand us is data: nothing in it runs, leaves its folder, or takes the machine's memory or time."""

import ast
import hashlib
import importlib.util
import io
import json
import os
import pickle  # noqa: TID251  # the attack itself
import py_compile
import re
import shutil
import socket
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import safetensors.torch
import torch
from pydantic import BaseModel

import league
from league import config
from league.arena import agents, games
from league.bench import bench_env, bench_learner, bench_ratings
from league.config import updates
from league.config.models import SECTIONS, Config
from league.errors import ConfigError, LeagueError, SnapshotError, StoreError, UsageError
from league.maths.sprt import Sprt
from league.pool import roster
from league.pool.roles import ROLES
from league.runtime.device import DeviceMemory
from league.sessions.failures import Evidence, read_evidence
from league.snapshots import Agent
from league.snapshots import io as files
from league.snapshots.files import MANIFEST, WEIGHTS
from league.snapshots.manifest import Manifest
from league.store import child, formats
from league.store.exchange import import_matches
from league.store.store import Store
from league.types.schema import MAX_COUNT, MAX_GAMES, MAX_HISTORY, MAX_SEED
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.games import forget, new_user, times_run, write_game
from tests.helpers.refusals import refusal
from tests.helpers.sizes import TINY
from tests.helpers.stores import files_of
from tests.test_imports import ROOT

SECONDS = 300
HUGE = 10**26


def change(path: Path, *where: str, **fields: Any) -> None:
    """Replaces fields of a JSON file, or of a table in it."""
    told = json.loads(path.read_text())
    table = told
    for name in where:
        table = table[name]
    table.update(fields)
    path.write_text(json.dumps(told))


def forge(agent: Path, data: bytes) -> None:
    """Other weights, whose hash the manifest tells."""
    (agent / WEIGHTS).write_bytes(data)
    change(agent / MANIFEST, agent_id=hashlib.sha256(data).hexdigest())


# Agents


class Bomb:
    """Makes a folder when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


@pytest.mark.parametrize("is_zip", [False, True])
@pytest.mark.parametrize("file", [WEIGHTS, MANIFEST])
def test_a_pickle_runs_nothing(is_zip: bool, file: str, agent: Path, tmp_path: Path) -> None:
    """Alone, or in the zip file that `torch.save` makes."""
    pickle.loads(pickle.dumps(Bomb(tmp_path / "proof")))  # noqa: S301  # that it would
    assert (tmp_path / "proof").is_dir()
    data = pickle.dumps(Bomb(tmp_path / "done"))
    if is_zip:
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as zipped:
            zipped.writestr("archive/data.pkl", data)
            zipped.writestr("archive/version", "3\n")
        data = archive.getvalue()
    if file == WEIGHTS:
        forge(agent, data)
    else:
        (agent / MANIFEST).write_bytes(data)
    assert file in refusal(lambda: Agent.load(agent), SnapshotError)
    assert not (tmp_path / "done").exists()


def header(text: bytes, size: int | None = None) -> bytes:
    """A safetensors file of that header, which says it has `size` bytes."""
    return (len(text) if size is None else size).to_bytes(8, "little") + text + bytes(64)


def one(dtype: str = "F32", shape: tuple[int, ...] = (16,), offsets: tuple[int, int] = (0, 64)) -> bytes:
    """A file of one tensor, which is as told."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": offsets}
    return header(json.dumps({"a": entry}).encode())


HEADERS: dict[str, bytes] = {
    "2^63 bytes": header(b"{}", 2**63),
    "beyond the limit": header(b'{"a":' + b" " * files.MAX_HEADER_BYTES + b"1}"),
    "beyond the file": header(b"{}", 2**20),
    "deep": header(b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
    "huge shape": one(shape=(2**62, 2**62)),
    "negative shape": one(shape=(-1,)),
    "offsets outside": one(shape=(2**40,), offsets=(0, 2**42)),
    "offsets backwards": one(offsets=(64, 0)),
    "unknown type": one("OBJECT"),
    "8-bit floats": safetensors.torch.save({"a": torch.zeros(64).to(torch.float8_e4m3fn)}),
    "too many tensors": safetensors.torch.save({f"t{i}": torch.zeros(1) for i in range(2_000)}),
    "wrong shapes": safetensors.torch.save({"a": torch.zeros(3)}),
    "no tensors": safetensors.torch.save({}),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_strange_weights_file_is_refused(kind: str, agent: Path) -> None:
    forge(agent, HEADERS[kind])
    said = refusal(lambda: Agent.load(agent), SnapshotError)
    assert "list of tensors" in said or kind not in ("2^63 bytes", "beyond the limit"), "it is not read at all"


def test_weights_that_overflow_play_nothing(agent: Path) -> None:
    """Finite weights so large that the network's numbers are not finite end in one line, not in an illegal action."""
    tensors = safetensors.torch.load((agent / WEIGHTS).read_bytes())
    forge(agent, safetensors.torch.save({name: torch.full_like(t, 3e38) for name, t in tensors.items()}))
    opened = Agent.load(agent)
    size = opened.policy.architecture.obs_size
    assert "finite" in refusal(lambda: opened.act(np.ones(size, np.float32), greedy=True), SnapshotError)


def test_a_linked_file_must_fit_the_hash_and_is_not_shown(agent: Path, tmp_path: Path) -> None:
    """A link out of the folder to a secret is refused like any other weights, and the line tells nothing of it."""
    (tmp_path / "secret").write_text("hunter2")
    for file in (WEIGHTS, MANIFEST):
        (agent / file).rename(tmp_path / f"{file}.real")
        (agent / file).symlink_to(tmp_path / "secret")
        assert "hunter2" not in refusal(lambda: Agent.load(agent), SnapshotError)
        (agent / file).unlink()
        (agent / file).symlink_to(tmp_path / f"{file}.real")
    Agent.load(agent)  # as a cache of downloads links them


MANIFESTS: dict[str, bytes] = {
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"config":' * 100_000,
    "huge number": b'{"step": ' + b"9" * 100_000 + b"}",
    "huge exponent": b'{"step": 1e999999999}',
    "above the limit": b" " * (files.MAX_MANIFEST_BYTES + 1),
    "zeros": bytes(10_000),
    "another encoding": '{"step": 1}'.encode("utf-16"),
    "lone surrogate": b'{"run": "\\ud800"}',
    "a key twice": b'{"step": 1, "step": 2}',
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_json_bomb_is_one_line(kind: str, agent: Path) -> None:
    (agent / MANIFEST).write_bytes(MANIFESTS[kind])
    assert len(refusal(lambda: Agent.load(agent), SnapshotError)) < 1_000


def bind(path: Path) -> None:
    with chdir(path.parent):  # the name of a socket is short
        socket.socket(socket.AF_UNIX).bind(path.name)


KINDS: dict[str, Callable[[Path], object]] = {
    "a pipe": os.mkfifo,
    "a socket": bind,
    "a folder": Path.mkdir,
    "a loop": lambda path: path.symlink_to(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "nothing": lambda path: None,
    "an empty file": Path.touch,
    "a huge file": lambda path: path.touch() or os.truncate(path, 5 * 2**30),
}
SPECIAL = list(KINDS)[:5]
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "architecture of words": {"lstm_size": "many"},
    "architecture of lists": {"lstm_size": [8]},
    "architecture null": {"action": None},
    "architecture of another size": {"lstm_size": 24},
    "architecture with more": {"more": 1},
}
BROKEN = [*(f"{kind} as {name}" for kind in KINDS for name in (MANIFEST, WEIGHTS)), *ARCHITECTURES, "another spec"]


def broken(agent: Path, what: str) -> Path:
    """The agent with something wrong in it, in the folder `BAD`."""
    bad = agent.rename(agent.parent / "BAD")
    if " as " in what:
        kind, name = what.split(" as ")
        (bad / name).unlink()
        KINDS[kind](bad / name)
    elif what in ARCHITECTURES:
        change(bad / MANIFEST, "architecture", **ARCHITECTURES[what])
    else:
        change(bad / MANIFEST, "spec", obs_size=3)
    return bad


@pytest.mark.parametrize("what", BROKEN)
def test_only_regular_files_are_read(what: str, agent: Path, tmp_path: Path) -> None:
    """What is none is refused at once, as an architecture that cannot be; a reader would never end."""
    bad = broken(agent, what)
    for call in (lambda: league.load(f"{bad}"), lambda: league.export(f"{bad}", tmp_path / "out")):
        assert "BAD" in refusal(call)
    assert not (tmp_path / "out").exists()


COMMANDS: dict[str, list[str]] = {
    "evaluate": ["BAD", "--against", "bot:random", "--games", "2"],
    "export": ["BAD", "out"],
    "exploit": ["BAD", "--steps", "64"],
    "watch": ["BAD", "--against", "bot:random", "--out", "out.html"],
    "gate": ["BAD", "bot:random"],
    "tournament": ["BAD", "bot:random", "--games", "2"],
    "train": ["--stage", "smoke", "--env", "matrix", "--set", "pool.mix={'self_play'=0.5,'agent:BAD'=0.5}"],
    "play": ["BAD"],
}


def last_line(*words: object, cwd: Path) -> tuple[int, str]:
    """Exit code and the last line on stderr, of the command as a user calls it; it must end soon."""
    done = processes.run(*words, cwd=cwd, timeout=SECONDS)
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, (done.stderr.splitlines() or [""])[-1]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("what", cases("architecture of words", slow=BROKEN))
def test_every_command_refuses_every_broken_agent(what: str, command: str, agent: Path, tmp_path: Path) -> None:
    """In one line that names the folder; no file is made."""
    broken(agent, what)
    words = [word.replace("BAD", "./BAD") for word in COMMANDS[command]]
    code, last = last_line(command, *words, "--store", "none", "--quiet", cwd=tmp_path)
    assert code in (1, 2) and last.startswith("error: ") and "BAD" in last, (code, last)
    assert not list(tmp_path.glob("out*")) and not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", cases("a pipe", slow=SPECIAL))
@pytest.mark.parametrize(
    "name", ["run.json", "lock-00000000-00000000-00000000@other", "state/state.json", MANIFEST, WEIGHTS]
)
def test_nothing_in_a_runs_folder_keeps_a_command_waiting(kind: str, name: str, made: Path, tmp_path: Path) -> None:
    store = shutil.copytree(made / "runs", tmp_path / "s")
    file = next(iter(sorted((store / "r").glob(f"snapshots/*/{name}"))), store / "r" / name)
    file.unlink(missing_ok=True)
    KINDS[kind](file)
    for words in (["runs"], ["doctor"], ["snapshots", "list"], ["resume", "r", "--steps", "320", "--quiet"]):
        last_line(*words, "--store", "s", cwd=tmp_path)


PLAIN = "../../x /etc/x .. a/b a\\b C:x .hidden -rf é r;ls $(ls) `ls` %00 ~"
NASTY = [*PLAIN.split(), "a\x9bm", "a\u202eb", "a\u200bb", "\ud800"]
NASTY += ["", " ", "x" * 65, "a\0b", "a\nb", "a\rb", "a\tb", "\x1b[2J", "\x1b]0;title\x07"]


@pytest.mark.parametrize("name", [*NASTY, "league.duckdb"])
def test_a_run_name_is_a_plain_word(name: str, agent: Path, store: Store) -> None:
    """In a manifest, of a training and of an import: no path, no control letter, not the catalogue, nothing made."""
    (agent / "m.csv").write_text("seat0,seat1,winner\nx,y,0\n")
    change(agent / MANIFEST, run=name)
    if name in NASTY:
        assert "run" in refusal(lambda: Agent.load(agent), SnapshotError)
    before = sorted(store.path.parent.rglob("*"))
    if name:
        refusal(lambda: league.train("smoke", env="matrix", run=name, store=store.path, overrides=TINY), UsageError)
    refusal(lambda: import_matches(agent / "m.csv", game_id="g", run=name, store=store.path), UsageError)
    assert sorted(store.path.parent.rglob("*")) == before


# Settings and numbers


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
    assert {model.__name__: found for model in models if (found := unbounded(model))} == {"EnvConfig": ["options"]}
    assert unbounded(Evidence) == ["reward_terms"] and "rewards" not in unbounded(Config)


@pytest.mark.parametrize("value", [2**31, 2**63, HUGE, -1, "nan", "inf", "1e308"])
def test_no_setting_takes_any_number(value: object) -> None:
    """At an edge each setting is refused by its name, or what is made of it is small."""
    for section, model in SECTIONS.items():
        for key in model.model_fields if model else ():
            try:
                updates.check(config.load("10m", env="matrix", overrides=[f"{section}.{key}={value}"]))
            except ConfigError as error:
                assert key in str(error) or "total_steps" in str(error), error


BOTS = ("bot:random", "bot:biased")
NUMBERS: dict[str, Callable[[Path], object]] = {
    "games": lambda store: league.evaluate(*BOTS, HUGE, env="matrix", store=store),
    "seed": lambda store: league.evaluate(*BOTS, 2, seed=HUGE, env="matrix", store=store),
    "max_games": lambda store: league.gate(*BOTS, max_games=HUGE, env="matrix", store=store),
    "games of all": lambda store: league.tournament(
        ["bot:random"], bots=True, games=MAX_GAMES + 2, env="matrix", store=store
    ),
    "steps": lambda store: league.train(against="bot:random", steps=MAX_COUNT + 1, env="matrix", store=store),
    "seed of a run": lambda store: league.train("smoke", env="matrix", seed=MAX_SEED + 1, store=store, overrides=TINY),
    "prior": lambda store: league.leaderboard(prior=1e300, store=store),
    "last": lambda store: Store.open(store).reward_terms("r", 2**63),
    "elo1": lambda store: Sprt(elo1=1e308),
    "rows": lambda store: bench_env("matrix", rows=10**12, threads=1, seconds=1.0),
    "threads": lambda store: bench_env("matrix", rows=1, threads=2**31, seconds=1.0),
    "seconds": lambda store: bench_env("matrix", rows=1, threads=1, seconds=1e300),
    "repeats": lambda store: bench_learner("fast", repeats=HUGE),
    "threads of a learner": lambda store: bench_learner("fast", threads=2**31),
    "agents": lambda store: bench_ratings(HUGE, 1),
    "matches": lambda store: bench_ratings(2, HUGE),
    "seed of ratings": lambda store: bench_ratings(2, 2, seed=HUGE),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_a_call_are_bounded(name: str, made: Path) -> None:
    assert f"{name.split()[0]}=" in refusal(lambda: NUMBERS[name](made / "runs"), UsageError)


LEAGUES = {
    "roles.main=5\n[learners.main]\nrole='main'\n": "roles.main=5",
    "[learners.main]\nrole=['main']\n": "role=['main']",
    "[learners.main]\nrole='main'\nconfig=[1,2]\n": "config=[1, 2]",
    "[learners.main]\nrole='main'\nconfig.env=3\n": "env=3",
    "[roles.main]\nmin_steps=1000000000000000000\n[learners.main]\nrole='main'\n": "min_steps=",
    "".join(f"[learners.x{i}]\nrole='main'\n" for i in range(100)): "100 learners",
    f"turn_steps={MAX_COUNT + 1}\n[learners.main]\nrole='main'\n": "turn_steps",
}


@pytest.mark.parametrize("text", LEAGUES, ids=list(LEAGUES.values()))
def test_a_leagues_file_of_any_shape_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "league.toml"
    path.write_text(text if text.startswith("turn_steps") else f"turn_steps=100\n{text}")
    assert LEAGUES[text] in refusal(lambda: roster.load(path), ConfigError)


@pytest.mark.parametrize("told", [None, {"env": 5}, {"pool": 5}, {"run": {"total_steps": HUGE}}])
def test_a_strangers_settings_are_checked_before_they_are_learned_with(
    told: dict[str, Any] | None, agent: Path, tmp_path: Path
) -> None:
    """An exploiter of an agent whose manifest has no settings, or others than can be, ends in one line."""
    change(agent / MANIFEST, *(["config"] if told else []), **(told or {"config": {}}))
    call = lambda: league.train(against=str(agent), steps=64, store=tmp_path / "s")  # noqa: E731
    assert "its manifest has no settings" in refusal(call, SnapshotError) and not (tmp_path / "s").exists()


def test_a_strangers_memory_is_bounded(agent: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network remembers more than an hour, and those of all matches together have to fit, which is known before."""
    for tokens in (1_000_000, MAX_HISTORY):
        change(agent / MANIFEST, history_tokens=tokens)
        change(agent / MANIFEST, "architecture", history_tokens=tokens)
        if tokens > MAX_HISTORY:
            assert "history_tokens" in refusal(lambda: Agent.load(agent), SnapshotError)
    monkeypatch.setattr(agents, "read_memory", lambda device: DeviceMemory(2**20, 2**20))
    assert "GiB are free" in refusal(lambda: league.evaluate(str(agent), "bot:random", 64, store=tmp_path / "s"))


def test_nothing_waits_for_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "m.jsonl"
    os.mkfifo(pipe)
    for call in (
        lambda: read_evidence(pipe),
        lambda: config.load(config_file=pipe),
        lambda: roster.load(pipe),
        lambda: import_matches(pipe, store=tmp_path / "s"),
    ):
        refusal(call)


# Results


@pytest.mark.parametrize("name", ["theirs.duckdb", "theirs.db", "theirs.duckdb.wal", "THEIRS.DUCKDB"])
def test_a_foreign_store_is_never_opened(name: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of a database says how matches travel, and the database engine does not see the file."""
    theirs = store.path.with_name(name)
    store.write_catalogue()
    shutil.copy(store.path / "league.duckdb", theirs)
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: pytest.fail("opened"))
    assert "never opened" in refusal(lambda: import_matches(theirs, store=store.path), UsageError)


@pytest.mark.parametrize("lines", cases(20_000, slow=[1_000_000]))
def test_one_bad_line_among_many_keeps_all_out(lines: int, store: Store, tmp_path: Path) -> None:
    bad = lines - 7
    text = ['{"seat0":"a","seat1":"b","winner":0,"game_id":"g"}\n'] * lines
    text[bad - 1] = text[0].replace("0,", "2,")
    (tmp_path / "m.jsonl").write_text("".join(text))
    before = files_of(store.path)
    assert f"line {bad}:" in refusal(lambda: import_matches(tmp_path / "m.jsonl", store=store.path), UsageError)
    assert files_of(store.path) == before


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "x;=1+1;y", "a,+1", "a|@SUM(A1)", "x; =1+1"])
def test_no_name_is_a_formula(name: str, store: Store, tmp_path: Path) -> None:
    """A name that a spreadsheet would compute, or a part of it, is not taken in, so no export has it."""
    (tmp_path / "m.jsonl").write_text(json.dumps({"seat0": name, "seat1": "b", "winner": 0, "game_id": "g"}) + "\n")
    assert "line 1" in refusal(lambda: import_matches(tmp_path / "m.jsonl", store=store.path), UsageError)
    assert formats.name_problem(name)


# Queries

ATTACKS = [
    *("FROM read_blob('{0}/secret.csv')", "FROM read_json('{0}/secret.csv')", "FROM read_parquet('{0}/*')"),
    *("FROM parquet_metadata('{0}/out')", "FROM sniff_csv('{0}/secret.csv')", "FROM '/etc/passwd'"),
    *("FROM '{0}/runs/evaluations-0/run.json'", "FROM parquet_scan('http://127.0.0.1/x')", "SELECT getenv('HOME')"),
    *("FROM duckdb_secrets()", "CREATE SECRET (TYPE s3)", "FROM which_secret('a', 'b')", "FROM os", "FROM sys.path"),
    *("COPY run FROM '{0}/secret.csv'", "IMPORT DATABASE '{0}'", "EXPLAIN ANALYZE COPY run TO '{0}/out.csv'"),
    *("EXPLAIN COPY run TO '{0}/out.csv'", "PRAGMA profiling_output = '{0}/out.json'", "PRAGMA enable_profiling"),
    "CALL enable_logging(storage = 'file', storage_path = '{0}/out')",
    "FROM enable_logging('QueryLog', storage = 'file', storage_path = '{0}/out')",
    *("FROM start_ui()", "LOAD 'x.so'", "UPDATE EXTENSIONS", "ATTACH ':memory:' AS m", "DETACH league", "USE x"),
    *("VACUUM", "CHECKPOINT", "FROM force_checkpoint()", "CREATE MACRO f() AS 1", "PREPARE p AS SELECT 1", "EXECUTE p"),
    *("SET VARIABLE a = 1", "COMMENT ON TABLE run IS 'x'", "TRUNCATE run", "ALTER TABLE run ADD COLUMN x INT"),
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/passwd'')'))",
    "FROM (SELECT 1) WHERE (SELECT 1 FROM read_text('/etc/passwd')) IS NULL",
    *("SELECT '\udcff'", "SELECT " + "(" * 40_000 + "1" + ")" * 40_000, "SELECT 1" + " UNION ALL SELECT 1" * 20_000),
    ";" * 10 + "SELECT 1" + ";SELECT 1" * 100,
    *("DELETE FROM match", "SET enable_external_access = true", "SELEC 1", ""),
]
"""Statements that would read, write, load or change something (others: tests/store/test_store.py)."""


@pytest.mark.parametrize("number", range(len(ATTACKS)))
def test_a_query_reaches_nothing_else(number: int, store: Store, tmp_path: Path) -> None:
    """Every attack is refused in one line, reads no file, makes no file, and changes no byte of the store."""
    (tmp_path / "secret.csv").write_text("password\nhunter2\n")
    before = files_of(tmp_path)
    assert "hunter2" not in refusal(lambda: store.query(ATTACKS[number].replace("{0}", str(tmp_path))), UsageError)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT 1" + " UNION ALL SELECT 1" * 20_000, "characters, more than 100,000"),
        ("SELECT repeat('x', 1000000) FROM range(300)", "larger than 256 MiB"),
        ("SELECT [repeat('x', 1000000), repeat('y', 1000000)] FROM range(200)", "larger than 256 MiB"),
        ("SELECT now()", "times with zones; cast them"),
        ("SELECT INTERVAL '1000000000 days'", "cannot be shown"),
        ("WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t", ""),
        ("SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range % 7 = b.range", ""),
        ("SELECT max(range) FROM (SELECT range FROM range(10000000000) ORDER BY hash(range) LIMIT 1000000)", ""),
    ],
)
def test_a_query_without_an_end_or_of_strange_values_is_stopped(statement: str, words: str, store: Store) -> None:
    """Long SQL, results of too many bytes and what Python has no type for; the store can be used afterwards."""
    assert words in refusal(lambda: store.query(statement, seconds=30 if words else 0.5))
    assert store.query("SELECT repeat('x', 1000000) FROM range(3)")[1] == [("x" * 1000000,)] * 3


APART = """
import os, time
from league.errors import UsageError
from league.store.child import answering
with answering() as (request, tell, begin):
    tell("hello")
    begin()
    WHAT
"""


@pytest.mark.parametrize(
    ("does", "kind", "words"),
    [
        ("time.sleep(300)", StoreError, "took longer than 2 s"),
        ("x = bytearray(2**33)", StoreError, "takes more memory than 4 GiB"),
        ("while True: print('x' * 2**20)", UsageError, "longer than 512 MiB"),
        ("raise UsageError('a\\nb')", UsageError, "^a b; pass another value$"),
        ("os._exit(3)", StoreError, "the engine failed"),
        ("raise KeyError", StoreError, "the engine failed"),
        ('raise RuntimeError("can\'t start new thread")', LeagueError, "no more threads"),
    ],
)
def test_what_is_asked_apart_is_bounded_and_ends_in_one_line(
    does: str, kind: type[LeagueError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time, memory and output of the process have an end, whatever it does; nothing else of it is shown."""
    said: list[str] = []
    if "sleep" in does:
        monkeypatch.setattr(child, "ANSWER_SECONDS", 2.0)
    code = APART.replace("WHAT", does)
    message = refusal(lambda: child.run_child(code, {}, write=lambda _: None, say=said.append), kind)
    assert re.search(words, message) and said == ["hello"]


# Games and parts

UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
ADDRESSES = [
    *("{}/evil.py", "evil.py", "./evil.py", "deep/../evil.py", "{}/deep/../evil.py", "{}/lib/evil.py"),
    *("link.py", "{}/link.py", "deep/link.py", "{}/evil.py:Whole", "pack.game", "pack.inner.game:spec"),
    *("evil:spec", "gymnasium:evil:Env-v0", "gymnasium:pack.game/Env", "openspiel:evil", "evil", ""),
    *("\x1b[2J", "a\nb.py", "\0.py"),
]
PARTS = cases("{}/evil.py:spec", slow=[*ADDRESSES, "greedy"])


@pytest.fixture
def stranger(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from elsewhere, the current one: a store with a run, its export, and files that leave a mark if run.

    At the end none of them has run.
    """
    folder = shutil.copytree(made, tmp_path / "theirs")
    monkeypatch.chdir(folder)
    evil = f"open({str(tmp_path / 'mark')!r}, 'a').write('ran ')\n"
    write_game(folder / "evil.py", evil)
    for package in ("pack", "pack/inner"):
        write_game(folder / package / "game.py", evil)
        (folder / package / "__init__.py").write_text(evil)
    (folder / "link.py").symlink_to("evil.py")
    (folder / "deep").mkdir()
    (folder / "deep" / "link.py").symlink_to("../link.py")
    (folder / "lib").symlink_to(folder)
    monkeypatch.syspath_prepend(str(folder))  # as `python -m league` has it
    before = set(sys.modules)
    with new_user(tmp_path):
        yield folder
    assert not (tmp_path / "mark").exists() and times_run(folder) == 0
    assert not [name for name in set(sys.modules) - before if name.split(".")[0] in ("pack", "evil")]


def mark_of(folder: Path) -> str:
    """The hash of the stranger's file."""
    return hashlib.sha256((folder / "evil.py").read_bytes()).hexdigest()


def claim(folder: Path, address: str, sha256: str | None = None) -> None:
    """Makes the export say that its game, `duel`, came from there."""
    source = {"address": address, "version": "", "sha256": mark_of(folder) if sha256 is None else sha256}
    change(folder / "agent" / MANIFEST, "game", name="duel", source=source)


def evaluate(against: str = "bot:random") -> object:
    """Plays the export against a bot, without a store."""
    return league.evaluate("./agent", against, games=2, store="none")


def play_run(a: str, b: str = "bot:random") -> Iterator[Callable[[], object]]:
    """Each call that plays what the store tells of."""
    yield lambda: league.evaluate(a, b, games=2)
    yield lambda: league.tournament([a, b], games=2)
    yield lambda: league.gate(a, b, max_games=2)
    yield lambda: league.watch(a, b, "x.png")
    yield lambda: league.train(against=a if b == "bot:random" else b, steps=32, games=2, env="matrix")


def test_no_agent_makes_a_games_code_run(stranger: Path) -> None:
    """Whatever a manifest says of where its game is: a file that was never named is not run, nor its package."""
    for address in ADDRESSES:
        claim(stranger, address.format(stranger))
        message = refusal(evaluate, UsageError)
        assert "--env" in message or "cannot be used" in message, message
        assert not set(message) & set("\x1b\0")
    Agent.load("agent")
    league.export("./agent", "copy")


@pytest.mark.parametrize(
    ("file", "place", "value"),
    [
        *(("run.json", "id", own) for own in ("", "x", "0" * 33)),
        ("segments.json", "snapshots.0.update", -1),
        ("segments.json", "games.0.bound", -2.0),
    ],
)
def test_what_an_owner_cannot_be_is_damage(file: str, place: str, value: object, stranger: Path) -> None:
    """The id by which copies of a folder are known, numbers below 0."""
    path = stranger / "runs" / "r" / file
    told = node = json.loads(path.read_text())
    *keys, last = (int(key) if key.isdecimal() else key for key in place.split("."))
    for key in keys:
        node = node[key]
    node[last] = value
    path.write_text(json.dumps(told))
    assert re.search(rf"{file}: damaged \({place}\b", refusal(lambda: league.resume("r"), UsageError))


@pytest.mark.parametrize("address", cases("{}/evil.py", slow=ADDRESSES[1:]))
def test_no_store_makes_a_games_code_run(address: str, stranger: Path) -> None:
    """Nor whatever a run's row says: not by any command that plays what the store tells of."""
    place = address.format(stranger)
    run = stranger / "runs" / "r"
    change(run / "run.json", game="duel")
    change(run / "status.json", status="stopped")
    (run / "config-001.json").write_text((run / "config-001.json").read_text().replace('"matrix"', '"duel"'))
    change(run / "config-001.json", game_address=place)
    assert league.runs().to_df()["game"].tolist() == ["duel"]
    claim(stranger, place)
    game = json.loads((stranger / "agent" / MANIFEST).read_text())["game"]
    for path in (stranger / "runs").rglob(MANIFEST):
        change(path, game=game)
    for call in (lambda: league.resume("r"), *play_run("r")):
        refusal(call, UsageError)
    league.leaderboard()


def test_what_was_named_runs_as_it_was_named_only(stranger: Path) -> None:
    """A stranger who edits a file that was named, or leads a link or a path elsewhere, makes nothing of it run."""
    mine = write_game(stranger.parent / "mine" / "game.py")
    assert games.enter(str(mine)) == "duel" and times_run(mine.parent) == 1
    forget()
    good = hashlib.sha256(mine.read_bytes()).hexdigest()

    def refused(address: object) -> None:
        claim(stranger, str(address), good)
        refusal(evaluate, UsageError)
        assert times_run(mine.parent) == 1

    mine.rename(mine.with_name("kept.py"))
    mine.symlink_to(stranger / "evil.py")  # the address is as it was named, what lies there is not
    refused(mine)
    mine.unlink()
    shutil.copy(stranger / "evil.py", mine)
    refused(mine)
    refused(mine.parent / ".." / "mine" / "game.py")
    mine.unlink()
    refused("evil.py")
    mine.with_name("kept.py").rename(mine)
    cached = Path(importlib.util.cache_from_source(str(mine)))
    cached.parent.mkdir(exist_ok=True)
    py_compile.compile(str(stranger / "evil.py"), cfile=str(cached), invalidation_mode=UNCHECKED)
    claim(stranger, str(mine), good)
    assert "plays another duel" in refusal(evaluate, UsageError)  # found, and not what it knows
    assert times_run(mine.parent) == 2


def part(address: str, stranger: Path) -> dict[str, str]:
    """What a manifest or a config says of a part whose code is the stranger's."""
    return {"address": address.format(stranger), "version": "", "sha256": mark_of(stranger), "thing": "spec"}


@pytest.mark.parametrize("address", PARTS)
def test_no_agent_makes_a_policys_or_a_bots_code_run(address: str, stranger: Path) -> None:
    """Whatever its manifest says of its network, and of the bots that it was trained with."""
    source, path = part(address, stranger), stranger / "agent" / MANIFEST
    change(path, "config", parts={"bots": {"mine": source}, "samplers": {}, "policies": {}})
    message = refusal(lambda: evaluate("bot:mine"), UsageError)
    assert "--bot" in message or "cannot be used" in message
    change(path, architecture={"policy": "mine", "source": source, "type": "evil.spec", "agent": {}})
    for call in (
        evaluate,
        lambda: league.load("./agent"),
        lambda: league.train(against="./agent", steps=32, games=2, store="none"),
        lambda: league.train("smoke", env="matrix", overrides=[*TINY, "pool.mix={'agent:./agent' = 1.0}"]),
    ):
        message = refusal(call, UsageError)
        assert "--policy" in message or "cannot be used" in message, message
    refusal(lambda: Agent.load("agent"), SnapshotError)


@pytest.mark.parametrize("address", PARTS)
def test_no_store_makes_a_parts_code_run(address: str, stranger: Path) -> None:
    """Whatever a run's config, or an agent's row, says of bots, a sampler and a policy."""
    source, run = part(address, stranger), stranger / "runs" / "r"
    text = (run / "config-001.json").read_text()
    change(run / "status.json", status="stopped")
    for kind in ("bots", "samplers", "policies"):
        told = json.loads(text)["config"]
        told["parts"] = {"bots": {}, "samplers": {}, "policies": {}, kind: {"mine": source}}
        told["pool"] |= {"bots": {"mix": {"bot:mine": 1.0}}, "samplers": {"sampler": "mine"}}.get(kind, {})
        told["agent"] |= {"policy": "mine"} if kind == "policies" else {}
        change(run / "config-001.json", config=told)
        assert "its " in refusal(lambda: league.resume("r"), UsageError)
    (run / "config-001.json").write_text(text)
    game_id = json.loads((run / "run.json").read_text())["game_id"]
    mine = {"agent_id": "bot:mine", "kind": "bot", "name": "bot:mine", "game_id": game_id, **source}
    change(run / "segments.json", agents=[mine])
    assert league.query("SELECT count(*) FROM agent WHERE thing = 'spec'").rows == ((1,),)
    for call in play_run("r", "bot:mine"):
        refusal(call, UsageError)


# The code

MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "imp", "runpy", "yaml"}
BANNED = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "importlib.import_module", "np.load"}
BANNED |= {"subprocess.getoutput", "subprocess.getstatusoutput", "torch.load", "torch.save", "torch.jit.load"}
BANNED |= {"numpy.load", "torch.hub.load"}
FOLDERS = ("league", "envs", "policies", "snapshots", "benchmarks", "examples", "docs")
SOURCES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.stem[:5] != "test_"]
IMPORTERS = (
    *("league/__init__.py", "envs/registry.py", "envs/adapters/__init__.py", "benchmarks/peers/__main__.py"),
    *("envs/sources.py", "envs/adapters/gymnasium.py", "envs/adapters/pettingzoo.py", "envs/adapters/kaggle.py"),
)
ALLOWED = {
    *((file, "importlib.import_module") for file in IMPORTERS),
    *(
        ("envs/sources.py", "compile"),
        ("league/arena/bot_runner.py", "compile"),
        ("league/arena/bot_runner.py", "exec"),
    ),
}
"""Modules that import by a name of their own tables, so that a library is loaded only when it is used; and the door for
games, a library's among them, whose code runs only where its user has named it. That door compiles the file of a class
that its user has passed, to compare it with what runs; the result is not run. The runner of a bot's process runs the
main.py that its user has named."""


def offences(source: str) -> list[str]:
    """What of the banned a module imports or calls, and every `shell=` that is not False."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if name.split(".")[0] in MODULES or name in BANNED]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found += [name] if name in BANNED else []
            found += [k.arg for k in node.keywords if k.arg == "shell" and ast.unparse(k.value) != "False"]
    return found


def test_nothing_here_runs_code_from_data() -> None:
    """No pickle, no eval, no import by a name from a file and no shell in any module that ships, nor in the scripts."""
    sources = [*SOURCES, ROOT / "cli.py", ROOT / "setup.py"]
    found = {(path.relative_to(ROOT).as_posix(), what) for path in sources for what in offences(path.read_text())}
    assert len(sources) > 50 and found <= ALLOWED, found - ALLOWED
    for path in [*(ROOT / "envs").rglob("*.pyx"), *(ROOT / "policies").rglob("*.pyx")]:
        assert not re.search(r"\b(eval|exec|pickle|system|popen)\b\s*\(", path.read_text()), path
    for seen in ("import pickle", "from pickle import loads", "torch.load('x')", "from os import system", "eval('1')"):
        assert offences(seen), seen
    assert offences("run('ls', shell=True)") and not offences("run(['ls'], shell=False)\nmodel.eval()")
