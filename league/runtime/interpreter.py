"""The command of another Python process, whose imports find what those of this one find."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def python(code: str, *words: object) -> list[str]:
    """The command line of another Python, which runs `code`; its imports find what those of this process find.

    The current folder comes last there: a file `json.py` or `league.py` in it hides no other module.
    The path is set before `code` imports anything.

    words: what `sys.argv[1:]` is in it.
    """
    places = import_path()
    if any(place not in places for place in map(str, sys.path)):
        places.append(os.getcwd())
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {places!r}\n{code}", *map(str, words)]


def import_path() -> list[str]:
    """Where this process looks for modules, without the current folder, unless league itself lies there."""
    home = str(Path(sys.modules["league"].__path__[0]).parent)
    given = [str(place) for place in sys.path]
    return [*(x for x in given if x == home or not _is_current(x)), *([] if home in given else [home])]


def _is_current(place: str) -> bool:
    return not place or os.path.realpath(place) == os.path.realpath(os.curdir)
