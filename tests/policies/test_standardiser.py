"""Numbers without bounds as deviations: what is counted, what comes out, alone, stacked and in a spec."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import league
from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.stacked import StackedPolicy
from league.policies.standardiser import CLIP, MEMORY, Standardiser
from league.snapshots import io
from league.snapshots.manifest import spec_from_json, spec_to_json
from league.store.store import Store
from league.types import ActionSpec, GameSpec, ObservationPart
from tests.helpers.sizes import SMALL

SIZES = {"encoder_layers": 1, "encoder_heads": 2, "encoder_width": 16, "encoder_feedforward": 16, "latents": 2}
SIZES |= {"observation_width": 16, "lstm_size": 16, "head_sizes": (8,)}  # type: ignore[dict-item]
ENV = "gymnasium:tests.helpers.gym_envs:Scaled-v0"
TOKENS = ObservationPart("b", 3, (2,), "tokens", 90)


def spec_of(**changes: object) -> GameSpec:
    """A game of five numbers, of which the last two show the opponent."""
    fields = {"name": "far", "version": 1, "obs_size": 5, "opponent_slice": (3, 5), "obs_range": (-1e6, 1e6)}
    fields |= {
        "action": ActionSpec("discrete", (2,)),
        "reward_terms": ("win",),
        "metrics": (),
        "end_reasons": ("over",),
    }
    return GameSpec(**{**fields, "bots": ("random",), "tick_rate": 1.0, **changes})  # type: ignore[arg-type]


def network(spec: GameSpec, seed: int = 0) -> ActorCritic:
    """A small network with an encoder."""
    torch.manual_seed(seed)
    return ActorCritic(Architecture.of(spec, history_tokens=5, opponent_encoder=True, **SIZES))


def seen(seed: int, *shape: int) -> torch.Tensor:
    """Random observations."""
    return torch.randn(*shape, 5, generator=torch.Generator().manual_seed(seed))


def test_statistics_are_those_of_all_rollouts() -> None:
    """Of up to a hundred rollouts each counts alike, however far the numbers lie from 0."""
    layer, rng = Standardiser([(1, 3)]), np.random.default_rng(0)
    parts = [rng.normal(3e4, 2.0 + i, size=(6, 4, 4)).astype(np.float32) for i in range(5)]
    for part in parts:
        layer.take(torch.from_numpy(part))
    numbers = np.concatenate([part.reshape(-1, 4)[:, 1:3] for part in parts]).astype(np.float64)
    assert layer.mean.numpy() == pytest.approx(numbers.mean(0), rel=1e-6)
    assert layer.deviation.numpy() == pytest.approx(numbers.std(0), rel=1e-4)
    for _ in range(10 * MEMORY):
        layer.take(torch.from_numpy(parts[0]))
    assert layer.deviation.numpy() == pytest.approx(parts[0].reshape(-1, 4)[:, 1:3].std(0), rel=1e-2)


@pytest.mark.parametrize(("scale", "shift"), [(100.0, 7.0), (1e-3, 0.0), (1e20, 0.0)])
def test_scale_and_offset_do_not_matter(scale: float, shift: float) -> None:
    """What the network sees of numbers without bounds is the same; the others it sees as they are."""
    one, other = Standardiser([(0, 2), (4, 5)]), Standardiser([(0, 2), (4, 5)])
    for seed in range(3):
        x = seen(seed, 7, 3)
        moved = torch.cat([scale * x[..., :2] + shift, x[..., 2:4], scale * x[..., 4:] + shift], -1)
        assert torch.allclose(one(x), other(moved), atol=1e-4) and torch.equal(one(x)[..., 2:4], x[..., 2:4])
        one.take(x)
        other.take(moved)
    assert one(x)[..., :2].std() == pytest.approx(1.0, abs=0.3)
    assert float(one(1e9 * x.abs() + 1e9)[..., :2].min()) == CLIP


def test_numbers_that_never_varied_are_not_seen() -> None:
    """Before the first rollout all of them; later those that were alike in all that was counted."""
    layer, x = Standardiser([(0, 5)]), seen(0, 6, 4)
    assert not layer(x).any() and not layer(1e30 * x).any()
    x[..., 2] = 7.1
    layer.take(x)
    assert not layer(x)[..., 2].any() and layer(x)[..., [0, 1, 3, 4]].all()
    x[0, 0, 2] = 8.0
    assert not layer(x)[..., 2].any()
    layer.take(x)
    assert layer(x)[..., 2].all() and torch.isfinite(layer(x)).all()


def test_a_stacked_net_sees_by_its_own_statistics() -> None:
    """Two nets of other weights and statistics play in one call as each alone; room for more keeps them."""
    spec = spec_of()
    nets = [network(spec, seed).requires_grad_(False) for seed in range(2)]
    nets[0].take_statistics(seen(0, 8, 4))
    nets[1].take_statistics(100 * seen(1, 8, 4) + 7)
    stack = StackedPolicy(nets[0], 2)
    for slot, net in enumerate(nets):
        stack.put(slot, net)
    stack.reserve(3)
    state, alone = nets[0].initial_state(6), [net.initial_state(3) for net in nets]
    for t in range(3):
        obs = 50 * seen(10 + t, 6)
        together = stack.step(obs, state, num_slots=2, rows=torch.arange(6), greedy=True)
        stack.watch(obs, state, num_slots=2, rows=torch.arange(6))
        for i, (net, own) in enumerate(zip(nets, alone, strict=True)):
            found = net.step(obs[3 * i : 3 * i + 3], own, greedy=True)
            net.watch(obs[3 * i : 3 * i + 3], own)
            for a, b in zip(together, found, strict=True):
                assert torch.allclose(a[3 * i : 3 * i + 3], b, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ((0, 5),)),
        ({"obs_range": (-1.0, 20.0)}, ()),
        ({"obs_range": (0.0, 21.0)}, ((0, 5),)),
        ({"unbounded": ()}, ()),
        ({"unbounded": ((1, 2), (4, 5))}, ((1, 2), (4, 5))),
        ({"observation": (ObservationPart("a", 0, (2,)), ObservationPart("b", 2, (3,), bounds=(0.0, 9.0)))}, ((0, 2),)),
        ({"observation": (ObservationPart("a", 0, (3,)), TOKENS), "obs_range": (0.0, 89.0)}, ()),
        ({"observation": (ObservationPart("a", 0, (3,)), TOKENS), "obs_range": (0.0, 90.0)}, ((0, 3),)),
    ],
)
def test_a_spec_says_which_numbers_have_no_bounds(changes: dict[str, object], expected: object) -> None:
    """Left out, those without bounds of their own in a wide range; it and the architecture keep it as JSON."""
    spec = spec_of(**changes)
    assert spec.unbounded == expected
    assert spec_from_json(json.loads(json.dumps(spec_to_json(spec)))).unbounded == expected
    architecture = Architecture.of(spec, history_tokens=5, opponent_encoder=False, **SIZES)
    assert Architecture.from_json(json.loads(json.dumps(architecture.to_json()))) == architecture
    assert (network(spec).standardise is None) == (expected == ())


@pytest.mark.parametrize("unbounded", [((0, 6),), ((2, 2),), ((2, 4), (3, 5)), ((0.0, 1),), 3, ((0, 1, 2),)])
def test_slices_that_cannot_be_are_refused(unbounded: object) -> None:
    with pytest.raises(ValueError, match="unbounded="):
        spec_of(unbounded=unbounded)


@pytest.mark.parametrize("example", ["mlp.py:MLP", "gru.py:GRU"])
def test_a_user_made_network_standardises_by_itself(example: str, tmp_path: Path) -> None:
    """The examples count what they see in a run, and their snapshots keep it."""
    path = str(Path(__file__).parents[2] / "examples" / example)
    sets = (*SMALL, "run.total_steps=256", "run.allow_short=true", "env.scale=100.0", "env.shift=7.0")
    league.train("smoke", env=ENV, run="r", policy=path, overrides=sets, store=tmp_path / "s", device="cpu")
    _, weights = io.load(tmp_path / "s" / Store.open(tmp_path / "s").snapshots("r")[-1].path)
    assert weights["body.0.mean"].tolist() == pytest.approx([7.0, 7.0, 107.0], abs=20)
    assert weights["body.0.deviation"].tolist() == pytest.approx([100.0, 100.0, 0.0], rel=0.2)
