"""PGN (Edwards 1994, the standard's sections 6 to 8) as people write it: tags, then moves, which are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from league.errors import quoted

TAGS = {
    "GameId": "game_id",
    "White": "seat0",
    "Black": "seat1",
    "Result": "winner_seat",
    "Seed": "seed",
    "EndReason": "end_reason",
    "Steps": "steps",
    "Ticks": "ticks",
    "Sampling": "sampling",
    "Kind": "kind",
    "PlayedAt": "played_at",
}
"""Tag -> column; other tags are left out. White, Black and Result are PGN's own."""
UNDECIDED = "*"
"""The result of a game that has none."""
RESULTS = {"1-0": "0", "0-1": "1", "1/2-1/2": "draw", "1/2": "draw", "0.5-0.5": "draw", UNDECIDED: UNDECIDED}
_NAMES = {tag.casefold(): tag for tag in TAGS}
_TAG = re.compile(r'\[\s*(\w+)\s+"((?:[^"\\]|\\.)*|.*?)"\s*\]')
"""A tag whose value has a quote that is not escaped ends with the first `"]`."""
_TAG_NAME = re.compile(r"\[\s*(\w+)")
_MOVES = re.compile(r"[^\[{;]*")


@dataclass(frozen=True)
class Bad:
    """What is wrong with a game, and where."""

    line: int
    problem: str


@dataclass
class _Game:
    """A game as far as it has been read."""

    line: int
    tags: dict[str, str] = field(default_factory=dict)
    bad: Bad | None = None
    has_moves: bool = False
    ending: str = UNDECIDED
    """The result that its moves end with."""

    def spoil(self, line: int, problem: str) -> None:
        """Notes what is wrong, the first of it."""
        self.bad = self.bad or Bad(line, problem)

    def fields(self) -> dict[str, str] | Bad:
        """Its columns."""
        if self.bad is not None:
            return self.bad
        for tag in ("White", "Black", "Result"):
            if tag not in self.tags:
                return Bad(self.line, f"the game has no tag {tag}; a game needs White, Black and Result")
        result = "".join(self.tags["Result"].split()).replace("½", "1/2").replace("\u2013", "-")
        if result not in RESULTS:
            known = ", ".join(("1-0", "0-1", "1/2-1/2", UNDECIDED))
            value = quoted(self.tags["Result"])
            return Bad(self.line, f"Result {value} of the game that begins here must be one of {known}")
        if UNDECIDED not in (self.ending, result) and RESULTS[self.ending] != RESULTS[result]:
            return Bad(
                self.line, f"Result of the game that begins here is {result}, and its moves end with {self.ending}"
            )
        found = {column: self.tags[tag].strip() for tag, column in TAGS.items() if tag in self.tags}
        return found | {"winner_seat": RESULTS[result]}


class _Reader:
    """Reads lines; `game` is the one under way, `block` the tags since the last empty line, comment or move.

    A block begins another game where moves came before it, or where it has a tag of the game once more.
    """

    def __init__(self) -> None:
        self.game: _Game | None = None
        self.block: _Game | None = None
        self.comment = 0
        """The line on which a comment began that is not closed yet."""
        self.has_gap = False
        """Whether that comment has an empty line."""

    def read(self, line: int, row: str) -> Iterator[_Game]:
        """Takes a line; gives the games that have ended."""
        if self.comment and self.has_gap and _TAG.match(row):
            yield from self.end_block()
            self.spoil_comment()
        self.has_gap = not row if self.comment else False
        if not row or (row.startswith("%") and not self.comment):
            yield from self.end_block()
            return
        at = 0
        while at < len(row):
            if self.comment:
                end = row.find("}", at)
                at, self.comment = (end + 1, 0) if end >= 0 else (len(row), self.comment)
                continue
            moves = _MOVES.match(row, at)
            assert moves is not None, "it matches nothing, too"
            at = moves.end()
            if moves[0].strip():
                yield from self.end_block()
                self.add_moves(line, row, moves[0])
            if at == len(row):
                return
            if row[at] == "[":
                at = self.add_tag(line, row, at)
            else:
                yield from self.end_block()
                at, self.comment = (at + 1, line) if row[at] == "{" else (len(row), 0)

    def end(self) -> Iterator[_Game]:
        """Gives what is left at the end of the file."""
        yield from self.end_block()
        if self.comment:
            self.spoil_comment()
        if self.game is not None:
            yield self.game

    def end_block(self) -> Iterator[_Game]:
        """Adds the block to the game, or begins another one with it, which gives the one before."""
        game, block, self.block = self.game, self.block, None
        if block is None:
            return
        if game is not None and not game.has_moves and not game.tags.keys() & block.tags.keys():
            game.tags |= block.tags
            game.bad = game.bad or block.bad
            return
        if game is not None:
            yield game
        self.game = block

    def add_tag(self, line: int, row: str, at: int) -> int:
        """Takes the tag that begins there, or leaves the rest of the line out; where to go on."""
        tag = _TAG.match(row, at)
        name = tag or _TAG_NAME.match(row, at)
        key = _NAMES.get(name[1].casefold(), name[1]) if name else ""
        if tag is None and key not in TAGS:
            return len(row)
        self.block = self.block or _Game(line)
        if tag is None:
            self.block.spoil(line, f'{quoted(row[at:])} is no tag; write [Name "value"]')
            return len(row)
        if key in self.block.tags and key in TAGS:
            self.block.spoil(line, f"tag {key} stands in one game twice; put an empty line between two games")
        self.block.tags[key] = re.sub(r"\\(.)", r"\1", tag[2])
        return tag.end()

    def add_moves(self, line: int, row: str, moves: str) -> None:
        """Notes that the game has moves, of which no tag can follow, and the result that they end with."""
        if self.game is None:
            self.game = _Game(line)
            self.game.spoil(line, f'{quoted(row)} stands before any tag; a game begins with [White "..."]')
        self.game.has_moves = True
        if self.game.ending == UNDECIDED:
            self.game.ending = next((word for word in moves.split() if word in RESULTS), UNDECIDED)

    def spoil_comment(self) -> None:
        """Notes that a comment does not end, in the game in which it began."""
        self.game = self.game or _Game(self.comment)
        self.game.spoil(self.comment, "a comment begins and is never closed; add `}`")
        self.game.has_moves, self.comment = True, 0


def read_pgn(lines: Iterator[str]) -> Iterator[tuple[int, dict[str, str] | Bad]]:
    """The line on which each game begins, and its columns."""
    reader = _Reader()
    for line, row in enumerate(lines, 1):
        for game in reader.read(line, row.strip()):
            yield game.line, game.fields()
    for game in reader.end():
        yield game.line, game.fields()


def write_pgn(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Each game with the standard's seven tags first, then ours; no moves."""
    results = {"0": "1-0", "1": "0-1", "draw": "1/2-1/2"}
    for number, row in enumerate(rows, 1):
        tags = {
            "Event": "league",
            "Site": "?",
            "Date": row["played_at"][:10].replace("-", "."),
            "Round": str(number),
            "White": row["seat0"],
            "Black": row["seat1"],
            "Result": results[str(row.get("winner", row.get("winner_seat")))],
        }
        tags |= {tag: str(row[column]) for tag, column in TAGS.items() if tag not in tags}
        for tag, value in tags.items():
            escaped = value.replace("\\", r"\\").replace('"', r"\"")
            yield f'[{tag} "{escaped}"]\n'
        yield f"\n{tags['Result']}\n\n"
