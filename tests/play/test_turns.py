"""Games in turns: a step is one decision of one's own, and what others do meanwhile is counted, seen and remembered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import league
from league.envs import registry
from league.errors import GuardError, UsageError
from league.play import courses, evaluation
from league.play.lanes import Lane
from league.play.pairings import Contestant, Pairing
from league.play.rollout import Collector
from league.play.turns import LaneTurns
from league.runtime.device import products
from league.store.store import Store
from league.types import DRAW, SEATS, Origin, Rollout, Watched
from tests.helpers import relay
from tests.helpers.cases import cases
from tests.helpers.matches import OpenHands, Waltz
from tests.helpers.rollouts import WEIGHTS, make_collector, same
from tests.helpers.runs import stopping
from tests.helpers.sizes import TINY

MODULUS = 65_521


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    registry.register("relay", relay)
    yield
    registry._games.pop("relay")


def digest(memory: int, obs: np.ndarray[Any, Any], factor: int) -> int:
    weights = np.arange(1, len(obs) + 1)
    return (memory * factor + int((obs.astype(np.int64) + 2) @ weights)) % MODULUS


DECIDED, WATCHED = 31, 37


def choose(memory: int, salt: int, mask: np.ndarray[Any, Any]) -> int:
    """The action of a net of that salt."""
    legal = np.flatnonzero(mask)
    return int(legal[(memory + salt) % len(legal)])


@dataclass
class Memory:
    """What a `Digest` remembers of N rows."""

    number: Tensor

    def tensors(self) -> dict[str, Tensor]:
        return {"number": self.number}

    def clear(self, rows: Tensor) -> None:
        self.number[rows] = 0

    def select(self, rows: Tensor | None) -> Memory:
        return Memory(self.number.clone() if rows is None else self.number[rows])

    def join(self, others: Any) -> Memory:
        return Memory(torch.cat([self.number, *(other.number for other in others)]))

    def load(self, tensors: dict[str, Tensor]) -> None:
        self.number.copy_(tensors["number"])


class Digest(nn.Module):
    """See `league.types.Policy`; its value is its memory after the look."""

    def __init__(self, salt: int) -> None:
        super().__init__()
        self.salt, self.weight = salt, nn.Parameter(torch.zeros(1))

    def initial_state(self, num_rows: int) -> Memory:
        return Memory(torch.zeros(num_rows, dtype=torch.int64))

    def _look(self, obs: Tensor, state: Memory, rows: Tensor | None, factor: int) -> Tensor:
        index = range(len(obs)) if rows is None else rows.tolist()
        found = [digest(int(state.number[row]), seen.numpy(), factor) for row, seen in zip(index, obs, strict=True)]
        return torch.tensor(found)

    def step(self, obs: Tensor, state: Memory, *, mask: Any = None, rows: Any = None, **_: Any) -> Any:
        found = self._look(obs, state, rows, DECIDED)
        state.number[slice(None) if rows is None else rows] = found
        pairs = zip(found.tolist(), mask, strict=True)
        action = torch.tensor([[choose(memory, self.salt, legal.numpy())] for memory, legal in pairs])
        return action, -found.float(), found.float()

    def value(self, obs: Tensor, state: Memory, *, rows: Any = None) -> Tensor:
        return self._look(obs, state, rows, DECIDED).float()

    def watch(self, obs: Tensor, state: Memory, *, rows: Any = None) -> None:
        state.number[slice(None) if rows is None else rows] = self._look(obs, state, rows, WATCHED)


@dataclass
class Decision:
    """One step of the learner, as `twin` plays it."""

    obs: np.ndarray[Any, Any]
    action: int
    value: int
    is_first: bool
    views: list[np.ndarray[Any, Any]]
    reward: float = 0.0
    ends: bool = False
    cut_value: float = 0.0


@dataclass
class Played:
    """What `twin` played in one row."""

    decisions: list[Decision] = field(default_factory=list)
    results: list[tuple[int, int, list[float]]] = field(default_factory=list)
    """(winner, steps, the seats' points) of each match."""


def twin(row: int, seed: int, opponents: list[str], num_steps: int, alternating: bool) -> Played:
    """A row by itself, decision by decision, in plain Python; until the learner is to act for the last time."""
    done = Played()
    decisions, seat = done.decisions, row % SEATS
    for opponent in opponents:
        game = relay.make(1, 1, relay.Options(alternating=alternating))
        game.reset(np.array([seed], np.uint64))
        salt = -1 if opponent == "bot:first" else 10 + int(opponent[-1])
        memory, views, points = [0, 0], list[np.ndarray[Any, Any]](), [0.0, 0.0]
        own, is_first, steps = None, True, 0
        while True:
            movers = np.flatnonzero(game.to_act[0]).tolist()
            if seat in movers and len(decisions) == num_steps:
                return done
            for who in movers:
                obs = game.obs[0, who]
                if who != seat and salt < 0:
                    continue
                memory[who] = digest(memory[who], obs, DECIDED)
                game.actions[0, who] = choose(memory[who], 0 if who == seat else salt, game.mask[0, who])
            if seat in movers:
                action = int(game.actions[0, seat, 0])
                own = Decision(game.obs[0, seat].copy(), action, memory[seat], is_first, views)
                decisions.append(own)
                is_first, views = False, []
            if salt < 0:
                game.controllers[0, 1 - seat] = 0
            game.step()
            steps += 1
            terms = game.reward_terms[0]
            points = [a + float(b) for a, b in zip(points, terms[:, 0], strict=True)]
            if own is not None:
                own.reward += WEIGHTS["points"] * float(terms[seat, 0])
            if game.terminated[0] or game.truncated[0]:
                result = game.result[0]
                done.results.append((int(result["winner"]), steps, points))
                if own is not None:
                    own.ends = True
                    own.cut_value = digest(memory[seat], game.final_obs[0, seat], DECIDED) if game.truncated[0] else 0
                break
            for who in range(SEATS):
                if 1 - who in movers and not game.to_act[0, who] and (who == seat or salt >= 0):
                    memory[who] = digest(memory[who], game.obs[0, who], WATCHED)
                    if who == seat:
                        views.append(game.obs[0, seat].copy())
        seed, seat = relay.draw(seed, 5) << 32 | relay.draw(seed, 6), 1 - seat
    raise AssertionError("more matches than opponents")


def views_of(watched: Watched | None, t: int, row: int) -> list[list[float]]:
    """What the row's learner saw before its step number t."""
    if watched is None:
        return []
    return watched.obs[watched.before[:, row] == t, row].tolist()


@pytest.mark.parametrize("lanes, alternating", cases((2, True), slow=[(1, True), (1, False), (2, False)]))
def test_a_rollout_is_its_rows_one_by_one(alternating: bool, lanes: int) -> None:
    rows, steps = 12, (17, 9, 14)
    collector = make_collector(
        "relay",
        rows,
        lanes=lanes,
        make_net=lambda _game, _options, seed: Digest(seed),
        guests={"bot:guest-7": Digest(17)},
        alternating=alternating,
    )
    seeds = [int(x) for lane in collector.lanes for x in lane.batch._matches["seed"]]  # type: ignore[attr-defined]
    opponents: list[list[str]] = [[] for _ in range(rows)]
    begin = Lane.begin_matches

    def note(lane: Lane, ended: Any, *rest: Any, **named: Any) -> None:
        begin(lane, ended, *rest, **named)
        for row in ended.tolist():
            opponents[lane.first_row + row].append(lane.matches.opponents[row])

    for lane in collector.lanes:
        for row in range(lane.num_rows):
            opponents[lane.first_row + row].append(lane.matches.opponents[row])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lane, "begin_matches", note)
        rollouts = [collector.collect(count, update + 1) for update, count in enumerate(steps)]
    seen_views = seen_cuts = 0
    for row in range(rows):
        played = twin(row % (rows // lanes), seeds[row], opponents[row], sum(steps), alternating)
        assert len(played.decisions) == sum(steps)
        found = [(rollout, t) for rollout in rollouts for t in range(rollout.obs.shape[0])]
        for (rollout, t), expected in zip(found, played.decisions, strict=True):
            assert rollout.obs[t, row].tolist() == expected.obs.tolist()
            assert (int(rollout.action[t, row, 0]), float(rollout.value[t, row])) == (expected.action, expected.value)
            assert (float(rollout.reward[t, row]), bool(rollout.ends[t, row])) == (expected.reward, expected.ends)
            if expected.ends:
                assert float(rollout.next_value[t, row]) == expected.cut_value
                seen_cuts += expected.cut_value != 0
            if t:  # what was seen before its first step is in the segment's memory
                assert bool(rollout.is_first[t, row]) == expected.is_first
                assert views_of(rollout.watched, t, row) == [view.tolist() for view in expected.views]
                seen_views += len(expected.views)
        results = sorted(
            (result for rollout in rollouts for result in rollout.finished if result.row == row),
            key=lambda result: (result.update, result.ordinal),
        )
        told = [(r.winner, r.steps, list(r.rewards["points"])) for r in results]
        assert told == played.results[: len(told)] and len(told) in (len(played.results), len(played.results) - 1)
    assert seen_cuts and bool(seen_views) != alternating


def segment(rollout: Rollout, dtype: torch.dtype = torch.float32) -> Any:
    """The arguments of `Policy.sequence` for a whole rollout."""
    mask = None if rollout.mask is None else rollout.mask.transpose(0, 1)
    watched = rollout.watched and Watched(rollout.watched.obs.to(dtype), rollout.watched.before)
    obs, action, is_first = (x.transpose(0, 1) for x in (rollout.obs.to(dtype), rollout.action, rollout.is_first))
    return obs, action, rollout.state, is_first, mask, watched


@pytest.mark.parametrize("stack", cases(True, slow=[False]))
def test_learning_sees_what_play_saw(stack: bool) -> None:
    """`sequence` with the views gives the log-probabilities and values of play; without them it does not."""
    collector = make_collector("relay", 10, stack=stack, precision="highest")
    with products("highest"), torch.no_grad():
        collector.collect(13, 1)
        rollout = collector.collect(40, 2)
        assert rollout.watched is not None and rollout.ends.any()
        log_prob, _, value = collector.policy.sequence(*segment(rollout))
        without, _, _ = collector.policy.sequence(*segment(rollout)[:-1])
    assert (log_prob.T - rollout.log_prob).abs().max() < 1e-5 and (value.T - rollout.value).abs().max() < 1e-5
    assert (without.T - rollout.log_prob).abs().max() > 1e-4


def test_a_game_in_which_both_always_act_plays_as_one_without_turns() -> None:
    plain, turned = make_collector("matrix", 8), make_collector("matrix", 8)
    for lane in turned.lanes:
        lane.batch.to_act = np.ones((8, SEATS), np.bool_)  # type: ignore[attr-defined]
        lane.batch.held = np.zeros(8, np.bool_)  # type: ignore[attr-defined]
        lane.turns = LaneTurns(lane.batch)  # type: ignore[arg-type]
    for update in range(1, 4):
        expected, found = plain.collect(15, update), turned.collect(15, update)
        found.is_first[0] = expected.is_first[0]  # in a game in turns the state is of the first step's match
        assert same(expected, found)


def test_a_game_that_forgets_the_learner_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    collector: Collector = make_collector("relay", 4)
    batch: Any = collector.lanes[0].batch

    def never(row: int) -> None:
        batch.to_act[row] = np.arange(SEATS) != collector.lanes[0].matches.seats[row]

    monkeypatch.setattr(relay, "length", lambda seed: 10**9)
    monkeypatch.setattr(relay.RelayBatch, "_show", lambda self, row: never(row))
    batch.set_state(batch.get_state())
    monkeypatch.setattr("league.play.lanes.MAX_WAIT", 30)
    with pytest.raises(GuardError, match=r"relay, match 1\..*has not been to act for 30 steps"):
        collector.collect(20, 1)


def test_evaluation_is_its_matches_one_by_one() -> None:
    """Nets against each other and against a bot, both seatings: winners, points and steps are those of the twin."""
    nets = {f"net-{i}": Contestant(f"net-{i}", Digest(10 + i), "digest", f"net-{i}") for i in range(2)}
    pairs = [("net-0", "net-1"), ("net-1", "bot:first")]
    known = nets | {"bot:first": Contestant("bot:first")}
    pairings = [Pairing(known[a], known[b], 24, seed) for seed, (a, b) in enumerate(pairs)]
    rows = evaluation.play(
        lambda count: relay.make(count, 1, relay.Options()), pairings, Origin("e", "g"), update=1, greedy=True
    )
    assert len(rows) == 48
    for result in rows:
        salts = [-1 if agent == "bot:first" else 10 + int(agent[-1]) for agent in result.agents]
        assert play_one(result.seed, salts) == (result.winner, result.steps, list(result.rewards["points"]))


def play_one(seed: int, salts: list[int]) -> tuple[int, int, list[float]]:
    """One match between two nets, or bots of salt -1."""
    game = relay.make(1, 1, relay.Options())
    game.reset(np.array([seed], np.uint64))
    game.controllers[0] = [0 if salt < 0 else -1 for salt in salts]
    memory, points, steps = [0, 0], np.zeros(SEATS), 0
    while True:
        movers = np.flatnonzero(game.to_act[0]).tolist()
        for who in movers:
            if salts[who] >= 0:
                memory[who] = digest(memory[who], game.obs[0, who], DECIDED)
                game.actions[0, who] = choose(memory[who], salts[who], game.mask[0, who])
        game.step()
        steps, points = steps + 1, points + game.reward_terms[0, :, 0]
        if game.terminated[0] or game.truncated[0]:
            return int(game.result["winner"][0]), steps, points.tolist()
        for who in range(SEATS):
            if 1 - who in movers and not game.to_act[0, who]:
                memory[who] = digest(memory[who], game.obs[0, who], WATCHED)


def test_a_match_that_never_ends_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courses, "MAX_STEPS", 50)
    monkeypatch.setattr(relay, "length", lambda seed: 10**9)
    pairing = Pairing(Contestant("bot:first"), Contestant("bot:first"), 4, 3)
    with pytest.raises(UsageError, match="game relay: the match in row 0 has not ended after 50 steps; give the game"):
        evaluation.play(lambda count: relay.make(count, 1, relay.Options()), [pairing], Origin("e", "g"), update=1)


def test_a_run_of_a_game_in_turns_stops_and_goes_on(tmp_path: Path) -> None:
    rows = []
    sets = [*TINY, "rewards.points=1", "env.strict_masks=true", "run.evaluate_every=32"]
    for name in ("whole", "broken"):
        (tmp_path / name).mkdir()
        given: Any = {"env": "relay", "run": "r", "overrides": sets, "store": tmp_path / name / "league.duckdb"}
        if name == "whole":
            result = league.train("smoke", **given)
        else:
            with stopping(1):
                league.train("smoke", **given)
            result = league.resume("r", store=given["store"])
        assert (result.status, result.steps) == ("finished", 64)
        store = Store.open(given["store"])
        rows.append((result.newest, store.matches("r", "training"), store.matches("r", "evaluation")[-4:]))
    assert rows[0] == rows[1]
    assert {match.winner for match in rows[0][1]} <= {0, 1, DRAW}


@pytest.mark.parametrize("game", cases("relay", slow=["brawl"]))
def test_segments_stand_beside_each_other(game: str) -> None:
    """Three segments in one rollout are three rollouts of one update, row by row, and their matches are counted on."""
    first, second = (make_collector(game, rows=4, lanes=2) for _ in range(2))
    together = first.collect(30, 1, 3)
    for i in range(3):
        alone = second.collect(30, 1)
        rows = torch.arange(4 * i, 4 * i + 4)
        part = part_of(together, rows, None if alone.watched is None else len(alone.watched.obs))
        part.finished = alone.finished
        assert same(part, alone)
    assert same(first.collect(9, 2), second.collect(9, 2)), "play goes on alike"
    places = [(match.row, match.ordinal) for match in together.finished]
    assert len(set(places)) == len(places) > 4


def part_of(rollout: Rollout, rows: Tensor, width: int | None) -> Rollout:
    """Some rows of a rollout, with so many views of each."""
    names = ("obs", "mask", "action", "log_prob", "value", "reward", "next_value", "ends", "is_first")
    tensors = {name: x if x is None else x.index_select(1, rows) for name in names for x in [getattr(rollout, name)]}
    watched = None if rollout.watched is None or width is None else rollout.watched.select(rows)
    if watched is not None:
        assert (watched.before[width:] == rollout.obs.shape[0]).all()
        watched = Watched(watched.obs[:width], watched.before[:width])
    return Rollout(**tensors, state=rollout.state.select(rows), finished=[], watched=watched)


@pytest.fixture(autouse=True)
def _games(monkeypatch: pytest.MonkeyPatch) -> None:
    games = {"openhands": OpenHands.as_game(), "waltz": Waltz.as_game()}
    monkeypatch.setattr(registry, "_games", {**registry._games, **games})


@pytest.mark.parametrize(("game", "stack"), [("openhands", True), ("waltz", False)])
def test_learning_reads_the_tokens_of_play(game: str, stack: bool) -> None:
    collector = make_collector(game, 10, stack=stack, precision="highest")
    with products("highest"), torch.no_grad():
        collector.collect(13, 1)
        rollout = collector.collect(30, 2)
        log_prob, _, value = collector.policy.sequence(*segment(rollout))
        without, _, _ = collector.policy.sequence(*segment(rollout)[:-1])
    assert rollout.ends.any() and rollout.action.dtype == (torch.float32 if game == "waltz" else torch.int64)
    assert (log_prob.T - rollout.log_prob).abs().max() < 2e-5 and (value.T - rollout.value).abs().max() < 1e-5
    spec = collector.spec
    start, stop = spec.opponent_slice
    tokens = rollout.obs[..., start:stop]
    assert (tokens != 0).any() and (tokens == 0).all(-1).any()
    if game == "waltz":  # seat 1 goes twice, and seat 0 looks on
        assert rollout.watched is not None and (without.T - rollout.log_prob).abs().max() > 1e-4
        there = rollout.watched.before < 30
        seen = rollout.watched.obs[there][:, start:stop]
        assert len(seen) > 5 and (seen != 0).any(-1).all()
