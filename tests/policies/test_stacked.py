"""Stacked nets play what each of them plays alone, and their rows keep to themselves."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from league import config as settings
from league.play import opponents as module
from league.play.opponents import NO_SLOT, Opponents, crowded, stacked_shape
from league.policies.actor_critic import ActorCritic, ActorCriticState, Architecture
from league.policies.stacked import StackedPolicy
from league.pool.pool import Pool
from league.types import ActionSpec
from tests.helpers.ways import choose

HEADS = {"keys": ActionSpec("multi_binary", (2,) * 4), "choices": ActionSpec("multi_discrete", (3, 4))}
ROWS = 23
CPU = torch.device("cpu")


def nets(head: str, encoder: bool, dtype: torch.dtype) -> dict[str, ActorCritic]:
    """Three networks with every part of the full one, whose choices differ."""
    found = {}
    for i in range(3):
        torch.manual_seed(i)
        policy = ActorCritic(
            Architecture(12, (6, 12), HEADS[head], encoder, 2, 2, 16, 32, 7, 3, 16, 24, (12, 12), None, True)
        ).requires_grad_(False)
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # norms and biases too
        policy.actor[-1].weight.mul_(100)
        found[f"net-{i}"] = policy.to(dtype)
    return found


def opponents(policies: dict[str, ActorCritic], is_stacked: bool) -> Opponents:
    """The nets, stacked or not."""
    pool = Pool(settings.load().pool, policies.__getitem__, np.random.default_rng(0))
    return Opponents(pool, StackedPolicy(policies["net-0"], 1) if is_stacked else None, CPU)


def uneven(played: Opponents, counts: tuple[int, int, int] = (11, 1, 5)) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Slots of rows of which net-0, net-1 and net-2 play so many and a bot the rest, all mixed up."""
    names = [f"net-{i}" for i, count in enumerate(counts) for _ in range(count)]
    names += ["bot:x"] * (ROWS - len(names))
    order = np.random.default_rng(5).permutation(ROWS)
    slots = np.full(ROWS, NO_SLOT)
    for row in order:
        if names[row] != "bot:x":
            slots[row] = played.enter(names[row])
    return slots


def play(
    played: Opponents, state: ActorCriticState, obs: Tensor, mask: Tensor | None, *counts: tuple[int, int, int]
) -> tuple[Tensor, Any]:
    """The likeliest actions (T, ROWS, A) on obs (T, ROWS + 1, 12), each step's from the memory of those before it."""
    slots, actions = uneven(played, *counts), []
    for t in range(len(obs)):
        chosen = torch.full((ROWS + 1, played._pool.policy("net-0").architecture.action.num_parts), -1)
        for group in played.groups(slots):
            given = {"mask": None if mask is None else mask[t, group.rows], "rows": group.rows, "greedy": True}
            if group.num_slots:
                step = played._stack.step(obs[t, group.rows], state, num_slots=group.num_slots, **given)
            else:
                step = played._pool.policy(played.agents[group.slot]).step(obs[t, group.rows], state, **given)
            chosen[group.rows] = step[0]
        actions.append(chosen[:-1])
    return torch.stack(actions), slots


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("head", ["keys", "choices"])
@pytest.mark.parametrize("encoder", [True, False])
def test_stacked_nets_play_what_each_plays_alone(
    head: str, encoder: bool, dtype: torch.dtype, tolerance: float
) -> None:
    """Over 20 steps with masks and uneven groups, actions and what every row remembers are those of grouped play."""
    policies = nets(head, encoder, dtype)
    torch.manual_seed(0)
    obs = torch.randn(20, ROWS + 1, 12, dtype=dtype)
    mask = torch.rand(20, ROWS + 1, HEADS[head].mask_size) < 0.7
    mask[..., ::3] = True
    found = {}
    for is_stacked in (False, True):
        state = policies["net-0"].initial_state(ROWS + 1)
        actions, slots = play(opponents(policies, is_stacked), state, obs, mask)
        found[is_stacked] = actions, state.select(torch.arange(ROWS)).tensors()
    (actions, states), (stacked_actions, stacked_states) = found[False], found[True]
    assert torch.equal(actions, stacked_actions) and (actions[:, slots == NO_SLOT] == -1).all()
    assert len(actions[:, slots != NO_SLOT].unique()) > 1
    for name, expected in states.items():
        assert (expected - stacked_states[name]).abs().max() < tolerance, name
    assert states["hidden"][slots != NO_SLOT].abs().amin() > 0


def test_a_net_that_has_most_of_the_rows_plays_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """On CUDA it does not pad the others: at most twice the rows but for rounding, and what is played is the same."""
    cuda, policies = torch.device("cuda"), nets("keys", True, torch.float64)
    monkeypatch.setattr(module, "crowded", lambda counts, _: crowded(counts, cuda))
    obs, found = torch.randn(8, ROWS + 1, 12, dtype=torch.float64), []
    for is_stacked in (False, True):
        state, played = policies["net-0"].initial_state(ROWS + 1), opponents(policies, is_stacked)
        found.append(play(played, state, obs, None, (14, 2, 2))[0])
    assert torch.equal(*found)
    groups = played.groups(uneven(played, (14, 2, 2)))
    assert [(group.slot, group.num_slots, len(group.rows)) for group in groups] == [(NO_SLOT, 3, 6), (0, 0, 16)]
    weights = {x.data_ptr() for x in played.weights(groups)}
    assert weights == {x.data_ptr() for x in (*played._stack.tensors(), *policies["net-0"].parameters())}


@pytest.mark.parametrize(
    ("counts", "apart"),
    [([5], []), ([0, 0, 0, 5], [3]), ([2048, 1, 1, 1, 1, 1], [0]), ([4, 4, 4], []), ([900, 3, 1, 300], [0, 3, 1, 2])],
)
def test_who_plays_apart(counts: list[int], apart: list[int]) -> None:
    """The fullest first, until what is left has at most two entries a row; nobody on a CPU."""
    assert crowded(np.array(counts), torch.device("cuda")) == apart
    assert crowded(np.array(counts), CPU) == []


def test_log_probabilities_and_values_are_those_of_the_nets() -> None:
    """Beside actions a stacked call returns what each net does alone, also where a slot was given another net."""
    policies = list(nets("keys", True, torch.float64).values())
    stack = StackedPolicy(policies[0], 1)
    for slot, policy in ((0, policies[2]), (1, policies[1]), (0, policies[0]), (5, policies[2])):
        stack.reserve(slot + 1)
        stack.put(slot, policy)
    obs = torch.randn(4 * stack.num_slots, 12, dtype=torch.float64)
    state = policies[0].initial_state(len(obs))
    _, log_prob, value = stack.step(obs, state, num_slots=stack.num_slots, greedy=True)
    for slot, policy in ((0, policies[0]), (1, policies[1]), (5, policies[2])):
        rows = slice(4 * slot, 4 * slot + 4)
        _, expected_log_prob, expected = policy.step(obs[rows], policy.initial_state(4), greedy=True)
        assert (value[rows] - expected).abs().max() < 1e-10
        assert (log_prob[rows] - expected_log_prob).abs().max() < 1e-10


def test_rows_and_the_spare_row_do_not_leak() -> None:
    """Another row's observation, and whatever the spare row holds, change no bit of a row."""
    policies = nets("keys", True, torch.float32)
    obs = torch.randn(9, ROWS + 1, 12)
    other = obs.clone()
    other[:, 3] = -other[:, 3]
    states = [policies["net-0"].initial_state(ROWS + 1) for _ in range(2)]
    for tensor in (states[1].hidden, states[1].cell, states[1].memory.keys[0], states[1].memory.values[0]):
        tensor[ROWS] = float("nan")
    actions, _ = play(opponents(policies, True), states[0], obs, None)
    other_actions, slots = play(opponents(policies, True), states[1], other, None)
    rest = torch.tensor([row for row in range(ROWS) if row != 3])
    assert slots[3] != NO_SLOT and states[1].hidden[ROWS].isnan().all()
    assert torch.equal(actions[:, rest], other_actions[:, rest])
    for name, tensor in states[0].select(rest).tensors().items():
        assert torch.equal(tensor, states[1].select(rest).tensors()[name]), name
    assert not torch.equal(states[0].hidden[3], states[1].hidden[3])


def test_bf16_weights_play_what_autocast_plays() -> None:
    """Under bf16's autocast a stack of bf16 weights gives nearly the numbers of its nets in float32, and rounds."""
    policy = nets("keys", True, torch.float32)["net-1"]
    stack = StackedPolicy(policy, 1, "bf16")
    stack.put(0, policy)
    obs = torch.randn(6, 12)
    with torch.autocast("cpu", torch.bfloat16):
        states = [policy.initial_state(6) for _ in range(2)]
        for _ in range(9):
            stacked = stack.step(obs, states[0], num_slots=1, greedy=True)[2]
            alone = policy.step(obs, states[1], greedy=True)[2]
    exact_state = policy.initial_state(6)
    for _ in range(9):
        exact = policy.step(obs, exact_state, greedy=True)[2]
    assert states[0].memory.keys.dtype == torch.float32, "on a CPU attention computes in float32"
    assert (stacked - alone).abs().max() <= 0.02 * exact.abs().max()
    assert 0 < (stacked - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.parametrize("encoder", [True, False])
def test_weights_laid_out_for_tile_units_play_what_their_nets_play(
    encoder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stack for `float32` plays as its nets alone, to the products' sixteen bits, wherever a slot's net came from:
    put, put over another, or moved as the stack grew."""
    choose("tiles", monkeypatch)
    policies = list(nets("keys", encoder, torch.float32).values())
    stack = StackedPolicy(policies[2], 2, "float32")
    for slot, policy in ((0, policies[2]), (1, policies[1]), (0, policies[0]), (4, policies[2])):
        stack.reserve(slot + 1)
        stack.put(slot, policy)
    obs = torch.randn(7, 5 * 3, 12)
    state = policies[0].initial_state(15)
    values = torch.stack([stack.step(seen, state, num_slots=5, greedy=True)[2] for seen in obs])
    for slot, policy in ((0, policies[0]), (1, policies[1]), (4, policies[2])):
        rows, alone = slice(3 * slot, 3 * slot + 3), policy.initial_state(3)
        torch.set_float32_matmul_precision("highest")
        expected = torch.stack([policy.step(seen[rows], alone, greedy=True)[2] for seen in obs])
        error = (values[:, rows] - expected).abs().max()
        assert 0 < error < 2e-3 * expected.abs().max()
        assert (state.hidden[rows] - alone.hidden).abs().max() < 1e-3


def test_shapes_that_a_cuda_graph_is_made_for_seldom_change() -> None:
    """There slots, from the fourth on, and rows grow in steps; elsewhere nothing is played that need not be."""
    cuda = torch.device("cuda")
    assert [stacked_shape(nets, 13, cuda)[0] for nets in (1, 3, 4, 5, 8, 9)] == [1, 3, 4, 8, 8, 12]
    assert {stacked_shape(4, rows, cuda)[1] for rows in range(1, 33)} == {8, 16, 24, 32}
    assert all(stacked_shape(nets, nets + 1, CPU) == (nets, nets + 1) for nets in range(1, 33))
