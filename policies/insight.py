"""Looking into a network: how likely each choice is, what it expects, and what of the opponent's past it attends to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from league.policies.actor_critic import ActorCritic, ActorCriticState
from league.policies.autoregressive import TuplesHead
from league.policies.heads import ILLEGAL
from league.policies.kernels.attention import rotate, split, turning
from league.types import ActionSpec


@dataclass(frozen=True)
class Insight:
    """What a network shows of one decision of one row."""

    value: float
    """What it expects from here on: discounted weighted reward. `look` gives it in the network's own units, of which
    the manifest says how large they are (`Manifest.return_size`)."""
    chances: tuple[tuple[float, ...], ...]
    """Of each part of an action the probability of each choice; of keys one part, each that it is pressed. Of a real
    number (mean, scale) before its bounds. Of legal tuples the first part alone, the others hang on it."""
    attention: tuple[float, ...]
    """What it attends to: a share for each token of the opponent's past that it remembers, the oldest first, the last
    one that of this decision. They sum to 1; empty without an encoder."""


@torch.no_grad()
def look(policy: ActorCritic, obs: Tensor, state: ActorCriticState, mask: Tensor | None) -> Insight:
    """What a network shows of the decision for obs (1, obs_size); `state` goes on as by `ActorCritic.step`.

    The attention is that of the encoder's last layer, of each latent over the past, weighed by how much the present
    observation asks of that latent; means over heads. The layers below have mixed the past already, as in any
    Transformer, so it says where the network looks, not why it acts.
    """
    features, elements = policy._step(obs, state, None)
    logits = policy._logits(features, elements)[0]
    attention: tuple[float, ...] = ()
    if policy.encoder is not None:
        assert state.memory is not None
        attention = tuple(_attention(policy, policy._observe(obs)[0], state).tolist())
    value = float(policy.critic(features)[0, 0])
    return Insight(value, chances(policy.architecture.action, policy, logits, mask), attention)


def chances(
    spec: ActionSpec, policy: ActorCritic, logits: Tensor, mask: Tensor | None
) -> tuple[tuple[float, ...], ...]:
    """The probabilities of `Insight`, of logits (num_logits,) and a mask (1, M) or None."""
    seen = None if mask is None else mask[0]
    if isinstance(policy.head, TuplesHead):
        assert seen is not None
        head = policy.head
        tuples = seen.view(-1, len(spec.choices)).long()
        part = head._part(head.logits[0](torch.tanh(logits)), tuples[:, 0], tuples[:, 0] >= 0)
        return (tuple(part.log_p.exp().tolist()),)
    found: list[tuple[float, ...]] = []
    at_logit = at_mask = 0
    for leaf in spec.leaves:
        own = logits[at_logit : at_logit + leaf.num_logits].float()
        legal = None if seen is None or not leaf.mask_size else seen[at_mask : at_mask + leaf.mask_size]
        at_logit, at_mask = at_logit + leaf.num_logits, at_mask + leaf.mask_size
        found += _of_leaf(leaf, own, legal)
    return tuple(found)


def _of_leaf(leaf: ActionSpec, logits: Tensor, legal: Tensor | None) -> list[tuple[float, ...]]:
    if leaf.kind == "box":
        mean, raw = logits.chunk(2)
        return [(float(m), float(torch.nn.functional.softplus(s))) for m, s in zip(mean, raw, strict=True)]
    if leaf.kind == "multi_binary":
        pressed = torch.sigmoid(logits)
        return [tuple((pressed if legal is None else pressed * legal).tolist())]
    if legal is not None:
        logits = logits.masked_fill(~legal, ILLEGAL)
    return [tuple(part.softmax(-1).tolist()) for part in torch.split(logits, list(leaf.choices))]


def _attention(policy: ActorCritic, x: Tensor, state: ActorCriticState) -> Tensor:
    """(n,): over the tokens remembered of the row's match, the oldest first; the newest is in the memory already."""
    encoder: Any = policy.encoder
    memory: Any = state.memory
    heads, width, history = encoder.heads, encoder.width, encoder.history
    count = memory.count - 1
    cos, sin = (x[:, 0] for x in turning(count, width // heads, memory.keys.dtype))  # a query's
    query = rotate(split(encoder.queries, heads), (cos, sin)).transpose(0, 1).float()  # (heads, latents, d)
    keys, values = (split(x[-1, 0], heads).transpose(0, 1).float() for x in (memory.keys, memory.values))
    newest, slots = memory.count[0] - 1, torch.arange(history, device=memory.count.device)
    positions = newest - (newest - slots).remainder(history)  # in the match; negative where nothing is yet
    scores = query @ keys.mT / math.sqrt(width // heads)  # (heads, latents, H)
    weights = scores.masked_fill(positions < 0, -torch.inf).softmax(-1)
    latents = (weights @ values).transpose(0, 1).reshape(1, -1, width)
    asked = _asked(policy.cross, x, latents)
    share = (asked[:, None] * weights.mean(0)).sum(0)
    order = torch.argsort(positions)
    return share[order][-min(int(memory.count[0]), history) :]


def _asked(cross: Any, x: Tensor, latents: Tensor) -> Tensor:
    """(latents,): how much of the cross-attention of x (1, width) goes to each; as `CrossAttention` computes it."""
    width = latents.shape[-1]
    heads = cross.heads
    key, _ = cross.kv.weight.view(2, heads, width // heads, width).unbind(0)
    query = cross.query(x).view(heads, 1, width // heads)
    sought = query @ key  # (heads, 1, width)
    asked: Tensor = (sought @ latents[0].mT * math.sqrt(heads / width)).softmax(-1)[:, 0].mean(0)
    return asked
