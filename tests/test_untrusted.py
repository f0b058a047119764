"""What strangers hand us is data: nothing in it runs, leaves its folder, or takes the machine's memory or terminal."""

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
import sys
import textwrap
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

import league
from league import config
from league.arena import games
from league.cli import app
from league.errors import ConfigError, LeagueError, SnapshotError, StoreError, UsageError, visible
from league.snapshots import Agent
from league.snapshots import io as files
from league.snapshots.files import MANIFEST, WEIGHTS
from league.store import apart, formats
from league.store.exchange import import_matches
from league.store.store import Store
from tests.helpers.cases import cases
from tests.helpers.games import forget, new_user, times_run, write_game
from tests.helpers.processes import run
from tests.helpers.sizes import TINY
from tests.helpers.stores import files_of, keeping_store

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, a run `r` and its export `agent`; nobody may change it."""
    folder = tmp_path_factory.mktemp("trained")
    league.train("smoke", env="matrix", run="r", store=folder / "runs", overrides=TINY)
    league.arena.agents.export("r", folder / "agent", store=folder / "runs")
    return folder


@pytest.fixture
def agent(trained: Path, tmp_path: Path) -> Path:
    """A copy of the exported agent, for a stranger to change."""
    return shutil.copytree(trained / "agent", tmp_path / "agent")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store without games."""
    return keeping_store(tmp_path / "runs")


def change(path: Path, **fields: Any) -> None:
    """Replaces fields of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def forge(agent: Path, data: bytes) -> None:
    """Other weights, whose hash the manifest tells."""
    (agent / WEIGHTS).write_bytes(data)
    change(agent / MANIFEST, agent_id=hashlib.sha256(data).hexdigest())


def refusal(call: Callable[[], object], kind: type[LeagueError]) -> str:
    """The one line with which `call` is refused."""
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Agents


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.target),)


def pickled(target: Path) -> dict[str, bytes]:
    """A bomb as a pickle, and in the zip file that `torch.save` makes."""
    raw = pickle.dumps(Bomb(target))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("archive/data.pkl", raw)
        zipped.writestr("archive/version", "3\n")
    return {"raw": raw, "zip": archive.getvalue()}


@pytest.mark.parametrize("kind", ["raw", "zip"])
@pytest.mark.parametrize("file", [WEIGHTS, MANIFEST])
def test_a_pickle_runs_nothing(kind: str, file: str, agent: Path, tmp_path: Path) -> None:
    """A pickle under the name of the weights or the manifest is refused, and what it would do is not done."""
    target = tmp_path / "done"
    data = pickled(target)[kind]
    pickle.loads(pickle.dumps(Bomb(tmp_path / "proof")))  # noqa: S301  # that it would
    assert (tmp_path / "proof").is_dir()
    if file == WEIGHTS:
        forge(agent, data)
    else:
        (agent / MANIFEST).write_bytes(data)
    assert file in refusal(lambda: Agent.load(agent), SnapshotError)
    assert not target.exists()


def header(text: bytes, size: int | None = None) -> bytes:
    """A safetensors file of that header, which says it has `size` bytes."""
    return (len(text) if size is None else size).to_bytes(8, "little") + text + bytes(64)


def entry(dtype: str, shape: list[int], offsets: list[int]) -> dict[str, Any]:
    """One tensor in a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HEADERS: dict[str, bytes] = {
    "2^63 bytes": header(b"{}", 2**63),
    "2^40 bytes": header(b"{}", 2**40),
    "beyond the limit": header(b'{"a":' + b" " * files.MAX_HEADER_BYTES + b"1}"),
    "beyond the file": header(b"{}", 2**20),
    "deep": header(b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
    "huge shape": header(json.dumps({"a": entry("F32", [2**62, 2**62], [0, 64])}).encode()),
    "negative shape": header(json.dumps({"a": entry("F32", [-1], [0, 64])}).encode()),
    "offsets outside": header(json.dumps({"a": entry("F32", [2**40], [0, 2**42])}).encode()),
    "offsets backwards": header(json.dumps({"a": entry("F32", [16], [64, 0])}).encode()),
    "shared bytes": header(json.dumps({"a": entry("F32", [16], [0, 64]), "b": entry("F32", [16], [0, 64])}).encode()),
    "unknown type": header(json.dumps({"a": entry("OBJECT", [16], [0, 64])}).encode()),
    "8-bit floats": safetensors.torch.save({"a": torch.zeros(64).to(torch.float8_e4m3fn)}),
    "too many tensors": safetensors.torch.save({f"t{i}": torch.zeros(1) for i in range(2_000)}),
    "wrong shapes": safetensors.torch.save({"a": torch.zeros(3)}),
    "no tensors": safetensors.torch.save({}),
}


@pytest.mark.parametrize("kind", HEADERS)
def test_a_strange_weights_file_is_refused(kind: str, agent: Path) -> None:
    """Whatever the list of tensors claims is refused in one line."""
    forge(agent, HEADERS[kind])
    refusal(lambda: Agent.load(agent), SnapshotError)


def test_a_long_list_of_tensors_and_small_floats_are_named(agent: Path) -> None:
    """A list above its limit is not read at all, and 8-bit floats are refused as what they are."""
    for kind, words in (
        ("2^63 bytes", "list of tensors"),
        ("beyond the limit", "list of tensors"),
        ("8-bit floats", "float8"),
    ):
        forge(agent, HEADERS[kind])
        assert words in refusal(lambda: Agent.load(agent), SnapshotError)


def test_weights_that_overflow_play_nothing(agent: Path) -> None:
    """Finite weights so large that the network's numbers are not finite end in one line, not in an illegal action."""
    tensors = safetensors.torch.load((agent / WEIGHTS).read_bytes())
    forge(agent, safetensors.torch.save({name: torch.full_like(t, 3e38) for name, t in tensors.items()}))
    opened = Agent.load(agent)
    size = opened.policy.architecture.obs_size
    message = refusal(lambda: opened.act(np.ones(size, np.float32), greedy=True), SnapshotError)
    assert "finite" in message


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("kind", ["pipe", "endless", "folder", "socket-like link"])
@pytest.mark.parametrize("file", [WEIGHTS, MANIFEST])
def test_only_regular_files_are_read(kind: str, file: str, agent: Path, tmp_path: Path) -> None:
    """A pipe, a link to an endless device or to itself and a folder are refused at once; a reader would never end."""
    path = agent / file
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    message = refusal(lambda: Agent.load(agent), SnapshotError)
    assert f"{file} cannot be read" in message and "permissions" not in message


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
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_json_bomb_is_one_line(kind: str, agent: Path) -> None:
    """Deep, huge or odd JSON is refused in one short line."""
    (agent / MANIFEST).write_bytes(MANIFESTS[kind])
    assert len(refusal(lambda: Agent.load(agent), SnapshotError)) < 1_000


def test_deep_and_huge_values_inside_a_whole_manifest(agent: Path) -> None:
    """Where the manifest takes any JSON, a bomb in it is refused or harmless."""
    text = (agent / MANIFEST).read_text()
    for bomb in ("[" * 150 + "]" * 150, "9" * 4_000, "9" * 5_000, "[" * 5_000 + "]" * 5_000):
        (agent / MANIFEST).write_text(text.replace('"config": {', '"config": {"x": ' + bomb + ", ", 1))
        try:
            Agent.load(agent)
        except SnapshotError as error:
            assert "\n" not in str(error)


def test_a_key_that_stands_twice_is_refused(agent: Path) -> None:
    """Two readers could take two different values."""
    text = (agent / MANIFEST).read_text()
    (agent / MANIFEST).write_text(text.replace("{", '{"step": 9999, ', 1))
    assert "stands in it twice" in refusal(lambda: Agent.load(agent), SnapshotError)


NASTY = [
    *(
        "../../x",
        "/etc/x",
        "..",
        "a/b",
        "a\\b",
        "C:x",
        "",
        " ",
        ".hidden",
        "-rf",
        "x" * 65,
        "a\0b",
        "a\nb",
        "a\rb",
        "a\tb",
    ),
    *(
        "\x1b[2J",
        "\x1b]0;title\x07",
        "a\x9bm",
        "a\u202eb",
        "a\u200bb",
        "\ud800",
        "é",
        "r;ls",
        "$(ls)",
        "`ls`",
        "%00",
        "~",
    ),
]


@pytest.mark.parametrize("name", NASTY)
def test_a_run_name_is_a_plain_word(name: str, agent: Path, store: Store) -> None:
    """In a manifest, as --run of training and of an import: no path, no control letter, nothing made."""
    change(agent / MANIFEST, run=name)
    assert "run" in refusal(lambda: Agent.load(agent), SnapshotError)
    before = sorted(store.path.parent.rglob("*"))
    if name:
        refusal(lambda: league.train("smoke", env="matrix", run=name, store=store.path, overrides=TINY), UsageError)
    refusal(lambda: import_matches(agent / "m.jsonl", run=name, store=store.path), UsageError)
    assert sorted(store.path.parent.rglob("*")) == before


def test_a_run_cannot_take_the_name_of_the_stores_catalogue(store: Store, tmp_path: Path) -> None:
    """A folder in its place would keep it from ever being written."""
    before, name = sorted(store.path.iterdir()), "league.duckdb"
    refusal(lambda: league.train("smoke", env="matrix", run=name, store=store.path, overrides=TINY), UsageError)
    (tmp_path / "m.csv").write_text("seat0,seat1,winner\nx,y,0\n")
    refusal(lambda: import_matches(tmp_path / "m.csv", game_id="g", run=name, store=store.path), UsageError)
    assert sorted(store.path.iterdir()) == before


# The terminal


def test_no_letter_from_outside_commands_the_terminal(store: Store) -> None:
    """Escape sequences in a query's rows and columns and in an error are spelt out; in JSON they are escapes."""
    statement = "SELECT chr(27) || '[31mred' || chr(7) AS \"a\x1b[2J\""
    shown = CliRunner().invoke(app, ["query", statement, "--store", str(store.path)])
    assert shown.exit_code == 0 and "\\x1b[31mred\\x07" in shown.output and "\x1b" not in shown.output
    shown = CliRunner().invoke(app, ["query", statement, "--store", str(store.path), "--json"])
    assert "\x1b" not in shown.output and json.loads(shown.stdout)["rows"] == [["\x1b[31mred\x07"]]
    done = run("evaluate", "\x1b]0;x\x07\u202e", "--against", "bot:random", cwd=store.path.parent)
    assert done.returncode == 2 and done.stderr.startswith("error: ")
    assert not set(done.stderr.rstrip("\n")) & set("\x1b\x07\u202e")


def test_visible_keeps_what_can_be_read() -> None:
    """Letters of any script and line feeds stay; control letters, separators and lone surrogates are spelt out."""
    assert visible("Grüße 你好\n") == "Grüße 你好\n"
    assert visible("a\x1b\x9b\r\t\u202e\u2028\ud800") == r"a\x1b\x9b\r\t\u202e\u2028\ud800"


# Settings


def test_a_config_file_is_a_small_regular_file_of_toml(tmp_path: Path) -> None:
    """Lists in lists in lists, numbers of thousands of digits, a pipe and a huge file are one line each."""
    path = tmp_path / "c.toml"
    for text in ("a = " + "[" * 5_000, "[env]\nrows = " + "9" * 5_000, "a = " + "{b=" * 5_000, "#" * 2**20 + "#"):
        path.write_text(text)
        refusal(lambda: config.load("smoke", config_file=path), ConfigError)
    path.unlink()
    os.mkfifo(path)
    assert "no regular file" in refusal(lambda: config.load("smoke", config_file=path), ConfigError)


@pytest.mark.parametrize("value", ["[" * 5_000, "9" * 5_000, "{b=" * 5_000, "\ud800", "1\n[learner]\ngamma = 2"])
def test_a_strange_value_of_set_is_one_line(value: str) -> None:
    """A value that TOML's reader cannot take is text, and so no number."""
    assert "env.rows" in refusal(lambda: config.load("smoke", overrides=[f"env.rows={value}"]), ConfigError)


# Results


@pytest.mark.parametrize("name", ["theirs.duckdb", "theirs.db", "theirs.duckdb.wal", "THEIRS.DUCKDB"])
def test_a_foreign_store_is_never_opened(name: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of a database says how matches travel, and the database engine does not see the file."""
    theirs = store.path.with_name(name)
    store.view.write_catalogue()
    shutil.copy(store.path / "league.duckdb", theirs)
    monkeypatch.setattr(duckdb, "connect", lambda *_, **__: pytest.fail("opened"))
    message = refusal(lambda: import_matches(theirs, store=store.path), UsageError)
    assert "JSON lines" in message and "never opened" in message


@pytest.mark.parametrize("lines", cases(20_000, slow=[1_000_000]))
def test_one_bad_line_among_many_keeps_all_out(lines: int, store: Store, tmp_path: Path) -> None:
    """An import of many lines with a bad one names that line, and changes nothing."""
    bad = lines - 7
    row = '{"seat0":"a","seat1":"b","winner":0,"game_id":"g"}\n'
    text = [row] * lines
    text[bad - 1] = '{"seat0":"a","seat1":"b","winner":2,"game_id":"g"}\n'
    (tmp_path / "m.jsonl").write_text("".join(text))
    before = files_of(store.path)
    message = refusal(lambda: import_matches(tmp_path / "m.jsonl", store=store.path), UsageError)
    assert f"line {bad}:" in message and files_of(store.path) == before


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "=cmd|' /C calc'!A0"])
def test_no_name_is_a_formula(name: str, store: Store, tmp_path: Path) -> None:
    """A name that a spreadsheet would compute is not taken in, so no export has it."""
    (tmp_path / "m.jsonl").write_text(json.dumps({"seat0": name, "seat1": "b", "winner": 0, "game_id": "g"}) + "\n")
    assert "line 1" in refusal(lambda: import_matches(tmp_path / "m.jsonl", store=store.path), UsageError)
    assert formats.name_problem(name)


# Queries


def attacks(folder: Path) -> list[str]:
    """More statements that would read, write, load or change something (the others: tests/store/test_store.py)."""
    secret, out = folder / "secret.csv", folder / "out"
    return [
        f"FROM read_blob('{secret}')",
        f"FROM read_json('{secret}')",
        f"FROM read_parquet('{folder}/*')",
        f"FROM parquet_metadata('{out}')",
        f"FROM sniff_csv('{secret}')",
        f"FROM '{folder}/runs/evaluations-0/run.json'",
        "FROM '/etc/passwd'",
        "FROM parquet_scan('http://127.0.0.1/x')",
        "SELECT getenv('HOME')",
        "FROM duckdb_secrets()",
        "CREATE SECRET (TYPE s3)",
        "FROM which_secret('a', 'b')",
        f"COPY run FROM '{secret}'",
        f"IMPORT DATABASE '{folder}'",
        f"EXPLAIN ANALYZE COPY run TO '{out}.csv'",
        f"EXPLAIN COPY run TO '{out}.csv'",
        f"PRAGMA profiling_output = '{out}.json'",
        "PRAGMA enable_profiling",
        f"CALL enable_logging(storage = 'file', storage_path = '{out}')",
        f"FROM enable_logging('QueryLog', storage = 'file', storage_path = '{out}')",
        "FROM start_ui()",
        "LOAD 'x.so'",
        "UPDATE EXTENSIONS",
        "ATTACH ':memory:' AS m",
        "DETACH league",
        "USE x",
        "VACUUM",
        "CHECKPOINT",
        "FROM force_checkpoint()",
        "CREATE MACRO f() AS 1",
        "PREPARE p AS SELECT 1",
        "EXECUTE p",
        "SET VARIABLE a = 1",
        "COMMENT ON TABLE run IS 'x'",
        "TRUNCATE run",
        "ALTER TABLE run ADD COLUMN x INT",
        "FROM json_execute_serialized_sql(json_serialize_sql('SELECT * FROM read_text(''/etc/passwd'')'))",
        "FROM (SELECT 1) WHERE (SELECT 1 FROM read_text('/etc/passwd')) IS NULL",
        "FROM os",
        "FROM sys.path",
        "SELECT '\udcff'",
        "SELECT " + "(" * 40_000 + "1" + ")" * 40_000,
        "SELECT 1" + " UNION ALL SELECT 1" * 20_000,
        ";" * 10 + "SELECT 1" + ";SELECT 1" * 100,
    ]


@pytest.mark.parametrize("number", range(44))
def test_a_query_reaches_nothing_else(number: int, store: Store, tmp_path: Path) -> None:
    """Every attack is refused in one line, reads no file, makes no file, and changes no byte of the store."""
    (tmp_path / "secret.csv").write_text("password\nhunter2\n")
    before = files_of(tmp_path)
    assert "hunter2" not in refusal(lambda: store.query(attacks(tmp_path)[number]), UsageError)
    assert files_of(tmp_path) == before


def test_every_attack_is_tried(tmp_path: Path) -> None:
    """The numbers above are those of the list."""
    assert len(attacks(tmp_path)) == 44


def test_a_result_of_few_rows_can_be_too_large(store: Store) -> None:
    """Rows of much text are counted by their length: 100 MiB pass, 300 MiB do not. Nor is endless SQL parsed."""
    with pytest.raises(UsageError, match="characters, more than 100,000"):
        store.query("SELECT 1" + " UNION ALL SELECT 1" * 20_000)
    with pytest.raises(UsageError, match="larger than 256 MiB"):
        store.query("SELECT repeat('x', 1000000) FROM range(300)")
    assert len(store.query("SELECT repeat('x', 1000000) FROM range(100)")[1]) == 100


@pytest.mark.parametrize(
    "statement",
    [
        "WITH RECURSIVE t AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM t) SELECT count(*) FROM t",
        "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range % 7 = b.range",
        "SELECT max(range) FROM (SELECT range FROM range(10000000000) ORDER BY hash(range) LIMIT 1000000)",
    ],
)
def test_an_endless_query_is_stopped(statement: str, store: Store) -> None:
    """A query without an end is interrupted, or refused for its memory, and the store can be used afterwards."""
    with pytest.raises((StoreError, UsageError)):
        store.query(statement, seconds=0.5)
    assert store.query("SELECT 1")[1] == [(1,)]


APART = """
import os, time
from league.errors import UsageError
from league.store.apart import answering
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
        ("raise UsageError('a\\nb')", UsageError, "^a b$"),
        ("os._exit(3)", StoreError, "the engine failed"),
        ("raise KeyError", StoreError, "the engine failed"),
    ],
)
def test_what_is_asked_apart_is_bounded_and_ends_in_one_line(
    does: str, kind: type[LeagueError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time, memory and output of the process have an end, whatever it does; nothing else of it is shown."""
    said: list[str] = []
    if "sleep" in does:
        monkeypatch.setattr(apart, "ANSWER_SECONDS", 2.0)
    code = APART.replace("WHAT", does)
    message = refusal(lambda: apart.run_apart(code, {}, write=lambda _: None, say=said.append), kind)
    assert re.search(words, message) and said == ["hello"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT now()", "times with zones; cast them"),
        ("SELECT INTERVAL '1000000000 days'", "cannot be shown"),
        ("SELECT [repeat('x', 1000000), repeat('y', 1000000)] FROM range(200)", "larger than 256 MiB"),
    ],
)
def test_a_value_that_cannot_be_shown_is_one_line(statement: str, words: str, store: Store) -> None:
    """Times with zones, spans that Python's types cannot hold, and lists that hold more than they seem to."""
    assert words in refusal(lambda: store.query(statement), UsageError)


# Games

UNCHECKED = py_compile.PycInvalidationMode.UNCHECKED_HASH
EVIL = "open({!r}, 'a').write('ran ')\n"


@pytest.fixture
def stranger(tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder from elsewhere, the current one: a store with a run, its export, and files that leave a mark if run."""
    folder = tmp_path / "theirs"
    shutil.copytree(trained, folder)
    monkeypatch.chdir(folder)
    evil = EVIL.format(str(tmp_path / "mark"))
    write_game(folder / "evil.py", evil)
    for package in ("pack", "pack/inner"):
        write_game(folder / package / "game.py", evil)
        (folder / package / "__init__.py").write_text(evil)
    (folder / "link.py").symlink_to("evil.py")
    (folder / "deep").mkdir()
    (folder / "deep" / "link.py").symlink_to("../link.py")
    (folder / "lib").symlink_to(folder)
    monkeypatch.syspath_prepend(str(folder))  # as `python -m league` has it
    with new_user(tmp_path):
        yield folder


def claim(folder: Path, address: str, sha256: str | None = None) -> None:
    """Makes the export say that its game, `duel`, came from there."""
    mark = hashlib.sha256((folder / "evil.py").read_bytes()).hexdigest() if sha256 is None else sha256
    path = folder / "agent" / MANIFEST
    told = json.loads(path.read_text())
    told["game"] |= {"name": "duel", "source": {"address": address, "version": "", "sha256": mark}}
    path.write_text(json.dumps(told))


def evaluate() -> object:
    """Plays the export against a bot, without a store."""
    return league.evaluate("./agent", "bot:random", games=2, store="none")


ADDRESSES = [
    *("{}/evil.py", "evil.py", "./evil.py", "deep/../evil.py", "{}/deep/../evil.py", "{}/lib/evil.py"),
    *("link.py", "{}/link.py", "deep/link.py", "{}/evil.py:Whole", "pack.game", "pack.inner.game:spec"),
    *("evil:spec", "gymnasium:evil:Env-v0", "gymnasium:pack.game/Env", "openspiel:evil", "evil", ""),
    *("\x1b[2J", "a\nb.py", "\0.py"),
]


def test_no_agent_makes_a_games_code_run(stranger: Path) -> None:
    """Whatever a manifest says of where its game is: a file that was never named is not run, nor its package."""
    before = set(sys.modules)
    for address in ADDRESSES:
        claim(stranger, address.format(stranger))
        message = refusal(evaluate, UsageError)
        assert "--env" in message or "cannot be used" in message, message
        assert not set(message) & set("\x1b\0")
    Agent.load("agent")
    league.export("./agent", "copy")
    assert not (stranger.parent / "mark").exists() and times_run(stranger) == 0
    assert not [name for name in set(sys.modules) - before if name.split(".")[0] in ("pack", "evil")]


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
    for path in (stranger / "runs").rglob(MANIFEST):
        told = json.loads(path.read_text())
        told["game"] = json.loads((stranger / "agent" / MANIFEST).read_text())["game"]
        path.write_text(json.dumps(told))
    for call in (
        lambda: league.resume("r"),
        lambda: league.evaluate("r", "bot:random", games=2),
        lambda: league.tournament(["r", "r@0"], games=2),
        lambda: league.gate("r", "bot:random", max_games=2),
        lambda: league.watch("r", "bot:random", "x.png"),
        lambda: league.train(against="r", steps=32, games=2),
    ):
        refusal(call, UsageError)
    league.leaderboard()
    assert not (stranger.parent / "mark").exists() and times_run(stranger) == 0


def test_what_was_named_runs_as_it_was_named_only(stranger: Path) -> None:
    """A stranger who edits a file that was named, or leads a link or a path elsewhere, makes nothing of it run."""
    mine = write_game(stranger.parent / "mine" / "game.py")
    assert games.enter(str(mine)) == "duel" and times_run(mine.parent) == 1
    forget()
    good = hashlib.sha256(mine.read_bytes()).hexdigest()
    evil = (stranger / "evil.py").read_bytes()

    def refused(address: object) -> None:
        claim(stranger, str(address), good)
        refusal(evaluate, UsageError)
        assert times_run(mine.parent) == 1 and not (stranger.parent / "mark").exists()

    mine.rename(mine.with_name("kept.py"))
    mine.symlink_to(stranger / "evil.py")  # the address is as it was named, what lies there is not
    refused(mine)
    mine.unlink()
    mine.write_bytes(evil)
    refused(mine)
    refused(mine.parent / ".." / "mine" / "game.py")
    mine.unlink()
    refused("evil.py")
    mine.with_name("kept.py").rename(mine)
    cached = Path(importlib.util.cache_from_source(str(mine)))
    cached.parent.mkdir(exist_ok=True)
    py_compile.compile(str(stranger / "evil.py"), cfile=str(cached), invalidation_mode=UNCHECKED)
    claim(stranger, str(mine), good)
    assert "plays another duel: game_id was " in refusal(evaluate, UsageError)  # found, and not what it knows
    assert times_run(mine.parent) == 2 and not (stranger.parent / "mark").exists()


# Parts of one's own


def part(address: str, stranger: Path) -> dict[str, str]:
    """What a manifest or a config says of a part whose code is the stranger's."""
    mark = hashlib.sha256((stranger / "evil.py").read_bytes()).hexdigest()
    return {"address": address, "version": "", "sha256": mark, "thing": "spec"}


@pytest.mark.parametrize("address", cases("{}/evil.py:spec", slow=[*ADDRESSES, "greedy"]))
def test_no_agent_makes_a_policys_or_a_bots_code_run(address: str, stranger: Path) -> None:
    """Whatever its manifest says of its network, and of the bots that it was trained with."""
    before = set(sys.modules)
    source, path = part(address.format(stranger), stranger), stranger / "agent" / MANIFEST
    told = json.loads(path.read_text())
    config = told["config"] | {"parts": {"bots": {"mine": source}, "samplers": {}, "policies": {}}}
    path.write_text(json.dumps(told | {"config": config}))
    message = refusal(lambda: league.evaluate("./agent", "bot:mine", games=2, store="none"), UsageError)
    assert "--bot" in message or "cannot be used" in message
    own = {"policy": "mine", "source": source, "type": "evil.spec", "agent": {}}
    path.write_text(json.dumps(told | {"architecture": own}))
    for call in (
        lambda: league.evaluate("./agent", "bot:random", games=2, store="none"),
        lambda: league.load("./agent"),
        lambda: league.train(against="./agent", steps=32, games=2, store="none"),
        lambda: league.train("smoke", env="matrix", overrides=[*TINY, "pool.mix={'agent:./agent' = 1.0}"]),
    ):
        message = refusal(call, UsageError)
        assert "--policy" in message or "cannot be used" in message, message
    refusal(lambda: Agent.load("agent"), SnapshotError)
    assert not (stranger.parent / "mark").exists() and times_run(stranger) == 0
    assert not [name for name in set(sys.modules) - before if "evil" in name or "pack" in name]


@pytest.mark.parametrize("address", cases("{}/evil.py:spec", slow=[*ADDRESSES, "greedy"]))
def test_no_store_makes_a_parts_code_run(address: str, stranger: Path) -> None:
    """Whatever a run's config, or an agent's row, says of bots, a sampler and a policy."""
    source, run = part(address.format(stranger), stranger), stranger / "runs" / "r"
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
    for call in (
        lambda: league.evaluate("r", "bot:mine", games=2),
        lambda: league.tournament(["r", "bot:mine"], games=2),
        lambda: league.gate("r", "bot:mine", max_games=2),
        lambda: league.train(against="bot:mine", steps=32, games=2, env="matrix"),
    ):
        refusal(call, UsageError)
    assert not (stranger.parent / "mark").exists() and times_run(stranger) == 0


# The code

BANNED = {
    *(
        "eval",
        "exec",
        "compile",
        "__import__",
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
    ),
    *(
        "torch.load",
        "torch.save",
        "torch.jit.load",
        "np.load",
        "numpy.load",
        "torch.hub.load",
        "importlib.import_module",
    ),
}
BANNED_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "imp", "runpy", "yaml"}
FOLDERS = ("league", "envs", "policies", "snapshots", "benchmarks", "examples", "docs")
SOURCES = [
    *sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path.stem[:5] != "test_"),
    ROOT / "cli.py",
    ROOT / "setup.py",
]
ALLOWED = {
    (file, "importlib.import_module")
    for file in (
        *("league/__init__.py", "envs/registry.py", "envs/adapters/__init__.py", "benchmarks/peers/__main__.py"),
        *("envs/sources.py", "envs/adapters/gymnasium.py", "envs/adapters/pettingzoo.py"),
    )
} | {("envs/sources.py", "compile")}
"""Modules that import by a name of their own tables, so that a library is loaded only when it is used; and the door for
games, a library's among them, whose code runs only where its user has named it. That door compiles the file of a class
that its user has passed, to compare it with what runs; the result is not run."""


def offences(source: str) -> list[str]:
    """What of the banned a module imports or calls, and every `shell=` that is not False."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in BANNED_MODULES]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [name for name in names if name.split(".")[0] in BANNED_MODULES or name in BANNED]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            found += [name] if name in BANNED else []
            found += (
                ["shell="] if any(k.arg == "shell" and ast.unparse(k.value) != "False" for k in node.keywords) else []
            )
    return found


def test_nothing_here_runs_code_from_data() -> None:
    """No pickle, no eval, no import by a name from a file and no shell in any module that ships, nor in the scripts."""
    assert len(SOURCES) > 50
    found = {(path.relative_to(ROOT).as_posix(), what) for path in SOURCES for what in offences(path.read_text())}
    assert found <= ALLOWED, found
    for path in [*(ROOT / "envs").rglob("*.pyx"), *(ROOT / "policies").rglob("*.pyx")]:
        assert not re.search(r"\b(eval|exec|pickle|system|popen)\b\s*\(", path.read_text()), path


def test_the_search_finds_what_it_looks_for() -> None:
    """Each banned thing is seen, written one way or another."""
    for source in (
        "import pickle",
        "from pickle import loads",
        "import torch\ntorch.load('x')",
        "from os import system",
        "eval('1')",
        "import subprocess\nsubprocess.run('ls', shell=True)",
    ):
        assert offences(source), source
    assert not offences(textwrap.dedent("import subprocess\nsubprocess.run(['ls'], shell=False)\nmodel.eval()"))
