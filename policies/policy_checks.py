"""Holds a network to `league.types.Policy`: what the engine takes for granted in play and in learning."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.errors import ContractError
from league.types import GameSpec, Policy, Stackable, Standardising
from league.types.schema import check_number

METHODS = (
    "parameters",
    "named_parameters",
    "state_dict",
    "load_state_dict",
    "initial_state",
    "step",
    "value",
    "watch",
    "sequence",
)
STATE_METHODS = ("clear", "select", "tensors", "join", "load")
MOST = 100_000
"""Rows, and steps, of the check of a network."""
TOLERANCE = 1e-4
"""The most by which float32 may differ where the same is computed in another order."""
LEAST_GRADIENT = 1e-12
TUPLE_PARTS = 3
"""Parts of legal tuples that a mask leaves open at once."""


WIDEST = 4.0
"""How far from the number next to 0 a network is shown observations of a game that gives no closer bounds."""


class Checker:
    """One network in one game, with what it is shown.

    Args:
        policy: the network.
        spec: the game's.
        rows: N.
        steps: T.
        seed: of what is shown and drawn.
    """

    def __init__(self, policy: Policy, spec: GameSpec, rows: int, steps: int, seed: int) -> None:
        self.policy, self.action, self.rows, self.steps, self.seed = policy, spec.action, rows, steps, seed
        self._name = f"policy {type(policy).__name__}"
        for method in METHODS:
            self.need(callable(getattr(policy, method, None)), f"has no method {method}() (league.types.Policy)")
        for name, parameter in policy.named_parameters():
            self.need(
                parameter.dtype is torch.float32,
                f"makes its parameter {name} of {parameter.dtype}, not torch.float32; leave torch's default type alone",
            )
        for name, buffer in getattr(policy, "named_buffers", dict)():
            finite = not buffer.is_floating_point() or buffer.isfinite().all()
            self.need(finite, f"has a buffer {name} with numbers that are not finite; give it finite ones")
        self.device = next(iter(policy.parameters()), torch.zeros(0)).device
        source = torch.Generator().manual_seed(seed)
        nearest = min(max(0.0, spec.obs_range[0]), spec.obs_range[1])
        low, high = max(spec.obs_range[0], nearest - WIDEST), min(spec.obs_range[1], nearest + WIDEST)
        obs = low + (high - low) * torch.rand(rows, steps, spec.obs_size, generator=source)
        for part in spec.observation or ():
            own = obs[..., part.start : part.stop]
            least, most = part.bounds or (low, high)
            unit = torch.rand(own.shape, generator=source)
            own[:] = (unit * part.count).floor() if part.kind == "tokens" else least + (most - least) * unit
            if part.kind == "entities":
                own[..., :: part.shape[1]] = unit[..., :: part.shape[1]].round()
        self.obs = obs.to(self.device)
        self.mask = self._masks(source).to(self.device)
        self.is_first = torch.rand(rows, steps, generator=source) < 0.2
        self.is_first[:, 0], self.is_first[0, steps // 2], self.is_first[1:, steps // 2] = True, True, False
        self.is_first = self.is_first.to(self.device)

    def need(self, holds: bool | Tensor, rule: str) -> None:
        """Raises a ContractError with `rule` unless it holds."""
        if not holds:
            raise ContractError(f"{self._name} {rule}")

    def check(self) -> None:
        """All of it."""
        if isinstance(self.policy, Standardising):  # before its first statistics it may see nothing
            self.policy.take_statistics(self.obs.transpose(0, 1))
        state = self.policy.initial_state(self.rows)
        for method in STATE_METHODS:
            self.need(
                callable(getattr(state, method, None)), f"has a state without {method}() (league.types.PolicyState)"
            )
        for name, tensor in state.tensors().items():
            self.need(isinstance(tensor, Tensor), f"has a state whose tensors()[{name!r}] is no tensor")
        action, log_prob, value = self._play(state)
        self._check_sequence(action, log_prob, value)
        self._check_gradients(action)
        self._check_clear()
        self._check_rows()
        self._check_state()
        self._check_weights()
        self._check_stack()

    def _masks(self, source: torch.Generator) -> Tensor:
        """(N, T, M), something legal in every part."""
        shape, action = (self.rows, self.steps), self.action
        if action.kind == "legal_tuples":
            masks = torch.full((*shape, action.max_tuples, action.num_parts), -1, dtype=torch.int16)
            sizes, each = torch.tensor(action.choices), torch.arange(2**TUPLE_PARTS)[:, None]
            for n, t in product(range(self.rows), range(self.steps)):
                base = (torch.rand(len(sizes), generator=source) * sizes).long()
                # Some parts after each other have two choices, whatever was chosen before them.
                place = (torch.arange(len(sizes)) - t - n * self.steps) % len(sizes)
                other = (each >> place.clamp(max=TUPLE_PARTS)) % 2 * (place < TUPLE_PARTS)
                legal = torch.unique((base + other) % sizes, dim=0)[: action.max_tuples]
                masks[n, t, : len(legal)] = legal.to(torch.int16)
            return masks.flatten(2)
        allowed = torch.rand(*shape, action.mask_size, generator=source) < 0.7
        for leaf, own in zip(
            action.leaves, torch.split(allowed, [x.mask_size for x in action.leaves], -1), strict=True
        ):
            if leaf.kind in ("discrete", "multi_discrete"):
                for part in torch.split(own, list(leaf.choices), dim=-1):
                    part[..., 0] |= ~part.any(-1)
        return allowed

    def _step(self, t: int, state: Any, rows: Tensor | None = None, **how: Any) -> tuple[Tensor, Tensor, Tensor]:
        pick = slice(None) if rows is None else rows
        with torch.no_grad():
            return self.policy.step(self.obs[pick, t], state, mask=self.mask[pick, t], rows=rows, **how)

    def _play(self, state: Any) -> tuple[Tensor, Tensor, Tensor]:
        """What steps give, (N, T, ...) each; they are what steps must be."""
        again = self.policy.initial_state(self.rows)
        played = []
        generators = [torch.Generator(self.device).manual_seed(self.seed) for _ in range(2)]
        for t in range(self.steps):
            if t > 0:
                first = torch.nonzero(self.is_first[:, t])[:, 0]
                for each in (state, again):
                    each.clear(first)
            with torch.no_grad():
                expected = self.policy.value(self.obs[:, t], state)
            kept = {name: tensor.clone() for name, tensor in state.tensors().items()}
            with torch.no_grad():
                self.policy.value(self.obs[:, t], state)
            same = all(torch.equal(kept[name], tensor) for name, tensor in state.tensors().items())
            self.need(same, "changes the state in value(), which must leave it as it is")
            action, log_prob, value = self._step(t, state, generator=generators[0])
            self._check_step(t, action, log_prob, value)
            self._close(value, expected, f"step {t}: value() is not the value that step() gives")
            twice = self._step(t, again, generator=generators[1])[0]
            self.need(torch.equal(action, twice), f"draws other actions from the same generator in step {t}")
            played.append((action, log_prob, value))
        actions, log_probs, values = zip(*played, strict=True)
        return torch.stack(actions, 1), torch.stack(log_probs, 1), torch.stack(values, 1)

    def _check_step(self, t: int, action: Tensor, log_prob: Tensor, value: Tensor) -> None:
        action_type = torch.float32 if self.action.has_real else torch.int64
        shapes = {
            "action": (action, (self.rows, self.action.num_parts), action_type),
            "log_prob": (log_prob, (self.rows,), torch.float32),
            "value": (value, (self.rows,), torch.float32),
        }
        for name, (tensor, shape, dtype) in shapes.items():
            self.need(tuple(tensor.shape) == shape, f"gives {name} of shape {tuple(tensor.shape)}, not {shape}")
            self.need(tensor.dtype == dtype, f"gives {name} of type {tensor.dtype}, not {dtype}")
            self.need(bool(torch.isfinite(tensor).all()), f"gives {name} that is not finite in step {t}")
        self._check_legal(t, action.cpu().numpy().astype(self.action.dtype))

    def _check_legal(self, t: int, action: npt.NDArray[Any]) -> None:
        rules = [rule for leaf in self.action.leaves for rule in leaf.bounds or leaf.choices]
        for i, rule in enumerate(rules):
            low, high = np.array(rule if isinstance(rule, tuple) else (0, rule - 1), action.dtype)
            x = action[:, i]
            whole = isinstance(rule, tuple) or bool((x == np.floor(x)).all())
            inside = whole and bool(((low <= x) & (x <= high)).all())
            self.need(inside, f"plays an action outside {low:g} to {high:g} in part {i}, step {t}")
        legal = self.action.is_legal(action, self.mask[:, t].cpu().numpy())
        for row in (~legal).nonzero()[0][:1].tolist():
            raise ContractError(
                f"{self._name} plays {action[row].tolist()} in row {row}, step {t}, which its mask forbids"
            )

    def _check_sequence(self, action: Tensor, log_prob: Tensor, value: Tensor) -> None:
        with torch.no_grad():
            found = self._sequence(action)
        names, shape = ("log_prob", "entropy", "value"), (self.rows, self.steps)
        for name, tensor in zip(names, found, strict=True):
            self.need(
                tuple(tensor.shape) == shape, f"gives {name} of shape {tuple(tensor.shape)} in sequence, not {shape}"
            )
            self.need(bool(torch.isfinite(tensor).all()), f"gives {name} that is not finite in sequence()")
        for name, (before, now) in {"log_prob": (log_prob, found[0]), "value": (value, found[2])}.items():
            for t in range(self.steps):
                rule = f"{name} of sequence() is not that of step() at step {t}"
                begins = bool(self.is_first[:, 1 : t + 1].any())
                self._close(
                    now[:, t], before[:, t], rule + (", after a match began within the sequence" if begins else "")
                )

    def _sequence(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        state = self.policy.initial_state(self.rows)
        return self.policy.sequence(self.obs, action, state, self.is_first, self.mask)

    def _check_gradients(self, action: Tensor) -> None:
        named = list(self.policy.named_parameters())
        learned = [(name, parameter) for name, parameter in named if parameter.requires_grad]
        self.need(bool(learned), "has no parameter that requires a gradient")
        log_prob, entropy, value = self._sequence(action)
        source = torch.Generator().manual_seed(self.seed)
        weights = torch.randn(3, self.rows, self.steps, generator=source).to(self.device)
        loss = (weights * torch.stack([log_prob, entropy, value])).sum()
        found = torch.autograd.grad(loss, [parameter for _, parameter in learned], allow_unused=True)
        for (name, _), gradient in zip(learned, found, strict=True):
            reaches = gradient is not None and bool(torch.isfinite(gradient).all()) and gradient.norm() > LEAST_GRADIENT
            self.need(reaches, f"has a parameter that no gradient reaches, or none that is finite: {name}")

    def _warm(self, steps: int = 3) -> Any:
        """A state of some steps."""
        state = self.policy.initial_state(self.rows)
        for t in range(steps):
            self._step(t, state, greedy=True)
        return state

    def _check_clear(self) -> None:
        """A row that is cleared plays as at first, the others as before."""
        warm, cleared, fresh = self._warm(), self._warm(), self.policy.initial_state(self.rows)
        cleared.clear(torch.tensor([1], device=self.device))
        as_before, now, at_first = (self._step(3, state, greedy=True)[2] for state in (warm, cleared, fresh))
        self._close(now[1], at_first[1], "remembers something of a row after clear()")
        others = [row for row in range(self.rows) if row != 1]
        self._close(now[others], as_before[others], "forgets rows that clear() was not given")

    def _check_rows(self) -> None:
        """A row plays as it does among all, and the others' state does not move."""
        state, whole = self._warm(), self._warm()
        one = torch.tensor([self.rows - 1], device=self.device)
        others = torch.arange(self.rows - 1, device=self.device)
        kept = state.select(others).tensors()
        alone = self._step(3, state, one, greedy=True)
        among = self._step(3, whole, greedy=True)
        self._close(alone[2], among[2][one], "plays a row of step(rows=...) otherwise than among all rows")
        now = state.select(others).tensors()
        same = all(torch.equal(kept[name], tensor) for name, tensor in now.items())
        self.need(same, "changes the state of rows that step(rows=...) was not given")
        with torch.no_grad():
            seen = self.policy.value(self.obs[one, 4 % self.steps], state, rows=one)
        self.need(tuple(seen.shape) == (1,), f"gives a value of shape {tuple(seen.shape)} for one row, not (1,)")

    def _check_state(self) -> None:
        """`select`, `join` and `load` carry all that a row remembers."""
        state = self._warm()
        parts = [state.select(torch.arange(i, i + 1, device=self.device)) for i in range(self.rows)]
        joined = parts[0].join(parts[1:])
        other = self.policy.initial_state(self.rows)
        other.load({name: tensor.clone() for name, tensor in state.tensors().items()})
        expected = self._step(3, state, greedy=True)[2]
        self._close(self._step(3, joined, greedy=True)[2], expected, "loses what rows remember in select() and join()")
        self._close(self._step(3, other, greedy=True)[2], expected, "loses what rows remember in tensors() and load()")

    def _check_weights(self) -> None:
        """`state_dict` has tensors alone, which a snapshot can hold."""
        for name, weight in self.policy.state_dict().items():
            self.need(isinstance(weight, Tensor), f"has a state_dict() whose {name!r} is no tensor")

    def _check_stack(self) -> None:
        """What says that it can be stacked plays in a stack as by itself."""
        stack = self.policy.make_stack(2, "highest") if isinstance(self.policy, Stackable) else None
        if stack is None:
            return
        other = copy.deepcopy(self.policy)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.mul_(0.5)
        nets = (self.policy, other)
        for slot, net in enumerate(nets):
            stack.put(slot, net)
        both, twice = torch.arange(self.rows, device=self.device).repeat(2), self.obs.repeat(2, 1, 1)
        state = self.policy.initial_state(2 * self.rows)
        alone = [self.policy.initial_state(self.rows) for _ in nets]
        rows = torch.arange(2 * self.rows, device=self.device)
        for t in range(2):
            mask = self.mask[both, t]
            together = stack.step(twice[:, t], state, num_slots=2, mask=mask, rows=rows, greedy=True)[2]
            for i, (net, own) in enumerate(zip(nets, alone, strict=True)):
                with torch.no_grad():
                    value = net.step(self.obs[:, t], own, mask=self.mask[:, t], greedy=True)[2]
                part = together[i * self.rows : (i + 1) * self.rows]
                self._close(part, value, f"step {t}: a net in its make_stack() plays otherwise than by itself")

    def _close(self, a: Tensor, b: Tensor, rule: str) -> None:
        gap = float((a - b).abs().max()) if a.shape == b.shape else float("inf")
        scale = max(1.0, float(b.abs().max()))
        self.need(gap <= TOLERANCE * scale, f"breaks a rule: {rule} (they differ by {gap:.2g})")


def check_policy(policy: Policy, spec: GameSpec, *, rows: int, steps: int, seed: int) -> None:
    """See `league.testing.check_policy`."""
    check_number("rows", rows, 2, MOST, "how many a network is checked with")
    check_number("steps", steps, 5, MOST, "how many a network is checked with")
    if isinstance(policy, Standardising):
        policy = copy.deepcopy(policy)
    Checker(policy, spec, rows, steps, seed).check()
