"""Where games and custom parts come from: addresses, the file behind one, its hash, and its code, which runs only
when `load` is called.

What is hashed is what runs: a file is read once, and neither a compiled form of it that lies beside it (`__pycache__`)
nor a later change of it is seen. The hash covers this file alone, not what it imports.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Literal, NamedTuple

from league.envs.adapters import SCHEMES, file_of, library_version, module_of
from league.envs.matches.surroundings import alike
from league.envs.user_code import failing
from league.errors import ConfigError, is_loading, note_user_code, plain
from league.runtime.process import StepKept
from league.runtime.sent import MAX_BYTES, here, imported_names, there
from league.types import Source
from league.types.schema import read_file

MAX_LETTERS = 4_096
"""Of an address; systems take no longer path."""
HOW = "docs/bring.md tells how a game is named"


class What(NamedTuple):
    """What an address is of, in the words of errors."""

    setting: str
    """Which names it."""
    noun: str
    how: str

    def refuse(self, text: str, rule: str) -> ConfigError:
        """An error about the address `text`."""
        return ConfigError(f"{self.setting}={text}: {rule}")


GAME = What("env", "game", HOW)

_folders: set[Path] = set()
"""Where files of games lie that this process has imported."""


class GoneError(ConfigError):
    """There is nothing at an address."""


@dataclass(frozen=True)
class Address:
    """What was typed, taken apart."""

    text: str
    kind: Literal["name", "file", "module", "scheme"]
    place: str
    """A name, a file's path, a module's dotted name or a scheme."""
    part: str = ""
    """The attribute behind the colon, or what a scheme's library is given; empty without one."""
    what: What = GAME


@dataclass(frozen=True)
class Located:
    """A game's code before any of it has run."""

    source: Source
    kind: Literal["file", "module", "scheme"]
    place: str
    """A module's dotted name, or a scheme."""
    part: str
    path: Path | None
    """The file's, links followed, on this machine; None of a scheme that names no module."""
    data: bytes
    """What lies there, and is run."""
    what: What = GAME


def parse(text: str, what: What = GAME) -> Address:
    """The parts of an address. Only games have schemes.

    Raises:
        ConfigError: it cannot be one.
    """
    if not text or not text.isprintable():
        raise what.refuse(f"{text!r}", f"is no {what.noun}'s name, file or module; {what.how}")
    if len(text) > MAX_LETTERS:
        raise what.refuse(f"{text[:40]!r}...", f"is too long for a {what.noun}'s name, file or module; {what.how}")
    scheme, colon, rest = text.partition(":")
    if colon and scheme in SCHEMES and what is GAME:
        if not rest:
            raise what.refuse(f"{text!r}", "names no game; write it behind the colon")
        return Address(text, "scheme", scheme, rest)
    place, colon, part = text.rpartition(":")
    if not colon or "/" in part or os.sep in part:
        place, part = text, ""
    elif not part.isidentifier():
        raise what.refuse(f"{text!r}", f"{part!r} behind the colon is no name of a class or object; {what.how}")
    if place.endswith(".py") or "/" in place or os.sep in place:
        if not place.endswith(".py"):
            raise what.refuse(f"{text!r}", f"a {what.noun}'s file ends in .py; {what.how}")
        return Address(text, "file", place, part, what)
    if part or "." in place:
        if not all(word.isidentifier() for word in place.split(".")):
            raise what.refuse(f"{text!r}", f"is no {what.noun}'s name, file or module; {what.how}")
        return Address(text, "module", place, part, what)
    return Address(text, "name", place, what=what)


def locate(address: Address, file: str = "") -> Located:
    """The file behind an address, read and hashed; nothing of it runs, nor of the packages around it.

    Args:
        address: a file, a module or a scheme.
        file: where a module's file lay before, for one that is neither installed nor in the current folder.

    Raises:
        GoneError: there is none.
        ConfigError: it is no file of Python code that can be read.
    """
    if address.kind == "scheme":
        return _locate_scheme(address, file)
    assert address.kind != "name", "a name has no file"
    path = _module_file(address, file) if address.kind == "module" else _whole(address)
    place = address.place if address.kind == "module" else str(there(path))
    data = _read(path, address)
    text = f"{place}:{address.part}" if address.part else place
    source = Source(text, _version_of(place) if address.kind == "module" else "", hashlib.sha256(data).hexdigest())
    return Located(source, address.kind, place, address.part, path, data, address.what)


def _locate_scheme(address: Address, before: str) -> Located:
    """A library's game; of one in a user's own file or module, with that file."""
    part, path, data, sha256 = address.part, None, b"", ""
    (head, file, behind), module = file_of(address.place, part), module_of(address.place, part)
    if file:
        path = _whole(replace(address, place=file))
        part = f"{head}{there(path)}{behind}"
    elif module:
        path = _module_file(replace(address, kind="module", place=module), before)
    if path is not None:
        data = _read(path, address)
        sha256 = hashlib.sha256(data).hexdigest()
    source = Source(f"{address.place}:{part}", library_version(address.place), sha256)
    return Located(source, "scheme", address.place, part, path, data)


def address_of(thing: Any) -> str:
    """The address of a class or a module in a file of its own; empty where there is none.

    That is so of what was made in a function or a notebook, of the script that runs, and where the file has changed
    since it was imported.
    """
    module = thing if inspect.ismodule(thing) else sys.modules.get(str(getattr(thing, "__module__", "")))
    name = "" if module is thing else str(getattr(thing, "__qualname__", ""))
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or not file or not file.endswith(".py"):
        return ""
    if module is not thing and (not inspect.isclass(thing) or getattr(module, name, None) is not thing):
        return ""
    try:
        data = read_file(Path(file), MAX_BYTES)
    except (OSError, ValueError):
        return ""
    if not _has_code(data, file, thing):
        return ""
    is_named = bool(module.__package__ or _version_of(module.__name__))
    return f"{module.__name__ if is_named else os.path.realpath(file)}{':' if name else ''}{name}"


def _has_code(data: bytes, file: str, thing: Any) -> bool:
    """Whether the functions of a class or a module that were read from a file are those that lie there now."""
    try:
        left, known = [compile(data, file, "exec", dont_inherit=True)], set[CodeType]()
    except (SyntaxError, ValueError):
        return False
    while left:
        code = left.pop()
        known.add(code)
        left += [x for x in code.co_consts if isinstance(x, CodeType)]
    holders = [thing, *(x for x in vars(thing).values() if inspect.isclass(x))]
    members = [inspect.unwrap(x) for holder in holders for x in vars(holder).values() if inspect.isfunction(x)]
    return all(x.__code__ in known for x in members if x.__code__.co_filename == file)


def load(found: Located) -> ModuleType:
    """The module of a file or a dotted name, whose code runs unless this process has it already.

    While it is imported what it prints goes to stderr, and its folder comes first where modules are looked for; after
    that it comes last.

    Raises:
        CodeError: it raises something as it is imported.
        ConfigError: another file's module has the name of one that it imports.
    """
    assert found.path is not None
    if found.kind == "module":
        note_user_code(found.place.partition(".")[0])
        if found.place in sys.modules:
            return sys.modules[found.place]
        root = str(found.path.parents[found.place.count(".") + (found.path.name == "__init__.py")])
        if root not in sys.path:
            sys.path.append(root)  # last: it hides nothing
        with failing(found.source.address, found.what.setting), StepKept():
            package = found.place.rpartition(".")[0]
            parent = import_module(package) if package else None
            if found.path.suffix != ".py":
                return import_module(found.place)
            module = _run(found.place, found)
            if parent is not None:
                setattr(parent, found.place.rpartition(".")[2], module)
            return module
    note_user_code(folder=found.path.parent)
    mark = hashlib.sha256(str(found.path).encode(errors="replace")).hexdigest()[:8]
    name = f"league_game_{re.sub(r'[^A-Za-z0-9_]', '_', found.path.stem)}_{found.source.sha256[:12]}_{mark}"
    if name in sys.modules:
        return sys.modules[name]
    with _siblings(found.path.parent), failing(found.source.address, found.what.setting), StepKept():
        module = _run(name, found)
    try:
        _need_own_siblings(found)
    except ConfigError:
        del sys.modules[name]
        raise
    return module


class _Bytes(SourceLoader):
    """Runs bytes that were read before."""

    def __init__(self, path: Path, data: bytes) -> None:
        self._path, self._data = path, data

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:
        if str(path) != str(self._path):  # a compiled form of it
            raise OSError(path)
        return self._data


def _run(name: str, found: Located) -> ModuleType:
    assert found.path is not None
    loader = _Bytes(found.path, found.data)
    inner = [str(found.path.parent)] if found.path.name == "__init__.py" else None
    spec = spec_from_file_location(name, found.path, loader=loader, submodule_search_locations=inner)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    before = is_loading.set(True)
    try:
        alike(lambda: loader.exec_module(module), found.path.parent)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        is_loading.reset(before)
    return module


@contextmanager
def _siblings(folder: Path) -> Iterator[None]:
    text = str(folder)
    sys.path.insert(0, text)
    try:
        yield
    finally:
        sys.path.remove(text)
        if text not in sys.path:
            sys.path.append(text)  # for what is imported only while it plays


def _need_own_siblings(found: Located) -> None:
    """Refuses a file whose import of a sibling gave it another game's: a process has one module of a name.

    Raises:
        ConfigError: with both.
    """
    assert found.path is not None
    folder = found.path.parent
    for name in sorted(imported_names(found.data)):
        file = getattr(sys.modules.get(name), "__file__", None)
        is_beside = (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()
        if file is None or not is_beside:
            continue
        home = Path(file).parent.parent if Path(file).name == "__init__.py" else Path(file).parent
        if home != folder and home in _folders:
            raise found.what.refuse(
                found.source.address,
                f"it imports {name}, and this process has that of another file's folder already ({file}); rename one of"
                f" the two, or begin another process",
            )
    _folders.add(folder)


def _whole(address: Address) -> Path:
    try:
        path = Path(os.path.realpath(here(os.path.expanduser(address.place)), strict=True))
        if not str(path).isprintable():
            raise address.what.refuse(
                f"{address.text!r}", f"its path {str(path)!r} cannot be written down; move it to another folder"
            )
        return path
    except FileNotFoundError:
        raise _gone(address) from None
    except (OSError, ValueError) as error:
        raise _unreadable(address, error) from None


def _gone(address: Address) -> GoneError:
    what = address.what
    return GoneError(
        f"{what.setting}={plain(address.text)}: there is no such file; give the path of the {what.noun}'s file"
    )


def _unreadable(address: Address, error: OSError | ValueError) -> ConfigError:
    reason = error.strerror if isinstance(error, OSError) else error
    return address.what.refuse(plain(address.text), f"{reason}; give the path of the {address.what.noun}'s file")


def _read(path: Path, address: Address) -> bytes:
    try:
        return read_file(path, MAX_BYTES)
    except FileNotFoundError:
        raise _gone(address) from None
    except (OSError, ValueError) as error:
        raise _unreadable(address, error) from None


def _module_file(address: Address, before: str = "") -> Path:
    """The file of a dotted name, found without importing the packages that it is in; else where it lay before."""
    top, *rest = address.place.split(".")
    spec: ModuleSpec | None = None
    try:
        loaded = sys.modules.get(top)
        spec = loaded.__spec__ if loaded is not None else find_spec(top) or PathFinder.find_spec(top, [os.getcwd()])
        name = top
        for word in rest:
            name = f"{name}.{word}"
            paths = spec.submodule_search_locations if spec is not None else None
            spec = None if paths is None else _find_in(name, list(paths))
    except (ImportError, ValueError, AttributeError):
        spec = None
    if spec is None and before and os.path.isfile(before):
        return Path(before)
    if spec is None:
        raise GoneError(
            f"{address.what.setting}={address.text!r}: no module {address.place!r} is installed or in this folder; give"
            f" the path of the {address.what.noun}'s file, or install it"
        )
    if not spec.origin or not os.path.isfile(spec.origin):
        raise address.what.refuse(f"{address.text!r}", f"{address.place!r} is no file of code; {address.what.how}")
    return Path(os.path.realpath(spec.origin))


def _find_in(name: str, paths: list[str]) -> ModuleSpec | None:
    """As importing would look for a module inside a package that lies at `paths`, which need not be loaded."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if find is None or finder is PathFinder:  # which asks a folder without `__init__.py` for its loaded parent
            continue
        if (found := find(name, paths)) is not None:
            return found  # type: ignore[no-any-return]  # finders are not typed
    return PathFinder.find_spec(name.rpartition(".")[2], paths)


def _version_of(module: str) -> str:
    """The version of the distribution that a module is of, where it is of exactly one."""
    names = set(packages_distributions().get(module.partition(".")[0], ()))
    return version(names.pop()) if len(names) == 1 else ""
