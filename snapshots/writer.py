"""Snapshots on their way to the disk: a thread writes them, and the recent ones are kept in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from league.runtime.phases import phase
from league.snapshots.io import Frozen
from league.snapshots.manifest import Manifest

RECENT_BYTES = 2**27
"""Of the weights of recent snapshots that are kept in memory; those that are not written yet are kept above it, too."""


class SnapshotWriter:
    """Writes snapshots one after the other in a thread, which lives only while there are some to write.

    Nothing here is called by several threads at once.

    Args:
        most_bytes: of weights that are kept in memory once they are written.
    """

    def __init__(self, most_bytes: int = RECENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._jobs: deque[_Job] = deque()
        self._recent: dict[str, Frozen] = {}
        """The one that was used last comes last."""

    def add(self, frozen: Frozen, write: Callable[[], Manifest]) -> None:
        """Begins to write a snapshot, after those before it.

        write: writes its files and returns the manifest that lies there then.
        """
        self._recent.pop(frozen.manifest.agent_id, None)
        self._recent[frozen.manifest.agent_id] = frozen
        job = _Job(frozen, write, self._jobs[-1] if self._jobs else None)
        self._jobs.append(job)
        self._drop()
        with suppress(RuntimeError):  # the system makes no more threads: `result` writes it then
            job.start()

    def take_written(self, *, wait: bool) -> Manifest | None:
        """The manifest of the first snapshot that is on the disk since this was asked; None: there is no other.

        What the thread could not write is tried once more, here and now, and again at each call.

        Args:
            wait: for what is not written yet.

        Raises:
            SnapshotError: it cannot be written now either; it is kept in memory.
        """
        if not self._jobs or not (wait or self._jobs[0].is_over):
            return None
        manifest = self._jobs[0].result()
        self._jobs.popleft()
        self._drop()
        return manifest

    def recent(self, agent_id: str) -> Frozen | None:
        """A snapshot in memory; None where it is not, or no longer."""
        found = self._recent.pop(agent_id, None)
        if found is not None:
            self._recent[agent_id] = found
        return found

    def forget(self) -> None:
        """Drops the snapshots in memory that are on the disk."""
        unwritten = {job.agent_id for job in self._jobs}
        self._recent = {agent_id: frozen for agent_id, frozen in self._recent.items() if agent_id in unwritten}

    def _drop(self) -> None:
        """Lets go of those that were not used for the longest time, until what is left is not too much."""
        unwritten = {job.agent_id for job in self._jobs}
        excess = sum(len(frozen.data) for frozen in self._recent.values()) - self._most_bytes
        for agent_id, frozen in list(self._recent.items()):
            if excess > 0 and agent_id not in unwritten:
                del self._recent[agent_id]
                excess -= len(frozen.data)


class _Job(threading.Thread):
    """The writing of one snapshot. A process that ends by itself waits for it."""

    def __init__(self, frozen: Frozen, write: Callable[[], Manifest], before: _Job | None) -> None:
        super().__init__(name="snapshots")
        self.agent_id, self._write, self._before = frozen.manifest.agent_id, write, before
        self._manifest: Manifest | None = None

    def run(self) -> None:
        """In the thread."""
        if self._before is not None:
            self._before.wait()
            self._before = None
        with suppress(BaseException):  # whoever asks for the result meets it as that is tried again
            self._manifest = self._written()

    @property
    def is_over(self) -> bool:
        """Whether the thread has done what it could."""
        return not self.is_alive()

    def wait(self) -> None:
        """Until the thread is over, where there is one."""
        if self.ident is not None:
            self.join()

    def result(self) -> Manifest:
        """What lies on the disk."""
        self.wait()
        if self._manifest is None:
            self._manifest = self._written()
        return self._manifest

    @phase("write a snapshot")
    def _written(self) -> Manifest:
        return self._write()
