"""Where demonstrations come from: agents that play now, replays, and columns of a user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from league.arena import replays
from league.arena.agents import Meeting, play_pairings
from league.arena.replays import Playback, Replay
from league.envs import registry
from league.errors import LeagueError, UsageError, one_line, shown
from league.play.demonstrations import DecisionRecorder, Demonstration, Moment, demonstration_of
from league.snapshots.manifest import GameRecord
from league.store.segments import read_columns
from league.store.store import Store
from league.types import SEATS, Closing, GameSpec

REPLAYS = "replays"
"""The matches that the store keeps whole; `replays:NAME`: what the agent, run or person NAME decided in them."""
PARQUET = ".parquet"
COLUMNS = ("match", "seat", "step", "obs", "action")
"""What a user's columns must have; in a game with masks `mask`, too."""


def played(meeting: Meeting, games: int, seed: int) -> list[Demonstration]:
    """What agents decide in `games` matches of each two of them, and of each with itself, that are played now.

    games: an even number.

    Raises:
        UsageError: the game does not write what its own bots play.
        SnapshotError: a network plays what is not legal.
    """
    pairs = list(combinations_with_replacement(range(len(meeting.sides)), SEATS))
    seeds = (np.random.SeedSequence([seed, 2]).generate_state(len(pairs), np.uint64) >> np.uint64(1)).tolist()
    pairings = [(a, b, games, own) for (a, b), own in zip(pairs, seeds, strict=True)]
    decisions = DecisionRecorder()
    play_pairings(meeting, pairings, run="imitate", update=0, greedy=False, decisions=decisions)
    return decisions.found


def kept(store: Store, game: GameRecord, name: str, say: Callable[[str], None] | None) -> Iterator[Demonstration]:
    """What was decided in the matches of a game that a store keeps whole.

    name: of an agent, of a run, of whose snapshots it is, or of a person; empty: everybody's.

    Raises:
        LeagueError: a replay is damaged, or plays another match.
    """
    for row in store.replays(game_id=game.game_id):
        where = f"the match {row.run} {row.update}.{row.row}.{row.ordinal}"
        replay = replays.named(replays.parse(row.content, where), store)
        seats = [i for i, seat in enumerate(replay.seats) if not name or name in _names(replay, i)]
        if seats:
            yield from decisions_of(Playback(replay, where, say=say), where, seats)
            say = None  # the game's change is said once


def _names(replay: Replay, seat: int) -> tuple[str, ...]:
    """What may stand for who sat in a seat."""
    name = replay.names[seat]
    return name, name.partition("@")[0], replay.seats[seat].agent


def of_file(path: str, game: GameRecord) -> list[Demonstration]:
    """What was decided in a replay's file, by both seats.

    Raises:
        LeagueError: it is none, damaged, or plays another match.
        UsageError: it is of another game.
    """
    replay = replays.read(path)
    if replay.game.game_id != game.game_id:
        raise UsageError(
            f"{path}: it is of {one_line(replay.game.name)} {one_line(replay.game.game_id)[:8]}, and the clone plays"
            f" {game.name} {game.game_id[:8]}; give that game, with its options as --set env.OPTION=VALUE"
        )
    return decisions_of(Playback(replay, path), path)


def decisions_of(playback: Playback, match: str, seats: Sequence[int] = range(SEATS)) -> list[Demonstration]:
    """What seats saw and decided in a replay, which is played back.

    Raises:
        UsageError: the game does not write what its own bot plays.
        LeagueError: it plays another match.
    """
    recorder, batch = DecisionRecorder(), None
    for moment in playback.moments():
        if batch is not None:
            recorder.after(batch, [0])
        batch = moment.batch
        recorder.before(batch, [0])
    assert batch is not None, "a match has a step"
    recorder.after(batch, [0])
    recorder.finish(0, match, playback.replay.seed, seats)
    if not playback.is_exact:
        raise LeagueError(f"{playback.where}: {playback.spec.name} plays another match here; record it again")
    return recorder.found


def of_columns(
    columns: Mapping[str, Any] | str | Path, spec: GameSpec, game: GameRecord, where: str
) -> list[Demonstration]:
    """What columns say, or a Parquet file of them: a row for each decision of a seat, in any order.

    `match` names the match, `seat` is 0 or 1, `step` orders the rows of both; `obs` has obs_size numbers, `action` A
    and `mask` M, as of a `league.types.MatchBatch`. An empty `action` is a moment in which the seat looked on.

    Raises:
        UsageError: a column is missing or of another shape, or a row cannot be one of this game.
    """
    table = columns if isinstance(columns, Mapping) else read_columns(Path(columns))
    batch = registry.make(game.name, rows=1, threads=1, options=game.options)
    needs = COLUMNS if batch.mask is None else (*COLUMNS, "mask")
    if isinstance(batch, Closing):
        batch.close()
    if missing := [name for name in needs if name not in table]:
        raise UsageError(
            f"{where}: it has no column {missing[0]} (but {', '.join(map(str, table)) or 'none'}); demonstrations of"
            f" {game.name} have {', '.join(needs)}"
        )
    size = len(table["match"])
    if odd := [name for name in needs if len(table[name]) != size]:
        raise UsageError(f"{where}: column {odd[0]} has {len(table[odd[0]])} rows, and match {size}; make them equal")
    return _read(GivenColumns(table, where), spec, "mask" in needs)


class GivenColumns:
    """The columns of a user's demonstrations, read strictly.

    Args:
        table: name -> a value for each row.
        where: the file, for errors.
    """

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self.table, self._where = table, where

    def wide(self, name: str, width: int, rows: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """(rows, width) of a column of lists.

        Raises:
            UsageError: a row is longer or shorter, or holds what is no such number.
        """
        out, column = np.empty((len(rows), width), dtype), self.table[name]
        for i, row in enumerate(rows):
            try:
                given = np.asarray(column[row], np.float64).reshape(-1)
            except (TypeError, ValueError):
                given = np.full(width, np.nan)
            if len(given) != width:
                raise self.refused(name, row, f"has {len(given)} numbers, and this game's has {width}")
            with np.errstate(invalid="ignore", over="ignore"):
                out[i] = given
                wanted = given.astype(np.float32) if out.dtype == np.float32 else given
                if not (np.isfinite(wanted) & (out[i] == wanted)).all():
                    raise self.refused(name, row, f"is {shown(column[row])}, no {width} numbers of {out.dtype}")
        return out

    def whole(self, name: str, row: int) -> int:
        """A whole number.

        Raises:
            UsageError: it is none.
        """
        value = self.table[name][row]
        try:
            if int(value) == value:
                return int(value)
        except (TypeError, ValueError, OverflowError):
            pass
        raise self.refused(name, row, f"is {shown(value)}, no whole number")

    def refused(self, name: str, row: int, problem: str) -> UsageError:
        """What is wrong with a column in a row."""
        return UsageError(f"{self._where}: column {name}, row {row}, {problem}; write the demonstrations again")


def _read(columns: GivenColumns, spec: GameSpec, has_mask: bool) -> list[Demonstration]:
    """The demonstrations of columns that are all there."""
    table, action = columns.table, spec.action
    rows = range(len(table["match"]))
    keys = [(str(table["match"][i]), columns.whole("seat", i), columns.whole("step", i)) for i in rows]
    for i in rows:
        if keys[i][1] not in range(SEATS):
            raise columns.refused("seat", i, f"is {keys[i][1]}, and must be 0 or 1")
    order = sorted(rows, key=keys.__getitem__)
    for i, following in pairwise(order):
        if keys[i] == keys[following]:
            raise columns.refused("step", following, f"is that of row {i}, of the same match and seat")
    decides = np.array([not _is_empty(table["action"][i]) for i in order], np.bool_)
    acting = [i for i, own in zip(order, decides, strict=True) if own]
    obs = columns.wide("obs", spec.obs_size, order, np.float32)
    actions = np.zeros((len(order), action.num_parts), action.dtype)
    actions[decides] = columns.wide("action", action.num_parts, acting, action.dtype)
    mask = np.zeros((len(order), action.mask_size), action.mask_dtype) if has_mask else None
    if mask is not None:
        mask[decides] = columns.wide("mask", action.mask_size, acting, action.mask_dtype)
    for place in np.flatnonzero(decides).tolist():
        own = None if mask is None else mask[place]
        if problem := "" if own is None else action.mask_problem(own):
            raise columns.refused("mask", order[place], f"cannot be: {problem}")
        if not action.is_legal(actions[place], own):
            raise columns.refused("action", order[place], f"is {actions[place].tolist()}, which is not legal there")
    found: list[Demonstration] = []
    for (match, _), group in groupby(range(len(order)), lambda place: keys[order[place]][:2]):
        places = list(group)
        moments = [Moment(obs[p], bool(decides[p]), None if mask is None else mask[p], actions[p]) for p in places]
        found += demonstration_of(match, match, moments)
    return found


def _is_empty(value: Any) -> bool:
    """Whether a row has no action."""
    return value is None or value is np.ma.masked or len(np.atleast_1d(value)) == 0
