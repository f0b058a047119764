"""What code of users may change in a process, and a command that says what of it is not as it was."""

from __future__ import annotations

import builtins
import gc
import json
import os
import resource
import signal
import sys
import threading
from typing import Any

from tests.helpers.processes import command

NAMES = ("stdin", "stdout", "stderr", "unraisablehook", "displayhook")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGCHLD)


def settings() -> dict[str, Any]:
    """Settings of this process by name."""
    mask = os.umask(0o077)
    os.umask(mask)
    return {
        **{name: getattr(sys, name, None) for name in NAMES},
        **{name: [*(getattr(sys, name, None) or [])] for name in ("argv", "path", "meta_path", "path_hooks")},
        **{f"signal {number}": signal.getsignal(number) for number in SIGNALS},
        "modules": {name: module for name, module in sys.modules.items() if not name.startswith("league_game_")},
        "builtins": vars(builtins).copy(),
        "threading.excepthook": threading.excepthook,
        "recursion": sys.getrecursionlimit(),
        "switch": sys.getswitchinterval(),
        "trace": (sys.gettrace(), sys.getprofile()),
        "timer": signal.getitimer(signal.ITIMER_REAL)[0],
        "mask": mask,
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
        "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "limit of files": resource.getrlimit(resource.RLIMIT_FSIZE)[0],
    }


def is_open(stream: Any) -> bool:
    """Whether a stream can be used: it is neither closed nor detached."""
    try:
        return not stream.closed
    except ValueError:  # detached
        return False


def lost(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The names of settings that are not as before; what was added to a list or a dict does not count, nor that
    a stream that was closed or detached is another one."""
    found = []
    for name, then in before.items():
        is_kept = now[name] == then
        if isinstance(then, dict):
            is_kept = then.items() <= now[name].items()
        elif name in ("stdin", "stdout", "stderr"):
            is_kept = is_kept or (not is_open(then) and is_open(now[name]))
        elif name in ("path", "meta_path", "path_hooks"):
            is_kept = [x for x in now[name] if x in then] == then
        found += [] if is_kept else [name]
    return found


def kept_command(words: list[str], report: str) -> None:
    """`league WORDS`; afterwards `report` is a file with the names of settings that are not as before, as JSON."""
    sys.argv = ["league", *words]
    before, write, dump = settings(), open, json.dumps
    try:
        command(words)
    finally:
        with write(report, "w") as file:
            file.write(dump(lost(before, settings())))
