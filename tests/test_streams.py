"""Words and files on their way out: one door for each, and what the system refuses is one line with a next step."""

from __future__ import annotations

import ast
import errno
import importlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from league import printing
from league.cli import main
from league.errors import LeagueError, UsageError, as_known, one_line
from league.phases import listening
from league.store.files import check_new, new_file
from league.store.formats import FORMATS, name_problem
from tests.helpers.stores import store_of_match
from tests.test_imports import modules

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a match of two agents, one of whose names no old encoding has."""
    return store_of_match(tmp_path_factory.mktemp("streams"), "import:日本")


@contextmanager
def streams(out: Any, err: Any) -> Iterator[None]:
    """Within it these are stdout and stderr."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = out, err
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def called(*words: object, out: Any = None, err: Any = None, encoding: str = "utf-8") -> tuple[int, str, str]:
    """Exit code of a command in this process, and what is in its streams where they are not given."""
    given = [each or io.TextIOWrapper(io.BytesIO(), encoding, write_through=True) for each in (out, err)]
    argv, sys.argv = sys.argv, ["league", *map(str, words)]
    try:
        with streams(*given), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = argv
    shown = [x.buffer.getvalue().decode(encoding) if isinstance(x.buffer, io.BytesIO) else "" for x in given]
    return int(ended.value.code or 0), shown[0], shown[1]


def need_line(code: int, err: str, *words: str) -> None:
    """One line of an error with `words`, no traceback, exit code 1."""
    lines = [line for line in err.splitlines() if not line.startswith("playing")]
    assert code == 1 and len(lines) == 1 and lines[0].startswith("error: "), (code, err)
    for word in words:
        assert word in lines[0], lines[0]


# Words


@needs_full
@pytest.mark.parametrize(
    "words",
    [
        *(["runs"], ["runs", "--json"], ["leaderboard"], ["payoff"], ["query", "SELECT 1"], ["alarms"], ["--help"]),
        *(["events", "--json"], ["settings"], ["doctor"], ["snapshots", "list"], ["imports", "list", "--json"]),
    ],
    ids=" ".join,
)
def test_what_stdout_does_not_take_is_one_line(words: list[str], store: Path) -> None:
    """A full disk behind stdout ends a command in one line, and Python does not fail again as it ends."""
    given = [] if words == ["--help"] else ["--store", store, "--quiet"]
    with FULL.open("w") as full:
        code, _, err = called(*words, *given, out=full)
        need_line(code, err, "No space left on device", "stdout", "make room")
        full.flush()


@needs_full
def test_talk_that_nobody_takes_ends_nothing(store: Path, tmp_path: Path) -> None:
    """A command goes on where stderr is full, and its data is whole."""
    shutil.copytree(store, tmp_path / "s")
    words = ["evaluate", "bot:random", "--against", "bot:biased", "--env", "matrix", "--games", "2"]
    with FULL.open("w") as full:
        code, out, _ = called(*words, "--store", tmp_path / "s", err=full)
    assert code == 0 and "stored as evaluation-" in out


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_letters_that_the_output_lacks_are_spelt_out(encoding: str, store: Path) -> None:
    """Every command prints in every encoding; in JSON letters are escapes anyway."""
    code, out, err = called("leaderboard", "--store", store, encoding=encoding)
    assert code == 0 and r"\u65e5\u672c" in out and not err.startswith("error"), err
    assert called("--help", encoding=encoding)[0] == 0
    out = called("query", "SELECT '日'", "--store", store, "--json", encoding=encoding)[1]
    assert json.loads(out)["rows"] == [["日"]]


def test_no_name_begins_a_line_or_commands_the_terminal(store: Path, tmp_path: Path) -> None:
    """What comes from files and names is spelt out wherever it is printed: an import's file, an agent, a folder."""
    shutil.copytree(store, tmp_path / "s")
    file = tmp_path / "a\x1b[31m\nerror: b.csv"
    file.write_text("seat0,seat1,winner,game_id\nx,bot:based,0,g\n")
    code, out, err = called("import", file, "--store", tmp_path / "s")
    assert code == 0 and r"a\x1b[31m\nerror: b.csv: 1 of 1 games" in out and "\x1b" not in out + err
    assert not any(line.startswith("error") for line in out.splitlines())
    assert one_line("a\x1b\nb\u202e") == r"a\x1b\nb\u202e"


PRINTS = {"print", "typer.echo", "typer.secho", "click.echo", "sys.stdout.write", "sys.stderr.write"}


def test_words_go_out_through_one_door() -> None:
    """No module prints by itself: `league.printing`, and the callback of a terminal, do."""
    door = {"league.printing.__init__", "league.printing.progress"}
    for name, tree in modules().items():
        for node in ast.walk(tree):
            if name in door or not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            is_print = called in {
                "print",
                "typer.echo",
                "typer.secho",
                "click.echo",
                "sys.stdout.write",
                "sys.stderr.write",
            }
            assert not is_print, f"{name}, line {node.lineno}: {called}; print through league.printing"
    source = ast.parse(Path(printing.__file__).read_text())
    for node in ast.walk(source):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            assert ast.unparse(node.args[0]).startswith(("one_line(", "json.dumps(")), ast.unparse(node)


@pytest.mark.parametrize("name", ["x;=1+1;y", "a,+1", "a|@SUM(A1)", "x; =1+1"])
def test_no_part_of_a_name_is_a_formula(name: str) -> None:
    """Whatever parts cells in some spreadsheet begins no formula."""
    assert "formula" in name_problem(name)


def test_a_row_with_a_separator_is_quoted() -> None:
    """A name with a semicolon or a tab is one cell to whoever reads quotes; other rows are as they were."""
    row = dict.fromkeys(("game_id", "seat0", "seat1", "winner"), "a")
    plain, quoted = list(FORMATS[".csv"].write([row, row | {"seat1": "b;c"}]))[-2:]
    assert plain == "game_id,seat0,seat1,winner\na,a,a,a\n" and quoted.startswith('"a","a","b;c","a"')


# Files


def test_a_new_file_is_whole_and_takes_nobodys_place(tmp_path: Path) -> None:
    """What came to be there meanwhile stays, a link that leads nowhere too; a failure leaves nothing."""
    path = tmp_path / "a.txt"
    with new_file(path, "--out") as draft:
        draft.write_text("mine")
        assert not path.exists() and draft.parent == tmp_path and draft.suffix == ".txt"
    assert path.read_text() == "mine"
    with pytest.raises(UsageError, match="is there already"), new_file(path, "--out") as draft:
        draft.write_text("other")
    link = tmp_path / "link.txt"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="is there already"):
        check_new(link, "--out")
    with pytest.raises(UsageError, match="is there already"), new_file(link, "--out") as draft:
        draft.write_text("x")
    with pytest.raises(KeyError), new_file(tmp_path / "b.txt", "--out") as draft:
        draft.write_text("half")
        raise KeyError
    assert path.read_text() == "mine" and link.is_symlink() and not (tmp_path / "nowhere").exists()


WATCH = ("watch", "bot:zoner", "--against", "bot:punisher", "--seconds", "0.2", "--out", "OUT.png")
WRITES = [(WATCH, "write the film"), (("matches", "OUT.jsonl"), "read matches"), (("payoff", "--png", "OUT.png"), "")]
"""Commands that write a file, and what they do when they have looked whether it is there."""


@pytest.mark.parametrize(("words", "when"), WRITES[:2], ids=["watch", "matches"])
def test_no_command_overwrites_what_came_meanwhile(
    words: tuple[str, ...], when: str, store: Path, tmp_path: Path
) -> None:
    """A file that somebody puts there while a command works is as it was, and nothing else is left."""
    out = tmp_path / words[-1]

    def put(name: str, begins: bool) -> None:
        if name == when and begins:
            out.write_text("theirs")

    with listening(put):
        code, _, err = called(*words[:-1], out, "--store", store, "--quiet")
    assert code == 2 and "is there already" in err and out.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(("words", "when"), WRITES, ids=["watch", "matches", "payoff"])
def test_a_file_that_does_not_fit_is_one_line_and_leaves_nothing(
    words: tuple[str, ...], when: str, store: Path, tmp_path: Path
) -> None:
    """Where the disk takes only the beginning of a file nothing of it is left."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limit[1]))
    try:
        code, _, err = called(*words[:-1], tmp_path / words[-1], "--store", store, "--quiet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    need_line(code, err, words[-1], "File too large", "make room")
    assert not list(tmp_path.iterdir())


# What the system refuses


@pytest.fixture
def nobody(store: Path) -> Iterator[Callable[[], Any]]:
    """A folder with a copy of the store, and a way to be a user who owns nothing in it."""
    folder = Path(tempfile.mkdtemp())
    for module in ("arena.gating", "arena.tournaments", "printing.bars"):
        importlib.import_module(f"league.{module}")  # while its files may be read
    shutil.copytree(store, folder / "s")
    (folder / "a" / "snapshots").mkdir(parents=True)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)

    @contextmanager
    def be() -> Iterator[Path]:
        is_root = os.geteuid() == 0
        try:
            if is_root:
                os.seteuid(65534)
            yield folder
        finally:
            if is_root:
                os.seteuid(0)

    yield be
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


COMMANDS = [
    *(["evaluate", "bot:random", "--against", "bot:biased", "--env", "matrix"], ["snapshots", "list"], ["runs"]),
    *(
        ["tournament", "bot:random", "bot:biased", "--env", "matrix"],
        ["gate", "bot:random", "bot:biased", "--env", "matrix"],
        ["payoff"],
    ),
    *(["matches", "OUT.csv"], ["export", "FOLDER/a", "OUT"], ["replay", "FOLDER/a"]),
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_a_folder_without_rights_is_one_line(words: list[str], nobody: Any) -> None:
    """Whoever may not read or write ends in one line with the path, and nothing has been played for nothing."""
    with nobody() as folder:
        pass
    folder.chmod(0o700 if words[0] in ("runs", "payoff", "matches", "export", "replay", "snapshots") else 0o555)
    words = [word.replace("FOLDER", str(folder)).replace("OUT", str(folder / "out")) for word in words]
    with nobody():
        code, _, err = called(*words, "--store", folder / "s")
    need_line(code, err, "ermission denied" if "you may not" not in err else "see to its rights", str(folder))


def test_a_part_of_a_store_without_rights_is_left_out(nobody: Any) -> None:
    """Whoever may not read one folder of the store is told so in a line, and has the rest."""
    with nobody() as folder:
        pass
    (folder / "s" / "evaluations-0").chmod(0o700)
    with nobody():
        code, out, err = called("leaderboard", "--store", folder / "s")
    assert code == 0 and "bot:based" in out, err
    assert (
        f"{folder}/s/evaluations-0: cannot be read (Permission denied), so it is left out; see to its rights\n" in err
    )


@pytest.mark.parametrize(
    ("number", "step"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EROFS, "rights"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "disk"),
        (5000, "pass"),
    ],
)
def test_every_error_of_the_system_has_a_next_step(number: int, step: str) -> None:
    """One line with the path, the system's words and what to do; a bug is none."""
    known = as_known(OSError(number, os.strerror(number), "some/path"))
    assert known is not None and str(known).startswith(f"some/path: {os.strerror(number)}; ") and step in str(known)
    assert "stdout or a file" in str(as_known(OSError(number, "x")))
    assert as_known(MemoryError()) is not None and as_known(ValueError()) is None
    assert as_known(error := LeagueError("x")) is error
