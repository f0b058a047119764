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
_TOKEN = re.compile(
    r'(?P<tag>\[\s*(?P<name>\w+)\s+"(?P<value>(?:[^"\\]|\\.)*|.*?)"\s*\])'
    r"|(?P<no_tag>\[\s*(?P<begun>\w*).*)|(?P<comment>\{[^}]*\}?)|(?P<rest>;.*)|(?P<moves>[^\[{;]+)"
)
"""What a line is made of. A tag whose value has a quote that is not escaped ends with the first `"]`."""


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

    def games(self, lines: Iterable[str]) -> Iterator[_Game]:
        """Gives each game once it has ended."""
        for line, row in enumerate(lines, 1):
            yield from self.read(line, row.strip())
        yield from self.end_block()
        if self.comment:
            self.spoil_comment()
        if self.game is not None:
            yield self.game

    def read(self, line: int, row: str) -> Iterator[_Game]:
        """Takes a line; gives the games that have ended."""
        rest = row
        if self.comment:
            begins_with = _TOKEN.match(row)
            if self.has_gap and begins_with and begins_with["tag"]:
                self.spoil_comment()
            else:
                self.has_gap = not row
                _, end, rest = row.partition("}")
                self.comment = 0 if end else self.comment
        elif not row or row.startswith("%"):
            yield from self.end_block()
            return
        for token in () if self.comment else _TOKEN.finditer(rest):
            if token["tag"] or token["no_tag"]:
                self.add_tag(line, token)
            elif token[0].strip():
                yield from self.end_block()
                if token["moves"]:
                    self.add_moves(line, row, token[0])
                elif token["comment"] and not token[0].endswith("}"):
                    self.comment, self.has_gap = line, False

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

    def add_tag(self, line: int, token: re.Match[str]) -> None:
        """Takes a tag, or what begins as one of ours and is none."""
        name = token["name"] or token["begun"]
        key = _NAMES.get(name.casefold(), name)
        if not token["tag"] and key not in TAGS:
            return
        self.block = self.block or _Game(line)
        if not token["tag"]:
            self.block.spoil(line, f'{quoted(token[0])} is no tag; write [Name "value"]')
            return
        if key in self.block.tags and key in TAGS:
            self.block.spoil(line, f"tag {key} stands in one game twice; put an empty line between two games")
        self.block.tags[key] = re.sub(r"\\(.)", r"\1", token["value"])

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
    for game in _Reader().games(lines):
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
