"""A network that knows how the card duel is built, and what an action would do at once.

    league train --env cards --policy examples/card_policy.py:CardPolicy --config examples/cards.toml

The default agent learns for each slot and each card apart what to do with it. Here all creatures go through the same
layers, cards are known by what they do, and each legal action is scored as a whole by whom it concerns, so that what is
learned of one creature holds for all. A few facts that follow from the rules are told besides: the damage of an action,
whether it destroys its target, whether the attacker falls. It is written as any policy of one's own (`docs/bring.md`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from league.envs.cards.catalogue import CARDS, EFFECTS, KEYWORDS, TARGETS, Card
from league.envs.cards.layout import CREATURE_SIZE, PARTS
from league.envs.cards.rules import NUM_TARGETS, OTHER_KEEPER, OTHER_SLOT, SLOTS, TYPES, CardRules
from league.policies.memory import Memory
from league.types import GameSpec

THING, WIDTH, NUM_FACTS = 64, 128, 8
CAST, ATTACK, ABILITY = (TYPES.index(name) for name in ("cast", "attack", "ability"))
POWER, HEALTH = 0, 1
SHELL, VENOM = (CREATURE_SIZE - len(KEYWORDS) + list(KEYWORDS).index(name) for name in ("shell", "venom"))
POINTS = 8.0
"""What power and health are divided by where they are shown."""


class CardPolicy(nn.Module):
    """It has no memory: `unseen` tells what the opponent may hold.

    Args:
        spec: of the card duel.
        agent: not looked at.
    """

    _numbers: Tensor
    _cards: Tensor
    _damage: Tensor

    def __init__(self, spec: GameSpec, agent: object) -> None:
        super().__init__()
        del agent
        known = torch.tensor([features_of(card) for card in CARDS])
        is_number = torch.ones(spec.obs_size, dtype=torch.bool)
        for name, (start, stop) in PARTS.items():
            is_number[start:stop] = not name.endswith(("hand", "board", "last_card"))
        self.register_buffer("_cards", known, persistent=False)
        self.register_buffer("_damage", torch.tensor(DAMAGE), persistent=False)
        self.register_buffer("_numbers", is_number.nonzero()[:, 0], persistent=False)
        self._tuples = (spec.action.max_tuples, spec.action.num_parts)
        self.card, self.ids = nn.Linear(known.shape[1], THING), nn.Embedding(len(CARDS), THING)
        nn.init.normal_(self.ids.weight, 0.0, 0.1)
        self.creature = nn.Linear(known.shape[1] + CREATURE_SIZE, THING)
        self.keeper = nn.Linear(PARTS["own_keeper"][1] - PARTS["own_keeper"][0], THING)
        seen = len(self._numbers) + THING + 2 * SLOTS * THING
        self.body = nn.Sequential(nn.Linear(seen, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.critic = nn.Linear(WIDTH, 1)
        roles = ("card", "actor", "opposite", "target", "beside")
        self.roles = nn.ModuleDict({role: nn.Linear(THING, WIDTH, bias=False) for role in roles})
        choices = {"kind": len(TYPES), "slot": SLOTS + 1, "target": NUM_TARGETS, "gate": len(TYPES)}
        self.choices = nn.ModuleDict({name: nn.Embedding(count, WIDTH) for name, count in choices.items()})
        nn.init.zeros_(self.choices["gate"].weight)
        for name in ("kind", "slot", "target"):
            nn.init.normal_(self.choices[name].weight, 0.0, 0.3)
        self.situation = nn.Linear(WIDTH, WIDTH)
        self.facts = nn.Linear(NUM_FACTS, WIDTH, bias=False)
        self.hidden = nn.Linear(WIDTH, WIDTH // 2)
        self.score = nn.Linear(WIDTH // 2, 1, bias=False)  # a bias would change all scores alike
        nn.init.normal_(self.score.weight, 0.0, 0.01)

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
        value: Tensor = self.critic(self._look(obs)[-1])[:, 0]
        return value

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

    def _weigh(self, obs: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The legal tuples (n, N, 4), the log-probability of each (n, N), -inf after the last one, and values (n,).

        On a CPU only the m legal actions are scored, one after the other: most rows have far fewer than N.
        """
        assert mask is not None, "legal_tuples have a mask"
        tuples = mask.view(len(obs), *self._tuples).long()
        is_legal = tuples[..., 0] >= 0
        if obs.device.type == "cpu":
            most = max(1, int(is_legal.sum(1).max()))
            tuples, is_legal = tuples[:, :most], is_legal[:, :most]
            at = is_legal.flatten().nonzero()[:, 0]
        else:  # to look would wait for the device
            at = torch.arange(is_legal.numel(), device=obs.device)
        rows, actions = at // tuples.shape[1], tuples.flatten(0, 1)[at].clamp(min=0)
        cards, slots, targets, situation = self._look(obs)
        kind, card, slot, target = actions.unbind(-1)
        x = (
            (slots + self.situation(situation)[:, None]).flatten(0, 1)[rows * slots.shape[1] + slot]
            + targets.flatten(0, 1)[rows * targets.shape[1] + target]
            + self.roles["card"](cards)[card]
            + self.choices["kind"](kind)
            + self.facts(facts_of(obs, rows, actions, self._damage))
        )
        x = F.relu(x * (1 + self.choices["gate"](kind)))
        found = self.score(F.relu(self.hidden(x)))[:, 0]
        scores = found.new_full((is_legal.numel(),), -torch.inf).index_put((at,), found).view(is_legal.shape)
        log_p = scores.masked_fill(~is_legal, -torch.inf).log_softmax(-1)
        return tuples, log_p, self.critic(situation)[:, 0]

    def _look(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cards by id (29, THING), what acting from each slot and aiming at each target adds to an action's features
        (n, slots + 1, WIDTH) and (n, targets, WIDTH), and the situation (n, WIDTH)."""
        cards = F.relu(self.card(self._cards) + self.ids.weight)

        def ids(name: str) -> Tensor:
            return obs[:, slice(*PARTS[name])].long().clamp(0, len(CARDS) - 1)

        def creatures(side: str) -> Tensor:
            board = ids(f"{side}_board")
            found: Tensor = self.creature(torch.cat([self._cards[board], creatures_of(obs, side)], -1))
            return F.relu(found) * (board > 0)[..., None]

        own, other = creatures("own"), creatures("other")
        keepers = [F.relu(self.keeper(obs[:, slice(*PARTS[f"{side}_keeper"])]))[:, None] for side in ("own", "other")]
        hand = (cards[ids("hand")] * (ids("hand") > 0)[..., None]).sum(1)
        situation = self.body(torch.cat([obs[:, self._numbers], hand, own.flatten(1), other.flatten(1)], -1))
        neighbours = F.pad(own, (0, 0, 1, 0))[:, :-1] + F.pad(own, (0, 0, 0, 1))[:, 1:]
        slots = self.roles["actor"](own) + self.roles["opposite"](other) + self.roles["beside"](neighbours)
        targets = self.roles["target"](torch.cat([other, keepers[1], own, keepers[0]], 1))  # in the order of rules.py
        slots, targets = (F.pad(x, (0, 0, 1, 0)) for x in (slots, targets))  # 0 is no slot, nobody
        return cards, slots + self.choices["slot"].weight, targets + self.choices["target"].weight, situation


def creatures_of(obs: Tensor, side: str) -> Tensor:
    """The numbers of a side's creatures (n, SLOTS, CREATURE_SIZE) in obs (n, obs_size)."""
    return obs[:, slice(*PARTS[f"{side}_creatures"])].view(len(obs), SLOTS, CREATURE_SIZE)


def facts_of(obs: Tensor, rows: Tensor, choices: Tensor, damage_of: Tensor) -> Tensor:
    """What actions `choices` (m, 4) would do at once in the states `rows` (m,) of obs (n, obs_size): (m, NUM_FACTS).

    Whether the target is destroyed, whether the attacker is, whether the other keeper falls (by `CardRules`); what the
    first two are worth; damage to the keeper; damage that the target and the attacker live through. Of a creature that
    is played: nothing.

    damage_of: `DAMAGE`, of each card as a spell and by its ability (2, cards).
    """
    kind, card, slot, target = choices.unbind(-1)
    nobody = obs.new_zeros(len(obs), 1, CREATURE_SIZE)
    own, other = creatures_of(obs, "own"), creatures_of(obs, "other")
    actor = torch.cat([nobody, own], 1)[rows, slot]
    met = torch.cat([nobody, other, nobody, own, nobody], 1)[rows, target]  # in the order of rules.py
    is_attack, is_creature = kind == ATTACK, (target >= OTHER_SLOT) & (target < OTHER_SLOT + SLOTS)
    board = torch.cat([obs.new_zeros(len(obs), 1), obs[:, slice(*PARTS["own_board"])]], 1)
    acting = board[rows, slot].long().clamp(0, len(CARDS) - 1)
    spell, ability = damage_of[0, card], damage_of[1, acting]
    by_effect = torch.where(kind == CAST, spell, torch.where(kind == ABILITY, ability, 0.0))
    damage = torch.where(is_attack, POINTS * actor[:, POWER], by_effect)
    felt = (damage - met[:, SHELL]).clamp(min=0) * is_creature
    back = (POINTS * met[:, POWER] - actor[:, SHELL]).clamp(min=0) * is_creature * is_attack
    kills = (felt > 0) & ((felt >= POINTS * met[:, HEALTH]) | (is_attack & (actor[:, VENOM] > 0)))
    dies = (back > 0) & ((back >= POINTS * actor[:, HEALTH]) | (met[:, VENOM] > 0))
    to_keeper = damage * (target == OTHER_KEEPER)
    health = obs[rows, PARTS["other_keeper"][0]] * CardRules().health
    facts = [
        *(kills, dies, (to_keeper > 0) & (to_keeper >= health - 0.5)),
        *(kills * (2 * met[:, POWER] + met[:, HEALTH]), dies * (2 * actor[:, POWER] + actor[:, HEALTH])),
        *(to_keeper / POINTS, ~kills * felt / POINTS, ~dies * back / POINTS),
    ]
    return torch.stack([fact.to(obs.dtype) for fact in facts], -1)


def _damage(effect: int, amount: int) -> float:
    return float(amount) if effect == list(EFFECTS).index("damage") else 0.0


DAMAGE = [
    [_damage(card.arrival, card.arrival_amount) if card.is_spell else 0.0 for card in CARDS],
    [_damage(card.ability, card.ability_amount) for card in CARDS],
]
"""Of each card, by its id: as a spell, by its ability."""


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
