"""Watching a match: it is played once, or read from a replay's file, then played back and drawn."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from league.arena import film, pages, replays, terminal
from league.arena.agents import Meeting, Where, check_seed, find_agent
from league.arena.bouts import Bout, play_out
from league.arena.frames import Course, Insights, course_of, insights_of
from league.arena.replays import Playback, Replay
from league.errors import DEFAULT_STORE, UsageError, unused
from league.runtime.process import settings_kept
from league.store.store import Store
from league.types import SEATS
from league.types.results import Result

MOST_SHOWN = 2**25
"""Bytes of a file that a notebook shows."""
_MEDIA = {".html": "text/html", ".png": "image/png", ".gif": "image/gif", ".mp4": "video/mp4"}


@dataclass(frozen=True, repr=False)
class Film(Result):
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
    start: float = 0.0
    """Where in the match it begins."""

    def _repr_html_(self) -> str:
        """The match itself where a browser shows such a file, in a frame that reaches nothing of the notebook."""
        path = Path(self.path)
        kind = _MEDIA.get(path.suffix, "")
        if not kind or not path.is_file() or path.stat().st_size > MOST_SHOWN:
            return super()._repr_html_()
        if kind == "text/html":
            page = html.escape(path.read_text(encoding="utf-8"))
            return (
                f'<iframe sandbox="allow-scripts" srcdoc="{page}" width="100%" height="640" frameborder="0"></iframe>'
            )
        data = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
        return f'<video controls src="{data}"></video>' if kind == "video/mp4" else f'<img src="{data}">'


@settings_kept()
def watch(
    a: str,
    against: str | None = None,
    out: str | Path | None = None,
    *,
    seconds: float | None = None,
    start: float = 0.0,
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
        out: None: the terminal. A new file: .html for a player in the browser, .mp4 or .gif for a film, .png for its
            last picture, .replay for the match itself.
        seconds: how much of the match is drawn, at most 300; None: all of it, of a film the first 300.
        start: seconds of the match that are left out before that.
        boxes: draw also where fighters can be hit and where blows hit.
        seed: of the match and of the actions drawn.
        kept: the newest match of the two that the store keeps, instead of a new one.

    Raises:
        UsageError: as `evaluate`, a game that cannot be drawn, or a file that cannot be written.
        LeagueError: what should be a replay is none.
        StoreError, SnapshotError: as `evaluate`.
    """
    path = Path(out) if out is not None else None
    if against is None or kept:
        unused("the match was played before", seed=seed, greedy=greedy, kept=against is None and kept)
    if path is not None and path.suffix == replays.SUFFIX:
        unused(f"a {replays.SUFFIX} holds the whole match", start=start, seconds=seconds, boxes=boxes)
    where = Where(env, bots, policy, device, store, say)
    _need_there(a, against, where)
    if path is None:
        terminal.check()
    else:
        film.check(path, seconds, start)
    check_seed(seed)
    match = _found(a, against, where, seed, greedy=greedy, kept=kept)
    replay, dt = match.playback.replay, match.playback.seconds_per_step
    whole, skipped = replay.steps * dt, round(start / dt)
    if skipped >= replay.steps:
        raise UsageError(f"start={start:g}: the match has {whole:.1f} seconds; pass an earlier --start")
    shown = seed if against is not None and not kept else replay.seed
    winner = ("draw", *replay.names)[replay.winner + 1]
    if path is not None and path.suffix == replays.SUFFIX:
        replays.save(match.text, path)
        return Film(str(path), *replay.names, shown, 0, whole, whole, winner)
    is_film = path is not None and path.suffix != ".html"
    limit = film.MAX_SECONDS if seconds is None and is_film else seconds
    course = _course(match, path, None if limit is None else skipped + max(1, round(limit / dt)), boxes)
    course.skip(skipped)
    end = (skipped + len(course.frames)) * dt
    frames = _show(replay, course, path, boxes)
    return Film("" if path is None else str(path), *replay.names, shown, frames, end, whole, winner, skipped * dt)


def _course(match: WatchedMatch, path: Path | None, most: int | None, boxes: bool) -> Course:
    """The first `most` moments of a match, with what its nets made of them where a page shows it."""
    if path is None:
        return course_of(match.playback, None, most)
    size, names = film.SIZES.get(path.suffix, film.SIZES[".gif"]), match.playback.replay.names
    how = {"size": size, "show_boxes": boxes, "names": names}
    return course_of(match.playback, match.insights() if path.suffix == ".html" else None, most, how)


def _show(replay: Replay, course: Course, path: Path | None, boxes: bool) -> int:
    """Draws a match in the terminal, or as a page, a film or its last picture in a file; returns how many pictures."""
    if path is None:
        terminal.play(replay, course, boxes=boxes)
        return len(course.frames)
    if path.suffix == ".html":
        title = f"{replay.names[0]} against {replay.names[1]}"
        pages.save(pages.document(replay, course, boxes=boxes), title, path)
        return len(course.frames)
    if path.suffix == ".png":
        course.frames = course.frames[-1:]
    strip = film.Strip(course, film.SIZES[path.suffix], boxes=boxes, names=replay.names)
    pictures = [strip[0]] if path.suffix == ".png" else strip
    film.save(pictures, path, strip.seconds)
    return len(pictures)


@dataclass(frozen=True)
class WatchedMatch:
    """A match that is watched: the text of its replay, which can be played back, and where its nets are."""

    text: str
    playback: Playback
    meeting: Meeting | None = None
    """The agents that played it, where it was played now."""
    store: Store | None = None

    def insights(self) -> Insights:
        """What shows what its nets think."""
        if self.meeting is None:
            return insights_of(self.playback.replay, self.store)
        known = [(seat, self.meeting.nets.get(x.agent_id)) for seat, x in enumerate(self.meeting.sides[:SEATS])]
        return Insights({seat: (net[1], net[0].return_size) for seat, net in known if net is not None})


def _need_there(a: str, against: str | None, where: Where) -> None:
    """Refuses names of nobody before anything else is looked at.

    Raises:
        UsageError, LeagueError, StoreError, SnapshotError: as `watch`.
    """
    if against is None:
        _read(a)
        return
    opened = where.open(a, against)
    for name in (a, against):
        find_agent(opened, name)


def _found(a: str, against: str | None, where: Where, seed: int, *, greedy: bool, kept: bool) -> WatchedMatch:
    """The match: played now, or one that is kept in a file or in the store.

    Raises:
        UsageError, LeagueError, StoreError, SnapshotError: as `watch`.
    """
    if against is None:
        text, replay = _read(a)
        opened = Store.open(where.store, where.say) if Path(where.store).exists() else None
        return WatchedMatch(text, Playback(replays.named(replay, opened), a, where.env, where.say), None, opened)
    opened = where.open(a, against)
    if kept:
        ids = [find_agent(opened, name).agent_id for name in (a, against)]
        rows = [] if opened is None else opened.replays(agents=(ids[0], ids[1]), last=1)
        if not rows:
            raise UsageError(
                f"{a} and {against}: {where.store} keeps no match of the two; leave --kept out, which plays one"
            )
        place, text = f"the match of {rows[0].run} in {where.store}", rows[0].content
        replay = replays.named(replays.parse(text, place), opened)
        return WatchedMatch(text, Playback(replay, place, where.env, where.say), None, opened)
    meeting = where.gather(opened, a, against)
    if where.say is not None:
        where.say(f"playing {meeting.sides[0].label} against {meeting.sides[1].label}")
    text = play_out(Bout(meeting, meeting.sides, seed, greedy=greedy)).replay
    return WatchedMatch(text, Playback(replays.parse(text, "the match"), "the match"), meeting)


def _read(path: str) -> tuple[str, replays.Replay]:
    """A replay's file, as text and as what it says.

    Raises:
        UsageError: it is an agent's name.
        LeagueError: it is no replay.
    """
    if not path.endswith(replays.SUFFIX) and not Path(path).is_file():
        raise UsageError(f"agent {path!r}: a match has two; name the second one, too, or give a {replays.SUFFIX}")
    replay = replays.read(path)
    return Path(path).read_text(encoding="utf-8"), replay
