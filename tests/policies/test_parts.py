"""Observations in parts: each layer against torch's own, the network as a whole, and stacked."""

import math

import pytest
import torch
from torch.nn import functional as F

from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.parts import Convolution, EntitiesPart, ImagePart, NumbersPart, SumOfParts, TokensPart
from league.policies.pointers import PointerActor
from league.policies.stacked import StackedPolicy
from league.testing import check_policy
from league.types import ActionSpec, GameSpec, ObservationPart
from tests.helpers import guessing

STRUCTURE = (
    ObservationPart("self", 0, (5,), bounds=(-10.0, 10.0)),
    ObservationPart("board", 5, (7, 9, 2), "image", bounds=(0.0, 255.0)),
    ObservationPart("hand", 131, (4,), "tokens", 12),
    ObservationPart("units", 135, (6, 4), "entities", bounds=(-3.0, 5.0)),
    ObservationPart("rest", 159, (3,)),
)
SIZE = 162
UNITS = slice(135, 159)
PAIRS = ActionSpec("legal_tuples", (3, 4), 5)
CELLS = ActionSpec("discrete", (65,), pointers=(*range(62, -1, -1), -1, 5))
"""One action a cell, the last cell's first, then a pass, and a second action of cell 5."""
ATTACKS = ActionSpec("discrete", (8,), pointers=(*range(63, 69), -1, 65))
"""One action a unit, a pass, and a second action of unit 2."""
KEYS_THEN_CELLS = ActionSpec("mixture", parts=(ActionSpec("multi_binary", (2,) * 3), CELLS))
BOTH = ActionSpec("mixture", parts=(ATTACKS, CELLS))
SPACES = {
    "tuples": PAIRS,
    "mixture": guessing.ACTIONS["mixture"],
    "cells": CELLS,
    "keys, cells": KEYS_THEN_CELLS,
    "units, cells": BOTH,
}


def seen(*lead: int, seed: int = 0) -> torch.Tensor:
    """Observations (..., SIZE) that the parts allow."""
    generator = torch.Generator().manual_seed(seed)
    obs = torch.rand(*lead, SIZE, generator=generator)
    obs[..., :5] = obs[..., :5] * 20 - 10
    obs[..., 5:131] *= 255
    obs[..., 131:135] = (obs[..., 131:135] * 12).floor()
    units = obs[..., UNITS].view(*lead, 6, 4)
    units[..., 0] = units[..., 0].round()
    units[..., 1:] = units[..., 1:] * 8 - 3
    return obs


def net(seed: int = 0, action: ActionSpec = PAIRS, encoder: bool = True, torso: str = "auto") -> ActorCritic:
    """A small network of all parts, whose encoder sees the board, the hand and the units."""
    torch.manual_seed(seed)
    sizes = (encoder, 2, 2, 16, 32, 4, 3, 16, 24, (12, 12))
    policy = ActorCritic(Architecture(SIZE, (2, 159), action, *sizes, observation=STRUCTURE, torso=torso))
    for name, parameter in policy.named_parameters():
        if name.startswith(("head", "actor")):
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return policy


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(5, 7, 3), (8, 8, 1), (1, 4, 2)])
def test_a_convolution_sees_the_patch_around_each_cell(shape: tuple[int, int, int], stride: int) -> None:
    torch.manual_seed(0)
    layer = Convolution(shape[2], 6, stride).double()
    x = torch.randn(4, *shape, dtype=torch.float64)
    found = layer(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    assert found.shape == (4, -(-shape[0] // stride), -(-shape[1] // stride), 6)
    padded = F.pad(x, (0, 0, 1, 1, 1, 1))
    for i in range(found.shape[1]):
        for j in range(found.shape[2]):
            patch = padded[:, i * stride : i * stride + 3, j * stride : j * stride + 3]
            expected = torch.einsum("nhwc,fchw->nf", patch, layer.weight) + layer.bias
            assert (found[:, i, j] - expected).abs().max() < 1e-12


def test_parts_become_features_by_their_kind() -> None:
    """Numbers and images are scaled from their bounds, tokens looked up; the parts' features are added up."""
    torch.manual_seed(0)
    parts, obs = SumOfParts(STRUCTURE, 16), seen(6)
    numbers, image, tokens, units, rest = parts.parts
    assert isinstance(numbers, NumbersPart) and isinstance(image, ImagePart) and isinstance(tokens, TokensPart)
    assert isinstance(units, EntitiesPart)
    hand = F.embedding(obs[:, 131:135].long(), tokens.table.weight).flatten(1)
    others = numbers.out(obs[:, :5] / 10) + tokens.out(hand) + rest.out(obs[:, 159:])
    found = [entities_by_row(units, row) for row in obs[:, UNITS].view(6, 6, 4)]
    others = others + torch.stack([pooled for pooled, _ in found])
    board = obs[:, 5:131].view(6, 7, 9, 2).permute(0, 3, 1, 2)
    x = image.first(board / 127.5 - 1).relu()
    for block in image.blocks:
        x = (x + block.second(block.first(x).relu())).relu()
    x = x.permute(0, 2, 3, 1)
    board = image.out(image.squeeze(x).relu().flatten(1))
    features, (rows, cells) = parts.with_elements(obs, [3, 1])
    assert (features - others - board).abs().max() < 1e-5
    assert (cells.view(x.shape) - x).abs().max() < 1e-5
    assert (rows - torch.stack([each for _, each in found])).abs().max() < 1e-5
    assert torch.equal(parts(obs.view(2, 3, -1)).view(6, 16), parts(obs))


def entities_by_row(units: EntitiesPart, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Features (width,) and rows (N, channels) of a set (N, F): of the rows that are there alone, head by head."""
    there = [number for number, row in enumerate(rows) if row[0] == 1]
    out, result = torch.zeros(len(rows), units.first.out_features), torch.zeros(2 * units.first.out_features + 1)
    if there:
        x = units.first((rows[there] + 3) / 4 - 1)
        for block in units.blocks:
            query, key, value = (y.view(len(there), units.heads, -1) for y in block.qkv(block.norm(x)).chunk(3, -1))
            heads = []
            for head in range(units.heads):
                scores = query[:, head] @ key[:, head].T / math.sqrt(query.shape[-1])
                heads.append(scores.softmax(-1) @ value[:, head])
            x = x + block.out(torch.cat(heads, -1))
            x = x + block.mlp(x)
        out[there] = x.relu()
        result = torch.cat([x.relu().mean(0), x.relu().amax(0), torch.tensor([len(there) / len(rows)])])
    return units.out(result), out


def test_absent_rows_and_the_order_of_rows_change_nothing() -> None:
    """Whatever an absent row holds, all is bitwise the same; other orders of rows give each its own logit again."""
    policy, obs = net(action=ATTACKS), seen(8)
    obs[0, UNITS].view(6, 4)[:, 0] = 0  # none at all
    obs[1, UNITS].view(6, 4)[:, 0] = 1
    units = obs[:, UNITS].view(8, 6, 4)

    def played(obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features, elements = policy._step(obs, policy.initial_state(8), None)
        return policy._logits(features, elements), policy.critic(features)

    logits, value = played(obs)
    assert logits.isfinite().all() and value.isfinite().all()
    policy.observe(obs).sum().backward()
    assert all(x.grad.isfinite().all() for x in policy.observe.parameters())
    other = obs.clone()
    rows = other[:, UNITS].view(8, 6, 4)
    rows[..., 1:] = torch.where(units[..., :1] == 0, torch.full_like(rows[..., 1:], 3e38), rows[..., 1:])
    for found, expected in zip(played(other), (logits, value), strict=True):
        assert torch.equal(found, expected)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    other[:, UNITS] = units[:, order].flatten(1)
    moved, same = played(other)
    assert (same - value).abs().max() < 1e-5 and (moved[:, :6] - logits[:, order]).abs().max() < 1e-5
    assert (moved[:, 6] - logits[:, 6]).abs().max() < 1e-5  # the pass
    assert (moved[1, :6] - logits[1, :6]).abs().max() > 1e-2
    assert (played(other.flip(0))[1].flip(0) - value).abs().max() < 1e-5 and value.std() > 1e-3


@pytest.mark.parametrize(
    "action, parts",
    [(CELLS, [1]), (KEYS_THEN_CELLS, [1]), (ATTACKS, [3]), (BOTH, [1, 3])],
    ids=["cells", "keys, cells", "units", "units, cells"],
)
def test_logits_of_actions_that_point_are_those_of_their_elements(action: ActionSpec, parts: list[int]) -> None:
    """Each logit is that of its element and kind, or of the features alone, as a loop over the actions computes it."""
    actor = net(action=action, encoder=False).actor
    assert isinstance(actor, PointerActor) and actor.parts == parts
    features, elements = torch.randn(3, 24), {1: torch.rand(3, 63, 16), 3: torch.rand(3, 6, 16)}
    found, met = actor(features, [elements[part] for part in parts]), dict[int, int]()
    assert found.shape == (3, action.num_logits)
    for number, element in enumerate(action.logit_pointers):
        kind = met[element] = met.get(element, -1) + 1
        if element < 0:
            expected = actor.rest(features)[:, kind]
        else:
            part, own = (1, element) if element < 63 else (3, element - 63)
            pointer = actor.pointers[parts.index(part)]
            seen = pointer.here(elements[part][:, own]) + pointer.whole(features)
            expected = pointer.out(seen.relu())[:, kind]
        assert (found[:, number] - expected).abs().max() < 1e-5


@pytest.mark.parametrize("action", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("encoder", [True, False])
def test_networks_of_all_spaces_keep_the_contract(action: ActionSpec, encoder: bool) -> None:
    """Step as sequence, rows by themselves, gradients everywhere."""
    given = ("game", 1, SIZE, (2, 159), (-10.0, 255.0), action, ("win",), (), ("over",), (), 1.0)
    spec = GameSpec(*given, observation=STRUCTURE, unbounded=())
    check_policy(net(action=action, encoder=encoder), spec, rows=3, steps=8)


def masks(*lead: int) -> torch.Tensor:
    """Masks (..., 10) of two to five tuples."""
    mask = torch.tensor([[0, 1, 2, 3, 1, 1, -1, -1, -1, -1], [0, 0, 0, 1, 1, 0, 2, 2, 2, 3]], dtype=torch.int16)
    return mask[torch.randint(0, 2, lead, generator=torch.Generator().manual_seed(5))]


@pytest.mark.parametrize("action", SPACES.values(), ids=SPACES)
def test_stacked_nets_of_parts_play_as_each_alone(action: ActionSpec) -> None:
    """Tables, convolutions, attention and tuples' heads of several nets in one call give what each net gives."""
    policies = [net(seed, action).requires_grad_(False) for seed in range(3)]
    stack = StackedPolicy(policies[0], 3)
    for slot, policy in enumerate(policies):
        stack.put(slot, policy)
    state, alone = policies[0].initial_state(12), [policy.initial_state(4) for policy in policies]
    for t in range(6):
        obs, mask = seen(12, seed=t), masks(12) if action is PAIRS else None
        played = stack.step(obs, state, num_slots=3, mask=mask, greedy=True)
        for slot, policy in enumerate(policies):
            rows = slice(4 * slot, 4 * slot + 4)
            expected = policy.step(obs[rows], alone[slot], mask=None if mask is None else mask[rows], greedy=True)
            for ours, theirs in zip(played, expected, strict=True):
                assert torch.allclose(ours[rows].double(), theirs.double(), atol=1e-3)


@pytest.mark.parametrize("stop, name", [(133, "hand"), (139, "units")])
def test_a_slice_that_cuts_a_part_is_refused(stop: int, name: str) -> None:
    """The encoder cannot look up half a hand, nor a part of a board or some of the units."""
    with pytest.raises(ValueError, match=rf"opponent_slice=\(2, {stop}\) cuts the observation part '{name}'"):
        ActorCritic(Architecture(SIZE, (2, stop), PAIRS, True, 1, 2, 16, 16, 4, 2, 8, 8, (), STRUCTURE, torso="auto"))


@pytest.mark.parametrize("action", [*SPACES.values(), *guessing.ACTIONS.values()])
def test_architectures_of_all_spaces_survive_json(action: ActionSpec) -> None:
    a = net(action=action).architecture
    assert Architecture.from_json(a.to_json()) == a
