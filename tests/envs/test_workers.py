"""Matches in worker processes are, bit for bit, those in one process; and no worker outlives whoever started it."""

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from league.arena.games import enter
from league.envs import Match, registry
from league.envs.lastaction import LastActions, _pack
from league.envs.matches.row import MatchError
from league.envs.workers import processes as pool
from league.envs.workers.batch import WorkerBatch
from league.envs.workers.processes import WorkerError
from league.envs.workers.sharing import arrays_of
from league.errors import CodeError, ConfigError, LeagueError
from league.types import Regrouping, Turns
from tests.helpers.cases import cases
from tests.helpers.games import new_user

ROOT = Path(__file__).resolve().parents[2]
NOISY = '''
"""A game of two matches' length that does what its options say."""
import os, signal, sys
from league.envs import Match


def lucky(observation, legal, rng):
    return int(rng.integers(3))


class Noisy(Match):
    obs_size, action, public_actions, max_steps = 3, 3, True, 9
    bots, reward_terms, metrics = {"lucky": lucky}, ("even",), ("odd",)

    def __init__(self, fault: str = "", at: int = 4):
        self.fault, self.at = fault, at

    def reset(self, rng):
        self.rng, self.steps, self.length, self.noise = rng, 0, int(rng.integers(3, 12)), 0.0

    def observe(self, seat):
        return [self.noise, seat, float(self.fault == "torch" and "torch" in sys.modules)]

    def step(self, actions):
        self.steps += 1
        self.noise = self.rng.random()
        self.reward(0, "even", actions[0]) if self.steps % 2 == 0 else self.measure(1, "odd", actions[1])
        if self.fault and self.steps == self.at and self.length == 11:
            print("about to", self.fault)
            if self.fault == "divide":
                1 / 0
            elif self.fault == "break":
                self.reward(0, "nothing", 1)
            elif self.fault == "exit":
                os._exit(7)
            elif self.fault == "kill":
                print("last words", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGSEGV)
            while self.fault == "hang":
                pass
        if self.steps >= self.length:
            self.end((None, 0, 1)[sum(actions) % 3])
'''


ARRAYS_ONLY = """
from dataclasses import replace
from league.envs.classic import matrix
from league.envs.classic.matrix import Options


def spec(options):
    return replace(matrix.spec(options), name="alone")


class Batch:
    def __init__(self, rows, options):
        self._batch, self.spec, self.num_rows = matrix.MatrixBatch(rows, options), spec(options), rows

    def __getattr__(self, name):
        if name == "regroup":
            raise AttributeError(name)
        return getattr(self._batch, name)


def make(rows, threads, options):
    return Batch(rows, options)
"""


@pytest.fixture(autouse=True)
def _user(tmp_path: Path) -> Iterator[None]:
    with new_user(tmp_path):
        yield
    gc.collect()
    assert not pool._pools


def noisy(folder: Path, text: str = NOISY) -> str:
    """The name of that game, once it was named."""
    (folder / "noisy.py").write_text(text)
    return enter(str(folder / "noisy.py")) or ""


def trace(batch: Any, *, steps: int = 30, seed: Any = 5) -> list[bytes]:
    """All that a batch shows in a play at random with bots, held rows and a state that is taken up again."""
    rng, seen = np.random.default_rng(0), list[bytes]()
    shape = (*batch.actions.shape[:2], batch.spec.action.num_draws)
    batch.controllers[:] = np.where(rng.random(batch.controllers.shape) < 0.3, 0, -1)
    batch.reset(seed)
    for i in range(steps):
        if isinstance(batch, Turns):
            batch.held[:] = rng.random(batch.num_rows) < 0.3
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random(shape))
        batch.step()
        seen += [array.tobytes() for array in arrays_of(batch).values()]
        if i == steps // 3:
            state = batch.get_state()
            seen.append(state)
        elif i == 2 * steps // 3:
            batch.set_state(state)
    return [*seen, batch.get_state()]


def is_there(pid: int) -> bool:
    """Whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    """Whether the processes end within so many seconds."""
    until = time.monotonic() + seconds
    while any(map(is_there, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("game", cases("connect4", "noisy", slow=["cards", "leduc", "matrix", "brawl", "rps"]))
def test_any_number_of_workers_plays_the_same(game: str, tmp_path: Path) -> None:
    """Every array in every step, and the state: games in turns with held rows, masks, tuples, bots, last actions."""
    name = noisy(tmp_path) if game == "noisy" else game
    if (ROOT / "examples" / f"{game}.py").exists():
        name = enter(str(ROOT / "examples" / f"{game}.py")) or ""
    traces = []
    for count in (0, 2):
        batch = registry.make(name, rows=7, threads=1, options={}, workers=count)
        assert (isinstance(batch, WorkerBatch), isinstance(batch, Regrouping)) == (count > 0, True)
        traces.append(trace(batch))
        del batch
    assert traces[0] == traces[1]


def test_a_state_goes_on_with_any_number_of_workers(tmp_path: Path) -> None:
    """Its rows in other groups, too; and a damaged one changes nothing in any worker."""
    name = noisy(tmp_path)
    one, three = [registry.make(name, rows=6, threads=1, options={}, workers=n) for n in (0, 3)]
    assert isinstance(one, LastActions)
    trace(one)
    state = one.get_state()
    three.set_state(state)
    assert three.get_state() == state and three.obs.tobytes() == one.obs.tobytes()
    assert isinstance(one, Regrouping) and isinstance(three, Regrouping)
    assert three.regroup([state], [2, 4]) == one.regroup([state], [2, 4])
    rows, controllers = one._batch._unpack(one._batch.get_state())
    rows[4][1] = [[0, 0]] * 50  # in the third worker's part: longer than a match can be
    spoilt = one._batch._pack(rows, controllers)
    with pytest.raises(ValueError, match="cannot be played again"):
        three.set_state(_pack(spoilt, one._last))
    assert three.get_state() == state and three.obs.tobytes() == one.obs.tobytes()
    with pytest.raises(ValueError, match="damaged"):
        three.set_state(state[:-1] + bytes([state[-1] ^ 1]))
    with pytest.raises(ValueError, match="6 rows"):
        registry.make(name, rows=5, threads=1, options={}, workers=3).set_state(state)


@pytest.mark.slow
def test_a_game_that_cannot_regroup_goes_on_with_as_many_workers(tmp_path: Path) -> None:
    """And is refused with others."""
    (tmp_path / "alone.py").write_text(ARRAYS_ONLY)
    name = enter(str(tmp_path / "alone.py")) or ""
    two, again, other = (registry.make(name, rows=5, threads=1, options={}, workers=n) for n in (2, 2, 1))
    assert not isinstance(two, Regrouping)
    seen = trace(two)
    again.set_state(two.get_state())
    assert again.get_state() == seen[-1] and again.obs.tobytes() == two.obs.tobytes()
    for state in (seen[-1], b"", registry.make(name, rows=5, threads=1, options={}).get_state()):
        with pytest.raises(ValueError, match="state"):
            other.set_state(state)


def test_seeds_of_a_games_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A game that makes its rows' seeds in another way plays in workers what it plays in one process.

    Here as on a system without Linux's sockets and files.
    """
    monkeypatch.delattr(os, "memfd_create", raising=False)
    monkeypatch.setattr(pool, "SOCKET", socket.SOCK_STREAM)
    body = (ROOT / "envs" / "classic" / "matrix.py").read_text()
    body = body.replace('NAME = "matrix"', 'NAME = "own"').replace('name="matrix"', 'name="own"')
    own = "def reset(self, seed):\n        super().reset(seed if hasattr(seed, 'shape') else seed + 1)\n"
    body = body.replace("    has_mask = False\n", f"    has_mask = False\n\n    {own}")
    (tmp_path / "own.py").write_text(body)
    name = enter(str(tmp_path / "own.py")) or ""
    one, two = (registry.make(name, rows=5, threads=1, options={}, workers=n) for n in (0, 2))
    assert isinstance(two, WorkerBatch) and not two._has_usual_seeds
    assert trace(one) == trace(two)


@pytest.mark.parametrize("fault", cases("break", slow=["divide"]))
def test_what_a_game_raises_is_what_it_raises_in_one_process(fault: str, tmp_path: Path) -> None:
    """The same exception with the same line: row, step and seed are those of the whole batch."""
    name, found = noisy(tmp_path), []
    for count in (0, 2):
        batch = registry.make(name, rows=7, threads=1, options={"fault": fault}, workers=count)
        with pytest.raises(Exception) as caught:
            trace(batch)
        found.append((type(caught.value), str(caught.value), getattr(caught.value, "__notes__", [""])[0]))
        if count:
            with pytest.raises(LeagueError, match="broken off"):
                batch.step()
            batch.reset(np.zeros(7, np.uint64))
        del batch
    if fault == "divide":  # an exception of its own comes as an error that names it, with file and line
        (kind, words, note), (told, line, _) = found
        assert kind is ZeroDivisionError and told is CodeError
        assert f"ZeroDivisionError: {words}" in line and "noisy.py, line" in line and note in line
    else:
        assert found[0] == found[1] and found[0][0] is MatchError
    assert "row" in found[0][1] + found[0][2]


@pytest.mark.parametrize(
    ("fault", "words"), cases(("kill", "signal SIGSEGV; it last printed: "), slow=[("exit", "exit code 7")])
)
def test_a_worker_that_dies_is_named(fault: str, words: str, tmp_path: Path) -> None:
    name = noisy(tmp_path)
    batch, other = (registry.make(name, rows=5, threads=1, options={"fault": fault}, workers=2) for _ in range(2))
    with pytest.raises(WorkerError, match=rf"worker \d of 2 \(rows (0 to 2|3 to 4)\) died, {words}") as caught:
        trace(batch, steps=200)
    assert "\n" not in str(caught.value) and "env.workers=0" in str(caught.value)
    assert fault == "exit" or "last words" in str(caught.value)
    with pytest.raises(WorkerError, match="died"):
        other.get_state()
    new = registry.make(name, rows=5, threads=1, options={}, workers=2)
    new.reset(0)
    new.step()


def test_workers_end_with_the_last_batch_that_needs_them(tmp_path: Path) -> None:
    """Batches of a game share them; they hold no torch, and leave signals to the process that they serve."""
    name = noisy(tmp_path)
    one, two = (registry.make(name, rows=4, threads=1, options={"fault": "torch"}, workers=2) for _ in range(2))
    assert isinstance(one, WorkerBatch) and isinstance(two, WorkerBatch) and one.pids == two.pids
    pids = one.pids
    assert all(os.getpgid(pid) not in (os.getpgid(0),) for pid in pids)
    one.reset(0)
    assert "torch" in sys.modules and not one.obs[:, :, 2].any()
    one.close()
    two.reset(0)
    two.step()
    for pid in pids:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
    two.step()
    assert all(map(is_there, pids))
    del two
    assert not any(map(is_there, pids))


@pytest.mark.slow
def test_a_step_that_is_broken_off_spoils_no_other_batch(tmp_path: Path) -> None:
    """As by Ctrl+C in an evaluation, whose batch is dropped: the training's goes on with the same workers."""
    slow = NOISY.replace(
        "self.steps += 1\n", "self.steps += 1\n        import time; time.sleep(0.1 * (self.at == 100))\n"
    )
    name = noisy(tmp_path, slow)
    batches = [registry.make(name, rows=4, threads=1, options={"at": at}, workers=2) for at in (100, 0)]
    states = [registry.make(name, rows=4, threads=1, options={"at": 0}, workers=n) for n in (0, 2)]

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    batches[0].reset(0)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            batches[0].step()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(LeagueError, match="broken off"):
        batches[0].step()
    assert trace(states[0]) == trace(states[1])


CHILD = """
import sys, time
from league.arena.games import enter
from league.envs import Match, registry
batch = registry.make(enter(sys.argv[1]), rows=2, threads=1, options={"fault": sys.argv[2], "at": 1}, workers=2)
print(*batch.pids, flush=True)
batch.reset(3)
if sys.argv[2]:
    while True:
        batch.step()
if sys.argv[3] == "wait":
    time.sleep(60)
"""


@pytest.mark.parametrize(("fault", "how"), cases(("hang", "kill"), slow=[("", "end"), ("", "kill"), ("", "raise")]))
def test_no_worker_outlives_its_process(fault: str, how: str, tmp_path: Path) -> None:
    """Whether that is killed, while it waits or in a step that never ends, or ends, or fails."""
    noisy(tmp_path)
    code = CHILD + ("raise SystemExit('failed')" if how == "raise" else "")
    words = [sys.executable, "-c", code, str(tmp_path / "noisy.py"), fault, "wait" if how == "kill" else ""]
    shared = sorted(os.listdir("/dev/shm"))
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 2
        if how == "kill":
            time.sleep(0.1)
            assert all(map(is_there, pids))
            process.kill()
        process.wait(20)
    assert gone(pids) and sorted(os.listdir("/dev/shm")) == shared


def test_a_game_that_only_this_process_has_is_refused(tmp_path: Path) -> None:
    """One line: an object, or a file that has changed since it was named."""

    class Here(Match):
        obs_size, action = 1, 2

        def reset(self, rng: Any) -> None:
            self.steps = 0

        def observe(self, seat: int) -> list[float]:
            return [0.0]

        def step(self, actions: Any) -> None:
            self.end(None)

    name = enter(Here) or ""
    with pytest.raises(ConfigError, match="was given as an object") as caught:
        registry.make(name, rows=2, threads=1, options={}, workers=2)
    assert "\n" not in str(caught.value) and "--env FILE.py" in str(caught.value)
    name = noisy(tmp_path)
    (tmp_path / "noisy.py").write_text(NOISY + "\n")
    with pytest.raises(ConfigError, match="has changed since this process began") as caught:
        registry.make(name, rows=2, threads=1, options={}, workers=2)
    assert "\n" not in str(caught.value)


def test_a_default_timeout_of_sockets_ends_no_worker(tmp_path: Path) -> None:
    """Code of a user may have set it; a worker answers later than it says."""
    name = noisy(tmp_path)
    socket.setdefaulttimeout(0.001)
    try:
        batch = registry.make(name, rows=2, threads=1, options={}, workers=1)
        batch.reset(1)
        batch.step()
    finally:
        socket.setdefaulttimeout(None)
