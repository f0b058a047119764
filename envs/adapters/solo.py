"""A game for one as a match for two: a duel on one seed.

Each seat that somebody plays has a copy of the environment, both seeded alike. A seat whose episode is over waits for
the other; the higher return wins. The bot `world` is nobody: against it one copy is played, which wins by a return of
at least the target. Without a target that match is a draw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from league.envs.adapters.actions import Acts, mask_of, need_mask
from league.envs.adapters.isolation import BOTH, Apart, Drawn, silent
from league.envs.adapters.replies import SOLO, begun, flag_of, giving, reward_of, stepped
from league.envs.adapters.spaces import Seen
from league.envs.drawing import as_picture
from league.envs.matches.choices import Choices
from league.envs.matches.match import Match
from league.envs.matches.row import RANDOM, BatchRules, MatchError
from league.errors import described, users_line
from league.types import SEATS, FloatArray

WORLD = "world"
"""The bot that takes no part."""
REWARD = "reward"
"""The reward term of what the environment pays."""
TERMINATED, TRUNCATED = "terminated", "truncated"


@dataclass(frozen=True)
class SoloFacts:
    """What an environment with certain keywords is."""

    make: Callable[[str | None], Any]
    """(render mode) -> the environment."""
    seen: Seen
    acts: Acts
    choices: Choices
    limit: int
    """Steps after which it cuts an episode."""
    target: float | None
    """The return of a good agent, where its library tells."""
    frame_rate: float
    has_mask: bool = False
    remembers: bool = False
    """Whether each episode needs a new environment: what was before shows in it."""
    drawn: Drawn = BOTH
    is_won: bool = False
    """As `probing.Found.is_won`."""


class Copy:
    """One copy of the environment, an episode at a time.

    Args:
        facts: what it is.
        render_mode: of its library; None: it cannot be drawn.
    """

    def __init__(self, facts: SoloFacts, render_mode: str | None = None) -> None:
        self._facts, self._apart, self._render_mode = facts, Apart(facts.drawn), render_mode
        self._env = self._make()
        self._is_used = False
        self.is_over = self.is_cut = False
        self.total, self.length = 0.0, 0
        self.view: FloatArray = np.zeros(facts.seen.size, np.float32)
        self.has_mask = False
        """Whether the last decision of the episode had a mask; then all that follow have one."""
        self._legal: Any = None

    def begin(self, seed: int) -> None:
        """Begins the episode of a seed."""
        if self._facts.remembers and self._is_used:
            self._env.close()
            self._apart.seed(0)
            self._env = self._make()
        self._is_used = True
        self._apart.seed(seed)
        with self._apart:
            reply = self._env.reset(seed=seed)
        self.is_over = self.is_cut = False
        self.total, self.length = 0.0, 0
        self.has_mask = False
        with giving("reset"):
            self._see(*begun(reply, SOLO))

    def step(self, action: Any) -> float:
        """Plays an action of the engine; returns the reward."""
        given = self._facts.acts.to_library(action)
        with self._apart:
            reply = self._env.step(given)
        self.length += 1
        with giving(f"step {self.length}"):
            observation, reward, terminated, truncated, info = stepped(reply, SOLO)
            is_done = flag_of("terminated", terminated)
            is_cut = flag_of("truncated", truncated) or self.length >= self._facts.limit
            self.is_over, self.is_cut = is_done or is_cut, is_cut and not is_done
            paid = reward_of(reward)
            self._see(observation, info)
        self.total += paid
        return paid

    def legal(self) -> Any:
        """The options of what may be done now; None where everything may."""
        return self._legal

    def render(self) -> npt.NDArray[np.uint8]:
        """Its picture, of a copy that was made to be drawn."""
        with silent(), self._apart:
            return as_picture(self._env.render())

    def act_at_random(self, rng: np.random.Generator) -> float:
        """See `probing.Played`."""
        choices, legal = self._facts.choices, self.legal()
        return self.step(choices.draw(choices.everything if legal is None else choices.look_up(legal)[0], rng))

    def show(self) -> npt.NDArray[Any]:
        """See `probing.Played`."""
        return self.view

    def drawn_since(self, seed: int) -> Drawn:
        """See `probing.Played`."""
        return self._apart.drawn_since(seed)

    def _make(self) -> Any:
        with silent(), self._apart:
            return self._facts.make(self._render_mode)

    def _see(self, observation: Any, info: Mapping[str, Any]) -> None:
        self.view = self._facts.seen.flat(observation)
        if self.is_over:  # an episode's last info may lack the mask
            self._legal = None
            return
        mask = mask_of(observation, info)
        if mask is None:
            need_mask(self.has_mask, self._facts.seen)
        self.has_mask = mask is not None
        self._legal = self._facts.acts.legal(mask)


class EnvironmentSource(Protocol):
    """Where a game's matches have their environment from."""

    def facts(self, options: Mapping[str, Any]) -> SoloFacts:
        """What it is under these options."""


class SoloMatch(Match):
    """A duel; an adapter makes a subclass for each environment."""

    source: ClassVar[EnvironmentSource]
    reward_terms = (REWARD,)
    metrics = ("return", "length")
    end_reasons = (TERMINATED, TRUNCATED)
    bots = MappingProxyType({WORLD: None})
    anchor = RANDOM
    floor = RANDOM

    def __init__(self, **options: Any) -> None:
        facts = self._facts = self.source.facts(options)
        target = options.get("target")
        self._target = facts.target if target is None else float(target)
        self.obs_size, self.layout = facts.seen.size, facts.seen.layout
        self.obs_range, self.observation, self.unbounded = facts.seen.range, facts.seen.parts, facts.seen.unbounded
        self.action, self.tick_rate = facts.acts.spec, facts.frame_rate
        self._copies: list[Copy] = []
        self._seed = 0
        self._playing: list[Copy | None] = [None] * SEATS
        """The copies of the seats that take part, once they have begun to."""
        self._views: list[FloatArray] = []
        self._logs: list[list[Any]] = [[], []]
        """The actions of each seat, to be drawn by."""
        self._stage: dict[int, tuple[Copy, int, int]] = {}
        """Copies that are drawn, with their seed and how far they have come."""
        self._has_begun = False

    def rules(self) -> BatchRules:
        """As `Match.rules`; no match is longer than an episode."""
        return replace(super().rules(), max_steps=self._facts.limit + 1)

    def reset(self, rng: np.random.Generator) -> None:
        """Begins an episode in the first copy. Who takes part is known when the first decisions are."""
        self._seed = int(rng.integers(2**31 - 1))
        self._copy(0).begin(self._seed)
        self._playing, self._has_begun = [None] * SEATS, False
        self._views = [self._copies[0].view] * SEATS
        self._logs = [[], []]
        self.to_move = None

    def observe(self, seat: int) -> FloatArray:
        """What the seat sees of its own copy."""
        return self._views[seat]

    def step(self, actions: tuple[Any, Any]) -> None:
        """A decision of each seat in its own copy. None is that of a seat that takes no part."""
        if not self._has_begun:
            self._begin([seat for seat, action in enumerate(actions) if action is not None])
        for seat, action in enumerate(actions):
            self._act(seat, action)
        self._settle()

    def play(self, action: Any) -> None:
        """A decision of the seat whose episode goes on."""
        assert self.to_move is not None
        self._act(self.to_move, action)
        self._settle()

    def render(self) -> npt.ArrayLike:
        """The copies of those who take part, side by side.

        Raises:
            MatchError: what draws the environment is not installed, or it draws no picture.
        """
        seats = [seat for seat, copy in enumerate(self._playing) if copy is not None] or [0]
        pictures = [self._drawn(seat) for seat in seats]
        height = max(len(picture) for picture in pictures)
        padded = [np.pad(picture, ((0, height - len(picture)), (0, 0), (0, 0))) for picture in pictures]
        return np.concatenate(padded, axis=1)

    def _copy(self, number: int) -> Copy:
        while len(self._copies) <= number:
            self._copies.append(Copy(self._facts))
        return self._copies[number]

    def _begin(self, seats: list[int]) -> None:
        self._has_begun = True
        for number, seat in enumerate(seats):
            copy = self._playing[seat] = self._copy(number)
            if number:
                copy.begin(self._seed)

    def _act(self, seat: int, action: Any) -> None:
        copy = self._playing[seat]
        if copy is None:
            return
        if action is None:  # somebody took part until now
            copy.is_over = True
            return
        self._logs[seat].append(action)
        paid = copy.step(action)
        self._views[seat] = copy.view
        if paid:
            self.reward(seat, REWARD, paid)

    def _settle(self) -> None:
        """Whose episode goes on, and the end where none does."""
        going = [seat for seat, copy in enumerate(self._playing) if copy is not None and not copy.is_over]
        self.to_move = going[0] if len(going) == 1 else None
        if going:
            return
        for seat, copy in enumerate(self._playing):
            if copy is not None:
                self.measure(seat, "return", copy.total)
                self.measure(seat, "length", copy.length)
        cuts = tuple(copy is not None and copy.is_cut for copy in self._playing)
        self.end(self._winner(), TRUNCATED if any(cuts) else TERMINATED, cut=(cuts[0], cuts[1]))

    def _winner(self) -> int | None:
        first, second = self._playing
        if first is not None and second is not None:
            return None if first.total == second.total else int(second.total > first.total)
        alone = first or second
        if alone is None or self._target is None:
            return None
        return int(alone is second) ^ int(alone.total < self._target)

    def _drawn(self, seat: int) -> npt.NDArray[np.uint8]:
        """A seat's picture: its actions are played again in a copy that can be drawn, from where that one is."""
        log = self._logs[seat]
        copy, seed, done = self._stage.get(seat, (None, -1, 0))
        try:
            if copy is None:
                copy = Copy(self._facts, "rgb_array")
            if seed != self._seed or done > len(log):
                copy.begin(self._seed)
                done = 0
            for action in log[done:]:
                copy.step(action)
            self._stage[seat] = copy, self._seed, len(log)
            picture = copy.render()
        except Exception as error:  # libraries have errors of their own for what is not installed
            where = f" ({line})" if (line := users_line(error)) else ""
            raise MatchError(f"{self.name} cannot be drawn: {described(error)}{where}; mend it") from error
        return picture


class MaskedSoloMatch(SoloMatch):
    """Of an environment that tells what is legal."""

    def legal(self, seat: int) -> Any:
        """What the seat may do in its own copy."""
        copy = self._playing[seat] or self._copies[0]
        legal = copy.legal()
        return self._facts.choices.everything if legal is None else legal
