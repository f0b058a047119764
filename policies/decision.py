"""A decision as a pure function of named tensors: what the network remembers goes in and comes out.

Exporters read it (`league.snapshots.export`). All is torch's own, of any number of rows N.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from league.policies.actor_critic import ActorCritic, ActorCriticState
from league.policies.autoregressive import TuplesHead
from league.policies.heads import ILLEGAL, BoxHead, ChoicesHead, KeysHead, MixtureHead
from league.policies.kernels.attention import attend, rotated, split, turning
from league.policies.kernels.lstm import lstm_cell
from league.policies.kernels.ring import EncoderMemory

NEXT = "next_"
"""An output of this beginning is the input of the next decision that has the rest of its name."""
ROW_AXIS = {"keys": 1, "values": 1}
"""The axis of the rows, where it is not the first."""


class Decision(nn.Module):
    """An `ActorCritic`'s decision: `forward(inputs)` gives a dict of outputs, both in the order of their names here.

    Inputs are `obs` (N, obs_size) float32; `mask` (N, M), bool (true: legal) or of `legal_tuples` int16, where the
    action has one; `noise` (N, num_logits) of `legal_tuples`; and the memory, zeros at a match's start: `hidden`,
    `cell` (N, lstm_size), and with an opponent encoder `keys`, `values` (layers + 1, N, H, width) and `count` (N,)
    int64.

    Outputs are the memory, each name with `next_` before it, and of what the action has:

    - `log_probs` (N, choices and keys), in nats and in the mask's order: of each choice within its part, of each key
      that it is pressed. An illegal one is about -1e9.
    - `mean`, `scale` (N, real numbers): the Gaussian of each, before tanh scales it to its bounds.
    - `action` (N, A) int64 of `legal_tuples` alone, whose parts depend on those chosen before: the one with the highest
      sum of `log_probs` and `noise`, part by part. Noise of zeros gives the likeliest, Gumbel noise a draw.

    Where a waiting seat watches, the next `keys`, `values` and `count` count alone.
    """

    def __init__(self, policy: ActorCritic) -> None:
        super().__init__()
        self.policy = policy

    def initial_inputs(self, num_rows: int) -> dict[str, Tensor]:
        """Inputs by name at a match's start: an observation of zeros, where everything is legal."""
        action = self.policy.architecture.action
        inputs = {"obs": torch.zeros(num_rows, self.policy.architecture.obs_size)}
        if action.kind == "legal_tuples":
            inputs["mask"] = torch.full((num_rows, action.mask_size), -1, dtype=torch.int16)
            inputs["noise"] = torch.zeros(num_rows, action.num_logits)
        elif action.mask_size:
            inputs["mask"] = torch.ones(num_rows, action.mask_size, dtype=torch.bool)
        return inputs | self.policy.initial_state(num_rows).tensors()

    def forward(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Outputs by name."""
        policy, obs = self.policy, inputs["obs"]
        memory = {}
        x, elements = policy._observe(obs)
        if policy.encoder is not None:
            past = _Past(inputs["keys"], inputs["values"], inputs["count"], policy.encoder.heads)
            x = torch.cat([x, policy.cross(x, policy.encoder.encode(policy.token(obs), past))], -1)
            memory = {**past.after(), "count": inputs["count"] + 1}
        hidden, cell = lstm_cell(x, inputs["hidden"], inputs["cell"], policy.lstm)
        memory = {"hidden": hidden, "cell": cell, **memory}
        logits = policy._logits(policy._features(hidden, x), elements)
        said = distribution(policy, logits, inputs.get("mask"), inputs.get("noise"))
        return said | {NEXT + name: x for name, x in memory.items()}

    @torch.no_grad()
    def by_step(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same by the network's own step, with its compiled kernels."""
        memory = None
        if self.policy.encoder is not None:
            memory = EncoderMemory(torch.stack([inputs["keys"], inputs["values"]]), inputs["count"].clone())
        state = ActorCriticState(inputs["hidden"].clone(), inputs["cell"].clone(), memory)
        logits = self.policy._logits(*self.policy._step(inputs["obs"], state, None))
        said = distribution(self.policy, logits, inputs.get("mask"), inputs.get("noise"))
        return said | {NEXT + name: x for name, x in state.tensors().items()}


class _Past:
    """The memory at one step of play (`league.policies.opponent_encoder.Past`), which is read alone.

    keys, values: (layers + 1, N, H, width); count: (N,), tokens before this one.
    """

    def __init__(self, keys: Tensor, values: Tensor, count: Tensor, heads: int) -> None:
        history, width = keys.shape[2:]
        self._both, self._heads, self._written = (keys, values), heads, list[list[Tensor]]()
        slots = torch.arange(history)
        self._is_new = (slots == (count % history)[:, None])[..., None]  # (N, H, 1)
        self._is_seen = (slots <= count[:, None])[:, None]  # (N, 1, H)
        self._rotation = turning(count, width // heads, keys.dtype)

    def attend(self, layer: int, tokens: Tensor, queries: Tensor | None = None) -> Tensor:
        """See `league.policies.kernels.ring.Ring.attend`."""
        query, new = rotated(tokens, queries, self._rotation, self._heads)
        new = new.flatten(-2)[..., None, :]  # (N, 2, 1, width)
        both = [torch.where(self._is_new, new[:, i], old[layer]) for i, old in enumerate(self._both)]
        self._written.append(both)
        keys, values = (split(x, self._heads) for x in both)
        return attend(query, keys, values, self._is_seen)

    def after(self) -> dict[str, Tensor]:
        """The memory with this step's token."""
        keys, values = (torch.stack(each) for each in zip(*self._written, strict=True))
        return {"keys": keys, "values": values}


def distribution(policy: ActorCritic, logits: Tensor, mask: Tensor | None, noise: Tensor | None) -> dict[str, Tensor]:
    """What `Decision` gives of the action: logits (N, num_logits), or of `legal_tuples` the features of its head."""
    if isinstance(policy.head, TuplesHead):
        assert mask is not None and noise is not None
        return _of_tuples(policy.head, logits, mask, noise)
    heads = policy.head._heads if isinstance(policy.head, MixtureHead) else [policy.head]
    leaves = policy.architecture.action.leaves
    logits = logits if logits.dtype == torch.float64 else logits.float()
    each = torch.split(logits, [leaf.num_logits for leaf in leaves], -1)
    masks: list[Tensor | None] = [None] * len(leaves)
    if mask is not None:
        masks = list(torch.split(mask, [leaf.mask_size for leaf in leaves], -1))
    found: dict[str, list[Tensor]] = {"log_probs": [], "mean": [], "scale": []}
    for head, own, legal in zip(heads, each, masks, strict=True):
        if isinstance(head, BoxHead):
            for name, x in zip(("mean", "scale"), head._normal(own), strict=True):
                found[name].append(x)
        elif isinstance(head, KeysHead):
            pressed = -nn.functional.softplus(-own)  # of logsigmoid exporters make log(sigmoid), 0.1 nats off at -14
            found["log_probs"].append(pressed if legal is None else pressed.masked_fill(~legal, ILLEGAL))
        else:
            assert isinstance(head, ChoicesHead)
            found["log_probs"] += head._log_softmax(own, legal)
    return {name: torch.cat(parts, -1) for name, parts in found.items() if parts}


def _of_tuples(head: TuplesHead, features: Tensor, mask: Tensor, noise: Tensor) -> dict[str, Tensor]:
    tuples = mask.view(-1, *head._shape).long()
    agrees = tuples[..., 0] >= 0
    choices, log_probs = [], []
    for i, (layer, added) in enumerate(zip(head.logits, torch.split(noise, list(head.choices), -1), strict=True)):
        part = head._part(layer(torch.tanh(features)), tuples[..., i], agrees)
        log_p = part.log_p.clamp(min=ILLEGAL)
        choice = (log_p + added).argmax(-1, keepdim=True)
        choices.append(choice)
        log_probs.append(log_p)
        if i < len(head.seen):
            agrees = agrees & (tuples[..., i] == choice)
            features = features + head.seen[i](choice[..., 0])
    return {"log_probs": torch.cat(log_probs, -1), "action": torch.cat(choices, -1)}
