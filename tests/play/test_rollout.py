"""Rollouts: matches and opponents change hands only at match ends, and what is stored is what was played."""

import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

from league.config import load
from league.errors import LeagueError
from league.play.graphs import StepGraphs
from league.play.opponents import NO_SLOT
from league.play.rollout import num_lanes
from league.pool.pool import Pool
from league.types import EXTERNAL
from tests.helpers.cases import cases
from tests.helpers.rollouts import WEIGHTS, make_collector, pool_config, same
from tests.helpers.stores import empty_store


def test_opponent_and_seat_change_only_at_a_match_end() -> None:
    """No row changes its opponent, its learner's seat or its controllers between a match's start and its end."""
    collector = make_collector()
    batch = collector.lanes[0].batch
    swaps = 0
    for step in range(150):
        before = (
            list(collector.lanes[0].matches.opponents),
            collector.lanes[0].matches.seats.copy(),
            batch.controllers.copy(),
        )
        rollout = collector.collect(1, step + 1)
        ended = rollout.ends[0].numpy()
        assert 0 <= ended.sum() < batch.num_rows, "rows end at different times, or the test proves little"
        for row in range(batch.num_rows):
            now = (
                collector.lanes[0].matches.opponents[row],
                collector.lanes[0].matches.seats[row],
                batch.controllers[row].tolist(),
            )
            if ended[row]:
                assert now[1] == 1 - before[1][row], "the learner takes the other seat in its next match"
                swaps += now[0] != before[0][row]
            else:
                assert now == (before[0][row], before[1][row], before[2][row].tolist())
            seat, is_bot = int(collector.lanes[0].matches.seats[row]), now[0].startswith("bot:")
            assert batch.controllers[row, seat] == EXTERNAL
            assert (batch.controllers[row, 1 - seat] == EXTERNAL) != is_bot
    assert swaps > 10


def test_memory_is_cleared_for_both_seats_at_a_match_end() -> None:
    """Where a match begins, both sides' LSTM and token counts are zero; elsewhere the learner's are not."""
    collector = make_collector()
    seen = 0
    for step in range(100):
        ended = collector.collect(1, step + 1).ends[0]
        lane = collector.lanes[0]
        for state in (lane.nets.state, lane.nets.opponent_state):
            tensors = state.select(torch.arange(12)).tensors()
            assert not tensors["hidden"][ended].any() and not tensors["count"][ended].any()
        assert collector.lanes[0].nets.state.tensors()["count"][~ended].all()
        seen += int(ended.sum())
    assert seen > 10


def test_replaying_a_rollout_gives_the_log_probabilities_of_play() -> None:
    """Before the first optimiser step, `sequence` agrees with play to 1e-5 on a real rollout with ends inside."""
    collector = make_collector()
    collector.collect(17, 1)
    rollout = collector.collect(40, 2)
    assert rollout.ends[:-1].any() and rollout.mask is not None
    with torch.no_grad():
        log_prob, _, value = collector.policy.sequence(
            rollout.obs.transpose(0, 1),
            rollout.action.transpose(0, 1),
            rollout.state,
            rollout.is_first.transpose(0, 1),
            rollout.mask.transpose(0, 1),
        )
    assert (log_prob.T - rollout.log_prob).abs().max() < 1e-5
    assert (value.T - rollout.value).abs().max() < 1e-5


def test_bf16_plays_and_replays_close_to_float32() -> None:
    """Under bf16 autocast play and replay differ by rounding only, and the stored numbers stay float32."""
    collector = make_collector(precision="bf16")
    rollout = collector.collect(30, 1)
    assert rollout.log_prob.dtype == rollout.value.dtype == rollout.next_value.dtype == torch.float32
    arrays = (rollout.obs, rollout.action, rollout.is_first, rollout.mask)
    obs, action, is_first, mask = (x.transpose(0, 1) for x in arrays if x is not None)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        log_prob, _, _ = collector.policy.sequence(obs, action, rollout.state, is_first, mask)
    with torch.no_grad():
        exact, _, _ = collector.policy.sequence(obs, action, rollout.state, is_first, mask)
    assert 0 < (log_prob.T - exact.T).abs().max() < 0.05
    assert (log_prob.T - rollout.log_prob).abs().max() < 0.05


def test_rewards_are_the_weighted_terms_of_the_learners_seat() -> None:
    """The rewards of a match sum to its stored terms times the weights, and nothing leaks over its end."""
    collector = make_collector(rows=4)
    rollout = collector.collect(120, 1)
    checked = 0
    for row in range(4):
        ends = rollout.ends[:, row].nonzero()[:, 0].tolist()
        results = [result for result in rollout.finished if result.row == row]
        assert len(ends) == len(results) and [r.ordinal for r in results] == list(range(len(ends)))
        for start, end, result in zip([0, *(e + 1 for e in ends)], ends, results, strict=False):
            seat = result.agents.index("me")
            expected = sum(WEIGHTS.get(term, 0.0) * pair[seat] for term, pair in result.rewards.items())
            assert rollout.reward[start : end + 1, row].sum().item() == pytest.approx(expected, abs=1e-4)
            assert result.steps == end + 1 - start
            assert result.rewards["damage_dealt"][seat] * 100 == pytest.approx(result.metrics["damage_dealt"][seat])
            checked += 1
    assert checked >= 8


def test_stored_reward_terms_are_a_recount_of_the_steps(tmp_path: Path) -> None:
    """SQL finds for both seats of every training match the sums of its steps' terms."""
    collector = make_collector(rows=6)
    terms = collector.lanes[0].batch.spec.reward_terms
    store = empty_store(tmp_path)
    sums = np.zeros((6, 2, len(terms)))
    recount: dict[tuple[int, int], Any] = {}
    for update in range(1, 121):
        rollout = collector.collect(1, update)
        store.add_matches(rollout.finished)
        sums += collector.lanes[0].batch.reward_terms
        for row in rollout.ends[0].nonzero()[:, 0].tolist():
            recount[update, row] = sums[row].copy()
            sums[row] = 0
    store.flush(force=True)
    assert len(recount) > 12
    for i, term in enumerate(terms):
        columns = f"\"update\", \"row\", rewards['{term}'][1], rewards['{term}'][2]"
        _, rows = store.query(f"SELECT {columns} FROM match WHERE kind = 'training'")
        assert {(u, r): [a, b] for u, r, a, b in rows} == {key: sums[:, i].tolist() for key, sums in recount.items()}
    fired = np.any(list(recount.values()), axis=0)  # (S, R)
    assert fired.any(axis=0).sum() > len(terms) / 2


@pytest.mark.parametrize("continuing", [True, False])
def test_cut_matches_are_bootstrapped_and_ended_ones_are_not(continuing: bool) -> None:
    """At a cut the next value is the policy's estimate of the last observation under the match's memory; else 0."""
    collector = make_collector("matrix", rows=6, rounds=7, continuing=continuing)
    for step in range(6):
        collector.collect(1, step + 1)
    state = collector.lanes[0].nets.state.select(None)
    policy = collector.policy
    obs = torch.from_numpy(collector.lanes[0].batch.obs)[
        torch.arange(6), torch.from_numpy(collector.lanes[0].matches.seats)
    ]
    seats = torch.from_numpy(collector.lanes[0].matches.seats.copy())
    rollout = collector.collect(1, 7)
    assert rollout.ends.all()
    policy.step(obs, state, greedy=True)
    last = torch.from_numpy(collector.lanes[0].batch.final_obs)[torch.arange(6), seats]
    expected = policy.value(last, state) if continuing else torch.zeros(6)
    assert torch.allclose(rollout.next_value[0], expected, atol=1e-6)
    assert continuing == bool(rollout.next_value.any())


def test_next_values_are_those_of_the_state_reached() -> None:
    """Within a match a step's next value is the value of the following step, the rollout's end included."""
    collector = make_collector()
    rollout, following = collector.collect(20, 1), collector.collect(1, 2)
    inside = ~rollout.ends[:-1]
    assert torch.equal(rollout.next_value[:-1][inside], rollout.value[1:][inside])
    alive = ~rollout.ends[-1]
    assert torch.allclose(rollout.next_value[-1][alive], following.value[0][alive], atol=1e-6)


def test_same_seed_same_rollout_and_another_seed_another() -> None:
    """Everything drawn comes from the seeds given."""
    a, b, c = (make_collector(seed=seed).collect(30, 1) for seed in (1, 1, 2))
    assert torch.equal(a.obs, b.obs) and torch.equal(a.action, b.action) and a.finished == b.finished
    assert not torch.equal(a.action, c.action)


def test_restored_collector_plays_on_bit_for_bit() -> None:
    """A collector given another's state, mid-match, plays the very same next steps."""
    first = make_collector(seed=1)
    first.collect(25, 1)
    state = copy.deepcopy(first.state_dict())
    pool = first.pool.state_dict()
    expected = first.collect(40, 2)
    second = make_collector(seed=5)
    second.policy.load_state_dict(first.policy.state_dict())
    second.pool.load_state_dict(pool)
    second.load_state_dict(state)
    resumed = second.collect(40, 2)
    assert torch.equal(expected.obs, resumed.obs) and torch.equal(expected.log_prob, resumed.log_prob)
    assert torch.equal(expected.reward, resumed.reward) and expected.finished == resumed.finished


def test_live_nets_stay_within_twice_the_targets() -> None:
    """New targets come only when every other net has drained; rows then meet targets only; at most 2K nets live."""
    loaded: list[str] = []
    pool = Pool(pool_config(live_nets=3), lambda agent_id: loaded.append(agent_id), np.random.default_rng(0))
    rng = np.random.default_rng(1)
    rows = ["bot:random"] * 10
    changes = 0
    for step in range(400):
        if step % 5 == 0:
            pool.admit(f"s{step}")
        targets = list(pool.targets)
        strays = set(pool.live) & set(rows) - set(targets)
        pool.refresh_targets(set(rows))
        if strays:
            assert pool.targets == targets, "targets changed while a net outside them was still played"
        changes += pool.targets != targets
        row = int(rng.integers(10))
        rows[row] = pool.draw()
        assert rows[row] == "bot:random" or rows[row] in pool.targets
        if rows[row] != "bot:random":
            pool.policy(rows[row])
        assert len(pool.live) <= 6 and len(pool.targets) == 3
        assert len(set(pool.targets)) == min(3, len(pool.snapshots))
    assert changes > 20 and len(set(loaded)) > 20


def test_opponents_follow_the_mix_and_the_sampler() -> None:
    """Shares of the draws are those of the mix; `latest` and `recent` never reach behind their window."""
    for sampler, reachable in (("uniform", range(20)), ("recent", range(15, 20)), ("latest", [19])):
        mix = {"self_play": 0.8, "bot:based": 0.15, "bot:constant": 0.05}
        config = pool_config(mix=mix, sampler=sampler, recent_window=5, live_nets=4)
        pool = Pool(config, lambda agent_id: None, np.random.default_rng(0))
        for i in range(20):
            pool.admit(str(i))
        met: set[str] = set()
        drawn: list[str] = []
        for _ in range(200):
            pool.refresh_targets(set())
            met |= set(pool.targets)
            drawn += [pool.draw() for _ in range(20)]
        assert met == {str(i) for i in reachable}
        for group, share in mix.items():
            found = sum(pool.group_of(opponent) == group for opponent in drawn) / len(drawn)
            assert abs(found - share) < 4 * (share * (1 - share) / len(drawn)) ** 0.5


@pytest.mark.parametrize("stack", cases(True, slow=[False]))
def test_overlapped_play_is_play_in_turn(stack: bool) -> None:
    """Two lanes whose games run in a worker thread give, bit for bit, the rollouts of both in turn in one thread."""
    overlapped, in_turn = (make_collector(lanes=2, stack=stack) for _ in range(2))
    in_turn.worker = None
    for update in (1, 2):
        a, b = (collector.collect(60, update) for collector in (overlapped, in_turn))
        assert same(a, b)
    rows = {result.row for result in a.finished}
    assert min(rows) < 6 <= max(rows) and [r.seed for r in a.finished if r.row < 6] != [
        r.seed for r in a.finished if r.row >= 6
    ]
    one_lane = make_collector(stack=stack).collect(60, 1)
    assert not torch.equal(one_lane.obs, a.obs), "it is not what one lane plays: matches have other seeds"


@pytest.mark.parametrize(
    "lanes, stack, joins", cases((2, True, True), slow=[(2, False, False), (1, True, False), (2, True, False)])
)
def test_lanes_and_stacks_replay_and_resume(lanes: int, stack: bool, joins: bool) -> None:
    """In each form the log-probabilities are those of a replay, and a restored collector plays on bit for bit."""
    first = make_collector(lanes=lanes, stack=stack, joins=joins)
    first.collect(17, 1)
    state, pool = copy.deepcopy(first.state_dict()), first.pool.state_dict()
    rollout = first.collect(40, 2)
    arrays = (rollout.obs, rollout.action, rollout.is_first, rollout.mask)
    obs, action, is_first, mask = (x.transpose(0, 1) for x in arrays if x is not None)
    with torch.no_grad():
        log_prob, _, _ = first.policy.sequence(obs, action, rollout.state, is_first, mask)
    assert rollout.ends[:-1].any() and (log_prob.T - rollout.log_prob).abs().max() < 1e-5
    second = make_collector(seed=5, lanes=lanes, stack=stack, joins=joins)
    second.policy.load_state_dict(first.policy.state_dict())
    second.pool.load_state_dict(pool)
    second.load_state_dict(state)
    assert same(second.collect(40, 2), rollout)


@pytest.mark.parametrize("joins", [False, True])
def test_stacked_opponents_are_the_nets_that_rows_play(joins: bool) -> None:
    """In a real rollout every row's frozen net wrote the memory that this net alone writes from what it saw."""
    collector = make_collector(stack=True, joins=joins, rows=12)
    collector.collect(30, 1)
    lane = collector.lanes[0]
    before, own = lane.nets.opponent_state.select(None), lane.nets.state.select(None)
    view, opponents = lane.nets.view.obs.clone(), list(lane.matches.opponents)
    slots = lane.matches.slots.copy()
    step = lane.nets.step()
    checked = set()
    _, _, value = collector.policy.step(view[np.arange(12), lane.matches.seats], own, greedy=True)
    assert (value - step.value).abs().max() < 1e-6 and (own.hidden - lane.nets.state.hidden).abs().max() < 1e-6
    assert np.array_equal(lane.batch.actions[np.arange(12), lane.matches.seats], step.action)
    for row in np.flatnonzero(slots != NO_SLOT):
        seen = view[row, 1 - lane.matches.seats[row]][None]
        net = collector.pool.policy(opponents[row])
        net.step(seen, before, rows=torch.tensor([row]))
        assert (before.hidden[row] - lane.nets.opponent_state.hidden[row]).abs().max() < 1e-6
        checked.add(opponents[row])
    assert len(checked) > 1
    bots = [row for row in range(12) if slots[row] == NO_SLOT]
    assert torch.equal(before.hidden[bots], lane.nets.opponent_state.hidden[bots])


def test_an_error_in_a_game_of_the_worker_ends_the_rollout() -> None:
    """What goes wrong in the other thread is raised by `collect`, and no game goes on after it."""
    collector = make_collector(lanes=2)
    stepped: list[int] = []

    def broken() -> None:
        stepped.append(1)
        if len(stepped) == 3:
            raise LeagueError("the game is broken")

    collector.lanes[1].batch = cast(Any, Fails(collector.lanes[1].batch, broken))
    with pytest.raises(LeagueError, match="the game is broken"):
        collector.collect(10, 1)
    assert len(stepped) == 3


class Fails:
    """A batch with a step of one's own."""

    def __init__(self, batch: Any, step: Any) -> None:
        self._batch, self.step = batch, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)


@pytest.mark.parametrize("overlap, rows, lanes", [(True, 64, 2), (True, 65, 1), (True, 1, 1), ("auto", 2_048, 1)])
def test_rows_that_cannot_be_halved_play_in_one_lane(overlap: Any, rows: int, lanes: int) -> None:
    """Odd rows and a single one fall back to one batch; a CPU overlaps only when told to."""
    config = load(overrides=[f"env.rows={rows}", f"learner.overlap={str(overlap).lower()}"])
    assert num_lanes(config, torch.device("cpu")) == lanes
    assert num_lanes(config, torch.device("cuda")) == (2 if overlap == "auto" else lanes)


def test_steps_run_as_they_are_where_there_are_no_graphs() -> None:
    """On a CPU the setting says so in one line and changes no bit."""
    said: list[str] = []
    a, b = make_collector(lanes=2, stack=True), make_collector(lanes=2, stack=True)
    for lane in b.lanes:
        lane.nets.graphs = StepGraphs(b.generator, "float32", said.append)
    assert same(a.collect(20, 1), b.collect(20, 1))
    assert said == ["learner.compile: cpu has no CUDA graphs; steps run as they are"] * 2
