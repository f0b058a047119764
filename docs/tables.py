"""Writes the tables of the games' pages from the code: `python docs/tables.py`; `--check` says whether they agree."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel

from league.envs.brawl import env as brawl
from league.envs.brawl.env import FIELDS
from league.envs.brawl.moves import NAMES, STRIKES
from league.envs.brawl.styles import RANGES, STANDARD
from league.envs.cards import catalogue, layout
from league.envs.cards import env as cards
from league.envs.cards.words import card_rows

HERE = Path(__file__).parent


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    cells = [list(head), ["---"] * len(list(head)), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def meanings(texts: Mapping[str, str]) -> str:
    """The names of one kind with what they mean."""
    return table(("name", "meaning"), ((f"`{name}`", text) for name, text in texts.items()))


def observation() -> str:
    """The 32 floats of one half."""
    head = ("index", "name", "meaning", "1.0 is", "range")
    return table(
        head, ((i, f"`{name}`", *texts, f"[{low}, {high}]") for i, (name, *texts, (low, high)) in enumerate(FIELDS))
    )


def moves() -> str:
    """Every strike with its ticks, damage and follow-ups."""
    head = ("strike", "startup, active, recovery", "damage", "knockback fresh, at 100", "reach", "then")
    rows = []
    for name, s in zip(NAMES, STRIKES, strict=True):
        follow = {"hit": s.on_hit, "miss": s.on_miss, "landing": s.on_land}
        then = ", ".join(f"on {event}: {NAMES[i].partition('.')[2]}" for event, i in follow.items() if i >= 0)
        fresh, worn = (s.knockback + s.growth * (damage + s.damage) / 100 for damage in (0, 100))
        ticks = f"{s.startup}, {s.active}, {s.recovery}"
        far = s.offset_x + s.half_width
        rows.append((f"`{name}`", ticks, f"{s.damage:g}", f"{fresh:.1f}, {worn:.1f}", f"{far:.1f}", then or "-"))
    return table(head, rows)


def styles() -> str:
    """The numbers of a bot's style."""
    head = ("number", "meaning", "standard", "training", "held out")
    rows = []
    for name, r in RANGES.items():
        bounds = ((r.low, r.high), (r.far_low, r.far_high))
        near, far = (f"{low:g} to {high:g}" for low, high in bounds)
        rows.append((f"`{name}`", r.meaning, f"{getattr(STANDARD, name):g}", near, far))
    return table(head, rows)


def options(model: type[BaseModel]) -> str:
    """What a user may change."""
    fields = model.model_fields.items()
    return table(("option", "meaning", "default"), ((f"`env.{k}`", f.description or "", f.default) for k, f in fields))


def parts() -> str:
    """What a seat of the card duel sees."""
    rows = []
    kinds = {part.name: part for part in (*layout.PRIVATE, *layout.PUBLIC)}
    for name, (start, stop) in layout.PARTS.items():
        if not name.startswith("other_"):
            part = kinds[name.removeprefix("own_")]
            rows.append((f"{start} to {stop - 1}", f"`{name}`", part.kind, part.meaning))
    start, stop = layout.OPPONENT_SLICE
    rows.append((f"{start} to {stop - 1}", "`other_board`, ...", "", "the same parts as from `own_board` on"))
    return table(("index", "part", "kind", "meaning"), rows)


PAGES: dict[str, dict[str, Callable[[], str]]] = {
    "brawl.md": {
        "keys": lambda: meanings(brawl.MEANINGS["keys"]),
        "observation": observation,
        "reward terms": lambda: meanings(brawl.MEANINGS["reward terms"]),
        "metrics": lambda: meanings(brawl.MEANINGS["metrics"]),
        "bots": lambda: meanings(brawl.MEANINGS["bots"]),
        "styles": styles,
        "moves": moves,
        "options": lambda: options(brawl.Options),
    },
    "cards.md": {
        "types": lambda: meanings(cards.MEANINGS["types"]),
        "action parts": lambda: meanings(cards.MEANINGS["action parts"]),
        "keywords": lambda: meanings(catalogue.KEYWORDS),
        "effects": lambda: meanings({k: text for k, text in catalogue.EFFECTS.items() if k != "none"}),
        "cards": lambda: table(("id", "card", "cost", "power / health", "what it does"), card_rows()),
        "observation": parts,
        "reward terms": lambda: meanings(cards.MEANINGS["reward terms"]),
        "metrics": lambda: meanings(cards.MEANINGS["metrics"]),
        "bots": lambda: meanings(cards.MEANINGS["bots"]),
        "options": lambda: options(cards.Options),
    },
}
"""Page -> what writes each of its tables."""


def filled(name: str, page: str) -> str:
    """The page with every table between `<!-- NAME -->` and `<!-- end -->` written again."""
    for kind, write in PAGES[name].items():
        page, found = re.subn(
            rf"(<!-- {kind} -->\n).*?(<!-- end -->)", lambda m, text=write(): f"{m[1]}{text}\n{m[2]}", page, flags=re.S
        )
        if found != 1:
            raise SystemExit(f"{name}: <!-- {kind} --> must stand there once, found {found}")
    return page


if __name__ == "__main__":
    for name in PAGES:
        text = (HERE / name).read_text(encoding="utf-8")
        if "--check" not in sys.argv:
            (HERE / name).write_text(filled(name, text), encoding="utf-8")
        elif filled(name, text) != text:
            raise SystemExit(f"docs/{name} differs from the code; run `python docs/tables.py`")
