"""A match as one self-contained page: a player in the browser that needs no network and evaluates no text as code."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from league.arena.frames import Course, chances_of, marks_of, rows_of
from league.arena.raster import Picture
from league.arena.replays import Replay
from league.arena.templates import PLAYER, filled, packed
from league.envs import registry
from league.envs.drawing import HUD_SIZE, Drawing, colour_text, to_json
from league.errors import UsageError, one_line
from league.runtime.phases import phase
from league.store.files import new_file
from league.types import SEATS

MOST_ROWS = 24
"""Rows of a strip of actions; of a game with more choices those that were likeliest are shown."""
MAX_BYTES = 40 * 2**20
"""Of a page; pictures of a match of some minutes may reach it, shapes have one or two."""
WIDEST = 640
"""Pixels of pictures in a page."""


def document(replay: Replay, course: Course, *, boxes: bool = False) -> dict[str, Any]:
    """What the player needs to know of a match, as JSON."""
    names = [one_line(name) for name in replay.names]
    reason = one_line(replay.end_reason).replace("_", " ")
    ending = f"a draw ({reason})" if replay.winner < 0 else f"{names[replay.winner]} wins ({reason})"
    about = f"{one_line(replay.game.name)}, seed {replay.seed}, {ending}, {replay.ticks:,} ticks"
    labels = rows_of(course.spec.action, registry.action_names(replay.game.name, replay.game.options))
    return {
        "about": about,
        "ending": ending,
        "dt": course.seconds,
        "steps": len(course.frames),
        "boxes": boxes,
        "inTurns": course.in_turns,
        "frames": frames(course),
        "seats": [_seat(replay, course, seat, names[seat], labels) for seat in range(SEATS)],
    }


@phase("write the film")
def save(found: dict[str, Any], title: str, out: Path) -> None:
    """Writes the page of a document into a new file, whole or not at all.

    Raises:
        UsageError: something is there, or the page would be too large.
        LeagueError: the disk or the folder refuses.
    """
    text = page(found, title)
    if len(text) > MAX_BYTES:
        raise UsageError(
            f"{out}: the page would have {len(text) / 2**20:.0f} MiB, more than {MAX_BYTES / 2**20:.0f}; pass --seconds"
            f" for less of the match, or --out FILE.mp4"
        )
    with new_file(out, "--out") as draft:
        draft.write_text(text, encoding="utf-8")


def page(found: dict[str, Any], title: str) -> str:
    """The whole page of a document.

    Its content policy allows the one script and the one style that are in it, by their hashes, and images of its own.
    """
    return filled("player.html", PLAYER, "player.css", title=title, data=packed(found))


def frames(course: Course) -> dict[str, Any]:
    """The frames of a course as a page has them: shapes, pictures or words."""
    first = course.frames[0]
    if isinstance(first, Drawing):
        drawings = [frame for frame in course.frames if isinstance(frame, Drawing)]
        return {"kind": "shapes", **shapes(drawings)}
    if isinstance(first, str):
        return {"kind": "words", "list": course.frames, "aspect": 16 / 9, "hasBoxes": False}
    pictures = [frame for frame in course.frames if not isinstance(frame, Drawing | str)]
    aspect = first.shape[1] / first.shape[0]
    return {"kind": "pictures", "list": [_image(x) for x in pictures], "aspect": aspect, "hasBoxes": False}


def shapes(drawings: list[Drawing]) -> dict[str, Any]:
    """Drawings as a table of all different shapes, and of each drawing its view and its shapes' numbers in it."""
    numbers: dict[str, int] = {}
    table: list[Any] = []
    listed = []
    for drawing in drawings:
        own = []
        for shape in drawing.shapes:
            plain = to_json(shape)
            key = json.dumps(plain)
            if key not in numbers:
                numbers[key] = len(table)
                table.append(plain)
            own.append(numbers[key])
        listed.append([[round(x, 3) for x in drawing.view], own])
    aspect = HUD_SIZE[0] / HUD_SIZE[1]
    background = colour_text(drawings[0].background)
    has_boxes = any(plain[2] & 2 for plain in table)
    return {"table": table, "list": listed, "aspect": aspect, "background": background, "hasBoxes": has_boxes}


def _image(picture: Picture) -> str:
    from PIL import Image

    image = Image.fromarray(picture)
    if image.width > WIDEST:
        image = image.resize((WIDEST, max(1, round(image.height * WIDEST / image.width))))
    data = io.BytesIO()
    image.save(data, "WEBP", quality=80)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"


def _seat(replay: Replay, course: Course, seat: int, name: str, labels: list[str]) -> dict[str, Any]:
    action = course.spec.action
    insights = [both[seat] for both in course.insights]
    chances = [None if x is None else chances_of(action, x) for x in insights]
    given = [both[seat] for both in course.played]
    played = [None if x is None else marks_of(action, x) for x in given]
    chosen = _shown_rows(chances, played, len(labels))
    note = ""
    if replay.seats[seat].bot is not None:
        note = "a bot of the game" + (
            "" if any(x is not None for x in played) else ", which keeps its actions to itself"
        )
    elif not any(insights):
        note = "only what it played is known here"
    return {
        "name": name,
        "note": note,
        "labels": [labels[i] for i in chosen],
        "chances": [None if x is None else [round(100 * x[i]) for i in chosen] for x in chances],
        "played": [None if x is None else [round(x[i], 2) for i in chosen] for x in played],
        "values": [None if x is None else round(x.value, 3) for x in insights],
        "attention": [None if x is None else [round(100 * share, 1) for share in x.attention] for x in insights],
    }


def _shown_rows(chances: list[list[float] | None], played: list[list[float] | None], count: int) -> list[int]:
    """The rows of a strip: all, or those that were played and likely most."""
    if count <= MOST_ROWS:
        return list(range(count))
    known = [np.array(x) for x in (*chances, *played) if x is not None]
    weight = np.sum(known, 0) if known else np.zeros(count)
    return sorted(np.argsort(-weight, kind="stable")[:MOST_ROWS].tolist())
