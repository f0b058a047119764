"""Which code an object is that somebody gives in Python: a hash of its file and of the plain values that it holds."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from league.errors import note_user_code
from league.types.schema import PartSource

MOST_BYTES = 2**24
"""Of a file that is read for its hash."""


def mark_of(thing: Callable[..., Any]) -> PartSource:
    """Where an object came from, and which code it is.

    Of a function or class of a file the hash is the file's, as of one that is named by its address, and the address is
    told where it lies open there. Beside that it counts plain values (numbers, strings, lists and dicts of these,
    arrays): those in a closure, the arguments of a `functools.partial`, the attributes of an object. Of others it
    counts the type.
    """
    code, values = _code_of(thing)
    note_user_code(str(getattr(code, "__module__", "")))
    name = str(getattr(code, "__qualname__", type(code).__qualname__))
    file = _file_of(code)
    data = b"" if file is None else file.read_bytes()
    digest = hashlib.sha256(data or _source_of(code)).hexdigest()
    if values:
        text = json.dumps([digest, values], sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()
    is_open = file is not None and not values and name.isidentifier()
    return PartSource(address=f"{os.path.realpath(file)}:{name}" if file and is_open else "", sha256=digest, thing=name)


def _code_of(thing: Any) -> tuple[Any, list[Any]]:
    """The function or class behind an object, and the plain values that it holds beside its code."""
    values: list[Any] = []
    while isinstance(thing, functools.partial):
        values.append([_plain(list(thing.args)), _plain(dict(thing.keywords))])
        thing = thing.func
    if inspect.ismethod(thing):
        values.append(_plain(vars(thing.__self__) if hasattr(thing.__self__, "__dict__") else {}))
        thing = thing.__func__
    if inspect.isfunction(thing):
        cells = [_cell(cell) for cell in thing.__closure__ or ()]
        return thing, [*values, *([cells] if cells else [])]
    if inspect.isclass(thing) or inspect.isbuiltin(thing):
        return thing, values
    held = _plain(vars(thing)) if hasattr(thing, "__dict__") else {}
    return type(thing), [*values, *([held] if held else [])]


def _cell(cell: Any) -> Any:
    try:
        return _plain(cell.cell_contents)
    except ValueError:  # it is empty yet
        return None


def _plain(value: Any) -> Any:
    """A value as JSON; of what is not plain its type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    if isinstance(value, dict):
        return {str(key): _plain(x) for key, x in value.items()}
    if hasattr(value, "tobytes") and hasattr(value, "shape"):
        return [str(value.shape), hashlib.sha256(value.tobytes()).hexdigest()]
    if inspect.isfunction(value) or inspect.isclass(value):
        return value.__qualname__
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _file_of(code: Any) -> Path | None:
    """The file that defines a function or class; None where there is none that can be read."""
    module = sys.modules.get(str(getattr(code, "__module__", "")))
    name = getattr(getattr(code, "__code__", None), "co_filename", None) or getattr(module, "__file__", None)
    if name is None or not os.path.isfile(name) or os.path.getsize(name) > MOST_BYTES:
        return None
    return Path(name)


def _source_of(code: Any) -> bytes:
    """What stands for code without a file, as of a notebook: its text, else its instructions, else its name."""
    try:
        return inspect.getsource(code).encode()
    except (OSError, TypeError):
        pass
    inner = getattr(code, "__code__", None)
    if inner is None:
        return str(getattr(code, "__qualname__", code)).encode()
    return (
        bytes(inner.co_code) + repr((inner.co_names, [x for x in inner.co_consts if isinstance(x, int | str)])).encode()
    )
