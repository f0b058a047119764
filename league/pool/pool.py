"""The pool: who can be played, which frozen nets are in memory now, and who meets a row at its next match.

Targets are the nets that a row may draw at its match boundary. New targets are drawn only when every net outside the
targets has drained (no row plays it any more), so at most 2K nets are live.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from league.config.models import AGENT_PREFIX, CURRENT, SELF_PLAY, PoolConfig
from league.maths.davidson import Prior
from league.maths.elo import ELO_START, expected_score
from league.maths.metagame import Crosstable, shrunk_scores
from league.maths.pairs import PairCounts
from league.maths.ratings import bradley_terry
from league.pool.samplers import by_quality, draw_targets, probabilities, quality_after_win, with_uniform
from league.types import MatchResult, Policy

Floats = npt.NDArray[np.float64]


class Results:
    """What this run's training games say, kept as counts: all that a sampler may know.

    The learner's weights change while its opponents' do not, so its games are kept twice. Against each opponent they
    are kept as the learner's own, and fade: a game counts half after `half_life` steps. And they are kept for ever as
    games of the snapshot that the learner was last frozen into, a player that does not change; these are rated. In a
    game with a utility a game counts as won by the share that its payoff is of the range so far (`share_of`).

    Args:
        half_life: in steps.
        kappa: games that the rating model's prediction counts for, and those that a new snapshot is imagined to have
            drawn with its parent.
    """

    def __init__(self, half_life: float, kappa: int) -> None:
        self._half_life, self._kappa = half_life, kappa
        self._own: dict[str, list[float]] = {}
        """Opponent -> the learner's wins, draws and losses, faded."""
        self._fixed: dict[tuple[str, str], list[float]] = {}
        """The agents of seats 0 and 1 -> wins, draws and losses of seat 0."""
        self._largest = 0.0
        """The largest payoff of a match so far."""
        self.measured: dict[str, dict[str, float]] = {}
        """Snapshot -> each older one -> what it gains on that a match, in weighted reward (`payoff_games.py`)."""

    def fade(self, steps: int) -> None:
        """`steps` of training make what the learner's older games say of it less sure."""
        factor = 0.5 ** (steps / self._half_life)
        for counts in self._own.values():
            counts[:] = [factor * count for count in counts]

    def add(self, result: MatchResult, learner: str, newest: str) -> None:
        """Counts one game of `learner`, which was last frozen into the snapshot `newest`."""
        seat = result.agents.index(learner)
        opponent = result.agents[1 - seat]
        self._largest = max(self._largest, abs(result.payoff or 0.0))
        _count(self._own.setdefault(opponent, [0.0, 0.0, 0.0]), result, self.share_of(result, learner))
        if opponent != newest:  # else a game of an agent against itself, which says nothing of its strength
            agents = (newest, opponent) if seat == 0 else (opponent, newest)
            share = self.share_of(result, result.agents[0])
            _count(self._fixed.setdefault(agents, [0.0, 0.0, 0.0]), result, share)

    def share_of(self, result: MatchResult, agent: str) -> float:
        """What `agent` scored, in [0, 1]: by its payoff, from the largest loss so far to the largest gain, where the
        game has a utility; else win 1, draw 1/2, loss 0."""
        payoff = result.payoff_of(agent)
        if payoff is None:
            return result.score_of(agent)
        return 0.5 + payoff / (2.0 * self._largest) if self._largest else 0.5

    def own(self, members: Sequence[str]) -> Floats:
        """(N, 3): the learner's wins, draws and losses against each, faded."""
        return np.array([self._own.get(member, (0.0, 0.0, 0.0)) for member in members]).reshape(-1, 3)

    def ratings(self, snapshots: Sequence[str], parents: Mapping[str, str | None] | None = None) -> dict[str, float]:
        """Bradley-Terry ratings, in Elo points, of every snapshot and every bot that was met.

        A snapshot starts from its parent's rating: without a game it has it, and its first games are weighed against
        `kappa` drawn ones with its nearest ancestor that has played.

        snapshots: the learner was last frozen into the last. parents: of each; without them the one before it.
        """
        if parents is None:
            parents = dict(zip(snapshots, [None, *snapshots], strict=False))
        rows = [(*agents, *counts) for agents, counts in self._fixed.items()]
        seat0, seat1, wins, draws, losses = zip(*rows, strict=True) if rows else ((),) * 5
        columns = (np.array(column, np.float64) for column in (wins, draws, losses))
        played = {*seat0, *seat1}
        ancestors = {snapshot: _ancestor(snapshot, parents, played) for snapshot in snapshots}
        links = [(a, snapshot) for snapshot, a in ancestors.items() if a is not None and snapshot in played]
        rated = bradley_terry(PairCounts(seat0, seat1, *columns), lineage=links, prior=Prior(lineage=self._kappa))
        ratings = dict(zip(rated.agents, rated.rating.tolist(), strict=True))
        inherited = {snapshot: ratings.get(a, ELO_START) if a else ELO_START for snapshot, a in ancestors.items()}
        return inherited | ratings

    def gaps(
        self, members: Sequence[str], snapshots: Sequence[str], parents: Mapping[str, str | None] | None = None
    ) -> Floats:
        """(N,): how many Elo points the learner is above each member; 0 for one that nothing is known of."""
        ratings = self.ratings(snapshots, parents)
        learner = ratings[snapshots[-1]]
        return np.array([learner - ratings.get(member, learner) for member in members])

    def expected(
        self, members: Sequence[str], snapshots: Sequence[str], parents: Mapping[str, str | None] | None = None
    ) -> Floats:
        """(N,): the learner's score against each member as the ratings expect it."""
        return np.array([expected_score(gap, 0.0) for gap in self.gaps(members, snapshots, parents)])

    def win_rates(
        self, members: Sequence[str], snapshots: Sequence[str], parents: Mapping[str, str | None] | None = None
    ) -> Floats:
        """(N,): the learner's expected score against each member, from its own games and the ratings."""
        own = self.own(members)
        expected = self.expected(members, snapshots, parents)
        return shrunk_scores(own[:, 0] + 0.5 * own[:, 1], own.sum(axis=1), expected, self._kappa)

    def payoff(
        self, members: Sequence[str], snapshots: Sequence[str], parents: Mapping[str, str | None] | None = None
    ) -> Floats:
        """(N, N) margins between the members, without a gap.

        In weighted reward where they were measured (of snapshots all pairs are, or none); else in win-rates: their
        training games, shrunk towards the ratings.
        """
        if self.measured.keys() & {*members}:
            known = np.array([[self.measured.get(a, {}).get(b, 0.0) for b in members] for a in members])
            return np.asarray(known - known.T, np.float64)
        place = {member: i for i, member in enumerate(members)}
        wins = np.zeros((len(members), len(members)))
        draws = np.zeros_like(wins)
        for (a, b), counts in self._fixed.items():
            if a in place and b in place:
                i, j = place[a], place[b]
                wins[i, j] += counts[0]
                wins[j, i] += counts[2]
                draws[i, j] += counts[1]
                draws[j, i] += counts[1]
        gaps = self.gaps(members, snapshots, parents)
        expected = np.array([[expected_score(b, a) for b in gaps] for a in gaps])
        return Crosstable(tuple(members), wins, draws).payoff(expected, self._kappa)

    def state_dict(self) -> dict[str, Any]:
        """All counts."""
        return {
            "own": {agent: list(counts) for agent, counts in self._own.items()},
            "fixed": [[*agents, *counts] for agents, counts in self._fixed.items()],
            "measured": {agent: dict(margins) for agent, margins in self.measured.items()},
            "largest": self._largest,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self._own = {agent: list(counts) for agent, counts in state["own"].items()}
        self._fixed = {(a, b): list(counts) for a, b, *counts in state["fixed"]}
        self._largest = state["largest"]
        self.measured = {agent: dict(margins) for agent, margins in state["measured"].items()}


def _count(counts: list[float], result: MatchResult, share: float) -> None:
    """Adds a game to wins, draws and losses: where it has a payoff, as won and lost by shares."""
    if result.payoff is None:
        counts[int(2.0 - 2.0 * share)] += 1.0
    else:
        counts[0] += share
        counts[2] += 1.0 - share


class GroupKnown:
    """What a sampler may know of a group of a pool (`league.pool.samplers.Known`), worked out when it is wanted."""

    def __init__(self, pool: Pool, members: Sequence[str]) -> None:
        self.config, self.members, self._pool = pool.config, members, pool

    def win_rates(self) -> Floats:
        """See `Known.win_rates`; they are kept as figures of the run, too."""
        rates = self._pool.results.win_rates(self.members, *self._pool.lineage())
        self._pool.win_rates |= dict(zip(self.members, rates.tolist(), strict=True))
        return rates

    def gaps(self) -> Floats:
        """See `Known.gaps`."""
        return self._pool.results.gaps(self.members, *self._pool.lineage())

    def payoff(self) -> Floats:
        """See `Known.payoff`."""
        return self._pool.results.payoff(self.members, *self._pool.lineage())

    def qualities(self) -> Floats:
        """See `Known.qualities`."""
        return np.array([self._pool.qualities.get(member, 0.0) for member in self.members])


def _ancestor(snapshot: str, parents: Mapping[str, str | None], played: set[str]) -> str | None:
    """The nearest ancestor that has played."""
    ancestor = parents.get(snapshot)
    while ancestor is not None and ancestor not in played:
        ancestor = parents.get(ancestor)
    return ancestor


class Pool:
    """Snapshots by agent id, oldest first, and the native bots of the mix.

    Args:
        config: mix, groups, samplers, number of live nets.
        load: the frozen policy of an agent id, on the device; called once each time a net goes live.
        rng: draws targets and opponents; its state is part of the run's.
        guests: who of the mix is neither a snapshot nor a native bot (`league.play.opponents.Holder`); they are in
            memory from first to last.
    """

    is_shared = False
    """Whether other learners meet this one's snapshots (`league.pool.league_pool`)."""

    def __init__(
        self,
        config: PoolConfig,
        load: Callable[[str], Policy],
        rng: np.random.Generator,
        guests: Sequence[str] = (),
    ) -> None:
        self.config, self.guests = config, guests
        self._guest_policies: dict[str, Policy] = {}
        self.snapshots: list[str] = []
        self.targets: list[str] = []
        """As often as they are to be drawn; `live_nets` entries in all."""
        self.odds: dict[str, dict[str, float]] = {}
        """Group of the mix -> member -> the probability that its sampler gave it when targets were last drawn."""
        self.results = Results(config.result_half_life, config.shrink_games)
        self.qualities: dict[str, float] = {}
        """Member -> OpenAI Five's quality."""
        self.win_rates: dict[str, float] = {}
        """Member -> the learner's expected score, where a sampler wanted it when targets were last drawn."""
        self._has_drawn = False
        self._load = load
        self._rng = rng
        self._live: dict[str, Policy] = {}
        self._groups = sorted(config.mix)
        self.reconfigure(config)

    @property
    def ending(self) -> Literal["turn over", "reset"] | None:
        """Why the learner ends here: for another's turn, or to go back to its first weights; None: it goes on."""
        return None

    def reconfigure(self, config: PoolConfig) -> None:
        """Draws by other shares of the same mix from now on."""
        self.config = config
        shares = np.array([config.mix[group] for group in self._groups]).cumsum()
        self._bounds = shares / shares[-1]

    def admit(self, agent_id: str) -> None:
        """A new snapshot joins; rows meet it once it is drawn as a target."""
        if agent_id not in self.snapshots:
            self.qualities[agent_id] = max((self.qualities[s] for s in self.snapshots), default=0.0)
            self.snapshots.append(agent_id)

    def refresh_targets(self, in_use: set[str]) -> None:
        """Drops the nets that nobody plays and nobody may draw; draws new targets once no other net is left.

        That is when every group's odds are computed again.
        """
        for agent_id in [a for a in self._live if a not in in_use and a not in self.targets]:
            del self._live[agent_id]
        self._has_drawn = set(self._live) <= set(self.targets)
        if self._has_drawn:
            self._work_out_odds()
            odds = self.odds[SELF_PLAY]
            self.targets = draw_targets(list(odds), np.array(list(odds.values())), self.config.live_nets, self._rng)
            for agent_id in [a for a in self._live if a not in self.targets and a not in in_use]:
                del self._live[agent_id]

    def follow(self, targets: Sequence[str], odds: Mapping[str, Mapping[str, float]], live: Sequence[str]) -> None:
        """Takes over what another rank's pool has drawn, and the nets that it has in memory."""
        self.targets, self.odds = list(targets), {group: dict(members) for group, members in odds.items()}
        before = self._live
        self._live = {agent_id: before[agent_id] if agent_id in before else self._load(agent_id) for agent_id in live}

    def draw(self, rng: np.random.Generator | None = None) -> str:
        """The opponent of a match that begins: a bot's name (`bot:NAME`), the agent id of a target or a guest, or
        `current`. `rng` draws it; None: the pool's own."""
        rng = rng or self._rng
        group = self._groups[int(self._bounds.searchsorted(rng.random(), side="right"))]
        if group == SELF_PLAY:
            return self.targets[int(rng.integers(len(self.targets)))]
        if group in self.config.groups:
            odds = self.odds[group]
            return str(rng.choice(list(odds), p=list(odds.values())))
        return group.removeprefix(AGENT_PREFIX)

    def group_of(self, opponent: str) -> str:
        """The group of the mix that an opponent was drawn from."""
        for group in self.config.groups:
            if opponent in Pool._members(self, group) and group in self.config.mix:
                return group
        named = AGENT_PREFIX + opponent if AGENT_PREFIX + opponent in self.config.mix else opponent
        return named if named in self.config.mix else SELF_PLAY

    def record(self, finished: Iterable[MatchResult], learner: str, steps: int) -> None:
        """Takes in the training matches that ended in one update, and what its `steps` make of the older ones."""
        self.results.fade(steps)
        for result in finished:
            if CURRENT in result.agents:  # says nothing of how strong it is
                continue
            self.results.add(result, learner, self.lineage()[0][-1])
            gain = 2.0 * self.results.share_of(result, learner) - 1.0
            if gain > 0.0:
                self._lower_quality(result.agents[1 - result.agents.index(learner)], gain)

    def forget_results(self) -> None:
        """Results so far say nothing of what is played from now on; payoff games, which are played apart, stand."""
        measured = self.results.measured
        self.results = Results(self.config.result_half_life, self.config.shrink_games)
        self.results.measured = measured
        self.qualities = dict.fromkeys(self.qualities, 0.0)
        self.win_rates = {}

    def metrics(self) -> dict[str, float]:
        """How wide the samplers spread: a figure each time that targets have been drawn, else none.

        `pool/spread`: snapshots that as even odds would be spread over (the exponential of their entropy).
        """
        if not self._has_drawn:
            return {}
        odds = np.array(list(self.odds[SELF_PLAY].values()))
        return {"pool/spread": float(np.exp(-np.sum(odds * np.log(np.maximum(odds, 1e-300)))))}

    def agent_metrics(self) -> dict[tuple[str, str], float]:
        """Whom the samplers want, by name and agent id: figures each time that targets have been drawn, else none.

        `pool/odds`: the probability within its group, where above 0. `pool/win_rate`: the learner's expected score,
        where a sampler asked for it.
        """
        if not self._has_drawn:
            return {}
        found = {("pool/odds", a): p for members in self.odds.values() for a, p in members.items() if p > 0.0}
        return found | {("pool/win_rate", agent): rate for agent, rate in self.win_rates.items()}

    def policy(self, agent_id: str) -> Policy:
        """The frozen net of a snapshot, or a guest, loaded when it is first needed."""
        held = self._guest_policies if agent_id in self.guests else self._live
        if agent_id not in held:
            held[agent_id] = self._load(agent_id)
        return held[agent_id]

    def lineage(self) -> tuple[Sequence[str], Mapping[str, str | None] | None]:
        """The snapshots that are rated, the learner's newest last, and their parents, as `Results.ratings` has them."""
        return self.snapshots, None

    def rivals(self) -> dict[str, str]:
        """Snapshots of others that an evaluation meets, too: agent id -> name."""
        return {}

    @property
    def live(self) -> list[str]:
        """The agent ids of the nets in memory."""
        return list(self._live)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, the RNG included."""
        return {
            "snapshots": list(self.snapshots),
            "targets": list(self.targets),
            "live": list(self._live),
            "rng": self._rng.bit_generator.state,
            "odds": {group: dict(members) for group, members in self.odds.items()},
            "qualities": dict(self.qualities),
            "results": self.results.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`; the live nets are loaded again."""
        self.snapshots = list(state["snapshots"])
        self.targets = list(state["targets"])
        self._live = {agent_id: self._load(agent_id) for agent_id in state["live"]}
        self._rng.bit_generator.state = state["rng"]
        self.odds = {group: dict(members) for group, members in state["odds"].items()}
        self.qualities = dict(state["qualities"])
        self.results.load_state_dict(state["results"])

    def _members(self, group: str) -> Sequence[str]:
        if group == SELF_PLAY:
            return self.snapshots
        return [member.removeprefix(AGENT_PREFIX) for member in self.config.groups[group]]

    def _work_out_odds(self) -> None:
        self.win_rates = {}
        for group in [SELF_PLAY, *(g for g in self._groups if g in self.config.groups)]:
            self.odds[group] = dict(zip(self._members(group), self._weights(group).tolist(), strict=True))

    def _weights(self, group: str) -> Floats:
        """The probabilities (N,) of a group's members."""
        return probabilities(self._sampler(group), GroupKnown(self, self._members(group)))

    def _sampler(self, group: str) -> str:
        return self.config.sampler if group == SELF_PLAY else self.config.group_sampler

    def _lower_quality(self, opponent: str, gain: float) -> None:
        """After a win over `opponent` by `gain` in (0, 1], if its group is sampled by quality."""
        group = self.group_of(opponent)
        if group not in (SELF_PLAY, *self.config.groups) or self._sampler(group) != "quality":
            return
        members = self._members(group)
        odds = with_uniform(by_quality(GroupKnown(self, members).qualities()), self.config.epsilon)
        quality, chance = self.qualities.get(opponent, 0.0), float(odds[members.index(opponent)])
        rate = gain * self.config.quality_rate
        self.qualities[opponent] = quality_after_win(quality, chance, len(members), rate)
