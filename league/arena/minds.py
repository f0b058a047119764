"""What the agents of a match think: each net looks at the match once more while it is played back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from league.arena.agents import find_agent
from league.arena.networks import load_net
from league.arena.replays import Moment, Replay
from league.device import choose_device
from league.errors import LeagueError
from league.policies.actor_critic import ActorCritic
from league.policies.insight import Insight, look
from league.store.store import Store
from league.types import SEATS, BoolArray, Policy


class Minds:
    """The nets of a match's seats, which see what they saw when it was played.

    Args:
        nets: seat -> its net, and the size of returns that the net's values are in (`Manifest.return_size`); other
            seats show nothing.
    """

    def __init__(self, nets: Mapping[int, tuple[Policy, float]]) -> None:
        self._nets = dict(nets)
        self._states: dict[int, Any] = {seat: net.initial_state(1) for seat, (net, _) in nets.items()}
        self._before: BoolArray | None = None

    def look(self, moment: Moment) -> tuple[Insight | None, ...]:
        """What each seat's net shows at a moment; to be called at each, in order. None: it does not decide."""
        batch = moment.batch
        found: list[Insight | None] = []
        for seat in range(SEATS):
            if seat not in self._nets:
                found.append(None)
                continue
            net, return_size = self._nets[seat]
            device = next(iter(net.parameters())).device
            obs = torch.from_numpy(batch.obs[:, seat].copy()).to(device)
            if moment.deciding[seat]:
                mask = None if batch.mask is None else torch.from_numpy(batch.mask[:, seat].copy()).to(device)
                seen = self._see(net, obs, self._states[seat], mask)
                found.append(replace(seen, value=seen.value * return_size))
            else:
                if self._before is not None and self._before[1 - seat]:
                    net.watch(obs, self._states[seat])
                found.append(None)
        self._before = moment.deciding
        return tuple(found)

    @staticmethod
    def _see(net: Policy, obs: torch.Tensor, state: Any, mask: torch.Tensor | None) -> Insight:
        if isinstance(net, ActorCritic):
            return look(net, obs, state, mask)
        with torch.no_grad():  # of a network of one's own no more is known than what `Policy` has
            _, _, value = net.step(obs, state, mask=mask, greedy=True)
        return Insight(float(value[0]), (), ())


def minds_of(replay: Replay, store: Store | None) -> Minds:
    """The minds of those agents of a replay that the store has with their files; the others show nothing."""
    nets: dict[int, tuple[Policy, float]] = {}
    for seat, record in enumerate(replay.seats):
        folder = None if store is None or record.bot is not None else _folder_of(store, record.agent)
        if folder is None:
            continue
        try:
            manifest, net = load_net(folder, choose_device("cpu"), record.agent)
            nets[seat] = net, manifest.return_size
        except LeagueError:  # its code was not named by this user, or its files are not whole
            continue
    return Minds(nets)


def _folder_of(store: Store, agent_id: str) -> Path | None:
    for run in store.runs():
        for row in store.snapshots(run.run):
            if row.agent_id == agent_id and row.pruned_at is None:
                return find_agent(store, f"{run.run}@{row.step}").folder
    return None
