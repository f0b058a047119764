"""A self-play league engine: train against your own past and scripted bots, rank everyone with error bars.

`train`, `resume`, `imitate`, `Trainer`, `sweep`, `compare`, `evaluate`, `tournament`, `gate`, `nashconv`, `watch`,
`report`, `leaderboard`, `matchup`, `payoff`, `load`, `export`, `replay` are the library; the command `league` calls the
same.
`runs`, `metrics` and `query` read a store; `Callback` and `track` hear how a training goes (docs/python.md).
"""

import os as _os
import sys as _sys

_home = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__)))
_is_module = _sys.argv[:1] == ["-m"] and "-mleague" in "".join(_sys.orig_argv)
if _is_module and not _sys.flags.safe_path and _sys.path[0] != _home:
    del _sys.path[0]  # `python -m league`: the current folder hides no module, as for `league`

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager
from contextlib import nullcontext as _nullcontext
from importlib import import_module
from pathlib import Path as _Path
from typing import TYPE_CHECKING, Any

# In a source checkout cli.py, envs/, policies/ and snapshots/ lie beside this folder; a wheel
# has them inside it. This lets `import league.envs` find them there too.
_root = _Path(_home).resolve()
if (_root / "pyproject.toml").is_file() and (_root / "envs" / "__init__.py").is_file():
    __path__.append(str(_root))

if TYPE_CHECKING:
    from league.arena.agents import export, leaderboard, load, matchup
    from league.arena.equilibrium import nashconv
    from league.arena.evaluations import evaluate
    from league.arena.gating import gate
    from league.arena.tournaments import tournament
    from league.arena.validation import validate
    from league.arena.watching import watch
    from league.faces.notebook import metrics, payoff, query, runs
    from league.faces.report import report
    from league.faces.trackers import track
    from league.sessions.app import resume, train
    from league.sessions.comparisons import compare
    from league.sessions.failures import replay
    from league.sessions.imitation import imitate
    from league.sessions.sweeps import sweep
    from league.sessions.trainer import Trainer
    from league.store.exchange import imports, remove_import
    from league.training.run import Callback

__version__ = "0.1.0"
__all__ = [
    "Callback",
    "Trainer",
    "compare",
    "evaluate",
    "export",
    "gate",
    "imitate",
    "imports",
    "leaderboard",
    "load",
    "matchup",
    "metrics",
    "nashconv",
    "payoff",
    "query",
    "remove_import",
    "replay",
    "report",
    "resume",
    "runs",
    "sweep",
    "tournament",
    "track",
    "train",
    "validate",
    "watch",
]
_HOMES = {
    "compare": "league.sessions.comparisons",
    "evaluate": "league.arena.evaluations",
    "Trainer": "league.sessions.trainer",
    "Callback": "league.training.run",
    "resume": "league.sessions.app",
    "train": "league.sessions.app",
    "gate": "league.arena.gating",
    "imitate": "league.sessions.imitation",
    "imports": "league.store.exchange",
    "metrics": "league.faces.notebook",
    "nashconv": "league.arena.equilibrium",
    "payoff": "league.faces.notebook",
    "query": "league.faces.notebook",
    "report": "league.faces.report",
    "runs": "league.faces.notebook",
    "sweep": "league.sessions.sweeps",
    "remove_import": "league.store.exchange",
    "replay": "league.sessions.failures",
    "tournament": "league.arena.tournaments",
    "track": "league.faces.trackers",
    "validate": "league.arena.validation",
    "watch": "league.arena.watching",
}
_MODULES = ("gym", "testing", "zoo")
"""What `import league` finds of itself when it is used."""
_WATCHED = ("evaluate", "gate", "resume", "tournament", "train")
"""In a notebook these show how far they are, and trainings elsewhere, too (`league.faces.notebook.shown`)."""
_TRAINING = ("Trainer", "resume", "train")
_SPINS = ("GOMP_SPINCOUNT", "20000")


@_contextmanager
def _soon_asleep() -> _Iterator[None]:
    """Threads of a torch that is loaded within it sleep soon after their work; the environment is as before then.

    libgomp's threads spin for milliseconds before they sleep; on a busy machine that stalls a step of a small batch a
    hundredfold (lab/performance.md). It reads its setting once, when it is loaded.
    """
    is_ours = _SPINS[0] not in _os.environ
    if is_ours:
        _os.environ[_SPINS[0]] = _SPINS[1]
    try:
        yield
    finally:
        if is_ours:
            _os.environ.pop(_SPINS[0], None)


def __getattr__(name: str) -> Any:
    """Imports the library, and with it torch, only when it is used."""
    if name in __all__:
        with _soon_asleep() if name in _TRAINING else _nullcontext():
            found = getattr(import_module(_HOMES.get(name, "league.arena.agents")), name)
        if name in _WATCHED and (name in _TRAINING or "ipykernel" in _sys.modules):
            found = import_module("league.faces.notebook").shown(found)
        if not isinstance(found, type):
            found = import_module("league.types.arguments").door(found)
            found.__module__ = __name__  # where pickle finds it, for pools of processes
        return found
    if name in _MODULES:
        return import_module(f"league.{name}")
    raise AttributeError(f"module 'league' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The library's names alone."""
    return [*__all__, "__version__"]
