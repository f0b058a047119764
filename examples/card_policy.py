"""A network that knows how the card duel is built.

    league train --env cards --policy examples/card_policy.py:CardPolicy

The default agent learns for each slot and each card apart what to do with it. Here all creatures go through the same
layers, cards are known by what they do, and each legal action is scored as a whole by whom it concerns, so that what is
learned of one creature holds for all. It is written as any policy of one's own (`docs/parts.md`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.envs.cards.catalogue import CARDS, EFFECTS, KEYWORDS, TARGETS, Card
from league.envs.cards.layout import CREATURE_SIZE, PARTS
from league.envs.cards.rules import NUM_TARGETS, SLOTS, TYPES
from league.policies.memory import Memory
from league.types import GameSpec

CARD_WIDTH, CREATURE_WIDTH, HIDDEN, WIDTH = 32, 48, 256, 128


class CardPolicy(nn.Module):
    """It has no memory: `unseen` tells what the opponent may hold.

    Args:
        spec: of the card duel.
        agent: not looked at.
    """

    _numbers: Tensor
    _cards: Tensor

    def __init__(self, spec: GameSpec, agent: object) -> None:
        super().__init__()
        del agent
        known = torch.tensor([features_of(card) for card in CARDS])
        is_number = torch.ones(spec.obs_size, dtype=torch.bool)
        for name, (start, stop) in PARTS.items():
            is_number[start:stop] = not name.endswith(("hand", "board", "last_card"))
        self.register_buffer("_cards", known, persistent=False)
        self.register_buffer("_numbers", is_number.nonzero()[:, 0], persistent=False)
        self._tuples = (spec.action.max_tuples, spec.action.num_parts)
        self.ids = nn.Embedding(len(CARDS), CARD_WIDTH)
        self.card = nn.Linear(known.shape[1], CARD_WIDTH)
        self.creature = _layers(CARD_WIDTH + CREATURE_SIZE, CREATURE_WIDTH, CREATURE_WIDTH)
        seen = int(is_number.sum()) + 3 * CARD_WIDTH + 2 * SLOTS * CREATURE_WIDTH
        self.body = _layers(seen, HIDDEN, WIDTH)
        self.action = nn.Linear(len(TYPES) + CARD_WIDTH + SLOTS + 1 + 3 * CREATURE_WIDTH + NUM_TARGETS, WIDTH)
        self.situation = nn.Linear(WIDTH, WIDTH)
        last = nn.Linear(WIDTH // 2, 1, bias=False)  # which would change all scores alike
        self.score = nn.Sequential(nn.ReLU(), nn.Linear(WIDTH, WIDTH // 2), nn.ReLU(), last)
        self.critic = nn.Linear(WIDTH, 1)
        nn.init.normal_(self.ids.weight, 0.0, 0.1)
        nn.init.normal_(last.weight, 0.0, 0.01)

    def initial_state(self, num_rows: int) -> Memory:
        """See `Policy.initial_state`."""
        return Memory(hidden=self.critic.weight.new_zeros(num_rows, 0))

    def step(
        self,
        obs: Tensor,
        state: Memory,
        *,
        mask: Tensor | None = None,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Policy.step`."""
        tuples, log_p, value = self._weigh(obs, mask)
        scores = log_p
        if not greedy:
            uniform = torch.rand(log_p.shape, generator=generator, device=log_p.device)
            scores = log_p - torch.log(-torch.log(uniform.clamp(1e-20, 1 - 1e-7)))
        choice = scores.argmax(-1, keepdim=True)
        action = tuples.gather(1, choice[..., None].expand(-1, 1, tuples.shape[-1]))[:, 0]
        return action, log_p.gather(1, choice)[:, 0], value

    def value(self, obs: Tensor, state: Memory, *, rows: Tensor | None = None) -> Tensor:
        """See `Policy.value`."""
        return self._value(self._look(obs)[-1])

    def watch(self, obs: Tensor, state: Memory, *, rows: Tensor | None = None) -> None:
        """See `Policy.watch`: nothing is remembered."""

    def sequence(
        self,
        obs: Tensor,
        action: Tensor,
        state: Memory,
        is_first: Tensor,
        mask: Tensor | None = None,
        watched: Any = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Policy.sequence`."""
        lead = obs.shape[:2]
        tuples, log_p, value = self._weigh(obs.flatten(0, 1), None if mask is None else mask.flatten(0, 1))
        is_taken = (tuples == action.flatten(0, 1)[:, None]).all(-1)
        taken = log_p.masked_fill(~is_taken, -torch.inf).amax(-1)
        entropy = -(log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0)).sum(-1)
        return taken.view(lead), entropy.view(lead), value.view(lead)

    def _value(self, situation: Tensor) -> Tensor:
        value: Tensor = self.critic(situation)[:, 0]
        return value

    def _weigh(self, obs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The legal tuples (n, N, 4), the log-probability of each (n, N), -inf after the last one, and values (n,)."""
        assert mask is not None, "legal_tuples have a mask"
        cards, own, other, situation = self._look(obs)
        tuples = mask.view(len(obs), *self._tuples).long()
        if obs.device.type == "cpu":  # rarely more than a dozen; elsewhere to look would wait for the device
            tuples = tuples[:, : max(1, int((tuples[..., 0] >= 0).sum(1).max()))]
        kind, card, slot, target = tuples.clamp(min=0).unbind(-1)
        nobody = own.new_zeros(len(obs), 1, CREATURE_WIDTH)
        actors, opposite = torch.cat([nobody, own], 1), torch.cat([nobody, other], 1)
        targets = torch.cat([nobody, other, nobody, own, nobody], 1)  # in the order of rules.py
        concerned = [
            F.one_hot(kind, len(TYPES)),
            cards[card],
            F.one_hot(slot, SLOTS + 1),
            _of_rows(actors, slot),
            _of_rows(opposite, slot),
            _of_rows(targets, target),
            F.one_hot(target, NUM_TARGETS),
        ]
        scores = self.score(self.action(torch.cat(concerned, -1)) + self.situation(situation)[:, None])[..., 0]
        log_p = scores.masked_fill(tuples[..., 0] < 0, -torch.inf).log_softmax(-1)
        return tuples, log_p, self._value(situation)

    def _look(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cards by id (29, width), the creatures of both sides (n, slots, width), and the situation (n, width)."""
        cards = torch.tanh(self.card(self._cards) + self.ids.weight)

        def ids(name: str) -> Tensor:
            return obs[:, slice(*PARTS[name])].long().clamp(0, len(CARDS) - 1)

        def creatures(side: str) -> Tensor:
            numbers = obs[:, slice(*PARTS[f"{side}_creatures"])].view(len(obs), SLOTS, CREATURE_SIZE)
            board = ids(f"{side}_board")
            found: Tensor = self.creature(torch.cat([cards[board], numbers], -1)) * (board > 0)[..., None]
            return found

        own, other = creatures("own"), creatures("other")
        hand = (cards[ids("hand")] * (ids("hand") > 0)[..., None]).sum(1)
        last = [cards[ids(f"{side}_last_card")[:, 0]] for side in ("own", "other")]
        seen = [obs[:, self._numbers], hand, *last, own.flatten(1), other.flatten(1)]
        return cards, own, other, self.body(torch.cat(seen, -1))


def features_of(card: Card) -> list[float]:
    """What a card costs and does, each kind of effect and target one-hot, numbers about 1."""
    arrival, spell = (0, card.arrival) if card.is_spell else (card.arrival, 0)
    return [
        *(card.cost / 6, float(card.is_spell), card.power / 6, card.health / 8, card.bonus / 4),
        *(float(card.keywords >> bit & 1) for bit in range(len(KEYWORDS))),
        *_one_hot(arrival, len(EFFECTS)),
        *_one_hot(spell, len(EFFECTS)),
        *_one_hot(card.target, len(TARGETS)),
        card.arrival_amount / 5,
        *_one_hot(card.ability, len(EFFECTS)),
        *_one_hot(card.ability_target, len(TARGETS)),
        *(card.ability_amount / 5, card.ability_cost / 2),
        *_one_hot(card.farewell, len(EFFECTS)),
        card.farewell_amount / 3,
    ]


def _one_hot(index: int, count: int) -> list[float]:
    return [float(i == index) for i in range(count)]


def _layers(size: int, hidden: int, width: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, width), nn.ReLU())


def _of_rows(values: Tensor, index: Tensor) -> Tensor:
    """values (n, K, width) at index (n, N): (n, N, width)."""
    return values.gather(1, index[..., None].expand(-1, -1, values.shape[-1]))
