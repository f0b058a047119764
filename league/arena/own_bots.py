"""Bots in Python that are named where agents meet, `bot:NAME`: found again, and ready to play."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch

from league.arena.loading import Part
from league.arena.parts import Given, Say, bot_of, difference, find_part
from league.envs.listing import listed_bots
from league.envs.matches.mixtures import choices_of
from league.errors import UsageError, nearest
from league.play.bots import BotPolicy
from league.play.programs import make_bot
from league.snapshots.manifest import Manifest
from league.store.rows import AgentRow
from league.types import BOT_PREFIX, GameSpec
from league.types.schema import PartSource


def find_bots(
    agents: Iterable[str],
    spec: GameSpec,
    rows: Sequence[AgentRow],
    nets: Sequence[Manifest],
    given: Given,
    say: Say | None,
) -> dict[str, Part]:
    """Agent id -> the bot in Python that it is, of those that are no native bots of the game.

    Args:
        agents: the ids of all that are bots.
        spec: the game's.
        rows: the agents that the store knows; they tell where a bot came from.
        nets: what was trained with bots tells so, too.
        given: what the user names now.
        say: hears where a bot is not what it was.

    Raises:
        UsageError: there is no such bot, its code is gone, has changed or was never named here, or it has the name of a
            native one.
    """
    own = [part.name for part in given.parts if part.kind == "bot"]
    for name in [name for name in own if name in spec.bots]:
        raise UsageError(f"bot={name}: {spec.name} has a bot of that name itself; call yours otherwise, NAME=ADDRESS")
    found: dict[str, Part] = {}
    for agent_id in agents:
        name = agent_id.removeprefix(BOT_PREFIX)
        if name in spec.bots or agent_id in found:
            continue
        then = _then(agent_id, name, rows, nets)
        now = given.find("bot", name)
        if now is None and then is not None:
            now = find_part("bot", name, then, f"agent {agent_id}", given, spec.name)
        now = now or bot_of(name, spec.name)
        if now is None:
            raise UsageError(
                f"agent {agent_id!r}: {spec.name} has no such bot (one of your own is named by --bot"
                f" {name}=FILE.py:NAME){nearest(name, (*spec.bots, *own))}{_elsewhere(name)}"
            )
        told = "" if then is None else difference(now, then, "its earlier matches were played with")
        if told and say is not None:
            say(f"{told}; its rating is of both: call it otherwise to rate it apart, --bot NAME=ADDRESS")
        found[agent_id] = now
    return found


def _elsewhere(name: str) -> str:
    """The next step for a bot of other games."""
    games = [each.game for each in listed_bots() if each.bot == BOT_PREFIX + name]
    return f"; it is one of {' and '.join(games)}: pass --env {games[0]}" if games else ""


def players(parts: Mapping[str, Part], spec: GameSpec, device: torch.device, workers: int = 0) -> dict[str, BotPolicy]:
    """The bots as policies; workers: processes of a program."""
    choices = choices_of(spec.action)
    return {
        agent_id: make_bot(part.name, part.thing, spec, choices, device, workers) for agent_id, part in parts.items()
    }


def _then(agent_id: str, name: str, rows: Sequence[AgentRow], nets: Sequence[Manifest]) -> PartSource | None:
    """Where a bot came from, as the store or else a net's settings tell."""
    for row in rows:
        if row.agent_id == agent_id and row.source is not None:
            return row.source
    for manifest in nets:
        told = manifest.config.get("parts", {})
        try:
            return PartSource.model_validate(told["bots"][name])
        except (KeyError, TypeError, ValueError):
            continue
    return None
