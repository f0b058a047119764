"""Bots that are programs, by address: `SCHEME:WORDS` as a command, with the hash of its files."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from league.envs.sources import MAX_LETTERS, GoneError, Located, What
from league.errors import plain
from league.play.programs import Program
from league.runtime import sandbox
from league.runtime.interpreter import python
from league.runtime.sent import here, whole_words
from league.snapshots.files import MANIFEST, WEIGHTS
from league.types import Source

PROGRAM, SUBMISSION = "program", "submission"
RUN = {
    "kaggle": "a main.py in the form of Kaggle, with a function agent(observation, configuration) last",
    "sb3": "a model of stable-baselines3, saved as a zip",
    "export": "a folder that `league export AGENT OUT --format onnx` wrote, or its submission",
    "submission": "a folder with an agent.py, whose class Agent has reset() and act(observation, mask), or a main.py",
}
"""Files that `league.arena.bot_runner` plays, by scheme."""
RUN_CODE = "from league.arena.bot_runner import main; main()"
APART, ONE = "apart", "one"
"""Words for the runner: it is shut in; one agent plays all matches, with `reset` between them."""
RUNNER_SECONDS = 60.0
"""Until a runner is ready: torch and a model are loaded."""
HOW = "docs/guides/programs.md tells how a program is named"


def locate_program(text: str, what: What) -> Located:
    """The files behind a program's address, hashed; nothing of them runs.

    Raises:
        GoneError: one is missing.
        ConfigError: it cannot be a program's address, or its file cannot be run.
    """
    scheme, _, rest = text.partition(":")
    if not text.isprintable() or len(text) > MAX_LETTERS:
        raise what.refuse(f"{text[:40]!r}", f"is no program's address; {HOW}")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise what.refuse(plain(text), f"{str(error).lower()}; {HOW}") from None
    if not words or (scheme != PROGRAM and len(words) > 1):
        raise what.refuse(plain(text), f"names {'several files' if words else 'nothing'} behind the colon; {HOW}")
    first = Path(here(os.path.expanduser(words[0])))
    if scheme != PROGRAM and not (first.is_dir() if scheme in ("export", SUBMISSION) else first.is_file()):
        raise GoneError(f"{what.setting}={plain(text)}: there is no {words[0]}; give {RUN[scheme]}")
    if scheme == PROGRAM:
        _need_program(text, words[0], first, what)
    whole = whole_words(words)
    files = [here(path) for path in whole if os.path.isabs(path) and os.path.exists(here(path))]
    if not files:
        files = [str(shutil.which(words[0]))]
    try:
        sha256 = _hash(files)
    except OSError as error:
        raise what.refuse(plain(text), f"{error.filename}: {error.strerror}; make its files readable") from None
    address = f"{scheme}:{shlex.join(whole)}"
    return Located(Source(address, "", sha256), "scheme", scheme, whole[0], None, b"", what)


def open_program(found: Located) -> Program:
    """What starts a program that was located."""
    address = found.source.address
    words = [here(word) for word in shlex.split(address.partition(":")[2])]
    if found.place == PROGRAM:
        return Program(address, tuple(words))
    held = [APART] if found.place == SUBMISSION and sandbox.is_possible() else []
    return Program(address, tuple(python(RUN_CODE, found.place, *words, *held)), RUNNER_SECONDS)


def is_submission(path: Path) -> bool:
    """Whether a folder plays by its own code alone, without weights that league reads."""
    is_ours = (path / WEIGHTS).exists() and (path / MANIFEST).exists()
    return not is_ours and any((path / name).is_file() for name in ("agent.py", "main.py"))


def _need_program(text: str, word: str, path: Path, what: What) -> None:
    if os.sep not in word:
        if shutil.which(word) is None:
            hint = f"write ./{word}" if path.is_file() else "install it, or give the path of the program"
            raise GoneError(f"{what.setting}={plain(text)}: no program {word!r} is on PATH; {hint}")
    elif not path.is_file():
        raise GoneError(f"{what.setting}={plain(text)}: there is no file {word}; give the path of the program")
    elif not os.access(path, os.X_OK):
        raise what.refuse(plain(text), f"{word} is not executable; chmod +x {word}, or name what runs it first")


def _hash(paths: Sequence[str]) -> str:
    """sha256 of a file, or over those of several; of a folder all files in it count."""
    digests = []
    for path in paths:
        inner = sorted(p for p in Path(path).rglob("*") if p.is_file()) if os.path.isdir(path) else [Path(path)]
        for file in inner:
            with file.open("rb") as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
