"""What a run takes of the disk."""

from __future__ import annotations

from dataclasses import dataclass

from league.config.models import Config
from league.config.updates import next_snapshot_mark, num_snapshot_marks, num_updates
from league.errors import ConfigError
from league.sessions.sizing import Footprint, show


@dataclass(frozen=True)
class DiskNeeds:
    """Bytes that a run takes on the disk beside its rows in the store."""

    state: int
    """One saved state: weights, Adam's moments, the magnet, and memories and LSTM states of both seats of every row."""
    states_kept: int
    """Those that a restart needs, and those to go back to."""
    states_at_once: int
    """Of those that a restart needs, while a new one is written."""
    snapshot: int
    num_snapshots: int
    """That the run keeps from now on: none may go while it can go on, since its pool may draw any."""

    @property
    def least(self) -> int:
        """Below which nothing could be saved: all states, and two snapshots."""
        return self.states_at_once * self.state + 2 * self.snapshot

    @property
    def total(self) -> int:
        """At the run's end."""
        return (self.states_kept + 1) * self.state + self.num_snapshots * self.snapshot

    def describe(self) -> str:
        """The sum, in words."""
        kept = self.states_kept
        return (
            f"{show(self.total)} = {kept + 1} states of {show(self.state)} ({kept} are kept, one more while it is"
            f" written) + {self.num_snapshots:,} snapshots of {show(self.snapshot)}"
        )


def disk_needs(config: Config, footprint: Footprint, steps: int, restart_states: int, states_at_once: int) -> DiskNeeds:
    """What the run of `config` still writes from step `steps` on; a game's own state is not counted."""
    total = config.run.total_steps
    every = config.run.rewind_every
    rewind_states = min(config.run.rewind_states, total // every) if every else 0
    marks = min(max(0, num_snapshot_marks(config, total) - num_snapshot_marks(config, steps)), num_updates(config))
    is_last_a_mark = marks > 0 and next_snapshot_mark(config, total - 1) == total
    return DiskNeeds(
        state=(4 if config.learner.magnet else 3) * footprint.weights + (2 * config.env.rows + 1) * footprint.state,
        states_kept=restart_states + rewind_states,
        states_at_once=states_at_once,
        snapshot=footprint.weights,
        num_snapshots=(steps == 0) + marks + (not is_last_a_mark),
    )


def check_disk(needs: DiskNeeds, free: int, used: int, folder: str) -> str:
    """One line of what the run takes of the disk, with a warning where that is more than is free.

    Args:
        needs: what it takes.
        free: bytes that the disk has left.
        used: bytes of the run's states that lie there already and will be replaced.
        folder: where its files lie.

    Raises:
        ConfigError: not even a first state and two snapshots would fit.
    """
    line = f"disk: {needs.describe()}; {show(free)} free at {folder}"
    if needs.least > free + used:
        raise ConfigError(
            f"{line}: too little even for {needs.states_at_once} states and 2 snapshots ({show(needs.least)}); make"
            f" room, pass another --store, or lower env.rows, whose memories are most of a wide run's state"
        )
    if needs.total > free + used:
        return f"{line}: the run will fill the disk; make room, or it ends where a snapshot finds none"
    return line
