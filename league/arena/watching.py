"""Watching a match of two agents: it is played once and drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.arena import film
from league.arena.agents import check_seed, meet, store_for
from league.arena.own_bots import players
from league.arena.parts import enter as enter_parts
from league.envs import registry
from league.errors import DEFAULT_STORE, UsageError
from league.play.bots import BotPolicy
from league.snapshots.agent import Agent
from league.types import BOT_PREFIX, BoolArray, FloatArray


@dataclass(frozen=True)
class Film:
    """A match that was drawn; A plays seat 0. `winner` is a label or `draw`."""

    path: str
    a: str
    b: str
    seed: int
    pictures: int
    seconds: float
    """How far into the match the film goes, or when a still is of."""
    match_seconds: float
    """Of the whole match, which is played to its end in any case."""
    winner: str


def watch(
    a: str,
    against: str,
    out: str | Path,
    *,
    seconds: float | None = None,
    boxes: bool = False,
    seed: int = 0,
    greedy: bool = False,
    env: object = None,
    bots: object = None,
    policy: object = None,
    device: str = "auto",
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Film:
    """Plays a match of A (seat 0) against B and draws it; nothing is kept in the store.

    Args:
        a, against, greedy, env, bots, policy, device, store, say: as for `evaluate`; here both may be the same agent.
        out: a new file: .gif for a film, .png for its last picture.
        seconds: how much of the match is drawn, from its beginning, at most 300; None: all of it, or the first 300.
        boxes: draw also where fighters can be hit and where blows hit.
        seed: of the match and of the actions drawn.

    Raises:
        UsageError: as `evaluate`, a game that cannot be drawn, a file that cannot be written, or no Pillow.
        StoreError, SnapshotError: as `evaluate`.
    """
    path = Path(out)
    film.check(path, seconds)
    check_seed(seed)
    given = enter_parts(bots, policy=policy, say=say)
    meeting = meet(store_for(store, a, against, say=say), a, against, env, device, say, given)
    game, spec = meeting.game, meeting.spec
    draw = registry.renderer(game.name)
    if draw is None:
        raise UsageError(f"{game.name} cannot be drawn; watch agents of another game")
    batch = registry.make(game.name, rows=1, threads=1, options=game.options)
    own = players(meeting.bots, spec, meeting.device)
    seats: list[film.Player | None] = []
    for seat, named in enumerate(meeting.sides):
        if named.agent_id in own:
            seats.append(partial(_decide, own[named.agent_id], np.random.default_rng([seed, seat])))
        elif named.folder is None:
            batch.controllers[0, seat] = spec.bots.index(named.agent_id.removeprefix(BOT_PREFIX))
            seats.append(None)
        else:
            manifest, net = meeting.nets[named.agent_id]
            agent = Agent(net, manifest)
            agent.reset(seed)
            seats.append(partial(agent.act, greedy=greedy))
    batch.reset(seed)
    labels = meeting.sides[0].label, meeting.sides[1].label
    if say is not None:
        say(f"playing {labels[0]} against {labels[1]}")
    picture_seconds = spec.ticks_per_step / spec.tick_rate
    shot = film.shoot(
        batch,
        seats,
        partial(draw, batch, 0, size=film.SIZES[path.suffix], show_boxes=boxes, names=labels),
        max(1, round((film.MAX_SECONDS if seconds is None else seconds) / picture_seconds)),
        is_still=path.suffix == ".png",
    )
    film.save(shot.pictures, path, picture_seconds)
    times = shot.drawn_steps * picture_seconds, shot.steps * picture_seconds
    return Film(str(path), *labels, seed, len(shot.pictures), *times, ("draw", *labels)[shot.winner + 1])


def _decide(
    bot: BotPolicy, rng: np.random.Generator, obs: FloatArray, mask: BoolArray | None
) -> npt.NDArray[np.float64]:
    """A bot in Python as a `film.Player`."""
    return np.array(bot.decide(obs, mask, rng))
