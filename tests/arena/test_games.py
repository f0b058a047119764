"""The door for games: addresses, what is imported and what is refused, what is remembered, whose settings hold."""

import importlib.util
import json
import os
import py_compile
import re
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from league import config, errors
from league.arena import consent, fitting, games
from league.config import updates
from league.envs import adapters, entry_points, registry
from league.envs.classic import matrix
from league.envs.sources import parse
from league.errors import CodeError, ConfigError, LeagueError, UsageError
from league.sessions.settling import check_settings, settle
from league.types import ActionSpec, GameSpec, Source
from tests.helpers.games import forget, new_user, times_run, write_game


@pytest.fixture(autouse=True)
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user who has named nothing, in an empty folder; the list's path."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with new_user(tmp_path) as path:
        yield path


def refusal(call: Callable[[], object], kind: type[LeagueError] = ConfigError) -> str:
    """The one line with which `call` is refused."""
    with pytest.raises(kind) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Addresses


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("kuhn", ("name", "kuhn", "")),
        ("game.py", ("file", "game.py", "")),
        ("a b/game.py:Duel", ("file", "a b/game.py", "Duel")),
        ("../x:y/game.py", ("file", "../x:y/game.py", "")),
        ("~/game.py", ("file", "~/game.py", "")),
        ("package.module", ("module", "package.module", "")),
        ("package.module:Duel", ("module", "package.module", "Duel")),
        ("module:Duel", ("module", "module", "Duel")),
        ("openspiel:kuhn_poker(players=2)", ("scheme", "openspiel", "kuhn_poker(players=2)")),
        ("pettingzoo:connect_four_v3", ("scheme", "pettingzoo", "connect_four_v3")),
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
        ("", "no game's name"),
        ("a\nb", "no game's name"),
        ("game.py:", "behind the colon"),
        ("game.py:a b", "behind the colon"),
        ("game.py:Duel.part", "behind the colon"),
        ("runs/league.duckdb", "ends in .py"),
        ("openspiel:", "names no game"),
        ("-x.y", "no game's name"),
        ("there.py", "there is no such file"),
        ("here.py", "there is no such file"),
        ("folder.py", "Is a directory"),
        ("no.such.module", "no module 'no.such.module'"),
        ("league.envs.nothing:X", "no module"),
        ("sys:path", "no file of code"),
        ("kuhm", "did you mean `kuhn`"),
        ("x" * 300 + ".py", "File name too long"),
        ("openspiel:" + "x" * 5_000, "is too long"),
    ],
)
def test_what_is_no_address_is_one_line(text: str, words: str) -> None:
    """It names what was given, and runs and remembers nothing."""
    Path("folder.py").mkdir()
    Path("here.py").symlink_to("nowhere.py")
    before = set(sys.modules), list(sys.path)
    assert words in refusal(lambda: games.enter(text))
    assert (set(sys.modules), list(sys.path)) == before and not consent.named()


def test_a_scheme_without_its_adapter_or_library_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the two in one line; with both, the adapter is given what stands behind the colon."""
    scheme = adapters.SCHEMES["openspiel"]
    monkeypatch.setitem(adapters.SCHEMES, "openspiel", scheme._replace(module="league.envs.adapters.nobody"))
    assert "no adapter for open_spiel" in refusal(lambda: games.enter("openspiel:go"))
    Path("lacking.py").write_text("import pyspiel_is_not_here\n")
    Path("whole.py").write_text("def open(rest):\n    return GAMES[rest]\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    monkeypatch.setitem(adapters.SCHEMES, "openspiel", scheme._replace(module="lacking"))
    assert "pip install 'league-engine[openspiel]'" in refusal(lambda: games.enter("openspiel:go"))
    import whole  # type: ignore[import-not-found]

    whole.GAMES = {"go(size=3)": named("tiny")}
    monkeypatch.setitem(adapters.SCHEMES, "openspiel", scheme._replace(module="whole"))
    assert games.enter("openspiel:go(size=3)") == "tiny"
    assert registry.source("tiny").address == "openspiel:go(size=3)" and not registry.source("tiny").sha256
    forget()
    then = Source("openspiel:go(size=3)", adapters.library_version("openspiel"))
    assert games.find_again("tiny", then, "r") == ""
    forget()
    assert "was never named" in refusal(lambda: games.find_again("tiny", Source("openspiel:go"), "r"), UsageError)


def named(name: str, **more: Any) -> Any:
    """The matrix game as an object of another name."""

    class Batch(matrix.MatrixBatch):
        def __init__(self, rows: int, options: matrix.Options) -> None:
            super().__init__(rows, options)
            self.spec = spec(options)

    def spec(options: matrix.Options) -> GameSpec:
        return replace(matrix.spec(options), name=name)

    def make(rows: int, threads: int, options: matrix.Options) -> Batch:
        return Batch(rows, options)

    return SimpleNamespace(Options=matrix.Options, spec=spec, make=make, **more)


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

whole = Whole()
number = 3
"""
HIDE = "\nfrom types import SimpleNamespace as _N\n_spec, _make = spec, make\n"


@pytest.mark.parametrize("part", ["", ":Whole", ":Static", ":Gives", ":whole"])
def test_a_game_is_a_module_a_class_an_object_or_gives_one(part: str) -> None:
    """Each is trained on by its own name, which a process that begins later finds again."""
    write_game(Path("game.py"), CLASSES)
    assert games.enter(f"game.py{part}") == "duel"
    assert registry.make("duel", rows=3, threads=1, options={"rounds": 2}).num_rows == 3
    then = registry.source("duel")
    assert then.address == str(Path("game.py").resolve()) + part
    forget()
    assert games.find_again("duel", then, "run r") == ""
    assert registry.source("duel") == then


def test_the_only_game_of_a_module_needs_no_name() -> None:
    """Imported games and base classes are not the module's own; none and several are one line with their names."""
    only = "from league.envs.classic import kuhn\nfrom abc import ABC, abstractmethod\n"
    body = """
    class Base(ABC):
        @abstractmethod
        def rule(self): ...
        @classmethod
        def as_game(cls): return _GAME

    class {}(Base):
        def rule(self): return 1
    """
    hidden = "import importlib.util as _u\n_s = _u.spec_from_file_location('hidden_duel', 'whole.py')\n"
    hidden += "_GAME = _u.module_from_spec(_s)\n_s.loader.exec_module(_GAME)\n"
    write_game(Path("whole.py"))
    text = only + hidden + textwrap.dedent(body)
    Path("one.py").write_text(text.format("Duel"))
    assert games.enter("one.py") == "duel"
    Path("two.py").write_text(text.format("Duel") + "\nclass Other(Duel): pass\n")
    assert "several games; add one, :Duel or :Other" in refusal(lambda: games.enter("two.py"))
    assert "has no 'Dual'; did you mean `Duel`?" in refusal(lambda: games.enter("two.py:Dual"))
    Path("none.py").write_text("x = 1")
    assert "it defines no game" in refusal(lambda: games.enter("none.py"))
    assert "int is no game" in refusal(lambda: games.enter("none.py:x"))


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
        import pack.inner.game as found  # type: ignore[import-not-found]

        assert found.__file__ == str(Path("pack/inner/game.py").resolve())
        [entry] = consent.named()
        assert (entry.address, entry.file) == ("pack.inner.game:Whole", found.__file__)
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
    write_game(
        Path("game.py"),
        "import rules_of_duel\nprint('loading')\n"
        "def late():\n    import late_of_duel\n    return late_of_duel.ROUNDS\nlate.ROUNDS = rules_of_duel.ROUNDS\n",
    )
    games.enter("game.py")
    module: Any = registry._games["duel"]
    assert (module.late.ROUNDS, module.late()) == (3, 4)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err == "loading\n"
    assert sys.path[0] != str(Path.cwd()) and sys.path[-1] == str(Path.cwd())


def test_a_game_does_not_play_by_the_rules_of_another() -> None:
    """Two games of one process, each with a sibling of one name: the second is refused, not given the first's."""
    for name in ("one", "two"):
        write_game(Path(name, "game.py"), "import rules_of_it\nROUNDS = rules_of_it.ROUNDS\n", name=name)
        Path(name, "rules_of_it.py").write_text(f"ROUNDS = {len(name)}\n")
    write_game(Path("three/game.py"), name="three")
    try:
        assert games.enter("one/game.py") == "one"
        message = refusal(lambda: games.enter("two/game.py"))
        assert "imports rules_of_it" in message and str(Path("one/rules_of_it.py").resolve()) in message
        assert games.enter("three/game.py") == "three" and registry.games()[-2:] == ("one", "three")
        del sys.modules["rules_of_it"]
        assert games.enter("two/game.py") == "two"
    finally:
        sys.modules.pop("rules_of_it", None)


def test_a_class_has_the_defaults_of_its_module_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its address and as an object: so both are one configuration. Its own go before those of its module."""
    own = CLASSES + "class Own(Whole):\n    DEFAULTS = {'env': {'rounds': 5}}\n"
    write_game(Path("duel_classes.py"), own + "DEFAULTS = {'env': {'rounds': 3}}\n")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    import duel_classes  # type: ignore[import-not-found]

    found = []
    for env in ("duel_classes.py:Whole", duel_classes.Whole, "duel_classes.py:Own", duel_classes.Own, duel_classes):
        forget()
        found.append(games.load_settings("smoke", env=games.enter(env))[0].env.options["rounds"])
    assert found == [3, 3, 5, 5, 3]
    del sys.modules["duel_classes"]


def test_a_match_has_the_defaults_of_its_module() -> None:
    """Key by key below the class's own; what nobody says follows from the match, and each reward term weighs 1."""
    Path("coin.py").write_text(MATCH)
    found, _ = games.load_settings("smoke", env=games.enter("coin.py"))
    assert (found.learner.gamma, found.learner.clip, found.agent.lstm_size) == (0.5, 0.3, 64)
    assert dict(found.rewards) == {"win": 3.0, "coins": 1.0} and found.pool.mix == {"self_play": 0.8, "bot:low": 0.2}


MATCH = """
from league.envs import Match

DEFAULTS = {"learner": {"gamma": 0.9, "clip": 0.3}, "agent": {"lstm_size": 64}, "rewards": {"win": 3.0}}


class Coin(Match):
    name, version, obs_size, action, to_move = "coin", 1, 1, 2, 0
    reward_terms, defaults = ("coins",), {"learner": {"gamma": 0.5}}
    bots = {"low": lambda obs, legal, rng: legal[0]}

    def reset(self, rng):
        pass

    def observe(self, seat):
        return [0.0]

    def legal(self, seat):
        return [0, 1]

    def play(self, action):
        self.end(action)
"""


def test_what_is_hashed_is_what_runs() -> None:
    """A compiled form that somebody laid beside the file is not run in its place, though it seems to fit."""
    path = write_game(Path("game.py")).resolve()
    text = path.read_text()
    evil = "open('evil', 'w').close()\n"
    path.write_text(evil + "#" * (len(text) - len(evil)))
    stat = path.stat()
    cached = py_compile.compile(str(path), cfile=importlib.util.cache_from_source(str(path)))
    path.write_text(text)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert cached and path.stat().st_size == stat.st_size
    assert games.enter("game.py") == "duel" and times_run(Path(".")) == 1
    assert not Path("evil").exists()


def test_a_path_that_cannot_be_written_down_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letters that no list could hold, in the folder itself or behind a link."""
    for name in (b"a\xff", b"a\nb"):
        folder = Path(os.fsdecode(name))
        write_game(folder / "game.py")
        Path("link.py").unlink(missing_ok=True)
        Path("link.py").symlink_to(folder / "game.py")
        assert "cannot be written down" in refusal(lambda: games.enter("link.py"))
        assert times_run(folder) == 0


# What is refused

BROKEN: dict[str, tuple[str, str]] = {
    "syntax": ("def f(:\n", r"SyntaxError: invalid syntax .*game\.py, line 40"),
    "raises": ("1 / 0\n", r"ZeroDivisionError: division by zero \(.*game\.py, line 40\); mend it"),
    "lacks": ("import not_here_at_all\n", r"No module named 'not_here_at_all' \(.*game\.py, line 40\)"),
    "exits": ("raise SystemExit(3)\n", r"SystemExit: 3 \(.*line 40\)"),
    "null": ("\0", r"null bytes|source code"),
    "lines": ("raise ValueError('a\\nb')\n", r"ValueError: a b"),
    "no name": ("NAME = ''\n", r"name='' must be letters"),
    "odd name": ("NAME = 'a b'\n", r"name='a b' must be letters"),
    "options": ("Options = dict\n", r"Options must be a pydantic model"),
    "defaults": (
        "class Options(Options):\n    size: int = 'many'\n",
        r"the defaults of its Options do not hold: env\.size='many': must be a valid integer",
    ),
    "needed": ("class Options(Options):\n    size: int\n", r"the defaults of its Options do not hold: env\.size"),
    "no spec": ("def spec(options): return 3\n", r"spec gives int, no GameSpec"),
    "bad spec": ("def spec(options): return replace(_matrix.spec(options), anchor='x')\n", r"anchor='x' is none"),
    "box": (
        "from league.types import ActionSpec\n"
        "def spec(options): return replace(_matrix.spec(options), action=ActionSpec('boxes', (2,)))\n",
        r"action kind 'boxes' is none of discrete, multi_discrete, multi_binary, legal_tuples, box, mixture",
    ),
    "half ticks": (
        "def spec(options): return replace(_matrix.spec(options), name=NAME, ticks_per_step=1.5)\n",
        r"ticks_per_step=1\.5 must be whole numbers",
    ),
    "text": ("def spec(options): return replace(_matrix.spec(options), obs_size='8')\n", r"obs_size='8' must be whole"),
    "names": ("def spec(options): return replace(_matrix.spec(options), bots='x')\n", r"bots='x' must be a tuple"),
    "make fails": ("def make(rows, threads, options): return {}['x']\n", r"KeyError: 'x' \(.*game\.py, line 40\)"),
    "make none": ("def make(rows, threads, options): return None\n", r"the batch's spec is not the game's"),
    "other spec": ("make = _matrix.make\n", r"make|the batch's spec is not the game's"),
    "three seats": (
        "import numpy as np\ndef make(rows, threads, options):\n    batch = _Batch(rows, options)\n"
        "    batch.obs = np.zeros((rows, 3, 8), np.float32)\n    return batch\n",
        r"obs has shape \(2, 3, 8\), not \(2, 2, 8\); 2 is the number of seats",
    ),
    "missing": (
        "def make(rows, threads, options):\n    it = _Batch(rows, options)\n    del it.final_obs\n    return it\n",
        r"the batch has no attribute `final_obs`",
    ),
    "table": ("DEFAULTS = 3\n", r"DEFAULTS=3 must map sections"),
    "section": ("DEFAULTS = {'agnet': {}}\n", r"its DEFAULTS: .*\[agnet\] cannot be set here; did you mean `agent`"),
    "run": ("DEFAULTS = {'run': {'total_steps': 5}}\n", r"\[run\] cannot be set here"),
    "key": ("DEFAULTS = {'agent': {'lstm_sise': 8}}\n", r"agent\.lstm_sise is not a setting; did you mean `lstm_size`"),
    "value": ("DEFAULTS = {'agent': {'lstm_size': 0}}\n", r"game\.py: its DEFAULTS: agent\.lstm_size=0: .* mend them"),
    "bot": ("DEFAULTS = {'pool': {'mix': {'bot:nobody': 1.0}}}\n", r"duel has no such opponent"),
    "term": (
        "DEFAULTS = {'rewards': {'vin': 1.0}}\n",
        r"rewards\.vin=1: duel has no such reward term; did you",
    ),
    "option": ("DEFAULTS = {'env': {'round': 3}}\n", r"env\.round=3 is not an option of duel; did you mean `rounds`"),
    "env name": ("DEFAULTS = {'env': {'name': 'kuhn'}}\n", r"a game's name is that of its spec"),
}
CODE_FAILS = {"syntax", "raises", "lacks", "exits", "lines", "bad spec", "box", "half ticks", "text", "names"}
CODE_FAILS |= {"make fails", "null"}
"""Kinds whose code raises something; all but `null` have a line."""


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_game_is_one_line(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the file, the rule and, where its own code fails, the line; nothing is registered or remembered."""
    more, words = BROKEN[kind]
    path = write_game(Path("game.py"))
    path.write_text("\n".join([*path.read_text().rstrip("\n").split("\n"), *[""] * 40][:39]) + "\n" + more)
    fails = kind in CODE_FAILS
    message = refusal(lambda: games.enter("game.py"), CodeError if fails else ConfigError)
    place = r"game\.py, line 4\d" if fails and kind != "null" else r"game\.py"
    assert re.search(words, message) and re.search(place, message)
    assert "duel" not in registry.games() and not consent.named()
    write_game(path)
    assert games.enter("game.py") == "duel"


def test_an_option_that_no_spec_can_have_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a tick a step, of one's own options: of a file's game and of one that was registered."""
    more = """
class Options(Options):
    ticks_per_step: float = 1


_all = spec


def spec(options):
    ticks = int(options.ticks_per_step) if options.ticks_per_step == 1 else options.ticks_per_step
    return replace(_all(options), ticks_per_step=ticks)
"""
    write_game(Path("game.py"), more)
    name = games.enter("game.py")
    overrides = ["env.ticks_per_step=1.5"]
    assert "ticks_per_step=1.5 must be whole numbers" in refusal(
        lambda: settle("smoke", "fast", name, None, overrides), CodeError
    )
    game = registry._games["duel"]
    forget()
    monkeypatch.setattr(registry, "_games", dict(registry._games))
    registry.register("duel", game)
    assert "ticks_per_step=1.5 must be" in refusal(lambda: settle("smoke", "fast", "duel", None, overrides), CodeError)


def test_an_address_is_given_by_env_alone() -> None:
    """A configuration, which may come from elsewhere, names games and no files."""
    write_game(Path("game.py"))
    for sets in (["env.name=game.py"], ["env.name=./game.py:Duel"]):
        assert "given by --env" in refusal(partial(settle, "smoke", "fast", None, None, sets))
    Path("my.toml").write_text("[env]\nname = 'game.py'\n")
    assert "given by --env" in refusal(lambda: settle("smoke", "fast", None, Path("my.toml"), []))
    assert times_run(Path(".")) == 0


def test_an_interrupt_while_importing_is_one() -> None:
    """Ctrl+C ends the command, and no half of the module remains."""
    write_game(Path("game.py"), "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        games.enter("game.py")
    assert not [name for name in sys.modules if name.startswith("league_game_")]


def test_numbers_of_numpy_in_a_spec_become_plain_ones() -> None:
    """A spec with them is equal to one without, and is written into manifests as such."""
    spec = matrix.spec(matrix.Options())
    odd = replace(
        spec,
        obs_size=np.int64(spec.obs_size),  # type: ignore[arg-type]
        opponent_slice=tuple(np.array(spec.opponent_slice)),  # type: ignore[arg-type]
        obs_range=[np.float32(0), 1],  # type: ignore[arg-type]
        action=ActionSpec("multi_discrete", (np.int32(3),)),  # type: ignore[arg-type]
        tick_rate=np.float64(1),
    )
    assert odd == spec and {type(odd.obs_size), *map(type, odd.opponent_slice), *map(type, odd.action.choices)} == {int}
    assert type(odd.tick_rate) is float and isinstance(odd.obs_range, tuple)


def test_an_encoder_without_anything_to_see_is_refused_in_words() -> None:
    """`opponent_slice=(0, 0)` says so before a run begins, unless there is no encoder."""
    write_game(
        Path("game.py"), "_all = spec\ndef spec(options): return replace(_all(options), opponent_slice=(0, 0))\n"
    )
    name = games.enter("game.py")
    settings, spec, _, _ = settle("smoke", "fast", name, None, [])
    assert not settings.agent.opponent_encoder
    check_settings(settings, spec)
    settings, spec, _, _ = settle("smoke", "fast", name, None, ["agent.opponent_encoder=true"])
    assert "shows nothing of the opponent" in refusal(lambda: check_settings(settings, spec))


# Names


def test_two_games_of_one_name_are_a_line_and_one_game_twice_is_none() -> None:
    """The same file again, changed too, takes its own place; another file or object with the name is refused."""
    path = write_game(Path("game.py"))
    assert games.enter("game.py") == games.enter(str(path.resolve())) == "duel" and times_run(Path(".")) == 1
    first = registry.source("duel")
    write_game(path, "# another line\n")
    assert games.enter("./game.py") == "duel" and times_run(Path(".")) == 2
    assert registry.source("duel").sha256 != first.sha256
    write_game(Path("other/game.py"), "# of somebody else\n")
    assert f"already registered for another game (from {path.resolve()})" in refusal(
        lambda: games.enter("other/game.py")
    )
    assert "already registered" in refusal(lambda: games.enter(named("duel")))
    write_game(Path("matrix.py"), name="matrix")
    assert "already registered" in refusal(lambda: games.enter("matrix.py"))
    assert games.enter("matrix") == games.enter(matrix) == "matrix" and not registry.source("matrix").address


def test_a_class_that_is_made_again_takes_its_place() -> None:
    """As where a notebook's cell is run twice."""

    def cell(bots: tuple[str, ...]) -> Any:
        class Cell:
            Options = matrix.Options

            def spec(self, options: Any) -> GameSpec:
                return replace(named("cell").spec(options), bots=matrix.BOTS)

            def make(self, rows: int, threads: int, options: Any) -> Any:
                return named("cell").make(rows, threads, options)

        return Cell

    assert games.enter(cell(())) == games.enter(cell(())) == "cell"
    assert registry.source("cell") == Source() and not consent.named()


# Entry points


def test_an_installed_game_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its installation is consent; its version and hash are kept; a wrong name, or two of one, are a line."""
    site = Path("site").resolve()
    write_game(site / "duel_game.py")
    write_game(site / "wrong_game.py", name="right")
    info = site / "duels-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: duels\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("[league.games]\nduel = duel_game\nwrong = wrong_game\ngone = not_here_x\n")
    monkeypatch.syspath_prepend(str(site))
    try:
        assert entry_points.names("league.games") == ("duel", "gone", "wrong") and times_run(site) == 0
        assert games.enter("duel") == "duel" and not consent.named() and times_run(site) == 1
        source = registry.source("duel")
        assert (source.address, source.version, len(source.sha256)) == ("duel", "1.5", 64)
        forget()
        assert games.find_again("duel", source, "r") == ""
        told = games.find_again("duel", replace(source, version="1.4"), "run r")
        assert told == "game duel: duel is of version 1.5, and was of 1.4"
        assert "calls itself 'right'" in refusal(lambda: registry.spec("wrong", {}))
        assert "No module named 'not_here_x'" in refusal(lambda: registry.spec("gone", {}), CodeError)
        shutil_copy = site.with_name("site2")
        shutil_copy.mkdir()
        other = shutil_copy / "duels2-1.0.dist-info"
        other.mkdir()
        (other / "METADATA").write_text("Metadata-Version: 2.1\nName: duels2\nVersion: 1.0\n")
        (other / "entry_points.txt").write_text("[league.games]\nduel = wrong_game\n")
        monkeypatch.syspath_prepend(str(shutil_copy))
        forget()
        assert "offered by duels and duels2" in refusal(lambda: registry.spec("duel", {}))
        monkeypatch.setattr(errors, "_user_folders", {f"{shutil_copy}{os.sep}"})
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


def test_a_file_that_is_gone_or_moved_is_told(tmp_path: Path) -> None:
    """Gone: one line. Moved and named there once: found by every command since, and said."""
    path = write_game(Path("game.py")).resolve()
    games.enter("game.py")
    then = registry.source("duel")
    forget()
    Path("deeper").mkdir()
    path.rename("deeper/moved.py")
    assert "which is gone" in refusal(lambda: games.find_again("duel", then, "run r"), UsageError)
    assert "which is gone" in refusal(lambda: games.find_again("duel", then, "run r"), UsageError)
    games.enter("deeper/moved.py")
    forget()
    told = games.find_again("duel", then, "run r")
    assert told == f"game duel: it came from {path} and now comes from {Path('deeper/moved.py').resolve()}, unchanged"
    forget()
    write_game(Path("kuhns.py"), name="other")
    assert "is the game other, and run r plays duel" in refusal(
        lambda: games.find_again("duel", then, "run r", "kuhns.py"), UsageError
    )
    assert "you named it before as" in refusal(lambda: games.enter("duel"))


def test_without_a_home_it_is_remembered_for_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Said once, with the reason; so too where the list cannot be written, or is damaged, which is not overwritten."""
    write_game(Path("game.py"))
    said: list[str] = []
    monkeypatch.delenv("XDG_CONFIG_HOME")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError()))
        games.enter("game.py", said.append)
        assert len(said) == 1 and "for this process only (this user has no home folder)" in said[0]
        then = registry.source("duel")
        assert consent.is_named("duel", then)
        games.enter("game.py", said.append)
        assert len(said) == 1
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


def test_a_home_is_found_as_on_other_systems(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`$XDG_CONFIG_HOME` where it is a whole path, else `~/.config`."""
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
    "learner": {"gamma": 0.5, "epochs": 9, "minibatches": 99},
    "env": {"rounds": 7, "rows": 999},
    "rewards": {"payoff": 2.0},
    "pool": {"sampler": "uniform", "mix": {"self_play": 0.5, "bot:biased": 0.5}},
}
"""
    write_game(Path("game.py"), more)
    name = games.enter("game.py")
    found, told = games.load_settings("smoke", env=name)
    base = config.load("smoke", env="kuhn")
    assert (found.agent.lstm_size, found.agent.head_sizes, found.learner.gamma) == (24, (12,), 0.5)
    assert found.learner.epochs == 9
    assert (found.learner.minibatches, found.env.rows) == (base.learner.minibatches, base.env.rows)  # the preset's
    assert found.env.options["rounds"] == 7 and dict(found.rewards) == {"payoff": 2.0}
    assert found.pool.mix == {"self_play": 0.5, "bot:biased": 0.5} and found.pool.sampler == "uniform"
    assert found.agent.encoder_width == 16 and told == ""
    Path("my.toml").write_text("[agent]\nlstm_size = 48\n[env]\nrounds = 8\n")
    found, _ = games.load_settings("smoke", env=name, config_file="my.toml", overrides=["env.rounds=9"])
    assert (found.agent.lstm_size, found.env.options["rounds"]) == (48, 9)
    again, _ = games.load_settings("smoke", env=name)
    assert again == games.load_settings("smoke", env=name)[0] and again.agent.lstm_size == 24


def test_a_game_that_brings_nothing_gets_an_agent_of_its_size() -> None:
    """`win` weighs 1, the mix has its bots, and one line says what was taken; no built-in game is touched."""
    write_game(Path("game.py"))
    found, told = games.load_settings("test50k", env=games.enter("game.py"))
    assert dict(found.rewards) == {"win": 1.0} and "sized to 8 observed numbers" in told and "reward" not in told
    shares = {"current": 0.64, "self_play": 0.16, "bot:biased": 0.1, "bot:constant": 0.1}
    assert found.pool.mix == pytest.approx(shares) and found.learner.magnet == 0.2 and "magnet of 0.2" in told
    assert (found.agent.lstm_size, found.agent.encoder_width) == (32, 16)
    assert "(LSTM 32, opponent encoder 16)" in told
    for given, words in (
        ("agent=small", "an agent (LSTM 128, no opponent encoder)"),
        ("agent.lstm_size=48", "an agent (LSTM 48, opponent encoder 16)"),
        ("agent.opponent_encoder=false", "sized to 8 observed numbers (LSTM 32, no opponent encoder)"),
    ):
        assert words in games.load_settings("test50k", env=found.env.name, overrides=[given])[1]
    forget()
    rewards = "_all = spec\ndef spec(options): return replace(_all(options), reward_terms=('payoff', 'won'))\n"
    write_game(Path("game.py"), rewards)
    found, told = games.load_settings("smoke", env=games.enter("game.py"))
    assert dict(found.rewards) == {"payoff": 1.0, "won": 1.0} and "every reward term weighs 1 (payoff, won)" in told
    told = games.load_settings("smoke", env=found.env.name, overrides=["rewards.won=0.0"])[1]
    assert "weighs 1" not in told and "LSTM 32" in told
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
    for obs_size, choices, ticks in (
        (1, (2,), 1),
        (11, (3,), 3),
        (84, (7,), 1),
        (400, (2, 9), 2),
        (3_000, (4_672,), 1),
    ):
        for half in (0, obs_size // 2 or 1):
            spec = replace(
                plain,
                obs_size=obs_size,
                opponent_slice=(0, half),
                action=ActionSpec("multi_discrete", choices),
                ticks_per_step=ticks,
            )
            layer = fitting.default_layer(spec, {})
            data = config.to_json(base)
            data |= {"agent": data["agent"] | layer["agent"], "rewards": layer["rewards"]}
            made = config.from_json(data | {"pool": data["pool"] | layer["pool"]})
            check_settings(made, spec)
            architecture = architecture_of(made, spec)
            assert architecture.history_tokens == fitting.HISTORY_DECISIONS
            assert architecture.opponent_encoder == (half > 0)
            number = sum(weights.numel() for weights in ActorCritic(architecture).parameters())
            linear = obs_size * 256 * 2 + sum(choices) * 256
            assert 5_000 < number < 1_500_000 + linear
            if half:
                sizes.append(number)
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("count", [0, 1, 3, 5, 6, 43])
def test_a_mix_has_all_bots_of_a_game(count: int) -> None:
    """Few have a share each, many share one; either is a mix that a run of the default width can be drawn from.

    A game of imperfect information gives most of the rest to the learner as it is now, and nothing to `random` alone.
    """
    spec = replace(matrix.spec(matrix.Options()), bots=tuple(f"b{i}" for i in range(count)), floor=None)
    drawn, alone = fitting.mix_for(spec)["mix"], fitting.mix_for(replace(spec, bots=("random",)))["mix"]
    assert drawn["current"] == pytest.approx(4 * drawn["self_play"]) and alone == {"current": 0.8, "self_play": 0.2}
    spec = replace(spec, imperfect_information=False)
    assert fitting.mix_for(replace(spec, bots=("random",)))["mix"] == {"self_play": 0.8, "bot:random": 0.2}
    pool = fitting.mix_for(spec)
    base = config.to_json(config.load("test50k", env="matrix"))
    made = config.from_json({**base, "pool": {**base["pool"], **pool}})
    fitting.check_mix(made, spec)
    updates.check(made)
    met = {*made.pool.mix, *(member for group in made.pool.groups.values() for member in group)}
    assert {f"bot:b{i}" for i in range(count)} <= met and made.pool.mix["self_play"] >= 0.8


def test_where_a_game_lies_is_no_part_of_what_it_is() -> None:
    """Fingerprint and game id are the same in another folder, under another file's name and from an object."""
    marks = set()
    for make in (
        lambda: games.enter(str(write_game(Path("a/game.py")))),
        lambda: games.enter(str(write_game(Path("b/c/d.py"), "# comment\n"))),
        lambda: games.enter(named("duel")),
    ):
        forget()
        settings, _ = games.load_settings("test50k", env=make())
        marks.add((config.fingerprint(settings), registry.game_id("duel", settings.env.options)))
    assert len(marks) == 1


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
    then = registry.source("gymnasium-Own-v0")
    assert then.address == address and len(then.sha256) == 64
    ran = sys.ran  # type: ignore[attr-defined]

    def again() -> str:
        forget()
        sys.modules.pop("own_envs", None)
        gymnasium.registry.pop("Own-v0")
        return games.find_again("gymnasium-Own-v0", then, "r")

    assert again() == "" and sys.ran == ran + 1  # type: ignore[attr-defined]
    Path("own_envs.py").write_text(text + "# changed\n")
    assert "has changed since you named it" in refusal(again, UsageError)
    assert sys.ran == ran + 1  # type: ignore[attr-defined]
    gymnasium.registry.pop("Own-v0", None)
    for word, module in {"pettingzoo:mpe2.push_v3(N=2)": "mpe2.push_v3", "pettingzoo:classic/rps_v2": ""}.items():
        assert adapters.module_of(*word.split(":", 1)) == module


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


@pytest.mark.parametrize("address", ["gymnasium:./ponds.py:Walk", "gymnasium:ponds.py", "pettingzoo:./ponds.py:Both"])
def test_an_environment_in_a_file_is_found_from_any_folder(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its whole path, with keywords as well; not once the file has changed."""
    pytest.importorskip("pettingzoo")
    Path("ponds.py").write_text(ENVIRONMENTS)
    name = games.enter(address)
    assert name == f"{address.partition(':')[0]}-{'Both' if 'Both' in address else 'Walk'}"
    then = registry.source(name)
    assert str(Path("ponds.py").resolve()) in then.address and len(then.sha256) == 64
    monkeypatch.chdir(tmp_path)
    forget()
    assert games.find_again(name, then, "r") == ""
    Path("here/ponds.py").write_text(ENVIRONMENTS + "# changed\n")
    forget()
    assert "has changed since you named it" in refusal(lambda: games.find_again(name, then, "r"), UsageError)


def test_a_module_of_the_current_folder_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its file lay when it was named."""
    Path("meadow.py").write_text(ENVIRONMENTS)
    name = games.enter("gymnasium:meadow:Walk")
    then = registry.source(name)
    forget()
    sys.modules.pop("meadow")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(Path.cwd()))])
    monkeypatch.chdir(tmp_path)
    assert games.find_again(name, then, "r") == ""


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("gymnasium:ponds.py:Both", "Both is an environment of pettingzoo; write pettingzoo: in place of gymnasium"),
        ("gymnasium:ponds.py:Wlak", "it has no 'Wlak'; did you mean `Walk`"),
        ("pettingzoo:ponds.py:Bot", "it has no 'Bot'; did you mean `Both`"),
        ("pettingzoo:gone.py:Both", "there is no such file"),
        ("pettingzoo:ponds", "name the file, pettingzoo:./ponds.py"),
        ("ponds.py", "Both is an environment of pettingzoo; pass pettingzoo:"),
        ("ponds.py:Walk", "it is an environment of gymnasium; pass its class, or gymnasium:FILE.py:CLASS"),
        ("gymnasium:two.py", "it defines several environments; add one, :Far or :Near"),
        ("gymnasium:ponds.py:Walk(length=0", "behind the name stands"),
    ],
)
def test_what_is_no_environment_of_a_file_is_one_line(address: str, words: str) -> None:
    """With the way to write it."""
    pytest.importorskip("pettingzoo")
    Path("ponds.py").write_text(ENVIRONMENTS)
    Path("two.py").write_text("import gymnasium\nclass Near(gymnasium.Env): pass\nclass Far(Near): pass\n")
    assert re.search(words, refusal(lambda: games.enter(address)))


def test_a_class_and_its_file_are_one_game(monkeypatch: pytest.MonkeyPatch) -> None:
    """In either order, in one process or later: the class is found again by its file."""
    pytest.importorskip("pettingzoo")
    write_game(Path("own_duel.py"))
    Path("streams.py").write_text(ENVIRONMENTS)
    monkeypatch.syspath_prepend(str(Path.cwd()))
    own_duel, streams = importlib.import_module("own_duel"), importlib.import_module("streams")
    for thing, address in {
        own_duel: "own_duel.py",
        streams.Walk: "gymnasium:streams.py:Walk",
        streams.Both: "pettingzoo:streams.py:Both",
    }.items():
        for first, second in ((thing, address), (address, thing)):
            forget()
            name = games.enter(first)
            source = registry.source(name)
            assert games.enter(second) == name and registry.source(name).sha256 == source.sha256 != ""
            forget()
            assert games.find_again(name, source, "r") == ""


def test_a_class_that_its_file_no_longer_has_is_no_game_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is hashed must be what runs."""
    path = write_game(Path("drifting.py"))
    monkeypatch.syspath_prepend(str(Path.cwd()))
    module = importlib.import_module("drifting")
    path.write_text(
        path.read_text().replace("def make(rows, threads, options):", "def make(rows, threads, options):\n    1 + 1")
    )
    forget()
    assert not registry.source(games.enter(module)).address


def test_an_environments_class_without_a_file_is_a_game() -> None:
    """As one that was made in a notebook."""
    scope: dict[str, Any] = {"__name__": "nowhere"}
    exec(ENVIRONMENTS, scope)  # noqa: S102 - our own text
    assert games.enter(scope["Walk"]) == "gymnasium-Walk"
