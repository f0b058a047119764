"""The re-encoding agent of `benchmarks.reencoding`: an honest policy, and the comparison runs."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from league.policies.actor_critic import Architecture
from league.types import ActionSpec

ROOT = Path(__file__).resolve().parent.parent
ROWS, HISTORY = 4, 5
ARCHITECTURE = Architecture(
    10, (4, 10), ActionSpec("multi_binary", (2,) * 3), True, 2, 2, 16, 32, HISTORY, 3, 12, 20, (12,)
)


@pytest.fixture
def reencoding(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark, imported from the root."""
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.reencoding")


def make(reencoding: Any) -> Any:
    """A small policy in float64 whose latents matter."""
    torch.manual_seed(0)
    return reencoding.ReencodingActorCritic(ARCHITECTURE).double()


def play(policy: Any, obs: Tensor, is_first: Tensor, state: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Steps through (B, T, ...), a row being cleared where its match begins."""
    generator = torch.Generator().manual_seed(3)
    steps = []
    for t in range(obs.shape[1]):
        state.clear(is_first[:, t].nonzero()[:, 0])
        steps.append(policy.step(obs[:, t], state, generator=generator))
    action, log_prob, value = (torch.stack(parts, 1) for parts in zip(*steps, strict=True))
    return action, log_prob, value


@pytest.mark.parametrize("steps", [HISTORY - 2, 4 * HISTORY])
def test_step_and_sequence_agree(reencoding: Any, steps: int) -> None:
    """Replaying a segment, shorter than H or longer, gives play's numbers; matches end inside it and go on into it."""
    policy = make(reencoding)
    before = 3 * HISTORY + 2
    obs = torch.randn(ROWS, before + steps, 10, dtype=torch.float64)
    is_first = torch.zeros(ROWS, before + steps, dtype=torch.bool)
    is_first[:, 0] = True
    is_first[1, before - 2] = is_first[1, before + 1] = is_first[2, before] = is_first[2, before + steps - 1] = True
    state = policy.initial_state(ROWS)
    play(policy, obs[:, :before], is_first[:, :before], state)
    stored = state.select(None)
    action, log_prob, value = play(policy, obs[:, before:], is_first[:, before:], state)
    rows = torch.tensor([2, 0, 3, 1])
    for order in (torch.arange(ROWS), rows):
        replayed, _, values = policy.sequence(
            obs[order, before:], action[order], stored.select(order), is_first[order, before:]
        )
        assert (log_prob[order] - replayed).abs().max() < 1e-10
        assert (value[order] - values).abs().max() < 1e-10


def test_the_window_is_encoded_anew_and_whole(reencoding: Any) -> None:
    """Of the last H tokens of the match the latents are those of the window alone; each of these matters, no other."""
    encoder = make(reencoding).encoder
    tokens = torch.randn(1, 3 * HISTORY, 6, dtype=torch.float64)

    def latents(seen: Tensor) -> Tensor:
        window = encoder.initial_memory(1)
        for t in range(seen.shape[1]):
            found = encoder.step(seen[:, t], window, None)
        result: Tensor = found
        return result

    with torch.no_grad():
        whole = latents(tokens)
        for t in range(tokens.shape[1]):
            changed = tokens.clone()
            changed[0, t] += 1
            difference = (latents(changed) - whole).abs().max()
            assert difference > 1e-6 if t >= 2 * HISTORY else difference < 1e-12, t
        assert (latents(tokens[:, -2:]) - latents(tokens)).abs().max() > 1e-6, "a match's start has no past"


def test_a_token_sees_those_after_it(reencoding: Any) -> None:
    """What an older token contributes depends on the newer ones, which a causal encoder's does not."""
    encoder = make(reencoding).encoder
    seen: list[Tensor] = []
    encoder.parts.pool_kv.register_forward_hook(lambda module, inputs, output: seen.append(output))
    tokens = torch.randn(1, HISTORY, 6, dtype=torch.float64)
    changed = tokens.clone()
    changed[0, -1] += 1
    for window in (tokens, changed):
        encoder.encode(window, torch.tensor([HISTORY - 1]))
    assert (seen[0][0, 0] - seen[1][0, 0]).abs().max() > 1e-6


def test_both_forms_begin_with_the_same_weights(reencoding: Any) -> None:
    """At one seed nothing but the form differs."""
    weights = []
    for form in reencoding.FORMS.values():
        torch.manual_seed(5)
        weights.append(list(form(ARCHITECTURE).state_dict().values()))
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def test_every_parameter_gets_a_gradient(reencoding: Any) -> None:
    """Learning by the re-encoding form reaches all of it: it is no straw man."""
    policy = make(reencoding)
    obs = torch.randn(ROWS, 9, 10, dtype=torch.float64)
    action = torch.randint(0, 2, (ROWS, 9, 3))
    is_first = torch.zeros(ROWS, 9, dtype=torch.bool)
    log_prob, entropy, value = policy.sequence(obs, action, policy.initial_state(ROWS), is_first)
    (log_prob.mean() + entropy.mean() + value.square().mean()).backward()
    assert not [n for n, p in policy.named_parameters() if p.grad is None or p.grad.norm() <= 1e-7]


@pytest.mark.slow
def test_the_comparison_trains_both_forms_and_lets_them_meet(reencoding: Any) -> None:
    """At the smallest size: both learn from play against frozen copies of themselves, and every cell has a score."""
    tiny = ["env.rows=8", "learner.rollout_steps=8", "learner.epochs=1", "pool.snapshot_every=64"]
    tiny += ["env.time_limit_seconds=2.0", "agent.encoder_layers=1"]
    rows = reencoding.compare([0], 192, 2, tiny)
    assert [(row["form"], row.get("steps")) for row in rows] == [
        ("streaming", 192),
        ("re-encoding", 192),
        ("streaming", None),
    ]
    assert all(len(row["scores"]) == 4 and row["seconds"] > 0 for row in rows[:2])
    assert rows[2]["scores"]["re-encoding"]["games"] == 2
    lines = reencoding.table(rows).splitlines()
    assert len(lines) == 10 and all(line.count("|") == 9 for line in lines[:6])
