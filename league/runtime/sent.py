"""The user's own files on another machine: a node of a cluster has those of a call in a folder of its own.

Each lies below that at its whole path, so an address means there what it means where it was written.
"""

from __future__ import annotations

import ast
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from league.types.schema import read_file

FOLDER = "LEAGUE_SENT"
"""Environment variable with that folder's path, which processes of this one inherit."""
MAX_BYTES = 2**24
"""Of a file of code; a module with its tables takes a hundredth of it."""
MAX_PROGRAM_BYTES = 2**30
"""Of a file of a program, such as a model."""


def imported_names(data: bytes) -> set[str]:
    """Top-level names of the modules that a file of code imports; none of a file that is no code."""
    try:
        nodes = list(ast.walk(ast.parse(data)))
    except (SyntaxError, ValueError):
        return set()
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in names}


def modules_in(folder: Path, name: str) -> list[Path]:
    """The file of a module in a folder, or the files of a package; none where there is no such module."""
    package, file = folder / name, folder / f"{name}.py"
    if (package / "__init__.py").is_file():
        return sorted(package.rglob("*.py"))
    return [file] if file.is_file() else []


def collected(files: Iterable[Path]) -> dict[str, bytes]:
    """What each file holds, with the modules beside it that it imports, and those that they do; no code runs.

    A file that cannot be read is left out: the address that names it says so.

    files: whole paths.
    """
    found, left = dict[str, bytes](), list(files)
    while left:
        path = left.pop()
        if str(path) in found:
            continue
        with suppress(OSError, ValueError):
            found[str(path)] = data = read_file(path, MAX_BYTES if path.suffix == ".py" else MAX_PROGRAM_BYTES)
            names = imported_names(data) if path.suffix == ".py" else ()
            left += [file for name in names for file in modules_in(path.parent, name)]
    return found


def unpacked(files: Mapping[str, bytes]) -> TemporaryDirectory[str] | None:
    """Writes what `collected` found into a folder, in which this process looks from now on; hold it.

    None where this machine has all of them already: a game finds its data beside its file.
    """
    with suppress(OSError, ValueError):
        if all(read_file(Path(path), MAX_PROGRAM_BYTES) == data for path, data in files.items()):
            return None
    folder = TemporaryDirectory(prefix="league-")
    for path, data in files.items():
        file = Path(folder.name + os.path.abspath(path))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
        file.chmod(0o700)  # it may be a program
    os.environ[FOLDER] = folder.name
    return folder


def whole_words(words: Sequence[str]) -> list[str]:
    """A program's words as they are from any folder: whole paths of files that they name."""

    def whole(word: str, is_first: bool) -> str:
        path = os.path.expanduser(word)
        is_named = os.sep in path if is_first else os.path.exists(path)
        return os.path.abspath(path) if is_named or (is_first and shutil.which(word) is None) else word

    return [whole(word, number == 0) for number, word in enumerate(words)]


def here(path: str) -> str:
    """Where a file or a folder lies on this machine: below `FOLDER`, else at its path."""
    sent = os.environ.get(FOLDER, "") + os.path.abspath(path)
    return sent if FOLDER in os.environ and os.path.exists(sent) else path


def there(path: Path) -> Path:
    """The path of a file on the machine that sent it: the reverse of `here`, links followed."""
    folder = os.path.realpath(os.environ.get(FOLDER, "/"))
    return Path("/", path.relative_to(folder)) if path.is_relative_to(folder) else path
