"""Networks of one's own: the examples, what they remember, and those that say that they can be stacked."""

import copy
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from league import config as settings
from league.arena import networks
from league.envs import registry
from league.envs.cards.catalogue import CARDS, effect_name
from league.envs.cards.rules import OTHER_KEEPER, OTHER_SLOT, CardRules
from league.errors import ContractError
from league.policies.actor_critic import ActorCritic
from league.policies.memory import Memory
from league.policies.stacked import StackedPolicy
from league.testing import check_policy
from tests.helpers.cases import cases
from tests.helpers.rollouts import network
from tests.oracles.cards.match import ReferenceMatch

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GRU = EXAMPLES / "gru.py"


def opened(name: str) -> Any:
    """The module examples/NAME.py."""
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def example(name: str) -> Any:
    """The class of examples/NAME.py."""
    return getattr(opened(name), name.upper())


@pytest.mark.parametrize(
    ("name", "game"),
    cases(
        ("gru", "matrix"),
        ("gru", "cards"),
        ("mlp", "matrix"),
        slow=[(name, game) for name in ("gru", "mlp") for game in ("kuhn", "brawl", "leduc", "cards")],
    ),
)
def test_the_examples_keep_the_contract_in_every_game(name: str, game: str) -> None:
    """With masks and without, keys, choices and legal tuples."""
    config = settings.load(env=game, overrides=["agent.lstm_size=8"])
    spec = registry.spec(game, config.env.options)
    torch.manual_seed(0)
    check_policy(example(name)(spec, config.agent), spec)


def test_the_network_made_for_cards_keeps_the_contract() -> None:
    """And two cards that do different things are known apart before anything is learned."""
    spec = registry.spec("cards", settings.load(env="cards").env.options)
    torch.manual_seed(0)
    module = opened("card_policy")
    check_policy(module.CardPolicy(spec, None), spec)
    known = [module.features_of(card) for card in CARDS]
    assert all(known.index(features) == i for i, features in enumerate(known))


def test_the_facts_of_an_action_are_what_comes_of_it() -> None:
    """Each attack, spell and ability of some matches, carried out by the slow reference: who falls, and the damage."""
    module, rng = opened("card_policy"), np.random.default_rng(0)
    seen = dict.fromkeys(("kills", "dies", "lethal", "lived"), 0)
    for seed in range(6):
        match = ReferenceMatch(CardRules(), seed)
        while match.end()[0] is None:
            legal = match.legal()
            obs = torch.tensor([match.observe(match.acting)], dtype=torch.float32)
            rows, choices = torch.zeros(len(legal), dtype=torch.long), torch.tensor([list(a) for a in legal])
            told = module.facts_of(obs, rows, choices, torch.tensor(module.DAMAGE)).tolist()
            for action, facts in zip(legal, told, strict=True):
                if action.kind not in ("attack", "cast", "ability") or not OTHER_SLOT <= action.target <= OTHER_KEEPER:
                    assert not any(facts)
                    continue
                after, seat = copy.deepcopy(match), match.acting
                after.perform(action)
                kills, dies, lethal, _, _, to_keeper, felt, back = facts
                if action.target == OTHER_KEEPER:
                    lost = match.other.health - after.keepers[1 - seat].health
                    assert (8 * to_keeper, lethal) == (lost, after.keepers[1 - seat].health <= 0) and not kills
                else:
                    before, target = (m.creature_at(seat, action.target) for m in (match, after))
                    is_returned = effect_name(CARDS[action.card].arrival) == "return"
                    assert kills == (target is None and not is_returned)
                    assert target is None or 8 * felt == before.health - target.health
                    seen["lived"] += target is not None and felt > 0
                if action.kind == "attack":
                    mine, left = match.me.board[action.slot - 1], after.keepers[seat].board[action.slot - 1]
                    assert dies == (left is None)
                    assert left is None or left.has("drain") or 8 * back == mine.health - left.health
                for name, fact in (("kills", kills), ("dies", dies), ("lethal", lethal)):
                    seen[name] += fact > 0
            match.perform(legal[rng.integers(len(legal))])
    assert all(count > 5 for count in seen.values()), seen


def test_the_example_is_short() -> None:
    assert len(GRU.read_text().splitlines()) <= 52


def test_what_is_remembered_of_rows() -> None:
    """Named tensors, row by row; copies where copies are promised, and a name that there is not is told."""
    memory = Memory(a=torch.arange(6.0).view(3, 2), b=torch.ones(3))
    memory.a[1] = 7
    part = memory.select(torch.tensor([2, 1]))
    memory.clear(torch.tensor([1]))
    assert part.a.tolist() == [[4, 5], [7, 7]] and memory.a.tolist() == [[0, 1], [0, 0], [4, 5]]
    joined = part.join([memory])
    assert joined.a.tolist() == [*part.a.tolist(), *memory.a.tolist()] and joined.b.tolist() == [1, 1, 1, 0, 1]
    whole = memory.select(None)
    memory.load({"a": torch.full((3, 2), 9.0), "b": torch.zeros(3)})
    assert whole.a[0].tolist() == [0, 1] and memory.a[0].tolist() == [9, 9] and memory.tensors()["a"] is memory.a
    assert Memory().join([Memory()]).tensors() == {} and Memory(x=torch.ones(2)).join([]).x.tolist() == [1, 1]
    with pytest.raises(AttributeError, match="this memory has no 'c'; it has a, b"):
        memory.c  # noqa: B018


class Stacking(ActorCritic):
    """The library's network as one's own: it says that it can be stacked."""

    shift = 0.0

    def make_stack(self, num_slots: int, precision: str) -> StackedPolicy:
        """Its layers are the library's."""
        stack = StackedPolicy(self, num_slots, precision)
        if self.shift:
            step = stack.step

            def other(*given: Any, **more: Any) -> Any:
                action, log_prob, value = step(*given, **more)
                return action, log_prob, value + self.shift

            stack.step = other  # type: ignore[method-assign]
        return stack


def test_only_what_says_so_is_stacked() -> None:
    spec = registry.spec("matrix", {})
    plain = network("matrix", {}, 0)
    own = Stacking(plain.architecture)

    class Silent(ActorCritic):
        pass

    assert networks.make_stack(Silent(plain.architecture), 4, "bf16") is None
    assert networks.make_stack(own, 4, "bf16") is not None and networks.make_stack(plain, 4, "bf16") is not None
    check_policy(own, spec, rows=2, steps=5)
    own.shift = 0.1
    with pytest.raises(ContractError, match=r"a net in its make_stack\(\) plays otherwise than by itself"):
        check_policy(own, spec, rows=2, steps=5)
