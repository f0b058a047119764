"""Pictures of the card duel: what is drawn where, in any state and size."""

from typing import Any

import numpy as np
import pytest

from league.arena.raster import picture
from league.envs.cards import env
from league.envs.cards.catalogue import IDS
from league.envs.cards.drawing import HIGH, WIDE, drawing, slot_box
from league.envs.cards.env import Options
from league.envs.cards.rules import CardRules
from league.envs.cards.words import decision
from tests.helpers.cards_scenes import place, put, restore, scene, stirred

SIZE = (480, 270)
RULES = CardRules()


def draw(record: Any, boxes: bool = False) -> Any:
    """The picture of a record (1,)."""
    return picture(drawing(record[0], RULES), SIZE, boxes=boxes)


def changed(a: Any, b: Any) -> tuple[float, float, float, float]:
    """Least and greatest x, then y, in units, of what differs between two pictures."""
    rows, columns = np.nonzero((a != b).any(axis=2))
    assert len(rows), "nothing differs"
    x, y = columns * WIDE / SIZE[0], rows * HIGH / SIZE[1]
    return x.min(), x.max(), y.min(), y.max()


def within(found: tuple[float, ...], box: tuple[float, float, float, float]) -> bool:
    """Whether (x, x, y, y) lies in (left, top, right, bottom), a unit more or less."""
    left, top, right, bottom = box
    return left - 1 <= found[0] and found[1] <= right + 1 and top - 1 <= found[2] and found[3] <= bottom + 1


def test_any_state_can_be_drawn() -> None:
    rng, batch = np.random.default_rng(0), env.make(12, 1, Options())
    restore(batch, stirred(rng, 12, Options()))
    for row in range(12):
        shown = picture(env.drawing(batch, row), (160, 90), names=("a" * 200, "\n"), boxes=True)
        assert shown.shape == (90, 160, 3) and shown.dtype == np.uint8 and shown.std() > 10
    assert picture(env.drawing(batch, 0), (200, 300)).shape == (300, 200, 3)


@pytest.mark.parametrize("seat", [0, 1])
def test_creatures_are_drawn_in_their_slots(seat: int) -> None:
    """A creature changes its slot alone; so do its wounds, its turn and its net."""
    for slot in range(4):
        empty, full = scene(), scene()
        place(full["keepers"][0][seat], slot + 1, "eel", acts=0)
        box = slot_box(seat, slot)
        assert within(changed(draw(empty), draw(full)), box)
        for name, value in (("health", 1), ("acts", 1), ("snared", 1), ("power", 7)):
            other = full.copy()
            other["keepers"][0][seat]["board"][slot][name] = value
            assert within(changed(draw(full), draw(other)), box), name


def test_hands_decks_and_keepers_are_drawn_at_their_side() -> None:
    """What belongs to seat 0 is below the waves, what belongs to seat 1 above."""
    for seat, (top, bottom) in enumerate(((48, 90), (0, 43))):
        for name, value in (("health", 3), ("oil", 2), ("lamps", 2), ("deck_size", 0)):
            record, other = scene(), scene()
            other["keepers"][0][seat][name] = value
            assert within(changed(draw(record), draw(other)), (0, top, WIDE, bottom)), name
        record, other = scene(), scene()
        put(other["keepers"][0][seat], "hand", [IDS["eel"], IDS["spark"]])
        assert within(changed(draw(record), draw(other)), (36, top, 70, bottom))


def test_the_next_card_is_shown_only_on_demand() -> None:
    """The layer `boxes` adds it beside the deck, and nobody who plays is sent it."""
    record, other = scene(), scene()
    put(other["keepers"][0][1], "deck", [IDS["shrimp"]] * 4 + [IDS["orca"]])
    assert (draw(record) == draw(other)).all()
    shown = changed(draw(record, boxes=True), draw(other, boxes=True))
    assert within(shown, (130, 35, WIDE, 42))
    assert not [shape for seat in (0, 1) for shape in drawing(other[0], RULES, seat).shapes if "next" in shape.text]


def test_the_last_decision_is_told_and_pointed_at() -> None:
    """In words between the boards; an attack with an arrow from slot to slot."""
    record, other = scene(), scene()
    other["keepers"][0][0]["last"] = (4, 0, 1, 4)
    left, right, top, bottom = changed(draw(record), draw(other))
    assert left < 50 and right > 110 and top < 35 and 45 < bottom < 50
    board = other["keepers"][0][0]["board"]
    assert decision((4, 0, 1, 4), board) == "a creature in slot 1 attacks other slot 4"
    place(other["keepers"][0][0], 1, "nurse_shark")
    assert decision((5, 0, 1, 10), board) == "nurse shark in slot 1 uses its ability on its keeper"
    assert decision((3, IDS["spark"], 0, 5), board) == "casts spark on the other keeper"
    assert decision((-1, 0, 0, 0), board) == ""
