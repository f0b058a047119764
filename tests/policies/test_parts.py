"""Observations in parts: each layer against torch's own, the network as a whole, and stacked."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from league.errors import ConfigError
from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.cells import CellActor
from league.policies.parts import Convolution, Embedding, ImagePart, NumbersPart, Parts, TokensPart
from league.policies.stacked import StackedPolicy
from league.policies.torso import torso_of
from league.types import ActionSpec, ObservationPart
from tests.helpers import guessing

STRUCTURE = (
    ObservationPart("self", 0, (5,), bounds=(-10.0, 10.0)),
    ObservationPart("board", 5, (7, 9, 2), "image", bounds=(0.0, 255.0)),
    ObservationPart("hand", 131, (4,), "tokens", 12),
    ObservationPart("rest", 135, (3,)),
)
SIZE = 138
PAIRS = ActionSpec("legal_tuples", (3, 4), 5)
CELLS = ActionSpec("discrete", (65,), cells=(*range(62, -1, -1), -1, 5))
"""One action a cell, the last cell's first, then a pass, and a second action of cell 5."""
KEYS_THEN_CELLS = ActionSpec("mixture", parts=(ActionSpec("multi_binary", (2,) * 3), CELLS))
SPACES = {"tuples": PAIRS, "mixture": guessing.ACTIONS["mixture"], "cells": CELLS, "keys, cells": KEYS_THEN_CELLS}


def seen(*lead: int, seed: int = 0) -> torch.Tensor:
    """Observations (..., SIZE) that the parts allow."""
    generator = torch.Generator().manual_seed(seed)
    obs = torch.rand(*lead, SIZE, generator=generator)
    obs[..., :5] = obs[..., :5] * 20 - 10
    obs[..., 5:131] *= 255
    obs[..., 131:135] = (obs[..., 131:135] * 12).floor()
    return obs


def masks(*lead: int) -> torch.Tensor:
    """Masks (..., 10) of two to five tuples."""
    mask = torch.tensor([[0, 1, 2, 3, 1, 1, -1, -1, -1, -1], [0, 0, 0, 1, 1, 0, 2, 2, 2, 3]], dtype=torch.int16)
    return mask[torch.randint(0, 2, lead, generator=torch.Generator().manual_seed(5))]


def net(seed: int = 0, action: ActionSpec = PAIRS, encoder: bool = True, torso: str = "conv") -> ActorCritic:
    """A small network of all parts, whose encoder sees the board and the hand."""
    torch.manual_seed(seed)
    sizes = (encoder, 2, 2, 16, 32, 4, 3, 16, 24, (12, 12))
    policy = ActorCritic(Architecture(SIZE, (2, 135), action, *sizes, observation=STRUCTURE, torso=torso))
    for name, parameter in policy.named_parameters():
        if name.startswith(("head", "actor")):
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return policy


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(5, 7, 3), (8, 8, 1), (1, 4, 2)])
def test_a_convolution_sees_the_patch_around_each_cell(shape: tuple[int, int, int], stride: int) -> None:
    """Each output is the filters times the 3 x 3 patch around its cell, cells beyond the edge being zero."""
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
    parts, obs = Parts(STRUCTURE, 16), seen(6)
    numbers, image, tokens, rest = parts.parts
    assert isinstance(numbers, NumbersPart) and isinstance(image, ImagePart) and isinstance(tokens, TokensPart)
    hand = F.embedding(obs[:, 131:135].long(), tokens.table.weight).flatten(1)
    others = numbers.out(obs[:, :5] / 10) + tokens.out(hand) + rest.out(obs[:, 135:])
    board = obs[:, 5:131].view(6, 7, 9, 2).permute(0, 3, 1, 2)
    x = image.first(board / 127.5 - 1).relu()
    for block in image.blocks:
        x = (x + block.second(block.first(x).relu())).relu()
    x = x.permute(0, 2, 3, 1)
    board = image.out(image.squeeze(x).relu().flatten(1))
    features, planes = parts.with_planes(obs)
    assert (features - others - board).abs().max() < 1e-5
    assert planes is not None and (planes - x).abs().max() < 1e-5
    assert torch.equal(parts(obs.view(2, 3, -1)).view(6, 16), parts(obs))


def test_parts_beside_an_image_begin_as_one_linear_layer_would() -> None:
    """First weights reach as far in all parts, by the number of all that is added up: no few numbers drown a board.

    Without an image each reaches as far as its own size says.
    """
    torch.manual_seed(0)
    layers = [part.out for part in Parts(STRUCTURE, 256).parts]
    reach = 1 / math.sqrt(sum(layer.in_features for layer in layers))
    for layer in layers:
        assert 0.9 * reach < layer.weight.abs().max() <= reach and layer.bias.abs().max() <= reach
    for layer in (part.out for part in Parts([part for part in STRUCTURE if part.kind != "image"], 256).parts):
        reach = 1 / math.sqrt(layer.in_features)
        assert 0.9 * reach < layer.weight.abs().max() <= reach and layer.bias.abs().max() <= reach


@pytest.mark.parametrize(
    "shape, sides", [((6, 7, 2), (6, 7)), ((19, 19, 4), (19, 19)), ((84, 84, 4), (11, 11)), ((1, 9, 3), (1, 9))]
)
def test_boards_keep_their_cells_and_pictures_become_as_small(
    shape: tuple[int, int, int], sides: tuple[int, int]
) -> None:
    """Up to 400 cells no convolution has a stride; larger images are halved until they have no more."""
    part = ImagePart(ObservationPart("x", 0, shape, "image"), 64)
    planes = part.planes(torch.zeros(2, shape[0] * shape[1] * shape[2]))
    assert planes.shape == (2, *sides, 16)
    assert part(planes).shape == (2, 64)


@pytest.mark.parametrize("action", [CELLS, KEYS_THEN_CELLS], ids=["cells", "keys, cells"])
def test_logits_of_actions_on_cells_are_those_of_their_cells(action: ActionSpec) -> None:
    """Each logit is that of its cell and kind, or of the features alone, as a loop over the actions computes them."""
    policy = net(action=action, encoder=False)
    actor = policy.actor
    assert isinstance(actor, CellActor)
    features, planes = torch.randn(3, 24), torch.rand(3, 7, 9, 16)
    found, whole, met = actor(features, planes), actor.whole(features), dict[int, int]()
    assert found.shape == (3, action.num_logits)
    for number, cell in enumerate(action.logit_cells):
        kind = met[cell] = met.get(cell, -1) + 1
        if cell < 0:
            expected = actor.rest(features)[:, kind]
        else:
            expected = actor.out((actor.here(planes[:, cell // 9, cell % 9]) + whole).relu())[:, kind]
        assert (found[:, number] - expected).abs().max() < 1e-5


@pytest.mark.parametrize(
    "shape, torso", [((3, 3, 2), "conv"), ((5, 13, 1), "conv"), ((84, 84, 3), "conv"), ((65,), "mlp")]
)
def test_auto_takes_convolutions_for_images(shape: tuple[int, ...], torso: str) -> None:
    """`auto` and `conv` are convolutions for any image; without one, `auto` is `mlp` and `conv` is refused."""
    kind = "image" if len(shape) == 3 else "numbers"
    part = ObservationPart("x", 0, shape, kind)
    game = guessing.spec(guessing.Options())
    spec = replace(game, obs_size=part.size, opponent_slice=(0, 0), observation=(part,), unbounded=())
    assert torso_of("auto", spec) == torso and torso_of("mlp", spec) == "mlp"
    if kind == "image":
        assert torso_of("conv", spec) == "conv"
    else:
        with pytest.raises(ConfigError, match=r"agent\.torso=conv"):
            torso_of("conv", spec)


def test_actions_that_name_no_cell_have_plain_logits() -> None:
    """So have all where the torso is `mlp`, which takes an image as numbers, and where a picture was made smaller."""
    assert not isinstance(net().actor, CellActor) and not isinstance(net(action=CELLS, torso="mlp").actor, CellActor)
    flat = net(action=CELLS, torso="mlp").observe[0]
    assert all(not isinstance(part, ImagePart) for part in flat.parts) and flat(seen(2)).shape == (2, 16)
    picture = (ObservationPart("picture", 0, (32, 32, 1), "image"),)
    large = ActionSpec("discrete", (1024,), cells=tuple(range(1024)))
    sizes = (False, 1, 2, 16, 16, 4, 2, 16, 8, ())
    policy = ActorCritic(Architecture(1024, (0, 0), large, *sizes, observation=picture, torso="conv"))
    assert not isinstance(policy.actor, CellActor)


def test_tables_of_several_nets_are_looked_up_net_by_net() -> None:
    """Rows of the second net find the second table."""
    table = Embedding(5, 3)
    tables = torch.randn(2, 5, 3)
    index = torch.randint(0, 5, (8, 2))
    table.weight = nn.Parameter(tables)
    expected = torch.cat([tables[0][index[:4]], tables[1][index[4:]]])
    assert torch.equal(table(index), expected)


@pytest.mark.parametrize("action", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("encoder", [True, False])
def test_step_and_sequence_agree_on_all_spaces(action: ActionSpec, encoder: bool) -> None:
    """A segment replayed gives play's log-probabilities and values, matches beginning inside it; all learns."""
    policy = net(action=action, encoder=encoder).double()
    obs = seen(3, 11).double()
    mask = masks(3, 11) if action is PAIRS else torch.ones(3, 11, action.mask_size, dtype=torch.bool)
    is_first = torch.zeros(3, 11, dtype=torch.bool)
    is_first[:, 0] = is_first[1, 4] = True
    state, steps = policy.initial_state(3), []
    stored = state.select(None)
    for t in range(11):
        state.clear(is_first[:, t].nonzero()[:, 0])
        steps.append(policy.step(obs[:, t], state, mask=mask[:, t], generator=torch.Generator().manual_seed(t)))
    chosen, log_prob, value = (torch.stack(x, 1) for x in zip(*steps, strict=True))
    assert chosen.dtype == (torch.float32 if action.has_real else torch.int64)
    replayed, entropy, values = policy.sequence(obs, chosen, stored, is_first, mask)
    assert (log_prob - replayed).abs().max() < 1e-10 and (value - values).abs().max() < 1e-10
    (replayed.mean() + entropy.mean() + values.square().mean()).backward()
    weak = {n for n, p in policy.named_parameters() if p.grad is None or p.grad.norm() <= 1e-7}
    assert not weak


@pytest.mark.parametrize("action", SPACES.values(), ids=SPACES)
@pytest.mark.parametrize("precision", ["highest", "bf16"])
def test_stacked_nets_of_parts_play_as_each_alone(action: ActionSpec, precision: str) -> None:
    """Tables, convolutions and tuples' heads of several nets in one call give what each net gives."""
    policies = [net(seed, action).requires_grad_(False) for seed in range(3)]
    stack = StackedPolicy(policies[0], 3, precision)
    for slot, policy in enumerate(policies):
        stack.put(slot, policy)
    state, alone = policies[0].initial_state(12), [policy.initial_state(4) for policy in policies]
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
        for t in range(6):
            obs = seen(12, seed=t)
            mask = masks(12) if action is PAIRS else None
            played = stack.step(obs, state, num_slots=3, mask=mask, greedy=True)
            for slot, policy in enumerate(policies):
                rows = slice(4 * slot, 4 * slot + 4)
                own = None if mask is None else mask[rows]
                expected = policy.step(obs[rows], alone[slot], mask=own, greedy=True)
                close = 0.05 if precision == "bf16" else 1e-4
                assert (played[2][rows] - expected[2]).abs().max() < close
                if precision == "highest":
                    assert torch.allclose(played[0][rows].double(), expected[0].double(), atol=1e-4)
                    assert (played[1][rows] - expected[1]).abs().max() < 1e-3


def test_a_slice_that_cuts_tokens_is_refused() -> None:
    """The encoder cannot look up half a hand, nor a part of a board."""
    with pytest.raises(ValueError, match=r"opponent_slice=\(2, 133\) cuts the observation part 'hand'"):
        ActorCritic(Architecture(SIZE, (2, 133), PAIRS, True, 1, 2, 16, 16, 4, 2, 8, 8, (), observation=STRUCTURE))


@pytest.mark.parametrize("action", [*SPACES.values(), *guessing.ACTIONS.values()])
def test_architectures_of_all_spaces_survive_json(action: ActionSpec) -> None:
    """The manifest's architecture builds the same network again; what flat games write has no new field."""
    a = net(action=action).architecture
    assert Architecture.from_json(a.to_json()) == a
    flat = Architecture(12, (6, 12), ActionSpec("multi_binary", (2,) * 4), True, 2, 2, 16, 32, 7, 3, 16, 24, (12,))
    assert set(flat.to_json()["action"]) == {"kind", "choices"} and "observation" not in flat.to_json()
