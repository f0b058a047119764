"""What the library's functions are given in Python: of the types that their signatures name, else refused in a line.

The command line gives them nothing else. Annotations are read as text, so that no module is loaded for them; what has
another annotation than those of `KINDS` is looked at by its function.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from inspect import signature
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from league.errors import LeagueError, UsageError, as_known, quoted, shown
from league.runtime.functions import blamed, functions_kept
from league.runtime.process import draws_kept

KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("str", "Format", "Want", "Quantize"), ("a text", lambda value: isinstance(value, str))),
    "tuple[str, str]": ("two texts", lambda value: _is_list(value) and [*map(type, value)] == [str, str]),
    "Path": ("a path", lambda value: isinstance(value, os.PathLike)),
    "os.PathLike[str]": ("a path", lambda value: isinstance(value, os.PathLike)),
    "int": ("a whole number", lambda value: isinstance(value, Integral) and not isinstance(value, bool)),
    "bool": ("True or False", lambda value: type(value).__name__ in ("bool", "bool_")),
    "float": ("a number that a float holds", lambda value: _is_float(value)),
    "Sequence[str]": ("a list of texts", lambda value: _is_list(value) and all(isinstance(x, str) for x in value)),
    "Overrides": (
        "a dict of sections or a list of texts",
        lambda value: (
            KINDS["Sequence[str]"][1]([*value]) if isinstance(value, Mapping) else KINDS["Sequence[str]"][1](value)
        ),
    ),
    **dict.fromkeys(("Callable[[str], None]", "Say"), ("a function of a text", callable)),
    **dict.fromkeys(("Callable[..., Any]", "Make"), ("a function", callable)),
    **dict.fromkeys(
        ("Mapping[str, float]", "Mapping[str, Any]"),
        ("a dict by name", lambda value: isinstance(value, Mapping) and all(isinstance(x, str) for x in value)),
    ),
    "GateTest": ("a GateTest", lambda value: type(value).__name__ == "GateTest"),
    "None": ("None", lambda value: value is None),
}
"""Part of an annotation -> what it is called, and whether a value is one."""


def typed(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` that refuses arguments of other types than its signature names; it runs in `_usual_torch`.

    Raises:
        UsageError: an argument is none, or a text that no name or path of a file can be.
        LeagueError: the system refuses something (`league.errors.as_known`).
    """
    known = signature(function)
    rules = {name: str(parameter.annotation).split(" | ") for name, parameter in known.parameters.items()}
    rules = {name: kinds for name, kinds in rules.items() if all(kind in KINDS for kind in kinds)}

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            given = known.bind_partial(*arguments, **named)
        except TypeError:  # which the call raises, too
            pass
        else:
            for name, value in given.arguments.items():
                is_several = known.parameters[name].kind is known.parameters[name].VAR_POSITIONAL
                parts = [_checked(name, part, rules.get(name, ())) for part in (value if is_several else [value])]
                given.arguments[name] = tuple(parts) if is_several else parts[0]
            arguments, named = given.args, given.kwargs
        try:
            with _usual_torch():
                return function(*arguments, **named)
        except LeagueError:
            raise
        except Exception as error:
            known_error = blamed(error) or as_known(error)
            if known_error is None:
                raise
            raise known_error from error

    return called


@cache  # one for each, which pickle asks for
def door(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the library as its users call it: `typed`, and the global generators, and functions of Python, are
    as before at its end."""
    return typed(functions_kept()(draws_kept()(function)))


@contextmanager
def _usual_torch() -> Iterator[None]:
    """Within it torch makes float32 on a CPU by default, as all networks are, and records gradients; then again what
    its user has set or entered: another default type or device, `no_grad`, `inference_mode`, `autocast`."""
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_default_dtype()
    with ExitStack() as stack:
        if before is not torch.float32:
            stack.callback(torch.set_default_dtype, before)
            torch.set_default_dtype(torch.float32)
        if torch._C._len_torch_function_stack():  # such as a device's, which slows each operation
            stack.enter_context(torch.device("cpu"))
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        yield


def _checked(name: str, value: Any, kinds: Sequence[str]) -> Any:
    """An argument as Python's own type: a NumPy number is one of Python, `~` in a path the home."""
    if kinds and not any(KINDS[kind][1](value) for kind in kinds):
        words = " or ".join(dict.fromkeys(KINDS[kind][0] for kind in kinds))
        text = quoted(value) if isinstance(value, str) else shown(value)
        raise UsageError(f"{name}={text}: must be {words}; pass another {name}")
    if not isinstance(value, str | Path):
        kind = next((kind for kind in (bool, int, float) if KINDS[kind.__name__][1](value)), None)
        return value if kind is None or kind.__name__ not in kinds else kind(value)
    if {"Path", "os.PathLike[str]"} & {*kinds}:
        value = type(value)(os.path.expanduser(value))
    try:
        is_fit = b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        is_fit = False
    if not is_fit:
        raise UsageError(f"{name}={quoted(str(value))}: has letters that no name can have; pass another {name}")
    return value


def _is_float(value: object) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and isinstance(float(value), float)
    except OverflowError:
        return False


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
