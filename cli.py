"""The command `league`. Its commands are in `league/commands/`, a module for each panel of the help."""

from __future__ import annotations

if __name__ == "cli":
    raise ImportError("import league.cli, not cli")

import faulthandler
import os
import signal
import sys
import traceback
from typing import Annotated, Any, NoReturn

import typer

import league.commands.completion as completion
from league.commands import compare, diagnose, look, manage, settings, sweep, train
from league.commands.options import app
from league.errors import Interrupted, LeagueError, UsageError, as_known, described, strays_told
from league.printing import flush, say, show, streams
from league.runtime.functions import functions_kept
from league.runtime.signals import broken_off, end_soon, interrupt, on_signal

_ParseError: Any = typer.BadParameter.__mro__[2]
"""click's ClickException, which newer versions of typer carry in themselves."""
__all__ = ["app", "compare", "diagnose", "look", "main", "manage", "settings", "sweep", "train"]
JSON_ONLY = {"--json", "--json-lines", "bench"}
"""Words of a command line that prints nothing but JSON."""
PANELS = [panel.PANEL for panel in (train, compare, look, manage, diagnose)]
app.registered_commands.sort(key=lambda known: PANELS.index(str(known.rich_help_panel)))


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from league import __version__

        show(f"league {__version__}")
        raise typer.Exit


_VERSION: Any = {"metavar": "", "is_eager": True, "callback": _show_version, "help": "Print the version and exit."}


@app.callback()
def about(version: Annotated[bool, typer.Option("--version", **_VERSION)] = False) -> None:
    """Train an agent against its own past and scripted bots; rank everyone with error bars."""


def _call() -> int:
    """Parses and calls; the exit code of a command that ended early, which is the only number that one gives."""
    try:
        with completion.as_typed():
            code = app(standalone_mode=False, prog_name="league")
    except _ParseError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # whose message is the help
            error.show()
            return int(error.exit_code)
        message = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)  # an option without its value has none
        called = context.command_path if context else " ".join(["league", *filter(str.isalpha, sys.argv[1:2])])
        raise UsageError(f"{message}; see `{called} --help`") from None
    except SystemExit as error:
        *_, (frame, _) = traceback.walk_tb(error.__traceback__)
        is_completion = str(frame.f_globals.get("__name__")).startswith("typer.")  # a shell is answered by leaving
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
    faulthandler.enable(2)  # where compiled code crashes, the line that called it is shown
    faulthandler.register(signal.SIGQUIT, 2, all_threads=False, chain=True)
    try:
        with on_signal(interrupt) as received, streams(data_alone=bool(JSON_ONLY & {*sys.argv})), strays_told(say):
            _run(received)
    except Interrupted as error:  # before the command began, or after its end
        say(broken_off(error.number))
        sys.exit(128 + error.number)
    except SystemExit as error:
        end_soon(error.code if isinstance(error.code, int) else 0, say)
        raise


def _run(received: list[int]) -> NoReturn:
    """Calls the command and leaves with its exit code."""
    try:
        os.getcwd()  # which libraries need as they are loaded
        try:
            with functions_kept():
                sys.exit(_call())
        finally:
            flush()  # what stdout does not take is an error, too
    except SystemExit:
        raise
    except BrokenPipeError:  # the reader has enough, as `head` has
        sys.exit(1)
    except BaseException as error:
        if received:  # whatever it became on its way: a library may wrap it
            say(broken_off(received[0], error))
            sys.exit(128 + received[0])
        known = as_known(error)
        if known is None:
            raise
        say(f"error: {' '.join(str(known).split())}")
        sys.exit(known.exit_code)


if __name__ == "__main__":
    main()
