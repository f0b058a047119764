"""Evidence, files of what a guard found in a game: written when the run stops, shown again by `league replay`.

It is the state of a whole batch at one moment, of which a match is a row; a replay (`league.arena.replays`) is a match
from its first decision to its last.

One JSON file each, with the sha256 of its content: nothing in it is run, and a damaged one is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, ValidationError

from league.arena import film, raster
from league.arena.games import find_again
from league.arena.replays import PlaybackResult, is_replay, play_back
from league.envs import registry
from league.errors import LeagueError, UsageError, command
from league.play.checks import mask_words, place
from league.runtime.disk import write_atomic
from league.snapshots.manifest import GameRecord
from league.types import EXTERNAL, SEATS, GameSpec, MatchBatch
from league.types.results import Result
from league.types.schema import MAX_ROWS, FrozenModel, Natural, read_file

FORMAT = 1
MAX_BYTES = 256 * 2**20
PICTURE_SECONDS = 1.0

Seat = Annotated[int, Field(ge=0, lt=SEATS)]


class SeenStep(FrozenModel):
    """What both seats of the row saw and did, as the engine had it."""

    obs: list[list[float]]
    mask: list[list[bool]] | list[list[int]] | None
    actions: list[list[int]] | list[list[float]]


class Before(FrozenModel):
    """The batch before the step that led there, or the match's row alone, and the actions (B, S, A) of that step."""

    state: str
    actions: list[list[list[int]]] | list[list[list[float]]]


class Evidence(FrozenModel):
    """All that is known of one finding; states are base64."""

    kind: Literal["strict_masks", "not_finite"]
    what: Literal["obs", "mask", "action", "reward_terms", "final_obs"]
    message: str
    run: str
    game_id: str
    update: Natural
    """The update that the rollout was played for."""
    row: Natural
    ordinal: Natural
    agents: Annotated[list[str], Field(min_length=SEATS, max_length=SEATS)]
    """Seat 0's and seat 1's; empty where the opponent was not drawn yet."""
    seed: Annotated[int, Field(ge=0, lt=2**64)] | None
    """Of the match; None where the game did not tell."""
    step: Natural
    """Decisions made in the match."""
    tick: Natural
    seat: Seat
    index: Natural | None
    rows: Annotated[int, Field(ge=1, le=MAX_ROWS)]
    """Of the batch that the states are of."""
    batch_row: Natural
    """The match's row in it."""
    seen: SeenStep
    reward_terms: list[list[float]] | None
    state: str
    before: Before | None
    game: GameRecord


@dataclass(frozen=True, repr=False)
class ReplayedFailure(Result):
    """What a finding looks like when it is rebuilt from its file."""

    path: str
    message: str
    run: str
    update: int
    row: int
    ordinal: int
    agents: tuple[str, str]
    seed: int | None
    step: int
    tick: int
    seat: int
    differences: tuple[str, ...]
    """What the engine saw in this match and what the state says, where they differ, in words."""
    illegal: tuple[str, ...]
    """Actions that the rebuilt mask forbids, in words."""
    stepped: bool | None
    """Whether making the step before once more leads to what was seen; None where it was not kept."""
    happens_again: bool
    """Whether this league's game still does it; of an action, whether it is still illegal."""


def write_evidence(folder: Path, evidence: Mapping[str, Any], game: GameRecord) -> str:
    """Writes a finding into `folder`, safe on disk when this returns, and says in words how to see it.

    evidence: the fields of `Evidence` but for the game, states as bytes.
    """
    before = evidence["before"]
    plain = {
        **evidence,
        "state": _text(evidence["state"]),
        "before": None if before is None else {**before, "state": _text(before["state"])},
        "game": game.model_dump(mode="json"),
    }
    path = folder / f"{evidence['kind']}-{evidence['update']:06d}-{evidence['row']:05d}.json"
    head = {"format": FORMAT, "sha256": _digest(plain), "evidence": plain}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(head).encode())
    except OSError as error:
        return f"its state could not be written to {path} ({error.strerror or error})"
    return f"{command('replay', path)} shows it"


def read_evidence(path: str | Path) -> Evidence:
    """What `write_evidence` wrote.

    Raises:
        LeagueError: the file is missing, too large, damaged or something else.
    """
    path = Path(path)
    try:
        head = json.loads(read_file(path, MAX_BYTES))
        if head["format"] != FORMAT:
            raise ValueError(f"format {head['format']!r}, not {FORMAT}")
        if _digest(head["evidence"]) != head["sha256"]:
            raise ValueError("its sha256 differs")
        return Evidence.model_validate(head["evidence"])
    except OSError as error:
        raise LeagueError(f"{path}: {error.strerror or error}; give a file of RUN/failures") from None
    except ValidationError as errors:
        first = errors.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise LeagueError(f"{path}: no such file as `league` writes ({where}: {first['msg']})") from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise LeagueError(f"{path}: damaged, or no file of RUN/failures ({reason}); copy it again") from None


def replay(
    path: str | Path,
    out: str | Path | None = None,
    *,
    env: object = None,
    say: Callable[[str], None] | None = None,
) -> ReplayedFailure | PlaybackResult:
    """Plays a replay back, or rebuilds the batch of a finding from its file and looks at it again.

    Args:
        path: a replay, or a file of a run's folder `failures`.
        env: where its game is, if it is to be named again (docs/bring.md).
        say: receives a line if the game has changed.
        out: of a finding, a new file for pictures, if the game draws: a .png of the state, or a .gif of it and the
            step before. `league.watch` draws replays.

    Raises:
        LeagueError: the file is missing or damaged, or its states do not fit the game.
        UsageError: the game is not this league's, cannot be drawn, or the picture cannot be written.
    """
    if is_replay(path):
        if out is not None:
            named = Path(out) if Path(out).name else Path("match")
            film = named if named.suffix in (".html", ".mp4", ".gif", ".png") else named.with_suffix(".html")
            raise UsageError(f"out={out}: a whole match is drawn by {command('watch', path, '--out', film)}")
        return play_back(path, env=env, say=say)
    return find(path, out, env=env, say=say)


def find(
    path: str | Path,
    out: str | Path | None = None,
    *,
    env: object = None,
    say: Callable[[str], None] | None = None,
) -> ReplayedFailure:
    """Rebuilds the batch of a finding from its file, and looks at it again; as `replay` for such a file."""
    found = read_evidence(path)
    game = found.game
    find_again(game.name, game.came_from, str(path), env, say)
    options = registry.check_options(game.name, game.options)
    spec = registry.spec(game.name, options)
    if registry.game_id(game.name, options) != game.game_id:
        raise UsageError(
            f"{path}: it is of {game.name} version {game.version}, this league's is version {spec.version}; replay it"
            f" with the league that wrote it"
        )
    if found.batch_row >= found.rows or found.rows > len(found.state):
        raise LeagueError(f"{path}: its state cannot have {found.rows:,} rows, nor a row {found.batch_row:,}")
    if out is not None:
        film.check(Path(out), PICTURE_SECONDS)
        if Path(out).suffix not in (".png", ".gif"):
            raise UsageError(f"out={out}: of evidence a .png or a .gif is drawn; pass another --out")
    batch = registry.make(game.name, rows=found.rows, threads=1, options=options)
    draw = raster.renderer(game.name)
    if out is not None and draw is None:
        raise UsageError(f"{game.name} cannot be drawn; leave --out away")
    pictures = []
    try:
        stepped: bool | None = None
        recurs = False
        if found.before is not None:
            earlier, row = batch, found.batch_row
            if len(found.before.actions) == 1:
                earlier, row = registry.make(game.name, rows=1, threads=1, options=options), 0
            stepped, recurs = _step_again(earlier, row, found, found.before)
            if draw is not None and out is not None:
                earlier.set_state(_bytes(found.before.state))
                pictures.append(draw(earlier, row, size=film.SIZES[Path(out).suffix]))
        batch.set_state(_bytes(found.state))
        if draw is not None and out is not None:
            pictures.append(draw(batch, found.batch_row, size=film.SIZES[Path(out).suffix]))
        names = registry.action_names(game.name, options)
        differences, illegal = _differences(batch, found, names), _illegal(batch, found)
    except (ValueError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise LeagueError(f"{path}: its states do not fit {game.name} ({reason}); copy it again") from None
    if out is not None:
        film.save(pictures, Path(out), PICTURE_SECONDS)
    is_bad = not np.isfinite(batch.obs[found.batch_row]).all()
    happens_again = bool(illegal) if found.what == "action" else recurs if stepped is not None else is_bad
    return ReplayedFailure(
        str(path),
        found.message,
        found.run,
        found.update,
        found.row,
        found.ordinal,
        (found.agents[0], found.agents[1]),
        found.seed,
        found.step,
        found.tick,
        found.seat,
        differences,
        illegal,
        stepped,
        happens_again,
    )


def _step_again(batch: MatchBatch, row: int, found: Evidence, before: Before) -> tuple[bool, bool]:
    """Makes the step that led to a finding: whether it leads there again, and whether that is wrong again."""
    batch.set_state(_bytes(before.state))
    batch.actions[:] = np.array(before.actions, batch.actions.dtype)
    batch.step()
    obs, terms = batch.obs[row].copy(), batch.reward_terms[row].copy()
    mask = None if batch.mask is None else batch.mask[row].copy()
    is_same = np.array_equal(obs, _seen_obs(found), equal_nan=True) and (
        mask is None or np.array_equal(mask, np.array(found.seen.mask))
    )
    numbers = [obs, terms, batch.final_obs[row]] if batch.truncated[row] else [obs, terms]
    is_wrong = not all(np.isfinite(x).all() for x in numbers)
    batch.set_state(batch.get_state())
    is_stale = not np.array_equal(obs, batch.obs[row]) or (
        mask is not None and batch.mask is not None and not np.array_equal(mask, batch.mask[row])
    )
    low, high = batch.spec.obs_range
    leaves_range = not ((low <= obs) & (obs <= high)).all()
    return is_same, is_wrong if found.kind == "not_finite" else is_stale or bool(leaves_range)


def _differences(batch: MatchBatch, found: Evidence, names: tuple[str, ...]) -> tuple[str, ...]:
    spec, row, lines = batch.spec, found.batch_row, []
    obs = _seen_obs(found)
    for seat, index in np.argwhere(obs != batch.obs[row]).tolist():
        real = batch.obs[row, seat, index]
        lines.append(f"seat {seat}: {place(spec, 'obs', index)} was {obs[seat, index]}, the state says {real}")
    mask = None if found.seen.mask is None else np.array(found.seen.mask)
    for seat in range(SEATS):
        if mask is not None and batch.mask is not None and (mask[seat] != batch.mask[row, seat]).any():
            seen, real = (
                mask_words(spec.action, mask[seat], names),
                mask_words(spec.action, batch.mask[row, seat], names),
            )
            lines.append(f"seat {seat}: the mask allowed {seen}; the state allows {real}")
    return tuple(lines)


def _illegal(batch: MatchBatch, found: Evidence) -> tuple[str, ...]:
    """The row's actions as seen that its rebuilt mask forbids; a native bot's seat is not looked at."""
    if found.what != "action":
        return ()
    row, names = found.batch_row, registry.action_names(found.game.name, found.game.options)
    mask = batch.mask[row] if batch.mask is not None else np.ones((SEATS, batch.spec.action.mask_size), np.bool_)
    allowed = batch.spec.action.is_legal(np.array(found.seen.actions, batch.actions.dtype), mask)
    return tuple(
        f"seat {seat}: action {_action_words(batch.spec, found.seen.actions[seat], names)} where the state allows"
        f" {mask_words(batch.spec.action, mask[seat], names)}"
        for seat in range(SEATS)
        if batch.controllers[row, seat] == EXTERNAL and not allowed[seat]
    )


def _action_words(spec: GameSpec, action: list[int] | list[float], names: tuple[str, ...]) -> str:
    if spec.action.kind == "multi_binary":
        return mask_words(spec.action, np.array(action, np.bool_), names)
    return str(action)


def _seen_obs(found: Evidence) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return np.array(found.seen.obs, np.float32)


def _digest(evidence: Any) -> str:
    return hashlib.sha256(json.dumps(evidence, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _text(state: bytes) -> str:
    return base64.b64encode(state).decode()


def _bytes(state: str) -> bytes:
    try:
        return base64.b64decode(state, validate=True)
    except binascii.Error as error:
        raise ValueError(f"a state is not base64: {error}") from None
