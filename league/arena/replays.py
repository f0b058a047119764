"""Replays: a match in a small file, played back bit for bit by its game alone, without the agents that played it.

The file is one JSON document: the game's address, version and id as a run's row has them, the seed, the actions of both
seats, packed, and how the match ended. What it says is data: the game's code runs only where this user has named it.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from league.arena.games import find_again
from league.envs import registry
from league.errors import LeagueError, UsageError, as_users, one_line, users_line
from league.play.courses import MAX_STEPS
from league.play.recording import FORMAT, Tape, body_hash, unpack
from league.runtime.phases import phase
from league.runtime.process import settings_kept
from league.snapshots.manifest import GameRecord
from league.store.files import check_new, new_file
from league.store.reading import Reader
from league.types import EXTERNAL, SEATS, BoolArray, Closing, GameSpec, MatchBatch, Turns
from league.types.results import Result
from league.types.schema import FrozenModel, open_regular, read_file

SUFFIX = ".replay"
"""Of a replay's file."""
MAX_BYTES = 64 * 2**20
"""Of a file. A match of brawl has a kilobyte or two, one of a million decisions of 64 numbers a few of these."""
MAX_UNPACKED = 256 * 2**20
"""Bytes of actions in memory."""
MAX_LETTERS = 300

Say = Callable[[str], None]
Text = Annotated[str, Field(max_length=MAX_LETTERS)]


class PackedActions(FrozenModel):
    """The actions of a seat, one after the other (`league.play.recording.pack`)."""

    packed: Literal["bits", "u1", "<u2", "<i4", "<f4"]
    count: Annotated[int, Field(ge=0, le=MAX_STEPS + 1)]
    data: str


class SeatRecord(FrozenModel):
    """Who sat in a seat, and what it did: a native bot of the game plays itself."""

    agent: Text
    """Its id."""
    name: Text
    """What it was called; empty where only its id is known."""
    bot: Text | None
    actions: PackedActions | None


class Replay(FrozenModel):
    """A match, as its file has it."""

    game: GameRecord
    seed: Annotated[int, Field(ge=0, lt=2**64)]
    seats: Annotated[list[SeatRecord], Field(min_length=SEATS, max_length=SEATS)]
    sampling: Literal["sample", "greedy"]
    winner: Annotated[int, Field(ge=-1, lt=SEATS)]
    end_reason: Text
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS + 1)]
    """Decisions of the acting seat."""
    ticks: Annotated[int, Field(ge=0, lt=2**31)]
    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """sha256 over what the game wrote (`league.play.recording.Tape`)."""

    @property
    def names(self) -> tuple[str, str]:
        """What the agents are called, or the beginnings of their ids."""
        first, second = (seat.name or seat.bot or seat.agent[:12] or f"seat {i}" for i, seat in enumerate(self.seats))
        return first, second

    @property
    def outcome(self) -> str:
        """Who won."""
        return "a draw" if self.winner < 0 else f"won by {self.names[self.winner]}"


@dataclass(frozen=True)
class ReplayMoment:
    """A match as it stands before one of its steps."""

    step: int
    """Counted from 0."""
    batch: MatchBatch
    """Its one row is the match."""
    deciding: BoolArray
    """(S,): whose decision it is; of both kinds of players."""
    actions: npt.NDArray[Any]
    """(S, A): what they decide; what a native bot does is not known and 0."""


@dataclass(frozen=True, repr=False)
class PlaybackResult(Result):
    """What playing a replay back came to."""

    path: str
    game: str
    game_id: str
    agents: tuple[str, str]
    seed: int
    winner: str
    """An agent's name, or `draw`."""
    end_reason: str
    steps: int
    ticks: int
    is_exact: bool
    """Whether every number that the game wrote is the same, bit for bit."""


def parse(data: bytes | str, where: str) -> Replay:
    """The replay in a file's content.

    where: the file, for errors.

    Raises:
        LeagueError: it is damaged, of a newer league, or none.
    """
    try:
        head = json.loads(data)
        if not isinstance(head, dict) or not str(head.get("format", "")).startswith("league replay"):
            raise ValueError("it is no replay")
        if head["format"] != FORMAT:
            told = one_line(str(head["format"]))[:40]
            raise LeagueError(f"{where}: it is a {told}, this league reads {FORMAT}; play the match again")
        if body_hash(head["match"]) != head["sha256"]:
            raise ValueError("its sha256 differs")
        found = Replay.model_validate(head["match"])
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise LeagueError(f"{where}: no replay as `league` writes it ({place}: {first['msg']})") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise LeagueError(
            f"{where}: damaged, or no replay ({reason}); `league watch A B --out FILE.replay` writes one"
        ) from None
    for number, seat in enumerate(found.seats):
        if (seat.bot is None) == (seat.actions is None):
            raise LeagueError(f"{where}: seat {number} needs either actions or a bot of the game; write it again")
    return found


def read(path: str | Path) -> Replay:
    """The replay in a file.

    Raises:
        LeagueError: it cannot be read, is damaged, or none.
    """
    try:
        data = read_file(Path(path), MAX_BYTES)
    except OSError as error:
        raise LeagueError(f"{path}: {error.strerror or error}; give a file that ends in {SUFFIX}") from None
    except ValueError as error:
        raise LeagueError(f"{path}: {error}; give a file that ends in {SUFFIX}") from None
    return parse(data, str(path))


def named(replay: Replay, store: Reader | None) -> Replay:
    """With the names that the store has for those agents of which it tells only the id."""
    if store is None or all(seat.name or seat.bot for seat in replay.seats):
        return replay
    names = {row.agent_id: row.name for row in store.agents(replay.game.game_id)}
    seats = [x if x.name else x.model_copy(update={"name": names.get(x.agent, "")}) for x in replay.seats]
    return replay.model_copy(update={"seats": seats})


@phase("write the replay")
def save(text: str, out: Path) -> None:
    """Writes a replay's text into a new file, whole or not at all.

    Raises:
        UsageError: something is there.
        LeagueError: the disk or the folder refuses.
    """
    check_new(out, "--out")
    with new_file(out, "--out") as draft:
        draft.write_text(text, encoding="utf-8")


def is_replay(path: str | Path) -> bool:
    """Whether a file says of itself that it is a replay; a file that cannot be read does not."""
    try:
        with open_regular(Path(path)) as file:
            return b"".join(file.read(200).split()).startswith(b'{"format":"leaguereplay')
    except OSError:
        return False


class Playback:
    """A replay with its game, ready to be played.

    Args:
        replay: the match.
        where: its file or where else it is from, for errors.
        env: where its game is, if it is to be named again (docs/bring.md).
        say: receives a line if the game has changed.

    Raises:
        UsageError: the game is not here, was never named by this user, or is another version.
        LeagueError: the replay does not fit the game.
    """

    def __init__(self, replay: Replay, where: str, env: object = None, say: Say | None = None) -> None:
        game = replay.game
        find_again(game.name, game.came_from, where, env, say)
        self.replay, self.where = replay, where
        self.options = registry.check_options(game.name, game.options)
        self.spec: GameSpec = registry.spec(game.name, self.options)
        own = registry.game_id(game.name, self.options)
        if own != game.game_id:
            raise UsageError(
                f"{where}: it is of {one_line(game.name)} version {game.version} ({one_line(game.game_id)[:16]}), this"
                f" league's is version {self.spec.version} ({own}); play it with the league that wrote it"
            )
        self.is_exact = False
        """After `moments`: whether all was the same, bit for bit."""
        self._actions = [self._unpacked(seat) for seat in range(SEATS)]

    @property
    def seconds_per_step(self) -> float:
        """Of the game's own time."""
        return self.spec.ticks_per_step / self.spec.tick_rate

    def actions_of(self, seat: int) -> npt.NDArray[Any]:
        """(N, A): what a seat decided, one after the other; empty for a native bot, which keeps it to itself."""
        return self._actions[seat]

    def moments(self) -> Iterator[ReplayMoment]:
        """Plays the match: yields before each step what is decided in it, and at the end compares how it ended.

        Raises:
            CodeError: the game's own code raises something.
            LeagueError: the game plays another match: it ends otherwise, or takes an action of the file for none.
        """
        replay = self.replay
        batch = registry.make(replay.game.name, rows=1, threads=1, options=self.options)
        try:
            batch.controllers[0] = [self._controller(seat) for seat in range(SEATS)]
            batch.reset(np.array([replay.seed], np.uint64))
            yield from self._steps(batch)
        except (ValueError, IndexError) as error:
            own = as_users(error) if users_line(error) else None
            raise own or self._other(" ".join(str(error).split())) from error
        finally:
            if isinstance(batch, Closing):
                batch.close()

    @settings_kept()
    def play(self) -> PlaybackResult:
        """Plays all of it.

        Raises:
            LeagueError: as `moments`.
        """
        for _ in self.moments():
            pass
        replay = self.replay
        return PlaybackResult(
            self.where,
            replay.game.name,
            replay.game.game_id,
            replay.names,
            replay.seed,
            ("draw", *replay.names)[replay.winner + 1],
            replay.end_reason,
            replay.steps,
            replay.ticks,
            self.is_exact,
        )

    def _steps(self, batch: MatchBatch) -> Iterator[ReplayMoment]:
        replay, tape = self.replay, Tape(batch, 0)
        used = [0] * SEATS
        for step in range(replay.steps):
            actions = np.zeros_like(batch.actions[0])
            for seat in np.flatnonzero(tape.deciding).tolist():
                own = self._actions[seat]
                if used[seat] >= len(own):
                    raise self._other(f"seat {seat} has {len(own):,} decisions and needs more")
                actions[seat] = own[used[seat]]
                used[seat] += 1
            is_net = batch.controllers[0] == EXTERNAL
            batch.actions[0, is_net] = actions[is_net]  # what a native bot has played stays
            deciding = batch.to_act[0].copy() if isinstance(batch, Turns) else np.ones(SEATS, np.bool_)
            yield ReplayMoment(step, batch, deciding, actions)
            tape.before()
            batch.step()
            tape.after()
            if (batch.terminated[0] or batch.truncated[0]) != (step + 1 == replay.steps):
                raise self._other(
                    f"it has {replay.steps:,} steps, and {'ends' if step + 1 < replay.steps else 'goes on'}"
                    f" after {step + 1:,}"
                )
        result = batch.result[0]
        reason = "truncated" if batch.truncated[0] else self.spec.end_reasons[int(result["end_reason"])]
        found = int(result["winner"]), reason, int(result["ticks"]), int(result["seed"])
        if found != (replay.winner, replay.end_reason, replay.ticks, replay.seed):
            raise self._other("it ends otherwise")
        self.is_exact = tape.digest == replay.digest

    def _controller(self, seat: int) -> int:
        bot = self.replay.seats[seat].bot
        if bot is None:
            return EXTERNAL
        if bot not in self.spec.bots:
            raise self._other(f"it has no bot {one_line(bot)}")
        return self.spec.bots.index(bot)

    def _unpacked(self, seat: int) -> npt.NDArray[Any]:
        packed = self.replay.seats[seat].actions
        if packed is None:
            return np.zeros((0, self.spec.action.num_parts), self.spec.action.dtype)
        try:
            if packed.count * self.spec.action.num_parts * 4 > MAX_UNPACKED:
                raise ValueError(f"{packed.count:,} decisions are more than can be played back")
            return unpack(packed.data, packed.packed, packed.count, self.spec.action)
        except (ValueError, binascii.Error) as error:
            raise LeagueError(f"{self.where}: seat {seat}'s {error}; copy the file again") from None

    def _other(self, problem: str) -> LeagueError:
        return LeagueError(
            f"{self.where}: {one_line(self.replay.game.name)} plays another match here ({problem}); the file is"
            f" damaged, or the game has changed without a new version"
        )


def play_back(path: str | Path, *, env: object = None, say: Say | None = None) -> PlaybackResult:
    """Plays the replay in a file back, without its agents.

    Args:
        path: the file.
        env: where its game is, if it is to be named again (docs/bring.md).
        say: receives a line if the game has changed.

    Raises:
        LeagueError: no replay, a damaged one, or the game plays another match.
        UsageError: as `Playback`.
    """
    return Playback(read(path), str(path), env, say).play()
