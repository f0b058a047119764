"""An exception of a user's code is one line with its file and line, exit code 1, and the run is saved."""

import json
import locale
import os
import random
import re
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

import league
from league.arena.games import enter
from league.cli import main
from league.envs import registry
from league.errors import CodeError, LeagueError, code_told
from league.signals import settings_kept
from league.store.store import Store
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.games import SUMS, SUMS_SETS, new_user
from tests.helpers.kept import kept_command

FAULTS = {
    "exit": "sys.exit()",
    "exit 3": "raise SystemExit(3)",
    "exit 4": "sys.exit(4)",
    "generator": "raise GeneratorExit",
    "interrupt": "raise KeyboardInterrupt",
    "own": "raise Strange('odd')",
    "disk": "raise OSError(28, 'No space left on device')",
    "file": "open('/nowhere/at/all')",
    "pipe": "raise BrokenPipeError(32, 'Broken pipe')",
    "memory": "raise MemoryError",
    "divide": "1 / 0",
    "stop": "next(iter(()))",
    "mute": "raise Mute",
    "league": "raise Known('as it says')",
    "usage": "raise UsageError('as it says')",
    "recursion": "(lambda f: f(f))(lambda f: f(f))",
    "evil": "raise Evil",
    "value": "raise ValueError('odd')",
    "notes": "e = ValueError('odd'); e.__notes__ = [7, None]; raise e",
    "guard": "raise GuardError('as it says', 'odd')",
    "code": "raise CodeError('as it says')",
    "signal": "raise Interrupted(2)",
    "number": "raise type('Odd', (Exception,), {'__str__': lambda error: 5})",
    "library": "import asyncio; asyncio.run(None)",
    "compiled": "compile('if 1:', 'none', 'exec')",
    "no notes": "e = ValueError('odd'); e.__notes__ = 5; raise e",
}
HEAD = """
import sys
import torch
from league.errors import CodeError, GuardError, LeagueError, UsageError
from league.signals import Interrupted


class Strange(BaseException):
    pass


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


class Evil(SystemExit):
    def __str__(self):
        raise KeyboardInterrupt


class Known(LeagueError):
    exit_code = 3


COUNT = [0]


def fail(at, when):
    COUNT[0] += 1
    if COUNT[0] > at and when:
        FAULT  # here


"""
GAME = (
    HEAD
    + SUMS.replace("        self.steps += 1", '        fail(AT, WHERE == "step")\n        self.steps += 1')
    + """
    def legal(self, seat):
        fail(AT, WHERE == "legal")
        return [0, 1]

    def drawing(self, seat=None):
        fail(AT, WHERE == "drawing")
        from league.envs.drawing import Drawing
        return Drawing((0, 0, 4, 4))


def lucky(observation, legal, rng):
    fail(AT, WHERE == "bot")
    return 0


def even(known):
    fail(AT, WHERE == "sampler")
    return [1.0] * len(known.members)
"""
)
GYM = (
    HEAD
    + """
import gymnasium


class Mine(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        fail(2, True)
        self.steps += 1
        return self.steps, float(action), self.steps == 4, False, {}
"""
)
NET = (
    HEAD
    + """
from league.policies.actor_critic import ActorCritic, Architecture


class Net(ActorCritic):
    def step(self, *arguments, **more):
        fail(AT, WHERE == "net")
        return super().step(*arguments, **more)

    def sequence(self, *arguments, **more):
        fail(AT, WHERE == "sequence")
        return super().sequence(*arguments, **more)


def make(spec, agent):
    return Net(Architecture.of(spec, history_tokens=4, **SIZES))
"""
)


@pytest.fixture
def user(tmp_path: Path) -> Iterator[Path]:
    """A folder for a user's code; the user has named no game yet."""
    with new_user(tmp_path):
        yield tmp_path


def write(folder: Path, fault: str = "divide", where: str = "", at: int = 0) -> tuple[str, int]:
    """The path of a game whose part `where` fails after `at` calls, and the line that is to blame."""
    body = f"WHERE, AT = {where!r}, {at}\n{GAME}".replace("FAULT", FAULTS[fault])
    (folder / "sums.py").write_text(body)
    return str(folder / "sums.py"), 1 + next(i for i, line in enumerate(body.splitlines()) if "# here" in line)


def call(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """The command's exit code, stdout and stderr."""
    capfd.readouterr()
    monkeypatch.setattr(sys, "argv", ["league", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr()
    code = ended.value.code
    return (0 if code is None else int(code)), said.out, said.err


def need_told(found: tuple[int, str, str], file: str, line: int) -> str:
    """One error on the last line, with file and line, exit code 1; nothing on stdout."""
    code, out, err = found
    last = err.rstrip().splitlines()[-1]
    assert (code, out) == (1, "") and last.startswith("error: "), found
    assert f"{file}, line {line}" in last and "Traceback" not in err and "stdout or a file" not in err, last
    return last


def sets(*more: str) -> list[str]:
    return [word for setting in (*SUMS_SETS, *more) for word in ("--set", setting)]


@pytest.mark.parametrize("fault", cases("exit", "interrupt", "disk", "own", "guard", slow=FAULTS))
def test_a_game_that_fails_as_it_trains_leaves_a_run_that_goes_on(
    fault: str, user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The run is saved as of its last whole update, after any exception, and goes on once the game is mended."""
    file, line = write(user, fault, "step", at=1_000)  # after the checks before a run
    store = user / "s"
    words = ("train", "--stage", "smoke", "--env", file, "--store", store, "--run", "r", "--device", "cpu", *sets())
    last = need_told(call(monkeypatch, capfd, *words, "--quiet"), file, line)
    assert "; saved; go on with `league resume r" in last, last
    row = Store.open(store).find_run("r")
    assert row.status == "failed" and row.update >= 1 and row.steps == 32 * row.update
    assert "code_failed" in [event.kind for event in Store.open(store).events("r")]
    write(user)
    code, _, err = call(monkeypatch, capfd, "resume", "r", "--env", file, "--store", store, "--quiet")
    assert code == 0 and Store.open(store).find_run("r").status == "finished", err


@pytest.mark.parametrize("fault, workers", cases(("exit 3", 0), ("memory", 2), slow=product(FAULTS, [0, 2])))
def test_a_gate_over_code_that_fails_has_exit_code_1(
    fault: str, workers: int, user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither 0, 3 nor 4, which say what the test found, in this process and in workers."""
    file, line = write(user)
    store = user / "s"
    league.train(
        "smoke", env=file, overrides=[*SUMS_SETS, f"env.workers={workers}"], store=store, run="r", device="cpu"
    )
    write(user, fault, "step", at=300)  # after what opening it plays
    words = ("gate", "r", "bot:random", "--env", file, "--store", store, "--device", "cpu", "--quiet", "--json")
    need_told(call(monkeypatch, capfd, *words), file, line)


@pytest.mark.parametrize(
    ("where", "fault"),
    cases(
        ("step", "exit 4"),
        ("bot", "guard"),
        ("bot", "disk"),
        ("step", "signal"),
        slow=[("step", name) for name in FAULTS],
    ),
)
@pytest.mark.parametrize("command", ["evaluate", "tournament", "watch"])
def test_matches_over_code_that_fails_have_exit_code_1(
    where: str,
    fault: str,
    command: str,
    user: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Bots and games that fail end a command in one line, with or without a store."""
    file, line = write(user, fault, where, at=110)  # after what opening it plays
    words: dict[str, tuple[object, ...]] = {
        "evaluate": ("evaluate", "bot:lucky", "--against", "bot:random", "--games", 8),
        "tournament": ("tournament", "bot:lucky", "bot:random", "--games", 8),
        "watch": ("watch", "bot:lucky", "--against", "bot:random", "--out", user / "a.html"),
    }
    more = ("--env", file, "--bot", f"{file}:lucky", "--store", user / "none", "--quiet")
    need_told(call(monkeypatch, capfd, *words[command], *more), file, line)


@pytest.mark.parametrize("fault", cases("exit", slow=FAULTS))
def test_a_drawing_that_fails_is_one_line(
    fault: str, user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A match is shown by code of the game, which may fail as the rest of it."""
    file, line = write(user, fault, "drawing", at=1)
    words = ("watch", "bot:random", "--against", "bot:lucky", "--env", file, "--bot", f"{file}:lucky")
    more = ("--store", user / "none", "--out", user / "a.html", "--quiet")
    need_told(call(monkeypatch, capfd, *words, *more), file, line)


@pytest.mark.parametrize(
    ("where", "fault"), cases(("legal", "value"), ("legal", "notes"), ("step", "no notes"), ("step", "evil"))
)
def test_an_odd_exception_is_one_line(
    where: str, fault: str, user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither its class, its notes nor its own code hide where it arose."""
    file, line = write(user, fault, where, at=4)
    words = ("evaluate", "bot:lucky", "--against", "bot:random", "--games", 8, "--env", file, "--bot", f"{file}:lucky")
    code, out, err = call(monkeypatch, capfd, *words, "--store", user / "none", "--quiet")
    assert code == 1 and out == "" and f"{file}, line {line}" in err and len(err.splitlines()) == 1, (code, err)


def test_an_init_that_fails_has_its_line(
    user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A ValueError may be an option's rule; where no option was given, it is the game's error."""
    file, line = write(user, "value", "init")
    text = Path(file).read_text()
    init = '    def __init__(self):\n        super().__init__()\n        fail(0, WHERE == "init")\n\n'
    Path(file).write_text(text.replace("    def reset(self, rng)", f"{init}    def reset(self, rng)"))
    code, out, err = call(monkeypatch, capfd, "check", file, "--quiet")
    assert code == 1 and out == "" and f"{file}, line {line}" in err and len(err.splitlines()) == 1, (code, err)


@pytest.mark.parametrize(
    ("where", "fault", "at"),
    cases(
        ("sampler", "exit", 1_000),
        ("net", "exit 3", 70),
        ("sequence", "own", 75),
        ("bot", "interrupt", 1_050),
        slow=[(where, fault, 75) for where in ("net", "sequence") for fault in FAULTS],
    ),
)
def test_a_part_that_fails_leaves_a_run_that_goes_on(
    where: str,
    fault: str,
    at: int,
    user: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Samplers, bots and networks: the weights that are saved are those after the last whole update."""
    file, line = write(user, fault, where, at=at)
    words = ["train", "--stage", "smoke", "--env", file, "--store", user / "s", "--run", "r", "--device", "cpu"]
    words += sets("learner.epochs=4")
    if where == "sampler":
        words += ["--sampler", f"{file}:even", "--set", "pool.sampler=even"]
    if where == "bot":
        words += ["--bot", f"{file}:lucky", "--set", "pool.mix={'bot:lucky'=1.0}"]
    if where in ("net", "sequence"):
        sizes = league.config.load(env="kuhn").agent.model_dump(exclude={"policy", "history_frames"})
        body = f"WHERE, AT, SIZES = {where!r}, {at}, {sizes}\n{NET}".replace("FAULT", FAULTS[fault])
        (user / "net.py").write_text(body)
        write(user)
        file = str(user / "net.py")
        line = 1 + next(i for i, text in enumerate(body.splitlines()) if "# here" in text)
        words += ["--policy", f"{file}:make"]
    last = need_told(call(monkeypatch, capfd, *words, "--quiet"), file, line)
    assert "; saved; go on with `league resume r" in last, last
    row = Store.open(user / "s").find_run("r")
    assert row.status == "failed" and row.update >= 1 and row.steps == 32 * row.update


def test_code_is_to_blame_by_where_an_error_arose(user: Path) -> None:
    """In Python, too: a game's error is a `CodeError` with its cause, in this process and from a worker."""
    file, line = write(user, "divide", "bot")
    with pytest.raises(CodeError, match=f"bot:lucky: ZeroDivisionError: .*, line {line}"):
        league.evaluate("bot:lucky", "bot:random", 2, env=file, bots=f"{file}:lucky", store=user / "no")
    write(user, "league", "step")
    name = enter(file) or ""
    for workers in (0, 2):
        batch = registry.make(name, rows=2, threads=1, options={}, workers=workers)
        with pytest.raises(LeagueError, match="as it says") as caught:
            batch.step()
        assert caught.value.exit_code == 1, type(caught.value)
    with pytest.raises(LeagueError, match=f"as it says .*, line {line}"):
        league.evaluate("bot:lucky", "bot:random", 2, env=file, bots=f"{file}:lucky", store=user / "no")


@pytest.mark.parametrize("fault", cases("divide", "guard", slow=["league", "value"]))
def test_a_match_that_fails_as_it_is_played_again_has_its_line(fault: str, user: Path) -> None:
    """A state is restored by playing its actions again, as strict masks do in the middle of training."""
    file, line = write(user, fault, "step", at=1_000_000)
    batch = registry.make(enter(file) or "", rows=2, threads=1, options={})
    batch.step()
    state = batch.get_state()
    batch.reset(0)
    sys.modules[type(batch.matches[0]).__module__].AT = 0
    with pytest.raises(CodeError, match=rf"cannot be played again: .*{file}, line {line}\)") as caught, code_told():
        batch.set_state(state)
    assert str(caught.value).count(f"line {line}") == 1


@pytest.mark.parametrize("what", cases(SystemExit, GeneratorExit, slow=[KeyboardInterrupt, MemoryError]))
def test_a_watcher_that_leaves_ends_no_run(what: type[BaseException], tmp_path: Path) -> None:
    """A callback may raise any exception; training goes on."""

    class Leaves:
        def report(self, report: object) -> None:
            raise what

    done = league.train(
        "smoke", env="matrix", overrides=SUMS_SETS, store=tmp_path / "s", device="cpu", callback=Leaves()
    )
    assert done.status == "finished"


@pytest.mark.parametrize("fault", cases("exit", "code", "signal", "library", "compiled", slow=FAULTS))
def test_an_import_that_fails_is_refused(
    fault: str, user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be imported is a setting that cannot be run."""
    file, line = write(user, fault)
    body = Path(file).read_text()
    Path(file).write_text(f"{body}\nfail(0, True)\n")
    code, out, err = call(
        monkeypatch, capfd, "evaluate", "bot:random", "--against", "bot:lucky", "--env", file, "--quiet"
    )
    assert code == 1 and out == "" and f"{file}, line {line}" in err and len(err.splitlines()) == 1, (code, err)


def test_buffers_of_other_code_stay_out_of_json(user: Path) -> None:
    """What a game writes to the first stdout, by C, or as the process ends, is not behind the document."""
    file, _ = write(user)
    text = Path(file).read_text()
    noise = 'sys.__stdout__.write("python")\nimport ctypes\nctypes.CDLL(None).printf(b"from C")\n'
    noise += 'import atexit\natexit.register(print, "at the end")\n'
    Path(file).write_text(f"import sys\n{noise}{text}")
    words = ("evaluate", "bot:lucky", "--against", "bot:random", "--games", "2", "--env", file, "--json")
    more = ("--bot", f"{file}:lucky", "--store", str(user / "s"))
    done = subprocess.run(
        [sys.executable, "-c", "from league.cli import main; main()", *words, *more],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and json.loads(done.stdout)["a"] == "bot:lucky", done
    assert all(word in done.stderr for word in ("python", "from C", "at the end")), done.stderr


NOISY = """
import io, os, sys, random, signal, warnings, locale, tempfile
import numpy, torch
print("printed as it is imported")


def mess(value):
    print("printed", value)
    sys.stdout.write("written\\n")
    sys.__stdout__.write("past the stream\\n")
    sys.__stdout__.flush()
    os.write(1, b"descriptor\\n")
    os.chdir(tempfile.gettempdir())
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(3)
    torch.set_grad_enabled(False)
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    warnings.simplefilter("error")
    locale.setlocale(locale.LC_ALL, "C")
    os.environ["LEAGUE_KERNELS"] = "off"
    numpy.seterr(all="raise")
    sys.stdout = sys.stderr = io.StringIO()


IMPORTED
"""


def write_noisy(folder: Path, *, at_import: bool) -> str:
    """A game, a bot and a sampler that print and change what settings a process has."""
    noisy = NOISY.replace("IMPORTED", "mess(0)" if at_import else "")
    body = f"WHERE, AT = '', 0\n{noisy}{GAME}".replace("FAULT", "pass")
    body = body.replace("COUNT[0] += 1", "COUNT[0] += 1\n    mess(at)")
    (folder / "sums.py").write_text(body)
    return str(folder / "sums.py")


@pytest.mark.parametrize("at_import", cases(True, slow=[False]))
def test_json_stays_json_and_paths_keep_their_meaning(at_import: bool, user: Path) -> None:
    """With a game that prints and changes folder; stores and files are where the command was called."""
    file = write_noisy(user, at_import=at_import)
    home = user / "home"
    home.mkdir()
    words = ["--env", file, "--bot", f"{file}:lucky", "--store", "s", "--device", "cpu", "--quiet", "--json"]
    trained = ["train", "--stage", "smoke", "--run", "r", *sets("pool.mix={'self_play'=0.5,'bot:lucky'=0.5}"), *words]
    trained += ["--sampler", f"{file}:even", "--set", "pool.sampler=even"]
    for command in (
        trained,
        ["evaluate", "r", "--against", "bot:lucky", "--games", "4", *words],
        ["gate", "r", "bot:lucky", "--max-games", "32", *words],
        ["watch", "bot:lucky", "--against", "bot:random", "--out", "a.html", *words],
    ):
        done = processes.run(*command, cwd=home)
        errors = [line for line in done.stderr.splitlines() if line.startswith("error")]
        assert done.returncode == 0 or (command[0] == "gate" and done.returncode in (3, 4)), (command, errors)
        assert json.loads(done.stdout)["schema"] == 1 and len(done.stdout.splitlines()) == 1, done.stdout
        assert "printed" in done.stderr
    assert (home / "s").exists() and (home / "a.html").exists()


def settings() -> tuple[object, ...]:
    """What this process has set."""
    ours = os.getcwd(), os.environ.get("LEAGUE_KERNELS"), np.geterr(), sys.stdout, locale.setlocale(locale.LC_ALL)
    torchs = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    return *ours, *torchs, *(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM))


@pytest.mark.parametrize("at_import", cases(True, slow=[False]))
def test_what_code_sets_of_the_process_is_put_back(at_import: bool, user: Path) -> None:
    """Importing a game, evaluating and training leave the process as it was; a run learns what it learns without."""
    kept = settings()
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    draws = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    file = write_noisy(user, at_import=at_import)
    enter(file)
    if at_import:
        assert draws == (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    league.evaluate("bot:lucky", "bot:random", 4, env=file, bots=f"{file}:lucky", store=user / "no")
    league.train("smoke", env=file, overrides=SUMS_SETS, store=user / "s", run="r", device="cpu")
    assert [x for x in zip(settings(), kept, strict=True) if x[0] != x[1]] == []
    assert ("error", None, Warning, None, 0) not in warnings.filters


TRAPS = {
    "recursion": "sys.setrecursionlimit(len(inspect.stack()) + 20)",
    "excepthook": "sys.excepthook = threading.excepthook = sys.unraisablehook = None",
    "no hook": "del sys.excepthook, sys.displayhook",
    "path": "sys.path.clear()",
    "path of one": "sys.path = ['/nowhere']",
    "no path": "sys.path = None",
    "finders": "sys.meta_path.clear(); sys.path_hooks = []",
    "modules": "sys.modules.clear()",
    "other modules": "sys.modules = {}",
    "fake module": "sys.modules['json'] = sys.modules['torch'] = None",
    "argv": "sys.argv = None",
    "no argv": "del sys.argv",
    "print": "builtins.print = builtins.open = None",
    "length": "builtins.len = builtins.isinstance = None",
    "deleted": "del builtins.print, builtins.range",
    "stdin": "sys.stdin = None",
    "streams": "del sys.stdout, sys.stderr",
    "mask": "os.umask(0o777)",
    "child": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "pipe": "signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
    "switch": "sys.setswitchinterval(50)",
    "closed": "sys.stdout.close(); sys.stderr.close()",
    "detached": "sys.stdout.detach()",
    "descriptors": "os.dup2(os.open(os.devnull, os.O_WRONLY), 2); os.close(1)",
    "environ": "os.environ = None",
    "collector": "import gc; gc.disable(); gc.set_threshold(1); gc.set_debug(gc.DEBUG_STATS)",
    "blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])",
    "limit": "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (0, r.getrlimit(r.RLIMIT_FSIZE)[1]))",
    "fork": "if os.getpid() == FIRST: os.fork()",
}


def write_trap(folder: Path, trap: str, where: str) -> str:
    """A game that does something to the process, where a part of it is called."""
    body = f"WHERE, AT = {where!r}, 0\n{GAME}".replace("FAULT", trap)
    head = "import builtins, inspect, os, signal, sys, threading\nFIRST = os.getpid()\n"
    (folder / "sums.py").write_text(head + body + (f"\n{trap}\n" if where == "import" else ""))
    return str(folder / "sums.py")


@pytest.mark.parametrize("where", ["import", "step", "bot", "drawing"])
@pytest.mark.parametrize(
    "trap", cases("recursion", "modules", "deleted", "closed", "descriptors", "blocked", "limit", slow=TRAPS)
)
def test_what_python_needs_is_put_back(trap: str, where: str, user: Path) -> None:
    """Paths, modules, hooks, built-in functions, the recursion limit: commands end as they do without."""
    file = write_trap(user, TRAPS[trap], where)
    words = ("watch", "bot:lucky", "--against", "bot:random", "--out", user / "a.html", "--json", "--quiet")
    words += ("--env", file, "--bot", f"{file}:lucky", "--store", user / "s")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = processes.Process(kept_command, [[*map(str, words)], str(user / "lost.json")], cwd=user, **pipes)
    out, err = process.communicate(60)
    assert json.loads((user / "lost.json").read_text()) == [], err
    if process.returncode:  # an error names the line of the game, or the setting
        assert "Traceback" not in err and len(err.splitlines()) == 1 and ("sums.py, line" in err or "your code" in err)
    else:
        assert json.loads(out)["schema"] == 1 and (user / "a.html").exists() and not err


@pytest.mark.parametrize("where", ["import", "step", "bot"])
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("torch.inference_mode()", "torch.inference_mode"),
        ("torch.autocast('cpu', torch.bfloat16)", "torch.autocast"),
        ("torch.device('meta')", "torch.device"),
        ("torch.autograd.graph.saved_tensors_hooks(abs, abs)", "saved_tensors_hooks"),
    ],
)
def test_what_cannot_be_put_back_is_refused_by_name(mode: str, name: str, where: str, user: Path) -> None:
    """Code that enters a mode of torch and does not leave it is refused by its name."""
    file = write_trap(user, f"import torch; KEPT.append({mode}); KEPT[-1].__enter__()", where)
    Path(file).write_text(f"KEPT = []\n{Path(file).read_text()}")
    words = ("evaluate", "bot:lucky", "--against", "bot:random", "--games", 2, "--quiet")
    more = ("--env", file, "--bot", f"{file}:lucky", "--store", user / "s")
    done = processes.run(*words, *more, cwd=user)
    assert done.returncode in (1, 2) and f"your code entered {name}" in done.stderr, done
    assert len(done.stderr.splitlines()) == 1


def test_an_error_that_follows_from_what_code_changed_names_it(user: Path) -> None:
    """An error of ours that code of a user causes in the middle of a step is no bug of league."""
    file = write_trap(user, "builtins.len = None", "bot")
    words = ("evaluate", "bot:lucky", "--against", "bot:random", "--games", 2, "--quiet")
    done = processes.run(*words, "--env", file, "--bot", f"{file}:lucky", "--store", user / "s", cwd=user)
    words = r"error: your code changed builtins\.len, after which TypeError: .*; leave builtins\.len as it is\n"
    assert done.returncode == 1 and re.fullmatch(words, done.stderr), done


@pytest.mark.parametrize("fault", cases("number", "library", slow=["compiled", "evil", "mute", "guard"]))
def test_an_environment_that_fails_as_it_is_looked_at_has_its_line(
    fault: str, user: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Adapters try an environment before anything plays it; what that raises has no other door."""
    file = user / "mine.py"
    body = GYM.replace("FAULT", FAULTS[fault])
    file.write_text(body)
    line = 1 + next(i for i, text in enumerate(body.splitlines()) if "# here" in text)
    code, out, err = call(monkeypatch, capfd, "check", f"gymnasium:{file}:Mine", "--quiet")
    assert code in (1, 2) and out == "" and f"{file}, line {line}" in err and len(err.splitlines()) == 1, (code, err)


@pytest.mark.parametrize(
    ("trap", "name"),
    [("import json; json.dumps = lambda *a, **k: 'null'", "json.dumps"), ("os.fsync = None", "os.fsync")],
)
def test_an_error_that_follows_from_a_replaced_function_names_it(trap: str, name: str, user: Path) -> None:
    """Whichever error it ends in, and whether ours or a bug's."""
    file = write_trap(user, trap, "import")
    done = processes.run(
        "train", "--stage", "smoke", "--env", file, *sets(), "--store", user / "league.duckdb", cwd=user
    )
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and last.startswith(f"error: your code changed {name}, after which "), done
    assert "Traceback" not in done.stderr


def test_what_nothing_can_catch_is_a_line(user: Path) -> None:
    """An exception in a thread or a destructor is said once for each place, and ends nothing."""
    file = write_trap(user, "Stray(); threading.Thread(target=Stray().fail).start()", "step")
    stray = "class Stray:\n    def fail(self):\n        1 / 0\n    def __del__(self):\n        sys.exit()\n"
    Path(file).write_text(f"import sys\n{stray}{Path(file).read_text()}")
    words = ("evaluate", "bot:random", "--against", "bot:lucky", "--bot", f"{file}:lucky", "--games", 2, "--quiet")
    done = processes.run(*words, "--env", file, "--store", user / "league.duckdb", cwd=user)
    assert done.returncode == 0, done
    assert sorted(done.stderr.splitlines()) == [
        f"your code raised {error} ({file}, line {line}) {where}, which stops nothing; mend it"
        for error, line, where in (
            ("SystemExit", 6, "where nothing can catch it"),
            ("ZeroDivisionError: division by zero", 4, "in a thread"),
        )
    ]


def test_the_line_is_that_of_ones_own_file(user: Path) -> None:
    """Not that of a library which it calls, though the library's code may be to blame, too."""
    file = user / "mine.py"
    file.write_text(GYM.replace("FAULT", "pass").replace("spaces.Discrete(9)", "spaces.Box(1, -1)"))
    done = processes.run("check", f"gymnasium:{file}:Mine", "--quiet", cwd=user)
    assert done.returncode == 1 and f"({file}, line " in done.stderr, done


def test_hooks_are_put_back() -> None:
    """Those that Python calls with an exception, of processes, threads and what is let go of."""
    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    with settings_kept():
        sys.excepthook = threading.excepthook = sys.unraisablehook = None  # type: ignore[assignment]
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook) == before
    with settings_kept():
        del sys.excepthook
    assert sys.excepthook is before[0]
