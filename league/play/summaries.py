"""What agents did against each other in fixed matches: counts, means and their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from league.errors import UsageError
from league.maths.pairs import PairCounts, PairSums, PlayedGame
from league.maths.record import Record
from league.types import (
    SEATS,
    MatchResult,
)
from league.types.schema import MAX_GAMES, check_number

MAX_PAIRS = 32
"""Pairs of matches of one pairing that are played side by side."""


@dataclass(frozen=True)
class Count:
    """What the progress of matches counts from: `done` of `total` games and `steps` steps were played before."""

    total: int
    name: str = "matches"
    done: int = 0
    steps: int = 0


@dataclass(frozen=True)
class Summary(Record):
    """What A did against B, with means a match."""

    metrics: dict[str, tuple[float, float]]
    """Behaviour metric -> mean a match of (A, B)."""
    end_reasons: dict[str, int]
    mean_ticks: float
    repeated: int = 0
    """Games without sampling that were the same as all others of their seating, so that they are not counted above."""

    def line(self, opponent: str) -> str:
        """In one line: score or payoff with its interval, and counts."""
        counts = f"{self.wins} won, {self.draws} drawn, {self.losses} lost"
        if self.repeated:
            counts += f"; {self.repeated} more went the same way and count for nothing"
        p = self.payoff
        if p is not None:
            return f"against {opponent}: payoff {p.mean:+z.3f} a match [{p.lower:+z.3f}, {p.upper:+z.3f}], {counts}"
        return f"against {opponent}: score {self.score:.0%} [{self.lower:.0%}, {self.upper:.0%}], {counts}"


def check_games(games: int, setting: str = "games") -> None:
    """Refuses a number of games that cannot be played in pairs.

    Raises:
        UsageError: `games` is odd, not positive or too many.
    """
    if games <= 0 or games % 2:
        raise UsageError(
            f"{setting}={games}: seats are swapped in pairs, so it must be a positive even number;"
            f" try {min(MAX_GAMES, max(2, games + games % 2))}"
        )
    check_number(setting, games, 2, MAX_GAMES, "games")


def num_rows(games: int) -> int:
    """Rows in which the games of a pairing are played, two a pair."""
    return SEATS * min(games // 2, MAX_PAIRS)


def summarise(results: Sequence[MatchResult], agent_id: str, bound: float | None = None) -> Summary:
    """What `agent_id` did in `results`, all of which it played; its opponents are B, taken together.

    The two games of a seed are one cluster. bound: the most that a match can pay (`league.types.Utility`); None: not
    known.
    """
    kept = distinct(results)
    seats = [result.agents.index(agent_id) for result in kept]
    reasons = [result.end_reason for result in kept]
    return Summary.of(
        [clustered(result) for result in kept],
        [result.outcome_of(agent_id) for result in kept],
        [result.payoff_of(agent_id) for result in kept],
        bound,
        metrics={name: _mean_pair(kept, seats, name) for name in kept[0].metrics},
        end_reasons={reason: reasons.count(reason) for reason in sorted(set(reasons))},
        mean_ticks=sum(result.ticks for result in kept) / len(kept),
        repeated=len(results) - len(kept),
    )


def clustered(result: MatchResult) -> tuple[str, str, int]:
    """What the games of two agents and one seed share, in both seatings."""
    return min(result.agents), max(result.agents), result.seed


def distinct(results: Sequence[MatchResult]) -> list[MatchResult]:
    """The games without those that say nothing new: where nobody samples, and all games of a seating took one course.

    The store counts so too (`pair_counts` of `league/store/sql/rating.sql`).
    """
    courses: dict[tuple[str, str], set[int | None]] = {}
    for result in results:
        courses.setdefault(result.agents, set()).add(result.course)
    kept, seen = [], set[tuple[str, str]]()
    for result in results:
        is_one = len(courses[result.agents]) == 1 and result.course is not None
        if not (is_one and result.agents in seen):
            kept.append(result)
        seen.add(result.agents)
    return kept


def _mean_pair(results: Sequence[MatchResult], seats: Sequence[int], name: str) -> tuple[float, float]:
    own = sum(result.metrics[name][seat] for result, seat in zip(results, seats, strict=True))
    other = sum(result.metrics[name][1 - seat] for result, seat in zip(results, seats, strict=True))
    return own / len(results), other / len(results)


def counts_of(results: Sequence[MatchResult]) -> PairCounts:
    """Counts of evaluation games; one that says nothing new is left out (`distinct`)."""
    kept = distinct(results)
    outcomes = {agents: [0, 0, 0] for agents in dict.fromkeys(result.agents for result in kept)}
    for result in kept:
        outcomes[result.agents][result.outcome_of(result.agents[0])] += 1
    found = np.array(list(outcomes.values()), np.int64).reshape(-1, 3).T
    first, second = (tuple(agents[seat] for agents in outcomes) for seat in range(SEATS))
    played = (PlayedGame(*x.agents, x.seed, x.score_of(x.agents[0]), x.payoff) for x in kept)
    return PairCounts(first, second, *found, sums=PairSums.of(played))
