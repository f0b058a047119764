"""Ratings: Elo as a moving display, Bradley-Terry with its uncertainty for agents that do not change, and of
games with a utility what agents are paid (`payoffs.py`).

The first two use Elo's scale: a difference of `d` points means odds of 10 ** (d / 400) of a win against a loss, and
so, where nothing is drawn, an expected score of 1 / (1 + 10 ** (-d / 400)).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import erfc

from league.errors import UsageError, nearest
from league.maths import payoffs
from league.maths.davidson import ELO_SCALE, Games, Posterior, Prior, fit, tally
from league.maths.elo import ELO_START
from league.maths.existence import Parameter, finite, informative
from league.maths.means import Z95
from league.maths.pairs import PairCounts, PairSums
from league.maths.surprises import Pairs, Surprise, payoff_surprises_of, surprises_of

DEFAULT_PRIOR = Prior()
NO_PRIOR = Prior(draws=0.0, lineage=0.0)
MAXIMUM_LIKELIHOOD = Prior(draws=0.0, lineage=0.0, seat=math.inf, decided=0.0)
"""Nothing is believed beforehand, of strengths, seats or draws."""

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Unit = Literal["elo", "payoff"]


class Difference(NamedTuple):
    """A difference of two ratings in their unit, with its 95 % interval."""

    mean: float
    lower: float
    upper: float


class Probabilities(NamedTuple):
    """The probabilities of a game, the mean of both seatings."""

    win: float
    draw: float
    loss: float

    @property
    def score(self) -> float:
        """The expected score."""
        return self.win + self.draw / 2.0


class Infinite(NamedTuple):
    """An agent without a finite rating, where nothing is believed beforehand.

    sign: 1: it is infinitely above its group (nobody there, through any chain of games, scored against it); -1: below;
    0: above some and below others, or nothing compares it.
    """

    agent: str
    sign: int


@dataclass(frozen=True)
class Ratings:
    """The ratings of N agents, known together.

    agents: N ids, sorted. rating, lower, upper: (N,) Elo points; the interval is the 95 % one of the difference to
    the anchor, or to the group's mean where there is no anchor.
    wins, draws, losses: (N,) int64, the games counted. group: (N,) int64 from 0; only agents that a chain of games
    links (with `prior.draws` 0: of which each scored against each other) are in one group, and only they are rated
    against each other; the anchor's is the first, then the largest.
    anchors: of each group, the agent held at `anchor_rating`; None: its mean is. seat: the first seat's advantage;
    None where no two agents met in both seatings, which is where it counts as 0. dispersion: the pairs' mean squared
    surprise, weighted by what a pair can tell: about 1 where strengths explain the scores, more where cycles do; None
    where no pair can tell. freedom: what the pairs can tell, in degrees of freedom.
    infinite: agents whose rating is not finite, which only a prior without draws leaves; they are in no array.
    undetermined: which of the first seat's advantage and the weight of draws have no finite estimate, likewise.
    unit: `elo`, Bradley-Terry's model of wins, draws and losses; `payoff`, a match's payoff in the units of the game's
    utility, by least squares: then these units stand for Elo points, and scores of pairs are payoffs.
    effect: the design effect of games in pairs (`PairSums.effect`): the games in pairs that tell as much as one alone.
    """

    agents: tuple[str, ...]
    rating: Floats
    lower: Floats
    upper: Floats
    wins: Ints
    draws: Ints
    losses: Ints
    group: Ints
    anchors: tuple[str | None, ...]
    anchor_rating: float
    seat: Difference | None
    dispersion: float | None
    freedom: float
    pairs: Pairs
    model: Posterior
    prior: Prior = NO_PRIOR
    infinite: tuple[Infinite, ...] = ()
    undetermined: tuple[Parameter, ...] = ()
    unit: Unit = "elo"
    effect: float = 1.0

    @property
    def scale(self) -> float:
        """Points of a rating in one unit of `model.strength`."""
        return ELO_SCALE if self.unit == "elo" else 1.0

    @property
    def anchor(self) -> str | None:
        """The agent held at `anchor_rating` in the first group."""
        return self.anchors[0] if self.anchors else None

    def index(self, agent: str) -> int:
        """The agent's index in the arrays.

        Raises:
            UsageError: the agent has no rated game, or no finite rating.
        """
        if agent in self._indices:
            return self._indices[agent]
        if any(agent == unbounded.agent for unbounded in self.infinite):
            raise UsageError(f"agent `{agent}` has no finite rating with prior draws=0; take a prior above 0")
        raise UsageError(f"agent `{agent}` has no rated game{nearest(agent, self.agents)}")

    @cached_property
    def covariance(self) -> Floats:
        """(N, N): Elo points squared, joint.

        Raises:
            UsageError: there are too many agents for a matrix.
        """
        return self.model.covariance[:-2, :-2] * self.scale**2

    @cached_property
    def _indices(self) -> dict[str, int]:
        return {agent: i for i, agent in enumerate(self.agents)}

    def difference(self, a: str, b: str) -> Difference:
        """How many Elo points `a` is above `b`, from the joint covariance.

        Raises:
            UsageError: one of them has no rated game, or no chain of games links them.
        """
        i, j = self._places(a, b)
        mean = float(self.rating[i] - self.rating[j])
        half = Z95 * self._deviation(i, j)
        return Difference(mean, mean - half, mean + half)

    def superiority(self, a: str, b: str) -> float:
        """The probability that `a` is stronger than `b` (the likelihood of superiority); 0.5 for an agent and itself.

        Raises:
            UsageError: as `difference`.
        """
        i, j = self._places(a, b)
        return self.superiorities(np.array([i]), np.array([j]))[0]

    def superiorities(self, first: Ints, second: Ints) -> list[float]:
        """M times `superiority`, of agents by their indices; each two must be of one group."""
        gap, deviation = self.rating[second] - self.rating[first], self.deviations(first, second)
        ratio = np.divide(gap, deviation, out=np.zeros_like(gap), where=deviation > 0.0)
        return [float(x) for x in 0.5 * erfc(ratio / math.sqrt(2.0))]

    def differences(self, indices: Ints, b: str) -> dict[int, Difference]:
        """Index -> how far it is above `b`, of those among `indices` (M,) that are in the group of `b`."""
        j = self.index(b)
        same = indices[self.group[indices] == self.group[j]]
        mean, half = self.rating[same] - self.rating[j], Z95 * self.deviations(same, np.full(len(same), j))
        gaps = zip(same.tolist(), mean.tolist(), half.tolist(), strict=True)
        return {i: Difference(gap, gap - width, gap + width) for i, gap, width in gaps}

    def predict(self, a: str, b: str) -> Probabilities:
        """What a game of `a` against `b` comes to, as seen from `a`; of ratings in Elo points alone.

        Raises:
            UsageError: as `difference`.
        """
        i, j = self._places(a, b)
        gap = self.model.strength[i] - self.model.strength[j]
        win, draw, loss = self.model.probabilities(np.array([gap + self.model.seat, gap - self.model.seat]))
        return Probabilities(float(win.mean()), float(draw.mean()), float(loss.mean()))

    def scores(self, agents: Sequence[str], largest: float = 0.0) -> Floats:
        """(M, M): the expected score of each of M agents against each, the mean of both seatings.

        largest: of payoffs, the one that counts as a score of 1.

        Raises:
            UsageError: one of them has no rated game.
        """
        strength = self.model.strength[[self.index(agent) for agent in agents]]
        gap = strength[:, None] - strength[None, :]
        if self.unit == "payoff":
            return np.asarray(np.clip(0.5 + gap / (2.0 * largest), 0.0, 1.0), np.float64)
        win, draw, _ = self.model.probabilities(np.stack([gap + self.model.seat, gap - self.model.seat]))
        return np.asarray((win + draw / 2.0).mean(axis=0), np.float64)

    def most_surprising(self, limit: int) -> list[Surprise]:
        """The pairs that fit the ratings least, at most `limit`, the worst first; `a` did better than predicted."""
        found = [self._surprise(place) for place in range(min(limit, len(self.pairs.z)))]
        return [surprise if surprise.z >= 0 else self._exchanged(surprise) for surprise in found]

    def surprise(self, a: str, b: str) -> Surprise | None:
        """How `a` against `b` fits the ratings; None where they never met, or their own games alone decide that.

        Raises:
            UsageError: one of them has no rated game.
        """
        i, j = self.index(a), self.index(b)
        first, second = self.pairs.first, self.pairs.second
        met = np.flatnonzero(((first == i) & (second == j)) | ((first == j) & (second == i)))
        if not len(met):
            return None
        surprise = self._surprise(int(met[0]))
        return surprise if surprise.a == a else self._exchanged(surprise)

    def _surprise(self, place: int) -> Surprise:
        pairs = self.pairs
        return Surprise(
            a=self.agents[pairs.first[place]],
            b=self.agents[pairs.second[place]],
            games=int(pairs.games[place]),
            observed=float(pairs.observed[place]),
            predicted=float(pairs.predicted[place]),
            z=float(pairs.z[place]),
        )

    def _exchanged(self, s: Surprise) -> Surprise:
        """The same as seen from the other agent."""
        both = 1.0 if self.unit == "elo" else 0.0
        return Surprise(s.b, s.a, s.games, both - s.observed, both - s.predicted, -s.z)

    def _places(self, a: str, b: str) -> tuple[int, int]:
        i, j = self.index(a), self.index(b)
        if self.group[i] != self.group[j]:
            raise UsageError(
                f"agents `{a}` and `{b}` are in groups {self.group[i] + 1} and {self.group[j] + 1}, which no game"
                f" links, so nothing compares them; play one of each against the other: `league evaluate A --against B`"
            )
        return i, j

    def _deviation(self, i: int, j: int) -> float:
        return float(self.deviations(np.array([i]), np.array([j]))[0])

    def deviations(self, first: Ints, second: Ints) -> Floats:
        """(M,): standard deviations, in Elo points, of the differences between agents by their indices."""
        variance = self.model.joint.variance(first, second) * self.scale**2
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)), np.float64)


def bradley_terry(
    counts: PairCounts,
    anchor: str | None = None,
    anchor_rating: float = ELO_START,
    *,
    lineage: Iterable[tuple[str, str]] = (),
    agents: Iterable[str] = (),
    prior: Prior = DEFAULT_PRIOR,
) -> Ratings:
    """Rates every agent in `counts` at once, by Bradley and Terry's model with draws and seats (`davidson.py`).

    Games of an agent against itself say nothing and are left out; the order of games does not matter. `prior` keeps an
    agent that won or lost everything finite; such an agent's interval is wide. The first seat's advantage is estimated
    from pairs that met in both seatings, and counts as 0 for others: a list of results may have any order of names.
    The estimate is the posterior's mode; the covariance is the inverse of minus the Hessian there, so that an interval
    of a difference uses what two agents have in common.

    Args:
        counts: the games.
        anchor: the agent held at `anchor_rating`. In a group where it is not, the mean of the group is.
        anchor_rating: in Elo points.
        lineage: pairs of neighbours in a lineage, believed to be alike; agents without games are left out.
        agents: rated also where they have no game, by the prior alone, each in a group of its own.
        prior: what is believed before any game. With `draws` 0, agents whose rating is then infinite are only named.
    """
    rated, games = _indexed(counts, lineage, agents)
    record = _record(games)
    effect = 1.0 if counts.sums is None else counts.sums.effect
    games = replace(games, wins=games.wins / effect, draws=games.draws / effect, losses=games.losses / effect)
    infinite: tuple[Infinite, ...] = ()
    undetermined: tuple[Parameter, ...] = ()
    if prior.draws == 0.0:
        undetermined, told = informative(games, prior)
        sign, is_finite, games = finite(games, told)
        infinite = tuple(Infinite(rated[i], int(sign[i])) for i in np.flatnonzero(~is_finite))
        rated = tuple(rated[i] for i in np.flatnonzero(is_finite))
        won, drawn, lost = record
        record = won[is_finite], drawn[is_finite], lost[is_finite]
    model = fit(games, prior)
    dispersion, freedom, pairs = surprises_of(games, model)
    surprises = dispersion, freedom, replace(pairs, games=np.rint(pairs.games * effect))
    is_seated = bool(games.seated.any())
    found = _ratings(rated, games, model, surprises, (anchor, anchor_rating), is_seated, "elo")
    wins, draws, losses = record
    counted = replace(found, wins=wins, draws=draws, losses=losses, prior=prior)
    return replace(counted, infinite=infinite, undetermined=undetermined, effect=effect)


def payoff_ratings(
    counts: PairCounts, anchor: str | None = None, anchor_rating: float = 0.0, *, agents: Iterable[str] = ()
) -> Ratings:
    """Rates every agent of a game with a utility by what it is paid a match, by least squares (`payoffs.py`).

    Args:
        counts: the games, with their sums.
        anchor, anchor_rating, agents: as of `bradley_terry`, in the units of the game's utility.
    """
    rated, games = _indexed(counts, (), agents)
    sums = counts.sums or PairSums.of(())
    model, ends, variance, mean = payoffs.fit(sums, rated)
    surprises = payoff_surprises_of(model, ends, variance, mean, sums, rated)
    is_seated = bool(sums.column("pairs").any())
    return _ratings(rated, games, model, surprises, (anchor, anchor_rating), is_seated, "payoff")


def _ratings(
    agents: tuple[str, ...],
    games: Games,
    model: Posterior,
    surprises: tuple[float | None, float, Pairs],
    anchored: tuple[str | None, float],
    is_seated: bool,
    unit: Unit,
) -> Ratings:
    """The ratings and intervals of N agents with these strengths.

    surprises: dispersion, freedom and pairs. anchored: the anchor and its
    rating. is_seated: whether the first seat's advantage is known.
    """
    scale = ELO_SCALE if unit == "elo" else 1.0
    anchor, anchor_rating = anchored
    held = agents.index(anchor) if anchor in agents else None
    group = _ranked_groups(games, held)
    rating, deviation = _anchored(model, group, held, anchor_rating, scale)
    seat, half = model.seat * scale, Z95 * math.sqrt(model.joint.others[0, 0]) * scale
    anchors = tuple(anchor if held is not None and group[held] == k else None for k in range(_count(group)))
    span = Difference(seat, seat - half, seat + half) if is_seated else None
    wins, draws, losses = _record(games)
    dispersion, freedom, pairs = surprises
    return Ratings(
        agents=agents,
        rating=rating,
        lower=rating - Z95 * deviation,
        upper=rating + Z95 * deviation,
        wins=wins,
        draws=draws,
        losses=losses,
        group=group,
        anchors=anchors,
        anchor_rating=anchor_rating,
        seat=span,
        dispersion=dispersion,
        freedom=freedom,
        pairs=pairs,
        model=model,
        unit=unit,
    )


def _indexed(
    counts: PairCounts, lineage: Iterable[tuple[str, str]], also: Iterable[str]
) -> tuple[tuple[str, ...], Games]:
    """The agents that met another, and `also` these, sorted; the games by indices, those of a pair added up."""
    wanted = set(also)
    names = sorted({*counts.seat0, *counts.seat1, *wanted})
    index = {name: i for i, name in enumerate(names)}
    seats = (np.fromiter(map(index.__getitem__, seat), np.int64, len(seat)) for seat in (counts.seat0, counts.seat1))
    first, second = seats
    keep = (first != second) & (counts.games > 0)
    always = [index[name] for name in sorted(wanted)]
    met, seat = np.unique(np.concatenate([first[keep], second[keep], always]).astype(np.int64), return_inverse=True)
    seat = seat[: 2 * int(keep.sum())]
    agents = tuple(names[i] for i in met)
    index = {agent: i for i, agent in enumerate(agents)}
    n = max(1, len(agents))
    first, second = np.split(seat, 2)
    rows, where = np.unique((first * n + second) * 2 + counts.is_seated[keep], return_inverse=True)
    pairs, seated = rows // 2, rows % 2 == 1
    wins, draws, losses = (
        tally(where, column[keep].astype(np.float64), len(rows))
        for column in (counts.wins, counts.draws, counts.losses)
    )
    links = {tuple(sorted((index[a], index[b]))) for a, b in lineage if a in index and b in index and a != b}
    exchanged = (pairs % n) * n + pairs // n
    return agents, Games(
        num_agents=len(agents),
        first=pairs // n,
        second=pairs % n,
        wins=wins,
        draws=draws,
        losses=losses,
        links=np.array(sorted(links), dtype=np.int64).reshape(-1, 2),
        seated=(seated & np.isin(exchanged, pairs[seated])).astype(np.float64),
    )


def _record(games: Games) -> tuple[Ints, Ints, Ints]:
    """Wins, draws and losses of each agent, (N,) each."""
    return (
        _per_agent(games, games.wins, games.losses),
        _per_agent(games, games.draws, games.draws),
        _per_agent(games, games.losses, games.wins),
    )


def _per_agent(games: Games, first: Floats, second: Floats) -> Ints:
    """(N,) int64: sums over the pairs of what each agent did, sitting first and sitting second."""
    n = games.num_agents
    total = tally(games.first, first, n) + tally(games.second, second, n)
    return total.round().astype(np.int64)


def _ranked_groups(games: Games, held: int | None) -> Ints:
    """(N,): the number of each agent's group: the anchor's is 0, then larger ones first, then by their first agent."""
    label = games.groups
    names, start, size = np.unique(label, return_index=True, return_counts=True)
    has_anchor = names == (label[held] if held is not None else -1)
    order = np.lexsort((start, -size, ~has_anchor))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    group: Ints = rank[label]
    return group


def _count(group: Ints) -> int:
    return int(group.max()) + 1 if len(group) else 0


def _anchored(
    model: Posterior, group: Ints, held: int | None, anchor_rating: float, scale: float
) -> tuple[Floats, Floats]:
    """Ratings (N,) moved so that agent `held`, or a group's mean, has `anchor_rating`; deviations (N,) from it."""
    rating, count = model.strength * scale, _count(group)
    weight = 1.0 / np.bincount(group, minlength=1)[group] if count else rating
    if held is not None:
        weight[group == group[held]] = 0.0
        weight[held] = 1.0
    moved = rating - tally(group, weight * rating, count)[group] + anchor_rating
    variance = model.joint.variance_to(weight, group) * scale**2
    return moved, np.sqrt(np.maximum(variance, 0.0))
