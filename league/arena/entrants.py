"""Who enters a tournament."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from league.arena.agents import Meeting, Named, Where, find_agent, gather
from league.arena.parts import enter as enter_parts
from league.arena.program_parts import SUBMISSION, is_submission
from league.errors import UsageError
from league.store.store import Store
from league.types import BOT_PREFIX


def enter(
    agents: Sequence[str],
    runs: Sequence[str] = (),
    newest: int | None = None,
    bots: bool = False,
    between: Sequence[str] = (),
    *,
    where: Where,
) -> tuple[Store | None, Meeting]:
    """The store, and the loaded entrants of a tournament; the arguments are those of `tournament`."""
    opened = where.open(*agents, *between, *([f"{run}@" for run in runs]))
    own = enter_parts(where.bots, policy=where.policy, say=where.say)
    load = partial(gather, opened, env=where.env, device=where.device, say=where.say, given=own)
    named = [*agents, *(BOT_PREFIX + part.name for part in own.parts if part.kind == "bot")]
    return opened, _enter(opened, named, runs, newest, bots, load)


def with_submissions(agents: Sequence[str], own_bots: object, *, needs_game: bool) -> tuple[list[str], object]:
    """The agents that league itself can play, and `own_bots` with the other folders that play, each by its name.

    needs_game: nothing but an agent of league tells the game.

    Raises:
        UsageError: none does, or two folders have one name.
    """
    found = [agent for agent in agents if agent and is_submission(Path(agent))]
    named = {
        re.sub(r"[^\w-]", "_", Path(folder).absolute().name): f"{SUBMISSION}:{shlex.quote(folder)}" for folder in found
    }
    if len(named) < len(set(found)):
        raise UsageError(f"agents={', '.join(found)}: two folders have one name; rename one")
    others = [agent for agent in agents if agent not in found]
    if named and needs_game and all(agent.startswith(BOT_PREFIX) for agent in others):
        raise UsageError(f"agents={', '.join(found)}: no agent of league among them tells their game; pass --env GAME")
    if named and isinstance(own_bots, Mapping):
        own_bots = {**own_bots, **named}
    elif named:
        own = [] if own_bots is None else own_bots if isinstance(own_bots, list | tuple) else [own_bots]
        own_bots = [*own, *(f"{name}={address}" for name, address in named.items())]
    return others, own_bots


def _enter(
    store: Store | None,
    agents: Sequence[str],
    runs: Sequence[str],
    newest: int | None,
    bots: bool,
    load: Callable[[tuple[Named, ...]], Meeting],
) -> Meeting:
    """Finds and loads all entrants, in the order named: agents, snapshots of runs, bots.

    load: gathers those that are no bots.
    """
    if newest is not None and (newest < 1 or not runs):
        raise UsageError(
            f"newest={newest}: so many snapshots of each --run, at least 1; pass --run, and another --newest"
        )
    found = [find_agent(store, name) for name in agents]
    for run in runs:
        assert store is not None  # `store_for` was given the runs' names
        store.find_run(run)
        kept = [row for row in store.snapshots(run) if row.pruned_at is None]
        if not kept:
            raise UsageError(f"run={run}: no snapshot of it has its files; train it, or name other agents")
        rows = kept if newest is None else kept[-newest:]
        found += [Named(row.agent_id, f"{run}@{row.step}", store.brought(row.path), is_own=True) for row in rows]
    meeting = load(tuple({named.agent_id: named for named in found}.values()))
    if bots:
        names = [BOT_PREFIX + bot for bot in meeting.spec.bots]
        there = {named.agent_id for named in meeting.sides}
        more = tuple(Named(name, name, None) for name in names if name not in there)
        meeting = replace(meeting, sides=meeting.sides + more)
    if len(meeting.sides) < 2:
        each = "alone" if len(found) < 2 else f"each of the {len(found)} that are named"
        alone = f"{meeting.sides[0].label} is {each}" if meeting.sides else "nobody is named"
        raise UsageError(f"a tournament needs two agents at least, and {alone}; name more, or pass --run RUN or --bots")
    return meeting
