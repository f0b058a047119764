"""An exception of a user's code is one line with its file and line, exit code 1, and the run is saved; what the code
does to the process is put back, or refused by name."""

import asyncio
import decimal
import inspect
import json
import locale
import logging
import multiprocessing
import os
import random
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from examples.mlp import MLP
from league.arena.games import enter
from league.envs import registry
from league.errors import CodeError, ContractError, GuardError, LeagueError, UsageError, code_told, described
from league.gym import MatchEnv
from league.pool import samplers
from league.runtime.process import StepKept, settings_kept
from league.runtime.signals import interrupt, on_signal
from league.store.store import Store
from league.testing import check_bot, check_game, check_policy
from tests.helpers import processes
from tests.helpers.cases import cases
from tests.helpers.commands import Called, call
from tests.helpers.games import SUMS, SUMS_SETS
from tests.helpers.kept import kept_command

FAULTS = {
    "exit": "sys.exit()",
    "exit 3": "raise SystemExit(3)",
    "exit 4": "sys.exit(4)",
    "interrupt": "raise KeyboardInterrupt",
    "own": "raise Strange('odd')",
    "disk": "raise OSError(28, 'No space left on device')",
    "pipe": "raise BrokenPipeError(32, 'Broken pipe')",
    "memory": "raise MemoryError",
    "divide": "1 / 0",
    "mute": "raise Mute",
    "league": "raise Known('as it says')",
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
    "surrogate": "raise ValueError(chr(0xDC80) + ' odd')",
    "no notes": "e = ValueError('odd'); e.__notes__ = 5; raise e",
}
HEAD = """
import sys
import torch
from league.errors import CodeError, GuardError, LeagueError, UsageError
from league.runtime.signals import Interrupted


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
INIT = (
    '    def __init__(self):\n        super().__init__()\n        fail(0, WHERE == "init")\n\n    def reset(self, rng)'
)
GAME = (
    HEAD
    + SUMS.replace("        self.steps += 1", '        fail(AT, WHERE == "step")\n        self.steps += 1').replace(
        "    def reset(self, rng)", INIT
    )
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


fail(0, WHERE == "import")
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


def write(folder: Path, fault: str = "divide", where: str = "", at: int = 0, text: str = GAME) -> tuple[str, int]:
    """The path of a game whose part `where` fails after `at` calls, and the line that is to blame."""
    body = f"WHERE, AT = {where!r}, {at}\n{text}".replace("FAULT", FAULTS.get(fault, fault))
    (folder / "sums.py").write_text(body)
    return str(folder / "sums.py"), 1 + next(i for i, line in enumerate(body.splitlines()) if "# here" in line)


def need_told(called: Called, file: str, line: int) -> str:
    """One error on the last line, with file and line, exit code 1; nothing on stdout."""
    last = called.err.rstrip().splitlines()[-1]
    assert (called.code, called.out) == (1, "") and last.startswith("error: "), called
    assert f"{file}, line {line}" in last and "Traceback" not in called.err and "stdout or a file" not in last, last
    return last


def sets(*more: str) -> list[str]:
    return [word for setting in (*SUMS_SETS, *more) for word in ("--set", setting)]


def need_saved(store: Path) -> None:
    """The run failed after a whole update, and is saved as of it."""
    row = Store.open(store).find_run("r")
    assert row.status == "failed" and row.update >= 1 and row.steps == 32 * row.update
    assert "code_failed" in [event.kind for event in Store.open(store).events("r")]


@pytest.mark.parametrize("fault", cases("exit", "interrupt", "disk", "own", "guard", slow=FAULTS))
def test_a_game_that_fails_as_it_trains_leaves_a_run_that_goes_on(fault: str, user: Path) -> None:
    """The run is saved as of its last whole update, after any exception, and goes on once the game is mended."""
    file, line = write(user, fault, "step", at=1_000)  # after the checks before a run
    more = ("--env", file, "--store", user / "s", "--quiet")
    last = need_told(call("train", "--stage", "smoke", "--run", "r", "--device", "cpu", *sets(), *more), file, line)
    assert "; saved; go on with `league resume r" in last, last
    need_saved(user / "s")
    write(user)
    assert call("resume", "r", *more).code == 0 and Store.open(user / "s").find_run("r").status == "finished"


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
def test_a_part_that_fails_leaves_a_run_that_goes_on(where: str, fault: str, at: int, user: Path) -> None:
    """Samplers, bots and networks: the weights that are saved are those after the last whole update."""
    file, line = write(user, fault, where, at=at)
    words = ["train", "--stage", "smoke", "--env", file, "--store", str(user / "s"), "--run", "r", "--device", "cpu"]
    words += sets("learner.epochs=4")
    if where == "sampler":
        words += ["--sampler", f"{file}:even", "--set", "pool.sampler=even"]
    elif where == "bot":
        words += ["--bot", f"{file}:lucky", "--set", "pool.mix={'bot:lucky'=1.0}"]
    else:
        sizes = league.config.load(env="kuhn").agent.model_dump(exclude={"policy", "history_frames"})
        file, line = write(user, fault, where, at=at, text=f"SIZES = {sizes}\n{NET}")
        file = str(Path(file).rename(user / "net.py"))
        write(user)
        words += ["--policy", f"{file}:make"]
    assert "; saved; go on with" in need_told(call(*words, "--quiet"), file, line)
    need_saved(user / "s")


BY = ("bot:lucky", "--against", "bot:random")
CALLS: dict[str, tuple[object, ...]] = {
    "evaluate": ("evaluate", *BY, "--games", 8),
    "tournament": ("tournament", "bot:lucky", "bot:random", "--games", 8),
    "watch": ("watch", *BY, "--out", "a.html"),
}
FAILING = [
    *((command, *case, 110) for case in product(("step",), ("exit 4", "signal")) for command in CALLS),
    *((command, "bot", fault, 110) for fault in ("guard", "disk") for command in CALLS),
    ("watch", "drawing", "exit", 1),
    *(("evaluate", where, fault, 4) for where, fault in (("legal", "value"), ("legal", "notes"), ("step", "no notes"))),
    ("evaluate", "step", "evil", 4),
    *(("evaluate", "import", fault, 0) for fault in ("exit", "code", "signal", "library", "compiled")),
    ("evaluate", "init", "value", 0),
    ("evaluate", "init", "surrogate", 0),
]
"""Command, the part that fails, how, after how many calls: 110 are more than what opening the game takes."""
MANY = [("step", 110), ("drawing", 1), ("import", 0)]
SLOW = [("watch" if where == "drawing" else "evaluate", where, fault, at) for where, at in MANY for fault in FAULTS]


@pytest.mark.parametrize(("command", "where", "fault", "at"), cases(*FAILING, slow=SLOW))
def test_code_that_fails_ends_a_command_in_its_line(
    command: str, where: str, fault: str, at: int, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bots, games and drawings: neither an exception's class, its notes nor its own code hide where it arose."""
    monkeypatch.chdir(user)
    file, line = write(user, fault, where, at)
    called = call(*CALLS[command], "--env", file, "--bot", f"{file}:lucky", "--store", "none", "--quiet")
    need_told(called, file, line)
    assert len(called.err.splitlines()) == 1


@pytest.mark.parametrize("fault, workers", cases(("exit 3", 2), ("memory", 0), slow=product(FAULTS, [0, 2])))
def test_a_gate_over_code_that_fails_has_exit_code_1(fault: str, workers: int, user: Path) -> None:
    """Neither 0, 3 nor 4, which say what the test found, in this process and in workers."""
    file, line = write(user)
    overrides = [*SUMS_SETS, f"env.workers={workers}"]
    league.train("smoke", env=file, overrides=overrides, store=user / "s", run="r", device="cpu")
    write(user, fault, "step", at=300)  # after what opening it plays
    words = ("gate", "r", "bot:random", "--env", file, "--store", user / "s", "--device", "cpu", "--quiet", "--json")
    need_told(call(*words), file, line)


@pytest.mark.parametrize("fault", cases("number", "library", slow=["compiled", "evil", "mute", "guard"]))
def test_an_environment_that_fails_as_it_is_looked_at_has_its_line(fault: str, user: Path) -> None:
    """Adapters try an environment before anything plays it. A library's error is told by the line that called it."""
    file, line = write(user, fault, text=GYM)
    called = call("check", f"gymnasium:{file}:Mine", "--quiet")
    assert called.code in (1, 2) and called.out == "" and f"{file}, line {line}" in called.err, called
    text = GYM.replace("spaces.Discrete(9)", "spaces.Box(1, -1)")
    write(user, "pass", text=text)
    assert f"({file}, line " in call("check", f"gymnasium:{file}:Mine", "--quiet").err


@pytest.mark.parametrize("how", ["env=__file__", "env=Sums, overrides={'env': {'workers': 2}}"])
def test_a_file_that_trains_as_it_is_loaded_is_refused(how: str, user: Path) -> None:
    """Each process that plays by it loads it, and would begin another run."""
    file = user / "me.py"
    file.write_text(f"{SUMS}\n\nimport league\nleague.train('smoke', {how}, store={str(user / 's')!r})\n")
    line = len(file.read_text().splitlines())
    called = call("check", file, "--quiet")
    assert called.code == 1 and "put that below `if __name__ == '__main__':`" in called.err, called
    assert f"({file}, line {line})" in called.err and not (user / "s").exists(), called


def test_a_picture_that_fails_has_its_line(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `render` of an environment, and one whose `close` has closed stdout is looked at all the same."""
    monkeypatch.chdir(user)
    text = GYM.replace(
        "Discrete(2)\n", "Discrete(2)\n    metadata = {'render_modes': ['rgb_array'], 'render_fps': 4}\n"
    )
    text = text.replace("fail(2, True)", "pass").replace(
        "def reset", "def __init__(self, render_mode=None):\n        pass\n\n    def reset"
    )
    text += (
        "\n    def render(self):\n        fail(0, True)\n\n    def close(self):\n        __import__('os').close(1)\n"
    )
    file, line = write(user, "value", text=text)
    words = ("watch", "bot:random", "bot:world", "--env", f"gymnasium:{file}:Mine", "--out", "a.gif", "--store", "none")
    done = processes.run(*words, "--quiet", cwd=user)
    assert done.returncode == 1 and f"cannot be drawn: ValueError: odd ({file}, line {line}); mend it" in done.stderr, (
        done
    )


@pytest.mark.slow
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
    file, line = write(user, "memory", "step", at=3)
    with pytest.raises(CodeError, match=f"MemoryError .*, line {line}"):
        check_game(file)


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

    how: dict[str, Any] = {"overrides": SUMS_SETS, "store": tmp_path / "s", "device": "cpu", "callback": Leaves()}
    assert league.train("smoke", env="matrix", **how).status == "finished"


@pytest.mark.parametrize("given", [np.False_, False, 0, torch.tensor(False), iter(())])
def test_a_callback_ends_a_run_by_false_or_is_told(
    given: object, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """NumPy's False is one, too; another value is ignored aloud, once."""

    class Ends(league.Callback):
        def report(self, report: object) -> Any:
            return given

    how: dict[str, Any] = {"overrides": SUMS_SETS, "store": tmp_path / "s", "device": "cpu", "callback": Ends()}
    is_false = given is False or given is np.False_
    assert league.train("smoke", env="matrix", **how).status == ("stopped" if is_false else "finished")
    told = [line for line in caplog.messages if line.startswith("report() of a callback gave ")]
    assert len(told) == (not is_false), caplog.messages


def test_what_a_callback_does_to_the_process_is_undone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The working folder, torch's default type and gradients; and a file that it cannot open is told."""

    class Changes(league.Callback):
        def report(self, report: object) -> None:
            os.chdir("/")
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)

        def saved(self, steps: int) -> None:
            (tmp_path / "none" / "x").read_text()

    how: dict[str, Any] = {"overrides": SUMS_SETS, "store": tmp_path / "s", "device": "cpu", "callback": Changes()}
    before = Path.cwd()
    assert league.train("smoke", env="matrix", **how).status == "finished"
    assert (Path.cwd(), torch.get_default_dtype(), torch.is_grad_enabled()) == (before, torch.float32, True)
    assert caplog.messages.count("the callback failed, and training goes on") == 1
    with pytest.raises(UsageError, match=r"is a class; pass an object of it, Changes\(\)"):
        league.train("smoke", env="matrix", **{**how, "callback": Changes})


# What code does to the process

NOISY = """
import asyncio, decimal, io, logging, multiprocessing, os, socket, sys, random, signal, warnings, locale, tempfile
import atexit, ctypes, threading
import numpy, torch
print("printed as it is imported")
atexit.register(print, "at the end")


def mess(value):
    print("printed", value)
    sys.stdout.write("written\\n")
    sys.__stdout__.write("past the stream\\n")
    ctypes.CDLL(None).printf(b"from C\\n")
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
    numpy.set_printoptions(precision=1)
    socket.setdefaulttimeout(0.01)
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    signal.set_wakeup_fd(os.open(os.devnull, os.O_WRONLY | os.O_NONBLOCK))
    torch.backends.mkldnn.enabled = False
    torch.autograd.set_detect_anomaly(True)
    torch.set_flush_denormal(True)
    torch.set_autocast_dtype("cpu", torch.float16)
    decimal.getcontext().prec = 1
    logging.disable(logging.CRITICAL)
    multiprocessing.set_start_method("spawn", force=True)
    asyncio.set_event_loop_policy(asyncio.DefaultEventLoopPolicy())
    threading.settrace(lambda *given: None)
    sys.platform, os.sep = "win32", "x"
    sys.stdout.flush = None
    sys.stdout = sys.stderr = io.StringIO()


IMPORTED
"""


def write_noisy(folder: Path, *, at_import: bool) -> str:
    """A game, a bot and a sampler that print and change what settings a process has."""
    noisy = NOISY.replace("IMPORTED", "mess(0)" if at_import else "")
    game = re.sub(r'fail\(0, WHERE == "(init|import)"\)', "pass", GAME)
    return write(folder, "pass", text=noisy + game.replace("COUNT[0] += 1", "COUNT[0] += 1\n    mess(at)"))[0]


@pytest.mark.parametrize("at_import", cases(True, slow=[False]))
def test_json_stays_json_and_paths_keep_their_meaning(at_import: bool, user: Path) -> None:
    """With a game that prints, by C and at the end too, and changes folder; files are where the command was called."""
    file = write_noisy(user, at_import=at_import)
    home = user / "home"
    home.mkdir()
    words = ["--env", file, "--bot", f"{file}:lucky", "--store", "s", "--device", "cpu", "--quiet", "--json"]
    trained = ["train", "--stage", "smoke", "--run", "r", *sets("pool.mix={'self_play'=0.5,'bot:lucky'=0.5}"), *words]
    for command in (
        [*trained, "--sampler", f"{file}:even", "--set", "pool.sampler=even"],
        ["evaluate", "r", "--against", "bot:lucky", "--games", "4", *words],
        ["gate", "r", "bot:lucky", "--max-games", "32", *words],
        ["watch", *BY, "--out", "a.html", *words],
    ):
        done = processes.run(*command, cwd=home)
        assert done.returncode == 0 or (command[0] == "gate" and done.returncode in (3, 4)), (command, done.stderr)
        assert json.loads(done.stdout)["schema"] == 1 and len(done.stdout.splitlines()) == 1, done.stdout
        assert all(word in done.stderr for word in ("printed", "past the stream", "from C", "descriptor")), done.stderr
    assert (home / "s").exists() and (home / "a.html").exists()


def settings() -> tuple[object, ...]:
    """What this process has set."""
    ours = os.getcwd(), os.environ.get("LEAGUE_KERNELS"), np.geterr(), sys.stdout, locale.setlocale(locale.LC_ALL)
    torchs = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled(), torch.is_anomaly_enabled()
    shown = np.get_printoptions(), socket.getdefaulttimeout(), torch.backends.mkldnn.enabled, sys.platform, os.sep
    signal.set_wakeup_fd(woken := signal.set_wakeup_fd(-1))
    odd = woken, 5e-324 * float(torch.ones(())) > 0, torch.get_autocast_dtype("cpu")
    more = decimal.getcontext().prec, logging.root.manager.disable, multiprocessing.get_start_method(allow_none=True)
    rest = asyncio.events._event_loop_policy, threading.gettrace()  # type: ignore[attr-defined]  # it has no getter
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    return *ours, *torchs, *shown, *odd, *more, *rest, *map(signal.getsignal, signals), "flush" in vars(sys.stdout)


def draws() -> tuple[object, ...]:
    return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()


@pytest.mark.parametrize("name", [name for name in league.__all__ if not isinstance(getattr(league, name), type)])
def test_each_function_leaves_the_generators_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What code below it seeds is as before at its end, by an error too."""

    def seeds() -> None:
        random.seed(1), np.random.seed(1), torch.manual_seed(1)
        raise LeagueError("no")

    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    drawn, inner = draws(), inspect.unwrap(getattr(league, name))
    monkeypatch.setattr(sys.modules[inner.__module__], inner.__name__, seeds)
    with pytest.raises(LeagueError, match="no"):
        getattr(league, name)()
    assert drawn == draws()


def test_functions_that_code_replaces_are_put_back_and_named(user: Path) -> None:
    """By a call in Python as by a command: those of Python, NumPy and torch."""
    broken = "json.dumps = lambda *given, **more: 5\n    torch.Tensor.to = None\n    return 0\n"
    (user / "sums.py").write_text(f"import json, torch\n{SUMS}\ndef lucky(obs, legal, rng):\n    {broken}")
    bot, dumps = f"{user}/sums.py:lucky", json.dumps
    words = r"your code changed torch\.Tensor\.to and json\.dumps, after which .*; leave torch\.Tensor\.to and"
    with pytest.raises(CodeError, match=words):
        league.watch("bot:lucky", "bot:random", user / "a.html", env=str(user / "sums.py"), bots=bot)
    assert json.dumps is dumps and "to" not in vars(torch.Tensor)


def test_functions_of_python_are_back_after_an_import(user: Path) -> None:
    """At once: what lies between an import and the end of a call relies on them, and may go on for ever."""
    broken = "os.path.join, os.scandir, time.sleep = str, None, lambda seconds: None\njson.dumps = print"
    (user / "sums.py").write_text(f"import json, os, time\n{broken}\n{SUMS}")
    before = os.path.join, os.scandir, time.sleep, json.dumps
    enter(str(user / "sums.py"))
    assert (os.path.join, os.scandir, time.sleep, json.dumps) == before


def test_a_match_that_draws_from_torch_is_played_by_its_seed(user: Path) -> None:
    """As one that draws from Python or NumPy; the generators are its caller's again after each step."""
    (user / "sums.py").write_text("import torch\n" + SUMS.replace("[self.steps / 4]", "[float(torch.rand(()))]"))
    environment, seen = MatchEnv(str(user / "sums.py")), []
    for _ in range(2):
        drawn = draws()
        seen.append([environment.reset(seed=1)[0].tolist(), environment.step([0])[0].tolist()])
        assert drawn == draws()
        torch.rand(5)
    assert seen[0] == seen[1] and seen[0][0] != seen[0][1]


def test_a_trainer_puts_functions_back_after_each_phase(user: Path) -> None:
    file, _ = write(user, "os.getlogin = None", "step", text=TRAP + GAME)
    before = os.getlogin
    with league.Trainer("smoke", env=file, overrides=SUMS_SETS, store=user / "s", device="cpu") as trainer:
        assert os.getlogin is before
        trainer.collect()
        assert os.getlogin is before
        trainer.discard()


def test_a_bot_draws_by_the_seed_of_its_evaluation(user: Path) -> None:
    """From the global generators, too: the same again, and others with another seed."""
    file = str(user / "sums.py")
    bot = f"\n    print(random.random(), file=open({str(user / 'drawn')!r}, 'a'))\n    return 0\n"
    (user / "sums.py").write_text(f"import random\n{SUMS}\ndef lucky(obs, legal, rng):{bot}")
    drawn = []
    for seed in (1, 1, 2):
        league.evaluate("bot:lucky", "bot:random", 2, seed=seed, env=file, bots=f"{file}:lucky", store=user / "no")
        drawn.append((user / "drawn").read_text())
        (user / "drawn").unlink()
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize("at_import", cases(True, slow=[False]))
def test_what_code_sets_of_the_process_is_put_back(at_import: bool, user: Path) -> None:
    """Importing a game, evaluating and training leave the process as it was; a run learns what it learns without."""
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    kept, drawn = settings(), draws()
    file = write_noisy(user, at_import=at_import)
    enter(file)
    assert not at_import or drawn == draws()
    league.evaluate("bot:lucky", "bot:random", 4, env=file, bots=f"{file}:lucky", store=user / "no")
    league.train("smoke", env=file, overrides=SUMS_SETS, store=user / "s", run="r", device="cpu")
    league.watch("bot:lucky", "bot:random", user / "a.html", env=file, bots=f"{file}:lucky", store=user / "no")
    check_bot(file, "random", matches=2)
    with league.Trainer("smoke", env=file, overrides=SUMS_SETS, store=user / "s", run="t", device="cpu") as trainer:
        trainer.learn(trainer.collect())
    assert [x for x in zip(settings(), kept, strict=True) if x[0] != x[1]] == []
    assert drawn == draws()
    assert ("error", None, Warning, None, 0) not in warnings.filters


def test_what_a_game_is_made_of_leaves_the_process_alone(user: Path) -> None:
    """What its `__init__` changes is put back by each door that makes one, as those that check its options do."""
    init = "    def __init__(self, rounds: int = 3):\n        mess(1)\n\n    def reset"
    game = SUMS.replace("    def reset", init)
    (user / "sums.py").write_text(NOISY.replace("IMPORTED", "") + game)
    kept = settings(), random.getstate()
    name = enter(str(user / "sums.py")) or ""
    assert (settings(), random.getstate()) == kept
    for door in (registry.check_options, registry.spec, registry.layout, registry.game_id, registry.tree):
        door(name, {})
        assert (settings(), random.getstate()) == kept, door
    registry.make(name, rows=2, threads=1, options={}).step()
    assert (settings(), random.getstate()) == kept


def test_a_library_that_a_step_drops_is_back_at_once(user: Path) -> None:
    """Else NumPy, which is used everywhere, is loaded again and warns at each place."""
    file, _ = write(user, "sys.modules.pop('numpy', None)", "step", text=TRAP + GAME)
    batch = registry.make(enter(file) or "", rows=2, threads=1, options={})
    before = sys.modules["numpy"]
    batch.step()
    assert sys.modules.get("numpy") is before


TRAPS = {
    "flush": "sys.stdout.flush = sys.stderr.write = None",
    "name": "os.name, os.sep = 'nt', 'x'",
    "recursion": "sys.setrecursionlimit(len(inspect.stack()) + 20)",
    "excepthook": "sys.excepthook = threading.excepthook = sys.unraisablehook = None",
    "no hook": "del sys.excepthook, sys.displayhook",
    "path": "sys.path.clear()",
    "finders": "sys.meta_path.clear(); sys.path_hooks = []",
    "modules": "sys.modules.clear()",
    "fake module": "sys.modules['json'] = sys.modules['torch'] = None",
    "argv": "sys.argv = None",
    "print": "builtins.print = builtins.open = None",
    "deleted": "del builtins.print, builtins.range",
    "stdin": "sys.stdin = None",
    "streams": "del sys.stdout, sys.stderr",
    "mask": "os.umask(0o777)",
    "child": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "pipe": "signal.signal(signal.SIGPIPE, signal.SIG_DFL)",
    "switch": "sys.setswitchinterval(50)",
    "closed": "sys.stdout.close(); sys.stderr.close()",
    "descriptors": "os.dup2(os.open(os.devnull, os.O_WRONLY), 2); os.close(1)",
    "environ": "os.environ = None",
    "collector": "import gc; gc.disable(); gc.set_threshold(1); gc.set_debug(gc.DEBUG_STATS)",
    "blocked": "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])",
    "limit": "import resource as r; r.setrlimit(r.RLIMIT_FSIZE, (0, r.getrlimit(r.RLIMIT_FSIZE)[1]))",
    "alarm": "signal.setitimer(signal.ITIMER_REAL, 0.3)",
    "trace": "sys.settrace(lambda *given: None); sys.setprofile(lambda *given: None)",
    "processes": "import resource as r; r.setrlimit(r.RLIMIT_NPROC, (99, r.getrlimit(r.RLIMIT_NPROC)[1]))",
    "fork": "if os.getpid() == FIRST: os.fork()",
    "process": "os.getpid, os.getcwd = lambda: 0, lambda: '/none'",
}
TRAP = "import builtins, inspect, os, signal, sys, threading\nFIRST, KEPT = os.getpid(), []\n"


@pytest.mark.parametrize("where", ["import", "step", "bot", "drawing"])
@pytest.mark.parametrize(
    "trap",
    cases("process", "recursion", "modules", "closed", "limit", slow=TRAPS),
)
def test_what_python_needs_is_put_back(trap: str, where: str, user: Path) -> None:
    """Paths, modules, hooks, built-in functions, the recursion limit: commands end as they do without."""
    file, _ = write(user, TRAPS[trap], where, text=TRAP + GAME)
    words = ("watch", *BY, "--out", user / "a.html", "--json", "--quiet", "--env", file, "--bot", f"{file}:lucky")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given = [*map(str, words), "--store", str(user / "s")]
    process = processes.Process(kept_command, [given, str(user / "lost.json")], cwd=user, **pipes)
    out, err = process.communicate(60)
    assert json.loads((user / "lost.json").read_text()) == [], err
    if process.returncode:  # an error names the line of the game, or the setting
        assert "Traceback" not in err and len(err.splitlines()) == 1 and ("sums.py, line" in err or "your code" in err)
    else:
        assert json.loads(out)["schema"] == 1 and (user / "a.html").exists() and not err


MODES = {
    "torch.inference_mode()": "torch.inference_mode",
    "torch.autocast('cpu', torch.bfloat16)": "torch.autocast",
    "torch.device('meta')": "torch.device",
    "torch.autograd.graph.saved_tensors_hooks(abs, abs)": "saved_tensors_hooks",
}
LEFT = [
    *(
        (f"KEPT.append({mode}); KEPT[-1].__enter__()", where, MODES[mode])
        for mode in MODES
        for where in ("step", "bot")
    ),
    *((f"KEPT.append({mode}); KEPT[-1].__enter__()", "import", MODES[mode]) for mode in MODES),
    ("builtins.len = None", "bot", "builtins.len"),
    ("import duckdb; duckdb.connect = None", "import", "duckdb.connect"),
]


@pytest.mark.parametrize(("trap", "where", "name"), LEFT)
def test_what_cannot_be_put_back_is_refused_by_name(trap: str, where: str, name: str, user: Path) -> None:
    """A mode of torch that code enters and does not leave; an error of ours that follows from what it replaced."""
    file, _ = write(user, trap, where, text=TRAP + GAME)
    words = ("evaluate", *BY, "--games", 2, "--bot", f"{file}:lucky")
    if where == "import" and "KEPT" not in trap:
        words = ("train", "--stage", "smoke", *sets())
    done = processes.run(*words, "--env", file, "--store", user / "s", "--quiet", cwd=user)
    told = f"your code entered {name}" if "KEPT" in trap else rf"error: your code changed {name}, after which .*"
    assert done.returncode in (1, 2) and re.search(told, done.stderr), done
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1


def test_what_nothing_can_catch_is_a_line(user: Path) -> None:
    """An exception in a thread or a destructor is said once for each place, and ends nothing."""
    stray = "import threading\nclass Stray:\n    def fail(self):\n        1 / 0\n"
    stray += "    def __del__(self):\n        sys.exit()\n"
    file, _ = write(user, "Stray(); threading.Thread(target=Stray().fail).start()", "step", text=stray + GAME)
    words = ("evaluate", "bot:random", "--against", "bot:lucky", "--bot", f"{file}:lucky", "--games", 2, "--quiet")
    done = processes.run(*words, "--env", file, "--store", user / "s", cwd=user)
    assert done.returncode == 0, done
    assert sorted(done.stderr.splitlines()) == [
        f"your code raised {error} ({file}, line {line}) {where}, which stops nothing; mend it"
        for error, line, where in (
            ("SystemExit", 7, "where nothing can catch it"),
            ("ZeroDivisionError: division by zero", 5, "in a thread"),
        )
    ]


@pytest.mark.slow
def test_what_an_environment_raises_as_it_is_let_go_of_is_a_line(user: Path) -> None:
    """Though what it writes as it is looked at is not shown."""
    gone = "    def __del__(self):\n        1 / 0\n\n    def step"
    (user / "g.py").write_text(
        GYM.replace("fail(2, True)", "pass").replace("FAULT", "pass").replace("    def step", gone)
    )
    words = ("check", f"gymnasium:{user / 'g.py'}:Mine", "--quiet")
    done = processes.run(*words, cwd=user)
    assert done.returncode == 0 and done.stderr.count("your code raised ZeroDivisionError") == 1, done


def test_a_warning_is_a_line(user: Path) -> None:
    """With the place in the user's code; one that arises in league from what the code gives is refused by a check."""
    fault = "import warnings, numpy; warnings.warn('mine\\nis odd'); numpy.float32(3e38) * numpy.float32(3e38)"
    file, line = write(user, fault, "step")
    done = processes.run("check", file, "--quiet", cwd=user)
    assert done.stderr.splitlines()[:-1] == [  # the last is what the check says of the game
        f"UserWarning: mine is odd ({file}, line {line})",
        f"RuntimeWarning: overflow encountered in scalar multiply ({file}, line {line})",
    ]
    Path(file).write_text(SUMS.replace("[self.steps / 4]", "[1e39]"))
    done = processes.run("check", file, "--quiet", cwd=user)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and done.stderr.endswith("; mend it\n"), done


@pytest.mark.slow
def test_what_goes_on_after_a_command_does_not_keep_it(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that is no daemon, which Python would wait for: the command ends with its exit code, and says so."""
    file, line = write(user, "threading.Thread(target=time.sleep, args=(1_000,), name='mine').start(); 1 / 0", "step")
    (user / "sums.py").write_text(f"import threading, time; {(user / 'sums.py').read_text()}")
    starts = "from league import cli; from league.runtime import signals; signals.END_SECONDS = 0.2; cli.main()"
    words = ["evaluate", *BY, "--games", "2", "--bot", f"{file}:lucky", "--env", file, "--store", "none", "--quiet"]
    done = subprocess.run([sys.executable, "-c", starts, *words], capture_output=True, text=True, timeout=120)
    first, last = done.stderr.splitlines()
    assert done.returncode == 1 and f"{file}, line {line}" in first
    assert last.startswith("your code left mine") and "end it in your code" in last


@pytest.mark.slow
def test_what_python_calls_as_it_ends_is_a_line_at_most(user: Path) -> None:
    """`os._exit` there would hide an exit code, and `sys.exit` is an error that nothing catches."""
    ends = "atexit.register(os._exit, 0); atexit.register(lambda: os._exit(0)); atexit.register(sys.exit, 0)"
    file, _ = write(user, f"import atexit; {ends}; 1 / 0", "step")
    (user / "sums.py").write_text(f"import os; {(user / 'sums.py').read_text()}")
    starts = "from league import cli; cli.main()"
    words = ["check", file, "--quiet"]
    done = subprocess.run([sys.executable, "-c", starts, *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "sums.py, line" in done.stderr and "Traceback" not in done.stderr, done
    assert f"SystemExit: os._exit ({file}, line " in done.stderr and len(set(done.stderr.splitlines())) <= 3, done


@pytest.mark.parametrize("name", ["step", "observe"])
def test_a_method_that_a_match_takes_away_is_a_line(name: str, user: Path) -> None:
    (user / "sums.py").write_text(SUMS.replace("self.steps += 1", f"self.steps += 1; self.{name} = None"))
    called = call("check", user / "sums.py", "--quiet")
    assert called.code == 1 and f"{name} cannot be called any more" in called.err and "Traceback" not in called.err


@pytest.mark.parametrize("bot", ["def b():\n    return 0\n", "from functools import partial\nb = partial(int, 5)\n"])
def test_a_bot_that_cannot_be_called_is_told_without_our_files(bot: str, user: Path) -> None:
    """What is called is at fault: no line of league is named."""
    (user / "f.py").write_text(bot)
    words = ("evaluate", "bot:b", "--against", "bot:random", "--env", "kuhn", "--games", 2, "--store", user / "s")
    called = call(*words, "--bot", f"b={user / 'f.py'}:b", "--quiet")
    assert called.code == 1 and "bot:b: " in called.err and "mend it" in called.err, called
    assert "/play/" not in called.err and len(called.err.splitlines()) == 1


def test_a_class_that_is_no_environment_is_named(user: Path) -> None:
    """Not by the module that league has made of its file."""
    (user / "g.py").write_text("class E:\n    pass\n")
    called = call("check", f"gymnasium:{user / 'g.py'}:E", "--quiet")
    assert called.code == 2 and "class E is no gymnasium.Env; mend" in called.err and "league_game" not in called.err


def test_a_group_of_errors_says_its_first() -> None:
    assert described(ExceptionGroup("tasks", [ValueError("odd")])).endswith("(1 sub-exception): ValueError: odd")


def test_an_error_in_an_error_has_one_step() -> None:
    """What a message holds of another error is without that one's step."""
    rule = ContractError("a is b")
    assert (str(rule), str(UsageError(f"x: {rule}"))) == ("a is b; mend it", "x: a is b; pass another value")
    assert str(UsageError("a\x1b\nb; c")) == "a\\x1b b; c"


def test_hooks_are_put_back() -> None:
    """Those that Python calls with an exception, of processes, threads and what is let go of."""
    before = sys.excepthook, threading.excepthook, sys.unraisablehook
    with settings_kept():
        sys.excepthook = threading.excepthook = sys.unraisablehook = None  # type: ignore[assignment]
    assert (sys.excepthook, threading.excepthook, sys.unraisablehook) == before
    with settings_kept():
        del sys.excepthook
    assert sys.excepthook is before[0]


def lower_for_good(folder: Path) -> None:
    """In a process of its own, which is not root's: it cannot raise a hard limit."""
    os.setuid(65534) if os.getuid() == 0 else None
    for number in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE):
        words = r"your code lowered the hard limit RLIMIT_\w+, which nothing can raise again; set its soft limit alone"
        with pytest.raises(CodeError, match=words), settings_kept():
            soft, hard = (each if each >= 0 else 1_000_000 for each in resource.getrlimit(number))
            resource.setrlimit(number, (min(soft, hard - 1), hard - 1))
    os._exit(7)


def test_a_hard_limit_that_stays_low_is_refused(user: Path) -> None:
    """By its name; a soft one is put back."""
    done = processes.Process(lower_for_good, [user], cwd=user, stderr=subprocess.PIPE)
    assert done.communicate(60) and done.returncode == 7, done


@pytest.mark.parametrize("call", ["os._exit(0)", "os.abort()", "os.execl(sys.executable, 'python', '-c', '')"])
def test_code_that_ends_the_process_is_a_line(call: str, user: Path) -> None:
    """`os._exit` would end a command in silence, with the exit code of its choice; so would another program."""
    file, _ = write(user, call, "step", text=TRAP + GAME)
    done = processes.run("check", file, "--quiet", cwd=user)
    word = call.partition("(")[0].replace("execl", "execv")
    assert done.returncode == 1 and re.search(rf"error: .*SystemExit: {word}.* \({file}, line \d+\)", done.stderr), done


def test_a_thread_that_ends_the_process_is_a_line(user: Path) -> None:
    """What ends is the thread."""
    end = "thread = threading.Thread(target=os._exit, args=(0,)); thread.start(); thread.join()"
    file, _ = write(user, end, "step", text=TRAP + GAME)
    done = processes.run("evaluate", *BY, "--games", 2, "--bot", f"{file}:lucky", "--env", file, "--quiet", cwd=user)
    told = "your code raised SystemExit: os._exit in a thread, which stops nothing; mend it\n"
    assert (done.returncode, done.stderr) == (0, told), done


@pytest.mark.parametrize(
    "number",
    cases(signal.SIGUSR1, slow=[signal.SIGSEGV, signal.SIGVTALRM, signal.SIGRTMIN + 3, signal.SIGQUIT]),
)
def test_a_signal_that_code_sends_is_told_with_its_line(number: int, user: Path) -> None:
    """It would kill in silence."""
    file, line = write(user, f"signal.raise_signal({int(number)})", "step", text=TRAP + GAME)
    starts = "from league import cli; cli.main()"
    words = [sys.executable, "-c", starts, "check", file, "--quiet"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=user)
    if number in (signal.SIGSEGV, signal.SIGQUIT):
        assert done.returncode == -number and f'File "{file}", line {line} in fail' in done.stderr, done
        return
    name = f"{int(number)}, {signal.strsignal(number)}"
    told = f"interrupted by signal {name}, at {file}, line {line}; what was stored before is kept\n"
    assert (done.returncode, done.stderr) == (128 + number, told), done


def test_a_process_that_code_forks_is_not_interrupted() -> None:
    """As `multiprocessing` ends those of its pools: our handler would raise an error in each."""
    with on_signal(interrupt):
        if not (child := os.fork()):
            try:
                signal.pause()
            finally:
                os._exit(0)
        os.kill(child, signal.SIGTERM)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM


def test_an_error_in_a_process_that_code_forks_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """In a line; the process ends there."""
    with StepKept():
        if not (child := os.fork()):
            raise ValueError("in the child")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert capfd.readouterr().err == "a process that your code forked: ValueError: in the child\n"


# What code gives


@pytest.mark.parametrize(
    "gives", ["None", "5", "[]", "[[1, 2], [3]]", "'x'", "np.full((4, 4, 3), np.nan)", "np.zeros((0, 4, 3), int)"]
)
def test_a_picture_that_is_none_is_a_line(gives: str, user: Path) -> None:
    """A wrong type, shape or number; pages and films end in the same line."""
    (user / "sums.py").write_text(f"import numpy as np\n{SUMS}\n    def render(self):\n        return {gives}\n")
    words = ("--env", user / "sums.py", "--store", user / "s", "--out", user / "a.html", "--quiet")
    called = call("watch", "bot:random", "bot:random", *words)
    assert called.code == 1 and "must give an array (height, width, 3)" in called.err, called
    assert "Traceback" not in called.err and not (user / "a.html").exists()


@pytest.mark.parametrize(("then", "now"), [("def step", "async def step"), ("self.steps += 1", "yield")])
def test_a_method_that_does_nothing_when_called_is_refused(then: str, now: str, user: Path) -> None:
    """A coroutine or a generator."""
    (user / "sums.py").write_text(SUMS.replace(then, now))
    assert "step has `async` or `yield`" in call("check", user / "sums.py").err


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda net: net.double(), "of torch.float64, not torch.float32"),
        (lambda net: net.register_buffer("odd", torch.tensor([torch.nan])) or net, "a buffer odd with numbers"),
    ],
)
def test_a_network_of_other_numbers_is_refused(change: Any, word: str) -> None:
    """As where its `make` sets another default type of torch."""
    spec = registry.spec("kuhn", {})
    agent = league.config.load(env="kuhn").agent.model_copy(update={"lstm_size": 8})
    with pytest.raises(ContractError, match=word):
        check_policy(change(MLP(spec, agent)), spec)
    with pytest.raises(UsageError, match="spec=5"):
        check_policy(MLP(spec, agent), 5)  # type: ignore[arg-type]


@pytest.mark.parametrize("callback", [5, [None], type("C", (league.Callback,), {"on_report": print})()])
def test_a_callback_that_is_none_is_refused(callback: Any, tmp_path: Path) -> None:
    """Nothing is begun."""
    with pytest.raises(UsageError, match="has no method of league"):
        league.train("smoke", env="kuhn", store=tmp_path / "s", callback=callback)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"overrides": {5: {}}}, "must be a dict of sections"),
        ({"callback": league.track}, "has no method of league"),
    ],
)
def test_an_argument_of_another_type_is_refused(how: Any, words: str, tmp_path: Path) -> None:
    """Sections have names; a function is no callback."""
    with pytest.raises(UsageError, match=words):
        league.train("smoke", env="kuhn", store=tmp_path / "s", **how)


def test_a_seed_that_is_none_is_refused() -> None:
    """By each door of `league.testing`."""
    for seed, words in ((-1, "must be from 0 to"), ("x", "must be a whole number")):
        with pytest.raises(UsageError, match=words):
            check_game("kuhn", seed=seed)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", ["csv=", "none=x"])
def test_a_tracker_with_a_folder_that_is_none_is_refused(word: str) -> None:
    """An empty one, or one of no tracker."""
    with pytest.raises(UsageError, match="folder; write "):
        league.track(word)


def test_weights_in_text_are_refused() -> None:
    """NumPy takes them for numbers."""
    with pytest.raises(GuardError, match="must return one weight for each"):
        samplers._checked("mine", ["1", "1"], 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", [b"[league.games]\nhello there\n", b"[league.games]\nhello = a b c\n", b"\xff\xfe"])
def test_a_broken_installed_package_is_one_line(text: bytes, tmp_path: Path) -> None:
    """pydantic reads the entry points of all packages, too."""
    info = tmp_path / "odd-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (info / "entry_points.txt").write_bytes(text)
    starts = "from league import cli; cli.main()"
    path = os.pathsep.join([*sys.path, str(tmp_path)])
    how: dict[str, Any] = {"capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([sys.executable, "-c", starts, "games"], env={**os.environ, "PYTHONPATH": path}, **how)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done
    assert f"error: {info}: " in done.stderr and done.stderr.rstrip().endswith("or uninstall it")
