"""Code of a user runs: what it changes of the process is put back, and what it raises becomes one line."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout

from league.errors import CodeError, LeagueError, described, is_signal, users_line
from league.runtime.functions import RELIED_ON, put_back
from league.runtime.process import draws_kept, settings_kept


@contextmanager
def process_kept(*, may_draw: bool = False) -> Iterator[None]:
    """As `failing`, of errors that stay what they are."""
    with settings_kept(), nullcontext() if may_draw else draws_kept(), redirect_stdout(sys.stderr):
        yield
        put_back(but=RELIED_ON)  # those of Python, which each line of ours may call


@contextmanager
def failing(where: str, setting: str = "env", *, may_draw: bool = False) -> Iterator[None]:
    """Within it an exception of a game's code becomes one line, and what the code prints goes to stderr.

    Settings of the process that it changes are put back.

    Args:
        where: the game's address or name, or a part's.
        setting: what names it.
        may_draw: keep the draws from the global generators, as for a network's first weights.

    Raises:
        CodeError: with the exception and where it was raised.
    """
    try:
        with process_kept(may_draw=may_draw):
            yield
    except BaseException as error:
        if is_signal(error) or (isinstance(error, LeagueError) and not users_line(error)):
            raise
        raise CodeError(f"{setting}={where}: {described(error)}{line_of(error)}; {_cure(error)}") from error


def _cure(error: BaseException) -> str:
    """What is to be done about an error of a user's code."""
    if isinstance(error, ImportError) and "relative import" in str(error):
        return "a file is in no package: import it without the dot, or name the file by its package, PACKAGE.MODULE"
    return "mend it"


def line_of(error: BaseException) -> str:
    """Where it was raised, in brackets: the line that is no Python, else a user's innermost line, else the innermost.

    Frames of importing and of league do not count.
    """
    if isinstance(error, SyntaxError) and error.filename and os.path.exists(error.filename):
        return f" ({error.filename}, line {error.lineno})"
    if own := users_line(error):
        return f" ({own})"
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not str(frame.f_globals.get("__name__")).startswith(("league.", "importlib."))
    ]
    return f" ({frames[-1][0]}, line {frames[-1][1]})" if frames else ""
