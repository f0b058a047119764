"""How the bots of a match play: the styles that its seed draws."""

from __future__ import annotations

from league.envs.brawl.styles import RANGES, STANDARD, STYLES, Style
from tests.oracles.shared import GOLDEN, U64, Stream, mix

SALT = 0x5BF03635F0935AD1
"""Keeps a style's draws apart from the match's own."""


def drawn(seed: int, side: int, styles: int) -> Style:
    """The style in the match of `seed` of a bot that starts on `side`, -1 the left one or 1.

    styles: an index of `STYLES`. Training draws each number evenly from its range. A held-out style has one number, and
        each of the others with probability one half, from what lies beyond.
    """
    if not styles:
        return STANDARD
    stream = Stream(mix(((seed ^ SALT) + (1 if side > 0 else 2) * GOLDEN) & U64))
    strange = stream.between(0, len(RANGES) - 1)
    values = {}
    for i, (name, r) in enumerate(RANGES.items()):
        is_beyond, unit = stream.coin() or i == strange, stream.unit()
        if STYLES[styles] == "train" or not is_beyond:
            values[name] = r.low + (r.high - r.low) * unit
        else:
            below = r.low - r.far_low
            way = (below + (r.far_high - r.high)) * unit
            values[name] = r.far_low + way if way < below else r.high + (way - below)
    return Style(**values)


def of_seat(seed: int, seat: int, styles: int) -> Style:
    """The style of a bot in `seat` of the match of `seed`; see `drawn`."""
    side = 1 if Stream(mix(seed ^ 0xD1B54A32D192ED03)).coin() else -1
    return drawn(seed, side if seat == 0 else -side, styles)
