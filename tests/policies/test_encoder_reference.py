"""The streaming network against a reference that keeps nothing: for each step it encodes the match from scratch.

The reference shares no code with the network. It reads the weights by name and computes in float64, one token, one
head and one score at a time: the causal Transformer in which token t sees t-H+1 ... t, the latents' attention,
cross-attention, LSTM and heads. Rotary positions (arXiv:2104.09864) are complex numbers here: features j and j + d/2
of a head of width d are one number, turned by position * 1000^(-2j/d).
"""

import cmath
import math
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from league.policies.actor_critic import ActorCritic, ActorCriticState, Architecture
from league.policies.kernels import ring
from league.types import ActionSpec
from tests.helpers.cases import cases

Array = npt.NDArray[np.float64]

HISTORY, HEADS, WIDTH, LAYERS = 4, 2, 12, 3
OBS, START, STOP = 9, 4, 9
KEYS = 3
ARCHITECTURE = Architecture(
    OBS,
    (START, STOP),
    ActionSpec("multi_binary", (2,) * KEYS),
    True,
    LAYERS,
    HEADS,
    WIDTH,
    20,
    HISTORY,
    3,
    10,
    14,
    (8,),
)
MATCHES = [
    [3 * HISTORY + 2, 1, 2 * HISTORY + 1, 4],
    [1, 2, HISTORY, 3 * HISTORY, HISTORY + 1, 3],
    [4 * HISTORY + 1, 2 * HISTORY + 1, 2],
    [HISTORY - 1, 3, 1, 1, 5 * HISTORY],
]
"""Lengths of each row's matches: shorter than H, of H, longer than 2H; the last one may go on."""
SEGMENTS = [HISTORY - 1, 3 * HISTORY, 1, HISTORY, HISTORY + 2, 2]
"""Lengths of the segments that the rows' steps are learned in: shorter than H, of H, longer."""
STEPS = sum(SEGMENTS)
ROWS = len(MATCHES)


class Reference:
    """The whole network, slow and plain."""

    def __init__(self, policy: ActorCritic) -> None:
        self.weights = {name: x.detach().double().numpy() for name, x in policy.state_dict().items()}

    def linear(self, name: str, x: Array) -> Array:
        """Weight times x, plus bias where there is one."""
        bias = self.weights.get(f"{name}.bias", np.zeros(1))
        return (
            np.array([sum(w * v for w, v in zip(row, x, strict=True)) for row in self.weights[f"{name}.weight"]]) + bias
        )

    def norm(self, name: str, x: Array) -> Array:
        """Layer normalisation."""
        centred = x - x.mean()
        scaled = centred / math.sqrt((centred**2).mean() + 1e-5)
        return scaled * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def encode(self, tokens: Array) -> Array:
        """The latents (latents, width) after the last of a match's tokens (L, token_size)."""
        x = [self.linear("encoder.embed", token) for token in tokens]
        for layer in range(LAYERS):
            block = f"encoder.blocks.{layer}"
            triples = [np.split(self.linear(f"{block}.qkv", self.norm(f"{block}.norm", one)), 3) for one in x]
            queries, keys, values = ([triple[part] for triple in triples] for part in range(3))
            for t, query in enumerate(queries):
                found = attend(turn(query, t), *visible(keys, values, t))
                x[t] = x[t] + self.linear(f"{block}.out", found)
                hidden = gelu(self.linear(f"{block}.mlp.1", self.norm(f"{block}.mlp.0", x[t])))
                x[t] = x[t] + self.linear(f"{block}.mlp.3", hidden)
        pairs = [np.split(self.linear("encoder.pool_kv", self.norm("encoder.pool_norm", one)), 2) for one in x]
        newest = len(x) - 1
        seen = visible([key for key, _ in pairs], [value for _, value in pairs], newest)
        asked = [turn(query, newest) for query in self.weights["encoder.queries"]]
        return np.array([attend(query, *seen) for query in asked])

    def match(self, obs: Array) -> tuple[list[Array], list[Array], list[float]]:
        """Latents, logits and value after each observation of one match (L, obs_size)."""
        hidden, cell = np.zeros((2, ARCHITECTURE.lstm_size))
        all_latents, all_logits, values = [], [], []
        for t in range(len(obs)):
            latents = self.encode(obs[: t + 1, START:STOP])
            x = gelu(self.linear("observe.0", obs[t]))
            pairs = [np.split(self.linear("cross.kv", latent), 2) for latent in latents]
            found = attend(self.linear("cross.query", x), [key for key, _ in pairs], [value for _, value in pairs])
            x = np.concatenate([x, self.linear("cross.out", found)])
            gates = self.weights["lstm.weight_ih_l0"] @ x + self.weights["lstm.bias_ih_l0"]
            gates = gates + self.weights["lstm.weight_hh_l0"] @ hidden + self.weights["lstm.bias_hh_l0"]
            enter, forget, candidate, leave = np.split(gates, 4)
            cell = sigmoid(forget) * cell + sigmoid(enter) * np.tanh(candidate)
            hidden = sigmoid(leave) * np.tanh(cell)
            all_latents.append(latents)
            all_logits.append(self.linear("actor.2", np.maximum(self.linear("actor.0", hidden), 0)))
            values.append(float(self.linear("critic.2", np.maximum(self.linear("critic.0", hidden), 0))[0]))
        return all_latents, all_logits, values


def visible(keys: list[Array], values: list[Array], t: int) -> tuple[list[Array], list[Array]]:
    """The turned keys, and the values, of the tokens that token t sees."""
    first = max(0, t - HISTORY + 1)
    return [turn(keys[j], j) for j in range(first, t + 1)], values[first : t + 1]


def attend(query: Array, keys: list[Array], values: list[Array]) -> Array:
    """Softmax attention of one query (width,), head by head."""
    size = WIDTH // HEADS
    found = np.zeros(WIDTH)
    for head in range(HEADS):
        part = slice(head * size, (head + 1) * size)
        weights = [math.exp(float(query[part] @ key[part]) / math.sqrt(size)) for key in keys]
        for weight, value in zip(weights, values, strict=True):
            found[part] += weight / sum(weights) * value[part]
    return found


def turn(x: Array, position: int) -> Array:
    """x (width,) with each head's pairs turned as at `position`."""
    size = WIDTH // HEADS
    turned = np.zeros(WIDTH)
    for head in range(HEADS):
        for j in range(size // 2):
            a, b = head * size + j, head * size + j + size // 2
            number = complex(x[a], x[b]) * cmath.exp(1j * position * 1000 ** (-2 * j / size))
            turned[a], turned[b] = number.real, number.imag
    return turned


def gelu(x: Array) -> Array:
    """x times the normal distribution's share below x."""
    return np.array([v * (1 + math.erf(v / math.sqrt(2))) / 2 for v in x])


def sigmoid(x: Array) -> Array:
    """The logistic function."""
    return 1 / (1 + np.exp(-x))


def make(dtype: torch.dtype = torch.float64) -> ActorCritic:
    """A network of sharp attention, whose every part shows in what it plays."""
    torch.manual_seed(0)
    policy = ActorCritic(ARCHITECTURE).double()
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            parameter += 0.1 * torch.randn_like(parameter)
            if "qkv" in name or "cross.query" in name:
                parameter *= 2
    return policy.to(dtype)


def starts(lengths: list[int]) -> list[int]:
    """Where matches of these lengths begin."""
    return [0, *accumulate(lengths)][: len(lengths)]


def scene(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Observations (ROWS, STEPS, OBS), and where the rows' matches begin."""
    generator = torch.Generator().manual_seed(1)
    obs = torch.randn(ROWS, STEPS, OBS, generator=generator, dtype=torch.float64).to(dtype)
    is_first = torch.zeros(ROWS, STEPS, dtype=torch.bool)
    for row, lengths in enumerate(MATCHES):
        is_first[row, starts(lengths)] = True
    return obs, is_first


def reference_of(policy: ActorCritic, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Its latents, logits and values (ROWS, STEPS, ...)."""
    reference, rows = Reference(policy), []
    for row, lengths in enumerate(MATCHES):
        bounds = pairwise([*starts(lengths), STEPS])
        matches = [reference.match(obs[row, a:b].double().numpy()) for a, b in bounds]
        rows.append([np.array([step for match in matches for step in match[part]]) for part in range(3)])
    latents, logits, values = (torch.from_numpy(np.stack(part)) for part in zip(*rows, strict=True))
    return latents, logits, values


def log_probs(logits: Tensor, action: Tensor) -> Tensor:
    """Of independent keys, pressed or not."""
    probability = 1 / (1 + torch.exp(-logits))
    return torch.where(action > 0, probability, 1 - probability).log().sum(-1)


def clear(state: ActorCriticState, is_first: Tensor) -> None:
    """Forgets the rows whose match begins."""
    state.clear(is_first.nonzero()[:, 0])


@pytest.mark.parametrize(
    ("dtype", "tolerance", "groups"),
    cases(
        (torch.float64, 1e-10, [[2, 0], [3, 1]]),
        (torch.float32, 3e-5, [[2, 0], [3, 1]]),
        slow=[(torch.float64, 1e-10, None), (torch.float32, 3e-5, None)],
    ),
)
def test_play_and_learning_are_the_reference(
    dtype: torch.dtype, tolerance: float, groups: list[list[int]] | None
) -> None:
    """What is played step by step and learned segment by segment is what encoding each match from scratch gives.

    In float64 play takes the torch form of the memory, in float32 the compiled one.
    """
    policy = make(dtype)
    obs, is_first = scene(dtype)
    _, logits, values = reference_of(policy, obs)
    assert values.std() > 0.05 and logits.std() > 0.1, "the network says the same of everything: nothing is proved"
    state = policy.initial_state(ROWS)
    with torch.no_grad():
        assert ring.is_plain(state.memory.keys) == (dtype == torch.float32)
    for begin, end in pairwise([0, *accumulate(SEGMENTS)]):
        stored = state.select(None)
        actions = torch.zeros(ROWS, end - begin, KEYS, dtype=torch.int64)
        for t in range(begin, end):
            clear(state, is_first[:, t])
            for rows in [torch.arange(ROWS)] if groups is None else map(torch.tensor, groups):
                action, log_prob, value = policy.step(obs[rows, t], state, rows=None if groups is None else rows)
                actions[rows, t - begin] = action
                assert (value - values[rows, t]).abs().max() < tolerance, f"step {t}"
                assert (log_prob - log_probs(logits[rows, t], action)).abs().max() < tolerance, f"step {t}"
        with torch.no_grad():
            segment = obs[:, begin:end], actions, stored, is_first[:, begin:end]
            log_prob, _, value = policy.sequence(*segment)
        assert (value - values[:, begin:end]).abs().max() < tolerance, f"segment from {begin}"
        assert (log_prob - log_probs(logits[:, begin:end], actions)).abs().max() < tolerance, f"segment from {begin}"


def test_learning_sees_its_own_match_and_no_other() -> None:
    """A step's value has a gradient from its own match so far and exactly none from anything else in the segment."""
    policy = make()
    obs, is_first = scene(torch.float64)
    begins = torch.where(is_first, torch.arange(STEPS), 0).cummax(1).values
    action = torch.zeros(ROWS, STEPS, KEYS, dtype=torch.int64)
    for row in range(ROWS):
        for t in range(0, STEPS, 3):
            seen = obs.clone().requires_grad_()
            _, _, value = policy.sequence(seen, action, policy.initial_state(ROWS), is_first)
            (gradient,) = torch.autograd.grad(value[row, t], seen)
            begin = int(begins[row, t])
            own = torch.zeros(ROWS, STEPS, dtype=torch.bool)
            own[row, begin : t + 1] = True
            felt = gradient.abs().amax(-1)
            assert (felt[own] > 0).all(), f"row {row}, step {t}: a part of its own match is not seen"
            assert (felt[~own] == 0).all(), f"row {row}, step {t}: something else is seen"
