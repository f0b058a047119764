"""The door for games: addresses, what is imported and what is refused, what is remembered, whose settings hold."""

import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import pytest

from league import config, errors
from league.arena import consent, fitting, games
from league.config import updates
from league.envs import adapters, entry_points, registry
from league.envs.classic import matrix
from league.envs.sources import parse
from league.errors import CodeError, ConfigError, LeagueError, UsageError
from league.sessions.settling import check_settings
from league.types import ActionSpec, GameSpec, Source
from tests.helpers.games import forget, new_user, times_run, write_game
from tests.helpers.refusals import refusal


@pytest.fixture(autouse=True)
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user who has named nothing, in an empty folder; the list's path."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with new_user(tmp_path) as path:
        yield path


def named(name: str) -> Any:
    """The matrix game as an object of another name."""

    class Batch(matrix.MatrixBatch):
        def __init__(self, rows: int, options: matrix.Options) -> None:
            super().__init__(rows, options)
            self.spec = spec(options)

    def spec(options: matrix.Options) -> GameSpec:
        return replace(matrix.spec(options), name=name)

    def make(rows: int, threads: int, options: matrix.Options) -> Batch:
        return Batch(rows, options)

    return SimpleNamespace(Options=matrix.Options, spec=spec, make=make)


# Addresses


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("kuhn", ("name", "kuhn", "")),
        ("a b/game.py:Duel", ("file", "a b/game.py", "Duel")),
        ("../x:y/game.py", ("file", "../x:y/game.py", "")),
        ("package.module:Duel", ("module", "package.module", "Duel")),
        ("module:Duel", ("module", "module", "Duel")),
        ("openspiel:kuhn_poker(players=2)", ("scheme", "openspiel", "kuhn_poker(players=2)")),
        ("gymnasium:league/Brawl-v0", ("scheme", "gymnasium", "league/Brawl-v0")),
    ],
)
def test_an_address_is_taken_apart(text: str, parts: tuple[str, str, str]) -> None:
    """A name, a file, a module or a scheme, each with what stands behind its colon."""
    found = parse(text)
    assert (found.kind, found.place, found.part) == parts


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "no game's name") for text in ("", "a\nb", "-x.y")),
        *((text, "behind the colon") for text in ("game.py:", "game.py:a b", "game.py:Duel.part")),
        *((text, "there is no such file") for text in ("there.py", "here.py")),
        *((text, "no module") for text in ("no.such.module", "league.envs.nothing:X")),
        *(("runs/league.duckdb", "ends in .py"), ("openspiel:", "names no game"), ("folder.py", "Is a directory")),
        *(("sys:path", "no file of code"), ("kuhm", "`kuhn`"), ("x" * 300 + ".py", "too long")),
        ("openspiel:" + "x" * 5_000, "is too long"),
    ],
)
def test_what_is_no_address_is_one_line(text: str, words: str) -> None:
    """It names what was given, and runs and remembers nothing."""
    Path("folder.py").mkdir()
    Path("here.py").symlink_to("nowhere.py")
    before = set(sys.modules), list(sys.path)
    assert words in refusal(lambda: games.enter(text), ConfigError)
    assert (set(sys.modules), list(sys.path)) == before and not consent.named()


def test_a_scheme_without_its_adapter_or_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two in one line; with both, the adapter is given what stands behind the colon."""
    scheme = adapters.SCHEMES["openspiel"]
    monkeypatch.syspath_prepend(str(Path.cwd()))
    Path("lacking.py").write_text("import pyspiel_is_not_here\n")
    Path("whole.py").write_text("def open(rest):\n    return GAMES[rest]\n")
    for module, words in (("league.envs.adapters.nobody", "no adapter"), ("lacking", "league-engine[openspiel]")):
        monkeypatch.setitem(adapters.SCHEMES, "openspiel", scheme._replace(module=module))
        assert words in refusal(lambda: games.enter("openspiel:go"))
    importlib.import_module("whole").GAMES = {"go(size=3)": named("tiny")}
    monkeypatch.setitem(adapters.SCHEMES, "openspiel", scheme._replace(module="whole"))
    assert games.enter("openspiel:go(size=3)") == "tiny"
    assert registry.source("tiny").address == "openspiel:go(size=3)" and not registry.source("tiny").sha256
    forget()
    then = Source("openspiel:go(size=3)", adapters.library_version("openspiel"))
    assert games.find_again("tiny", then, "r") == ""
    forget()
    assert "was never named" in refusal(lambda: games.find_again("tiny", Source("openspiel:go"), "r"), UsageError)


# What is found in a module

CLASSES = """
class Whole:
    Options = Options
    def spec(self, options): return spec(options)
    def make(self, rows, threads, options): return make(rows, threads, options)

class Static:
    Options = Options
    spec = staticmethod(spec)
    make = staticmethod(make)

class Gives:
    @classmethod
    def as_game(cls): return Static

class Own(Whole):
    DEFAULTS = {'env': {'rounds': 5}}

whole = Whole()
number = 3
"""


@pytest.mark.parametrize("part", ["", ":Whole", ":Static", ":Gives", ":whole"])
def test_a_game_is_a_module_a_class_an_object_or_gives_one(part: str) -> None:
    """Each is trained on by its own name, which a process that begins later finds again."""
    write_game(Path("game.py"), CLASSES)
    assert games.enter(f"game.py{part}") == "duel"
    assert registry.make("duel", rows=3, threads=1, options={"rounds": 2}).num_rows == 3
    then = registry.source("duel")
    assert then.address == str(Path("game.py").resolve()) + part
    forget()
    assert games.find_again("duel", then, "run r") == "" and registry.source("duel") == then


def test_the_only_game_of_a_module_needs_no_name() -> None:
    """Imported games and base classes are not the module's own; none and several are one line with their names."""
    body = """
    from league.envs.classic import kuhn
    from abc import ABC, abstractmethod
    import importlib.util as _u
    _s = _u.spec_from_file_location('hidden_duel', 'whole.py')
    _GAME = _u.module_from_spec(_s)
    _s.loader.exec_module(_GAME)

    class Base(ABC):
        @abstractmethod
        def rule(self): ...
        @classmethod
        def as_game(cls): return _GAME

    class Duel(Base):
        def rule(self): return 1
    """
    write_game(Path("whole.py"))
    text = textwrap.dedent(body)
    Path("one.py").write_text(text)
    assert games.enter("one.py") == "duel"
    Path("two.py").write_text(text + "\nclass Other(Duel): pass\n")
    Path("none.py").write_text("x = 1")
    for given, words in {
        "two.py": ":Duel or :Other",
        "two.py:Dual": "`Duel`",
        "none.py": "it defines no game",
        "none.py:x": "int is no game",
    }.items():
        assert words in refusal(lambda given=given: games.enter(given))  # type: ignore[misc]


def test_a_module_of_a_package_is_found_without_running_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """`package.module:NAME` in this folder or installed; nothing is imported before it is looked up."""
    write_game(Path("pack/inner/game.py"), CLASSES)
    for folder in ("pack", "pack/inner"):
        Path(folder, "__init__.py").write_text(f"open({str(Path.cwd() / 'marks')!r}, 'a').write('{folder} ')\n")
    then = Source("pack.inner.game:Whole", "", "0" * 64)
    assert "was never named" in refusal(lambda: games.find_again("duel", then, "r"), UsageError)
    assert not Path("marks").exists() and "pack" not in sys.modules
    try:
        assert games.enter("pack.inner.game:Whole") == "duel"
        assert Path("marks").read_text() == "pack pack/inner " and times_run(Path("pack/inner")) == 1
        [entry] = consent.named()
        assert (entry.address, entry.file) == ("pack.inner.game:Whole", str(Path("pack/inner/game.py").resolve()))
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "pack"]:
            del sys.modules[name]
    forget()
    then, here = Source(entry.address, "", entry.sha256), Path.cwd()
    (here / "other").mkdir()
    monkeypatch.chdir(here / "other")  # somebody else's folder, with the same file and another package around it
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(here)])
    write_game(Path("pack/inner/game.py"), CLASSES)
    Path("pack/__init__.py").write_text(f"open({str(here / 'marks')!r}, 'a').write('theirs')\n")
    Path("pack/inner/__init__.py").touch()
    assert "pass --env pack.inner.game:Whole" in refusal(lambda: games.find_again("duel", then, "r"), UsageError)
    assert "theirs" not in (here / "marks").read_text()


def test_a_file_imports_its_siblings(capsys: pytest.CaptureFixture[str]) -> None:
    """Also while it plays; what it prints goes to stderr, and its folder hides no module that is installed."""
    Path("rules_of_duel.py").write_text("ROUNDS = 3\n")
    Path("late_of_duel.py").write_text("ROUNDS = 4\n")
    more = "import rules_of_duel\nprint('loading')\ndef late():\n    import late_of_duel\n"
    write_game(Path("game.py"), more + "    return late_of_duel.ROUNDS\nlate.ROUNDS = rules_of_duel.ROUNDS\n")
    games.enter("game.py")
    module: Any = registry._games["duel"]
    assert (module.late.ROUNDS, module.late()) == (3, 4) and capsys.readouterr() == ("", "loading\n")
    assert sys.path[0] != str(Path.cwd()) and sys.path[-1] == str(Path.cwd())


def test_a_game_does_not_play_by_the_rules_of_another() -> None:
    """Two games of one process, each with a sibling of one name: the second is refused, not given the first's."""
    for name in ("one", "two"):
        write_game(Path(name, "game.py"), "import rules_of_it\nROUNDS = rules_of_it.ROUNDS\n", name=name)
        Path(name, "rules_of_it.py").write_text(f"ROUNDS = {len(name)}\n")
    try:
        assert games.enter("one/game.py") == "one"
        assert str(Path("one/rules_of_it.py").resolve()) in refusal(lambda: games.enter("two/game.py"))
        del sys.modules["rules_of_it"]
        assert games.enter("two/game.py") == "two"
    finally:
        sys.modules.pop("rules_of_it", None)


def test_a_class_has_the_defaults_of_its_module_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its address and as an object: so both are one configuration. Its own go before those of its module."""
    write_game(Path("duel_classes.py"), CLASSES + "DEFAULTS = {'env': {'rounds': 3}}\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    module = importlib.import_module("duel_classes")
    found = []
    for env in ("duel_classes.py:Whole", module.Whole, "duel_classes.py:Own", module.Own, module):
        forget()
        found.append(games.load_settings("smoke", env=games.enter(env))[0].env.options["rounds"])
    assert found == [3, 3, 5, 5, 3]
    del sys.modules["duel_classes"]


# What is refused

SPEC = "def spec(options): return replace(_matrix.spec(options), name=NAME, {})\n"
MAKE = "def make(rows, threads, options):\n    it = _Batch(rows, options)\n    {}\n    return it\n"
FAILS: dict[str, tuple[str, str]] = {
    "syntax": ("def f(:\n", r"SyntaxError: invalid syntax"),
    "raises": ("1 / 0\n", r"ZeroDivisionError"),
    "no package": ("from . import rules\n", r"import it without the dot, or name the file by its package"),
    "exits": ("raise SystemExit(3)\n", r"SystemExit: 3"),
    "null": ("\0", r"null bytes|source code"),
    "bad spec": (SPEC.format("anchor='x'"), r"anchor='x' is none"),
    "box": ("from league.types import ActionSpec\n" + SPEC.format("action=ActionSpec('boxes', (2,))"), r"'boxes'"),
    "half ticks": (SPEC.format("ticks_per_step=1.5"), r"ticks_per_step=1\.5"),
    "text": (SPEC.format("obs_size='8'"), r"obs_size='8'"),
    "names": (SPEC.format("bots='x'"), r"bots='x'"),
    "make fails": ("def make(rows, threads, options): return {}['x']\n", r"KeyError: 'x'"),
}
"""Kinds whose code raises something; all but `null` have a line."""
BROKEN: dict[str, tuple[str, str]] = {
    "no name": ("NAME = ''\n", r"name=''"),
    "options": ("Options = dict\n", r"Options must be a pydantic model"),
    "defaults": ("class Options(Options):\n    size: int = 'many'\n", r"Options do not hold: env\.size='many'"),
    "shared": ("class Options(Options):\n    rows: int = 3\n", r"its option rows is a setting of \[env\], too"),
    "checked": (
        "class Options(Options):\n    model_config = {'validate_default': True}\n    size: int = 'big'\n",
        r"env\.size='big'",
    ),
    "needed": ("class Options(Options):\n    size: int\n", r"Options do not hold: env\.size"),
    "no spec": ("def spec(options): return 3\n", r"int, no GameSpec"),
    "make none": ("def make(rows, threads, options): return None\n", r"the batch's spec is not the game's"),
    "three seats": (MAKE.format("import numpy as np; it.obs = np.zeros((rows, 3, 8), np.float32)"), r"\(2, 3, 8\)"),
    "missing": (MAKE.format("del it.final_obs"), r"`final_obs`"),
    "table": ("DEFAULTS = 3\n", r"DEFAULTS=3"),
    "section": ("DEFAULTS = {'agnet': {}}\n", r"\[agnet\] cannot be set here; did you mean `agent`"),
    "run": ("DEFAULTS = {'run': {'total_steps': 5}}\n", r"\[run\] cannot be set here"),
    "key": ("DEFAULTS = {'agent': {'lstm_sise': 8}}\n", r"agent\.lstm_sise .*`lstm_size`"),
    "value": ("DEFAULTS = {'agent': {'lstm_size': 0}}\n", r"its DEFAULTS: agent\.lstm_size=0"),
    "bot": ("DEFAULTS = {'pool': {'mix': {'bot:nobody': 1.0}}}\n", r"duel has no such opponent"),
    "term": ("DEFAULTS = {'rewards': {'vin': 1.0}}\n", r"rewards\.vin=1"),
    "option": ("DEFAULTS = {'env': {'round': 3}}\n", r"env\.round=3 .*`rounds`"),
    "env name": ("DEFAULTS = {'env': {'name': 'kuhn'}}\n", r"a game's name is that of its spec"),
}


@pytest.mark.parametrize("kind", [*FAILS, *BROKEN])
def test_a_broken_game_is_one_line(kind: str) -> None:
    """It names the file, the rule and, where its own code fails, the line; nothing is registered or remembered."""
    more, words = (FAILS | BROKEN)[kind]
    path = write_game(Path("game.py"))
    path.write_text("\n".join([*path.read_text().rstrip("\n").split("\n"), *[""] * 40][:39]) + "\n" + more)
    message = refusal(lambda: games.enter("game.py"), CodeError if kind in FAILS else ConfigError)
    place = r"game\.py, line [34]\d" if kind in FAILS and kind != "null" else r"game\.py"
    assert re.search(words, message) and re.search(place, message), message
    assert len(re.findall(", line ", message)) == (kind in FAILS and kind != "null"), message
    assert "duel" not in registry.games() and not consent.named()
    write_game(path)
    assert games.enter("game.py") == "duel"


def test_a_path_that_cannot_be_written_down_is_refused() -> None:
    """Letters that no list could hold, in the folder itself or behind a link."""
    for name in (b"a\xff", b"a\nb"):
        folder = Path(os.fsdecode(name))
        write_game(folder / "game.py")
        Path("link.py").unlink(missing_ok=True)
        Path("link.py").symlink_to(folder / "game.py")
        assert "cannot be written down" in refusal(lambda: games.enter("link.py"))
        assert times_run(folder) == 0


# Names


def test_two_games_of_one_name_are_a_line_and_one_game_twice_is_none() -> None:
    """The same file again, changed too, or a class that a notebook makes again, takes its own place."""
    path = write_game(Path("game.py"))
    assert games.enter("game.py") == games.enter(str(path.resolve())) == "duel" and times_run(Path(".")) == 1
    first = registry.source("duel")
    write_game(path, "# another line\n")
    assert games.enter("./game.py") == "duel" and times_run(Path(".")) == 2
    assert registry.source("duel").sha256 != first.sha256
    write_game(Path("other/game.py"), "# of somebody else\n")
    write_game(Path("matrix.py"), name="matrix")
    for other in ("other/game.py", named("duel"), "matrix.py"):
        assert "already registered" in refusal(lambda other=other: games.enter(other))  # type: ignore[misc]
    assert games.enter("matrix") == games.enter(matrix) == "matrix" and not registry.source("matrix").address

    def cell() -> Any:
        class Cell:
            Options = matrix.Options
            spec, make = staticmethod(named("cell").spec), staticmethod(named("cell").make)

        return Cell

    assert games.enter(cell()) == games.enter(cell()) == "cell" and registry.source("cell") == Source()


def test_an_installed_game_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its installation is consent; its version and hash are kept; a wrong name, or two of one, are a line."""

    def install(folder: str, name: str, version: str, points: str) -> Path:
        site = Path(folder).resolve()
        info = site / f"{name}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[league.games]\n{points}")
        monkeypatch.syspath_prepend(str(site))
        return site

    site = install("site", "duels", "1.5", "duel = duel_game\nwrong = wrong_game\ngone = not_here_x\n")
    write_game(site / "duel_game.py")
    write_game(site / "wrong_game.py", name="right")
    try:
        assert entry_points.names("league.games") == ("duel", "gone", "wrong") and times_run(site) == 0
        assert games.enter("duel") == "duel" and not consent.named() and times_run(site) == 1
        source = registry.source("duel")
        assert (source.address, source.version, len(source.sha256)) == ("duel", "1.5", 64)
        forget()
        assert games.find_again("duel", source, "r") == ""
        assert games.find_again("duel", replace(source, version="1.4"), "r").endswith("version 1.5, and was of 1.4")
        assert "calls itself 'right'" in refusal(lambda: registry.spec("wrong", {}))
        assert "No module named 'not_here_x'" in refusal(lambda: registry.spec("gone", {}), CodeError)
        other = install("site2", "duels2", "1.0", "duel = wrong_game\n")
        forget()
        assert "offered by duels and duels2" in refusal(lambda: registry.spec("duel", {}))
        monkeypatch.setattr(errors, "_user_folders", {f"{other}{os.sep}"})
        assert registry.spec("duel", {}).name == "duel"
    finally:
        for name in ("duel_game", "wrong_game"):
            sys.modules.pop(name, None)
    forget()
    monkeypatch.undo()
    assert "is not installed here" in refusal(lambda: games.find_again("duel", source, "r"), UsageError)


# What is remembered


def test_code_runs_where_it_was_named_as_it_is(listed: Path) -> None:
    """Named, found again in another process; edited, asked for; named again; back to what it was: no question."""
    path = write_game(Path("game.py")).resolve()
    then = Source(str(path))
    assert "was never named here by you" in refusal(lambda: games.find_again("duel", then, "run r"), UsageError)
    assert times_run(Path(".")) == 0
    games.enter("game.py")
    then = registry.source("duel")
    assert [(e.address, e.game, e.sha256) for e in consent.named()] == [(str(path), "duel", then.sha256)]
    text = path.read_text()
    forget()
    path.write_text(text + "# edited\n")
    message = refusal(lambda: games.find_again("duel", then, "run r"), UsageError)
    assert "has changed since you named it" in message and f"--env {path}" in message and times_run(Path(".")) == 1
    told: list[str] = []
    assert games.find_again("duel", then, "run r", "game.py", told.append) == told[0]
    assert "is not what run r began with" in told[0]
    forget()
    path.write_text(text)
    assert games.find_again("duel", then, "run r") == "" and len(json.loads(listed.read_text())["games"]) == 2
    assert "run r had it from no file; now it comes from" in games.find_again("duel", Source(""), "run r")


def test_a_file_that_is_gone_or_moved_is_told() -> None:
    """Gone: one line. Moved and named there once: found by every command since, and said."""
    path = write_game(Path("game.py")).resolve()
    games.enter("game.py")
    then = registry.source("duel")
    forget()
    Path("deeper").mkdir()
    path.rename("deeper/moved.py")
    assert "which is gone" in refusal(lambda: games.find_again("duel", then, "run r"), UsageError)
    games.enter("deeper/moved.py")
    forget()
    told = games.find_again("duel", then, "run r")
    assert told.endswith(f"{path} and now comes from {Path('deeper/moved.py').resolve()}, unchanged")
    forget()
    write_game(Path("kuhns.py"), name="other")
    assert "is the game other" in refusal(lambda: games.find_again("duel", then, "run r", "kuhns.py"), UsageError)
    assert "you named it before as" in refusal(lambda: games.enter("duel"))
    for file in ("own/__init__.py", "own.py"):
        write_game(Path(file))
        assert refusal(lambda: games.enter("own")).endswith(f"a file is named by its path: --env {file}")


def test_without_a_home_it_is_remembered_for_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Said once, with the reason; so too where the list cannot be written, or is damaged, which is not overwritten."""
    write_game(Path("game.py"))
    said: list[str] = []
    monkeypatch.delenv("XDG_CONFIG_HOME")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError()))
        for _ in range(2):
            games.enter("game.py", said.append)
            assert len(said) == 1 and "for this process only (this user has no home folder)" in said[0]
        then = registry.source("duel")
        assert consent.is_named("duel", then)
        forget()
        assert "never named" in refusal(lambda: games.find_again("duel", then, "r"), UsageError)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    games.enter("game.py", said.append)
    assert "for this process only" in said[1] and "Not a directory" in said[1]
    forget()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "damaged"))
    damaged = tmp_path / "damaged" / "league" / "games.json"
    damaged.parent.mkdir(parents=True)
    for text in ("{", "[]", '{"format": 2, "games": []}', "[" * 100_000, '{"games": [{"address": 3}]}'):
        damaged.write_text(text)
        games.enter("game.py", said.append)
        assert "is damaged" in said[-1] and damaged.read_text() == text
        forget()
        assert "is damaged" in refusal(lambda: games.find_again("duel", then, "r"), LeagueError)
    monkeypatch.setenv("HOME", str(tmp_path))
    for value in ("", "relative"):
        monkeypatch.setenv("XDG_CONFIG_HOME", value)
        assert consent.list_path() == tmp_path / ".config" / "league" / "games.json"


def test_many_name_games_at_once(listed: Path) -> None:
    """What each has named is in the list, which is whole at every moment."""
    code = "import sys\nfrom league.arena import consent\nfrom league.types import Source\n"
    code += "for i in range(10): assert not consent.remember('g', Source(f'/x/{sys.argv[1]}-{i}.py', '', 'ab' * 32))\n"
    others = [subprocess.Popen([sys.executable, "-c", code, str(n)]) for n in range(2)]

    def here(n: int) -> None:
        for i in range(10):
            assert not consent.remember("g", Source(f"/y/{n}-{i}.py", "", "ab" * 32))

    threads = [threading.Thread(target=here, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) or any(other.poll() is None for other in others):
        consent.named()
    assert [other.wait() for other in others] == [0, 0]
    assert len({entry.address for entry in consent.named()}) == len(consent.named()) == 50
    assert sorted(path.name for path in listed.parent.iterdir()) == ["games.json"]


# Settings


def test_defaults_lie_where_a_games_table_does() -> None:
    """Above the base, below preset, stage, file and --set; what they leave out follows from the spec, and is said."""
    more = """
DEFAULTS = {
    "agent": {"lstm_size": 24, "head_sizes": (12,)},
    "learner": {"gamma": 0.5, "epochs": 9, "minibatch_size": 99},
    "env": {"rounds": 7, "rows": 999},
    "rewards": {"payoff": 2.0},
    "pool": {"sampler": "uniform", "mix": {"self_play": 0.5, "bot:biased": 0.5}},
}
"""
    write_game(Path("game.py"), more)
    name = games.enter("game.py")
    found, told = games.load_settings("smoke", env=name)
    base = config.load("smoke", env="kuhn")
    assert (found.agent.lstm_size, found.agent.head_sizes) == (24, (12,))
    assert (found.learner.gamma, found.learner.epochs) == (0.5, 9)
    assert (found.learner.minibatch_size, found.env.rows) == (
        base.learner.minibatch_size,
        base.env.rows,
    )  # the preset's
    assert found.env.options["rounds"] == 7 and dict(found.rewards) == {"payoff": 2.0}
    assert found.pool.mix == {"self_play": 0.5, "bot:biased": 0.5} and found.pool.sampler == "uniform"
    assert found.agent.encoder_width == 16 and told == ""
    Path("my.toml").write_text("[agent]\nlstm_size = 48\n[env]\nrounds = 8\n")
    over, _ = games.load_settings("smoke", env=name, config_file="my.toml", overrides=["env.rounds=9"])
    assert (over.agent.lstm_size, over.env.options["rounds"]) == (48, 9)
    assert games.load_settings("smoke", env=name)[0] == found


def test_a_game_that_brings_nothing_gets_an_agent_of_its_size() -> None:
    """`win` weighs 1, the mix has its bots, and one line says what was taken; no built-in game is touched."""
    write_game(Path("game.py"))
    found, told = games.load_settings("test50k", env=games.enter("game.py"))
    assert dict(found.rewards) == {"win": 1.0} and "sized to 8 observed numbers" in told and "reward" not in told
    shares = {"current": 0.64, "self_play": 0.16, "bot:biased": 0.1, "bot:constant": 0.1}
    assert found.pool.mix == pytest.approx(shares) and found.learner.magnet == 0.2 and "magnet of 0.2" in told
    assert (found.agent.lstm_size, found.agent.encoder_width) == (32, 16)
    for given, words in (
        ("agent=small", "an agent (LSTM 128, no opponent encoder)"),
        ("agent.lstm_size=48", "an agent (LSTM 48, opponent encoder 16)"),
    ):
        assert words in games.load_settings("test50k", env=found.env.name, overrides=[given])[1]
    forget()
    write_game(Path("game.py"), "_all = spec\n" + SPEC.format("reward_terms=('payoff', 'won')"))
    found, told = games.load_settings("smoke", env=games.enter("game.py"))
    assert dict(found.rewards) == {"payoff": 1.0, "won": 1.0} and "every reward term weighs 1 (payoff, won)" in told
    for name in ("brawl", "matrix", "kuhn", "leduc"):
        settings, told = games.load_settings("test50k", env=name)
        plain = config.load("test50k", env=name)
        assert told == "" and settings == config.with_options(plain, registry.check_options(name, plain.env.options))


def test_an_agent_is_sized_to_its_game() -> None:
    """Over a wide range of games it can be built, grows with them, and is far from 7.4 million parameters."""
    from league.arena.networks import architecture_of
    from league.policies.actor_critic import ActorCritic

    plain, sizes = matrix.spec(matrix.Options()), []
    base = config.load("smoke", env="matrix")
    for obs_size, choices, ticks in ((1, (2,), 1), (84, (7,), 1), (400, (2, 9), 2), (3_000, (4_672,), 1)):
        for half in (0, obs_size // 2 or 1):
            action = ActionSpec("multi_discrete", choices)
            spec = replace(plain, obs_size=obs_size, opponent_slice=(0, half), action=action, ticks_per_step=ticks)
            layer = fitting.default_layer(spec, {})
            data = config.to_json(base)
            data |= {"agent": data["agent"] | layer["agent"], "rewards": layer["rewards"]}
            made = config.from_json(data | {"pool": data["pool"] | layer["pool"]})
            check_settings(made, spec)
            architecture = architecture_of(made, spec)
            assert architecture.history_tokens == fitting.HISTORY_DECISIONS
            assert architecture.opponent_encoder == (half > 0)
            number = sum(weights.numel() for weights in ActorCritic(architecture).parameters())
            assert 5_000 < number < 1_500_000 + obs_size * 256 * 2 + sum(choices) * 256
            sizes += [number] if half else []
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("count", [0, 1, 5, 6, 43])
def test_a_mix_has_all_bots_of_a_game(count: int) -> None:
    """Few have a share each, many share one; either is a mix that a run of the default width can be drawn from.

    A game of imperfect information gives most of the rest to the learner as it is now, and nothing to `random` alone.
    """
    spec = replace(matrix.spec(matrix.Options()), bots=tuple(f"b{i}" for i in range(count)), floor=None)
    drawn, alone = fitting.mix_for(spec)["mix"], fitting.mix_for(replace(spec, bots=("random",)))["mix"]
    assert drawn["current"] == pytest.approx(4 * drawn["self_play"]) and alone == {"current": 0.8, "self_play": 0.2}
    spec = replace(spec, imperfect_information=False)
    assert fitting.mix_for(replace(spec, bots=("random",)))["mix"] == {"self_play": 0.8, "bot:random": 0.2}
    base = config.to_json(config.load("test50k", env="matrix"))
    made = config.from_json({**base, "pool": {**base["pool"], **fitting.mix_for(spec)}})
    fitting.check_mix(made, spec)
    updates.check(made)
    met = {*made.pool.mix, *(member for group in made.pool.groups.values() for member in group)}
    assert {f"bot:b{i}" for i in range(count)} <= met and made.pool.mix["self_play"] >= 0.8


# Classes and files of environments

ENVIRONMENTS = """
import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Walk(gymnasium.Env):
    observation_space, action_space = spaces.Box(-9, 9, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, length=5):
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.x = 0, self.np_random.uniform()
        return self.see(), {}

    def see(self):
        return np.array([self.x, self.t], np.float32)

    def step(self, action):
        self.t += 1
        self.x += action
        return self.see(), float(action), self.t >= self.length, False, {}


class Both(ParallelEnv):
    metadata, render_mode, possible_agents = {"name": "both_v0"}, None, ["a", "b"]
    observation_space = lambda self, agent: Walk.observation_space
    action_space = lambda self, agent: Walk.action_space

    def reset(self, seed=None, options=None):
        self.agents, self.walks = ["a", "b"], {x: Walk() for x in "ab"}
        firsts = {x: walk.reset(seed=seed) for x, walk in self.walks.items()}
        return {x: first[0] for x, first in firsts.items()}, {x: {} for x in "ab"}

    def step(self, actions):
        each = {x: self.walks[x].step(action) for x, action in actions.items()}
        self.agents = [x for x in self.agents if not each[x][2]]
        return tuple({x: values[i] for x, values in each.items()} for i in range(5))
"""


@pytest.fixture
def ponds(monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of environments, which can be imported as well."""
    pytest.importorskip("pettingzoo")
    Path("ponds.py").write_text(ENVIRONMENTS)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    sys.modules.pop("ponds", None)
    return Path("ponds.py").resolve()


@pytest.mark.parametrize(
    "address", ["gymnasium:./ponds.py:Walk", "gymnasium:ponds.py", "gymnasium:ponds:Walk", "pettingzoo:./ponds.py:Both"]
)
def test_an_environment_in_a_file_is_found_from_any_folder(
    address: str, ponds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its whole path, where it lay when it was named; not once the file has changed."""
    name = games.enter(address)
    assert name == f"{address.partition(':')[0]}-{'Both' if 'Both' in address else 'Walk'}"
    then = registry.source(name)
    assert len(then.sha256) == 64
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(ponds.parent))])
    monkeypatch.chdir(tmp_path)
    for text, words in ((ENVIRONMENTS, ""), (ENVIRONMENTS + "# changed\n", "has changed since you named it")):
        ponds.write_text(text)
        sys.modules.pop("ponds", None)
        forget()
        if words:
            assert words in refusal(lambda: games.find_again(name, then, "r"), UsageError)
        else:
            assert games.find_again(name, then, "r") == ""


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("gymnasium:ponds.py:Both", "write pettingzoo:"),
        ("gymnasium:ponds.py:Wlak", "`Walk`"),
        ("pettingzoo:ponds.py:Bot", "`Both`"),
        ("pettingzoo:gone.py:Both", "there is no such file"),
        ("pettingzoo:ponds", "pettingzoo:./ponds.py"),
        ("ponds.py", "pass pettingzoo:"),
        ("ponds.py:Walk", "gymnasium:FILE.py:CLASS"),
        ("gymnasium:two.py", ":Far or :Near"),
        ("gymnasium:ponds.py:Walk(length=0", "behind the name stands"),
    ],
)
def test_what_is_no_environment_of_a_file_is_one_line(address: str, words: str, ponds: Path) -> None:
    """With the way to write it."""
    Path("two.py").write_text("import gymnasium\nclass Near(gymnasium.Env): pass\nclass Far(Near): pass\n")
    assert words in refusal(lambda: games.enter(address))


@pytest.mark.slow
def test_a_class_and_its_file_are_one_game(ponds: Path) -> None:
    """In either order, in one process or later: the class is found again by its file, while the file still has it."""
    write_game(Path("own_duel.py"))
    own_duel, module = importlib.import_module("own_duel"), importlib.import_module("ponds")
    for thing, address in {
        own_duel: "own_duel.py",
        module.Walk: "gymnasium:ponds.py:Walk",
        module.Both: "pettingzoo:ponds.py:Both",
    }.items():
        for first, second in ((thing, address), (address, thing)):
            forget()
            name = games.enter(first)
            source = registry.source(name)
            assert games.enter(second) == name and registry.source(name).sha256 == source.sha256 != ""
            forget()
            assert games.find_again(name, source, "r") == ""
    forget()
    Path("own_duel.py").write_text(
        Path("own_duel.py").read_text().replace("options):\n    return _B", "options):\n    1\n    return _B")
    )
    assert not registry.source(games.enter(own_duel)).address, "what is hashed must be what runs"
    scope: dict[str, Any] = {"__name__": "nowhere"}
    exec(ENVIRONMENTS, scope)  # noqa: S102 - our own text, as a notebook's
    assert games.enter(scope["Walk"]) == "gymnasium-Walk"


def test_a_module_that_a_library_imports_is_named_with_its_file() -> None:
    """Another file of that name, in another folder or at another time, does not run before it is named."""
    text = (
        "import gymnasium\nimport sys\nsys.ran = getattr(sys, 'ran', 0) + 1\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('Own-v0', CartPoleEnv, max_episode_steps=20)\n"
    )
    Path("own_envs.py").write_text(text)
    address = "gymnasium:own_envs:Own-v0"
    assert games.enter(address) == "gymnasium-Own-v0"
    then, ran = registry.source("gymnasium-Own-v0"), sys.ran  # type: ignore[attr-defined]
    assert then.address == address and len(then.sha256) == 64

    def again() -> str:
        forget()
        sys.modules.pop("own_envs", None)
        gymnasium.registry.pop("Own-v0")
        return games.find_again("gymnasium-Own-v0", then, "r")

    assert again() == ""
    Path("own_envs.py").write_text(text + "# changed\n")
    assert "has changed since you named it" in refusal(again, UsageError)
    assert sys.ran == ran + 1  # type: ignore[attr-defined]
    gymnasium.registry.pop("Own-v0", None)
    for word, module in {"pettingzoo:mpe2.push_v3(N=2)": "mpe2.push_v3", "pettingzoo:classic/rps_v2": ""}.items():
        assert adapters.module_of(*word.split(":", 1)) == module
