"""Recording a match: its seed and the actions of both seats, which is all that it takes to play it once more.

A seat that a native bot plays is kept by the bot's name, since its play is the game's own. Beside the actions stands a
hash of all that the game wrote, so that a playback knows whether it is the same match bit for bit.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from league.types import EXTERNAL, SEATS, ActionSpec, BoolArray, MatchBatch, MatchResult, Turns

if TYPE_CHECKING:
    from league.play.demonstrations import DecisionRecorder

FORMAT = "league replay 1"
"""What a replay's file calls itself; the number goes up where an earlier league could not read it."""
PACKED = ("bits", "u1", "<u2", "<i4", "<f4")
"""How actions are packed: a bit a key, or numbers of these types."""


@dataclass(frozen=True)
class Recording:
    """Which matches of an evaluation are kept whole."""

    matches: int = 0
    """Of each pairing, the first ones, at most one of each row."""
    game: Mapping[str, Any] = field(default_factory=dict)
    """The game as a replay tells it: `league.snapshots.manifest.GameRecord` as JSON."""
    decisions: DecisionRecorder | None = None
    """Receives all decisions of all matches."""


class Tape:
    """The match of one row of a batch, from its first decision on. It only looks at the batch."""

    def __init__(self, batch: MatchBatch, row: int) -> None:
        self._batch, self._row = batch, row
        self._turns = batch if isinstance(batch, Turns) else None
        self._is_net: BoolArray = batch.controllers[row] == EXTERNAL
        self._actions: tuple[list[npt.NDArray[Any]], ...] = tuple([] for _ in range(SEATS))
        self._hash = hashlib.sha256()
        self.steps = 0

    @property
    def deciding(self) -> BoolArray:
        """(S,): the seats whose actions are read in the next step."""
        if self._turns is None:
            return self._is_net
        return np.asarray(self._turns.to_act[self._row] & self._is_net)

    def before(self) -> None:
        """Called before each step of the row, the actions being written."""
        batch, row = self._batch, self._row
        self._hash.update(batch.obs[row].tobytes())
        for seat in np.flatnonzero(self.deciding).tolist():
            self._actions[seat].append(batch.actions[row, seat].copy())

    def after(self) -> None:
        """Called after each step of the row."""
        batch, row = self._batch, self._row
        self.steps += 1
        self._hash.update(batch.reward_terms[row].tobytes())
        if batch.terminated[row] or batch.truncated[row]:
            self._hash.update(batch.final_obs[row].tobytes())
            self._hash.update(batch.result[row].tobytes())

    @property
    def digest(self) -> str:
        """sha256 over what the game has written: observations, reward terms, the last observation and the result."""
        return self._hash.hexdigest()

    def written(self, game: Mapping[str, Any], match: MatchResult, names: Sequence[str] = ("", "")) -> str:
        """The match, which has ended, as the text of a replay's file.

        Args:
            game: as of `Recording`.
            match: its row of the store.
            names: what its agents are called.
        """
        spec = self._batch.spec
        seats = []
        for seat, (agent, name) in enumerate(zip(match.agents, names, strict=True)):
            bot = None if self._is_net[seat] else spec.bots[int(self._batch.controllers[self._row, seat])]
            actions = None if bot is not None else pack(self._actions[seat], spec.action)
            seats.append({"agent": agent, "name": name, "bot": bot, "actions": actions})
        body = {
            "game": dict(game),
            "seed": match.seed,
            "seats": seats,
            "sampling": match.sampling,
            "winner": match.winner,
            "end_reason": match.end_reason,
            "steps": match.steps,
            "ticks": match.ticks,
            "digest": self.digest,
        }
        return json.dumps({"format": FORMAT, "sha256": body_hash(body), "match": body}, separators=(",", ":"))


class Recorder:
    """Tapes of the first match of some rows of a batch.

    Args:
        batch: just reset.
        rows: those that are recorded.
    """

    def __init__(self, batch: MatchBatch, rows: Sequence[int]) -> None:
        self._tapes = {row: Tape(batch, row) for row in rows}

    def before(self) -> None:
        """As `Tape.before`, of every row whose first match is under way."""
        for tape in self._tapes.values():
            tape.before()

    def after(self) -> None:
        """As `Tape.after`."""
        for tape in self._tapes.values():
            tape.after()

    def finish(self, row: int) -> Tape | None:
        """The tape of the match that ended in `row`, which is recorded no more; None: it was not."""
        return self._tapes.pop(row, None)


def body_hash(body: Mapping[str, Any]) -> str:
    """sha256 of a replay's content."""
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def packing_of(spec: ActionSpec) -> str:
    """How actions of a game are packed, one of `PACKED`."""
    if spec.has_real:
        return "<f4"
    most = max(choices for leaf in spec.leaves for choices in leaf.choices)
    return "bits" if most <= 2 else "u1" if most <= 2**8 else "<u2" if most <= 2**16 else "<i4"


def pack(actions: Sequence[npt.NDArray[Any]], spec: ActionSpec) -> dict[str, Any]:
    """Actions, (A,) each, as a replay has them: how they are packed, how many they are, and the data as text."""
    how = packing_of(spec)
    flat = np.array(actions, spec.dtype).reshape(len(actions), spec.num_parts)
    raw = np.packbits(flat.astype(np.bool_)).tobytes() if how == "bits" else flat.astype(how).tobytes()
    return {"packed": how, "count": len(actions), "data": base64.b64encode(zlib.compress(raw, 9)).decode()}


def unpack(data: str, how: str, count: int, spec: ActionSpec) -> npt.NDArray[Any]:
    """The inverse of `pack`: (count, A) of the spec's type.

    Never more than what so many actions take is unpacked.

    Raises:
        ValueError: it is damaged, or of another game.
    """
    if how != packing_of(spec):
        raise ValueError(f"actions are packed as {how}, this game's as {packing_of(spec)}")
    numbers = count * spec.num_parts
    size = (numbers + 7) // 8 if how == "bits" else numbers * np.dtype(how).itemsize
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(base64.b64decode(data, validate=True), size + 1)
    except zlib.error as error:
        raise ValueError(f"actions are damaged ({error})") from None
    if len(raw) != size or not stream.eof:
        raise ValueError(f"actions are not those of {count:,} decisions")
    flat = np.unpackbits(np.frombuffer(raw, np.uint8), count=numbers) if how == "bits" else np.frombuffer(raw, how)
    return flat.reshape(count, spec.num_parts).astype(spec.dtype)
