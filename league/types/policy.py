"""What play and learning ask of a network, and what they hand each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch

    from league.types import MatchResult


class PolicyState(Protocol):
    """What a policy remembers of N rows. Tensors only, so that it can be stored."""

    def clear(self, rows: torch.Tensor) -> None:
        """Forgets everything of `rows` (n,), as at a match's start."""

    def select(self, rows: torch.Tensor | None) -> PolicyState:
        """A copy of `rows` (None: of all)."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """The tensors themselves, by name."""

    def join(self, others: Sequence[Any]) -> PolicyState:
        """A copy of this state's rows, followed by those of `others`."""

    def load(self, tensors: dict[str, torch.Tensor]) -> None:
        """Overwrites this state with what `tensors()` gave."""


@runtime_checkable
class Divisible(Protocol):
    """What a `PolicyState` has as well whose learner may play in one call with the frozen nets."""

    def part(self, rows: slice) -> Any:
        """The state of some rows, at the same addresses: what is written to either is in both."""


@runtime_checkable
class Resting(Protocol):
    """What a `Policy` has as well that plays faster when told that its weights do not change for a while."""

    def at_rest(self) -> AbstractContextManager[None]:
        """Within it they do not, as in the steps of a rollout. What it plays is the same, bit for bit."""


@dataclass(frozen=True)
class Watched:
    """What the learner's seats saw while they waited, in a game in turns: W views a row, its earliest first.

    A view is one that followed a decision of the opponent and preceded another one of it. Those of a row belong to the
    match of the decision that they precede.
    """

    obs: torch.Tensor  # (W, B, obs_size)
    before: torch.Tensor  # (W, B) int64, the step whose decision comes next; T where a row has fewer views than W

    def select(self, rows: torch.Tensor) -> Watched:
        """Those of `rows` (n,)."""
        return Watched(self.obs.index_select(1, rows), self.before.index_select(1, rows))


@dataclass
class Rollout:
    """`T` steps of `B` rows as the learner's seat saw them: (T, B) tensors on the device, matches ending anywhere.

    A step is one decision of the learner's. In a game in turns it includes what others decide until the next one.
    """

    obs: torch.Tensor  # (T, B, obs_size)
    mask: torch.Tensor | None  # (T, B, M)
    action: torch.Tensor  # (T, B, A) int64, with a box in it float32
    log_prob: torch.Tensor
    value: torch.Tensor
    """In units of the learner's running size of returns (`league.training.returns.ReturnSize`)."""
    reward: torch.Tensor
    """Weighted, in the game's units."""
    next_value: torch.Tensor
    """Of the state reached, before any reset; 0 where the match terminated."""
    ends: torch.Tensor  # bool, terminated or truncated in this step
    is_first: torch.Tensor
    """bool, a match begins at this step. In a game in turns not at the first one: what was watched of its match before
    is in `state`."""
    state: PolicyState
    """The policy's memory of the B rows when the segment began (a copy)."""
    finished: list[MatchResult]
    watched: Watched | None = None
    """None where nobody waited for more than one decision of the other."""
    segments: int = 1
    """The number of segments, of equally many rows each, that stand beside each other, the earliest first."""


class Policy(Protocol):
    """A network (a `torch.nn.Module`) that plays one seat: one step at a time, or a stored segment at once.

    `state` is the policy's memory of `N` rows. `rows` (n,) picks the rows that the n observations belong to; None
    means all, in order.
    """

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """What the learner changes."""

    def named_parameters(self) -> Iterator[tuple[str, torch.nn.Parameter]]:
        """The same with names."""

    def state_dict(self) -> dict[str, Any]:
        """The weights by name."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> Any:
        """Takes over weights by name."""

    def initial_state(self, num_rows: int) -> PolicyState:
        """The cleared memory of `num_rows` rows."""

    def step(
        self,
        obs: torch.Tensor,
        state: Any,
        *,
        mask: torch.Tensor | None = None,
        rows: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(action (n, A), log_prob (n,), value (n,)) for obs (n, obs_size); writes `state` in place.

        action: int64, or float32 where `ActionSpec.dtype` is.
        """

    def value(self, obs: torch.Tensor, state: Any, *, rows: torch.Tensor | None = None) -> torch.Tensor:
        """The value (n,) of obs (n, obs_size) under `state`, which is left as it is."""

    def watch(self, obs: torch.Tensor, state: Any, *, rows: torch.Tensor | None = None) -> None:
        """Takes in what a seat sees while it waits, obs (n, obs_size), and decides nothing; writes `state` in place.

        A network without a use for it may leave `state` as it is.
        """

    def sequence(
        self,
        obs: torch.Tensor,
        action: torch.Tensor,
        state: Any,
        is_first: torch.Tensor,
        mask: torch.Tensor | None = None,
        watched: Watched | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """(log_prob, entropy, value), each (B, T), of the stored `action` (B, T, A) in a segment obs (B, T, obs_size).

        state: the memory when the segment began; is_first (B, T): a match begins at this step, or with the first view
            of `watched` before it, and nothing from before is remembered.
        """


class Capturable(Protocol):
    """A network whose `sequence` takes `most_begins` as well, which says that learning may be a CUDA graph: given it,
    `sequence` waits for nothing on the device, and does the same work on segments of the same shapes."""

    def sequence(
        self,
        obs: torch.Tensor,
        action: torch.Tensor,
        state: Any,
        is_first: torch.Tensor,
        mask: torch.Tensor | None = None,
        watched: Watched | None = None,
        most_begins: int | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `Policy.sequence`; most_begins: of no row of `is_first` more matches begin after its first step."""


@runtime_checkable
class Encoding(Protocol):
    """A network that reads what the opponent has done by an encoder, which learns to predict what it does next, too,
    where `learner.opponent_prediction` says so."""

    latents_shape: tuple[int, int]
    """(L, width) of the latents of one step."""
    token_size: int
    """Numbers of an observation that show the opponent."""

    def token(self, obs: torch.Tensor) -> torch.Tensor:
        """These (..., token_size) of observations (..., obs_size)."""

    def latents(
        self, obs: torch.Tensor, state: Any, is_first: torch.Tensor, watched: Watched | None = None
    ) -> torch.Tensor:
        """What the encoder has found in a segment at each step, (B, T, L, width); arguments as of `Policy.sequence`."""

    def sequence(
        self,
        obs: torch.Tensor,
        action: torch.Tensor,
        state: Any,
        is_first: torch.Tensor,
        mask: torch.Tensor | None = None,
        watched: Watched | None = None,
        most_begins: int | None = None,
        latents: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `Capturable.sequence`; latents: what `latents` gave of the same segment."""


@runtime_checkable
class Standardising(Protocol):
    """A network that keeps statistics of what it observes: the learner gives it the observations of each rollout, once
    it has learned from them. What it keeps is a part of its `state_dict`, and changes at no other time."""

    def take_statistics(self, obs: torch.Tensor) -> None:
        """Counts observations (T, B, obs_size) in, in place."""


@runtime_checkable
class Stackable(Protocol):
    """A network of which several, frozen, can play in one call; one without this method plays by itself."""

    def make_stack(self, num_slots: int, precision: str) -> PolicyStack | None:
        """Room for `num_slots` nets like this one, for steps of that `learner.precision`; None: net by net is faster.

        A network of the layers of `league.policies` alone may return a `league.policies.stacked.StackedPolicy`.
        """


class PolicyStack(Protocol):
    """Several frozen nets of one architecture, each in a slot, that play in one call."""

    num_slots: int
    """Slots that there are."""

    def reserve(self, num_slots: int) -> None:
        """Makes room for `num_slots` nets at least; where there was less, all weights move."""

    def tensors(self) -> Sequence[torch.Tensor]:
        """What `step` reads of the nets, each tensor with the weights of all slots."""

    def put(self, slot: int, policy: Policy) -> None:
        """Copies a net's weights into `slot`, over what was there."""

    def step(
        self,
        obs: torch.Tensor,
        state: Any,
        *,
        num_slots: int,
        mask: torch.Tensor | None = None,
        rows: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """As `Policy.step` for the first `num_slots` slots, which have equally many of the n rows, in their order.

        `rows` may name one row of the state several times; what that row then holds means nothing.
        """

    def watch(self, obs: torch.Tensor, state: Any, *, num_slots: int, rows: torch.Tensor | None = None) -> None:
        """As `Policy.watch`, for rows as of `step`."""
