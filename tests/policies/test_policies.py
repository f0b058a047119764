"""The network: stepping equals replaying a segment, rows and matches keep to themselves, everything learns.

The same against an independent twin: tests/policies/test_encoder_twin.py.
"""

import copy
import math

import pytest
import torch
from torch import Tensor

from league.policies.actor_critic import ActorCritic, ActorCriticState, Architecture
from league.policies.heads import ChoicesHead, KeysHead
from league.types import ActionSpec

ROWS, STEPS = 5, 24


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


def play(
    policy: ActorCritic, obs: Tensor, mask: Tensor | None, is_first: Tensor, state: ActorCriticState
) -> tuple[Tensor, Tensor, Tensor]:
    """Steps through (B, T, ...) as the rollout does: a row is cleared where its match begins."""
    generator = torch.Generator().manual_seed(3)
    steps = []
    for t in range(obs.shape[1]):
        state.clear(is_first[:, t].nonzero()[:, 0])
        legal = None if mask is None else mask[:, t]
        steps.append(policy.step(obs[:, t], state, mask=legal, generator=generator))
    action, log_prob, value = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return action, log_prob, value


def inputs(
    arch: Architecture, dtype: torch.dtype, steps: int = STEPS, rows: int = ROWS
) -> tuple[Tensor, Tensor, Tensor]:
    """Random observations, masks and match starts, several of them in the middle."""
    generator = torch.Generator().manual_seed(1)
    obs = torch.rand(rows, steps, arch.obs_size, generator=generator, dtype=dtype) * 2 - 1
    mask = torch.rand(rows, steps, arch.action.mask_size, generator=generator) < 0.8
    mask[..., 0] = True
    is_first = torch.rand(rows, steps, generator=generator) < 0.08
    is_first[:, 0] = True
    return obs, mask, is_first


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("encoder", [True, False])
@pytest.mark.parametrize("kind", ["multi_binary", "multi_discrete"])
def test_step_and_sequence_agree(dtype: torch.dtype, tolerance: float, encoder: bool, kind: str) -> None:
    """Replaying a segment from its stored state gives play's log-probabilities and values, matches ending inside it."""
    action_spec = (
        ActionSpec("multi_binary", (2,) * 4) if kind == "multi_binary" else ActionSpec("multi_discrete", (3, 2))
    )
    arch = architecture(opponent_encoder=encoder, action=action_spec)
    policy = make(arch).to(dtype)
    obs, mask, is_first = inputs(arch, dtype, 2 * STEPS)
    if kind == "multi_discrete":
        mask[..., 3] = True
    state = policy.initial_state(ROWS)
    play(policy, obs[:, :STEPS], mask[:, :STEPS], is_first[:, :STEPS], state)
    stored = state.select(None)
    is_first[0, STEPS], is_first[1:3, STEPS] = True, False
    action, log_prob, value = play(policy, obs[:, STEPS:], mask[:, STEPS:], is_first[:, STEPS:], state)
    with torch.no_grad():
        replayed, entropy, values = policy.sequence(
            obs[:, STEPS:], action, stored, is_first[:, STEPS:], mask[:, STEPS:]
        )
    assert is_first[:, STEPS + 1 :].any(), "no match began inside the segment: the test would prove little"
    assert (log_prob - replayed).abs().max() < tolerance
    assert (value - values).abs().max() < tolerance
    assert (entropy >= 0).all()


def test_full_size_step_and_sequence_agree() -> None:
    """The full-size agent agrees with itself to 1e-5 in float32."""
    policy = make(FULL)
    obs, mask, is_first = inputs(FULL, torch.float32, 70, rows=3)
    state = policy.initial_state(3)
    play(policy, obs[:, :35], mask[:, :35], is_first[:, :35], state)
    stored = state.select(None)
    action, log_prob, value = play(policy, obs[:, 35:], mask[:, 35:], is_first[:, 35:], state)
    with torch.no_grad():
        replayed, _, values = policy.sequence(obs[:, 35:], action, stored, is_first[:, 35:], mask[:, 35:])
    assert (log_prob - replayed).abs().max() < 1e-5
    assert (value - values).abs().max() < 1e-5


@pytest.mark.parametrize("encoder", [True, False])
def test_rows_and_matches_do_not_leak(encoder: bool) -> None:
    """What one row saw, or its last match, changes no bit of another row or of the next match."""
    arch = architecture(opponent_encoder=encoder)
    policy = make(arch)
    obs, mask, is_first = inputs(arch, torch.float32)
    is_first[:, 1:] = False
    is_first[2, 10] = True
    other = obs.clone()
    other[0] = -other[0]
    other[2, :10] = -other[2, :10]
    state, other_state = policy.initial_state(ROWS), policy.initial_state(ROWS)
    _, log_prob, value = play(policy, obs, mask, is_first, state)
    _, other_log_prob, other_value = play(policy, other, mask, is_first, other_state)
    assert not torch.equal(value[0], other_value[0]) and not torch.equal(value[2, :10], other_value[2, :10])
    assert torch.equal(value[[1, 3, 4]], other_value[[1, 3, 4]])
    assert torch.equal(value[2, 10:], other_value[2, 10:]) and torch.equal(log_prob[2, 10:], other_log_prob[2, 10:])


def test_rows_of_a_larger_state_step_alone() -> None:
    """Stepping some rows of a state equals stepping them in a state of their own, and leaves the others as they are."""
    policy = make(architecture()).double()
    obs = torch.randn(9, 6, 12, dtype=torch.float64)
    whole, rows = policy.initial_state(8), torch.tensor([6, 1, 3])
    alone = policy.initial_state(3)
    before = whole.select(None)
    for t in range(6):
        _, _, value = policy.step(obs[:3, t], whole, rows=rows, greedy=True)
        _, _, expected = policy.step(obs[:3, t], alone, greedy=True)
        assert (value - expected).abs().max() < 1e-12
    others = torch.tensor([0, 2, 4, 5, 7])
    for name, tensor in whole.select(others).tensors().items():
        assert torch.equal(tensor, before.select(others).tensors()[name])


def test_value_writes_nothing() -> None:
    """`value` gives the next step's value and leaves every bit of the state alone."""
    policy = make(architecture())
    state = policy.initial_state(4)
    for _ in range(9):
        policy.step(torch.randn(4, 12), state)
    before = state.select(None).tensors()
    obs = torch.randn(4, 12)
    value = policy.value(obs, state)
    some = policy.value(obs[1:3], state, rows=torch.tensor([1, 2]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.tensors().items())
    assert torch.allclose(value, policy.step(obs, state)[2], atol=1e-6)
    assert torch.allclose(some, value[1:3], atol=1e-6)


@pytest.mark.parametrize(
    "arch", [architecture(), architecture(opponent_encoder=False), FULL], ids=["small", "plain", "full"]
)
def test_every_parameter_gets_a_gradient(arch: Architecture) -> None:
    """One segment's loss reaches every parameter with a norm above 1e-7."""
    torch.manual_seed(0)
    policy = ActorCritic(arch)
    obs, _, is_first = inputs(arch, torch.float32, 16, rows=3)
    state = policy.initial_state(3)
    for t in range(9):
        policy.step(obs[:, t], state)
    action = torch.randint(0, 2, (3, 16, arch.action.num_parts))
    log_prob, entropy, value = policy.sequence(obs, action, state, is_first)
    (log_prob.mean() + entropy.mean() + value.square().mean()).backward()
    weak = {n: p.grad for n, p in policy.named_parameters() if p.grad is None or p.grad.norm() <= 1e-7}
    assert not weak


def test_a_frozen_copy_stays_frozen() -> None:
    """Training the learner after a copy was taken changes nothing that the copy plays."""
    policy = make(architecture())
    frozen = copy.deepcopy(policy)
    obs = torch.randn(4, 12)
    before = frozen.step(obs, frozen.initial_state(4), greedy=True)[2].clone()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(1.0)
    assert torch.equal(before, frozen.step(obs, frozen.initial_state(4), greedy=True)[2])
    assert not torch.equal(before, policy.step(obs, policy.initial_state(4), greedy=True)[2])


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
    *_, value = policy.step(torch.randn(ROWS, 12), policy.initial_state(ROWS))
    assert (value.std() > 1e-3) == has_skip


def test_keys_head_matches_arithmetic() -> None:
    """Log-probability and entropy of independent keys equal the sums written out; masked keys count for nothing."""
    logits, mask = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([[True, True, False]])
    action, log_prob = KeysHead().sample(logits, mask, generator=None, greedy=True)
    p, q = (1 / (1 + math.exp(-x)) for x in (0.5, -1.0))
    assert action.tolist() == [[1, 0, 0]]
    assert log_prob.item() == pytest.approx(math.log(p) + math.log(1 - q), abs=1e-6)
    expected = sum(-x * math.log(x) - (1 - x) * math.log(1 - x) for x in (p, q))
    again, entropy = KeysHead().evaluate(logits, action, mask)
    assert entropy.item() == pytest.approx(expected, abs=1e-6)
    assert torch.equal(again, log_prob)


@pytest.mark.parametrize("head, size", [(KeysHead(), 4), (ChoicesHead((3, 2)), 5)])
def test_samples_follow_the_probabilities(head: KeysHead | ChoicesHead, size: int) -> None:
    """Drawn actions appear as often as their log-probability says, and never where the mask forbids."""
    logits = torch.linspace(-1, 1, size).expand(20_000, size)
    mask = torch.ones(20_000, size, dtype=torch.bool)
    mask[:, 1] = False
    action, log_prob = head.sample(logits, mask, generator=torch.Generator().manual_seed(0), greedy=False)
    unique, counts = action.unique(dim=0, return_counts=True)
    assert sum(log_prob[(action == row).all(1)][0].exp().item() for row in unique) == pytest.approx(1, abs=0.01)
    for row, count in zip(unique, counts, strict=True):
        expected = log_prob[(action == row).all(1)][0].exp().item()
        assert abs(count.item() / 20_000 - expected) < 5 * math.sqrt(expected * (1 - expected) / 20_000)
