"""Captured steps: replayed only on the addresses that were captured, and given up without harm where they fail."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import league.play.graphs as module
from league.envs import registry
from league.play import opponents
from league.play.graphs import CudaRecorder, StepGraphs
from league.play.nets import NetCalls
from league.play.opponents import FixedGroups, RowGroup, stacked_shape
from league.play.rollout import Collector
from league.policies.stacked import StackedPolicy
from league.pool.pool import Pool
from league.types import Origin
from tests.helpers.capturing import Double, without_kernels
from tests.helpers.cases import cases
from tests.helpers.rollouts import BRAWL, WEIGHTS, make_collector, network, pool_config, same


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
    """Lets its lanes replay their steps."""
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


@pytest.mark.slow
@pytest.mark.parametrize("joins", [False, True])
def test_replays_read_what_was_captured_however_the_stack_grows(as_on_cuda: None, joins: bool) -> None:
    """Two lanes replay, bit for bit what plain calls play, while one of them makes the stack of both move."""
    plain, replayed = (collector_of(8, 3, 6, joins) for _ in range(2))
    double = with_graphs(replayed)
    for collector in (plain, replayed):
        start(collector)
    play_on([plain, replayed], 1)
    while double.replays < 10:
        play_on([plain, replayed], 1)
    before = replayed.nets._stack.num_slots
    play_on([plain, replayed], 10)
    assert replayed.nets._stack.num_slots > before, "the stack must have moved"
    assert double.replays > 4 * double.captures


@pytest.mark.parametrize("joins", cases(True, slow=[False]))
def test_a_run_with_fewer_live_nets_replays_what_was_captured(as_on_cuda: None, joins: bool) -> None:
    """A state with more nets than the stack of a resumed run has room for is played on bit for bit."""
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
    """A stacked group."""
    return RowGroup(-1, torch.tensor(rows), 1)


def test_a_tensor_that_moved_drops_every_graph_that_read_it() -> None:
    """What is not read any more is held by no graph; calls whose tensors lie where they lay are replayed."""
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


def test_groups_of_one_shape_take_turns() -> None:
    """Rows that come again after others of the same shape are played as they were given, by the one graph of both."""
    generator, seen = torch.Generator(), torch.arange(8.0)
    double, fixed = Double(generator), FixedGroups()
    graphs: StepGraphs[Any, Any] = StepGraphs(generator, "float32", print, double)
    given = [[group([0, 1])], [group([2, 3])], [group([5, 4])]]

    def nets(groups: list[RowGroup]) -> list[Tensor]:
        return [seen[groups[0].rows] * 1]

    for which in (0, 1, 0, 0, 2, 1, 0, 2):
        found = graphs.call("a", nets, fixed.hold("a", given[which]), [seen])[0]
        assert found.tolist() == given[which][0].rows.tolist()
    assert double.captures == 1 and [g[0].rows.tolist() for g in given] == [[0, 1], [2, 3], [5, 4]]


@pytest.mark.slow
def test_games_in_turns_replay_what_plain_calls_play(as_on_cuda: None) -> None:
    """Of the card duel, where different rows of one shape wait for a reply again and again."""
    plain, replayed = (make_collector("cards", rows=8, stack=True) for _ in range(2))
    double = with_graphs(replayed)
    play_on([plain, replayed], 4)
    assert double.replays > 4 * double.captures > 0


class Philox(torch.Generator):
    """A generator that torch 2.6 to 2.12 would have on CUDA: once a capture begins, it draws in captures alone, until
    one ends well or it is given the state of another."""

    is_captured = False

    def draw(self, number: int) -> Tensor:
        """`torch.rand` with it."""
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
    """CUDA whose captures fail."""

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
    """Draws go on as if no capture had been tried, on the stream of before; one line tells the cause."""
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


def test_a_capture_without_memory_leaves_a_generator_to_save(failing_cuda: None) -> None:
    """Out of memory is raised, and what is saved then is the state before the step."""
    generator = Philox().manual_seed(3)
    graphs: StepGraphs[Any, Any] = StepGraphs(generator, "float32", print, CudaRecorder(generator, "float32"))

    def nets(groups: list[RowGroup]) -> list[Tensor]:
        drawn = [generator.draw(4)]
        if Capture.current is not None:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return drawn

    graphs.call("a", nets, [group([0])], [])
    before = generator.get_state()
    with pytest.raises(torch.OutOfMemoryError):
        graphs.call("a", nets, [group([0])], [])
    assert torch.equal(generator.get_state(), before) and not generator.is_captured
    assert Device.stream == "the default"
