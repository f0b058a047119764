"""The roles of a league's learners: whom each meets, when its snapshot becomes historical, and when it is reset.

AlphaStar's three (Vinyals et al. 2019, Nature 575, methods and the pseudocode beside it), as probabilities and pure
functions. Its agents meet the others' weights of the moment; ours meet frozen nets only, so a learner's *current* agent
is its newest snapshot, taken often, and its *historical* ones are kept in all pools.

Its rule "the lowest win-rate is above 0.7" is not kept as it stands: of many noisy win-rates the lowest is far too low,
and one that is not known yet counts as 0.5, so that with many opponents nobody is ever ready. `are_beaten` asks
instead whether the score against all of them together is surely above it, and nobody's is surely below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from league.config.models import Section, Share
from league.maths.metagame import shrunk_scores
from league.maths.record import wilson
from league.pool.samplers import Floats, pfsp, with_uniform
from league.types.schema import Count

Places = npt.NDArray[np.int64]
RoleName = Literal["main", "main_exploiter", "league_exploiter"]


class Role(Section):
    """What every role has: when its newest snapshot becomes a historical one, and what happens then."""

    min_steps: Count
    """Steps since the last historical snapshot before which no other is made."""
    max_steps: Count
    """Steps since the last historical snapshot after which the next one is made in any case."""
    beaten_at: Annotated[float, Field(gt=0, lt=1)]
    """Score against its opponents that makes a snapshot historical from min_steps on (`are_beaten`)."""
    min_games: Count
    """Games that must speak for that score, older ones faded."""
    reset_probability: Share
    """How often the learner goes back to its first weights after a historical snapshot."""

    @model_validator(mode="after")
    def _steps_are_in_order(self) -> Role:
        if self.max_steps < self.min_steps:
            raise ValueError(f"max_steps={self.max_steps} is below min_steps={self.min_steps}; raise it")
        return self


class MainRole(Role):
    """A main agent: what the league is for. It is to beat everybody, and to forget nobody."""

    pfsp_share: Share
    """Of its matches, those against all historical agents, the hardest most (`pfsp_hard`)."""
    verification_share: Share
    """Those against main exploiters that beat it, or agents of a main that it has forgotten, if there are any."""
    self_play_share: Share
    """Those against a main's current agent."""
    self_play_floor: Share
    """Below this win-rate against a main's current agent it meets that main's historical ones (`pfsp_var`)."""
    exploited_below: Share
    """Main exploiters' historical agents are verified if it has less than this against one of them."""
    forgotten_below: Share
    """A main's historical agents are verified if it has less than this against one that it once beat."""

    @model_validator(mode="after")
    def _shares_sum_to_one(self) -> MainRole:
        total = self.pfsp_share + self.verification_share + self.self_play_share
        if abs(total - 1.0) > 1e-6:
            raise ValueError(
                f"pfsp_share + verification_share + self_play_share sum to {total:g}, not to 1; change one by"
                f" {1.0 - total:+g}"
            )
        return self


class MainExploiterRole(Role):
    """A main exploiter: looks for what the main agents of now cannot answer."""

    main_floor: Share
    """Below this win-rate against a main's current agent it meets that main's historical ones (`pfsp_var`)."""


class LeagueExploiterRole(Role):
    """A league exploiter: looks for what the whole league cannot answer."""


ROLES: dict[RoleName, type[Role]] = {
    "main": MainRole,
    "main_exploiter": MainExploiterRole,
    "league_exploiter": LeagueExploiterRole,
}


@dataclass(frozen=True)
class Main:
    """A main agent as others meet it, as indices in the list of members."""

    current: int
    """Its newest snapshot."""
    history: Places
    """Its historical ones, the oldest first; the league's first weights begin it."""


@dataclass(frozen=True)
class Rivals:
    """Whom a learner may meet, as indices in its list of N members."""

    historical: Places
    """Everybody's historical agents; never empty, since the league's first weights are one."""
    mains: tuple[Main, ...]
    """Empty where no main has taken a snapshot yet."""
    exploiters: Places
    """The historical agents of main exploiters, without the league's first weights."""


def odds(role: Role, rivals: Rivals, rates: Floats, epsilon: float) -> Floats:
    """The probability of meeting each member.

    Args:
        role: the learner's.
        rivals: whom it may meet.
        rates: (N,), its expected score against each.
        epsilon: share of uniform in what is drawn among all historical agents.
    """
    if isinstance(role, MainRole):
        return _main_odds(role, rivals, rates, epsilon)
    if isinstance(role, MainExploiterRole):
        if not rivals.mains:
            return _spread(rivals.historical, rates, "pfsp_var", epsilon)
        return _mean([_current_or_history(main, rates, role.main_floor) for main in rivals.mains])
    return _spread(rivals.historical, rates, "pfsp_linear", epsilon)


def _main_odds(role: MainRole, rivals: Rivals, rates: Floats, epsilon: float) -> Floats:
    """AlphaStar draws a main first, then a branch; these are the probabilities of that."""
    parts = []
    for main in rivals.mains:
        self_play = _current_or_history(main, rates, role.self_play_floor)
        verification = self_play
        if (rates[rivals.exploiters] < role.exploited_below).any():
            verification = _spread(rivals.exploiters, rates, "pfsp_hard")
        else:
            known = without_monotone_tail(main.history, rates)
            if (rates[known] < role.forgotten_below).any():
                verification = _spread(known, rates, "pfsp_hard")
        parts.append(role.self_play_share * self_play + role.verification_share * verification)
    return _mean(parts) + role.pfsp_share * _spread(rivals.historical, rates, "pfsp_hard", epsilon)


def without_monotone_tail(history: Places, rates: Floats) -> Places:
    """`history` (oldest first) without its end of agents of which each is no easier than the one before.

    Newer agents are harder, which is not forgetting; an older one that is harder than a newer one is. Nothing is left
    where every agent is at most as easy as the one before it.
    """
    for i in range(len(history) - 1, 0, -1):
        if rates[history[i - 1]] < rates[history[i]]:
            return history[: i + 1]
    return history[:0]


def are_beaten(
    points: Floats, games: Floats, expected: Floats, kappa: float, *, beaten_at: float, min_games: float
) -> bool:
    """Whether a learner beats its opponents: the score against all is surely above, and nobody's surely below.

    Surely: by the 95 % interval. The score against all is of the games played; the score against one is shrunk by
    `kappa` games towards what the ratings expect, so that nobody passes merely for not having been met.

    Args:
        points: (N,), what the learner scored against each.
        games: (N,), in so many games; older ones may count less than 1.
        expected: (N,), the score that the ratings expect against each.
        kappa: games that `expected` counts for.
        beaten_at: the score that is needed.
        min_games: so many games are needed in all.
    """
    total = float(games.sum())
    if not len(games) or total < min_games or wilson(float(points.sum()) / total, total)[0] <= beaten_at:
        return False
    scores = shrunk_scores(points, games, expected, kappa).tolist()
    return all(wilson(score, n + kappa)[1] >= beaten_at for score, n in zip(scores, games.tolist(), strict=True))


def _current_or_history(main: Main, rates: Floats, floor: float) -> Floats:
    """All on a main's current agent where that is not too strong, else on its history as a curriculum."""
    if rates[main.current] > floor:
        return _spread(np.array([main.current]), rates, "pfsp_var")
    return _spread(main.history, rates, "pfsp_var")


def _spread(places: Places, rates: Floats, kind: str, epsilon: float = 0.0) -> Floats:
    """`pfsp` over some members, as probabilities of all."""
    spread = np.zeros(len(rates))
    spread[places] = with_uniform(pfsp(rates[places], kind), epsilon)
    return spread


def _mean(parts: Sequence[Floats]) -> Floats:
    return np.asarray(np.mean(parts, axis=0), np.float64)
