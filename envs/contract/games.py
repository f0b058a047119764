"""A game by its name, held to all that the engine takes for granted: quickly before training, or deeply by hand."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs import appearance, registry
from league.envs.contract.check import BUDGET, check_match_batch, check_state, watched
from league.envs.contract.steps import HIDES, Watch, acting, check_arrays, check_spec, need, restore
from league.envs.contract.traces import act, follow, play, shown_mask, units_of
from league.envs.drawing import as_picture, problem_of
from league.envs.matches.row import MatchError
from league.envs.user_code import line_of
from league.errors import ConfigError, ContractError, LeagueError, described
from league.runtime.process import settings_kept
from league.types import SEATS, GameSpec, MatchBatch, ObservationPart

QUICK_ROWS, QUICK_STEPS = 2, 24
ROWS = 3
WIDE = 10_000
"""Numbers of an observation, or choices, from which on a check tells what it is at."""
DRAWN = 40
"""Steps of random play after each of which a game is drawn."""
NEVER = 20_000
"""Steps of random play in which a match must end."""
OTHER_PROCESS = (
    "another process plays differently: draw from the seed alone; the hash of a text, and with it the order of a set,"
    " differs between processes (`sorted` has one order)"
)


@dataclass(frozen=True)
class Checked:
    """What a deep check played."""

    game: str
    game_id: str
    spec: GameSpec
    longest: int
    """Decisions of the longest match of random play that was seen."""
    steps: int
    """Of a run."""
    compared: int
    """Of these, the ones of runs that were compared with others; matches of thousands of steps are not played whole."""
    layout: tuple[ObservationPart, ...]
    """The numbers that bots and networks see, part by part."""
    drawings: int
    """How many times the game was drawn; 0 where it has no `drawing` or `render`, or no library for it is installed."""


@settings_kept()
def check_quickly(name: str, options: Mapping[str, Any]) -> None:
    """Plays a few steps: the spec, the arrays, ranges, addresses, and that a state gives back what was seen.

    Raises:
        ContractError: the first rule that the game breaks.
        ConfigError: no such game or option.
    """
    with _in_words_of(name):
        _check_quickly(name, options)


def _check_quickly(name: str, options: Mapping[str, Any]) -> None:
    spec = _check_identity(name, options)
    batch, twin = (_make(name, options, QUICK_ROWS, spec) for _ in range(2))
    batch.reset(1)
    watch = watched(batch, QUICK_STEPS, 1)
    restore(twin, batch.get_state())
    for what, seen, rebuilt in (("obs", batch.obs, twin.obs), ("mask", shown_mask(batch), shown_mask(twin))):
        for row, seat, index in np.argwhere(seen != rebuilt).tolist()[:1]:
            value, real = seen[row, seat, index], rebuilt[row, seat, index]
            raise ContractError(
                f"row {row}, seat {seat}: {what}[{index}] is {value}, but {real} in a batch that was set to its state;"
                f" {HIDES}"
            )
    restore(batch, batch.get_state())
    watch.check_in_place("set_state")
    check_state(lambda rows, threads: _make(name, options, rows, spec, threads), 1, QUICK_STEPS, 1, points=2)


@contextmanager
def _in_words_of(name: str) -> Iterator[None]:
    """Within it an error names no seat of a Gymnasium environment, which has one agent."""
    try:
        yield
    except (ContractError, MatchError) as error:
        if not registry.source(name).address.startswith("gymnasium:"):
            raise
        words = re.sub(r"\bseat [01]\b", "the agent", re.sub(r", seat [01]\b", "", str(error)))
        raise type(error)(words) from error


@settings_kept()
def check_deeply(
    name: str, options: Mapping[str, Any], *, seed: int = 1, say: Callable[[str], None] = lambda line: None
) -> Checked:
    """Plays a game in every way that the engine does, and compares the runs.

    say: takes a line before each part of the check.

    Raises:
        ContractError: the first rule that the game breaks.
        ConfigError: no such game or option.
    """
    with _in_words_of(name):
        return _check_deeply(name, options, seed, say)


def _check_deeply(name: str, options: Mapping[str, Any], seed: int, say: Callable[[str], None]) -> Checked:
    _check_quickly(name, options)
    spec = registry.spec(name, options)
    batch = _make(name, options, ROWS, spec)
    say("checking how long matches are")
    needed, longest = _length(batch, seed)
    is_long = needed > BUDGET
    steps = needed + 20 if is_long else 2 * needed + 20
    if is_long:
        say(f"matches take up to {longest:,} steps: runs of {steps:,} are played, and {BUDGET:,} of them compared")
    if max(spec.obs_size, spec.action.mask_size) > WIDE:
        say(f"{spec.obs_size:,} numbers are observed and {spec.action.mask_size:,} chosen from: this takes a while")
    check_match_batch(
        lambda rows, threads: _make(name, options, rows, spec, threads), rows=ROWS, steps=steps, seed=seed, say=say
    )
    _check_illegal(_make(name, options, ROWS, spec), min(steps, BUDGET), seed)
    _check_opponent_slice(batch, _make(name, options, ROWS, spec), min(steps, 200), seed)
    if registry.source(name).address:
        _check_other_process(name, options, batch, min(steps, 200), seed)
    drawings = _check_drawing(name, _make(name, options, 1, spec), min(steps, DRAWN), seed, say)
    layout = registry.layout(name, options)
    compared = min(steps, BUDGET)
    return Checked(name, registry.game_id(name, options), spec, longest, steps, compared, layout, drawings)


def _check_identity(name: str, options: Mapping[str, Any]) -> GameSpec:
    """The spec of a game that has what a game must have, under the name that it says."""
    try:
        registry.options_model(name)
        spec = registry.spec(name, options)
    except AttributeError as error:
        raise ContractError(
            f"game {name}: {error}; a game has Options, spec(options) and make(rows, threads, options)"
        ) from None
    check_spec(spec)
    need(
        spec.name == name,
        f"game {name}: its spec says name={spec.name!r}; agents of it would not be found again, so register it as"
        f" {spec.name} or change the spec",
    )
    return spec


def _make(name: str, options: Mapping[str, Any], rows: int, spec: GameSpec, threads: int = 1) -> MatchBatch:
    try:
        batch = registry.make(name, rows=rows, threads=threads, options=options)
    except AttributeError as error:
        if "'make'" not in str(error):
            raise
        raise ContractError(f"game {name}: it has no make(rows, threads, options)") from None
    check_arrays(batch, rows)
    need(batch.spec == spec, f"game {name}: the batch's spec is not the one that spec(options) gives")
    return batch


def _length(batch: MatchBatch, seed: int) -> tuple[int, int]:
    """Steps of random play in which some row finished three matches, `NEVER` at most, and the longest match seen.

    Raises:
        ContractError: no match ends, or one pays more than it can.
    """
    paid = np.zeros(batch.reward_terms.shape)
    rng, begun, longest = np.random.default_rng(seed), np.zeros(batch.num_rows, np.int64), 0
    ends = np.zeros(batch.num_rows, np.int64)
    batch.reset(seed)
    for step in range(1, NEVER + 1):
        act(batch, rng.random((batch.num_rows, SEATS, batch.spec.action.num_draws)))
        batch.step()
        paid += batch.reward_terms
        ended = np.flatnonzero(batch.terminated | batch.truncated)
        if len(ended):
            for row in ended:
                batch.spec.payoff(paid[row])
            paid[ended] = 0.0
            longest = max(longest, int((step - begun[ended]).max()))
            begun[ended] = step
            ends[ended] += 1
            if ends.max() >= 3:
                return step, longest
    need(
        ends.any(),
        f"no match ended in {NEVER:,} steps of random play; a match must end by its rules or by a limit, such as"
        f" max_steps of a Match, env.max_episode_steps of Gymnasium or env.max_steps of PettingZoo",
    )
    return NEVER, longest


def _check_illegal(batch: MatchBatch, steps: int, seed: int) -> None:
    """The game accepts actions that the mask forbids, and plays legal ones in their place."""
    if batch.mask is None:
        return
    rng, action = np.random.default_rng(seed), batch.spec.action
    batch.reset(seed)
    watch = Watch(batch)
    for _ in range(steps):
        watch.before()
        if action.kind == "legal_tuples":
            batch.actions[:] = rng.integers(0, action.choices, batch.actions.shape)
        else:
            batch.actions[:] = action.legal_actions(None, rng.random((batch.num_rows, SEATS, action.num_draws)))
        illegal = np.argwhere(acting(batch) & ~action.is_legal(batch.actions, batch.mask)).tolist()
        try:
            batch.step()
        except Exception as error:
            if not illegal:
                raise
            row, seat = illegal[0]
            raise ContractError(
                f"row {row}, seat {seat}: step() refuses an action that the mask forbids, {batch.actions[row, seat]}"
                f" ({described(error)}); play a legal one instead, since players of Gymnasium send such"
            ) from None
        watch.after()


def _check_other_process(name: str, options: Mapping[str, Any], batch: MatchBatch, steps: int, seed: int) -> None:
    """A worker process, in which texts have other hashes, plays what this one does."""
    try:
        other = registry.make(name, rows=batch.num_rows, threads=1, options=options, workers=1)
    except ConfigError:  # no worker can play it, which `env.workers` says
        return
    units = units_of(batch.spec, steps, batch.num_rows, seed)
    batch.reset(seed)
    first = play(batch, units)
    other.reset(seed)
    follow(other, units, first, OTHER_PROCESS)


def _check_drawing(name: str, batch: MatchBatch, steps: int, seed: int, say: Callable[[str], None]) -> int:
    """Draws each of `steps` states as pages and films do, shapes as each seat may see them too; returns how often."""
    draw, render = appearance.drawer(name), appearance.renderer(name)
    if draw is None and render is None:
        return 0
    rng, viewers = np.random.default_rng(seed), (None,) if draw is None else (None, *range(SEATS))
    batch.reset(seed)
    for step in range(steps):
        for seat in viewers:
            what = "render" if draw is None else "drawing"
            where = f"{what}() {'' if seat is None else f'for seat {seat} '}after {step} steps of the run"
            try:
                if draw is not None:
                    need(not (problem := problem_of(draw(batch, 0, seat))), f"{where}: {problem}")
                elif render is not None:
                    as_picture(render(batch, 0))
            except Exception as error:
                for lack in (error, error.__cause__ or error):
                    if isinstance(lack, ImportError) or "NotInstalled" in type(lack).__name__:  # Gymnasium's own
                        say(f"{name} was not drawn: {described(lack)}")
                        return 0
                if isinstance(error, LeagueError):
                    raise
                words = " ".join(f"{type(error).__name__}: {error}".split())
                raise ContractError(f"{where} raises {words}{line_of(error)}; mend it") from error
        act(batch, rng.random((1, SEATS, batch.spec.action.num_draws)))
        batch.step()
    return steps * len(viewers)


def _check_opponent_slice(batch: MatchBatch, twin: MatchBatch, steps: int, seed: int) -> None:
    """The part that is said to show the opponent is not one that only the seat itself has a hand in.

    From many states one seat's action is exchanged for another; what differs in a view afterwards hangs on that seat.
    """
    start, stop = batch.spec.opponent_slice
    if start == stop:
        return
    units, others = (units_of(batch.spec, steps, batch.num_rows, seed + i) for i in range(2))
    by: npt.NDArray[np.bool_] = np.zeros((SEATS, SEATS, batch.spec.obs_size), np.bool_)  # (who acts, who sees, column)
    batch.reset(seed)
    for unit, other in zip(units, others, strict=True):
        state, who = batch.get_state(), acting(batch).copy()
        act(batch, unit)
        taken = batch.actions.copy()
        batch.step()
        for seat in range(SEATS):
            restore(twin, state)
            act(twin, np.where(np.arange(SEATS)[None, :, None] == seat, other, unit))
            changed = who[:, seat] & (twin.actions[:, seat] != taken[:, seat]).any(axis=-1)
            twin.step()
            same = ~(batch.terminated | batch.truncated | twin.terminated | twin.truncated) & changed
            by[seat] |= (batch.obs != twin.obs)[same].any(axis=0)
    for seat in range(SEATS):
        own, theirs = by[seat, seat, start:stop], by[1 - seat, seat, start:stop]
        column = start + int(own.argmax())
        need(
            theirs.any() or not own.any(),
            f"opponent_slice {batch.spec.opponent_slice} shows the seat itself: obs[{column}] of seat {seat} follows"
            f" its own actions, and nothing in the slice follows its opponent's",
        )
