"""How another Python process of ours is started, so that nothing in the current folder runs in it by accident."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def python(code: str, *words: object) -> list[str]:
    """The command line of a Python that runs `code`, in which `import` finds what it finds in this process.

    The current folder comes last there: a file of it that is called `json.py` or `league.py` hides no other module.
    The path is set before `code` imports anything.

    words: what `sys.argv[1:]` is in it.
    """
    home = str(Path(sys.modules["league"].__path__[0]).parent)
    given = [str(place) for place in sys.path]
    here = [place for place in given if place != home and _is_current(place)]
    places = [*(place for place in given if place not in here), *([] if home in given else [home])]
    if here:
        places.append(os.getcwd())
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {places!r}\n{code}", *map(str, words)]


def _is_current(place: str) -> bool:
    return not place or os.path.realpath(place) == os.path.realpath(os.curdir)
