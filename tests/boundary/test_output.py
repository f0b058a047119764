"""Words and files on their way out: one door for each, nothing that a terminal obeys, and what the system refuses is
one line with a next step."""

from __future__ import annotations

import ast
import errno
import importlib
import io
import os
import pty
import re
import resource
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from league import printing
from league.arena.watching import watch
from league.cli import main
from league.errors import MAX_MESSAGE, LeagueError, UsageError, as_known, one_line, visible
from league.faces import live
from league.runtime.phases import listening
from league.store.files import new_file
from tests.helpers.cases import cases
from tests.helpers.commands import call, need_refusal, streams
from tests.test_imports import modules

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
PYTHON = [sys.executable, "-c", "from league.cli import main; main()"]


def in_a_process(*words: object, out: Any = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """`league WORDS` in a Python of its own, whose locale and streams are as given."""
    environ = {**os.environ, **environment}
    return subprocess.run([*PYTHON, *map(str, words)], stdout=out, stderr=subprocess.PIPE, env=environ, check=False)


def on_a_terminal(*words: object) -> str:
    """What a command shows on a terminal."""
    above, below = pty.openpty()
    done = in_a_process(*words, out=below, COLUMNS="200", TERM="xterm", NO_COLOR="1")
    os.close(below)
    assert done.returncode == 0, done
    shown = b""
    try:
        while chunk := os.read(above, 65_536):
            shown += chunk
    except OSError:  # the other end is closed, and all is read
        os.close(above)
    return shown.decode().replace("\r\n", "\n")


# Words


def test_no_letter_from_outside_commands_the_terminal(named: Path, tmp_path: Path) -> None:
    """It is spelt out in rows, columns, names of files and errors, and begins no line; in JSON it is an escape."""
    statement = "SELECT chr(27) || '[31mred' || chr(7) AS \"a\x1b[2J\""
    assert "\\x1b[31mred\\x07" in call("query", statement, "--store", named).out
    assert call("query", statement, "--store", named, "--json").json["rows"] == [["\x1b[31mred\x07"]]
    shutil.copytree(named, tmp_path / "s")
    file = tmp_path / "a\x1b[31m\nerror: b.csv"
    file.write_text("seat0,seat1,winner,game_id\nx,bot:based,0,g\n")
    for words in (("import", file), ("evaluate", "\x1b]0;x\x07\u202e", "--against", "bot:random")):
        called = call(*words, "--store", tmp_path / "s")
        assert not set(called.out + called.err) & set("\x1b\x07\u202e"), called
        assert not any(line.startswith("error") for line in called.out.splitlines())
    assert visible("Grüße 你好\n") == "Grüße 你好\n"
    assert visible("a\x1b\x9b\r\t\u202e\u2028\ud800") == r"a\x1b\x9b\r\t\u202e\u2028\ud800"
    assert one_line("a\x1b\nb\u202e") == r"a\x1b\nb\u202e"


@pytest.mark.parametrize("format", cases("csv", slow=["table", "jsonl", "md"]))
def test_no_query_commands_a_terminal(format: str, named: Path) -> None:
    """A pipe gets data for other programs as it is, escapes and line feeds included."""
    sql = 'SELECT agent_id AS "\x1b[2J", 1 AS n FROM agent ORDER BY ALL'
    shown = on_a_terminal("query", sql, "--format", format, "--store", named, "--quiet")
    assert "\x1b[31m" not in shown and "\x1b[2J" not in shown and "bot:based" in shown, shown
    assert "\nerror: x" not in shown
    if format == "csv":
        done = in_a_process("query", sql, "--format", "csv", "--store", named)
        assert '"import:\x1b[31m李\nerror: x"' in done.stdout.decode(), done


def test_words_are_utf8_in_every_locale(named: Path) -> None:
    """A query and a name with letters that the locale lacks are read; bytes that are no UTF-8 are one line."""
    sql = "SELECT '李' AS x, count(*) FROM agent WHERE contains(name, '李')"
    done = in_a_process("query", sql, "--store", named, "--json", **LOCALE)
    assert done.returncode == 0 and b'[["\\u674e", 1]]' in done.stdout, done
    for words, told in (
        (["leaderboard", "--run", "李"], rb"no run `\u674e`"),
        (["query", os.fsdecode(b"SELECT '\xff'")], b"is not UTF-8"),
        (["leaderboard", "--run", os.fsdecode(b"\xff")], b"is not UTF-8"),
    ):
        done = in_a_process(*words, "--store", named, **LOCALE)
        assert done.returncode == 2 and told in done.stderr and done.stderr.count(b"\n") == 1, done


@pytest.mark.parametrize("encoding", cases("ascii", slow=["latin-1"]))
def test_letters_that_the_output_lacks_are_spelt_out(encoding: str, named: Path) -> None:
    """Every command prints in every encoding; in JSON letters are escapes anyway."""
    called = call("leaderboard", "--store", named, encoding=encoding)
    assert called.code == 0 and r"\u674e" in called.out and not called.err.startswith("error"), called
    assert call("--help", encoding=encoding).code == 0
    assert call("query", "SELECT '日'", "--store", named, "--json", encoding=encoding).json["rows"] == [["日"]]


@needs_full
@pytest.mark.parametrize(
    "line",
    [
        *("runs", "runs --json", "leaderboard", "payoff", "query VALUES(1)", "alarms", "--help", "events --json"),
        *("settings", "doctor", "bots", "imports list --json"),
    ],
)
def test_what_stdout_does_not_take_is_one_line(line: str, named: Path) -> None:
    """A full disk behind stdout ends a command in one line, and Python does not fail again as it ends."""
    given = [] if line == "--help" else ["--store", named, "--quiet"]
    with FULL.open("w") as full:
        need_refusal(call(*line.split(), *given, out=full), 1, "No space left on device", "stdout")
        full.flush()


@pytest.mark.parametrize("line", ["runs", "runs --json", "query VALUES(1)", "settings learner.gamma"])
def test_a_closed_stdout_is_one_line(line: str, named: Path) -> None:
    """Python has none then, and leaves out in silence what is printed."""
    error = io.TextIOWrapper(io.BytesIO(), write_through=True)
    argv = ["league", *line.split(), "--store", str(named), "--quiet"]
    with mock.patch.object(sys, "argv", argv), streams(None, error), pytest.raises(SystemExit, match="1"):
        main()
    told = error.buffer.getvalue().decode()
    assert told == "error: stdout: Bad file descriptor; it is closed: open it, as by `> FILE`\n"


@needs_full
def test_talk_that_nobody_takes_ends_nothing(tmp_path: Path) -> None:
    words = ["evaluate", "bot:random", "--against", "bot:biased", "--env", "matrix", "--games", "2", "--json"]
    with FULL.open("w") as full:
        assert call(*words, "--store", tmp_path / "s", err=full).json["summary"]["games"] == 2


@pytest.mark.slow
def test_words_go_out_through_one_door() -> None:
    """No module prints by itself: `league.printing`, and the callback of a terminal, do."""
    prints = {"print", "typer.echo", "typer.secho", "click.echo", "sys.stdout.write", "sys.stderr.write"}
    for name, tree in modules().items():
        if name not in ("league.printing.__init__", "league.printing.progress"):
            found = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
            assert not found & prints, f"{name}; print through league.printing"
    for node in ast.walk(ast.parse(Path(printing.__file__).read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            assert ast.unparse(node.args[0]).startswith(("one_line(", "json.dumps(")), ast.unparse(node)


@pytest.mark.parametrize("kind", [LeagueError, UsageError])
def test_a_long_message_is_cut(kind: type[LeagueError]) -> None:
    """An error with a long quotation is short, with its beginning and its next step."""
    text = str(kind(f"m.json: bad value {'x' * 70_000}; correct it"))
    assert len(text) < MAX_MESSAGE + 60 and text.startswith("m.json: bad") and text.endswith("; correct it")
    assert str(kind("short; go on")) == "short; go on"


def test_long_words_of_others_are_cut(tmp_path: Path) -> None:
    """What a bot raises, an agent's name, and the columns that an import left out."""
    bots, store = tmp_path / "bots.py", ("--store", tmp_path / "s")
    bots.write_text("def loud(*args, **more):\n    raise ValueError('x' * 70_000)\n")
    (tmp_path / "m.csv").write_text(f"seat0,seat1,winner,{'z' * 70_000}\na,b,0,1\n")
    loud = ("evaluate", "bot:loud", "--against", "bot:random", "--env", "matrix", "--bot", f"{bots}:loud")
    for words in (loud, ("evaluate", "y" * 70_000, "--against", "bot:random"), ("import", tmp_path / "m.csv")):
        called = call(*words, *store, *(("--game-id", "g") if words[0] == "import" else ()))
        assert bool(called.code) == (words[0] == "evaluate"), called.err[:500]
        assert 0 < len(called.out + called.err) < 2 * MAX_MESSAGE


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
    said = need_refusal(call("check", tmp_path / "g.py", "--quiet"), 2, f"its spec's {what} has ")
    assert len(said) < 500


def test_watching_without_stdout_is_one_line(tmp_path: Path) -> None:
    """A closed stdout, and one that is not there, are no terminal."""
    closed = io.StringIO()
    closed.close()
    for out in (None, closed):
        with streams(out, sys.stderr), pytest.raises(UsageError, match="needs a terminal; pass --out"):
            watch("bot:random", "bot:random", env="matrix", store=tmp_path / "s")


def test_a_broken_request_is_one_line_at_most(named: Path, tmp_path: Path) -> None:
    """The server says at most one line of it, and goes on."""
    host = b"Host: 127.0.0.1:{}\r\n"
    broken = [
        b"POST /data HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nZZZ\r\nabc\r\n",
        b"GET / HTTP/1.1\r\n" + host + b"X: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + host + b"Content-Length: -5\r\n\r\n",
        b"\x00\xff\r\n\r\n",
    ]
    command, text = [*PYTHON, "serve", "--port", "0", "--store", str(named)], ""
    with (tmp_path / "out").open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as server:
        try:
            while "http://127.0.0.1:" not in text:
                assert server.poll() is None, text
                time.sleep(0.1)
                text = (tmp_path / "out").read_text()
            port = text.split("http://127.0.0.1:")[1].split("/")[0]
            for request in (*broken, b"GET / HTTP/1.1\r\n" + host + b"\r\n"):
                with socket.create_connection((live.HOST, int(port)), timeout=60) as client:
                    client.sendall(request.replace(b"{}", port.encode()))
                    assert (b" 400 " if request in broken else b" 200 ") in client.recv(4096)
            lines = (tmp_path / "out").read_text().splitlines()
            assert len(lines) <= 1 + len(broken) and "Traceback" not in "".join(lines), lines
        finally:
            server.terminate()


# Files


def test_a_new_file_is_whole_and_takes_nobodys_place(tmp_path: Path) -> None:
    """What came to be there meanwhile stays, a link that leads nowhere too; a failure leaves nothing."""
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    with new_file(path, "--out") as draft:
        draft.write_text("mine")
        assert not path.exists() and draft.parent == tmp_path and draft.suffix == ".txt"
    link.symlink_to(tmp_path / "nowhere")
    for taken in (path, link):
        with pytest.raises(UsageError, match="is there already"), new_file(taken, "--out") as draft:
            draft.write_text("other")
    with pytest.raises(KeyError), new_file(tmp_path / "b.txt", "--out") as draft:
        draft.write_text("half")
        raise KeyError
    assert sorted(tmp_path.iterdir()) == [path, link] and path.read_text() == "mine"


WRITES = [
    ("watch bot:zoner --against bot:punisher --seconds 0.2 --out OUT.png", "write the film"),
    ("matches OUT.jsonl", "read matches"),
    ("payoff --png OUT.png", ""),
]
"""Commands that write a file, and what they do when they have looked whether it is there."""


@pytest.mark.parametrize(("line", "when"), WRITES)
def test_a_file_that_came_meanwhile_or_does_not_fit_is_one_line(
    line: str, when: str, made: Path, tmp_path: Path
) -> None:
    """Somebody's file is as it was; where the disk takes only the beginning nothing of it is left."""
    *words, name = line.split()
    words += [tmp_path / name, "--store", made / "runs", "--quiet"]
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        need_refusal(call(*words), 1, name, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list(tmp_path.iterdir())

    def put(phase: str, begins: bool) -> None:
        if phase == when and begins:
            (tmp_path / name).write_text("theirs")

    if when:
        with listening(put):
            need_refusal(call(*words), 2, "is there already")
        assert (tmp_path / name).read_text() == "theirs" and len(list(tmp_path.iterdir())) == 1


# What the system refuses


@pytest.fixture
def nobody(named: Path) -> Iterator[tuple[Path, Callable[[], Any]]]:
    """A folder with a copy of the store, and a way to be a user who owns nothing in it."""
    folder = Path(tempfile.mkdtemp())
    for module in ("arena.gating", "arena.tournaments", "printing.bars"):
        importlib.import_module(f"league.{module}")  # while its files may be read
    shutil.copytree(named, folder / "s")
    (folder / "a" / "snapshots").mkdir(parents=True)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)

    @contextmanager
    def be() -> Iterator[None]:
        is_root = os.geteuid() == 0
        try:
            if is_root:
                os.seteuid(65534)
            yield
        finally:
            if is_root:
                os.seteuid(0)

    yield folder, be
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    "line",
    [
        *("evaluate bot:random --against bot:biased --env matrix", "tournament bot:random bot:biased --env matrix"),
        *("gate bot:random bot:biased --env matrix", "snapshots list", "runs", "payoff", "matches F/out.csv"),
        *("export F/a F/out", "replay F/a", "leaderboard"),
    ],
)
def test_a_folder_without_rights_is_one_line(line: str, nobody: Any) -> None:
    """Who may not read or write it is told its path; of a part of a store, and has the rest."""
    folder, be = nobody
    plays, is_part = line.startswith(("evaluate", "tournament", "gate")), line == "leaderboard"
    (folder / "s" / "evaluations-0" if is_part else folder).chmod(0o555 if plays else 0o700)
    with be():
        called = call(*line.replace("F/", f"{folder}/").split(), "--store", folder / "s")
    if is_part:
        assert called.code == 0 and "bot:based" in called.out and f"{folder}/s/evaluations-0: " in called.err
    else:
        said = need_refusal(called, 1, str(folder))
        assert "ermission denied" in said or "see to its rights" in said


@pytest.mark.parametrize(
    ("number", "step"),
    [(errno.ENOSPC, "room"), (errno.EROFS, "rights"), (errno.EMFILE, "ulimit -n"), (errno.EIO, "disk"), (5000, "pass")],
)
def test_every_error_of_the_system_has_a_next_step(number: int, step: str) -> None:
    """One line with the path, the system's words and what to do; a bug is none."""
    known = as_known(OSError(number, os.strerror(number), "some/path"))
    assert known is not None and str(known).startswith(f"some/path: {os.strerror(number)}; ") and step in str(known)
    assert "stdout or a file" in str(as_known(OSError(number, "x")))
    assert as_known(MemoryError()) is not None and as_known(error := LeagueError("x")) is error
    assert as_known(ValueError()) is None and as_known(RuntimeError("other")) is None


def test_a_thread_that_the_system_does_not_make_is_one_line(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        called = call("query", "SELECT 1", "--store", named)
    need_refusal(called, 1, "no more threads", "ulimit -u")


def test_a_library_that_does_not_load_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch refuses `TORCH_LOGS=x`."""
    (tmp_path / "odd_library.py").write_text("int('x')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="'x'") as caught:
        importlib.import_module("odd_library")
    assert str(as_known(caught.value)).startswith("odd_library cannot be loaded: ValueError: invalid literal for int()")


def test_a_working_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    """It is said before anything is read, with the next step."""
    folder = tmp_path / "gone"
    folder.mkdir()
    words = f"cd {folder} && rmdir {folder} && exec {shlex.join(PYTHON)} runs"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stdout == "", done
    assert done.stderr == "error: the working folder is gone; go to another one, then try again\n"


def test_a_negative_number_that_rounds_to_zero_has_no_sign() -> None:
    """No signed format writes -0.00, in words and on pages: Python's has a `z`, JavaScript's a `signDisplay`."""
    house = Path(printing.__file__).parents[1]
    for kind, bad in (("py", r"[:\"]\+\.\d+[fg][}\"]"), ("js", r"toLocaleString\((?!.*signDisplay: \"negative\")")):
        lines = [(path.name, line) for path in house.rglob(f"*.{kind}") for line in path.read_text().splitlines()]
        assert lines and [line for line in lines if re.search(bad, line[1])] == []
