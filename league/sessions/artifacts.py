"""A run's folder as its training uses it: rows, snapshots, states and evidence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from league import config as settings
from league.arena import curriculum
from league.arena.agents import STOPPED
from league.arena.networks import described, load_net
from league.arena.parts import thing_of
from league.config.models import Config, mix_members
from league.envs import registry
from league.envs.matches.mixtures import choices_of
from league.errors import SnapshotError, command
from league.play.programs import make_bot
from league.pool.league_pool import Member, own_snapshots
from league.runtime.trees import from_bytes, to_bytes
from league.sessions.external_agents import folder_of as guest_folder
from league.sessions.external_agents import keep, names
from league.sessions.failures import write_evidence
from league.sessions.folders import (
    ASIDE,
    begin_folder,
    configured_of,
    has_begun,
    instead,
    read_manifest,
    snapshots_of,
)
from league.snapshots import io as snapshot_files
from league.snapshots.files import INDEX, MANIFEST, WEIGHTS
from league.snapshots.io import Frozen
from league.snapshots.kept import keep_newest, pinned_rows, states_of
from league.snapshots.manifest import About, GameRecord, Manifest, parse, spec_to_json
from league.snapshots.state import DamagedState, load_state, read_state, save_state
from league.snapshots.writer import SnapshotWriter
from league.store.carried import STOP
from league.store.folder import Folder
from league.store.locks import check_owned
from league.store.rows import AgentRow, LearnerRow, RunRow, SnapshotRow
from league.store.store import Store
from league.training.returns import ReturnSize
from league.training.run import Counters
from league.types import BOT_PREFIX, Policy

FETCH_SECONDS = 5.0
"""Between two looks at what others ask, where no folder is shared."""


class FileArtifactStore:
    """A `league.training.run.ArtifactStore` of files in the run's folder.

    Args:
        store: has the run's folder.
        row: the run; manifests tell its name, seed and fingerprint.
        config: its settings.
        device: where frozen policies are loaded.
        elsewhere: agent id -> folder of agents that are not in the store.
    """

    def __init__(
        self,
        store: Store,
        row: RunRow,
        config: Config,
        device: torch.device,
        elsewhere: Mapping[str, Path] | None = None,
    ) -> None:
        self.store, self.row, self.config = store, row, config
        self.folder = store.path / row.run
        self.spec = registry.spec(config.env.name, config.env.options)
        self._device = device
        self._paths = dict(elsewhere or {})
        self.taken: dict[str, int] = {}
        """Agent id -> steps of the snapshots taken since, which the store may not know yet."""
        self._writer = SnapshotWriter()
        self._unpacked: dict[str, Frozen] = {}
        options = registry.check_options(config.env.name, config.env.options)
        self.game = GameRecord.of(self.spec, row.game_id, options, row.source)
        self._lessons = {
            registry.game_id(config.env.name, options): GameRecord.of(
                registry.spec(config.env.name, options),
                registry.game_id(config.env.name, options),
                options,
                row.source,
            )
            for options in (curriculum.options_of(config, lesson) for lesson in config.env.curriculum)
        }

    @cached_property
    def rows(self) -> Folder:
        """What the run writes; for the holder of its lock alone.

        Raises:
            StoreError: the folder's list of segments is damaged.
        """
        return Folder(self.folder, self.store.say)

    def begin(self) -> None:
        """Writes a new run: its name is taken from then on.

        Raises:
            StoreError: it cannot be written.
        """
        identity = self.store.identity_of(self.row)
        self.row = replace(self.row, status="running", id=identity.id)
        begin_folder(self.rows, self.row, identity)

    def configure(self) -> None:
        """Writes the settings that the run has from now on.

        Raises:
            StoreError: they cannot be written.
        """
        self.rows.configure(configured_of(self.row))

    @property
    def guests(self) -> Sequence[str]:
        """The agent ids of those in the mix that come from elsewhere, and its bots in Python."""
        return [*names(self.config.pool), *(bot for bot in self.bots if bot in mix_members(self.config.pool))]

    @property
    def bots(self) -> Sequence[str]:
        """All bots in Python: `bot:NAME`."""
        return [BOT_PREFIX + name for name in sorted(self.config.parts.bots)]

    def keep_guests(self) -> None:
        """Copies them into the run's folder, and notes them as agents.

        Raises:
            SnapshotError: one is missing or damaged, or the disk refuses.
        """
        game_id, parts = self.row.game_id, self.config.parts.bots
        for manifest in keep(self.folder, self.config):
            label = f"{manifest.run}@{manifest.step}"
            self.rows.add_agent(AgentRow(manifest.agent_id, "import", label, game_id))
        for bot in self.bots:
            self.rows.add_agent(AgentRow.of_bot(bot, game_id, parts[bot.removeprefix(BOT_PREFIX)]))

    def has_begun(self) -> bool:
        """Whether a state was ever saved, be it lost since."""
        return has_begun(self.store, self.row.run)

    def read_state(self, say: Callable[[str], None] | None = None) -> dict[str, Any]:
        """What was saved last, or before it where that is damaged, which changes nothing unless there is a `say`.

        say: receives a line about what was damaged; that is set aside then (`league.snapshots.state.load_state`).

        Raises:
            SnapshotError: it is missing, damaged, or another run's.
        """
        folder = self.folder / "state"
        try:
            state = read_state(folder) if say is None else load_state(folder, say)
        except DamagedState as error:
            raise SnapshotError(f"run={self.row.run}: {error}; {instead(self.store, self.row)}") from error
        if state.get("id", self.row.id) != self.row.id:
            raise SnapshotError(f"run={self.row.run}: {folder} is another run's; {instead(self.store, self.row)}")
        return state

    def load_policy(self, agent_id: str) -> Policy:
        """The frozen policy of an agent id, or a bot in Python, on the device.

        What was just saved comes from memory, where it is kept for a while, and is checked as a file is.

        Raises:
            SnapshotError: it is not there, or damaged.
        """
        if agent_id in self.bots:
            name = agent_id.removeprefix(BOT_PREFIX)
            bot = thing_of("bot", name, self.config.parts.bots[name])
            workers = self.config.env.workers
            return make_bot(name, bot, self.spec, choices_of(self.spec.action), self._device, workers)
        run, again = self.row.run, command("resume", self.row.run, store=self.store.path)
        recent = self._writer.recent(agent_id) or self._unpacked.pop(agent_id, None)
        if recent is not None:
            return load_net(recent, self._device, agent_id)[1]
        try:
            return load_net(self._path(agent_id), self._device, agent_id)[1]
        except KeyError:
            lost = f"the snapshot {agent_id[:16]}... is not in {self.store.path}; put it back"
            raise SnapshotError(f"run={run}: {self.store.left_out(run) or lost}, then {again}") from None
        except SnapshotError as error:
            raise SnapshotError(f"{error}; then {again}") from None

    def package(self, agent_id: str) -> bytes:
        """See `league.training.run.ArtifactStore`.

        Raises:
            SnapshotError: it is not there, or cannot be read.
        """
        frozen = self._writer.recent(agent_id)
        try:
            frozen = frozen or snapshot_files.read(self._path(agent_id))
        except KeyError:
            raise SnapshotError(f"the snapshot {agent_id[:16]}... is not in {self.store.path}; put it back") from None
        return to_bytes({"manifest": frozen.manifest.model_dump_json().encode(), "weights": frozen.data})

    def unpack(self, data: bytes) -> None:
        """See `league.training.run.ArtifactStore`."""
        told = from_bytes(data)
        manifest = parse(told["manifest"], "a snapshot of rank 0")
        self._unpacked[manifest.agent_id] = Frozen(manifest, told["weights"])

    def _path(self, agent_id: str) -> Path:
        if agent_id in (*self.guests, self.config.learner.begin_with):
            self._paths[agent_id] = self._guest(agent_id)
        elif agent_id not in self._paths:
            self._paths |= {row.agent_id: self.store.path / row.path for row in self._known()}
        path, store = self._paths[agent_id], self.store.path
        return self.store.brought(path.relative_to(store).as_posix()) if path.is_relative_to(store) else path

    def add_snapshot(self, policy: Policy, counters: Counters, return_size: float) -> str:
        """Freezes the policy as it is now and returns its agent id; its files are written by another thread.

        Its row follows once they are there (`settle`).

        Raises:
            SnapshotError: a weight is not finite.
            LockLost: another machine has taken over the run.
        """
        check_owned(self.folder)
        path = self.folder / "snapshots" / f"{counters.steps:010d}"
        architecture, history_tokens = described(self.config, self.spec, policy)
        about = About(
            run=self.row.run,
            step=counters.steps,
            update=counters.update,
            seed=self.row.seed,
            fingerprint=self.row.fingerprint,
            game=self.game,
            spec=spec_to_json(self.spec),
            architecture=architecture,
            history_tokens=history_tokens,
            config=settings.to_json(self.config),
            return_size=return_size,
            parent=counters.newest or None,
        )
        frozen = snapshot_files.freeze(policy.state_dict(), about)
        self._writer.add(frozen, partial(_write, path, frozen))
        self._paths[frozen.manifest.agent_id] = path
        self.taken[frozen.manifest.agent_id] = counters.steps
        return frozen.manifest.agent_id

    def settle(self, *, wait: bool = True) -> None:
        """Notes the snapshots whose files are on the disk by now.

        wait: until those of all are.

        Raises:
            SnapshotError: the disk refuses one; it is kept in memory, and tried again at the next call.
        """
        while (manifest := self._writer.take_written(wait=wait)) is not None:
            path = self.folder / "snapshots" / f"{manifest.step:010d}"
            self._publish(snapshot_row(self.store, manifest.run, path, manifest))

    def close(self) -> None:
        """Waits for what is being written, and lets go of what is in memory beside it."""
        with suppress(SnapshotError):  # it was told where somebody could do something about it
            self.settle()
        self._writer.forget()

    def save_state(self, state: dict[str, Any], *, is_mark: bool = False) -> None:
        """Writes what a restart needs, with the rows that it covers, once all snapshots are on the disk; the state
        before it is kept.

        is_mark: whether it is one to go back to; a disk that has no room for the few bytes of that loses no state.

        Raises:
            SnapshotError, StoreError: the disk refuses.
        """
        self.settle()
        folder, figures = self.folder / "state", self.config.run
        covered = self.rows.prepare(self._withheld(state))
        try:
            save_state(folder, {**state, "rows": covered, "id": self.row.id})
        except SnapshotError as error:
            again = command("resume", self.row.run, store=self.store.path)
            raise SnapshotError(f"{error}; make room, then {again}") from error
        if is_mark:
            with suppress(OSError):
                keep_newest(folder, state["counters"]["steps"], figures.rewind_every, figures.rewind_states)
        self.rows.commit(pinned_rows(folder))
        self.rows.note(has_state=True)
        self.store.push()

    def keep_stopped(self) -> None:
        """Keeps the weights of the last saved state as RUN@stopped, in place of those of the stop before.

        No part of the run or the store knows of them.

        Raises:
            SnapshotError: the state cannot be read, or the disk refuses.
            LockLost: another machine has taken over the run.
        """
        check_owned(self.folder)
        state = self.read_state()
        counters, like = state["counters"], read_manifest(snapshots_of(self.folder)[-1])
        now = {"step": counters["steps"], "update": counters["update"], "parent": counters["newest"] or None}
        now |= {"fingerprint": self.row.fingerprint, "config": settings.to_json(self.config)}
        now["return_size"] = ReturnSize(**state["learner"]["returns"]).size
        about = About(**{name: getattr(like, name) for name in About.model_fields} | now)
        frozen = snapshot_files.freeze(state["learner"]["policy"], about)
        self.drop_stopped()
        snapshot_files.write(self.folder / STOPPED, frozen)

    @property
    def is_asked_to_stop(self) -> bool:
        """Whether `league stop` has named the run since it began or went on."""
        self.store.fetch(within=FETCH_SECONDS, only=f"{self.row.run}/{STOP}")
        return (self.folder / STOP).exists()

    def drop_stopped(self) -> None:
        """Removes RUN@stopped, where there is one, and leaves what somebody else has put there."""
        with suppress(OSError):
            for name in (MANIFEST, WEIGHTS):
                (self.folder / STOPPED / name).unlink(missing_ok=True)
            (self.folder / STOPPED).rmdir()

    def write_evidence(self, evidence: Mapping[str, Any]) -> str:
        """Writes a file of what a guard found, and returns words of what shows it."""
        game = self._lessons.get(str(evidence["game_id"]), self.game)
        return write_evidence(self.folder / "failures", evidence, game)

    def _guest(self, agent_id: str) -> Path:
        kept = guest_folder(self.folder, agent_id)
        return kept if kept.is_dir() else Path(self.config.pool.agents[agent_id])

    def _known(self) -> Iterable[SnapshotRow]:
        """The snapshots in the store that the run may load."""
        return self.store.snapshots(self.row.run)

    def _publish(self, row: SnapshotRow) -> None:
        """Given each snapshot once its files are written."""
        self.rows.add_snapshot(row)

    def _withheld(self, state: Mapping[str, Any]) -> Iterable[SnapshotRow]:
        """The snapshots that are published with a state."""
        return ()


class LeagueArtifactStore(FileArtifactStore):
    """A learner's: the others see a snapshot once a state is saved that holds it, and theirs can be seen and loaded.

    So no learner ever goes back behind what others have met, and an exploiter begins again only after that.

    Args:
        store, row, config, device: as for `FileArtifactStore`.
        learner: its row among the league's.
        in_step: whether what it sees of the others goes by its steps, and not by how far they happen to be.
    """

    def __init__(
        self, store: Store, row: RunRow, config: Config, device: torch.device, *, learner: LearnerRow, in_step: bool
    ) -> None:
        super().__init__(store, row, config, device)
        self._learner, self._in_step = learner, in_step
        self._unpublished: list[SnapshotRow] = []

    def published(self) -> list[tuple[str, SnapshotRow]]:
        """The snapshots of the league in the store, each with its learner's role."""
        with self.store.reading():
            learners = self.store.learners(self._learner.league)
            return [(learner.role, row) for learner in learners for row in self.store.snapshots(learner.run)]

    def look(self, steps: int) -> list[Member]:
        """The others' snapshots as `LeaguePool` takes them; in step, those of fewer than `steps` steps.

        One of exactly so many is written when its learner plays on, which may be before or after this one looks.
        """
        self.store.fetch()
        others = [(role, row) for role, row in self.published() if row.run != self.row.run]
        if self._in_step:
            others = [(role, row) for role, row in others if row.step < steps]
        return [Member(s.agent_id, s.run, role, s.step, s.parent, s.is_historical) for role, s in others]

    def behind(self, steps: int) -> list[str]:
        """The other learners of a league in step of which no state is saved yet at `steps` or later."""
        self.store.fetch()
        learners = self.store.learners(self._learner.league) if self._in_step else []
        others = [self.store.find_run(learner.run) for learner in learners if learner.run != self.row.run]
        waited_for = [row.run for row in others if row.status != "finished"]
        for run in waited_for:
            self.store.fetch(only=f"{run}/state/{INDEX}")
        folders = {run: self.store.path / run / "state" for run in waited_for}
        return [run for run, folder in folders.items() if max(states_of(folder, is_here=False), default=0) < steps]

    def save_state(self, state: dict[str, Any], *, is_mark: bool = False) -> None:
        """As `FileArtifactStore.save_state`; the snapshots since the last one are in the store from then on.

        No learner goes back by itself behind what others have met, so none is kept for that.
        """
        super().save_state(state)
        self._unpublished.clear()

    def _known(self) -> Iterable[SnapshotRow]:
        return [row for _, row in self.published()]

    def _publish(self, row: SnapshotRow) -> None:
        self._unpublished.append(row)

    def _withheld(self, state: Mapping[str, Any]) -> Iterable[SnapshotRow]:
        is_historical = own_snapshots(state["pool"]) or {}
        return [replace(row, is_historical=is_historical.get(row.agent_id, False)) for row in self._unpublished]


def _write(folder: Path, frozen: Frozen) -> Manifest:
    """Writes a snapshot; one that was set aside gets its name again, if it is whole and has these weights."""
    for aside in sorted(folder.parent.glob(f"{folder.name}{ASIDE}*")):
        with suppress(SnapshotError):
            if snapshot_files.load(aside)[0].agent_id == frozen.manifest.agent_id:
                aside.rename(folder)
                break
    return snapshot_files.write(folder, frozen)


def snapshot_row(store: Store, run: str, folder: Path, manifest: Manifest, is_historical: bool = True) -> SnapshotRow:
    """A run's snapshot in `folder`, which lies below the store's, as its row."""
    return SnapshotRow(
        agent_id=manifest.agent_id,
        run=run,
        step=manifest.step,
        update=manifest.update,
        path=folder.relative_to(store.path).as_posix(),
        fingerprint=manifest.fingerprint,
        parent=manifest.parent,
        created_at=datetime.fromisoformat(manifest.created_at),
        is_historical=is_historical,
    )
