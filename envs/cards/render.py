"""Pictures of the card duel for people, from one record of STATE_DTYPE; drawn with Pillow (the extra `render`).

Both hands are open: a picture is for who watches, not for who plays.
"""

from __future__ import annotations

from functools import lru_cache
from math import cos, pi, sin
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from league.envs.cards.catalogue import CARDS
from league.envs.cards.rules import OTHER_KEEPER, OTHER_SLOT, OWN_KEEPER, OWN_SLOT, SLOTS, TYPES, Rules
from league.envs.cards.sketch import sketch
from league.envs.cards.words import decision, keywords_of, name_of
from league.errors import UsageError

if TYPE_CHECKING:
    from PIL import Image

Colour = tuple[int, ...]
"""Red, green, blue and, where it is not opaque, alpha."""
Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in units."""

FINE = 2
"""Drawn this many times larger, then averaged: smooth edges."""
MIN_SIZE = (160, 90)
WIDE, HIGH = 160.0, 90.0
"""The picture in units, from the upper left corner."""

SEATS: tuple[Colour, Colour] = (86, 180, 233), (240, 140, 20)
"""Sky blue and orange: told apart by the colour-blind (after Okabe and Ito 2008)."""
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
SLOT_SIZE, HAND_SIZE = (20.0, 23.0), (12.0, 13.0)


def frame(
    record: Any,
    rules: Rules,
    *,
    size: tuple[int, int] = (960, 540),
    show_boxes: bool = False,
    names: tuple[str, str] = ("", ""),
) -> npt.NDArray[np.uint8]:
    """A picture (H, W, 3) uint8 of one match.

    Args:
        record: one element of STATE_DTYPE.
        rules: of its game.
        size: (W, H) in pixels.
        show_boxes: also the next card of each deck, which nobody sees.
        names: of the seats, shortened to fit; empty ones are numbered.

    Raises:
        UsageError: a size below MIN_SIZE.
    """
    if size[0] < MIN_SIZE[0] or size[1] < MIN_SIZE[1]:
        raise UsageError(f"size={tuple(size)}: a picture must be at least {MIN_SIZE[0]} x {MIN_SIZE[1]} pixels")
    try:
        import PIL  # noqa: F401
    except ModuleNotFoundError:
        raise UsageError("drawing cards needs Pillow, which is not installed; run `pip install pillow`") from None
    canvas = Canvas(_background(tuple(size)).copy())
    draw_table(canvas, record, rules, names, shows_next=show_boxes)
    return np.asarray(canvas.image.reduce(FINE))


def draw_table(
    canvas: Any, record: Any, rules: Rules, names: tuple[str, str], *, shows_next: bool, hidden: int | None = None
) -> None:
    """Everything that moves in a match, as `frame` shows it, on a canvas with the methods of `Canvas`.

    hidden: the seat whose hand lies face down.
    """
    for seat, keeper in enumerate(record["keepers"]):
        _draw_keeper(canvas, seat, keeper, rules, names[seat] or f"seat {seat}", is_acting=record["acting"] == seat)
        _draw_deck(canvas, seat, keeper, shows_next=shows_next)
        _draw_hand(canvas, seat, keeper, is_acting=record["acting"] == seat, is_hidden=seat == hidden)
        for slot, creature in enumerate(keeper["board"]):
            _draw_slot(canvas, seat, slot, creature)
    _draw_last(canvas, record)
    left = rules.decision_limit - int(record["decisions"])
    canvas.text((145.5, 45.0), f"{left} left", 2.6, PAPER if left > 10 else GLOW)


class Canvas:
    """A picture measured in units, WIDE by HIGH, in the middle of the image."""

    def __init__(self, image: Image.Image) -> None:
        from PIL import ImageDraw

        self.image = image
        self.draw = ImageDraw.Draw(image, "RGBA")
        self.scale = min(image.width / WIDE, image.height / HIGH)
        self.left, self.top = (image.width - WIDE * self.scale) / 2, (image.height - HIGH * self.scale) / 2

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The pixel of a point."""
        return self.left + x * self.scale, self.top + y * self.scale

    def box(self, box: Box, fill: Colour | None = None, line: Colour | None = None, width: float = 0.3) -> None:
        """A rectangle with round corners."""
        pixels = (*self.at(*box[:2]), *self.at(*box[2:]))
        thick = max(1, round(width * self.scale))
        self.draw.rounded_rectangle(pixels, 1.2 * self.scale, fill=fill, outline=line, width=thick)

    def disc(self, x: float, y: float, radius: float, fill: Colour, line: Colour | None = None) -> None:
        """A filled circle."""
        pixels = (*self.at(x - radius, y - radius), *self.at(x + radius, y + radius))
        self.draw.ellipse(pixels, fill=fill, outline=line, width=max(1, round(0.25 * self.scale)))

    def polygon(self, points: list[tuple[float, float]], fill: Colour) -> None:
        """Filled."""
        self.draw.polygon([self.at(*point) for point in points], fill=fill)

    def line(self, points: list[tuple[float, float]], width: float, fill: Colour) -> None:
        """Through all points."""
        pixels = [self.at(*point) for point in points]
        self.draw.line(pixels, fill=fill, width=max(1, round(width * self.scale)), joint="curve")

    def text(self, middle: tuple[float, float], text: str, height: float, fill: Colour, most: float = WIDE) -> None:
        """One line of text, smaller where it would be wider than `most`, and then cut."""
        size, text = _fit(" ".join(text.split()), max(6, round(height * self.scale)), most * self.scale)
        self.draw.text(self.at(*middle), text, fill=fill, font=_font(size), anchor="mm")


@lru_cache(maxsize=64)
def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


@lru_cache(maxsize=256)
def _fit(text: str, size: int, most: float) -> tuple[int, str]:
    """(size, text) that is at most `most` pixels wide: two thirds of the size, then fewer letters."""
    least = max(6, 2 * size // 3)
    while size > least and _font(size).getlength(text) > most:
        size -= 1
    if _font(size).getlength(text) <= most:
        return size, text
    while text and _font(size).getlength(text + "...") > most:
        text = text[:-1]
    return size, text + "..."


@lru_cache(maxsize=4)
def _background(size: tuple[int, int]) -> Image.Image:
    """Night above, sea below, waves between, and the empty slots."""
    from PIL import Image

    width, height = FINE * size[0], FINE * size[1]
    share = np.linspace(0, 1, height)[:, None, None]
    sky = (np.array(NIGHT) * (1 - share) + np.array(SEA) * share).round().astype(np.uint8)
    canvas = Canvas(Image.fromarray(np.repeat(sky, width, axis=1)))
    beyond = canvas.left / canvas.scale
    for row in range(3):
        xs = np.linspace(-beyond, WIDE + beyond, 200)
        points = [(float(x), 43.2 + 1.8 * row + 0.5 * sin(x / 4 + 1.7 * row)) for x in xs]
        canvas.line(points, 0.25, (255, 255, 255, 40))
    for seat in (0, 1):
        for slot in range(SLOTS):
            canvas.box(slot_box(seat, slot), fill=SLOT, line=(255, 255, 255, 50))
    return canvas.image


def slot_box(seat: int, slot: int) -> Box:
    x = 38.0 + slot * (SLOT_SIZE[0] + 2.0)
    return x, ROWS[seat], x + SLOT_SIZE[0], ROWS[seat] + SLOT_SIZE[1]


def _middle(box: Box) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


def _draw_slot(canvas: Canvas, seat: int, slot: int, creature: Any) -> None:
    """A creature: its name, a sketch, its keywords, power and health; lit while it may act, under a net when snared."""
    if not creature["card"]:
        return
    card_id, box = int(creature["card"]), slot_box(seat, slot)
    x, right, top, bottom = box[0], box[2], box[1], box[3]
    if creature["acts"]:
        canvas.box((x - 0.7, top - 0.7, right + 0.7, bottom + 0.7), fill=GLOW)
    canvas.box(box, fill=FACE, line=SEATS[seat], width=0.7)
    canvas.text(((x + right) / 2, top + 2.6), name_of(card_id), 2.7, INK, most=SLOT_SIZE[0] - 2)
    sketch(canvas, card_id, ((x + right) / 2, top + 9.3), 6.0)
    canvas.text(((x + right) / 2, top + 15.8), " ".join(keywords_of(card_id)), 1.9, INK, most=SLOT_SIZE[0] - 2)
    if CARDS[card_id].ability:
        canvas.text(((x + right) / 2, bottom - 3.0), "ability", 1.9, INK)
    _draw_number(canvas, x + 3.2, bottom - 3.2, int(creature["power"]), POWER)
    is_wounded = creature["health"] < creature["most"]
    _draw_number(canvas, right - 3.2, bottom - 3.2, int(creature["health"]), WOUND if is_wounded else HEALTH)
    if creature["snared"]:
        for i in range(1, 5):
            step = i * SLOT_SIZE[0] / 5
            canvas.line([(x + step, top + 0.8), (x + step, bottom - 0.8)], 0.3, (*INK, 150))
            canvas.line([(x + 0.8, top + i * 4.6), (right - 0.8, top + i * 4.6)], 0.3, (*INK, 150))


def _draw_number(canvas: Canvas, x: float, y: float, number: int, colour: Colour) -> None:
    canvas.disc(x, y, 2.5, colour, INK)
    canvas.text((x, y), str(number), 3.2, PAPER)


def _draw_hand(canvas: Canvas, seat: int, keeper: Any, *, is_acting: bool, is_hidden: bool = False) -> None:
    """Small cards side by side; what can be paid now is bright. Of a hidden hand only the backs."""
    for i in range(int(keeper["hand_size"])):
        if is_hidden:
            left = 38.0 + i * (HAND_SIZE[0] + 2.4)
            box = (left, HANDS[seat], left + HAND_SIZE[0], HANDS[seat] + HAND_SIZE[1])
            canvas.box(box, fill=SEATS[seat], line=INK)
            continue
        card_id = int(keeper["hand"][i])
        card = CARDS[card_id]
        x, y = 38.0 + i * (HAND_SIZE[0] + 2.4), HANDS[seat]
        is_paid = is_acting and keeper["oil"] >= card.cost
        face = SPELL if card.is_spell else FACE
        colour = face if is_paid else tuple(round(0.62 * part) for part in face)
        canvas.box((x, y, x + HAND_SIZE[0], y + HAND_SIZE[1]), fill=colour, line=SEATS[seat])
        canvas.text((x + HAND_SIZE[0] / 2, y + 5.0), name_of(card_id), 2.1, INK, most=HAND_SIZE[0] - 1)
        what = "spell" if card.is_spell else f"{card.power} / {card.health}"
        canvas.text((x + HAND_SIZE[0] / 2, y + 9.6), what, 2.1, INK)
        canvas.disc(x + 1.2, y + 1.2, 1.7, OIL, INK)
        canvas.text((x + 1.2, y + 1.2), str(card.cost), 2.2, INK)


def _draw_keeper(canvas: Canvas, seat: int, keeper: Any, rules: Rules, name: str, *, is_acting: bool) -> None:
    """A lighthouse, lit in its turn, with name, health, oil and lamps beside it."""
    top = HANDS[seat] + (-26.0 if seat == 0 else 0.0)
    if is_acting:
        canvas.polygon([(8.5, top + 6.5), (36.0, top - 0.5), (36.0, top + 13.5)], (*GLOW, 46))
    canvas.polygon([(4.8, top + 38.0), (12.2, top + 38.0), (10.6, top + 10.0), (6.4, top + 10.0)], PAPER)
    for stripe in range(3):
        y = top + 14.0 + 8.5 * stripe
        wide = 2.2 + 0.4 * stripe
        canvas.polygon([(8.5 - wide, y), (8.5 + wide, y), (8.7 + wide, y + 4), (8.3 - wide, y + 4)], SEATS[seat])
    canvas.box((5.6, top + 8.6, 11.4, top + 10.2), fill=INK)
    canvas.box((6.5, top + 4.6, 10.5, top + 8.8), fill=GLOW if is_acting else (90, 96, 110))
    canvas.polygon([(5.8, top + 4.8), (11.2, top + 4.8), (8.5, top + 1.2)], SEATS[seat])
    canvas.box((15.0, top + 16.0, 35.0, top + 20.0), fill=SEATS[seat])
    canvas.text((25.0, top + 18.0), name, 2.6, INK, most=19.0)
    health = max(0, int(keeper["health"]))
    canvas.text((25.0, top + 25.0), str(health), 7.0, PAPER if health > rules.health // 4 else WOUND)
    for i in range(rules.most_oil):
        fill = OIL if i < keeper["oil"] else INK
        canvas.disc(16.2 + 2.5 * i, top + 32.0, 1.0, fill)
    for i in range(rules.most_lamps):
        _draw_lamp(canvas, 17.0 + 4.5 * i, top + 36.5, is_lit=i < keeper["lamps"])


def _draw_lamp(canvas: Canvas, x: float, y: float, *, is_lit: bool) -> None:
    if is_lit:
        for i in range(8):
            angle = i * pi / 4
            canvas.line([(x, y), (x + 2.0 * cos(angle), y + 2.0 * sin(angle))], 0.25, GLOW)
    canvas.disc(x, y, 1.1, GLOW if is_lit else INK, DIM)


def _draw_deck(canvas: Canvas, seat: int, keeper: Any, *, shows_next: bool) -> None:
    """A pile of backs with the number of cards; an empty one says what the next draw costs."""
    y, count = (57.0, 20.0)[seat], int(keeper["deck_size"])
    for i in range(min(4, (count + 4) // 5)):
        canvas.box((138.0 + 0.7 * i, y - 0.7 * i, 150.0 + 0.7 * i, y + 15.0 - 0.7 * i), fill=SEATS[seat], line=INK)
    if count:
        canvas.text((145.5, y + 6.5), str(count), 4.5, INK)
    else:
        canvas.box((138.0, y, 150.0, y + 15.0), line=DIM)
        canvas.text((144.0, y + 7.0), f"-{int(keeper['tired']) + 1}", 4.0, WOUND)
    if shows_next and count:
        canvas.text((145.5, y + 18.0), f"next: {name_of(int(keeper['deck'][count - 1]))}", 2.2, PAPER, most=28.0)


def _draw_last(canvas: Canvas, record: Any) -> None:
    """The last decision in words and, where it had an aim, as an arrow."""
    seat = int(record["acting"])
    action = [int(part) for part in record["keepers"][seat]["last"]]
    if action[0] <= 0:  # its turn has just begun
        seat = 1 - seat
        action = [int(part) for part in record["keepers"][seat]["last"]]
    if action[0] < 0:
        canvas.text((81.0, 45.0), "the match begins", 2.6, PAPER)
        return
    kind, _, slot, target = action
    if target and TYPES[kind] in ("cast", "attack", "ability"):
        x = _middle(slot_box(seat, slot - 1))[0] if slot else 81.0
        edge = (ROWS if slot else HANDS)[seat] + (0.0 if seat == 0 else (SLOT_SIZE if slot else HAND_SIZE)[1])
        _draw_arrow(canvas, (x, edge), _aim(seat, target), SEATS[seat])
    told = decision(action, record["keepers"][seat]["board"])
    canvas.text((81.0, 45.0), told, 2.6, SEATS[seat], most=86.0)


def _aim(seat: int, target: int) -> tuple[float, float]:
    """Where a target of this seat is drawn."""
    if target in (OTHER_KEEPER, OWN_KEEPER):
        owner = seat if target == OWN_KEEPER else 1 - seat
        return 33.0, HANDS[owner] + (-1.0 if owner == 0 else 25.0)
    if target >= OWN_SLOT:
        return _middle(slot_box(seat, target - OWN_SLOT))
    return _middle(slot_box(1 - seat, target - OTHER_SLOT))


def _draw_arrow(canvas: Canvas, start: tuple[float, float], end: tuple[float, float], colour: Colour) -> None:
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = max(1e-6, (dx * dx + dy * dy) ** 0.5)
    dx, dy = dx / length, dy / length
    neck = end[0] - 3 * dx, end[1] - 3 * dy
    for width, fill in ((1.5, (*INK, 200)), (0.9, colour)):
        canvas.line([start, neck], width, fill)
    canvas.polygon([end, (neck[0] - 1.8 * dy, neck[1] + 1.8 * dx), (neck[0] + 1.8 * dy, neck[1] - 1.8 * dx)], colour)
