"""The pool: who can be played, which frozen nets are in memory now, and who meets a row at its next match.

Targets are the nets that a row may draw at its match boundary. New targets are drawn only when every net outside the
targets has drained (no row plays it any more), so at most 2K nets are live.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from league.config import PoolConfig
from league.matchmaking import draw_targets, sampler_weights
from league.types import Policy

SELF_PLAY = "self_play"
"""In the mix: this run's own snapshots."""


class Pool:
    """Snapshots by agent id, oldest first, and the native bots of the mix.

    Args:
        config: mix, sampler, number of live nets.
        load: the frozen policy of an agent id, on the device; called once each time a net goes live.
        rng: draws targets and opponents; its state is part of the run's.
    """

    def __init__(self, config: PoolConfig, load: Callable[[str], Policy], rng: np.random.Generator) -> None:
        self.config = config
        self.snapshots: list[str] = []
        self.targets: list[str] = []
        self._load = load
        self._rng = rng
        self._live: dict[str, Policy] = {}
        self._groups = sorted(config.mix)
        shares = np.array([config.mix[group] for group in self._groups]).cumsum()
        self._bounds = shares / shares[-1]

    def admit(self, agent_id: str) -> None:
        """A new snapshot joins; rows meet it once it is drawn as a target."""
        if agent_id not in self.snapshots:
            self.snapshots.append(agent_id)

    def refresh_targets(self, in_use: set[str]) -> None:
        """Drops the nets that nobody plays and nobody may draw; draws new targets once no other net is left."""
        drained = self._live.keys() - in_use - set(self.targets)
        for agent_id in drained:
            del self._live[agent_id]
        if set(self._live) <= set(self.targets):
            window = self.config.recent_window
            weights = sampler_weights(self.config.sampler, len(self.snapshots), recent_window=window)
            self.targets = draw_targets(self.snapshots, weights, self.config.live_nets, self._rng)
            for agent_id in [a for a in self._live if a not in self.targets and a not in in_use]:
                del self._live[agent_id]

    def draw(self) -> str:
        """The opponent of a match that begins: a bot's name (`bot:NAME`) or a target's agent id."""
        group = self._groups[int(self._bounds.searchsorted(self._rng.random(), side="right"))]
        return self.targets[int(self._rng.integers(len(self.targets)))] if group == SELF_PLAY else group

    def group_of(self, opponent: str) -> str:
        """The group of the mix that an opponent was drawn from."""
        return opponent if opponent in self.config.mix else SELF_PLAY

    def policy(self, agent_id: str) -> Policy:
        """The frozen net of a snapshot, loaded when it is first needed."""
        if agent_id not in self._live:
            self._live[agent_id] = self._load(agent_id)
        return self._live[agent_id]

    @property
    def live(self) -> list[str]:
        """The agent ids of the nets in memory."""
        return list(self._live)

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs, the RNG included."""
        return {
            "snapshots": list(self.snapshots),
            "targets": list(self.targets),
            "live": list(self._live),
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The inverse of `state_dict`; the live nets are loaded again."""
        self.snapshots = list(state["snapshots"])
        self.targets = list(state["targets"])
        self._live = {agent_id: self._load(agent_id) for agent_id in state["live"]}
        self._rng.bit_generator.state = state["rng"]
