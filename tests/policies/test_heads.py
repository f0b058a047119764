"""Heads of keys, choices, real numbers, mixtures and legal tuples against slow references and torch's own."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import AffineTransform, Normal, TanhTransform, TransformedDistribution

from league.policies.autoregressive import TuplesHead
from league.policies.heads import BoxHead, ChoicesHead, KeysHead, MixtureHead, make_head
from league.types import ActionSpec

BOUNDS = ((0.0, 10.0), (-1.0, 1.0), (1000.0, 1001.0))
CHOICES, ROOM = (3, 4, 2), 9


def scale_of(raw: Tensor) -> Tensor:
    """The scale that a head makes of what the network gives."""
    return nn.functional.softplus(raw + math.log(math.expm1(0.5))) + 1e-3


def test_a_box_has_the_density_of_torch_s_squashed_normal() -> None:
    """On [-1, 1] the log-probability is that of tanh of a normal; bounds only shift and stretch the action."""
    head, logits = BoxHead(BOUNDS), torch.randn(200, 6, dtype=torch.float64)
    action, log_prob = head.sample(logits, None, generator=torch.Generator().manual_seed(0), greedy=False)
    mean, scale = logits[:, :3], scale_of(logits[:, 3:])
    low, high = torch.tensor(BOUNDS, dtype=torch.float64).T
    unit = (action.double() - low) / (high - low) * 2 - 1
    expected = TransformedDistribution(Normal(mean, scale), [TanhTransform(cache_size=1)]).log_prob(unit)
    sure = (unit[:, :2].abs() < 0.999).all(1) & (unit[:, 2].abs() < 0.99)
    assert sure.sum() > 100
    assert (log_prob - expected.sum(1))[sure].abs().max() < 1e-6
    stretched = TransformedDistribution(
        Normal(mean, scale), [TanhTransform(cache_size=1), AffineTransform((low + high) / 2, (high - low) / 2)]
    ).log_prob(action.double())
    assert ((stretched + ((high - low) / 2).log()).sum(1) - log_prob)[sure].abs().max() < 1e-6
    again, _ = head.evaluate(logits, action, None)
    assert torch.equal(again, log_prob), "learning sees the very numbers of play"


def test_actions_of_a_box_lie_within_its_bounds_whatever_the_weights() -> None:
    """Means far out and large scales give bounds, never more, and finite log-probabilities while float32 holds them."""
    head = BoxHead(((0.1, 0.3), (-1e6, 1e6)))
    logits = torch.tensor([[50.0, -50.0, 9.0, 9.0], [3.0, 3.0, -40.0, -40.0], [0.0, 0.0, 100.0, 100.0]]).repeat(500, 1)
    spec = ActionSpec("box", bounds=((0.1, 0.3), (-1e6, 1e6)))
    for greedy in (True, False):
        action, log_prob = head.sample(logits, None, generator=torch.Generator().manual_seed(1), greedy=greedy)
        assert action.dtype == torch.float32 and spec.is_legal(action.numpy(), None).all()
        assert torch.isfinite(log_prob).all()


@pytest.mark.parametrize("mean, raw", [(0.0, 0.0), (1.5, -2.0), (-3.0, 1.0), (0.0, 3.0)])
def test_entropy_of_a_box_is_the_mean_surprise(mean: float, raw: float) -> None:
    """Quadrature gives what a quarter of a million draws give, within their error; log 2 is the most there is."""
    head, logits = BoxHead(((0.0, 5.0),)), torch.tensor([mean, raw], dtype=torch.float64)
    many = logits.expand(250_000, 2)
    action, log_prob = head.sample(many, None, generator=torch.Generator().manual_seed(0), greedy=False)
    _, entropy = head.evaluate(logits[None], action[:1], None)
    error = log_prob.std().item() / math.sqrt(len(log_prob))
    assert abs(entropy.item() + log_prob.mean().item()) < 5 * error + 0.01
    assert entropy.item() < math.log(2) + 1e-3


def test_a_mixture_is_its_parts() -> None:
    parts = (
        ActionSpec("multi_binary", (2, 2)),
        ActionSpec("box", bounds=BOUNDS[:1]),
        ActionSpec("multi_discrete", (3, 2)),
    )
    spec = ActionSpec("mixture", parts=parts)
    logits, mask = torch.randn(300, spec.num_logits), torch.rand(300, spec.mask_size) < 0.6
    mask[:, [2, 5]] = True
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    head = make_head(spec, 0)
    assert isinstance(head, MixtureHead)
    action, log_prob = head.sample(logits, mask, generator=generators[0], greedy=False)
    again, entropy = head.evaluate(logits, action, mask)
    alone = [KeysHead(), BoxHead(BOUNDS[:1]), ChoicesHead((3, 2))]
    pieces = zip(alone, logits.split([2, 2, 5], -1), (mask[:, :2], None, mask[:, 2:]), strict=True)
    drawn = [h.sample(x, m, generator=generators[1], greedy=False) for h, x, m in pieces]
    assert torch.equal(action, torch.cat([a.float() for a, _ in drawn], 1)) and action.dtype == torch.float32
    assert torch.allclose(log_prob, sum(p for _, p in drawn), atol=1e-6) and torch.allclose(again, log_prob, atol=1e-6)
    pieces = zip(alone, logits.split([2, 2, 5], -1), (mask[:, :2], None, mask[:, 2:]), drawn, strict=True)
    assert torch.allclose(entropy, sum(h.evaluate(x, a, m)[1] for h, x, m, (a, _) in pieces), atol=1e-6)
    assert spec.is_legal(action.numpy(), mask.numpy()).all()


def tuples_head(dtype: torch.dtype = torch.float64, gain: float = 30.0) -> TuplesHead:
    """A head whose choices are not all alike."""
    torch.manual_seed(0)
    head = TuplesHead(ActionSpec("legal_tuples", CHOICES, ROOM), 8).to(dtype)
    for layer in head.logits:
        layer.weight.data.mul_(gain)
    return head


def some_tuples(rng: np.random.Generator, count: int) -> Tensor:
    """A mask (ROOM * 3,) of so many different tuples."""
    every = np.array(list(product(*map(range, CHOICES))))
    mask = np.full((ROOM, 3), -1, np.int16)
    mask[:count] = every[rng.choice(len(every), count, replace=False)]
    return torch.from_numpy(mask.ravel())


def slow(head: TuplesHead, features: Tensor, tuples: list[tuple[int, ...]]) -> dict[tuple[int, ...], float]:
    """Legal tuple -> probability, by recursion over what each part leaves open."""
    found: dict[tuple[int, ...], float] = {}

    def go(prefix: tuple[int, ...], x: Tensor, log_p: float) -> None:
        part = len(prefix)
        if part == len(CHOICES):
            found[prefix] = math.exp(log_p)
            return
        open_now = sorted({t[part] for t in tuples if t[:part] == prefix})
        logits = head.logits[part](torch.tanh(x)).tolist()
        total = math.log(sum(math.exp(logits[c]) for c in open_now))
        for c in open_now:
            after = x + head.seen[part].weight[c] if part < len(CHOICES) - 1 else x
            go((*prefix, c), after, log_p + logits[c] - total)

    go((), features, 0.0)
    return found


@pytest.mark.parametrize("count", [1, 2, 5, ROOM])
def test_probabilities_of_legal_tuples_are_the_references(count: int) -> None:
    """They sum to 1 over the listed tuples, which alone are drawn, as often as they should be; greedy goes by part."""
    head, rng = tuples_head(), np.random.default_rng(count)
    mask, features = some_tuples(rng, count), torch.randn(8, dtype=torch.float64)
    tuples = [tuple(t) for t in mask.view(ROOM, 3).tolist() if t[0] >= 0]
    with torch.no_grad():
        expected = slow(head, features, tuples)
        assert sum(expected.values()) == pytest.approx(1) and len(expected) == count
        log_prob, _ = head.evaluate(features.expand(count, 8), torch.tensor(tuples), mask.expand(count, -1))
        assert log_prob.exp().tolist() == pytest.approx([expected[t] for t in tuples], abs=1e-12)
        many = 20_000
        drawn, of_drawn = head.sample(
            features.expand(many, 8), mask.expand(many, -1), generator=torch.Generator().manual_seed(0), greedy=False
        )
        found, counts = drawn.unique(dim=0, return_counts=True)
        assert {tuple(t) for t in found.tolist()} <= set(tuples)
        for t, number in zip(map(tuple, found.tolist()), counts.tolist(), strict=True):
            spread = math.sqrt(max(0.0, expected[t] * (1 - expected[t])) / many)
            assert abs(number / many - expected[t]) < 5 * spread + 1e-4
            assert of_drawn[(drawn == torch.tensor(t)).all(1)][0].item() == pytest.approx(math.log(expected[t]))
        greedy, _ = head.sample(features[None], mask[None], generator=None, greedy=True)
        prefix: tuple[int, ...] = ()
        for part in range(3):  # the likeliest choice of each part, the earlier ones given
            shares = {
                c: sum(p for t, p in expected.items() if t[: part + 1] == (*prefix, c)) for c in range(CHOICES[part])
            }
            prefix = (*prefix, max(shares, key=lambda c: shares[c]))
        assert tuple(greedy[0].tolist()) == prefix


def test_entropy_along_drawn_tuples_has_the_whole_s_mean() -> None:
    """The mean over all tuples of the entropy along each is the entropy of the whole (chain rule)."""
    head, features = tuples_head(), torch.randn(8, dtype=torch.float64)
    mask = some_tuples(np.random.default_rng(1), 7)
    tuples = [tuple(t) for t in mask.view(ROOM, 3).tolist() if t[0] >= 0]
    expected = slow(head, features, tuples)
    _, along = head.evaluate(features.expand(7, 8), torch.tensor(tuples), mask.expand(7, -1))
    mean = sum(expected[t] * x for t, x in zip(tuples, along.tolist(), strict=True))
    assert mean == pytest.approx(-sum(p * math.log(p) for p in expected.values()), abs=1e-10)
    assert along.std() > 1e-3, "else any estimate would do"


@pytest.mark.parametrize("size", [1e4, 1e30, float("inf"), float("nan")])
def test_illegal_tuples_are_never_drawn_whatever_the_weights(size: float) -> None:
    """Logits of any size, or none, leave every action legal; log-probabilities say where they are no numbers."""
    head = tuples_head(torch.float32)
    for layer in head.logits:
        layer.bias.data.copy_(torch.randn(len(layer.bias)).sign() * size)
    rng, spec = np.random.default_rng(0), ActionSpec("legal_tuples", CHOICES, ROOM)
    mask = torch.stack([some_tuples(rng, 1 + i % ROOM) for i in range(200)])
    for greedy in (True, False):
        given: dict[str, Any] = {"generator": torch.Generator().manual_seed(0), "greedy": greedy}
        action, log_prob = head.sample(torch.randn(200, 8), mask, **given)
        assert spec.is_legal(action.numpy(), mask.numpy()).all()
        assert not torch.isnan(log_prob).any() if size < 1e38 else torch.isnan(log_prob).any()


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
    chances = [log_prob[(action == row).all(1)][0].exp().item() for row in unique]
    assert sum(chances) == pytest.approx(1, abs=0.01)
    _, entropy = head.evaluate(logits[:1], action[:1], mask[:1])
    assert entropy.item() == pytest.approx(-sum(p * math.log(p) for p in chances), abs=0.05)
    for expected, count in zip(chances, counts, strict=True):
        assert abs(count.item() / 20_000 - expected) < 5 * math.sqrt(expected * (1 - expected) / 20_000)
