"""The network: stepping equals replaying a segment, rows and matches keep to themselves, everything learns.

The same against an independent reference: tests/policies/test_encoder_reference.py.
"""

import pytest
import torch

from league.policies.actor_critic import ActorCritic, Architecture
from league.testing import check_policy
from league.types import ActionSpec, GameSpec


def architecture(**changes: object) -> Architecture:
    """A small network with every part of the full one."""
    sizes = {
        "obs_size": 12,
        "opponent_slice": (6, 12),
        "action": ActionSpec("multi_binary", (2,) * 4),
        "opponent_encoder": True,
        "encoder_layers": 2,
        "encoder_heads": 2,
        "encoder_width": 16,
        "encoder_feedforward": 32,
        "history_tokens": 7,
        "latents": 3,
        "observation_width": 16,
        "lstm_size": 24,
        "head_sizes": (12, 12),
        "skip_connection": True,
    }
    return Architecture(**{**sizes, **changes})


FULL = Architecture(
    64, (32, 64), ActionSpec("multi_binary", (2,) * 10), True, 6, 8, 256, 1024, 30, 8, 256, 512, (96, 96), None, True
)


def make(arch: Architecture, seed: int = 0) -> ActorCritic:
    """A network whose action probabilities are not all alike."""
    torch.manual_seed(seed)
    policy = ActorCritic(arch)
    with torch.no_grad():
        policy.actor[-1].weight.mul_(100)
    return policy


@pytest.mark.parametrize(
    "arch",
    [architecture(), architecture(opponent_encoder=False), architecture(skip_connection=False), FULL],
    ids=["small", "plain", "no skip", "full"],
)
def test_networks_keep_the_contract(arch: Architecture) -> None:
    """Step as sequence, rows by themselves, gradients everywhere; `value` writes nothing."""
    given = ("g", 1, arch.obs_size, arch.opponent_slice, (-1.0, 1.0), arch.action, ("win",), (), ("over",), (), 1.0)
    check_policy(make(arch), GameSpec(*given), rows=3, steps=12)


def test_architecture_survives_json() -> None:
    """The manifest's architecture builds the same network again, that of an agent from before as it was."""
    assert Architecture.from_json(FULL.to_json()) == FULL
    data = FULL.to_json()
    del data["skip_connection"]
    assert not Architecture.from_json(data).skip_connection


@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("has_skip", [True, False])
def test_a_skip_connection_passes_by_the_lstm(encoder: bool, has_skip: bool) -> None:
    """Where the LSTM makes nothing of anything, the value depends on what is seen by the connection alone."""
    policy = make(architecture(opponent_encoder=encoder, skip_connection=has_skip))
    with torch.no_grad():
        for parameter in policy.lstm.parameters():
            parameter.zero_()
    *_, value = policy.step(torch.randn(5, 12), policy.initial_state(5))
    assert (value.std() > 1e-3) == has_skip
