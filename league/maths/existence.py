"""Which maximum-likelihood estimates of Davidson's model exist: those along which the likelihood does not rise forever.

Without a prior the likelihood may have no maximum: it rises without end along a *direction of recession*, in which no
outcome that was seen becomes less likely (Geyer 2009, Electronic Journal of Statistics 3:259, "Likelihood inference in
exponential families and directions of recession").
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix, vstack
from scipy.sparse.csgraph import breadth_first_order, connected_components

from league.maths.davidson import Games, Ints, Prior

Parameter = Literal["seat", "draws"]
"""The first seat's advantage, and the weight of draws."""
Bools = npt.NDArray[np.bool_]
RISES = 0.5
"""A linear program's best value is 0 or 1; what lies between is rounding."""


def undetermined_parameters(games: Games, prior: Prior) -> tuple[Parameter, ...]:
    """Those of seat and draws that have no finite estimate; a parameter with a prior of its own always has one.

    Either the likelihood rises with it without end, or nothing tells of it once agents are infinitely apart.

    In a direction of recession let x of a pair grow by `a` and log v by b / 2. No outcome that was seen becomes less
    likely where a >= b for a win, -a >= b for a loss, |a| <= b for a draw. Without a draw v is 0, which is an estimate.
    """
    n = games.num_agents
    won, drawn, lost = games.wins > 0, games.draws > 0, games.losses > 0
    has_seat = math.isinf(prior.seat) and bool(games.seated.any())
    has_draws = prior.decided == 0.0 and bool(drawn.any())
    if (mixed := won & lost).any():  # a = b = 0 there, which spares most leagues the linear programs
        level = (mixed | drawn) & (games.seated > 0)
        pairs, exchanged = games.first * n + games.second, games.second * n + games.first
        has_seat, has_draws = has_seat and not np.isin(pairs[level], exchanged[level]).any(), False
    found: list[Parameter] = []
    if has_seat and (_rises(games, n, 1.0, has_draws) or _rises(games, n, -1.0, has_draws)):
        found.append("seat")
    if has_draws and _rises(games, n + 1, 1.0, has_seat):
        found.append("draws")
    return tuple(found)


def _rises(games: Games, place: int, sign: float, is_other_free: bool) -> bool:
    """Whether a direction of recession moves the parameter at `place` (N: the seat, N + 1: draws) that way.

    is_other_free: whether it may move the other one of the two, too.
    """
    n, edges = games.num_agents, np.arange(len(games.first))
    ones = np.ones(len(edges))
    rise = csr_matrix(
        (
            np.concatenate([ones, -ones, games.seated]),
            (np.tile(edges, 3), np.concatenate([games.first, games.second, np.full(len(edges), n)])),
        ),
        (len(edges), n + 2),
    )
    weight = csr_matrix((ones, (edges, np.full(len(edges), n + 1))), (len(edges), n + 2))
    won, drawn, lost = games.wins > 0, games.draws > 0, games.losses > 0
    limits = vstack([(weight - rise)[won], (weight + rise)[lost], (rise - weight)[drawn], (-rise - weight)[drawn]])
    aim, bounds = np.zeros(n + 2), np.tile([-math.inf, math.inf], (n + 2, 1))
    bounds[n + 1, 0] = 0.0  # a draw is there, or none is and log v stays
    if not is_other_free:
        bounds[2 * n + 1 - place] = 0.0
    bounds[place] = sorted((0.0, sign))
    aim[place] = -sign
    found = linprog(aim, A_ub=limits.tocsr(), b_ub=np.zeros(limits.shape[0]), bounds=bounds)
    return bool(-found.fun > RISES)


def informative(games: Games, prior: Prior) -> tuple[tuple[Parameter, ...], Games]:
    """The parameters that have no finite estimate, and the games that tell finite strengths.

    Without an estimate of draws no game does, without one of the first seat's advantage those that have no seats.
    """
    undetermined = undetermined_parameters(games, prior)
    if undetermined == ("seat",):
        games = subset(games, games.seated == 0)
        undetermined = (*undetermined, *undetermined_parameters(games, prior))
    return undetermined, subset(games, np.full(len(games.first), "draws" not in undetermined))


def finite(games: Games, told: Games) -> tuple[Ints, Bools, Games]:
    """What maximum likelihood says of strengths, without imagined draws.

    Ratings are finite among agents of which each scored against each other through a chain of games (Ford 1957,
    American Mathematical Monthly 64:28). An agent alone is rated against nobody.

    Args:
        games: all games; chains of them order the agents.
        told: those that tell strengths (`informative`).

    Returns:
        (N,) the signs of infinite ratings: against the most such agents of a linked group, or where there are none
        against all; (N,) whether an agent has a finite rating; the games among those that have one. Of games
        between two such sets of agents the favourite won all, and in the limit they tell nothing more.
    """
    n, graph = games.num_agents, _scored(games)
    part = connected_components(_scored(told), connection="strong")[1]
    size = np.bincount(part, minlength=1)[part] if n else part
    sign = np.asarray((graph.sum(axis=1).A1 > 0).astype(np.int64) - (graph.sum(axis=0).A1 > 0), np.int64)
    for number in range(int(told.groups.max(initial=-1)) + 1):
        members = np.flatnonzero(told.groups == number)
        start = int(members[np.argmax(size[members])])
        if size[start] > 1:
            below = breadth_first_order(graph, start, return_predecessors=False)
            above = breadth_first_order(graph.T.tocsr(), start, return_predecessors=False)
            sign[members] = np.isin(members, above).astype(np.int64) - np.isin(members, below)
    is_finite = size > 1
    return sign, is_finite, among(subset(told, part[told.first] == part[told.second]), is_finite)


def _scored(games: Games) -> csr_matrix:
    """(N, N): above 0 where the agent of the row scored against that of the column."""
    scored = np.concatenate([games.wins + games.draws > 0, games.losses + games.draws > 0])
    by, over = (np.concatenate(seats)[scored] for seats in ((games.first, games.second), (games.second, games.first)))
    return coo_matrix((np.ones(len(by)), (by, over)), (games.num_agents, games.num_agents)).tocsr()


def among(games: Games, kept: Bools) -> Games:
    """The games between agents that are `kept` (N,)."""
    index = np.cumsum(kept) - 1
    own = subset(games, kept[games.first] & kept[games.second])
    return replace(
        own,
        num_agents=int(kept.sum()),
        first=index[own.first],
        second=index[own.second],
        links=index[games.links[kept[games.links].all(axis=1)]],
    )


def subset(games: Games, keep: Bools) -> Games:
    """The games of the ordered pairs to `keep` (P,), of the same agents."""
    columns = ("first", "second", "wins", "draws", "losses", "seated")
    return replace(games, **{name: getattr(games, name)[keep] for name in columns})
