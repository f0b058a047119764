"""The games of a tournament: plays, keeps and counts batches, of a whole schedule or round by round of a bracket."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from league.arena.agents import Meeting, introduce, sampling_of
from league.arena.cluster import PlayPairings
from league.arena.tournament_results import BracketMatch
from league.boards.rating import rate_counts
from league.maths.brackets import Fixture, double_elimination
from league.maths.davidson import Ints
from league.maths.pairs import PairCounts
from league.maths.ratings import Ratings
from league.maths.record import Record
from league.maths.scheduling import spread
from league.play.summaries import clustered, counts_of
from league.runtime.phases import advance
from league.runtime.signals import put_off
from league.store.folder import Folder
from league.store.rows import GameRow, unique_name
from league.store.store import Store
from league.types import SEATS, MatchResult

Kept = TypeVar("Kept", bound=Record)


class Played:
    """The tournament so far: plays batches of at most `batch_pairs` pairs of games, keeps and counts their matches."""

    def __init__(
        self,
        store: Store | None,
        rows: Folder | None,
        meeting: Meeting,
        seed: int,
        greedy: bool,
        how: PlayPairings,
        batch_pairs: int,
    ) -> None:
        self._how, self.batch_pairs = how, batch_pairs
        self.rows, self.meeting, self.seed, self.greedy = rows, meeting, seed, greedy
        self.ids = [named.agent_id for named in meeting.sides]
        self.name = unique_name("tournament")
        self.batch = 0
        self.bracket: list[BracketMatch] = []
        self.met: dict[tuple[str, str], list[MatchResult]] = {}
        """Two agents, the lesser id first -> their games of this tournament."""
        game_id = meeting.game.game_id
        self._before = PairCounts((), (), *(np.zeros(0, np.int64) for _ in range(3)))
        self._lineages: list[list[str]] = []
        self._meetings: dict[tuple[str, str], int] = {}
        self._row = GameRow.of(game_id, meeting.spec)
        if store is not None and rows is not None:
            with store.reading():
                self._before = store.pair_counts(game_id, sampling=sampling_of(greedy))
                self._lineages = store.lineages(game_id)
                self._meetings = {(a, b): games for a, b, games in store.select("meetings", game_id=game_id)}
            introduce(rows, meeting)

    @property
    def games(self) -> int:
        """Games of this tournament."""
        return sum(map(len, self.met.values()))

    def play(self, pairs: Ints, given: Ints) -> None:
        """Plays one batch: `given` (P,) pairs of games of each of `pairs` (P, 2), and writes it."""
        pairings = []
        for (a, b), count in zip(pairs.tolist(), given.tolist(), strict=True):
            if count:
                pairings.append((a, b, SEATS * count, self._fresh_seed(self.ids[a], self.ids[b], SEATS * count)))
        results = self._how(self.meeting, pairings, run=self.name, update=self.batch, greedy=self.greedy)
        with put_off():  # what is stored is what is counted
            if self.rows is not None:
                self.rows.add_matches(results)
                self.rows.flush()
            self.batch += 1
            for result in results:
                self.met.setdefault((min(result.agents), max(result.agents)), []).append(result)

    def ratings(self) -> Ratings:
        """Of everyone, from the games that the store had and those of this tournament."""
        counts = counts_of([result for met in self.met.values() for result in met])
        return rate_counts(self._before + counts, self._lineages, self._row, self.ids)

    def games_of(self, i: int, j: int) -> list[MatchResult]:
        """The games of two entrants in this tournament, in their order."""
        a, b = self.ids[i], self.ids[j]
        return self.met.get((min(a, b), max(a, b)), [])

    def record(self, kind: type[Kept], met: Sequence[MatchResult], i: int, j: int, **more: object) -> Kept:
        """What entrant `i` did against `j` in games of theirs."""
        a, b = self.meeting.sides[i], self.meeting.sides[j]
        outcomes, payoffs = [x.outcome_of(a.agent_id) for x in met], [x.payoff_of(a.agent_id) for x in met]
        bound = self.meeting.spec.payoff_bound
        return kind.of([clustered(x) for x in met], outcomes, payoffs, bound, a=a.label, b=b.label, **more)

    def _fresh_seed(self, a: str, b: str, games: int) -> int:
        """A seed that no earlier games of the two had; it depends on nobody else."""
        pair = (min(a, b), max(a, b))
        words = [int.from_bytes(hashlib.sha256(agent.encode()).digest()[:8], "big") for agent in pair]
        entropy = [self.seed, *words, self._meetings.get(pair, 0)]
        self._meetings[pair] = self._meetings.get(pair, 0) + games
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)


def play_all(played: Played, pairs: Ints, games: int, say: Callable[[str], None] | None) -> None:
    """A round robin's or a gauntlet's games, all pairs level."""
    left = np.full(len(pairs), games // SEATS)
    while left.any():
        advance("games", played.games, games * len(pairs))
        given = spread(left, played.batch_pairs)
        played.play(pairs, given)
        left = left - given
        if say is not None:
            say(f"{played.games:,} of {games * len(pairs):,} games")


def play_bracket(played: Played, games: int, say: Callable[[str], None] | None) -> None:
    """A double elimination, round after round; the matches of a round are played side by side."""
    ratings = played.ratings()
    has_games = ratings.wins + ratings.draws + ratings.losses > 0
    at = [ratings.index(agent) for agent in played.ids]
    seeds = sorted(range(len(at)), key=lambda place: -ratings.rating[at[place]] if has_games[at[place]] else math.inf)
    rounds = double_elimination(len(seeds))
    fixtures = next(rounds)
    while True:
        matches = _play_round(played, fixtures, seeds, games)
        played.bracket += matches
        if say is not None:
            on = ", ".join(match.winner for match in matches)
            say(f"{played.games:,} games, {matches[0].bracket} {matches[0].round}: won by {on}")
        try:
            fixtures = rounds.send([x.a if m.winner == m.a else x.b for x, m in zip(fixtures, matches, strict=True)])
        except StopIteration:
            return


def _play_round(played: Played, fixtures: Sequence[Fixture], seeds: Sequence[int], games: int) -> list[BracketMatch]:
    """The matches of one round; a level one gets two more games at a time, until it has had twice `games`."""
    pairs = np.array([(seeds[x.a], seeds[x.b]) for x in fixtures])
    before = [len(played.games_of(*both)) for both in pairs.tolist()]
    left = np.full(len(pairs), games // SEATS)
    while left.any():
        given = spread(left, played.batch_pairs)
        played.play(pairs, given)
        left = left - given
        if not left.any():
            found = [played.games_of(*both)[n:] for both, n in zip(pairs.tolist(), before, strict=True)]
            matches = [
                played.record(BracketMatch, met, *both, bracket=x.bracket, round=x.round)
                for x, both, met in zip(fixtures, pairs.tolist(), found, strict=True)
            ]
            left = np.array([int(m.margin == 0.0 and m.games < 2 * games) for m in matches])
    return matches
