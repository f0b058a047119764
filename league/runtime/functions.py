"""Functions of Python and of libraries in whose place code of users puts others."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from league.errors import CodeError, described, is_signal, is_users
from league.runtime.signals import MOST_NAMED

RELIED_ON = (
    *("pathlib.Path", "threading.Thread", "pydantic.BaseModel", "numpy", "numpy.random", "torch"),
    *("torch.Tensor", "torch.nn.functional", "duckdb"),
)
"""Besides Python's own modules, modules and classes whose functions code of users may have replaced."""
_functions: dict[str, tuple[Any, dict[str, Any]]] = {}
"""Of what is looked at, what was loaded before code of users ran: it, and what it had by name."""


def note_functions() -> None:
    """Notes the functions that code of users might replace, of what is loaded and was not noted before."""
    loaded = tuple(sys.modules)  # at once: another thread may import
    for name in (*RELIED_ON, *(name for name in loaded if name.partition(".")[0] in sys.stdlib_module_names)):
        module, _, kind = name.rpartition(".") if name.rpartition(".")[2][0].isupper() else (name, "", "")
        found: Any = sys.modules.get(module)
        found = getattr(found, kind, None) if kind else found
        if name not in _functions and found is not None:
            _functions[name] = found, dict(vars(found))


def put_back(but: Collection[str] = ()) -> list[str]:
    """Puts back functions that code of users has replaced, `but` those of some modules; returns their names."""
    changed = []
    for name, (found, then) in tuple(_functions.items()):
        for word, now in ({} if name in but else vars(found)).copy().items():
            was = then.get(word, _functions)
            if now is was:
                continue
            hides = was is _functions and any(word in vars(kind) for kind in getattr(found, "__mro__", ())[1:])
            if not _is_odd(now) or not (callable(was) or hides):
                continue
            changed.append(f"{name}.{word}")
            if hides:
                delattr(found, word)
            elif was is not _functions:
                setattr(found, word, was)
    return changed


def _is_odd(now: Any) -> bool:
    """Whether it is no other library's: of a user, or of Python itself."""
    if isinstance(now, FunctionType):
        return is_users("", now.__code__.co_filename)
    home = str(getattr(now, "__module__", None) or type(now).__module__)
    is_free = isinstance(getattr(now, "__self__", sys), type(sys))  # no method of an object, as `warnings` sets
    file = getattr(sys.modules.get(home), "__file__", None) or ""
    return is_free and (home in ("builtins", "functools") or is_users(home, file))


def blamed(error: BaseException) -> CodeError | None:
    """An error as one that follows from functions that code of users has replaced; None where it has replaced none."""
    return changed_error(changed, error) if (changed := put_back()) else None


def changed_error(changed: Sequence[str], error: BaseException) -> CodeError:
    """An error that follows from what code of users has changed."""
    what = " and ".join(changed[:MOST_NAMED])
    return CodeError(f"your code changed {what}, after which {described(error)}; leave {what} as it is")


@contextmanager
def functions_kept() -> Iterator[None]:
    """Within it code of users may replace functions; at its end they are as before. Takes some 3 ms.

    Raises:
        CodeError: any error, after such a change.
    """
    outer = _functions.copy()
    _functions.clear()
    note_functions()
    try:
        yield
    except BaseException as error:
        known = blamed(error)
        if known and not isinstance(error, SystemExit | BrokenPipeError) and not is_signal(error):
            raise known from error
        raise
    else:
        put_back()
    finally:
        _functions.update(outer)
