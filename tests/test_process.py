"""What importing the library, and loading an agent, leaves as it was; only training changes its process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import league
from league.runtime.functions import note_functions
from tests.helpers.cases import cases

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("env.rows=4", "learner.rollout_steps=16", "learner.minibatch_size=32", "run.evaluate_games=2")
TINY = ("agent.opponent_encoder=true", "agent.encoder_width=16", "agent.history_frames=4", "run.total_steps=64")

LOOK = """
import ctypes, gc, json, locale, os, random, signal, sys, threading, warnings

def libraries():
    import duckdb, gymnasium, numpy, pydantic, safetensors.torch, torch  # what others' modules do is not ours
    import pettingzoo, scipy.optimize, scipy.stats, torch._dynamo
    torch.ones(4, 4) @ torch.ones(4, 4)  # MKL asks for the processor's tile units at its first product

def look(has_torch=True):
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    found = {
        "environment": dict(os.environ),
        "libc's": {name: repr(libc.getenv(name.encode())) for name in os.environ},
        "path": list(sys.path), "hooks": [repr(x) for x in (sys.excepthook, sys.displayhook, *sys.meta_path)],
        "signals": [repr(signal.getsignal(s)) for s in signal.valid_signals()],
        "warnings": [repr(x) for x in warnings.filters], "locale": locale.setlocale(locale.LC_ALL),
        "directory": os.getcwd(), "umask": libc.umask(libc.umask(0o22)),
        "limits": [sys.getrecursionlimit(), sys.getswitchinterval(), *gc.get_threshold(), gc.isenabled()],
        "affinity": sorted(os.sched_getaffinity(0)), "priority": os.nice(0),
        "rounding": libc.fegetround() if hasattr(libc, "fegetround") else 0,
        "random": repr(random.getstate()), "threads": threading.active_count(),
    }
    permitted = ctypes.c_uint64()
    libc.syscall(158, 0x1022, ctypes.byref(permitted))  # arch_prctl: what of the processor may be used
    found["processor"] = permitted.value
    if has_torch:
        found |= look_at_torch(libc)
    return found

class Memory(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

def look_at_torch(libc):
    import numpy, torch
    matrix, backends = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)), torch.backends
    libc.mallinfo2.restype = Memory
    blocks = libc.mallinfo2().hblks
    large = bytearray(64 * 2**20)
    return {
        "mapped": libc.mallinfo2().hblks - blocks,  # 0 where mallopt forbids it
        "large": len(large), "numpy": repr(numpy.geterr()), "printing": repr(numpy.get_printoptions()),
        "numpy's": repr(numpy.random.get_state()), "torch's": torch.get_rng_state().tolist(),
        "threads of torch": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "type": repr(torch.get_default_dtype()), "device": repr(torch.get_default_device()),
        "modes": [torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")],
        "products": [torch.get_float32_matmul_precision(), float((matrix @ matrix).sum())],
        "cudnn": [backends.cudnn.benchmark, backends.cudnn.allow_tf32, backends.cudnn.deterministic],
        "cuda": [backends.cuda.matmul.allow_tf32, backends.mkldnn.enabled, backends.nnpack.is_available()],
        "strict": [torch.are_deterministic_algorithms_enabled(), torch.is_warn_always_enabled()],
        "denormal": float(torch.tensor([1e-40]) * 1), "printing of torch": repr(torch._tensor_str.PRINT_OPTS),
    }

def compare(before, after):
    changed = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
    for name, pair in changed.items():
        if isinstance(pair[0], dict):
            changed[name] = sorted({key for key, _ in pair[0].items() ^ pair[1].items()})
    print(json.dumps(changed))
"""
IMPORT = "before = look(False)\nimport league\ncompare(before, look(False))"
TRAINING = "before = look(False)\nimport league\nleague.train, league.resume\ncompare(before, look(False))"
EVERYTHING = """
libraries()
before = look()
import league, league.gym, league.zoo, league.arena.duel, league.arena.agents, league.sessions.app, league.bench
from league.envs import registry
[registry.spec(name, {}) for name in registry.games()]
compare(before, look())
"""
LOAD = """
import numpy
libraries()
before = look()
import league
from league.snapshots import Agent
for agent in (Agent.load(sys.argv[1]), league.load("me", store=sys.argv[2]), league.load(sys.argv[1])):
    agent.reset(seed=3)
    agent.act(numpy.zeros(8, numpy.float32))
compare(before, look())
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, `me`, and its export."""
    path = tmp_path_factory.mktemp("agents") / "runs"
    league.train("smoke", env="matrix", run="me", device="cpu", overrides=(*SMALL, *TINY), store=path)
    league.export("me", path.parent / "out", store=path)
    return path


def changes(code: str, *arguments: object) -> dict[str, list[object]]:
    """What a process of its own finds changed by `code`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_"))}
    done = subprocess.run(
        [sys.executable, "-c", LOOK + code, *map(str, arguments)],
        env={**environment, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="the process is looked at through Linux's C library")
@pytest.mark.parametrize("code", cases(LOAD, slow=[IMPORT, EVERYTHING]))
def test_importing_and_loading_change_nothing(code: str, store: Path) -> None:
    """Environment, signals, generators, threads, flags, rounding, the allocator and the processor are as before."""
    assert changes(code, store.parent / "out", store) == {}


@pytest.mark.skipif(sys.platform != "linux", reason="the process is looked at through Linux's C library")
@pytest.mark.slow
def test_what_trains_leaves_the_environment() -> None:
    """Torch is loaded with threads that sleep soon; what says so is gone afterwards."""
    changed = changes(TRAINING)
    assert "environment" not in changed and "libc's" not in changed


def test_a_thread_may_import_while_functions_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a tracker's thread does, at any moment: here, at each look at a name."""

    class Names(frozenset[str]):
        def __contains__(self, name: object) -> bool:
            monkeypatch.setitem(sys.modules, f"{name}_meanwhile", ModuleType("meanwhile"))
            return False

    monkeypatch.setattr(sys, "stdlib_module_names", Names())
    note_functions()
