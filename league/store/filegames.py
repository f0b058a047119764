"""The games that a file of matches holds, checked one by one as they are read."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from league.acts import advance
from league.errors import UsageError, quoted
from league.store.codec import MAX_MATCH_SEED
from league.store.formats import READ, WINNERS, bad, format_of, lines_of, name_problem
from league.store.pgn import UNDECIDED, Bad
from league.types import DRAW

RESULTS: dict[str, int | None] = {
    **{"0": 0, "1": 1, "draw": DRAW, "1-0": 0, "0-1": 1, "1/2-1/2": DRAW, "½-½": DRAW},
    UNDECIDED: None,
}
"""Word -> seat, DRAW or None (no result)."""
UNKNOWN_AGENT = "?"
"""PGN's name of an unknown player, who is no agent."""
UNREADABLE = "cannot be read"
"""Why a bad game is left out."""
MAX_COUNT = 2**63 - 1
_WHOLE = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True)
class FileGame:
    """One match as a file tells it. None: the file does not say."""

    line: int
    seats: tuple[str, str]
    """Names or ids."""
    winner: int
    game_id: str | None
    seed: int | None
    end_reason: str
    steps: int
    ticks: int
    sampling: str
    played_at: datetime | None


TOLD_EVERY = 1_000
"""Lines between two words of how far a file is read."""


class FileGames:
    """The games of a file, read once, one at a time; what else it has to say is known when they have been read.

    Args:
        data: the file's content.
        name: the file's, which tells the format and stands in errors.
        strict: whether a bad game ends the reading also where the format leaves one out.
    """

    def __init__(self, data: bytes, name: str, *, strict: bool = False) -> None:
        self._data, self._name = data, name
        self._format = format_of(name)
        self._is_strict = strict or not self._format.leaves_out
        self.ignored: dict[str, None] = {}
        """Columns that are none of ours, in their order."""
        self.left_out: Counter[str] = Counter()
        """Why -> how many games."""
        self.first_bad = ""
        """What is wrong with the first game that could not be read."""
        self.without_zone = 0
        """Games whose time says no zone."""
        self._words: dict[str, tuple[int, str, str]] = {}
        """Word of a result that the file has -> first line, column and value."""
        self._called: set[str] = set()
        """Words of results that are names of agents in the file."""
        self._fit_seats = self._fit_names = True
        """Whether every `winner` so far can be a seat or a draw; and the name of an agent of its game, or a draw."""

    def __iter__(self) -> Iterator[FileGame]:
        """The games that have a result.

        Raises:
            UsageError: the file cannot be read, or has a value with two meanings; the message has the line.
        """
        num_lines, told, num_games = self._data.count(b"\n"), 0, 0
        for line, fields in self._format.read(lines_of(self._data, self._name), self._name):
            if line >= told:
                advance("lines", line, num_lines)
                told = line + TOLD_EVERY
            try:
                if isinstance(fields, Bad):
                    raise bad(self._name, fields.line, fields.problem)
                game = self._game(line, fields)
            except UsageError as error:
                if self._is_strict:
                    raise
                self.left_out[UNREADABLE] += 1
                self.first_bad = self.first_bad or str(error)
                continue
            if game is not None:
                num_games += 1
                yield game
        is_by_seat = self._fit_seats and not self._fit_names  # then names of agents are no matter
        for word, (line, column, value) in self._words.items():
            if word in self._called and not (column == "winner" and is_by_seat):
                columns = "winner_seat (0, 1, draw)" + (" or winner_name" if column == "winner" else "")
                problem = f"{column}={quoted(value)} has two meanings, since an agent of the file is called so"
                raise bad(self._name, line, f"{problem}; give the column {columns} instead of {column}")
        if not num_games:
            self._refuse_none()

    def _refuse_none(self) -> None:
        if not self.left_out:
            raise UsageError(f"{self._name}: there is no game in it; give a file with one match or more")
        if self.left_out.total() == self.left_out[UNREADABLE]:
            raise UsageError(self.first_bad)
        raise UsageError(f"{self._name}: none of its {self.left_out.total()} games has a result between two agents")

    def _game(self, line: int, fields: Mapping[str, str]) -> FileGame | None:
        """A row as a game; None, and counted, where it has no result or an agent that is not known."""
        self.ignored |= {column: None for column in fields if column and column not in READ}
        row = _Row(self._name, line, fields)
        row.one_of("kind", ["evaluation"], "evaluation")  # a learner in training changes: nothing to rate
        seats = row.text("seat0", ""), row.text("seat1", "")
        if seats[0] == seats[1] != UNKNOWN_AGENT:
            raise bad(self._name, line, f"{quoted(seats[0])} plays against itself; a match is between two agents")
        winner, played_at = self._winner(row, seats), row.moment("played_at")
        game = FileGame(
            line=line,
            seats=seats,
            winner=DRAW if winner is None else winner,
            game_id=row.text("game_id", "") if fields.get("game_id") else None,
            seed=row.whole("seed", MAX_MATCH_SEED),
            end_reason=row.text("end_reason", "unknown"),
            steps=row.whole("steps", MAX_COUNT) or 0,
            ticks=row.whole("ticks", MAX_COUNT) or 0,
            sampling=row.one_of("sampling", ["sample", "greedy"], "sample"),
            played_at=None if played_at is None else _in_utc(played_at),
        )
        self._called.update(name for seat in seats if (name := seat.casefold()) in RESULTS)
        if UNKNOWN_AGENT in seats or winner is None:
            self.left_out["no result" if winner is None else f"a player `{UNKNOWN_AGENT}`"] += 1
            return None
        self.without_zone += played_at is not None and played_at.tzinfo is None
        return game

    def _winner(self, row: _Row, seats: tuple[str, str]) -> int | None:
        """A seat or DRAW, of what the columns say of it; None: there is no result."""
        given = {column: value for column in WINNERS if (value := row.fields.get(column, ""))}
        if len(given) > 1:
            raise bad(row.name, row.line, f"{' and '.join(given)} say who won; give one of them in a row")
        column, value = next(iter(given.items()), (next(x for x in WINNERS if x in row.fields), ""))
        word = value.casefold()
        words = {w: seat for w, seat in RESULTS.items() if column != "winner_name" or seat in (DRAW, None)}
        if word in words and column != "winner_seat":
            self._words.setdefault(word, (row.line, column, value))
        named = unicodedata.normalize("NFC", value)
        if column == "winner":
            self._fit_seats &= word in words
            self._fit_names &= named in seats or words.get(word) in (DRAW, None)
        if column == "winner_name" and named in seats:
            return seats.index(named)
        if word in words:
            return words[word]
        if column == "winner" and named in seats:
            return seats.index(named)
        known = ", ".join(w for w, seat in RESULTS.items() if seat is not None)
        rule = {
            "winner": f"one of {known}, or the name in seat0 or seat1",
            "winner_seat": f"one of {known}",
            "winner_name": "the name in seat0 or seat1, or draw",
        }[column]
        raise bad(row.name, row.line, f"{column}={quoted(value)} must be {rule}; correct it")


@dataclass(frozen=True)
class _Row:
    """A row of a file, whose values are checked as they are read."""

    name: str
    line: int
    fields: Mapping[str, str]

    def whole(self, column: str, top: int) -> int | None:
        value = self.fields.get(column, "")
        if value and not (_WHOLE.fullmatch(value) and int(value) <= top):
            raise bad(self.name, self.line, f"{column}={quoted(value)} is no whole number from 0 to {top}; correct it")
        return int(value) if value else None

    def text(self, column: str, fallback: str) -> str:
        value = unicodedata.normalize("NFC", self.fields.get(column, "") or fallback)
        problem = name_problem(value)
        if problem:
            raise bad(self.name, self.line, f"{column}={quoted(value)} {problem}; correct it")
        return value

    def one_of(self, column: str, allowed: Iterable[str], fallback: str) -> str:
        value = self.fields.get(column, "") or fallback
        if value not in allowed:
            raise bad(self.name, self.line, f"{column}={quoted(value)} must be {' or '.join(allowed)}; correct it")
        return value

    def moment(self, column: str) -> datetime | None:
        value = self.fields.get(column, "")
        try:
            at = datetime.fromisoformat(value) if value else None
            return at if at is None or _in_utc(at) else None
        except (ValueError, OverflowError):
            problem = f"{column}={quoted(value)} is no ISO 8601 time such as 2026-05-01T12:00:00+00:00"
            raise bad(self.name, self.line, f"{problem}; correct it") from None


def _in_utc(at: datetime) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
