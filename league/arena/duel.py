"""What the faces of Gymnasium and PettingZoo share: a game's matches with their settings, and the learner's seat.

`league.gym` and `league.zoo` only bring this into the shape that their libraries ask for.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from gymnasium.utils import seeding

from league import config
from league.arena import raster
from league.arena.games import load_settings, need_game
from league.config import updates
from league.envs import registry
from league.envs.spaces import gymnasium_spaces, show_observation
from league.errors import UsageError, nearest, shown
from league.snapshots.manifest import Manifest
from league.types import BOT_PREFIX, EXTERNAL, ActionSpec, BoolArray, FloatArray, Mask, Turns, ends_of
from league.types.schema import MAX_SEED, check_number

RENDER_MODES = ("rgb_array",)
MOST_ROWS = 1_000_000
"""Matches at once in a vector environment."""


class Player(Protocol):
    """An opponent that may remember its match, such as `league.snapshots.Agent`.

    One that has `watch(obs, rows=)` as well is shown, in games in turns, what its seat sees where it waits on after a
    decision of the learner.
    """

    def act(self, obs: FloatArray, mask: Mask | None, /, **which: npt.NDArray[np.intp]) -> npt.ArrayLike:
        """The action for what its seat sees.

        In games in turns with several rows `rows=` (n,) says which of them decide, of which alone it sees anything.
        """

    def reset(self, seed: int | None = None, *, rows: npt.NDArray[np.intp] | None = None) -> None:
        """Forgets the matches of `rows`, or all; with `seed`, its draws are reproducible from here on."""


Opponent = str | Player | Callable[[FloatArray, Mask | None], npt.ArrayLike]
MAX_PASSES = 10_000
"""Decisions of an opponent without one of the learner, after which the learner is taken to have none."""


def generator(seed: int | None) -> np.random.Generator:
    """Gymnasium's generator of a seed; None: of one that the system draws.

    Raises:
        UsageError: no seed can be that.
    """
    if seed is None:
        return seeding.np_random()[0]
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise UsageError(f"seed={shown(seed)}: must be a whole number; pass another seed")
    check_number("seed", int(seed), 0, MAX_SEED, "the random seed")
    return seeding.np_random(int(seed))[0]


class Matches:
    """Matches of one game side by side.

    Args:
        game: Its name or address (docs/bring.md), or the module or class itself.
        rows: B, how many matches.
        rewards: Reward term -> weight, in place of the default one.
        render_mode: None or `rgb_array`.
        options: Options of the game, in place of the default ones. Defaults are those of `league.config`.
        keywords: What a caller may write beside the options; suggested where it is misspelt.

    Raises:
        UsageError: an unknown game, option, reward term or render mode, or a value outside its rule.
    """

    def __init__(
        self,
        game: object,
        rows: int,
        *,
        rewards: Mapping[str, float] | None,
        render_mode: str | None,
        options: Mapping[str, Any],
        keywords: Sequence[str],
    ) -> None:
        game = need_game(game)
        known = registry.options_model(game).model_fields
        for key in options:
            if key not in known:
                close = nearest(key, [*known, *keywords])
                raise UsageError(f"{key}={shown(options[key])}: {game} has no such option or keyword{close}")
        check_number("num_envs", rows, 1, MOST_ROWS, "matches at once")
        if not isinstance(rewards, Mapping | None):
            raise UsageError(f"rewards={shown(rewards)}: must map reward terms to weights, such as {{'win': 1.0}}")

        defaults, _ = load_settings(env=game)
        settings = {**config.to_json(defaults), "rewards": {**defaults.rewards, **(rewards or {})}}
        if not any(settings["rewards"].values()):
            raise UsageError(f"rewards={shown(rewards)}: every weight is 0; give one, such as {{'win': 1.0}}")
        self.options = registry.check_options(game, {**defaults.env.options, **options})
        self.batch = registry.make(game, rows=int(rows), threads=0, options=self.options)
        self.spec = self.batch.spec
        self.turns = self.batch if isinstance(self.batch, Turns) else None
        """The batch of a game in turns."""
        self.mix = defaults.pool.mix
        self.observation_space, self.action_space = gymnasium_spaces(self.spec)
        self._weights = np.array(updates.check_rewards(config.from_json(settings), self.spec))
        self._draw = raster.renderer(game)
        modes = RENDER_MODES if self._draw else ()
        if render_mode is not None and render_mode not in modes:
            raise UsageError(
                f"render_mode={shown(render_mode)}: {game} "
                + (f"can be drawn as {', '.join(modes)} only" if modes else "cannot be drawn; leave render_mode out")
            )
        fps = self.spec.tick_rate / self.spec.ticks_per_step
        self.metadata: dict[str, Any] = {"render_modes": list(modes), "render_fps": fps}

    def start(self, rngs: Sequence[np.random.Generator]) -> None:
        """Starts a new match in every row, row i from a seed that `rngs[i]` draws."""
        self.batch.reset(np.array([rng.integers(2**64, dtype=np.uint64) for rng in rngs]))

    def reward(self, terms: FloatArray) -> npt.NDArray[np.float64]:
        """The weighted sums (n,) of `terms` (n, R)."""
        weighted: npt.NDArray[np.float64] = (terms * self._weights).sum(axis=-1)
        return weighted

    def named_terms(self, terms: FloatArray) -> dict[str, Any]:
        """The unweighted `terms` (R,) or (R, n) by name."""
        return dict(zip(self.spec.reward_terms, terms, strict=True))

    def last_view(self, row: int, seat: int, terms: FloatArray | None = None) -> tuple[Any, dict[str, Any]]:
        """The last observation of the match that `row` just ended, as `seat` saw it, and the last info.

        terms: the reward terms (R,) of its last decision; None takes those of the last step.

        Info: `reward_terms` by name, and `result`: winner (a seat, or -1 for a draw), the seat itself, the end's
        reason, the length in ticks, the match's seed, and each metric as (own, opponent's).
        """
        result, spec = self.batch.result[row], self.spec
        own_first = [seat, 1 - seat]
        info = {
            "reward_terms": self.named_terms((self.batch.reward_terms[row, seat] if terms is None else terms).copy()),
            "result": {
                "winner": int(result["winner"]),
                "seat": seat,
                "end_reason": spec.end_reasons[result["end_reason"]],
                "ticks": int(result["ticks"]),
                "seed": result["seed"],
                "metrics": dict(zip(spec.metrics, result["metrics"][own_first].T.copy(), strict=True)),
            },
        }
        return show_observation(self.spec, self.batch.final_obs[row, seat]), info

    def frame(self, row: int) -> npt.NDArray[np.uint8]:
        """The picture (height, width, 3) of the match in `row` now: after an end, of the next match's start."""
        assert self._draw is not None, "a render mode is only taken where the game can be drawn"
        return self._draw(self.batch, row)


class DuelStep(NamedTuple):
    """What the learner's seats got from one decision of B rows."""

    terms: FloatArray  # (B, R), unweighted
    reward: npt.NDArray[np.float64]  # (B,)
    terminated: BoolArray  # (B,)
    truncated: BoolArray  # (B,)
    last_views: dict[int, tuple[Any, dict[str, Any]]]
    """Row that ended -> `Matches.last_view`."""


class Duel(Matches):
    """Matches in which the learner has one seat of each row and an opponent the other.

    In a game in turns a step is one decision of the learner; the opponent's decisions are played in between.

    Args:
        rows: B, of which an opponent in Python sees stacks (B, obs_size) and (B, M), and gives (B, A); in a game in
            turns of the rows that it decides in alone. None: one row, of which it sees (obs_size,) and (M,), and gives
            (A,).
        opponent: a native bot's name; or an object with `act(obs, mask)` such as `league.snapshots.Agent`, of which a
            copy plays, so that its memory is this one's alone; or a function `(obs, mask) -> action`. None takes the
            bot that training meets most.
        seat: the learner's seat: 0, 1, or `random`, drawn again for every match by its row's generator.
    """

    KEYWORDS = ("opponent", "seat", "rewards", "render_mode")

    def __init__(
        self,
        game: object,
        rows: int | None,
        *,
        opponent: Opponent | None,
        seat: Literal[0, 1, "random"],
        rewards: Mapping[str, float] | None,
        render_mode: str | None,
        options: Mapping[str, Any],
    ) -> None:
        is_stacked, rows = rows is not None, 1 if rows is None else rows
        super().__init__(game, rows, rewards=rewards, render_mode=render_mode, options=options, keywords=self.KEYWORDS)
        if isinstance(seat, bool) or not isinstance(seat, int | str) or seat not in (0, 1, "random"):
            raise UsageError(f"seat={shown(seat)}: must be 0, 1 or 'random'")
        self._choose_opponent(opponent)
        self._is_stacked = is_stacked
        self._lead = (rows,) if is_stacked else ()
        self._is_seat_drawn = seat == "random"
        self._rows = np.arange(rows)
        self._seat = np.full(rows, 0 if seat == "random" else seat)
        self._rngs: Sequence[np.random.Generator] = ()
        self._early: FloatArray = np.zeros((rows, len(self.spec.reward_terms)), np.float32)
        """(B, R): what a match gave before the learner's first decision in it."""
        self._has_begun = np.zeros(rows, np.bool_)
        """(B,): in games in turns, whether an opponent in Python has decided or watched in the match."""

    def start(self, rngs: Sequence[np.random.Generator]) -> None:
        """Starts a new match in every row; `rngs[i]` draws its row's seed and, if drawn, its seats from now on."""
        super().start(rngs)
        self._rngs = rngs
        if self._reset is not None:
            seeds = [int(rng.integers(2**63)) for rng in rngs]  # one a row, so that a row's stream is as when alone
            self._reset(seed=seeds[0])
        self._sit_down(self._rows)
        if self.turns is not None:
            self._early[:] = 0
            self._has_begun[:] = False
            self._play_turns(self.turns, None)

    def views(self) -> tuple[Any, Mask | None]:
        """Copies of what the learner's seats see now, (B, obs_size) or a dict of parts, and may do (B, M)."""
        obs, mask = self._views(self._seat)
        return show_observation(self.spec, obs), mask

    def step(self, actions: Any) -> DuelStep:
        """One decision of every row with the learner's `actions`, of the action space, or of the batched one.

        Raises:
            UsageError: an action of the learner or the opponent is not one of the action space; nothing has moved,
                unless it is the opponent's in a game in turns.
        """
        batch, seat = self.batch, self._seat
        own = flat_actions("action", actions, self._lead, self.spec.action)
        if self.turns is not None:
            return self._play_turns(self.turns, own)
        if self._act is not None:
            obs, mask = self._views(1 - seat)
            if not self._is_stacked:
                obs, mask = obs[0], None if mask is None else mask[0]
            shape = (*self._lead, self.spec.action.num_parts)
            answer = check_actions("the opponent's action", self._act(obs, mask), shape, self.spec.action)
            batch.actions[self._rows, 1 - seat] = answer
        batch.actions[self._rows, seat] = own
        batch.step()
        terms = batch.reward_terms[self._rows, seat]
        terminated, truncated = ends_of(batch, self._seat)
        ended = np.flatnonzero(terminated | truncated)
        last_views = {int(row): self.last_view(int(row), int(seat[row])) for row in ended}
        if len(ended):
            if self._reset is not None:
                self._reset(rows=ended)
            self._sit_down(ended)
        return DuelStep(terms, self.reward(terms), terminated, truncated, last_views)

    def _play_turns(self, turns: Turns, own: npt.NDArray[Any] | None) -> DuelStep:
        """Plays until the learner is to decide in every row: its actions `own` first, if given, then the opponent's.

        Rows in which it is to decide are held meanwhile. A match that ends is followed by the next one's opening, and
        what that gives counts for the learner's first decision in it; a match that ends in its opening passes unseen.
        """
        batch, num_rows = self.batch, len(self._rows)
        terms, self._early = self._early, np.zeros_like(self._early)
        terminated, truncated = np.zeros(num_rows, np.bool_), np.zeros(num_rows, np.bool_)
        last_views: dict[int, tuple[Any, dict[str, Any]]] = {}
        is_opening = np.full(num_rows, own is None)
        moving = np.ones(num_rows, np.bool_) if own is not None else ~turns.to_act[self._rows, self._seat]
        if own is not None:
            batch.actions[self._rows, self._seat] = own
        for _ in range(MAX_PASSES):
            if not moving.any():
                break
            self._answer(moving & turns.to_act[self._rows, 1 - self._seat])
            decided = moving & turns.to_act[self._rows, self._seat]
            turns.held[:] = ~moving
            batch.step()
            gained = batch.reward_terms[self._rows, self._seat]
            terms += np.where(is_opening[:, None], 0, gained)
            self._early += np.where(is_opening[:, None], gained, 0)
            ends = ends_of(batch, self._seat)
            has_ended = ends[0] | ends[1]
            self._show(decided & ~has_ended & ~turns.to_act[self._rows, 1 - self._seat])
            ended = np.flatnonzero(has_ended & moving)
            for row in ended.tolist():
                self._early[row] = 0
                if not is_opening[row]:
                    last_views[row] = self.last_view(row, int(self._seat[row]), terms[row])
                    terminated[row], truncated[row] = ends[0][row], ends[1][row]
            is_opening[ended] = True
            if len(ended):
                known = ended[self._has_begun[ended]]
                if self._reset is not None and len(known):
                    self._reset(rows=known)
                self._has_begun[ended] = False
                self._sit_down(ended)
            moving = ~turns.to_act[self._rows, self._seat]
        else:
            raise UsageError(
                f"{self.spec.name}: the learner's seat has no decision in {MAX_PASSES:,} steps of the game"
            )
        turns.held[:] = False
        return DuelStep(terms, self.reward(terms), terminated, truncated, last_views)

    def _answer(self, deciding: BoolArray) -> None:
        """Writes the opponent's actions in the rows where it decides, if Python plays it."""
        rows = np.flatnonzero(deciding)
        if self._act is None or not len(rows):
            return
        seat, masks = 1 - self._seat[rows], self.batch.mask
        obs, mask = self.batch.obs[rows, seat], None if masks is None else masks[rows, seat]
        shape: tuple[int, ...] = (len(rows), self.spec.action.num_parts)
        if not self._is_stacked:
            obs, mask, shape = obs[0], None if mask is None else mask[0], shape[1:]
        self._has_begun[rows] = True
        answer = self._act(obs, mask, **self._which(rows))
        self.batch.actions[rows, seat] = check_actions("the opponent's action", answer, shape, self.spec.action)

    def _show(self, watching: BoolArray) -> None:
        """Shows an opponent in Python that watches what it sees in the rows where it waits on."""
        rows = np.flatnonzero(watching)
        if self._watch is None or not len(rows):
            return
        obs = self.batch.obs[rows, 1 - self._seat[rows]]
        self._has_begun[rows] = True
        self._watch(obs if self._is_stacked else obs[0], **self._which(rows))

    def _which(self, rows: npt.NDArray[np.intp]) -> dict[str, npt.NDArray[np.intp]]:
        return {"rows": rows} if self._is_stacked and self._reset is not None else {}

    def _choose_opponent(self, opponent: Opponent | None) -> None:
        """Sets `_bot`, and `_act`, `_watch` and `_reset` where Python plays."""
        bots = self.spec.bots
        self._bot = EXTERNAL
        self._act: Callable[..., npt.ArrayLike] | None = None
        self._watch: Callable[..., None] | None = None
        self._reset: Callable[..., None] | None = None
        if opponent is None:
            shares = {bot: self.mix.get(BOT_PREFIX + bot, 0.0) for bot in bots}
            if not shares:
                raise UsageError(f"opponent=None: {self.spec.name} has no bots; pass an agent or a function")
            opponent = max(shares, key=lambda bot: shares[bot])
        if isinstance(opponent, str):
            if opponent not in bots:
                raise UsageError(
                    f"opponent={shown(opponent)}: {self.spec.name} has no such bot{nearest(opponent, bots)}"
                )
            self._bot = bots.index(opponent)
        elif hasattr(opponent, "act"):
            manifest = getattr(opponent, "manifest", None)
            if isinstance(manifest, Manifest) and manifest.game.name != self.spec.name:
                raise UsageError(f"opponent: the agent plays {manifest.game.name}, and the game is {self.spec.name}")
            player = copy.deepcopy(opponent)
            self._act = player.act
            self._watch, self._reset = getattr(player, "watch", None), getattr(player, "reset", None)
        elif callable(opponent) and _takes_two(opponent):
            self._act = opponent
        else:
            raise UsageError(
                f"opponent={shown(opponent)}: must be a bot's name ({', '.join(bots)}), an object with act(obs, mask)"
                " or a function (obs, mask) -> action"
            )

    def _sit_down(self, rows: npt.NDArray[np.intp]) -> None:
        """Seats both sides of `rows`, whose matches are about to begin."""
        if self._is_seat_drawn:
            self._seat[rows] = [self._rngs[row].integers(2) for row in rows]
        self.batch.controllers[rows, self._seat[rows]] = EXTERNAL
        self.batch.controllers[rows, 1 - self._seat[rows]] = self._bot

    def _views(self, seat: npt.NDArray[np.int_]) -> tuple[FloatArray, Mask | None]:
        mask = self.batch.mask
        return self.batch.obs[self._rows, seat], None if mask is None else mask[self._rows, seat]


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether it can be called with an observation and a mask, as far as it says."""
    try:
        inspect.signature(function).bind(None, None)
    except ValueError:  # it says nothing
        return True
    except TypeError:
        return False
    return True


def flat_actions(name: str, actions: Any, lead: tuple[int, ...], spec: ActionSpec) -> npt.NDArray[Any]:
    """What a caller of Gymnasium's action space gives, as (*lead, A) of the spec's type.

    Raises:
        UsageError: it is not of that space; nothing is rounded or clipped.
    """
    if spec.kind == "discrete":
        return check_actions(name, actions, lead, spec)[..., None]
    if spec.kind != "mixture":
        return check_actions(name, actions, (*lead, spec.num_parts), spec)
    if spec.names:
        if not isinstance(actions, Mapping) or set(actions) != set(spec.names):
            raise UsageError(f"{name}={shown(actions)}: must be a dict of {', '.join(spec.names)}")
        named = [(f"{name}[{key!r}]", actions[key]) for key in spec.names]
    else:
        if not isinstance(actions, Sequence) or len(actions) != len(spec.parts):
            raise UsageError(f"{name}={shown(actions)}: must be a tuple of {len(spec.parts)} parts")
        named = [(f"{name}[{i}]", part) for i, part in enumerate(actions)]
    flat = [flat_actions(where, given, lead, part) for (where, given), part in zip(named, spec.parts, strict=True)]
    return np.concatenate(flat, axis=-1).astype(spec.dtype)


def check_actions(name: str, actions: npt.ArrayLike, shape: tuple[int, ...], spec: ActionSpec) -> npt.NDArray[Any]:
    """`actions` of `shape`, (..., A), or of one choice (...), as the spec's type; nothing is rounded or clipped.

    Raises:
        UsageError: another shape, no numbers, or a value that is not one of its part's choices or within its bounds.
    """
    try:
        given = np.asarray(actions)
    except ValueError:  # lists of unequal lengths
        given = np.asarray(None)
    if given.dtype.kind not in "biuf":
        raise UsageError(f"{name}={shown(actions)}: must be numbers of shape {shape}")
    if given.shape != shape:
        raise UsageError(f"{name}: shape must be {shape}, got {given.shape}")
    rules = [rule for leaf in spec.leaves for rule in leaf.bounds or leaf.choices]
    for i, rule in enumerate(rules):
        column = given[..., i] if len(rules) > 1 or spec.kind != "discrete" else given
        if isinstance(rule, tuple):
            low, high = np.array(rule, np.float32)
            real = column.astype(np.float32)
            taken, words = (low <= real) & (real <= high), f"a number from {rule[0]:g} to {rule[1]:g}"
        else:
            taken = (column >= 0) & (column < rule) & (column == np.floor(column))
            words = f"an integer from 0 to {rule - 1}"
        if not taken.all():
            index = [int(at) for at in np.argwhere(~taken)[0]]
            value = column[tuple(index)].item()
            raise UsageError(f"{name}{[*index, i] if column is not given else index}={value}: must be {words}")
    return given.astype(spec.dtype)


def first_of(obs: Any) -> Any:
    """One row's observation from those of a stack of rows, a dict or not."""
    return {name: part[0] for name, part in obs.items()} if isinstance(obs, dict) else obs[0]
