"""The card duel as shapes: two lighthouses, their creatures, hands and decks."""

from __future__ import annotations

from math import cos, pi, sin
from typing import Any

from league.envs.cards.catalogue import CARDS
from league.envs.cards.rules import OTHER_KEEPER, OTHER_SLOT, OWN_KEEPER, OWN_SLOT, SLOTS, TYPES, CardRules
from league.envs.cards.sketch import sketch
from league.envs.cards.words import decision, keywords_of, name_of
from league.envs.drawing import SEATS, Colour, Drawing

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in units."""
WIDE, HIGH = 160.0, 90.0
"""The picture in units, from the upper left corner."""
BANDS = 30
"""Of colour, from the night to the sea."""
INK, PAPER, DIM = (18, 24, 38), (245, 243, 232), (140, 150, 168)
NIGHT, SEA, SLOT = (20, 28, 52), (28, 70, 98), (255, 255, 255, 18)
FACE, SPELL, GLOW, OIL, POWER, HEALTH, WOUND = (
    (206, 222, 222),
    (222, 208, 232),
    (255, 226, 110),
    (240, 200, 70),
    (214, 96, 40),
    (46, 134, 84),
    (196, 44, 60),
)
ROWS = (48.5, 18.5)
"""Top of the slots of seats 0 and 1: seat 0 plays from below."""
HANDS = (75.0, 2.0)
DECKS = (57.0, 20.0)
SLOT_SIZE, HAND_SIZE = (20.0, 23.0), (12.0, 13.0)


def drawing(record: Any, rules: CardRules, seat: int | None = None) -> Drawing:
    """One match (an element of STATE_DTYPE) as it stands; both hands are open, or that of `seat` alone.

    The layer `boxes` has the next card of each deck, which nobody who plays sees.
    """
    seen = Drawing((0.0, 0.0, WIDE, HIGH), NIGHT)
    with seen.within("table"):
        _table(seen)
    acting = int(record["acting"])
    for owner, keeper in enumerate(record["keepers"]):
        _draw_keeper(seen, owner, keeper, rules, is_acting=acting == owner)
        _draw_deck(seen, owner, keeper)
        if seat is None and keeper["deck_size"]:
            with seen.within("next", layer="boxes"):
                told = f"next: {name_of(int(keeper['deck'][int(keeper['deck_size']) - 1]))}"
                seen.text((145.5, DECKS[owner] + 18.0), told, 2.2, PAPER, most=28.0)
        _draw_hand(seen, owner, keeper, is_acting=acting == owner, is_hidden=seat not in (None, owner))
        for slot, creature in enumerate(keeper["board"]):
            _draw_slot(seen, owner, slot, creature)
    _draw_last(seen, record)
    left = rules.decision_limit - int(record["decisions"])
    seen.text((145.5, 45.0), f"{left} left", 2.6, PAPER if left > 10 else GLOW)
    return seen


def _table(seen: Drawing) -> None:
    """Night above, sea below, waves between, and the empty slots."""
    for i in range(BANDS):
        share, high = i / (BANDS - 1), HIGH / BANDS
        colour = tuple(round(a * (1 - share) + b * share) for a, b in zip(NIGHT, SEA, strict=True))
        low = 2 * HIGH if i == BANDS - 1 else (i + 1) * high + 0.1
        seen.box((-WIDE, i * high if i else -HIGH), (2 * WIDE, low), colour)
    for row in range(3):
        points = [(x, 43.2 + 1.8 * row + 0.5 * sin(x / 4 + 1.7 * row)) for x in range(-40, int(WIDE) + 41, 2)]
        seen.line(points, 0.25, (255, 255, 255, 40))
    for seat in (0, 1):
        for slot in range(SLOTS):
            _box(seen, slot_box(seat, slot), SLOT, (255, 255, 255, 50))


def _box(seen: Drawing, box: Box, fill: Colour | None = None, line: Colour | None = None, width: float = 0.3) -> None:
    """A rectangle with round corners."""
    left, top, right, bottom = box
    radius = min(1.2, (right - left) / 2, (bottom - top) / 2)
    x0, y0, x1, y1 = left + radius, top + radius, right - radius, bottom - radius
    inner = (x1, y1), (x0, y1), (x0, y0), (x1, y0)
    turns = [(corner, (corner + step / 3) * pi / 2) for corner in range(4) for step in range(4)]
    points = [(inner[at][0] + radius * cos(turn), inner[at][1] + radius * sin(turn)) for at, turn in turns]
    seen.polygon(points, fill, line, width)


def _disc(seen: Drawing, x: float, y: float, radius: float, fill: Colour, line: Colour | None = None) -> None:
    seen.oval((x, y), (radius, radius), fill, line, 0.25)


def slot_box(seat: int, slot: int) -> Box:
    x = 38.0 + slot * (SLOT_SIZE[0] + 2.0)
    return x, ROWS[seat], x + SLOT_SIZE[0], ROWS[seat] + SLOT_SIZE[1]


def _middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _draw_slot(seen: Drawing, seat: int, slot: int, creature: Any) -> None:
    """A creature: its name, a sketch, its keywords, power and health; lit while it may act, under a net when snared."""
    if not creature["card"]:
        return
    card_id, box = int(creature["card"]), slot_box(seat, slot)
    x, right, top, bottom = box[0], box[2], box[1], box[3]
    if creature["acts"]:
        _box(seen, (x - 0.7, top - 0.7, right + 0.7, bottom + 0.7), fill=GLOW)
    _box(seen, box, fill=FACE, line=SEATS[seat], width=0.7)
    seen.text(((x + right) / 2, top + 2.6), name_of(card_id), 2.7, INK, most=SLOT_SIZE[0] - 2)
    sketch(seen, card_id, ((x + right) / 2, top + 9.3), 6.0)
    seen.text(((x + right) / 2, top + 15.8), " ".join(keywords_of(card_id)), 1.9, INK, most=SLOT_SIZE[0] - 2)
    if CARDS[card_id].ability:
        seen.text(((x + right) / 2, bottom - 3.0), "ability", 1.9, INK)
    _draw_number(seen, x + 3.2, bottom - 3.2, int(creature["power"]), POWER)
    is_wounded = creature["health"] < creature["most"]
    _draw_number(seen, right - 3.2, bottom - 3.2, int(creature["health"]), WOUND if is_wounded else HEALTH)
    if creature["snared"]:
        for i in range(1, 5):
            step = i * SLOT_SIZE[0] / 5
            seen.line([(x + step, top + 0.8), (x + step, bottom - 0.8)], 0.3, (*INK, 150))
            seen.line([(x + 0.8, top + i * 4.6), (right - 0.8, top + i * 4.6)], 0.3, (*INK, 150))


def _draw_number(seen: Drawing, x: float, y: float, number: int, colour: Colour) -> None:
    _disc(seen, x, y, 2.5, colour, INK)
    seen.text((x, y), str(number), 3.2, PAPER)


def _draw_hand(seen: Drawing, seat: int, keeper: Any, *, is_acting: bool, is_hidden: bool = False) -> None:
    """Small cards side by side; what can be paid now is bright. Of a hidden hand only the backs."""
    for i in range(int(keeper["hand_size"])):
        if is_hidden:
            left = 38.0 + i * (HAND_SIZE[0] + 2.4)
            box = (left, HANDS[seat], left + HAND_SIZE[0], HANDS[seat] + HAND_SIZE[1])
            _box(seen, box, fill=SEATS[seat], line=INK)
            continue
        card_id = int(keeper["hand"][i])
        card = CARDS[card_id]
        x, y = 38.0 + i * (HAND_SIZE[0] + 2.4), HANDS[seat]
        is_paid = is_acting and keeper["oil"] >= card.cost
        face = SPELL if card.is_spell else FACE
        colour = face if is_paid else tuple(round(0.62 * part) for part in face)
        _box(seen, (x, y, x + HAND_SIZE[0], y + HAND_SIZE[1]), fill=colour, line=SEATS[seat])
        seen.text((x + HAND_SIZE[0] / 2, y + 5.0), name_of(card_id), 2.1, INK, most=HAND_SIZE[0] - 1)
        what = "spell" if card.is_spell else f"{card.power} / {card.health}"
        seen.text((x + HAND_SIZE[0] / 2, y + 9.6), what, 2.1, INK)
        _disc(seen, x + 1.2, y + 1.2, 1.7, OIL, INK)
        seen.text((x + 1.2, y + 1.2), str(card.cost), 2.2, INK)


def _draw_keeper(seen: Drawing, seat: int, keeper: Any, rules: CardRules, *, is_acting: bool) -> None:
    """A lighthouse, lit in its turn, with name, health, oil and lamps beside it."""
    top = HANDS[seat] + (-26.0 if seat == 0 else 0.0)
    if is_acting:
        seen.polygon([(8.5, top + 6.5), (36.0, top - 0.5), (36.0, top + 13.5)], (*GLOW, 46))
    seen.polygon([(4.8, top + 38.0), (12.2, top + 38.0), (10.6, top + 10.0), (6.4, top + 10.0)], PAPER)
    for stripe in range(3):
        y = top + 14.0 + 8.5 * stripe
        wide = 2.2 + 0.4 * stripe
        seen.polygon([(8.5 - wide, y), (8.5 + wide, y), (8.7 + wide, y + 4), (8.3 - wide, y + 4)], SEATS[seat])
    _box(seen, (5.6, top + 8.6, 11.4, top + 10.2), fill=INK)
    _box(seen, (6.5, top + 4.6, 10.5, top + 8.8), fill=GLOW if is_acting else (90, 96, 110))
    seen.polygon([(5.8, top + 4.8), (11.2, top + 4.8), (8.5, top + 1.2)], SEATS[seat])
    _box(seen, (15.0, top + 16.0, 35.0, top + 20.0), fill=SEATS[seat])
    seen.text((25.0, top + 18.0), f"seat {seat}", 2.6, INK, most=19.0)
    health = max(0, int(keeper["health"]))
    seen.text((25.0, top + 25.0), str(health), 7.0, PAPER if health > rules.health // 4 else WOUND)
    for i in range(rules.most_oil):
        fill = OIL if i < keeper["oil"] else INK
        _disc(seen, 16.2 + 2.5 * i, top + 32.0, 1.0, fill)
    for i in range(rules.most_lamps):
        _draw_lamp(seen, 17.0 + 4.5 * i, top + 36.5, is_lit=i < keeper["lamps"])


def _draw_lamp(seen: Drawing, x: float, y: float, *, is_lit: bool) -> None:
    if is_lit:
        for i in range(8):
            angle = i * pi / 4
            seen.line([(x, y), (x + 2.0 * cos(angle), y + 2.0 * sin(angle))], 0.25, GLOW)
    _disc(seen, x, y, 1.1, GLOW if is_lit else INK, DIM)


def _draw_deck(seen: Drawing, seat: int, keeper: Any) -> None:
    """A pile of backs with the number of cards; an empty one says what the next draw costs."""
    y, count = DECKS[seat], int(keeper["deck_size"])
    for i in range(min(4, (count + 4) // 5)):
        _box(seen, (138.0 + 0.7 * i, y - 0.7 * i, 150.0 + 0.7 * i, y + 15.0 - 0.7 * i), fill=SEATS[seat], line=INK)
    if count:
        seen.text((145.5, y + 6.5), str(count), 4.5, INK)
    else:
        _box(seen, (138.0, y, 150.0, y + 15.0), line=DIM)
        seen.text((144.0, y + 7.0), f"-{int(keeper['tired']) + 1}", 4.0, WOUND)


def _draw_last(seen: Drawing, record: Any) -> None:
    """The last decision in words and, where it had an aim, as an arrow."""
    seat = int(record["acting"])
    action = [int(part) for part in record["keepers"][seat]["last"]]
    if action[0] <= 0:  # its turn has just begun
        seat = 1 - seat
        action = [int(part) for part in record["keepers"][seat]["last"]]
    if action[0] < 0:
        seen.text((81.0, 45.0), "the match begins", 2.6, PAPER)
        return
    kind, _, slot, target = action
    if target and TYPES[kind] in ("cast", "attack", "ability"):
        x = _middle(slot_box(seat, slot - 1))[0] if slot else 81.0
        edge = (ROWS if slot else HANDS)[seat] + (0.0 if seat == 0 else (SLOT_SIZE if slot else HAND_SIZE)[1])
        _draw_arrow(seen, (x, edge), _aim(seat, target), SEATS[seat])
    told = decision(action, record["keepers"][seat]["board"])
    seen.text((81.0, 45.0), told, 2.6, SEATS[seat], most=86.0)


def _aim(seat: int, target: int) -> tuple[float, float]:
    """Where a target of this seat is drawn."""
    if target in (OTHER_KEEPER, OWN_KEEPER):
        owner = seat if target == OWN_KEEPER else 1 - seat
        return 33.0, HANDS[owner] + (-1.0 if owner == 0 else 25.0)
    if target >= OWN_SLOT:
        return _middle(slot_box(seat, target - OWN_SLOT))
    return _middle(slot_box(1 - seat, target - OTHER_SLOT))


def _draw_arrow(seen: Drawing, start: tuple[float, float], end: tuple[float, float], colour: Colour) -> None:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max(1e-6, (dx * dx + dy * dy) ** 0.5)
    dx, dy = dx / length, dy / length
    neck = end[0] - 3 * dx, end[1] - 3 * dy
    for width, fill in ((1.5, (*INK, 200)), (0.9, colour)):
        seen.line([start, neck], width, fill)
    seen.polygon([end, (neck[0] - 1.8 * dy, neck[1] + 1.8 * dx), (neck[0] + 1.8 * dy, neck[1] - 1.8 * dx)], colour)
