"""Advantages and PPO's loss against slow twins in plain Python."""

import math

import pytest
import torch

from league.training.losses import EvaluatedActions, Scheduled, ppo
from league.training.returns import gae

T, B = 13, 4


def slow_gae(rewards, values, next_values, ends, gamma, lam):
    """The definition: the discounted sum of later errors, forwards, up to the end of the match."""
    out = [[0.0] * B for _ in range(T)]
    for t in range(T):
        for b in range(B):
            weight = 1.0
            for u in range(t, T):
                out[t][b] += weight * (rewards[u][b] + gamma * next_values[u][b] - values[u][b])
                if ends[u][b]:
                    break
                weight *= gamma * lam
    return torch.tensor(out, dtype=torch.float64)


def sample() -> dict[str, torch.Tensor]:
    """A rollout's arrays with matches ending in the middle."""
    generator = torch.Generator().manual_seed(0)
    arrays = {
        name: torch.randn(T, B, generator=generator, dtype=torch.float64)
        for name in ("rewards", "values", "next_values")
    }
    return arrays | {"ends": torch.rand(T, B, generator=generator) < 0.15}


def test_gae_equals_its_definition() -> None:
    """The backward recursion gives the sum of the definition, matches ending inside."""
    arrays = sample()
    assert arrays["ends"][:-1].any()
    fast = gae(**arrays, gamma=0.97, lam=0.9)
    slow = slow_gae(*(arrays[k].tolist() for k in ("rewards", "values", "next_values", "ends")), 0.97, 0.9)
    assert (fast - slow).abs().max() < 1e-12


def test_truncation_is_bootstrapped_and_termination_is_not() -> None:
    one = torch.ones(1, 1)
    cut = gae(one, 0 * one, 10 * one, one.bool(), gamma=0.9, lam=0.95)
    ended = gae(one, 0 * one, 0 * one, one.bool(), gamma=0.9, lam=0.95)
    assert cut.item() == pytest.approx(1 + 0.9 * 10) and ended.item() == pytest.approx(1)


def test_gae_refuses_unequal_shapes() -> None:
    """A transposed array is an error, not a broadcast."""
    arrays = sample()
    arrays["values"] = arrays["values"].T
    with pytest.raises(ValueError, match="one shape"):
        gae(**arrays, gamma=0.99, lam=0.95)


def test_ppo_equals_its_definition() -> None:
    """Every part of the loss equals the sum written out sample by sample."""
    generator = torch.Generator().manual_seed(1)
    new, old, advantage, entropy, value, target = (
        torch.randn(3, 5, generator=generator, dtype=torch.float64) for _ in range(6)
    )
    scheduled = Scheduled.of(0.2, 0.03, new)
    loss = ppo(
        EvaluatedActions(new, entropy, value), old, advantage, target, scheduled=scheduled, value_coefficient=0.7
    )
    policy = square = clipped = 0.0
    for n, o, a, v, g in zip(*(x.flatten().tolist() for x in (new, old, advantage, value, target)), strict=True):
        ratio = math.exp(n - o)
        policy -= min(ratio * a, min(max(ratio, 0.8), 1.2) * a) / 15
        square += (v - g) ** 2 / 15
        clipped += (abs(ratio - 1) > 0.2) / 15
    assert loss.policy.item() == pytest.approx(policy)
    assert loss.value.item() == pytest.approx(square)
    assert loss.clip_share.item() == pytest.approx(clipped)
    assert loss.entropy.item() == pytest.approx(entropy.mean().item())
    assert loss.approx_kl.item() >= 0


def test_the_gradient_of_ppo_is_autograds() -> None:
    generator = torch.Generator().manual_seed(2)
    new, old, advantage, entropy, value, target = (0.3 * torch.randn(6, 40, generator=generator)).unbind()
    advantage[3] = 0
    new[5] = old[5]
    new, entropy, value = (x.requires_grad_() for x in (new.clone(), entropy.clone(), value.clone()))
    ratio = (new - old).exp()
    policy = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
    total = policy + 0.5 * (value - target).square().mean() - 0.01 * entropy.mean()
    wanted = torch.autograd.grad(total, [new, entropy, value])
    scheduled = Scheduled.of(0.2, 0.01, target)
    found = ppo(
        EvaluatedActions(new, entropy, value), old, advantage, target, scheduled=scheduled, value_coefficient=0.5
    )
    assert (wanted[0] == 0).sum() > 3
    for ours, theirs in zip(found.gradient, wanted, strict=True):
        assert torch.allclose(ours, theirs, rtol=2.0**-22, atol=0)
