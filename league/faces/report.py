"""A report: one page in one file that shows runs and everything they did, and needs no network.

`readings.py` takes the numbers out of the store (`records.py` says which), `page/report.js` draws them, with uPlot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from league.arena.templates import packed
from league.errors import DEFAULT_STORE, LeagueError, UsageError, command
from league.faces.pages import page
from league.faces.readings import read
from league.faces.records import Document, to_json
from league.faces.stored_matches import Films
from league.runtime.phases import phase
from league.store.files import check_new, new_file
from league.store.store import Store
from league.types.schema import check_number

MAX_BYTES = 10_000_000
"""Of a report; a match of brawl takes a fiftieth."""
MATCHES = 12
"""Matches in a report that is not told how many: each takes a second or so to be played back."""
MOST_MATCHES = 500


@dataclass(frozen=True)
class WrittenReport:
    """A report that was written."""

    path: str
    summary: str
    runs: tuple[str, ...]
    matches: int
    """Those that can be played in it."""
    num_bytes: int


def report(
    runs: str | Sequence[str] = (),
    out: str | Path = "report.html",
    *,
    matches: int = MATCHES,
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] = lambda message: None,
) -> WrittenReport:
    """Writes a page about runs; nothing is written to the store.

    Args:
        runs: one or more by name, or leagues for all their learners; none: the newest of the store.
        out: a new file.
        matches: how many of the matches that the store keeps can be played in the page, as far as there is room.
        store: the store's file.
        say: receives a line about what is left out.

    Raises:
        UsageError: no such run, or something is at `out`.
        LeagueError: there is nothing to show yet, or the disk refuses.
        StoreError: the store cannot be read.
    """
    out = Path(out)
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"out={out}: must end in .html; pass another --out")
    check_new(out, "--out")
    check_number("matches", matches, 0, MOST_MATCHES, f"matches in the page, {MATCHES} if not given")
    opened = Store.open(store, say)
    films = Films(opened, say)
    document = read(opened, [runs] if isinstance(runs, str) else runs, films)
    _check(document, opened.path, say)
    text, count = _fitted(document, films, matches, say)
    with new_file(out, "--out") as draft:
        draft.write_text(text, encoding="utf-8")
    names = tuple(run.run for game in document.games for run in game.runs)
    return WrittenReport(str(out), document.summary, names, count, len(text.encode()))


def _check(document: Document, store: Path, say: Callable[[str], None]) -> None:
    """Says which runs have nothing to show.

    Raises:
        LeagueError: none has.
    """
    found = [run for game in document.games for run in game.runs]
    empty = [run for run in found if not run.steps and not run.terms]
    if not found:
        raise LeagueError(f"{store}: no run to report on yet; make one with {command('train', store=store)}")
    if len(empty) == len(found) and not any(game.board for game in document.games):
        raise LeagueError(
            f"{empty[0].run}: no update is made yet, so there is nothing to report; train it further first"
        )
    if empty:
        say(f"without an update yet, so without curves: {', '.join(run.run for run in empty)}")


@phase("write the report")
def _fitted(document: Document, films: Films, most: int, say: Callable[[str], None]) -> tuple[str, int]:
    """The page, with as many matches as there is room for; and how many these are."""
    found: dict[str, Any] = {**to_json(document), "films": {}}
    room = MAX_BYTES - len(_page(document, found).encode())
    wanted, told = _by_turns(document)[:most], set()
    for key in wanted:
        try:
            match = films.packed(key)
        except LeagueError as error:
            if str(error) not in told:  # as of each match of a game that this user has not named
                say(f"a kept match is left out: {error}")
            told.add(str(error))
            continue
        room -= round(1.01 * len(match)) + 2 * len(key) + 64  # about what it takes, packed once more
        if room < 0:
            fit = f"{len(found['films'])} of {len(wanted)} matches fit into {MAX_BYTES / 1e6:.0f} MB"
            say(f"{fit}; the others are left out")
            break
        found["films"][key] = match
    text = _page(document, found)
    while len(text.encode()) > MAX_BYTES and found["films"]:
        found["films"].popitem()
        text = _page(document, found)
    return text, len(found["films"])


def _by_turns(document: Document) -> list[str]:
    """The keys of matches that can be shown: of each run the newest, then of each the one before."""
    by_run: dict[str, list[str]] = {}
    for game in document.games:
        seen = {key for _, _, key in game.map.kept}
        for match in game.matches:
            if match.key in seen:
                by_run.setdefault(match.run, []).append(match.key)
    return [key for turn in zip_longest(*by_run.values()) for key in turn if key is not None]


def _page(document: Document, found: dict[str, Any]) -> str:
    about = f"{document.made_at}, from {document.store}"
    return page(f"{document.title} - league report", document.summary, about, data=packed(found))
