"""Watching a match: it is played once, or read from a replay's file, then played back and drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from league.arena import film, replays
from league.arena.agents import check_seed, find_agent, meet, store_for
from league.arena.bouts import Bout, play_out
from league.arena.parts import enter as enter_parts
from league.arena.replays import Playback
from league.errors import DEFAULT_STORE, UsageError


@dataclass(frozen=True)
class Film:
    """A match that was drawn; A plays seat 0. `winner` is a label or `draw`."""

    path: str
    a: str
    b: str
    seed: int
    pictures: int
    seconds: float
    """How far into the match the film goes, or when a still is of."""
    match_seconds: float
    """Of the whole match, which is played to its end in any case."""
    winner: str


def watch(
    a: str,
    against: str | None = None,
    out: str | Path | None = None,
    *,
    seconds: float | None = None,
    boxes: bool = False,
    seed: int = 0,
    greedy: bool = False,
    kept: bool = False,
    env: object = None,
    bots: object = None,
    policy: object = None,
    device: str = "auto",
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Film:
    """Plays a match of A (seat 0) against B, or plays a replay back, and draws it; nothing is kept in the store.

    Args:
        a, against, greedy, env, bots, policy, device, store, say: as for `evaluate`; here both may be the same agent.
            Without `against`, A is a replay's file.
        out: a new file: .replay for the match itself, .gif for a film, .png for its last picture.
        seconds: how much of the match is drawn, from its beginning, at most 300; None: all of it, or the first 300.
        boxes: draw also where fighters can be hit and where blows hit.
        seed: of the match and of the actions drawn.
        kept: the newest match of the two that the store keeps, instead of a new one.

    Raises:
        UsageError: as `evaluate`, a game that cannot be drawn, a file that cannot be written, or no Pillow.
        LeagueError: what should be a replay is none.
        StoreError, SnapshotError: as `evaluate`.
    """
    path = Path(out) if out is not None else None
    if path is not None:
        film.check(path, seconds)
    check_seed(seed)
    if against is None:
        text = Path(a).read_text(encoding="utf-8") if replays.is_replay(a) else ""
        playback = Playback(replays.read(a), a, env, say)
    elif kept:
        text, playback = _kept(a, against, store, env, say)
    else:
        given = enter_parts(bots, policy=policy, say=say)
        meeting = meet(store_for(store, a, against, say=say), a, against, env, device, say, given)
        if path is not None and path.suffix != replays.SUFFIX:
            film.need_drawing(meeting.game.name)
        if say is not None:
            say(f"playing {meeting.sides[0].label} against {meeting.sides[1].label}")
        text = play_out(Bout(meeting, meeting.sides, seed, greedy=greedy)).replay
        playback = Playback(replays.parse(text, "the match"), "the match")
    replay = playback.replay
    whole = replay.steps * playback.seconds_per_step
    shown = seed if against is not None and not kept else replay.seed
    winner = ("draw", *replay.names)[replay.winner + 1]
    if path is not None and path.suffix == replays.SUFFIX:
        replays.save(text, path)
        return Film(str(path), *replay.names, shown, 0, whole, whole, winner)
    assert path is not None
    draw = film.need_drawing(replay.game.name)
    most = max(1, round((film.MAX_SECONDS if seconds is None else seconds) / playback.seconds_per_step))
    shot = film.shoot(
        playback,
        partial(draw, size=film.SIZES[path.suffix], show_boxes=boxes, names=replay.names),
        most,
        is_still=path.suffix == ".png",
    )
    film.save(shot.pictures, path, playback.seconds_per_step)
    times = shot.drawn_steps * playback.seconds_per_step, whole
    return Film(str(path), *replay.names, shown, len(shot.pictures), *times, winner)


def _kept(a: str, b: str, store: str | Path, env: object, say: Callable[[str], None] | None) -> tuple[str, Playback]:
    """The newest match of two agents that the store keeps.

    Raises:
        UsageError: it keeps none.
    """
    opened = store_for(store, a, b, say=say)
    ids = [find_agent(opened, name).agent_id for name in (a, b)]
    rows = [] if opened is None else opened.replays(agents=(ids[0], ids[1]), last=1)
    if not rows:
        raise UsageError(f"{a} and {b}: {store} keeps no match of the two; leave --kept out, which plays one")
    where = f"the match of {rows[0].run} in {store}"
    return rows[0].content, Playback(replays.parse(rows[0].content, where), where, env, say)
