"""Text from outside, and streams and threads that are not there: one short line, and nothing that a terminal obeys."""

from __future__ import annotations

import io
import os
import pty
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from league.arena.watching import watch
from league.envs import registry
from league.errors import MAX_MESSAGE, LeagueError, UsageError, as_known
from league.faces import live
from league.printing.layouts import layout_lines
from league.store import apart
from league.types import ObservationPart
from tests.helpers.stores import store_of_match
from tests.test_streams import called, need_line, streams


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a match of two agents, one of whose names has an escape, a line feed and a letter of Chinese."""
    return store_of_match(tmp_path_factory.mktemp("outside"), "import:\x1b[31m李\nerror: x")


LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def in_a_process(*words: object, out: Any = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """`league WORDS` in a Python of its own, whose locale and streams are as given."""
    return subprocess.run(
        [sys.executable, "-c", "from league.cli import main; main()", *map(str, words)],
        stdout=out,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
        check=False,
    )


def on_a_terminal(*words: object) -> str:
    """What a command shows on a terminal."""
    above, below = pty.openpty()
    done = in_a_process(*words, out=below, COLUMNS="200", TERM="xterm", NO_COLOR="1")
    os.close(below)
    assert done.returncode == 0, done
    shown = b""
    while chunk := _read(above):
        shown += chunk
    os.close(above)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # the other end is closed, and all is read
        return b""


@pytest.mark.parametrize("format", ["csv", "jsonl", "md", "table"])
def test_no_query_commands_a_terminal(format: str, store: Path) -> None:
    """In every format a terminal gets no escape, in a cell or a column's name, and no line of a name's own."""
    sql = 'SELECT agent_id AS "\x1b[2J", 1 AS n FROM agent ORDER BY ALL'
    shown = on_a_terminal("query", sql, "--format", format, "--store", store, "--quiet")
    assert "\x1b[31m" not in shown and "\x1b[2J" not in shown and "bot:based" in shown, shown
    assert "\nerror: x" not in shown


def test_a_pipe_gets_csv_as_it_is(store: Path) -> None:
    """Data for other programs is whole, escapes and line feeds included."""
    done = in_a_process("query", "SELECT agent_id FROM agent ORDER BY ALL", "--format", "csv", "--store", store)
    assert '"import:\x1b[31m李\nerror: x"' in done.stdout.decode(), done


def test_words_are_utf8_in_every_locale(store: Path) -> None:
    """A query and a name with letters that the locale lacks are read; bytes that are no UTF-8 are one line."""
    sql = "SELECT '李' AS x, count(*) FROM agent WHERE contains(name, '李')"
    done = in_a_process("query", sql, "--store", store, "--json", **LOCALE)
    assert done.returncode == 0 and b'[["\\u674e", 1]]' in done.stdout, done
    done = in_a_process("leaderboard", "--run", "李", "--store", store, **LOCALE)
    assert done.returncode == 2 and rb"no run `\u674e`" in done.stderr and done.stderr.count(b"\n") == 1, done
    for words in (["query", b"SELECT '\xff'"], ["leaderboard", "--run", b"\xff"]):
        shown = [os.fsdecode(word) if isinstance(word, bytes) else word for word in words]
        done = in_a_process(*shown, "--store", store, **LOCALE)
        assert done.returncode == 2 and b"is not UTF-8" in done.stderr and done.stderr.count(b"\n") == 1, done


@pytest.mark.parametrize("kind", [LeagueError, UsageError])
def test_a_long_message_is_cut(kind: type[LeagueError]) -> None:
    """An error with a long quotation is short, with its beginning and its next step."""
    text = str(kind(f"m.json: bad value {'x' * 70_000}; correct it"))
    assert len(text) < MAX_MESSAGE + 60 and text.startswith("m.json: bad") and text.endswith("; correct it")
    assert "letters left out" in text and str(kind("short")) == "short"


def test_a_long_exception_of_a_bot_is_cut(tmp_path: Path) -> None:
    """What a bot raises, and what a manifest says, comes back short at the command line."""
    (tmp_path / "bots.py").write_text(
        "class Loud:\n    def act(self, *args, **more):\n        raise ValueError('x' * 70_000)\n"
        "    __call__ = act\n\ndef loud(*args, **more):\n    raise ValueError('x' * 70_000)\n"
    )
    words = ["evaluate", f"{tmp_path}/bots.py:loud", "--against", "bot:random", "--env", "matrix", "--games", "2"]
    code, out, err = called(*words, "--bot", f"{tmp_path}/bots.py:loud", "--store", tmp_path / "s")
    assert code and len(out + err) < 2 * MAX_MESSAGE, len(out + err)
    code, out, err = called("evaluate", "y" * 70_000, "--against", "bot:random", "--store", tmp_path / "s")
    assert code and len(out + err) < 2 * MAX_MESSAGE


def test_long_names_of_columns_and_parts_are_cut(tmp_path: Path) -> None:
    """What an import left out and what a game observes are listed by names of at most 100 letters."""
    (tmp_path / "m.csv").write_text(f"seat0,seat1,winner,{'z' * 70_000}\na,b,0,1\n")
    code, out, err = called("import", tmp_path / "m.csv", "--game-id", "g", "--store", tmp_path / "league.duckdb")
    assert code == 0 and f"{'z' * 97}..." in out and len(out + err) < 1_000
    part = ObservationPart("k" * 70_000, 0, (1,))
    spec = replace(registry.spec("matrix", {}), obs_size=1, opponent_slice=(0, 0))
    assert max(map(len, layout_lines(spec, [part]))) < 200


@pytest.mark.parametrize("name", ["b" * 70_000, "\ud800", "\x1b[31m"])
@pytest.mark.parametrize("what", ["bots", "reward_terms", "metrics", "end_reasons"])
def test_names_of_a_game_can_be_seen_and_are_short(what: str, name: str, tmp_path: Path) -> None:
    """Tables, messages and the store have them."""
    given = f"{{{name!r}: None}}" if what == "bots" else f"({name!r},)"
    (tmp_path / "g.py").write_text(
        "from league.envs import Match\nclass Odd(Match):\n"
        f"    obs_size, action, max_steps, {what} = 1, 2, 2, {given}\n"
        "    def reset(self, rng): pass\n"
        "    def observe(self, seat): return [seat]\n"
        "    def step(self, actions): pass\n"
    )
    code, _, err = called("check", tmp_path / "g.py", "--quiet")
    assert code == 2 and f"its spec's {what} has " in err and "at most 100 letters" in err and len(err) < 500, err


def test_watching_without_stdout_is_one_line(tmp_path: Path) -> None:
    """A closed stdout, and one that is not there, are no terminal."""
    closed = io.StringIO()
    closed.close()
    for out in (None, closed):
        with streams(out, sys.stderr), pytest.raises(UsageError, match="needs a terminal; pass --out"):
            watch("bot:random", "bot:random", env="matrix", store=tmp_path / "s")


def test_a_thread_that_the_system_does_not_make_is_one_line(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command says that no thread could be started, in any library; other runtime errors stay bugs."""

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        code, _, err = called("query", "SELECT 1", "--store", store)
    need_line(code, err, "no more threads", "ulimit -u")
    assert as_known(RuntimeError("other")) is None


def test_a_thread_that_a_query_lacks_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the process of its own, too."""
    code = """
from league.store.apart import answering
with answering() as (request, tell, begin):
    raise RuntimeError("can't start new thread")
"""
    with pytest.raises(LeagueError, match="no more threads"):
        apart.run_apart(code, {}, write=lambda _: None, say=lambda _: None)


BROKEN = [
    b"POST /data HTTP/1.1\r\nHost: {}\r\nTransfer-Encoding: chunked\r\n\r\nZZZ\r\nabc\r\n",
    b"GET / HTTP/1.1\r\nHost: {}\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: {}\r\nContent-Length: -5\r\n\r\n",
    b"\x00\xff\r\n\r\n",
]


def test_a_broken_request_is_one_line_at_most(store: Path, tmp_path: Path) -> None:
    """The server says at most one line of a broken request, and goes on."""
    command = [sys.executable, "-c", "from league.cli import main; main()", "serve", "--port", "0", "--store", store]
    with (tmp_path / "out").open("wb") as out, subprocess.Popen([*map(str, command)], stdout=out, stderr=out) as server:
        try:
            text = ""
            while "http://127.0.0.1:" not in text:
                assert server.poll() is None, text
                time.sleep(0.1)
                text = (tmp_path / "out").read_text()
            port = int(text.split("http://127.0.0.1:")[1].split("/")[0])
            for request in BROKEN:
                with socket.create_connection((live.HOST, port), timeout=60) as client:
                    client.sendall(request.replace(b"{}", f"127.0.0.1:{port}".encode()))
                    assert b" 400 " in client.recv(4096)
            with socket.create_connection((live.HOST, port), timeout=60) as client:
                client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                assert b" 200 " in client.recv(4096)
            lines = (tmp_path / "out").read_text().splitlines()
            assert len(lines) <= 1 + len(BROKEN) and "Traceback" not in "".join(lines), lines
        finally:
            server.terminate()
