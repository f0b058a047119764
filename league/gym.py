"""The games as Gymnasium environments: importing this module registers each as `league/NAME-v0`.

One seat of a game is the learner's, the other an opponent's. `gymnasium.make` gives one match at a time, `make_vec`
many in one native batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from league.arena.duel import RENDER_MODES, Duel, Opponent, first_of, generator
from league.arena.games import need_game
from league.envs import registry
from league.errors import UsageError, shown
from league.types import BoolArray
from league.types.arguments import door, typed

Seat = Literal[0, 1, "random"]
Info = dict[str, Any]
Frame = npt.NDArray[np.uint8]


class MatchEnv(gymnasium.Env[Any, Any]):
    """One match at a time, seen from the learner's seat.

    The observation is the game's (obs_size,) float32, or a dict of its parts where the game has named these. The action
    is of the space that `league.envs.spaces.gymnasium_spaces` makes of the game's `ActionSpec`, the reward the weighted
    sum of the reward terms. Info has the unweighted `reward_terms` by name and, where the game has one, the
    `action_mask` (M,), bool, or of `legal_tuples` int16 as the game lists them; at the end `reward_terms` and the
    `result` (`league.arena.duel.Matches.last_view`).

    Args:
        game: Its name or address (docs/bring.md), or the module or class itself.
        opponent: A native bot's name, an object with `act(obs, mask)` such as an exported agent (a copy of it plays),
            or a function `(obs, mask) -> action`, obs (obs_size,) and mask (M,) or None. None takes the bot that
            training meets most.
        seat: The learner's seat: 0, 1, or `random`, drawn for every match by the environment's generator.
        rewards: Reward term -> weight, in place of that of `hyperparameters.toml`.
        render_mode: None, or `rgb_array` where the game can be drawn.
        options: The game's options, in place of those of `hyperparameters.toml`.

    Raises:
        UsageError: an argument, or later an action, breaks its rule.
    """

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012, what gymnasium.make reads; an instance has its own

    @door
    def __init__(
        self,
        game: object,
        opponent: Opponent | None = None,
        seat: Seat = 0,
        rewards: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._duel = Duel(
            game,
            None,
            opponent=opponent,
            seat=seat,
            rewards=rewards,
            render_mode=render_mode,
            options=options,
        )
        self.render_mode = render_mode
        self.metadata = self._duel.metadata
        self.observation_space = self._duel.observation_space
        self.action_space = self._duel.action_space
        self._is_playing = False
        self._is_next_ready = False  # the batch starts the next match in the step that ends one

    @typed
    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> tuple[Any, Info]:
        """Begins a match: with `seed` a reproducible one, after an end the next, else one that the generator draws.

        Raises:
            UsageError: `options` has something in it.
        """
        _refuse_options(options)
        super().reset()
        if seed is not None:
            self._np_random, self._np_random_seed = generator(seed), seed
        if seed is not None or not self._is_next_ready:
            self._duel.start([self.np_random])
        self._is_playing, self._is_next_ready = True, False
        return self._view()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """One decision.

        Raises:
            UsageError: no match is being played, or the action is not one of the action space.
        """
        if not self._is_playing:
            raise UsageError("step: no match is being played; call reset() first")
        step = self._duel.step(action)
        if step.last_views:
            self._is_playing, self._is_next_ready = False, True
            obs, info = step.last_views[0]
        else:
            obs, info = self._view()
            info = {"reward_terms": self._duel.named_terms(step.terms[0]), **info}
        return obs, float(step.reward[0]), bool(step.terminated[0]), bool(step.truncated[0]), info

    def render(self) -> Frame | None:
        """The picture (height, width, 3), after an end of the next match's start; None without a render mode."""
        return None if self.render_mode is None else self._duel.frame(0)

    def _view(self) -> tuple[Any, Info]:
        obs, mask = self._duel.views()
        return first_of(obs), {} if mask is None else {"action_mask": mask[0]}


class MatchVectorEnv(VectorEnv[Any, Any, npt.NDArray[Any]]):
    """`num_envs` matches in one native batch; arguments as `MatchEnv`, an opponent in Python gets the stacks of all.

    A row that ends is restarted in the same step (`AutoresetMode.SAME_STEP`): `obs` and `action_mask` are the next
    match's, the ended one's last are in `final_obs` and `final_info`. Row i plays what `MatchEnv` plays after
    `reset(seed + i)`.
    """

    metadata = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012, what Gymnasium reads; an instance has its own

    @door
    def __init__(
        self,
        game: object,
        num_envs: int = 1,
        opponent: Opponent | None = None,
        seat: Seat = 0,
        rewards: Mapping[str, float] | None = None,
        render_mode: str | None = None,
        **options: Any,
    ) -> None:
        self._duel = Duel(
            game,
            num_envs,
            opponent=opponent,
            seat=seat,
            rewards=rewards,
            render_mode=render_mode,
            options=options,
        )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {**self._duel.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = self._duel.observation_space
        self.single_action_space = self._duel.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._rngs: list[np.random.Generator] = []

    @typed
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, Info]:
        """Starts a new match in every row.

        Args:
            seed: Row i takes `seed + i`, or `seed[i]`; a row without one draws on.
            options: None are known.

        Raises:
            UsageError: seeds that are not one a row, or options.
        """
        _refuse_options(options)
        seeds = self._seeds(seed)
        if not self._rngs:
            self._rngs = [generator(None) for _ in seeds]
        for row, row_seed in enumerate(seeds):
            if row_seed is not None:
                self._rngs[row] = generator(row_seed)
        self._duel.start(self._rngs)
        return self._views()

    def step(self, actions: Any) -> tuple[Any, npt.NDArray[np.float64], BoolArray, BoolArray, Info]:
        """One decision of every row, `actions` of the batched action space: (num_envs, A), or a tuple or dict of these.

        Raises:
            UsageError: reset() was never called, or an action is not one of the action space.
        """
        if not self._rngs:
            raise UsageError("step: no match is being played; call reset() first")
        step = self._duel.step(actions)
        obs, infos = self._views()
        going = ~(step.terminated | step.truncated)
        if going.any():
            terms = np.where(going[:, None], step.terms, np.float32(0))
            named = self._duel.named_terms(np.ascontiguousarray(terms.T))
            infos["reward_terms"] = {**named, **{f"_{name}": going.copy() for name in named}}
            infos["_reward_terms"] = going
        for row, (final_obs, final_info) in step.last_views.items():
            infos = self._add_info(infos, {"final_obs": final_obs, "final_info": final_info}, row)
        return obs, step.reward, step.terminated, step.truncated, infos

    def render(self) -> tuple[Frame, ...] | None:
        """One picture a row; None without a render mode."""
        return None if self.render_mode is None else tuple(self._duel.frame(row) for row in range(self.num_envs))

    def _views(self) -> tuple[Any, Info]:
        obs, mask = self._duel.views()
        infos = {} if mask is None else {"action_mask": mask, "_action_mask": np.ones(self.num_envs, np.bool_)}
        return obs, infos

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            return [int(seed) + row for row in range(self.num_envs)]
        if isinstance(seed, str) or not isinstance(seed, Sequence) or len(seed) != self.num_envs:
            raise UsageError(
                f"seed={shown(seed)}: must be an integer, or a list of one seed for each of {self.num_envs} rows"
            )
        return list(seed)


@typed
def register(game: object) -> None:
    """Adds a game to Gymnasium, `brawl` as `league/Brawl-v0`: by its name or address, or the module or class itself.

    Raises:
        ConfigError: there is no such game.
    """
    _register(need_game(game))


def _register(name: str) -> None:
    gymnasium.register(
        id=f"league/{name.capitalize()}-v0",
        entry_point="league.gym:MatchEnv",
        vector_entry_point="league.gym:MatchVectorEnv",
        kwargs={"game": name},
    )


def _refuse_options(options: Mapping[str, Any] | None) -> None:
    if options:
        raise UsageError(f"options={dict(options)!r}: reset takes none; give the game's options to make()")


for _game in registry.games():
    _register(_game)
