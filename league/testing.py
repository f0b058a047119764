"""Checks of what others bring: a game, a bot, a network. Each raises one clear line at the first rule that is broken.

`check_game` is what `league check` runs, and in a quick form `league train` before the first update; so are the others,
where it is given custom parts (docs/bring.md).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from league.arena.bouts import BotPlayer
from league.arena.games import enter, load_settings, need_game
from league.envs import registry
from league.envs.contract.check import check_match_batch
from league.envs.contract.games import Checked, check_deeply, check_quickly
from league.envs.contract.steps import need
from league.envs.contract.traces import act, outputs
from league.envs.matches.match import MatchGame
from league.envs.matches.mixtures import choices_of
from league.errors import ContractError, UsageError, code_told, nearest, shown
from league.play.bots import BotPolicy
from league.play.instances import is_stateful
from league.play.programs import Program, make_bot
from league.runtime.process import settings_kept
from league.types import EXTERNAL, SEATS, GameSpec, MatchBatch, Turns
from league.types.arguments import door
from league.types.schema import MAX_SEED, check_number

if TYPE_CHECKING:
    from league.types import Policy

MOST_MATCHES = 100_000
"""That a bot is checked in."""
__all__ = ["Checked", "ContractError", "check_bot", "check_game", "check_match_batch", "check_parts", "check_policy"]


@door
@settings_kept()
@code_told()
def check_game(
    game: object,
    options: Mapping[str, Any] | None = None,
    *,
    quick: bool = False,
    seed: int = 1,
    say: Callable[[str], None] = lambda line: None,
) -> Checked | None:
    """Plays a game in every way that training does, and holds it to the contract of games.

    Args:
        game: its name or address, or the module or class itself, as `league.train(env=...)` takes it.
        options: of the game, in place of those that training uses.
        quick: a few steps only, as before training.
        seed: of the matches and actions.
        say: takes a line before each part of the check, where matches are long.

    Returns:
        What was played; None in the quick form.

    Raises:
        ContractError: the first rule that it breaks, with row, seat, step and column.
        ConfigError: no such game or option.
    """
    check_number("seed", seed, 0, MAX_SEED, "the random seed")
    entered, chosen = _entered(game, options)
    if quick:
        check_quickly(entered, chosen)
        return None
    return check_deeply(entered, chosen, seed=seed, say=say)


@door
@settings_kept()
@code_told()
def check_bot(
    game: object,
    bot: str | Callable[..., Any],
    options: Mapping[str, Any] | None = None,
    *,
    matches: int = 40,
    seed: int = 1,
) -> None:
    """Plays a bot in both seats: legal actions, and the same match for the same seed.

    A function is held to it in any game: as a bot of the match where the game is a `league.envs.Match`, else as a run
    plays bots in Python.

    Args:
        game: as for `check_game`.
        bot: the name of one of its bots; or a function (observation, legal, rng) -> action.
        options: of the game, in place of those that training uses.
        matches: how many it plays at least.
        seed: of the matches.

    Raises:
        ContractError: it plays another match where it should play the same.
        MatchError, GuardError: a function fails or answers what is not legal (others see to it themselves).
        UsageError: no such bot.
        ConfigError: no such game or option.
    """
    check_number("seed", seed, 0, MAX_SEED, "the random seed")
    check_number("matches", matches, 1, MOST_MATCHES, "how many it plays")
    entered, chosen = _entered(game, options)
    name = bot if isinstance(bot, str) else getattr(bot, "__name__", "bot")
    seats = f"bot {name} of {entered}"
    drawn: list[str] = []
    given = bot if isinstance(bot, str) or is_stateful(bot) else _noted(bot, drawn)
    make, number = _with_bot(entered, chosen, name, given)
    for seat in range(SEATS):
        seeds = np.arange(1, max(2, matches // 2) + 1, dtype=np.uint64) * np.uint64(7919) + np.uint64(seed)
        batch = make(len(seeds))
        together, again = (_matches(batch, seeds, number, seat) for _ in range(2))
        need(not drawn, f"{seats}, seat {seat}: it draws from {', '.join(drawn)}; draw all chance from rng")
        for row, (one, two) in enumerate(zip(together, again, strict=True)):
            need(
                one == two,
                f"{seats}, seat {seat}: the match of seed {seeds[row]} is another when it is played again; draw all"
                f" chance from rng, and keep nothing from one call to the next",
            )
        last = len(seeds) - 1
        alone = _matches(make(1), seeds[last:], number, seat)[0]
        need(
            alone == together[last],
            f"{seats}, seat {seat}: the match of seed {seeds[last]} is another when nothing else is played beside it;"
            f" keep nothing from one call to the next",
        )


@door
@settings_kept()
@code_told()
def check_parts(
    game: object,
    bots: object = None,
    sampler: object = None,
    policy: object = None,
    *,
    overrides: Sequence[str] = (),
    seed: int = 1,
) -> tuple[str, ...]:
    """Holds custom parts to what a run takes for granted of them, in a game.

    Args:
        game: as for `check_game`.
        bots, sampler, policy: as for `league.train`.
        overrides: settings as `section.key=value`: options of the game, and of [agent] for the policy.
        seed: of the matches, observations and actions.

    Returns:
        What was checked, `bot greedy` and its like.

    Raises:
        ContractError, GuardError, MatchError: the first rule that one breaks.
        ConfigError: no such game, option or part.
    """
    check_number("seed", seed, 0, MAX_SEED, "the random seed")
    from league.arena import parts
    from league.config.updates import check_rewards
    from league.sessions.part_checks import try_parts

    given = parts.enter(bots, sampler, policy)
    name = game if isinstance(game, str) and registry.is_known(game) else enter(game)
    config = parts.resolved(load_settings(env=name, overrides=[*given.sets, *overrides])[0])
    spec = registry.spec(config.env.name, config.env.options)
    check_rewards(config, spec)
    try_parts(config, spec, rows=4, steps=12, seed=seed)
    for part in given.parts:
        if part.kind == "bot" and not isinstance(part.thing, Program):
            check_bot(name, part.thing, config.env.options, seed=seed)
    return tuple(f"{part.kind} {part.name}" for part in given.parts)


@door
@settings_kept()
@code_told()
def check_policy(policy: Policy, spec: GameSpec, *, rows: int = 4, steps: int = 12, seed: int = 0) -> None:
    """Holds a network to `league.types.Policy` for a game.

    A sequence gives what its steps gave; what is cleared is forgotten, in its rows alone; `value` changes nothing;
    every parameter gets a gradient; the same generator draws the same actions.

    Args:
        policy: an `nn.Module` with the methods of `league.types.Policy`, as it is trained (gradients on, float32).
        spec: the game's.
        rows: N, at least 2.
        steps: T of the sequence, at least 4.
        seed: of observations, masks and actions.

    Raises:
        ContractError: the first rule that it breaks.
    """
    check_number("seed", seed, 0, MAX_SEED, "the random seed")
    from league.policies.policy_checks import check_policy as check

    if not isinstance(spec, GameSpec):
        raise UsageError(f"spec={shown(spec)}: must be a league.types.GameSpec, as a game's spec gives it")

    check(policy, spec, rows=rows, steps=steps, seed=seed)


def _entered(game: object, options: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The game's name and its options, those of training but for what is given."""
    name = game if isinstance(game, str) and registry.is_known(game) else need_game(game)
    usual = load_settings(env=name)[0].env.options
    return name, registry.check_options(name, {**usual, **(options or {})})


def _with_bot(
    game: str, options: Mapping[str, Any], name: str, bot: str | Callable[..., Any]
) -> tuple[Callable[[int], MatchBatch], int | BotPolicy]:
    """What makes batches of a game that has the bot, and the bot's number; a bot that no batch can have, itself."""
    bots = registry.spec(game, options).bots
    if isinstance(bot, str):
        if bot not in bots:
            raise UsageError(f"bot={bot!r}: {game} has no such bot{nearest(bot, bots)}")
        return lambda rows: registry.make(game, rows=rows, threads=1, options=options), bots.index(bot)
    found = registry.game(game)
    if not isinstance(found, MatchGame) or is_stateful(bot):
        choices = choices_of(registry.spec(game, options).action)
        player = make_bot(name, bot, registry.spec(game, options), choices, torch.device("cpu"))
        return lambda rows: registry.make(game, rows=rows, threads=1, options=options), player
    body = {"bots": {**found.match.bots, name: bot}, "__module__": found.match.__module__}
    match = type(found.match.__name__, (found.match,), body)
    with_bot = MatchGame(match, found.Options)
    chosen = with_bot.Options(**options)
    return lambda rows: with_bot.make(rows, 1, chosen), with_bot.spec(chosen).bots.index(name)


def _noted(bot: Callable[..., Any], drawn: list[str]) -> Callable[..., Any]:
    """The bot, which adds to `drawn` the global generators from which it draws.

    A match seeds them for a game that uses them, so that replays alone do not show it.
    """

    def states() -> dict[str, Any]:
        _, words, *rest = np.random.get_state()
        return {"random": random.getstate(), "numpy.random": (np.asarray(words).tobytes(), *rest)}

    @wraps(bot, updated=())
    def noted(*given: Any) -> Any:
        if drawn:
            return bot(*given)
        before = states()
        answer = bot(*given)
        after = states()
        drawn.extend(name for name in before if before[name] != after[name])
        return answer

    return noted


def _matches(batch: MatchBatch, seeds: npt.NDArray[np.uint64], bot: int | BotPolicy, seat: int) -> list[bytes]:
    """The first match of each row, a bot in `seat` against actions that its seed picks, as bytes."""
    rows, limit = len(seeds), 20_000
    batch.controllers[:] = EXTERNAL
    if isinstance(bot, int):
        batch.controllers[:, seat] = bot
    batch.reset(seeds)
    seen: list[list[bytes]] = [[] for _ in range(rows)]
    playing = np.ones(rows, np.bool_)
    players = [BotPlayer(bot, int(seed)) for seed in seeds] if isinstance(bot, BotPolicy) else []
    rngs = [np.random.default_rng(int(seed)) for seed in seeds]
    size = batch.spec.action.num_draws
    for _ in range(limit):
        act(batch, np.stack([rng.random((SEATS, size)) for rng in rngs]))
        if isinstance(bot, BotPolicy):  # what it sees while it waits is not shown
            acting = batch.to_act[:, seat] if isinstance(batch, Turns) else np.ones(rows, np.bool_)
            for row in np.flatnonzero(acting & playing):
                mask = None if batch.mask is None else batch.mask[row, seat]
                batch.actions[row, seat] = players[row].act(batch.obs[row, seat], mask)
        batch.step()
        now = outputs(batch)
        for row in np.flatnonzero(playing):
            seen[row].append(b"".join(np.ascontiguousarray(x[row]).tobytes() for x in now.values()))
        playing &= ~(batch.terminated | batch.truncated)
        if not playing.any():
            break
    return [b"".join(steps) for steps in seen]
