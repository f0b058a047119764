"""Bots that remember their match: classes and programs. What each match has shown its bot is kept, so that it can be
played again to a new one."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from league.play.bots import ActionChoices, BotPolicy
from league.play.seats import FORFEIT
from league.runtime.rows import draw_integers
from league.types import BoolArray, FloatArray, GameSpec, Mask

UNSEEDED = -1
WATCHED, DECIDED = 1, 2
REPLAY = "replay"
"""A kind of events, as is `FORFEIT`."""
OTHERWISE = "answers otherwise than before, so its matches may go on in another way"


class Look(NamedTuple):
    """What a bot saw at a time, and what it did."""

    obs: FloatArray  # (obs_size,)
    mask: Mask | None  # (M,)
    action: list[float] | None
    """A numbers; None: it waited."""


class Failure(str):
    """Why a match has no answer: what its bot did instead."""


class Host(Protocol):
    """Where the bots of matches are, one a match; matches are numbers."""

    @property
    def live(self) -> set[int]:
        """Matches whose bot knows what they have shown so far."""

    def begin_step(self) -> None:
        """A decision of all matches begins; the count of processes that ended starts at 0."""

    def begin(self, seeds: Mapping[int, int]) -> dict[int, Failure]:
        """A new bot for each match, which has this seed; it is live unless it fails."""

    def watch(self, match: int, obs: FloatArray) -> None:
        """Shows a bot obs (obs_size,) while it waits."""

    def act(self, seen: Mapping[int, tuple[FloatArray, Mask | None]]) -> dict[int, list[float] | Failure]:
        """Asks for a decision on obs (obs_size,) and mask (M,) in each match.

        Returns:
            A numbers or a failure. A match may be missing that another one's failure has interrupted; it is not live.
        """

    def end(self, match: int) -> None:
        """The match is over."""


class MatchHistory:
    """One match up to now."""

    def __init__(self, number: int) -> None:
        self.number, self.seed, self.looks, self.is_forfeited = number, UNSEEDED, list[Look](), False


class Histories:
    """What a bot's rows have shown it: a `league.types.PolicyState`."""

    def __init__(self, policy: StatefulPolicy, num_rows: int) -> None:
        self._policy = policy
        self.rows = [policy.new_match() for _ in range(num_rows)]

    @property
    def is_forfeited(self) -> BoolArray:
        """(N,): whether the bot has forfeited the row's match."""
        return np.array([match.is_forfeited for match in self.rows], np.bool_)

    def clear(self, rows: Tensor) -> None:
        """See `PolicyState.clear`."""
        for row in rows.tolist():
            self._policy.end(self.rows[row])
            self.rows[row] = self._policy.new_match()

    def select(self, rows: Tensor | None) -> Histories:
        """See `PolicyState.select`; the copies' matches are played again before they go on."""
        chosen = Histories(self._policy, 0)
        for row in range(len(self.rows)) if rows is None else rows.tolist():
            match = self._policy.new_match()
            match.seed, match.is_forfeited = self.rows[row].seed, self.rows[row].is_forfeited
            match.looks = list(self.rows[row].looks)
            chosen.rows.append(match)
        return chosen

    def join(self, others: Sequence[Histories]) -> Histories:
        """See `PolicyState.join`."""
        whole = self.select(None)
        for other in others:
            whole.rows += other.select(None).rows
        return whole

    def tensors(self) -> dict[str, Tensor]:
        """Of (N, ...) and, over the looks of all rows one after the other, (L, ...)."""
        spec, looks = self._policy.spec, [look for match in self.rows for look in match.looks]
        nothing = [0.0] * spec.action.num_parts
        masks = [look.mask for look in looks if look.mask is not None]
        arrays = {
            "seed": np.array([match.seed for match in self.rows], np.int64),
            "forfeited": self.is_forfeited,
            "num_looks": np.array([len(match.looks) for match in self.rows], np.int64),
            "kind": np.array([WATCHED if look.action is None else DECIDED for look in looks], np.int8),
            "obs": np.array([look.obs for look in looks], np.float32).reshape(len(looks), spec.obs_size),
            "mask": np.array(masks, spec.action.mask_dtype).reshape(len(masks), spec.action.mask_size),
            "action": np.array([look.action or nothing for look in looks]).reshape(len(looks), len(nothing)),
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def fits(self, tensors: Mapping[str, Tensor]) -> bool:
        """Whether `load` can take these: of as many rows."""
        own = self.tensors()
        return own.keys() <= tensors.keys() and len(tensors["seed"]) == len(self.rows)

    def load(self, tensors: dict[str, Tensor]) -> None:
        """See `PolicyState.load`; the matches are played again before they go on."""
        arrays = {name: x.cpu().numpy() for name, x in tensors.items()}
        at = iter(range(len(arrays["kind"])))
        masks = iter(arrays["mask"])
        has_masks = len(arrays["mask"]) > 0
        for row, old in enumerate(self.rows):
            self._policy.end(old)
            match = self.rows[row] = self._policy.new_match()
            match.seed, match.is_forfeited = int(arrays["seed"][row]), bool(arrays["forfeited"][row])
            for _, i in zip(range(int(arrays["num_looks"][row])), at, strict=False):
                is_decided = arrays["kind"][i] == DECIDED
                mask = next(masks) if is_decided and has_masks else None
                action = self._policy.as_action(arrays["action"][i]) if is_decided else None
                match.looks.append(Look(arrays["obs"][i], mask, action))


class StatefulPolicy(BotPolicy):
    """A bot that remembers, as a `league.types.Policy` that plays and does not learn.

    A bot that fails forfeits its match where its host says so: it plays on by random legal actions, and the match is
    lost. Of a match that its bot does not know, as after a resume, all looks are played to a new bot, whose answers are
    compared with those of before.

    Args:
        name, choices, device: as of `BotPolicy`.
        host: where the bots are.
        spec: the game's.
    """

    def __init__(self, name: str, host: Host, choices: ActionChoices, device: torch.device, spec: GameSpec) -> None:
        super().__init__(name, lambda *seen: None, choices, device)
        self.host, self.spec = host, spec
        self._num_matches, self._free = 0, list[int]()
        self._notes: Counter[tuple[str, str]] = Counter()

    def new_match(self) -> MatchHistory:
        """A match with the least number that no other one has."""
        if self._free:
            return MatchHistory(heapq.heappop(self._free))
        self._num_matches += 1
        return MatchHistory(self._num_matches - 1)

    def end(self, match: MatchHistory) -> None:
        """The match is over, and its number is free."""
        self.host.end(match.number)
        heapq.heappush(self._free, match.number)

    def take_notes(self) -> list[tuple[str, str]]:
        """What has happened since the last call, as (kind of event, line)."""
        notes, self._notes = self._notes, Counter()
        return [
            (FORFEIT, f"bot:{self.name} forfeited {count:,} match{'es' * (count > 1)}: {why}")
            if kind == FORFEIT
            else (REPLAY, f"bot:{self.name} was asked {count:,} decision{'s' * (count > 1)} again, and {why}")
            for (kind, why), count in notes.items()
        ]

    def as_action(self, numbers: Iterable[Any]) -> list[float]:
        """Numbers (A,) of an array as an action."""
        return [float(x) if self._type == np.float32 else int(x) for x in numbers]

    def initial_state(self, num_rows: int) -> Histories:  # type: ignore[override]  # it remembers
        """See `Policy.initial_state`."""
        return Histories(self, num_rows)

    def step(  # type: ignore[override]
        self,
        obs: Tensor,
        state: Histories,
        *,
        mask: Tensor | None = None,
        rows: Tensor | None = None,
        generator: torch.Generator | None = None,
        greedy: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """See `Policy.step`: without probabilities and values, which are 0. Waits for the device.

        Raises:
            ConfigError: a program does not start.
            GuardError: a class fails, or what it answers is not legal.
        """
        del greedy
        drawn = draw_integers(2**62, obs.shape[:1], generator, obs.device).tolist()
        seen, allowed = obs.cpu().numpy().copy(), None if mask is None else mask.cpu().numpy().copy()
        seen.flags.writeable = False
        if allowed is not None:
            allowed.flags.writeable = False
        chosen = list(range(len(seen))) if rows is None else rows.tolist()
        matches = [state.rows[row] for row in chosen]
        for match, seed in zip(matches, drawn, strict=True):
            match.seed = seed if match.seed == UNSEEDED else match.seed
        looks = {
            match.number: (seen[i], None if allowed is None or not allowed.shape[1] else allowed[i])
            for i, match in enumerate(matches)
        }
        answers = self._decide(matches, looks)
        actions = np.empty((len(seen), self.spec.action.num_parts), self._type)
        for i, (match, seed) in enumerate(zip(matches, drawn, strict=True)):
            if match.is_forfeited:
                numbers = np.random.Generator(np.random.Philox(seed)).random(self.spec.action.num_draws)
                actions[i] = self.spec.action.legal_actions(None if allowed is None else allowed[i], numbers)
            else:
                actions[i] = answers[match.number]
        nothing = torch.zeros(len(seen), device=obs.device)
        return torch.from_numpy(actions).to(obs.device), nothing, nothing

    def watch(self, obs: Tensor, state: Histories, *, rows: Tensor | None = None) -> None:  # type: ignore[override]
        """See `Policy.watch`."""
        chosen = list(range(len(obs))) if rows is None else rows.tolist()
        for row, seen in zip(chosen, obs.cpu().numpy().copy(), strict=True):
            match = state.rows[row]
            if not match.is_forfeited:
                match.looks.append(Look(seen, None, None))
                if match.number in self.host.live:
                    self.host.watch(match.number, seen)

    def _decide(
        self, matches: Sequence[MatchHistory], looks: Mapping[int, tuple[FloatArray, Mask | None]]
    ) -> dict[int, list[float]]:
        """The answers in those matches that are not forfeited, by number."""
        answers: dict[int, list[float]] = {}
        self.host.begin_step()
        while True:
            self._revive([match for match in matches if match.number not in answers])
            waiting = [m for m in matches if not m.is_forfeited and m.number not in answers]
            if not waiting:
                return answers
            given = self.host.act({match.number: looks[match.number] for match in waiting})
            for match in waiting:
                answer = given.get(match.number)
                if isinstance(answer, Failure):
                    self._forfeit(match, answer)
                elif answer is not None:
                    answers[match.number] = answer
                    match.looks.append(Look(*looks[match.number], answer))

    def _revive(self, matches: Sequence[MatchHistory]) -> None:
        """Each match gets a bot that knows it, or is forfeited."""
        while new := [m for m in matches if not m.is_forfeited and m.number not in self.host.live]:
            failed = self.host.begin({match.number: match.seed for match in new})
            for i in range(max(len(match.looks) for match in new)):
                there = [m for m in new if m.number in self.host.live and i < len(m.looks)]
                asked = {m.number: m.looks[i][:2] for m in there if m.looks[i].action is not None}
                for match in (m for m in there if m.number not in asked):
                    self.host.watch(match.number, match.looks[i].obs)
                given = self.host.act(asked)
                for match in (m for m in there if m.number in given):
                    answer = given[match.number]
                    if isinstance(answer, Failure):
                        failed[match.number] = answer
                    elif answer != match.looks[i].action:
                        self._notes[REPLAY, OTHERWISE] += 1
            for match in new:
                if match.number in failed:
                    self._forfeit(match, failed[match.number])

    def _forfeit(self, match: MatchHistory, why: Failure) -> None:
        match.is_forfeited = True
        match.looks.clear()
        self.host.end(match.number)
        self._notes[FORFEIT, str(why)] += 1


def forfeited_rows(state: object) -> BoolArray | None:
    """(N,): the rows of a policy's state whose match its bot has forfeited; None: it can forfeit none."""
    return state.is_forfeited if isinstance(state, Histories) else None
