"""Writes the tables of docs/brawl.md from the code: `python docs/tables.py`; `--check` says whether they agree."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from league.envs.brawl.env import FIELDS, MEANINGS, Options
from league.envs.brawl.moves import NAMES, STRIKES

PAGE = Path(__file__).with_name("brawl.md")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    cells = [list(head), ["---"] * len(list(head)), *([str(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


def meanings(of: str) -> str:
    """The names of one kind with what they mean."""
    return table(("name", "meaning"), ((f"`{name}`", text) for name, text in MEANINGS[of].items()))


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


def options() -> str:
    """What a user may change."""
    fields = Options.model_fields.items()
    return table(("option", "meaning", "default"), ((f"`env.{k}`", f.description or "", f.default) for k, f in fields))


TABLES = {
    "keys": lambda: meanings("keys"),
    "observation": observation,
    "reward terms": lambda: meanings("reward terms"),
    "metrics": lambda: meanings("metrics"),
    "bots": lambda: meanings("bots"),
    "moves": moves,
    "options": options,
}


def filled(page: str) -> str:
    """The page with every table between `<!-- NAME -->` and `<!-- end -->` written again."""
    for name, write in TABLES.items():
        page, found = re.subn(
            rf"(<!-- {name} -->\n).*?(<!-- end -->)", lambda m, text=write(): f"{m[1]}{text}\n{m[2]}", page, flags=re.S
        )
        if found != 1:
            raise SystemExit(f"{PAGE.name}: <!-- {name} --> must stand there once, found {found}")
    return page


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    if "--check" not in sys.argv:
        PAGE.write_text(filled(text), encoding="utf-8")
    elif filled(text) != text:
        raise SystemExit("docs/brawl.md differs from the code; run `python docs/tables.py`")
