"""NashConv against published values, brute force over pure strategies, and networks read out and played."""

from itertools import product

import numpy as np
import pytest
import torch

from league.envs import registry
from league.envs.classic import kuhn, leduc
from league.envs.classic.poker import RAISE, betting
from league.maths.behaviour import behaviour
from league.maths.nashconv import margins, mixture, nash_conv, payoffs, uniform
from league.policies.actor_critic import ActorCritic, Architecture
from league.types import GameTree

KUHN = kuhn.tree(kuhn.Options())
LEDUC = leduc.tree(leduc.Options())
SIZES = {
    **{"opponent_encoder": False, "encoder_layers": 1, "encoder_heads": 1, "encoder_width": 4, "latents": 1},
    **{"encoder_feedforward": 4, "history_tokens": 1, "observation_width": 8, "lstm_size": 8, "head_sizes": (8,)},
}


def first_legal(tree: GameTree) -> np.ndarray:
    return np.eye(tree.legal.shape[1])[tree.legal.argmax(axis=1)]


def of_bot(tree: GameTree, bot: np.ndarray) -> np.ndarray:
    """A bot's strategy (P, ranks, ranks, 4) as a behaviour strategy of Kuhn poker, whose one round has no board."""
    table = betting(kuhn.RULES)
    own, places = np.array([0, 1, 2]), np.flatnonzero(table.mover >= 0)
    return np.stack([bot[place, card, 0] for place in places for card in own])


def random_strategies(tree: GameTree, number: int, seed: int) -> np.ndarray:
    """Strategies (number, I, A) that play some information sets mixed and some never reach."""
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(tree.legal.shape[1], 0.4), (number, len(tree.legal))) * tree.legal + 1e-12
    weights = np.where(rng.random((number, len(tree.legal), 1)) < 0.4, first_legal(tree), weights * tree.legal)
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("tree", "strategy", "expected", "value"),
    [
        (KUHN, uniform(KUHN), 11 / 12, 0.125),
        (KUHN, first_legal(KUHN), 2.0, 0.0),
        (LEDUC, uniform(LEDUC), 4.747222222222222, -0.078125),
        (LEDUC, first_legal(LEDUC), 2.0, 0.0),
    ],
)
def test_published_values(tree: GameTree, strategy: np.ndarray, expected: float, value: float) -> None:
    """The figures of OpenSpiel's `exploitability_test.py` and `policy_value_test.py` for Kuhn and Leduc poker."""
    found = nash_conv(tree, strategy)
    assert found.total == pytest.approx(expected, abs=1e-12) and sum(found.gains) == found.total
    assert found.value == pytest.approx(value, abs=1e-12)


@pytest.mark.parametrize("bluff", [0.0, 0.2, 1 / 3])
def test_kuhn_equilibria(bluff: float) -> None:
    """Kuhn's family of equilibria has NashConv 0 and the value -1/18 (Kuhn 1950); a bluff more often has not."""
    bot = kuhn.equilibrium(betting(kuhn.RULES), bluff)
    found = nash_conv(KUHN, of_bot(KUHN, bot))
    assert found.total == pytest.approx(0.0, abs=1e-12) and found.value == pytest.approx(-1 / 18, abs=1e-12)
    bot[0, kuhn.JACK, :, RAISE] += 0.1
    bot[0, kuhn.JACK] /= bot[0, kuhn.JACK].sum(axis=-1, keepdims=True)
    assert nash_conv(KUHN, of_bot(KUHN, bot)).total > 0.001


@pytest.mark.parametrize("tree", [KUHN, LEDUC], ids=["kuhn", "leduc"])
def test_payoffs_are_those_of_walking_the_tree(tree: GameTree) -> None:
    strategies = random_strategies(tree, 2, 2)
    expected = np.zeros((2, 2))
    for leaf in np.setdiff1d(np.arange(len(tree.parent)), tree.parent):
        for pair in product(range(2), repeat=2):
            chance, node = tree.chance[leaf], leaf
            while (parent := tree.parent[node]) >= 0:
                who = pair[tree.player[parent]]
                chance *= strategies[who, tree.infoset[parent], tree.action[node]]
                node = parent
            expected[pair] += chance * tree.payoff[leaf]
    np.testing.assert_allclose(payoffs(tree, strategies), expected, atol=1e-12)
    np.testing.assert_allclose(margins(tree, strategies)[0, 1], (expected[0, 1] - expected[1, 0]) / 2, atol=1e-12)


@pytest.mark.parametrize("tree", [KUHN, LEDUC], ids=["kuhn", "leduc"])
def test_mixture_plays_as_drawing_a_strategy_does(tree: GameTree) -> None:
    strategies, weights = random_strategies(tree, 4, 3), np.array([0.4, 0.3, 0.0, 0.3])
    mixed = mixture(tree, strategies, weights)
    table = payoffs(
        tree,
        np.concatenate([strategies, mixed[None], (weights @ strategies.reshape(4, -1))[None].reshape(1, *mixed.shape)]),
    )
    np.testing.assert_allclose(table[4, :4], weights @ table[:4, :4], atol=1e-12)
    np.testing.assert_allclose(table[:4, 4], table[:4, :4] @ weights, atol=1e-12)
    assert np.abs(table[5, :4] - table[4, :4]).max() > 1e-3


@pytest.mark.parametrize("name", ["kuhn", "leduc"])
def test_network_is_read_out_as_it_plays(name: str) -> None:
    torch.manual_seed(0)
    spec, tree = registry.spec(name, {}), registry.tree(name, {})
    assert tree is not None
    policy = ActorCritic(Architecture.of(spec, **SIZES))
    for parameter in policy.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    table = behaviour(policy, tree)
    assert (table[~tree.legal] == 0).all() and table.std(axis=0).max() > 0.05
    last = {tree.obs[i, n - 1].tobytes(): i for i, n in enumerate(tree.length)}
    assert len(last) == len(tree.legal)
    batch = registry.make(name, rows=200, threads=1, options={})
    generator, seen = torch.Generator().manual_seed(1), set()
    states = [policy.initial_state(200) for _ in range(2)]
    batch.reset(3)
    for _ in range(30):
        for seat, state in enumerate(states):
            mask = torch.from_numpy(batch.mask[:, seat])
            action, log_prob, _ = policy.step(
                torch.from_numpy(batch.obs[:, seat]), state, mask=mask, generator=generator
            )
            batch.actions[:, seat] = action.numpy()
            for row in np.flatnonzero(~batch.mask[:, seat, 0]):
                infoset = last[batch.obs[row, seat].tobytes()]
                seen.add(infoset)
                assert log_prob[row].exp().item() == pytest.approx(table[infoset, action[row, 0]], abs=1e-5)
        batch.step()
        for state in states:
            state.clear(torch.from_numpy(np.flatnonzero(batch.terminated)))
    assert len(seen) > 0.4 * len(last)


def test_what_is_no_strategy_is_refused() -> None:
    for broken in (uniform(KUHN)[:5], 0.5 * uniform(KUHN), np.full((12, 4), 0.25)):
        with pytest.raises(ValueError, match=r"strategy has shape|do not sum to 1"):
            nash_conv(KUHN, broken)


def test_imperfect_recall_is_refused() -> None:
    """A tree whose player forgets whether it acted has no best response by information sets."""
    infoset = KUHN.infoset.copy()
    infoset[KUHN.player == 0] = 0
    with pytest.raises(ValueError, match="no perfect recall"):
        nash_conv(GameTree(**{**vars(KUHN), "infoset": infoset}), uniform(KUHN))
