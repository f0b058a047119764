"""The agent's network: opponent encoder -> cross-attention -> LSTM -> actor and critic (implements `Policy`).

With a skip connection the actor and the critic see what the LSTM sees beside what it makes of it: what must be
answered at once then need not go through its gates first, and is learned sooner (lab/experiments.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from league.errors import ConfigError
from league.policies.attention import CrossAttention
from league.policies.heads import make_head
from league.policies.kernels.gathered import gathered
from league.policies.kernels.linear import Linear, at_rest
from league.policies.kernels.lstm import lstm_cell, lstm_segment
from league.policies.kernels.ring import EncoderMemory
from league.policies.opponent_encoder import OpponentEncoder, Stream
from league.policies.parts import SumOfParts, embed
from league.policies.pointers import PointerActor
from league.policies.standardiser import Standardiser
from league.policies.torso import Torso, channels_of, pointed, torso_of
from league.types import ActionSpec, GameSpec, ObservationPart, Policy, Watched
from league.types.observations import parts_within


@dataclass(frozen=True)
class Architecture:
    """The sizes of an `ActorCritic`; all that is needed, with the weights, to build it again."""

    obs_size: int
    opponent_slice: tuple[int, int]
    action: ActionSpec
    opponent_encoder: bool
    encoder_layers: int
    encoder_heads: int
    encoder_width: int
    encoder_feedforward: int
    history_tokens: int
    latents: int
    observation_width: int
    lstm_size: int
    head_sizes: tuple[int, ...]
    observation: tuple[ObservationPart, ...] | None = None
    """How the flat observation is parts; None: it is not."""
    skip_connection: bool = False
    """Whether the heads see the LSTM's input, too."""
    torso: Torso = "mlp"
    """`auto`: images go through convolutions, entities through attention; `mlp`: they are numbers like the others."""
    unbounded: tuple[tuple[int, int], ...] = ()
    """The numbers of an observation that have no bounds (`GameSpec.unbounded`)."""

    @classmethod
    def of(cls, spec: GameSpec, *, history_tokens: int, torso: str = "auto", **sizes: Any) -> Architecture:
        """The architecture for a game, `sizes` being the rest of the fields.

        Raises:
            ConfigError: an opponent encoder is wanted, and the game shows nothing of the opponent.
        """
        start, stop = spec.opponent_slice
        if sizes.get("opponent_encoder") and start == stop:
            raise ConfigError(
                f"agent.opponent_encoder=true: {spec.name} shows nothing of the opponent"
                f" (opponent_slice={start, stop}); pass --set agent.opponent_encoder=false, or let its GameSpec name a"
                " slice or public_actions=True"
            )
        seen = (spec.obs_size, spec.opponent_slice, spec.action)
        own = {"history_tokens": history_tokens, "torso": torso_of(torso, spec), **sizes}
        return cls(*seen, observation=spec.observation, unbounded=spec.unbounded or (), **own)

    def to_json(self) -> dict[str, Any]:
        """A plain dict for the manifest."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Architecture:
        """The inverse of `to_json`."""
        return TypeAdapter(cls).validate_python(data)

    @property
    def token(self) -> tuple[ObservationPart, ...] | None:
        """The parts of what shows the opponent; None where the observation has none.

        Raises:
            ValueError: an end of `opponent_slice` lies within an image, tokens or entities.
        """
        return None if self.parts is None else parts_within(self.parts, *self.opponent_slice)

    @property
    def parts(self) -> tuple[ObservationPart, ...] | None:
        """`observation` as the network takes it."""
        if self.observation is None or self.torso == "auto":
            return self.observation
        return tuple(
            ObservationPart(part.name, part.start, (part.size,), bounds=part.bounds) if part.num_elements else part
            for part in self.observation
        )


@dataclass
class ActorCriticState:
    """What a policy remembers of N rows: the LSTM's state (N, lstm_size) and, with an encoder, its memory."""

    hidden: Tensor
    cell: Tensor
    memory: EncoderMemory | None

    def tensors(self) -> dict[str, Tensor]:
        """The tensors themselves by name; the row is axis 1 of `keys` and `values`, axis 0 of the rest."""
        named = {"hidden": self.hidden, "cell": self.cell}
        if self.memory is not None:
            named |= {"keys": self.memory.keys, "values": self.memory.values, "count": self.memory.count}
        return named

    def clear(self, rows: Tensor) -> None:
        """Forgets everything of `rows` (n,), as at a match's start."""
        self.hidden[rows] = 0
        self.cell[rows] = 0
        if self.memory is not None:
            self.memory.count[rows] = 0

    def part(self, rows: slice) -> ActorCriticState:
        """See `league.types.Divisible`."""
        memory = None if self.memory is None else self.memory.part(rows)
        return ActorCriticState(self.hidden[rows], self.cell[rows], memory)

    def select(self, rows: Tensor | None) -> ActorCriticState:
        """A copy of `rows` (None: of all)."""
        index = slice(None) if rows is None else rows

        def pick(x: Tensor) -> Tensor:
            return x[index].clone() if rows is None else x[index]

        memory = self.memory
        if memory is not None:
            both = memory.both.clone() if rows is None else memory.both.index_select(2, rows)
            memory = EncoderMemory(both, pick(memory.count))
        return ActorCriticState(pick(self.hidden), pick(self.cell), memory)

    def join(self, others: Sequence[ActorCriticState]) -> ActorCriticState:
        """A copy of this state's rows, followed by those of `others`."""
        states = [self, *others]

        def side_by_side(parts: list[Tensor], axis: int = 0) -> Tensor:
            return torch.cat(parts, axis) if others else parts[0].clone()

        memories = [state.memory for state in states if state.memory is not None]
        memory = None
        if memories:
            memory = EncoderMemory(
                side_by_side([m.both for m in memories], 2), side_by_side([m.count for m in memories])
            )
        return ActorCriticState(
            side_by_side([s.hidden for s in states]), side_by_side([s.cell for s in states]), memory
        )

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Overwrites this state with what `tensors()` gave."""
        for name, target in self.tensors().items():
            target.copy_(tensors[name])


def _mlp(sizes: list[int], out: int, gain: float) -> nn.Sequential:
    """ReLU layers of `sizes`, then a linear layer of `out`; orthogonal weights, the last of the given gain."""
    layers: list[nn.Module] = []
    for size_in, size in pairwise(sizes):
        layers += [_linear(size_in, size, math.sqrt(2)), nn.ReLU()]
    return nn.Sequential(*layers, _linear(sizes[-1], out, gain))


def _linear(size_in: int, size: int, gain: float) -> Linear:
    """A linear layer of orthogonal weights, without a bias at first."""
    layer = Linear(size_in, size)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class ActorCritic(nn.Module):
    """The full-size agent, or with `opponent_encoder=False` a plain LSTM one. See `league.types.Policy`."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = self.architecture = architecture
        lstm_input = a.observation_width + a.encoder_width * a.opponent_encoder
        sizes = [a.lstm_size + lstm_input * a.skip_connection, *a.head_sizes]
        self.head = make_head(a.action, sizes[-1])
        self.standardise = Standardiser(a.unbounded) if a.unbounded else None
        self.observe = nn.Sequential(embed(a.parts, a.obs_size, a.observation_width), nn.GELU())
        self.encoder: OpponentEncoder | None = None
        if a.opponent_encoder:
            start, stop = a.opponent_slice
            width = a.encoder_width
            self.encoder = OpponentEncoder(
                embed(a.token, stop - start, width),
                width=width,
                layers=a.encoder_layers,
                heads=a.encoder_heads,
                feedforward=a.encoder_feedforward,
                history=a.history_tokens,
                latents=a.latents,
            )
            self.cross = CrossAttention(a.observation_width, width, a.encoder_heads)
        self.lstm = nn.LSTM(lstm_input, a.lstm_size, batch_first=True)
        if a.action.kind == "legal_tuples":  # the head makes logits of the features itself
            self.actor: nn.Module = _mlp(sizes, sizes[-1], gain=math.sqrt(2))
        elif a.parts is not None and (found := pointed(a.parts, a.action.logit_pointers)):
            self.actor = PointerActor(found, a.parts, channels_of(a.observation_width), partial(_mlp, sizes))
        else:
            self.actor = _mlp(sizes, a.action.num_logits, gain=0.01)
        self.critic = _mlp(sizes, 1, gain=1.0)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def take_statistics(self, obs: Tensor) -> None:
        """See `league.types.Standardising`."""
        if self.standardise is not None:
            self.standardise.take(obs)

    def initial_state(self, num_rows: int) -> ActorCriticState:
        """See `Policy.initial_state`."""
        zeros = next(self.parameters()).new_zeros(num_rows, self.architecture.lstm_size)
        memory = None if self.encoder is None else self.encoder.initial_memory(num_rows)
        return ActorCriticState(zeros, zeros.clone(), memory)

    def at_rest(self) -> AbstractContextManager[None]:
        """See `league.types.Resting`."""
        return at_rest()

    @torch.no_grad()
    def step(
        self,
        obs: Tensor,
        state: ActorCriticState,
        *,
        mask: Tensor | None = None,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Policy.step`."""
        features, elements = self._step(obs, state, rows)
        logits = self._logits(features, elements)
        action, log_prob = self.head.sample(logits, mask, generator=generator, greedy=greedy)
        return action, log_prob, self.critic(features)[:, 0].to(log_prob.dtype)

    @torch.no_grad()
    def value(self, obs: Tensor, state: ActorCriticState, *, rows: Tensor | None = None) -> Tensor:
        """See `Policy.value`."""
        features, _ = self._step(obs, state.select(rows), None)
        result: Tensor = self.critic(features)[:, 0]
        return result

    @torch.no_grad()
    def watch(self, obs: Tensor, state: ActorCriticState, *, rows: Tensor | None = None) -> None:
        """See `Policy.watch`: the encoder reads it, the LSTM goes on with decisions alone."""
        if self.encoder is not None:
            assert state.memory is not None
            self.encoder.step(self.token(obs), state.memory, rows)

    @gathered
    def sequence(
        self,
        obs: Tensor,
        action: Tensor,
        state: ActorCriticState,
        is_first: Tensor,
        mask: Tensor | None = None,
        watched: Watched | None = None,
        most_begins: int | None = None,
        latents: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Policy.sequence`, `league.types.Capturable` and `league.types.Encoding`."""
        if self.encoder is None:
            x, elements = self._observe(obs.transpose(0, 1))
        else:
            seen, elements = self._observe(obs)
            elements = [each.transpose(0, 1) for each in elements]
            met = self.cross(seen, self.latents(obs, state, is_first, watched) if latents is None else latents)
            x = torch.cat([seen.transpose(0, 1), met.transpose(0, 1)], -1)
        # The LSTM and the heads go step by step: (T, B, ...).
        hidden = lstm_segment(x, state.hidden, state.cell, is_first.t(), self.lstm, most_begins)
        features = self._features(hidden, x)
        mask = None if mask is None else mask.transpose(0, 1)
        log_prob, entropy = self.head.evaluate(self._logits(features, elements), action.transpose(0, 1), mask)
        value = self.critic(features).squeeze(-1).to(log_prob.dtype)
        return log_prob.t(), entropy.t(), value.t()

    @gathered
    def latents(self, obs: Tensor, state: ActorCriticState, is_first: Tensor, watched: Watched | None = None) -> Tensor:
        """See `league.types.Encoding`; needs an encoder."""
        assert self.encoder is not None and state.memory is not None
        if watched is None:
            return self.encoder.sequence(self.token(obs), state.memory, is_first)
        stream = Stream.of(self.token(obs), is_first, self.token(watched.obs), watched.before)
        return stream.at_decisions(self.encoder.sequence(stream.tokens, state.memory, stream.is_first))

    def standardised(self, obs: Tensor) -> Tensor:
        """Observations (..., obs_size) as the layers take them: numbers without bounds as deviations."""
        return obs if self.standardise is None else self.standardise(obs)

    @property
    def latents_shape(self) -> tuple[int, int]:
        """See `league.types.Encoding`."""
        return self.architecture.latents, self.architecture.encoder_width

    @property
    def token_size(self) -> int:
        """See `league.types.Encoding`."""
        start, stop = self.architecture.opponent_slice
        return stop - start

    def token(self, obs: Tensor) -> Tensor:
        """See `league.types.Encoding`."""
        start, stop = self.architecture.opponent_slice
        return self.standardised(obs)[..., start:stop]

    def _step(self, obs: Tensor, state: ActorCriticState, rows: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """What the heads see (n, features) of one step, and the elements that actions point at; writes `state`."""
        index = slice(None) if rows is None else rows
        x, elements = self._observe(obs)
        if self.encoder is not None:
            assert state.memory is not None
            x = torch.cat([x, self.cross(x, self.encoder.step(self.token(obs), state.memory, rows))], -1)
        hidden, cell = lstm_cell(x, state.hidden[index], state.cell[index], self.lstm)
        state.hidden[index], state.cell[index] = hidden.to(state.hidden.dtype), cell.to(state.cell.dtype)
        return self._features(hidden, x), elements

    def _observe(self, obs: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Features (..., observation_width) of obs (..., obs_size), and the elements that actions point at, by part."""
        obs = self.standardised(obs)
        if not isinstance(self.actor, PointerActor):
            return self.observe(obs), []
        embedding, activation = self.observe
        assert isinstance(embedding, SumOfParts)
        x, elements = embedding.with_elements(obs, self.actor.parts)
        return activation(x), elements

    def _logits(self, features: Tensor, elements: list[Tensor]) -> Tensor:
        """(..., num_logits), or of `legal_tuples` the features that its head takes."""
        logits: Tensor = self.actor(features, elements) if elements else self.actor(features)
        return logits

    def _features(self, hidden: Tensor, x: Tensor) -> Tensor:
        """What the heads see, of the LSTM's output (..., lstm_size) and its input (..., lstm_input)."""
        return torch.cat([hidden, x.to(hidden.dtype)], -1) if self.architecture.skip_connection else hidden


def state_bytes(policy: Policy) -> int:
    """Bytes that a network remembers of one row."""
    return sum(x.numel() * x.element_size() for x in policy.initial_state(1).tensors().values())
