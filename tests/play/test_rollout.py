"""Rollouts: matches and opponents change hands only at match ends, and what is stored is what was played."""

import copy
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

import league.play.graphs as module
from league.config import load
from league.envs import registry
from league.errors import LeagueError
from league.play import opponents
from league.play.graphs import CudaRecorder, StepGraphs
from league.play.nets import NetCalls
from league.play.opponents import NO_SLOT, Opponents, RowGroup, stacked_shape
from league.play.rollout import Collector, num_lanes
from league.policies.stacked import StackedPolicy
from league.pool.pool import Pool
from league.types import SEATS, Origin
from tests.helpers.capturing import Double, without_kernels
from tests.helpers.cases import cases
from tests.helpers.rollouts import BRAWL, WEIGHTS, make_collector, network, pool_config, same
from tests.helpers.stores import empty_store


def test_stored_reward_terms_are_a_recount_of_the_steps(tmp_path: Path) -> None:
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


def test_live_nets_stay_within_twice_the_targets() -> None:
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


@pytest.mark.parametrize("stack", cases(True, slow=[False]))
def test_overlapped_play_is_play_in_turn(stack: bool) -> None:
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
    "lanes, stack, joins", cases((2, True, True), (1, False, False), slow=[(2, False, False), (2, True, False)])
)
def test_lanes_and_stacks_replay_and_resume(lanes: int, stack: bool, joins: bool) -> None:
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
    config = load(overrides=[f"env.rows={rows}", f"learner.overlap={str(overlap).lower()}"])
    assert num_lanes(config, torch.device("cpu")) == lanes
    assert num_lanes(config, torch.device("cuda")) == (2 if overlap == "auto" else lanes)


class Stack:
    """A stack that keeps which net was put where."""

    def __init__(self, num_slots: int) -> None:
        self.num_slots = num_slots
        self.nets: dict[int, Any] = {}

    def reserve(self, num_slots: int) -> None:
        self.num_slots = max(self.num_slots, num_slots)

    def put(self, slot: int, policy: Any) -> None:
        """A net in a slot that there is."""
        assert slot < self.num_slots
        self.nets[slot] = policy


class Nets:
    """A pool whose nets are their names."""

    guests = ()

    def policy(self, agent_id: str) -> Any:
        return agent_id


@pytest.mark.parametrize(("num_rows", "live_nets"), [(64, 4), (1000, 16), (2048, 16), (3, 4)])
@pytest.mark.parametrize("is_skewed", [False, True])
def test_each_seat_has_one_entry_of_its_net(num_rows: int, live_nets: int, is_skewed: bool) -> None:
    stack, rng = Stack(2 * live_nets), np.random.default_rng(num_rows)
    played: Any = Opponents(Nets(), stack, torch.device("cpu"), "me", num_rows, joins=True)  # type: ignore[arg-type]
    played.refresh()
    names = [f"net-{i}" for i in range(2 * live_nets)]
    weights = np.array([50.0, *[1.0] * (len(names) - 1)]) if is_skewed else np.ones(len(names))
    slots, seats = np.full(num_rows, NO_SLOT), rng.integers(0, SEATS, num_rows)
    own = np.arange(num_rows) * SEATS + seats
    for _ in range(20):
        for row in np.flatnonzero(rng.random(num_rows) < 0.5):
            is_bot = rng.random() < 0.05
            slot = NO_SLOT if is_bot else played.enter(str(rng.choice(names, p=weights / weights.sum())))
            played.leave(int(slots[row]))
            slots[row] = slot
        (group,) = played.joined(slots, own, with_learner=True)
        width = len(group.rows) // group.num_slots
        assert group.num_slots <= stack.num_slots and group.seats is not None and group.where is not None
        assert torch.equal(group.rows[:num_rows], torch.arange(num_rows)), "the learner's rows come first"
        for row in range(num_rows):
            mine, theirs = int(group.where[own[row]]), int(group.where[own[row] ^ 1])
            assert int(group.rows[mine]) == row and int(group.seats[mine]) == own[row]
            assert stack.nets[mine // width] == "me"
            if slots[row] != NO_SLOT:
                assert int(group.rows[theirs]) == num_rows + row and int(group.seats[theirs]) == own[row] ^ 1
                assert stack.nets[theirs // width] == played.agents[slots[row]]
        num_played = num_rows + int((slots != NO_SLOT).sum())
        assert int((group.rows < 2 * num_rows).sum()) == num_played, "each once; the others are the spare row"
        assert num_rows < 8 or len(group.rows) <= 2.3 * num_played


def collector_of(num_nets: int, live_nets: int, num_slots: int, joins: bool = False) -> Collector:
    """Two overlapping lanes that play frozen nets alone, stacked in so many slots to begin with."""
    nets = {f"net-{i}": network("brawl", BRAWL, 10 + i).requires_grad_(False) for i in range(num_nets)}
    config = pool_config(mix={"self_play": 1.0}, live_nets=live_nets)
    pool = Pool(config, nets.__getitem__, np.random.default_rng(0))
    for agent_id in nets:
        pool.admit(agent_id)
    pool.refresh_targets(set())
    return Collector(
        [registry.make("brawl", rows=6, threads=1, options=BRAWL) for _ in range(2)],
        network("brawl", BRAWL, 0),
        pool,
        NetCalls(torch.Generator().manual_seed(0), stack=StackedPolicy(nets["net-0"], num_slots), joins=joins),
        weights=WEIGHTS,
        origin=Origin("me", "g"),
    )


def with_graphs(collector: Collector) -> Double:
    double = Double(collector.generator)
    graphs: Any = StepGraphs(collector.generator, "float32", print, double)
    for lane in collector.lanes:
        lane.nets.graphs = graphs
    return double


@pytest.fixture
def as_on_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nets play by torch's own operations, which a dispatch mode sees, in the padded shapes that CUDA has."""
    cuda = torch.device("cuda")
    monkeypatch.setattr(opponents, "stacked_shape", lambda nets, rows, _: stacked_shape(nets, rows, cuda))
    without_kernels(monkeypatch)


def start(collector: Collector) -> None:
    """Begins the matches, those of the second lane earlier, so that its matches end while those of the first go on."""
    collector.start(1)
    for _ in range(13):
        collector.lanes[1].batch.step()


def play_on(collectors: list[Collector], updates: int) -> None:
    """Plays all of them alike, with new targets before each update."""
    for update in range(1, updates + 1):
        rollouts = [collector.collect(12, update) for collector in collectors]
        assert all(same(rollouts[0], rollout) for rollout in rollouts[1:])
        for collector in collectors:
            collector.pool.refresh_targets(collector.opponents_in_use())


@pytest.mark.parametrize("joins", cases(True, slow=[False]))
def test_a_run_with_fewer_live_nets_replays_what_was_captured(as_on_cuda: None, joins: bool) -> None:
    first = collector_of(8, 5, 10, joins)
    start(first)
    play_on([first], 8)
    resumed = [collector_of(8, 1, 2, joins) for _ in range(2)]
    double = with_graphs(resumed[1])
    for collector in resumed:
        collector.pool.load_state_dict(first.pool.state_dict())
        collector.load_state_dict(first.state_dict())
    play_on(resumed, 6)
    assert double.replays > 0


def group(rows: list[int]) -> RowGroup:
    return RowGroup(-1, torch.tensor(rows), 1)


def test_a_tensor_that_moved_drops_every_graph_that_read_it() -> None:
    generator = torch.Generator()
    double = Double(generator)
    graphs: StepGraphs[Any, Any] = StepGraphs(generator, "float32", print, double)
    shared, own = [torch.ones(3)], torch.ones(3)

    def either(groups: list[RowGroup]) -> list[Tensor]:
        return [shared[0][groups[0].rows] * 2]

    def alone(groups: list[RowGroup]) -> list[Tensor]:
        return [own[groups[0].rows] * 3]

    def call(key: str) -> Tensor:
        nets, reads = (alone, [own]) if key == "alone" else (either, shared)
        return graphs.call(key, nets, [group([2, 0])], reads)[0]

    for _ in range(3):
        assert [float(call(key).sum()) for key in ("a", "b", "alone")] == [4, 4, 6]
    assert double.captures == 3 and double.replays == 6
    shared[0] = torch.full((3,), 5.0)
    assert float(call("a").sum()) == 20 and set(graphs._known) == {"a", "alone"}
    for _ in range(3):
        assert [float(call(key).sum()) for key in ("a", "b", "alone")] == [20, 20, 6]
    assert double.captures == 5


class Philox(torch.Generator):
    """A generator that torch 2.6 to 2.12 would have on CUDA: once a capture begins, it draws in captures alone, until
    one ends well or it is given the state of another."""

    is_captured = False

    def draw(self, number: int) -> Tensor:
        if self.is_captured != (Capture.current is not None):
            raise RuntimeError("Offset increment outside graph capture encountered unexpectedly.")
        return torch.rand(number, generator=self)

    def graphsafe_set_state(self, other: torch.Generator) -> None:
        """Takes over the state of `other`, with all that belongs to it."""
        self.set_state(other.get_state())
        self.is_captured = False


class Graph:
    """`torch.cuda.CUDAGraph` as far as captures go."""

    def register_generator_state(self, generator: Philox) -> None:
        """What is drawn in the graph comes from it."""
        self.generator = generator


class Capture:
    """`torch.cuda.graph` as it fails: leaving it raises another error and restores neither stream nor generator."""

    current: "Capture | None" = None

    def __init__(self, graph: Graph, **_: Any) -> None:
        self.graph = graph

    def __enter__(self) -> None:
        Capture.current, Device.stream = self, "the capture's"
        self.graph.generator.is_captured = Device.is_allocating = True

    def __exit__(self, *error: object) -> None:
        Capture.current = None
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture\nmore")


class Device:
    """What a process has one of: the current stream, and whether the allocator believes in a capture."""

    stream, is_allocating = "the default", False


@pytest.fixture
def failing_cuda(monkeypatch: pytest.MonkeyPatch) -> None:

    def end(device: int, memory: object) -> None:
        if not Device.is_allocating:
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")
        Device.is_allocating = False

    for name, there in {
        "graph_pool_handle": lambda: (0, 1),
        "current_stream": lambda _: Stream(Device.stream),
        "set_stream": lambda stream: setattr(Device, "stream", stream.name),
        "CUDAGraph": Graph,
        "graph": Capture,
    }.items():
        monkeypatch.setattr(torch.cuda, name, there)
    monkeypatch.setattr(torch._C, module.END_ALLOCATION[0], end, raising=False)
    monkeypatch.setattr(Capture, "current", None)
    monkeypatch.setattr(Device, "stream", "the default")


class Stream:
    """`torch.cuda.Stream` as far as names go."""

    device_index = 0

    def __init__(self, name: str) -> None:
        self.name = name


@pytest.mark.parametrize("fails_in_work", [True, False])
def test_a_capture_that_fails_leaves_plain_calls_that_work(failing_cuda: None, fails_in_work: bool) -> None:
    said: list[str] = []
    generator, plain = (Philox().manual_seed(3) for _ in range(2))
    graphs: StepGraphs[Any, Any] = StepGraphs(generator, "float32", said.append, CudaRecorder(generator, "float32"))

    def nets(groups: list[RowGroup]) -> list[Tensor]:
        drawn = [generator.draw(4)]
        if Capture.current is not None and fails_in_work:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")
        return drawn

    for _ in range(5):
        drawn = graphs.call("a", nets, [group([0])], [])[0]
        assert torch.equal(drawn, torch.rand(4, generator=plain))
    assert Device.stream == "the default" and not Device.is_allocating
    cause = (
        "operation not permitted when stream is capturing" if fails_in_work else "operation failed due to a previous"
    )
    assert len(said) == 1 and f"no CUDA graph can be made (CUDA error: {cause}" in said[0]
