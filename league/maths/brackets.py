"""Double elimination: who meets whom next, until all but one have lost two matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import dataclass

Rounds = Generator["list[Fixture]", Sequence[int], int]


@dataclass(frozen=True)
class Fixture:
    """A match of two seeds; `a` is the better one, in the final the one from the winners' bracket.

    bracket: `winners`, `losers` or `final`; round: from 1.
    """

    bracket: str
    round: int
    a: int
    b: int


def double_elimination(num_agents: int) -> Rounds:
    """Yields the matches of a round, which may be played side by side, and takes the winner of each in their order.

    Agents are numbered by seed, 0 the best. The best get the byes, and the two best meet in the last round of the
    winners' bracket at the earliest. A loser there goes on in the losers' bracket; a loser there is out. In the final
    the winner of the losers' bracket must win twice. So N agents play 2 N - 2 or 2 N - 1 matches.

    num_agents: at least 2. Returns the champion.
    """
    order = [0]
    while len(order) < num_agents:
        order = [place for best in order for place in (best, 2 * len(order) - 1 - best)]
    counts = Counter[str]()
    places: list[int | None] = [place if place < num_agents else None for place in order]
    upper, lower = yield from _round("winners", counts, places)
    while len(upper) > 1:
        lower, _ = yield from _round("losers", counts, lower)
        upper, fallen = yield from _round("winners", counts, upper)
        met = [place for both in zip(lower, reversed(fallen), strict=True) for place in both]
        lower, _ = yield from _round("losers", counts, met)
    final = [upper[0], lower[0]]
    for _ in range(2):
        (champion,), _ = yield from _round("final", counts, final)
        if champion == final[0]:
            break
    assert champion is not None, "of two agents that have met"
    return champion


def _round(
    bracket: str, counts: Counter[str], places: list[int | None]
) -> Generator[list[Fixture], Sequence[int], tuple[list[int | None], list[int | None]]]:
    """Who goes on and who has lost, of neighbours in `places`; None is a bye, and a round of byes alone is no round."""
    pairs = list(zip(places[::2], places[1::2], strict=True))
    met = [(a, b) for a, b in pairs if a is not None and b is not None]
    won: list[int] = []
    if met:
        counts[bracket] += 1
        ordered = met if bracket == "final" else [(min(both), max(both)) for both in met]
        won = list((yield [Fixture(bracket, counts[bracket], a, b) for a, b in ordered]))
    on, out = list[int | None](), list[int | None]()
    for a, b in pairs:
        if a is None or b is None:
            on.append(b if a is None else a)
            out.append(None)
        else:
            winner = won.pop(0)
            on.append(winner)
            out.append(a + b - winner)
    return on, out
