"""How a scripted bot of brawl plays, in numbers: the standard ones, and the ranges from which a match draws its own.

A style belongs to one fighter for one match. It follows from the match's seed and the side that the fighter starts on,
and nothing that is seen tells it but the bot's play. `constant` and `random` have none.
"""

from __future__ import annotations

from dataclasses import dataclass

STYLES = ("off", "train", "held_out")
"""Where a match's styles come from, by the number that `Rules.bot_styles` has for each."""
WITHOUT = ("constant", "random")
"""Bots that have no numbers."""
FAVOURITES = ("light", "wait", "heavy", "dodge", "riposte")
"""What a bot may like to do near the opponent; the last two are held out.

wait: backs from a strike, and strikes heavily at who cannot act; riposte: dodges, and strikes heavily until it can
again."""


@dataclass(frozen=True)
class Style:
    """A bot's numbers. The defaults are those without which no bot would be what its name says."""

    pause: float = 1.0
    reach: float = 1.0
    distance: float = 0.0
    territory: float = 0.0
    hesitation: float = 0.0
    heaviness: float = 0.0
    aim: float = 0.0
    caution: float = 0.0
    jumpiness: float = 0.0
    return_height: float = 2.0
    favourite: float = 0.0
    habit: float = 0.0


STANDARD = Style()


@dataclass(frozen=True)
class Range:
    """Values of one number: `low` to `high` in training; held-out styles reach on to `far_low` and `far_high`."""

    meaning: str
    far_low: float
    low: float
    high: float
    far_high: float


RANGES: dict[str, Range] = {
    "pause": Range("ticks between one look at the game and the next; meanwhile the keys stay held", 1, 1, 4, 9),
    "reach": Range("how far it believes to reach, as a share of the standard", 0.6, 0.85, 1.15, 1.4),
    "distance": Range("units further from the opponent than the standard that it walks up to", 0, 0, 0.6, 1.5),
    "territory": Range(
        "how much it draws to where it started (1) or where the opponent did (-1)", -0.6, -0.3, 0.3, 0.6
    ),
    "hesitation": Range("share of its strikes that it leaves", 0, 0, 0.1, 0.4),
    "heaviness": Range(
        "share of ground lights that become heavies; below 0: of heavies that become lights", -1, -0.5, 0.3, 0.8
    ),
    "aim": Range("share of strikes that it aims up; below 0: down", -0.7, -0.3, 0.3, 0.7),
    "caution": Range("chance to dodge, at each decision in which a strike threatens it", 0, 0, 0.3, 0.8),
    "jumpiness": Range("chance of a jump at each decision on the ground", 0, 0, 0.05, 0.2),
    "return_height": Range("height below which it spends jumps and recovery to return to a ground", -2.5, -0.5, 2, 3.5),
    "favourite": Range("what it likes to do near the opponent, an index of `FAVOURITES` when rounded down", 0, 0, 3, 5),
    "habit": Range("share of its decisions near the opponent at which it does that", 0.6, 0.6, 0.9, 1),
}
"""By the names of `Style`, in its order."""
