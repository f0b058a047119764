"""Stacked nets play what each of them plays alone; nets of parts are in test_parts.py."""

from typing import Any

import pytest
import torch

from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.stacked import StackedPolicy
from league.types import ActionSpec
from tests.helpers.ways import choose

HEADS = {"keys": ActionSpec("multi_binary", (2,) * 4), "choices": ActionSpec("multi_discrete", (3, 4))}


def nets(head: str, encoder: bool, dtype: torch.dtype = torch.float32) -> list[ActorCritic]:
    """Three networks with every part of the full one, whose choices differ."""
    found = []
    for seed in range(3):
        torch.manual_seed(seed)
        sizes = (encoder, 2, 2, 16, 32, 7, 3, 16, 24, (12, 12), None, True)
        policy = ActorCritic(Architecture(12, (6, 12), HEADS[head], *sizes)).requires_grad_(False)
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # norms and biases too
        policy.actor[-1].weight.mul_(100)
        found.append(policy.to(dtype))
    return found


def stacked(policies: list[ActorCritic], *precision: str) -> StackedPolicy:
    """Nets 0, 1 and 2 in slots 0, 1 and 4: put, put over another, or moved as the stack grew."""
    stack = StackedPolicy(policies[2], 2, *precision)
    for slot, net in ((0, 2), (1, 1), (0, 0), (4, 2)):
        stack.reserve(slot + 1)
        stack.put(slot, policies[net])
    return stack


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize(
    ("head", "dtype", "way", "tolerance"),
    [
        ("keys", torch.float64, None, 1e-10),
        ("choices", torch.float64, None, 1e-10),
        ("choices", torch.float32, None, 1e-4),
        ("keys", torch.float32, "tiles", 2e-3),
    ],
)
def test_stacked_nets_play_what_each_plays_alone(
    head: str, dtype: torch.dtype, way: str | None, tolerance: float, encoder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several steps with masks: actions, log-probabilities, values, memory; by tile units to sixteen bits."""
    policies = nets(head, encoder, dtype)
    if way:
        choose(way, monkeypatch)
    stack = stacked(policies, *(("float32",) if way else ()))
    obs, mask = torch.randn(7, 15, 12, dtype=dtype), torch.rand(7, 15, HEADS[head].mask_size) < 0.7
    mask[..., ::3] = True
    state, alone = policies[0].initial_state(15), [policy.initial_state(3) for policy in policies]
    how: dict[str, Any] = {"greedy": True}
    together = [stack.step(x, state, num_slots=5, mask=m, **how) for x, m in zip(obs, mask, strict=True)]
    torch.set_float32_matmul_precision("highest")
    for slot, net in ((0, 0), (1, 1), (4, 2)):
        rows = slice(3 * slot, 3 * slot + 3)
        for t, found in enumerate(together):
            wanted = policies[net].step(obs[t, rows], alone[net], mask=mask[t, rows], **how)
            assert (found[2][rows] - wanted[2]).abs().max() < tolerance * max(1.0, float(wanted[2].abs().max()))
            if way is None:
                assert torch.equal(found[0][rows], wanted[0])
                assert (found[1][rows] - wanted[1]).abs().max() < 100 * tolerance
        assert (state.hidden[rows] - alone[net].hidden).abs().max() < max(tolerance, 1e-10)


def test_bf16_weights_play_what_autocast_plays() -> None:
    """Under bf16's autocast a stack of bf16 weights gives nearly the numbers of its nets in float32, and rounds."""
    policy = nets("keys", True)[1]
    stack = StackedPolicy(policy, 1, "bf16")
    stack.put(0, policy)
    obs, states = torch.randn(6, 12), [policy.initial_state(6) for _ in range(3)]
    for _ in range(9):
        with torch.autocast("cpu", torch.bfloat16):
            found = stack.step(obs, states[0], num_slots=1, greedy=True)[2]
            alone = policy.step(obs, states[1], greedy=True)[2]
        exact = policy.step(obs, states[2], greedy=True)[2]
    assert states[0].memory.keys.dtype == torch.float32, "on a CPU attention computes in float32"
    assert (found - alone).abs().max() <= 0.02 * exact.abs().max()
    assert 0 < (found - exact).abs().max() < 0.1 * exact.abs().max()
