"""Brawl as shapes: the stage, the fighters, their hit boxes, with a camera that follows them."""

from __future__ import annotations

from math import ceil
from typing import Any

from league.envs.brawl import render
from league.envs.brawl.moves import WEAPONS
from league.envs.brawl.render import DIM, INK, PAPER, SEATS, SKY_LOW, SKY_TOP
from league.envs.brawl.rules import KEYS, TICK_RATE, Rules
from league.envs.drawing import HUD_SIZE, Drawing

LEAST_WIDTH, ASIDE, ABOVE = 11.0, 5.5, 4.6
"""The camera shows at least so many units, and so many beside and above the fighters."""
SHAPE = HUD_SIZE[0] / HUD_SIZE[1]


def drawing(record: Any, rules: Rules) -> Drawing:
    """One match (an element of STATE_DTYPE) as it stands."""
    fighters = [render.named(fighter) for fighter in record["fighters"]]
    present = [(seat, f) for seat, f in enumerate(fighters) if f.respawn == 0 and f.stocks > 0]
    seen = Drawing(_view([f for _, f in present], rules), SKY_LOW)
    seen.held = tuple(frozenset(key for i, key in enumerate(KEYS) if f.keys >> i & 1) for f in fighters)
    with seen.within("stage"):
        _stage(seen, rules)
    with seen.within("platform"):
        render.draw_platform(seen, float(record["platform_y"]), rules)
    for number, item in enumerate(map(render.named, record["items"])):
        if item.kind:
            with seen.within(f"item {number} {item.kind}"):
                render.draw_item(seen, item, rules)
    for seat, f in present:
        with seen.within(f"blow {seat} {f.move}"):
            render.draw_blow(seen, f)
    for seat, f in present:
        with seen.within(f"fighter {seat}"):
            render.draw_fighter(seen, f, SEATS[seat], rules)
        with seen.within(f"boxes {seat}", layer="boxes"):
            render.draw_boxes(seen, f, rules)
    with seen.within("hud", is_hud=True):
        for seat, f in enumerate(fighters):
            _panel(seen, seat, f, rules)
        left = ceil(max(0, rules.time_limit - int(record["tick"])) / TICK_RATE)
        seen.text((80.0, 8.0), f"{left // 60}:{left % 60:02}", 7.0, PAPER if left > 10 else render.DANGER)
    return seen


def _view(present: list[Any], rules: Rules) -> tuple[float, float, float, float]:
    """Both fighters with room around them, within the blast zone; the whole stage while nobody is there."""
    low, high = rules.blast_bottom - render.MARGIN, rules.blast_top + render.MARGIN
    side = rules.blast_side + render.MARGIN
    most = min(2 * side, (high - low) * SHAPE)
    if present:
        xs, ys = [f.x for f in present], [f.y + rules.body_half_height for f in present]
        wide = max(LEAST_WIDTH, max(xs) - min(xs) + ASIDE, (max(ys) - min(ys) + ABOVE) * SHAPE)
        x, y = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2 + 0.5
    else:
        wide, x, y = most, 0.0, (low + high) / 2
    wide = min(wide, most)
    half, tall = wide / 2, wide / SHAPE / 2
    x, y = min(max(x, half - side), side - half), min(max(y, low + tall), high - tall)
    return x - half, y + tall, x + half, y - tall


def _stage(seen: Drawing, rules: Rules) -> None:
    """What never moves: sky, grounds, the edges of the blast zone."""
    low, high = (-rules.blast_side, rules.blast_bottom), (rules.blast_side, rules.blast_top)
    for i in range(16):  # the sky, darker above
        share = i / 15
        colour = tuple(round(a * (1 - share) + b * share) for a, b in zip(SKY_TOP, SKY_LOW, strict=True))
        top = high[1] + 2 - i * (high[1] - low[1] + 4) / 16
        seen.box((low[0] - 4, top - (high[1] - low[1] + 4) / 16 - 0.1), (high[0] + 4, top), colour)
    for side in (-1, 1):
        inner = side * (rules.edge_inner + rules.body_half_width)
        outer = side * (rules.edge_outer - rules.body_half_width)
        seen.box(*render.corners((inner, low[1] - 4), (outer, 0.0)), fill=render.STONE)
        seen.box(*render.corners((inner, -0.22), (outer, 0.0)), fill=render.TURF)
    seen.box(low, high, None, (*render.DANGER, 200), 0.08)


def _panel(seen: Drawing, seat: int, f: Any, rules: Rules) -> None:
    """Damage, stocks and weapon of a seat, in its lower corner; who it is stands beside the picture."""
    left = 3.0 if seat == 0 else HUD_SIZE[0] - 33.0
    seen.box((left, 3.0), (left + 30.0, 15.0), (*INK, 190), SEATS[seat], 0.6)
    seen.text((left + 9.0, 9.3), f"{f.damage:.0f}", 8.0, render.damage_colour(f.damage) if f.stocks > 0 else DIM)
    for i in range(rules.stocks):
        middle = left + 20.0 + (i % 4) * 2.4, 6.6 + (i // 4) * 2.4
        seen.oval(middle, (0.9, 0.9), SEATS[seat] if i < f.stocks else INK, SEATS[seat], 0.2)
    told = ""
    if f.stocks > 0 and f.respawn > 0:
        told = f"back in {f.respawn / TICK_RATE:.1f} s"
    elif f.stun > 0:
        told = f"stunned {f.stun / TICK_RATE:.1f} s"
    elif f.weapon:
        told = f"{WEAPONS[f.weapon]} {ceil(f.weapon_left / TICK_RATE)} s"
    seen.text((left + 23.0, 11.8), told, 2.8, render.GLOW if f.stun > 0 else PAPER, 13.0)
