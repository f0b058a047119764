"""Observations in parts: each layer against torch's own, the network as a whole, and stacked."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from league.policies.actor_critic import ActorCritic, Architecture
from league.policies.parts import Convolution, Embedding, ImagePart, NumbersPart, Parts, TokensPart
from league.policies.stacked import StackedPolicy
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


def net(seed: int = 0, action: ActionSpec = PAIRS, encoder: bool = True) -> ActorCritic:
    """A small network of all parts, whose encoder sees the board and the hand."""
    torch.manual_seed(seed)
    sizes = (encoder, 2, 2, 16, 32, 4, 3, 16, 24, (12, 12))
    policy = ActorCritic(Architecture(SIZE, (2, 135), action, *sizes, observation=STRUCTURE))
    for name, parameter in policy.named_parameters():
        if name.startswith(("head", "actor")):
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return policy


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("shape", [(5, 7, 3), (8, 8, 1), (1, 4, 2)])
def test_a_convolution_is_torch_s(shape: tuple[int, int, int], stride: int) -> None:
    """The same filters as `conv2d` give the same numbers."""
    torch.manual_seed(0)
    layer = Convolution(shape[2], 6, stride).double()
    x = torch.randn(4, *shape, dtype=torch.float64)
    filters = layer.patch.weight.view(6, shape[2], 3, 3)
    expected = F.gelu(F.conv2d(x.permute(0, 3, 1, 2), filters, layer.patch.bias, stride, padding=1))
    assert (layer(x) - expected.permute(0, 2, 3, 1)).abs().max() < 1e-12


def test_parts_become_features_by_their_kind() -> None:
    """Numbers and images are scaled from their bounds, tokens looked up; the parts' features are added up."""
    torch.manual_seed(0)
    parts, obs = Parts(STRUCTURE, 16), seen(6)
    numbers, image, tokens, rest = parts.parts
    assert isinstance(numbers, NumbersPart) and isinstance(image, ImagePart) and isinstance(tokens, TokensPart)
    board = image.out(image.convolutions(obs[:, 5:131].view(6, 7, 9, 2) / 127.5 - 1).flatten(1))
    hand = F.embedding(obs[:, 131:135].long(), tokens.table.weight).flatten(1)
    expected = numbers.out(obs[:, :5] / 10) + board + tokens.out(hand) + rest.out(obs[:, 135:])
    assert (parts(obs) - expected).abs().max() < 1e-5
    assert torch.equal(parts(obs.view(2, 3, -1)).view(6, 16), parts(obs))


@pytest.mark.parametrize("shape, pixels", [((6, 7, 2), 42), ((84, 84, 4), 36), ((3, 3, 1), 9), ((1, 200, 3), 50)])
def test_images_of_all_sizes_become_small(shape: tuple[int, int, int], pixels: int) -> None:
    """At least two convolutions, and at most 64 pixels at their end."""
    part = ImagePart(ObservationPart("x", 0, shape, "image"), 8)
    image = part.convolutions(torch.zeros(1, *shape))
    assert image.shape[1] * image.shape[2] == pixels and image.shape[3] == 32 and len(part.convolutions) >= 2
    assert part(torch.zeros(2, image[0].numel() * 0 + shape[0] * shape[1] * shape[2])).shape == (2, 8)


def test_tables_of_several_nets_are_looked_up_net_by_net() -> None:
    """Rows of the second net find the second table."""
    table = Embedding(5, 3)
    tables = torch.randn(2, 5, 3)
    index = torch.randint(0, 5, (8, 2))
    table.weight = nn.Parameter(tables)
    expected = torch.cat([tables[0][index[:4]], tables[1][index[4:]]])
    assert torch.equal(table(index), expected)


@pytest.mark.parametrize("action", [PAIRS, guessing.ACTIONS["mixture"]], ids=["tuples", "mixture"])
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


@pytest.mark.parametrize("action", [PAIRS, guessing.ACTIONS["mixture"]], ids=["tuples", "mixture"])
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


@pytest.mark.parametrize("action", [PAIRS, *guessing.ACTIONS.values()])
def test_architectures_of_all_spaces_survive_json(action: ActionSpec) -> None:
    """The manifest's architecture builds the same network again; what flat games write has no new field."""
    a = net(action=action).architecture
    assert Architecture.from_json(a.to_json()) == a
    flat = Architecture(12, (6, 12), ActionSpec("multi_binary", (2,) * 4), True, 2, 2, 16, 32, 7, 3, 16, 24, (12,))
    assert set(flat.to_json()["action"]) == {"kind", "choices"} and "observation" not in flat.to_json()
