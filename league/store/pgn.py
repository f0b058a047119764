"""PGN (Edwards 1994, the standard's sections 6 to 8) as people write it: tags, then moves, which are left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from league.errors import quoted

Found = tuple[int, str | None, Mapping[str, str]]
"""The line on which a row of a file begins, what is wrong with it, and its columns."""
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
    r"""(?P<tag>\[_*(?P<name>\w+)_+"(?P<value>(?:[^"\\\n]++|\\.)*+|.*?)"_*\]|\[_*(?P<begun>\w*).*)
    |(?P<comment>\{(?:[^}\n]++|\n(?!_*\n_*\[_*\w+_+".*"_*\]))*+(?P<end>\}?))
    |(?P<gap>;.*|^_*%.*|(?:\n_*)+(?=\n))
    |(?P<moves>[^\[{;\n]+)""".replace("_", r"[^\S\n]"),
    re.MULTILINE | re.VERBOSE,
)
"""What a file is made of. A tag whose value has a quote that is not escaped ends with the first `"]`; a comment that is
not closed ends before the empty line that a tag follows."""


@dataclass
class _Game:
    """A game as far as it has been read."""

    line: int
    tags: dict[str, str] = field(default_factory=dict)
    wrong: tuple[int, str] | None = None
    """The first line on which something is wrong, and what."""
    has_moves: bool = False
    ending: str = UNDECIDED
    """The result that its moves end with."""

    def spoil(self, line: int, problem: str) -> None:
        """Notes what is wrong, the first of it."""
        self.wrong = self.wrong or (line, problem)

    def add_tag(self, line: int, token: re.Match[str]) -> None:
        """Takes a tag, or what begins as one of ours and is none."""
        key = _key(token)
        if token["name"] is None:
            self.spoil(line, f'{quoted(token[0])} is no tag; write [Name "value"]')
            return
        if key in self.tags and key in TAGS:
            self.spoil(line, f"tag {key} stands in one game twice; put an empty line between two games")
        self.tags[key] = re.sub(r"\\(.)", r"\1", token["value"])

    def found(self) -> Found:
        """What is read of it."""
        result = "".join(self.tags.get("Result", "").split()).replace("½", "1/2").replace("\u2013", "-")
        lacking = next((tag for tag in ("White", "Black", "Result") if tag not in self.tags), None)
        if lacking:
            self.spoil(self.line, f"the game has no tag {lacking}; a game needs White, Black and Result")
        elif result not in RESULTS:
            known, value = ", ".join(("1-0", "0-1", "1/2-1/2", UNDECIDED)), quoted(self.tags["Result"])
            self.spoil(self.line, f"Result {value} of the game that begins here must be one of {known}")
        elif UNDECIDED not in (self.ending, result) and RESULTS[self.ending] != RESULTS[result]:
            ends = f"Result of the game that begins here is {result}, and its moves end with {self.ending}"
            self.spoil(self.line, ends)
        if self.wrong is not None:
            return *self.wrong, {}
        columns = {column: self.tags[tag].strip() for tag, column in TAGS.items() if tag in self.tags}
        return self.line, None, columns | {"winner_seat": RESULTS[result]}


def read_pgn(text: str) -> Iterator[Found]:
    """The games of a text.

    Tags up to the next empty line, comment or move are a block. It begins another game where moves came before it, or
    where it has a tag of the game once more.
    """
    game: _Game | None = None
    block: _Game | None = None
    line, at = 1, 0
    text = re.sub(r"\r\n?", "\n", text).rstrip()
    text, end = text + "\n\n", len(text)
    for token in _TOKEN.finditer(text):
        line, at = line + text.count("\n", at, token.start()), token.start()
        if token["tag"]:
            is_cut = token.end() == end and "]" not in token[0]
            if token["name"] or _key(token) in TAGS or is_cut:
                block = block or _Game(line)
                block.add_tag(line, token)
            continue
        if token["moves"] and not token["moves"].strip():
            continue
        if block is not None and game is not None and not game.has_moves and not game.tags.keys() & block.tags.keys():
            game.tags |= block.tags
            game.wrong = game.wrong or block.wrong
        elif block is not None:
            if game is not None:
                yield game.found()
            game = block
        block = None
        if token["gap"] or token["end"]:
            continue
        if game is None:
            game = _Game(line)
            if token["moves"]:
                game.spoil(line, f'{quoted(token[0])} stands before any tag; a game begins with [White "..."]')
        game.has_moves = True  # no tag can follow
        if not token["moves"]:
            game.spoil(line, "a comment begins and is never closed; add `}`")
        elif game.ending == UNDECIDED:
            game.ending = next((word for word in token["moves"].split() if word in RESULTS), UNDECIDED)
    if game is not None:
        yield game.found()


def _key(token: re.Match[str]) -> str:
    name = token["name"] or token["begun"] or ""
    return _NAMES.get(name.casefold(), name)


def write_pgn(rows: Iterable[Mapping[str, Any]], out: TextIO) -> None:
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
            out.write(f'[{tag} "{escaped}"]\n')
        out.write(f"\n{tags['Result']}\n\n")
