"""A worker process: it steps some rows of a game for another process, in arrays that both share.

It imports the game and no network. It ends when the other process does, however that ends.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from league.envs import registry
from league.envs.loading import open_game
from league.envs.sources import locate, parse
from league.envs.workers.sharing import (
    CLOSE,
    COMMAND,
    DONE,
    FAILED,
    GET,
    GET_ROW,
    OPEN,
    REPLY,
    RESET,
    SEEDS,
    SET,
    STEP,
    WRITTEN,
    arrays_of,
    lay_out,
    mapped,
    put,
    take,
)
from league.errors import ConfigError, as_users, words_of
from league.types import MatchBatch

POLL_SECONDS = 1.0
"""Between two looks at whether the other process is still there, while a step is made."""
DEATH_SIGNAL = 1
"""Of Linux's prctl."""


class RowRange:
    """Rows [start, stop) of a batch.

    Args:
        what: the batch's settings, as `league.envs.workers.batch` puts them down.
        memory: the descriptor of the arrays of all rows.
    """

    def __init__(self, what: dict[str, Any], memory: int) -> None:
        start, stop = what["rows"]
        self.batch: MatchBatch = registry.make(
            what["game"], rows=stop - start, threads=what["threads"], options=what["options"]
        )
        number_from = getattr(self.batch, "number_from", None)
        if number_from is not None:
            number_from(start)
        everything = mapped(memory, *lay_out(self.batch, what["all"]))
        self._seeds = everything.pop(SEEDS)[start:stop]
        own = arrays_of(self.batch)
        self._pairs = [(own[name], array[start:stop]) for name, array in everything.items()]
        self._written = [(own[name], array[start:stop]) for name, array in everything.items() if name in WRITTEN]
        self._row_state: Callable[[int], bytes] | None = getattr(self.batch, "row_state", None)
        self._before = b""
        self._publish()

    def carry_out(self, what: bytes, given: bytes) -> bytes | None:
        """Does what a command says; `given` is the state to take, or the row. Returns the state that it wants."""
        for own, shared in self._written:
            own[:] = shared
        state = None
        if what == STEP:
            self.batch.step()
        elif what == RESET:
            self.batch.reset(self._seeds.copy())
        elif what == GET:
            return self.batch.get_state()
        elif what == GET_ROW:
            row, row_state = json.loads(given), self._row_state
            return None if row is None or row_state is None else row_state(row)
        elif what == SET:
            self._before = b""
            before = self.batch.get_state()
            self.batch.set_state(given)
            self._before = before
        elif self._before:  # UNDO
            self.batch.set_state(self._before)
        self._publish()
        return state

    def _publish(self) -> None:
        for own, shared in self._pairs:
            shared[:] = own


class Worker:
    """Carries out the commands that come through `line`, until its other end is closed."""

    def __init__(self, line: socket.socket, recipe: dict[str, str]) -> None:
        self._line, self._recipe = line, recipe
        self._parts: dict[int, RowRange] = {}
        self._is_ready = False

    def serve(self) -> None:
        """Returns when nobody is there any more."""
        while True:
            data, files, _, _ = socket.recv_fds(self._line, COMMAND.size, 2)
            if not data:
                return
            what, slot, number = COMMAND.unpack(data)
            done, answer = self._answer(what, slot, files)
            try:
                if answer is None:
                    self._line.send(REPLY.pack(done, number))
                    continue
                descriptor = put(answer)
                socket.send_fds(self._line, [REPLY.pack(done, number)], [descriptor])
                os.close(descriptor)
            except OSError:  # the other end has gone meanwhile
                return

    def _answer(self, what: bytes, slot: int, files: list[int]) -> tuple[bytes, bytes | None]:
        try:
            if what == OPEN:
                self._open(slot, files)
            elif what == CLOSE:
                self._parts.pop(slot, None)
            else:
                return DONE, self._parts[slot].carry_out(what, take(files[0]) if files else b"")
        except BaseException as error:
            return FAILED, json.dumps(_described(error)).encode()
        return DONE, None

    def _open(self, slot: int, files: list[int]) -> None:
        if not self._is_ready:
            find_game(self._recipe)
            self._is_ready = True
        what, memory = json.loads(take(files[0])), files[1]
        try:
            self._parts[slot] = RowRange(what, memory)
        finally:
            os.close(memory)


def find_game(recipe: dict[str, str]) -> None:
    """Registers a game as the other process has it.

    recipe: what `league.envs.registry.recipe` gave there.

    Raises:
        ConfigError: it is gone, or its file has changed since.
    """
    name, address = recipe["name"], recipe["address"]
    if recipe["path"]:
        if not registry.is_known(name):
            registry.register(name, recipe["path"])
        return
    if not address or parse(address).kind == "name":
        registry.options_model(name)  # says that there is none
        return
    found = locate(parse(address))
    if found.source.sha256 != recipe["sha256"]:
        raise ConfigError(
            f"env={found.source.address}: it has changed since this process began, and a worker process would play what"
            f" it is now; begin again, or set env.workers=0"
        )
    open_game(found)


def _described(error: BaseException) -> dict[str, Any]:
    """An exception as JSON: a known one by its words, another by its class, too."""
    known = as_users(error)
    return {
        "kind": type(known or error).__name__,
        "is_known": known is not None,
        "text": str(known) if known else words_of(error),
        "trace": "".join(traceback.format_exception(error)).rstrip(),
    }


def _end_with(parent: int) -> None:
    """Ends this process soon after the other one, also in the middle of a step."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)


def main() -> None:
    """What `processes.py` starts: arguments are the socket, the other process, how it ends, and the recipe."""
    descriptor, parent, is_main = (int(word) for word in sys.argv[1:4])
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # they are for the other process, which stops in order
        signal.signal(number, signal.SIG_IGN)
    os.dup2(2, 1)  # what a game prints is no talk of this library
    faulthandler.enable()
    if sys.platform == "linux" and is_main:  # else it would end with the thread that started it
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        return
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    Worker(socket.socket(fileno=descriptor), json.loads(sys.argv[4])).serve()
    os._exit(0)
