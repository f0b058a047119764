"""A match batch whose rows are stepped by worker processes: for games that are too slow for one core.

Every worker has some of the rows, one after the other. Arrays lie in memory that all share; a few bytes pass through a
socket for each step. What is played, and the state, is bit for bit what one process plays, since a row's matches
follow from its seed. So a run may go on with any number of workers.
"""

from __future__ import annotations

import itertools
import json
import os
import struct
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.arrays import UInts, row_seeds
from league.envs.workers.processes import pool_for
from league.envs.workers.sharing import (
    GET,
    GET_ROW,
    OPEN,
    RESET,
    SEEDS,
    SET,
    STEP,
    UNDO,
    lay_out,
    mapped,
    nameless_file,
    put,
)
from league.errors import ConfigError, LeagueError
from league.types import BoolArray, FloatArray, GameSpec, Mask, MatchBatch, Regrouping

PARTS = struct.Struct("<8sI")
"""Magic, parts: before the states of a game that cannot regroup them."""
MAGIC = b"workers1"


class WorkerBatch:
    """`league.types.MatchBatch` in worker processes; the fields are described there.

    It is `Turns` and `Regrouping` where the game's own batch is. A game that cannot regroup its states goes on with
    the same workers and rows only.

    Args:
        recipe: where the game is, as `league.envs.registry.recipe` has it.
        make: a batch of the game in this process, with so many rows.
        rows, workers: B, and how many processes; at most one a row is taken.
        threads: that step the rows of one worker.
        options: the game's, completed.

    Raises:
        ConfigError: the game cannot be found by another process, or draws its rows' seeds in a way of its own.
        WorkerError: a worker has died.
    """

    obs: FloatArray
    actions: npt.NDArray[Any]
    mask: Mask | None
    reward_terms: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    final_obs: FloatArray
    result: npt.NDArray[Any]
    controllers: npt.NDArray[np.int16]

    def __init__(
        self,
        recipe: Mapping[str, str],
        make: Callable[[int], MatchBatch],
        *,
        rows: int,
        workers: int,
        threads: int,
        options: Mapping[str, Any],
    ) -> None:
        self._make, self.num_rows, self._like = make, rows, make(1)
        self.spec: GameSpec = self._like.spec
        self._has_usual_seeds = _has_usual_seeds(self._like)
        if not self._has_usual_seeds and not isinstance(self._like, Regrouping):
            raise ConfigError(
                f"env.workers={workers}: the game {self.spec.name} draws its rows' seeds in a way of its own and cannot"
                f" regroup its states, so workers would play other matches; set env.workers=0"
            )
        sizes = [len(part) for part in np.array_split(np.arange(rows), min(workers, rows))]
        self._sizes, ends = sizes, np.cumsum(sizes).tolist()
        self._bounds = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        pieces, size = lay_out(self._like, rows)
        memory = nameless_file(size)
        arrays = mapped(memory, pieces, size)
        self._seeds: UInts = arrays.pop(SEEDS)
        self.mask = None
        for name, array in arrays.items():
            setattr(self, name, array)
        if isinstance(self._like, Regrouping):
            self.regroup = self._like.regroup
        self.absent: frozenset[int] = getattr(self._like, "absent", frozenset())
        what = {"game": recipe["name"], "all": rows, "threads": max(1, threads), "options": dict(options)}
        self._pool = pool_for(recipe, workers)
        self._slot = self._pool.enlist()
        self._end = weakref.finalize(self, self._pool.leave, self._slot)
        self._is_whole = True
        settings = [put(json.dumps({**what, "rows": pair}).encode()) for pair in self._bounds]
        try:
            self._ask(OPEN, [(setting, memory) for setting in settings])
        except BaseException:
            self.close()
            raise
        finally:
            for descriptor in (*settings, memory):
                os.close(descriptor)

    @property
    def pids(self) -> list[int]:
        """The worker processes' numbers in the system."""
        return self._pool.pids

    def close(self) -> None:
        """Lets go of the workers, which end where no other batch needs them; the batch is of no more use."""
        self._end()

    def reset(self, seed: int | UInts) -> None:
        """See `MatchBatch.reset`."""
        if isinstance(seed, np.ndarray) or self._has_usual_seeds:
            self._seeds[:] = row_seeds(seed, self.num_rows)
            self._is_whole = True
            self._ask(RESET)
            return
        whole = self._make(self.num_rows)
        whole.controllers[:] = self.controllers
        whole.reset(seed)
        self._is_whole = True
        self.set_state(whole.get_state())
        self.terminated[:] = self.truncated[:] = False

    def step(self) -> None:
        """See `MatchBatch.step`. After an error the rows of some workers have moved, and the batch is of no more use.

        Raises:
            WorkerError: a worker has died.
            LeagueError: an earlier step was broken off.
        """
        self._ask(STEP)

    def get_state(self) -> bytes:
        """See `MatchBatch.get_state`."""
        states = [answer or b"" for answer in self._ask(GET)]
        if isinstance(self._like, Regrouping):
            return self._like.regroup(states, [self.num_rows])[0]
        sizes = np.array([len(state) for state in states], np.uint64)
        return PARTS.pack(MAGIC, len(states)) + sizes.tobytes() + b"".join(states)

    @property
    def row_state(self) -> Callable[[int], bytes] | None:
        """Gives the match in a row as the state of a batch of one row; None where the game does not."""
        return None if getattr(self._like, "row_state", None) is None else self._row_state

    def _row_state(self, row: int) -> bytes:
        places = [row - start if start <= row < stop else None for start, stop in self._bounds]
        files = [put(json.dumps(place).encode()) for place in places]
        try:
            return next(answer for answer in self._ask(GET_ROW, [(file,) for file in files]) if answer is not None)
        finally:
            for file in files:
                os.close(file)

    def set_state(self, state: bytes) -> None:
        """See `MatchBatch.set_state`.

        Raises:
            ValueError: as there, or the state is of other workers and the game cannot regroup it; nothing is changed.
        """
        files = [put(part) for part in self._split(state)]
        was_whole, self._is_whole = self._is_whole, True
        try:
            self._ask(SET, [(descriptor,) for descriptor in files])
        except ValueError:
            self._is_whole = True
            self._ask(UNDO)
            self._is_whole = was_whole
            raise
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _split(self, state: bytes) -> list[bytes]:
        """The states of the workers' parts."""
        if isinstance(self._like, Regrouping):
            return self._like.regroup([state], self._sizes)
        if len(state) < PARTS.size or state[:8] != MAGIC:
            raise ValueError("the state is not one of worker processes, and the game cannot regroup it")
        number = PARTS.unpack_from(state)[1]
        start = PARTS.size + 8 * number
        if number != len(self._sizes) or len(state) < start:
            raise ValueError(f"the state is of {number} workers, this batch of {len(self._sizes)}")
        ends = start + np.cumsum(np.frombuffer(state[PARTS.size : start], np.uint64)).astype(np.int64)
        if ends[-1] != len(state):
            raise ValueError("the state is not whole")
        return [state[a:b] for a, b in itertools.pairwise([start, *ends.tolist()])]

    def _ask(self, what: bytes, files: Sequence[Sequence[int]] = ()) -> list[bytes | None]:
        if not self._is_whole:
            raise LeagueError(f"game {self.spec.name}: a step was broken off, so its rows no longer agree; reset it")
        self._is_whole = False
        answers = self._pool.ask(what, self._slot, self._bounds, files)
        self._is_whole = True
        return answers


def _has_usual_seeds(batch: MatchBatch) -> bool:
    """Whether a batch makes its rows' seeds of one number as the games of this library do."""
    batch.reset(7)
    drawn = batch.get_state()
    batch.reset(row_seeds(7, batch.num_rows))
    return drawn == batch.get_state()
