"""`league`: parse, call one function, print. Data to stdout, talk to stderr; heavy imports stay in the commands.

A module a panel of the help (`train.py`, `compare.py`, `look.py`, `manage.py`, `diagnose.py`); `options.py` has the
app and what commands share, `completion.py` what a shell offers.
"""

from __future__ import annotations

if __name__ == "cli":
    raise ImportError("import league.cli, not cli")

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any, NoReturn

import typer

import league.cli.completion as completion
from league.cli import compare, diagnose, look, manage, settings, train
from league.cli.options import app
from league.errors import Interrupted, LeagueError, UsageError, as_known, described, users_line
from league.printing import flush, say, show, streams
from league.signals import BROKEN_OFF, MOST_NAMED, interrupt, on_signal, replaced

_ParseError: Any = typer.BadParameter.__mro__[2]
"""click's ClickException, which newer versions of typer carry in themselves."""
__all__ = ["app", "compare", "diagnose", "look", "main", "manage", "settings", "train"]


JSON_ONLY = {"--json", "--json-lines", "bench"}
"""Words of a command line that prints nothing but JSON."""
PANELS = [panel.PANEL for panel in (train, compare, look, manage, diagnose)]
app.registered_commands.sort(key=lambda known: PANELS.index(str(known.rich_help_panel)))


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from league import __version__

        show(f"league {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", help="Print the version and exit.", is_eager=True, callback=_show_version
        ),
    ] = False,
) -> None:
    """Train an agent against its own past and scripted bots; rank everyone with error bars."""


def _call() -> int:
    """Parses and calls; returns the exit code of a command that ended early, which is the only number it gives.

    Raises:
        UsageError: an option or argument that there is not, or that cannot be, in one line.
    """
    try:
        with completion.as_typed():
            code = app(standalone_mode=False, prog_name="league")
    except _ParseError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # whose message is the help
            error.show()
            return int(error.exit_code)
        message = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)
        raise UsageError(f"{message}; see `{context.command_path if context else 'league'} --help`") from None
    except SystemExit as error:
        is_completion = "_LEAGUE_COMPLETE" in os.environ  # a shell is answered by leaving
        if is_completion or isinstance(error.__context__, BrokenPipeError):  # or the reader has closed the pipe
            raise
        raise LeagueError(
            f"a library that was called ends the process, {described(error)}; mend what calls it"
        ) from error
    return code if isinstance(code, int) else 0


def main() -> None:
    """The console script: a known error is one line on stderr and its exit code; a bug keeps its traceback.

    A signal to end breaks a command off: one line, and 128 + its number as the exit code. Training handles it itself.
    """
    try:
        with on_signal(interrupt) as received, streams(data_alone=bool(JSON_ONLY & {*sys.argv})), _strays_told():
            _run(received)
    except Interrupted as error:  # before the command began, or after its end
        say(BROKEN_OFF)
        sys.exit(128 + error.number)


@contextmanager
def _strays_told() -> Iterator[None]:
    """Within it what a user's code raises in a thread, or as an object is let go of, is a line, each place once."""
    usual, told = (threading.excepthook, sys.unraisablehook), set[str]()

    def tell(found: Any, where: str, usual: Callable[[Any], object]) -> None:
        line = "" if found.exc_value is None else users_line(found.exc_value, is_called=True)
        if not line:
            usual(found)
        elif line not in told:
            told.add(line)
            say(f"your code raised {described(found.exc_value)} ({line}) {where}, which stops nothing; mend it")

    threading.excepthook = partial(tell, where="in a thread", usual=usual[0])
    sys.unraisablehook = partial(tell, where="where nothing can catch it", usual=usual[1])
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = usual


def _run(received: list[int]) -> NoReturn:
    """Calls the command and leaves with its exit code."""
    try:
        try:
            sys.exit(_call())
        finally:
            flush()  # what stdout does not take is an error, too
    except SystemExit:
        raise
    except BrokenPipeError:  # the reader has enough, as `head` has
        sys.exit(1)
    except BaseException as error:
        if received:  # whatever it became on its way: a library may wrap it
            say(BROKEN_OFF)
            sys.exit(128 + received[0])
        known = as_known(error)
        if changed := " and ".join(replaced()[:MOST_NAMED]):
            words = f"your code changed {changed}, after which {described(error)}; leave {changed} as it is"
            known = LeagueError(words)
        if known is None:
            raise
        say(f"error: {' '.join(str(known).split())}")
        sys.exit(known.exit_code)


if __name__ == "__main__":
    main()
