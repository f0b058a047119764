"""The pools of learners that meet agents of others: a league's, whose role says whom, and one with a single opponent.

A learner looks for the others' new snapshots only where its turn begins, and what it saw then is part of its state: it
goes on from a saved state as if nobody had done anything since.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from league.config.models import SELF_PLAY, PoolConfig
from league.pool import roles
from league.pool.pool import Pool
from league.pool.roles import Main, MainExploiterRole, Rivals, Role
from league.pool.samplers import Floats
from league.types import BOT_PREFIX, MatchResult, Policy


@dataclass(frozen=True)
class Member:
    """A snapshot of one of a league's learners."""

    agent_id: str
    run: str
    role: str
    step: int
    parent: str | None
    is_historical: bool


@dataclass(frozen=True)
class Assignment:
    """What a learner does in its league.

    turn_steps: steps between two looks at what the others have.
    """

    run: str
    role_name: str
    role: Role
    turn_steps: int


class LeaguePool(Pool):
    """What a league's learner knows of it: its own snapshots, and the others' as they stood where its turn began.

    In the mix `self_play` is the whole league, and the role draws in it. All learners begin with the same weights,
    which are everybody's first historical snapshot. One that goes back to them (`is_resetting`) keeps its place.

    Args:
        config, load, rng, guests: as for `Pool`.
        assignment: the learner's.
        look: from the learner's steps, the snapshots of the league's other learners that it may know now, each run's
            oldest first.
        turns: that may begin before the learner has to stop. Where there is an end, one that goes on from a state in
            the middle of a turn ends with that.
    """

    is_shared = True

    def __init__(
        self,
        config: PoolConfig,
        load: Callable[[str], Policy],
        rng: np.random.Generator,
        guests: Sequence[str] = (),
        *,
        assignment: Assignment,
        look: Callable[[int], list[Member]],
        turns: float = math.inf,
    ) -> None:
        super().__init__(config, load, rng, guests)
        self.assignment, self.role = assignment, assignment.role
        self.steps = 0
        """Of the learner so far."""
        self.turn_ends = 0
        """At so many steps the turn is over, and with the next one it looks at the others again."""
        self.turns_left = turns
        """Turns that may begin before the learner has to stop."""
        self.is_resetting = False
        """Whether the learner goes back to its first weights before it plays on."""
        self._look = look
        self._own: list[Member] = []
        self._others: list[Member] = []
        self._newest = ""
        """What the learner was last frozen into, or went back to."""
        self._stayed_at = 0
        """Steps at the last historical snapshot."""

    @property
    def ending(self) -> Literal["turn over", "reset"] | None:
        """As `Pool.ending`."""
        return "reset" if self.is_resetting else "turn over" if self.is_turn_over else None

    @property
    def is_turn_over(self) -> bool:
        """Whether the learner has to stop until it may begin another turn."""
        return self.steps >= self.turn_ends and not self.turns_left

    def admit(self, agent_id: str) -> None:
        """The learner's new snapshot: historical at first, when the role is ready, and at the latest after max_steps.

        Then an exploiter may have to go back to its first weights.
        """
        is_first, since = not self._own, self.steps - self._stayed_at
        is_ready = since >= self.role.max_steps or (since >= self.role.min_steps and self._has_beaten())
        is_new = agent_id not in self.snapshots
        super().admit(agent_id)
        parent = self._newest or None
        self._newest = agent_id
        if is_new:
            run, name = self.assignment.run, self.assignment.role_name
            self._own.append(Member(agent_id, run, name, self.steps, parent, is_first or is_ready))
        if is_ready and is_new and not is_first:
            self._stayed_at = self.steps
            self.is_resetting = bool(self._rng.random() < self.role.reset_probability)

    def is_historical(self, agent_id: str) -> bool:
        """Whether one of the learner's own snapshots is historical."""
        return any(member.is_historical for member in self._own if member.agent_id == agent_id)

    def refresh_targets(self, in_use: set[str]) -> None:
        """As `Pool.refresh_targets`; where a turn begins it looks at the others first."""
        if self.steps >= self.turn_ends and self.turns_left:
            self.turns_left -= 1
            self._others = self._look(self.steps)
            self.turn_ends = self.steps + self.assignment.turn_steps
        super().refresh_targets(in_use)

    def record(self, finished: Iterable[MatchResult], learner: str, steps: int) -> None:
        """As `Pool.record`, and the learner's steps are counted."""
        super().record(finished, learner, steps)
        self.steps += steps

    def group_of(self, opponent: str) -> str:
        """The group of the mix, and for a snapshot the role of the learner that it is of."""
        owners = {member.agent_id: member.role for member in reversed(self._all())}
        return owners[opponent] if opponent in owners else super().group_of(opponent)

    def lineage(self) -> tuple[list[str], dict[str, str | None]]:
        """All snapshots known, and what each was trained from."""
        parents = {member.agent_id: member.parent for member in reversed(self._all())}
        return [*(agent for agent in parents if agent != self._newest), self._newest], parents

    def rivals(self) -> dict[str, str]:
        """The newest snapshot of every other learner that was known when the turn began."""
        newest = {member.run: member for member in self._others}
        return {member.agent_id: f"{member.run}@{member.step}" for member in newest.values()}

    def state_dict(self) -> dict[str, Any]:
        """As `Pool.state_dict`, with what is known of the league."""
        known = {"own": [asdict(m) for m in self._own], "others": [asdict(m) for m in self._others]}
        places = {"steps": self.steps, "turn_ends": self.turn_ends, "stayed_at": self._stayed_at}
        league = known | places | {"newest": self._newest, "is_resetting": self.is_resetting}
        return super().state_dict() | {"league": league}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        league = state["league"]
        self._own, self._others = ([Member(**values) for values in league[name]] for name in ("own", "others"))
        self.steps, self.turn_ends, self._stayed_at = (league[n] for n in ("steps", "turn_ends", "stayed_at"))
        self._newest, self.is_resetting = league["newest"], league["is_resetting"]
        if self.turns_left < math.inf and self.steps < self.turn_ends:
            self.turns_left = 0
        super().load_state_dict(state)

    def _all(self) -> list[Member]:
        return [*self._own, *self._others]

    def _members(self, group: str) -> Sequence[str]:
        return self._rivals()[0] if group == SELF_PLAY else super()._members(group)

    def _weights(self, group: str) -> Floats:
        if group != SELF_PLAY:
            return super()._weights(group)
        members, rivals = self._rivals()
        rates = self.results.win_rates(members, *self.lineage())
        self.win_rates |= dict(zip(members, rates.tolist(), strict=True))
        return roles.odds(self.role, rivals, rates, self.config.epsilon)

    def _histories(self, role: str) -> dict[str, list[Member]]:
        """Run -> snapshots, oldest first, of the learners of a role."""
        found: dict[str, list[Member]] = {}
        for member in self._all():
            if member.role == role:
                found.setdefault(member.run, []).append(member)
        return found

    def _rivals(self) -> tuple[list[str], Rivals]:
        """Who may be met, and in what capacity."""
        mains = self._histories("main")
        historical = [member.agent_id for member in self._all() if member.is_historical]
        members = list(dict.fromkeys([*historical, *(history[-1].agent_id for history in mains.values())]))
        place = {agent_id: i for i, agent_id in enumerate(members)}

        def places(history: Sequence[Member]) -> roles.Places:
            return np.array([place[m.agent_id] for m in history if m.is_historical], np.int64)

        exploiters = [member for history in self._histories("main_exploiter").values() for member in history[1:]]
        return members, Rivals(
            historical=np.array(sorted({place[agent] for agent in historical}), np.int64),
            mains=tuple(Main(place[h[-1].agent_id], places(h)) for h in mains.values()),
            exploiters=places(exploiters),
        )

    def _has_beaten(self) -> bool:
        """Whether the learner beats those that its role asks for: the mains of now, or all historical agents."""
        if isinstance(self.role, MainExploiterRole):
            mains = self._histories("main")
            members = [history[-1].agent_id for history in mains.values()]
            met = [[m.agent_id for m in h if m is h[-1] or not m.is_historical] for h in mains.values()]
            counts = np.array([self.results.own(agents).sum(axis=0) for agents in met]).reshape(-1, 3)
        else:
            members = list(dict.fromkeys(member.agent_id for member in self._all() if member.is_historical))
            counts = self.results.own(members)
        return roles.are_beaten(
            counts[:, 0] + 0.5 * counts[:, 1],
            counts.sum(axis=1),
            self.results.expected(members, *self.lineage()),
            self.config.shrink_games,
            beaten_at=self.role.beaten_at,
            min_games=self.role.min_games,
        )


def own_snapshots(pool: Mapping[str, Any]) -> dict[str, bool] | None:
    """Whether each of a learner's own snapshots is historical, by a pool's `state_dict`; None of a run by itself."""
    if "league" not in pool:
        return None
    return {member["agent_id"]: member["is_historical"] for member in pool["league"]["own"]}


def others_to_meet(pool: Mapping[str, Any]) -> dict[str, list[str]]:
    """The others' snapshots that a learner may meet, by a pool's `state_dict`: run -> agent ids, its newest last."""
    others = pool["league"]["others"] if "league" in pool else []
    newest = {member["run"]: member["agent_id"] for member in others}
    found: dict[str, list[str]] = {run: [] for run in newest}
    for member in others:
        if member["is_historical"] or member["agent_id"] == newest[member["run"]]:
            found[member["run"]].append(member["agent_id"])
    return found


class SingleOpponentPool(Pool):
    """A learner's against one frozen agent; its own snapshots are kept and never met.

    Args:
        config, load, rng, guests: as for `Pool`; where the opponent is a net, the mix is all `self_play`.
        opponent: its agent id, or `bot:NAME`.
    """

    def __init__(
        self,
        config: PoolConfig,
        load: Callable[[str], Policy],
        rng: np.random.Generator,
        guests: Sequence[str] = (),
        *,
        opponent: str,
    ) -> None:
        super().__init__(config, load, rng, guests)
        self._opponent = opponent

    def group_of(self, opponent: str) -> str:
        """The opponent, by a short name."""
        return opponent if opponent.startswith(BOT_PREFIX) else "opponent"

    def _members(self, group: str) -> Sequence[str]:
        return [self._opponent]

    def _weights(self, group: str) -> Floats:
        return np.ones(1)
