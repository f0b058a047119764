"""The store: a folder with one folder an owner (a run, a league, evaluations, a gate, an import), and nothing else.

What is read from it is in `reading.py`, how folders become tables in `view.py`, what an owner writes in `folder.py`.
"""

from __future__ import annotations

import logging
import os
import platform
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from league.errors import StoreError, UsageError, nearest
from league.runtime.phases import phase
from league.store.files import CATALOGUE, refuse_others, store_folder, told
from league.store.folder import Folder
from league.store.locks import LOCK, LockHeld, LockLost, held, is_held, is_lock
from league.store.owner import DECISION, IDENTITY, PRUNED, Decided, Identity, OwnerKind, Pruned, read, write
from league.store.reading import Reader
from league.store.remote import remote_of
from league.store.rows import GateRow, ImportRow, LearnerRow, RunRow, now
from league.store.view import Cursor

_log = logging.getLogger(__name__)
_TITLES = ".gates.lock"
"""In the store's folder: held while a gate is numbered."""
FETCH_SECONDS = 1.0
"""Between two looks at an address, for those who open the store twice."""
WAIT_SECONDS = 30.0
"""How long one waits for that, which takes some milliseconds."""
_DRAFTS = ".import-"
"""In the store's folder the names of imports begin so that are being written, or removed."""
_OF_IMPORT = r"run\.json|segments\.json|rows|rows/[a-z]+-\d{6,}\.parquet"
"""Paths in an import's folder."""


class Store(Reader):
    """A league store. Make one with `Store.create` or `Store.open`. Not for use by several threads at once.

    Each method that writes raises a `StoreError` where the disk or the folder refuses.
    """

    @classmethod
    def create(cls, path: str | os.PathLike[str], say: Callable[[str], None] | None = None) -> Self:
        """The store at `path`, made if it is not there.

        path: the folder, or the catalogue in it.
        say: receives a line about each folder and segment that cannot be read. If not given these are warnings of the
            logger `league.store.store`.
        """
        folder = _named(path)
        with told(folder, "no store can be made", "pass another --store"):
            folder.mkdir(parents=True, exist_ok=True)
        return cls(folder, say or _log.warning)

    @classmethod
    def planned(cls, path: str | os.PathLike[str], say: Callable[[str], None] | None = None) -> Self:
        """As `open`, or a store that the first import makes where nothing is."""
        return cls.open(path, say) if cls.is_there(path) else cls(_named(path), say or _log.warning)

    @classmethod
    def open(cls, path: str | os.PathLike[str], say: Callable[[str], None] | None = None) -> Self:
        """The store at `path`, which must exist: a folder that has some owner's.

        Raises:
            StoreError: it is missing, cannot be read, or is no store.
        """
        folder = _named(path)
        if not folder.is_dir():
            what = "is a file, and no store" if os.path.lexists(folder) else "is not there"
            raise StoreError(f"no store at {folder}: it {what}; run `league train` first, or pass --store")
        if not _has_owner(folder):
            where = there.address if (there := remote_of(folder)) else folder
            raise StoreError(f"no store at {where}: no folder in it has a {IDENTITY}; pass another --store")
        return cls(folder, say or _log.warning)

    @staticmethod
    def is_there(path: str | os.PathLike[str]) -> bool:
        """Whether something is at `path` that `open` has to look at: a folder with an owner's, or no folder."""
        folder = _named(path)
        return _has_owner(folder) if folder.is_dir() else os.path.lexists(folder)

    # A store at an address (`league.store.remote`).

    def fetch(self, within: float = 0.0, only: str | None = None) -> None:
        """Brings what others have written.

        Args:
            within: seconds; nothing happens where it was done less than these ago.
            only: a file's path in the store that is all that the caller asks for.
        """
        if there := remote_of(self.path):
            there.fetch(within, only)

    def push(self) -> None:
        """Sends what was written here; where the address cannot be reached, it is said and sent the next time."""
        if there := remote_of(self.path):
            try:
                there.push()
            except LockLost:
                raise
            except StoreError as error:
                self.say(str(error))

    # Evaluations.

    @contextmanager
    def evaluations(self) -> Iterator[Folder]:
        """The folder for what this caller plays, which it shares with its earlier calls; closed at the end."""
        with ExitStack() as locks, closing(self._own_evaluations(locks)) as folder:
            yield folder
        self.write_catalogue()

    def _own_evaluations(self, locks: ExitStack) -> Folder:
        """The folder of this machine's evaluations that nobody writes now, else a new one; `locks` gets its lock."""
        for owner in self.owners():
            who = owner.identity
            if (who.kind, who.host) == ("evaluations", platform.node()):
                with suppress(BlockingIOError):  # another caller's, so there is no need to wait for it
                    locks.enter_context(held(owner.path / LOCK, wait=0.0))
                    return Folder(owner.path, self.say)
        who = self.identity("evaluations", f"evaluations-{secrets.token_hex(4)}", host=platform.node())
        return self._begun(who, locks)

    def _begun(self, who: Identity, locks: ExitStack) -> Folder:
        """The folder of a new owner, made and written; `locks` gets its lock."""
        path = self.path / who.name
        with told(path, "cannot be made"):
            path.mkdir(parents=True)
        locks.enter_context(held(path / LOCK))
        folder = Folder(path, self.say)
        folder.begin(who)
        return folder

    # Runs and leagues.

    def identity(self, kind: OwnerKind, name: str, **more: Any) -> Identity:
        """A new owner's identity, the latest of the store."""
        number = self._next_number()
        return Identity(id=secrets.token_hex(16), kind=kind, name=name, number=number, begun_at=now(), **more)

    def _next_number(self) -> int:
        """One above the highest of owners and of gates' decisions, which are one sequence."""
        decided = (owner.decided.decided for owner in self.owners() if owner.decided is not None)
        return 1 + max([*decided, *(owner.identity.number for owner in self.owners())], default=0)

    def identity_of(self, run: RunRow, learner: LearnerRow | None = None) -> Identity:
        """A new run's identity."""
        more = {name: getattr(run, name) for name in ("game", "game_id", "seed", "parent", "preset")}
        return self.identity("run", run.run, **more, learner=learner)

    def mark_pruned(self, run: str, steps: Sequence[int]) -> None:
        """Writes that the files of a run's snapshots at `steps` are deleted; its lock must be held."""
        path = self.path / run / PRUNED
        before = read(Pruned, path)
        pruned = {} if before is None else dict(before.root)
        write(path, Pruned({**dict.fromkeys(steps, now()), **pruned}))

    # Gates.

    @phase("begin a gate")
    def begin_gate(self, gate: GateRow, alpha_of: Callable[[int], float], locks: ExitStack) -> tuple[GateRow, Folder]:
        """Writes a gate that begins, at once, so that one which is broken off counts as an attempt, too.

        alpha_of: the error that the attempt of this number, counted from 1, may make.
        locks: gets the lock of the gate's folder: others see by it that the gate is played.

        Returns:
            The gate with its attempt and alpha, and its folder.
        """
        with self.one_at_a_time():
            attempt = 1 + self._attempts(gate)
            gate = replace(gate, attempt=attempt, alpha=alpha_of(attempt))
            folder = self._begun(self.identity("gate", gate.gate, gate=gate), locks)
        return gate, folder

    @phase("end a gate")
    def end_gate(self, gate: GateRow, champion: str | None) -> GateRow:
        """Writes what a gate came to, once, and returns the gate as it was written: what came first counts.

        champion: the run's when the gate began; where it is another one by now nobody is promoted.
        """
        path = self.path / gate.gate / DECISION
        with self.one_at_a_time():
            if read(Decided, path) is None:
                is_promoted = gate.is_promoted and gate.run is not None and self.champion(gate.run) == champion
                came_to = {name: getattr(gate, name) for name in ("games", "llr", "decision")}
                number = self._next_number()
                write(path, Decided(**came_to, is_promoted=is_promoted, decided_at=now(), decided=number))
        return next(row for row in self.gates() if row.gate == gate.gate)

    @contextmanager
    def one_at_a_time(self) -> Iterator[None]:
        """Within it no other process begins a league, or begins or decides a gate."""
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.path / _TITLES, WAIT_SECONDS))
            except LockHeld as error:
                end = f"if {error.host} has died, remove {self.path / _TITLES}-*" if error.host else "try again"
                raise StoreError(f"{self.path / _TITLES}: {error}; {end}") from None
            yield

    def _attempts(self, gate: GateRow) -> int:
        """How many gates were begun: at a run's title since its last promotion, else of the same two agents."""
        gates = [(owner, owner.identity.gate) for owner in self.owners()]
        before = [(owner, row) for owner, row in gates if row is not None and row.run == gate.run]
        if gate.run is None:
            pair = gate.game_id, gate.challenger, gate.opponent
            return sum((row.game_id, row.challenger, row.opponent) == pair for _, row in before)
        decisions = [owner.decided for owner, _ in before if owner.decided is not None]
        promoted = max((found.decided for found in decisions if found.is_promoted), default=0)
        return sum(owner.identity.number > promoted for owner, _ in before)

    # Imports.

    @phase("import")
    def add_import(
        self, row: ImportRow, fill: Callable[[Folder, Cursor], tuple[int, list[ImportRow]]]
    ) -> tuple[ImportRow, list[ImportRow]]:
        """Writes an import, all or nothing; one process at a time writes the same content.

        fill: adds its rows to the folder, given the view's cursor; returns how many matches these are, and the earlier
            imports in whose place they come.

        Returns:
            The import as it was written, and those that it replaced.

        Raises:
            UsageError: that content was imported before or is being imported, or the name is taken.
        """
        draft = self.path / f"{_DRAFTS}{row.sha256[:12]}"
        self._clear_drafts()
        with told(self.path / row.run, "cannot be made"):
            try:
                draft.mkdir(parents=True)
            except FileExistsError:
                raise UsageError(
                    f"{row.file}: another process imports its content; let that finish, or remove {draft} where none"
                    f" does"
                ) from None
        with held(draft / LOCK), self.reading() as con:
            try:
                self._refuse_the_same(row)
                matches, replaced = fill(folder := Folder(draft, self.say), con)
                for old in replaced:
                    refuse_others(self.path / old.run, _OF_IMPORT)
                if row.run == CATALOGUE or os.path.lexists(self.path / row.run):
                    raise UsageError(f"run={row.run}: that name is taken in {self.path}; pass another --run, or none")
                row = replace(row, matches=matches)
                folder.begin(self.identity("import", row.run, imported=row))
                with told(self.path / row.run, "cannot be made"):
                    draft.rename(self.path / row.run)
                for file in sorted(filter(is_lock, (self.path / row.run).iterdir())):  # else it would stay
                    file.unlink()
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
        for old in replaced:
            self._remove(old.run)
        self.push()
        self.write_catalogue()
        return row, replaced

    def _refuse_the_same(self, row: ImportRow) -> None:
        for same in self.imports():
            if same.sha256 == row.sha256:
                raise UsageError(
                    f"{row.file}: its content was imported before, as {same.run} ({same.matches:,} matches,"
                    f" {same.imported_at:%Y-%m-%d %H:%M} UTC); nothing was changed, and nothing is left to do"
                )

    def _clear_drafts(self) -> None:
        """Removes what killed imports and removals have left."""
        for path in sorted(self.path.glob(f"{_DRAFTS}*")):
            is_own = re.fullmatch(r"[0-9a-f]{12,16}", path.name.removeprefix(_DRAFTS))
            if is_own and any(path.iterdir()) and is_held(path / LOCK) is False:  # one that was just made is empty
                shutil.rmtree(path, ignore_errors=True)

    @phase("remove an import")
    def remove_import(self, run: str) -> ImportRow:
        """Deletes an import at once, with its matches and the agents that it alone brought; returns what it was.

        Raises:
            UsageError: there is none of that name.
            StoreError: its folder cannot be removed, or has files of somebody's.
        """
        rows = {row.run: row for row in self.imports()}
        if run not in rows:
            raise UsageError(f"no import `{run}` in {self.path}{nearest(run, rows)}; see `league imports list`")
        refuse_others(self.path / run, _OF_IMPORT)
        self._remove(run)
        self.write_catalogue()
        return rows[run]

    def _remove(self, name: str) -> None:
        """Removes an owner's folder, which counts no more at once."""
        path, gone = self.path / name, self.path / f"{_DRAFTS}{secrets.token_hex(8)}"
        with told(path, "cannot be removed"):
            path.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)
        if there := remote_of(self.path):
            there.remove(name)


def _named(path: str | os.PathLike[str]) -> Path:
    """The store's folder, whose path DuckDB can open."""
    folder = store_folder(path)
    try:
        os.path.abspath(folder).encode()
    except UnicodeEncodeError:
        raise StoreError(
            f"store {folder}: DuckDB takes only paths that are UTF-8; rename the folder, or pass another --store"
        ) from None
    if there := remote_of(folder):
        there.fetch(within=FETCH_SECONDS)
    return folder


def _has_owner(folder: Path) -> bool:
    with told(folder, "cannot be read"):
        found = sorted(folder.iterdir())
    return any(os.path.exists(path / IDENTITY) for path in found)
