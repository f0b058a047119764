"""The live page: the report's page with numbers that follow the store while training runs; it writes nothing.

However many read it, the store is read once for all of them, and seldom enough to take little of the machine.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from league.errors import DEFAULT_STORE, LeagueError, StoreError, UsageError, one_line
from league.faces.pages import SCRIPTS, STYLES, live_policy, page, part
from league.faces.readings import read
from league.faces.records import to_json
from league.faces.stored_matches import Films
from league.store.store import Store
from league.types.schema import check_number

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOST = "127.0.0.1"
PORT = 8700
MAX_PORT = 65_535
LEAST_SECONDS = 5.0
"""Between two readings of the store, which a trainer writes as often."""
SHARE = 0.05
"""Of one core's time, at most, for reading the store and working out what is shown."""
LONGEST_SECONDS = 60.0
"""After which everything is read again, though the store has not changed: a trainer may have died."""
MOST_VIEWS = 8
"""Choices of runs that are remembered."""
MOST_WAITING = 8
"""Requests that wait for their turn; one more is refused."""
REFUSED_SECONDS = 1.0
"""Until it is refused: a client that asks again at once takes no more of a core than one that waits."""
MOST_NAMES = 50
HEADERS = {
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


@dataclass(frozen=True)
class PageData:
    """What was worked out for one choice of runs, as JSON."""

    body: bytes
    tag: str
    seen: object
    """What the store's folders were like before they were read."""
    read_at: float


class PageCache:
    """What is shown of a store, for any number of readers at once.

    Args:
        path: the store's folder.
        say: receives a line about what cannot be shown.
        clock: seconds.
        sleep: waits for seconds.

    Raises:
        StoreError: the store cannot be read as it is.
    """

    def __init__(
        self,
        path: Path,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._clock, self._sleep = Store.open(path, say), clock, sleep
        self._films = Films(self._store, say)
        self._views: dict[tuple[str, ...], PageData] = {}
        self._working = threading.Lock()
        """Held by the thread that uses the store: it and what reads it are not for several threads at once."""
        self._waiting = 0
        """Requests that want it."""
        self._free_at = -math.inf
        """When the work done so far is `SHARE` of the time since it began."""

    def view(self, names: Sequence[str]) -> PageData:
        """What is shown of these runs: what was worked out last, unless that is too old and nobody is at it.

        A choice that was not shown yet waits until its work takes no more than `SHARE` of a core.

        Raises:
            UsageError: no such run, or too many.
            StoreError: the store cannot be read, or `MOST_WAITING` requests wait.
        """
        key = tuple(names)
        if len(key) > MOST_NAMES:
            raise UsageError(f"{len(key)} runs are more than {MOST_NAMES}; choose fewer")
        old = self._views.get(key)
        if old is not None and (self._is_recent(old) or self._working.locked()):
            return old
        with self._turn():
            newer = self._views.get(key)  # another reader may have been first
            if newer is not None and not self._is_due(newer):
                return newer
            with self._paid():
                return self._made(key)

    def match(self, key: str) -> str:
        """A kept match, as `Films.packed` has it.

        Raises:
            LeagueError: as there.
            StoreError: `MOST_WAITING` requests wait.
        """
        with self._turn():
            if self._films.is_packed(key):
                return self._films.packed(key)
            with self._paid():
                return self._films.packed(key)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Within it the store is this thread's."""
        if self._waiting >= MOST_WAITING:
            self._sleep(REFUSED_SECONDS)
            raise StoreError(f"{self._waiting} requests wait already; try again in a minute")
        self._waiting += 1
        try:
            with self._working:
                yield
        finally:
            self._waiting -= 1

    @contextmanager
    def _paid(self) -> Iterator[None]:
        """Waits until there is time for work, and counts what it takes, but for the first, which loads libraries."""
        self._sleep(max(0.0, self._free_at - self._clock()))
        began, is_first = time.process_time(), self._free_at == -math.inf
        try:
            yield
        finally:
            spent = 0.0 if is_first else time.process_time() - began
            self._free_at = self._clock() + spent / SHARE

    def _is_recent(self, view: PageData) -> bool:
        return self._clock() - view.read_at < LEAST_SECONDS or self._clock() < self._free_at

    def _is_due(self, view: PageData) -> bool:
        """Whether it is to be worked out again; for the thread whose turn it is."""
        if self._is_recent(view):
            return False
        return self._clock() - view.read_at > LONGEST_SECONDS or self._looks() != view.seen

    def _looks(self) -> object:
        self._store.fetch(within=LEAST_SECONDS)
        return self._store.looks()

    def _made(self, key: tuple[str, ...]) -> PageData:
        seen = self._looks()
        found = to_json(read(self._store, key, self._films))
        body = json.dumps(found, separators=(",", ":"), allow_nan=False).encode()
        told = {**found, "made_at": ""}  # else no two were ever the same
        tag = hashlib.sha256(json.dumps(told, allow_nan=False).encode()).hexdigest()[:32]
        view = PageData(body, f'"{tag}"', seen, self._clock())
        self._views.pop(key, None)
        while len(self._views) >= MOST_VIEWS:
            del self._views[next(iter(self._views))]
        self._views[key] = view
        return view


def make_app(views: PageCache) -> Starlette:
    """The pages and what their script fetches, to be read from this machine alone."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    headers = {**HEADERS, "Content-Security-Policy": live_policy()}
    texts = {
        "/": (page("league, live", "", "reading the store ..."), "text/html"),
        **{f"/{name}": (part(name), "text/javascript") for name in SCRIPTS},
        **{f"/{name}": (part(name), "text/css") for name in STYLES},
    }

    async def text(request: Request) -> Response:  # in no thread, all of which may wait
        body, kind = texts[request.url.path]
        return Response(body, media_type=kind, headers=headers)

    def data(request: Request) -> Response:
        view = views.view(request.query_params.getlist("run"))
        tagged = headers | {"ETag": view.tag}
        if request.headers.get("if-none-match") == view.tag:
            return Response(status_code=304, headers=tagged)
        return Response(view.body, media_type="application/json", headers=tagged)

    def match(request: Request) -> Response:
        found = {"match": views.match(request.query_params.get("key", ""))}
        return JSONResponse(found, headers=headers)

    def refused(request: Request, error: Exception) -> Response:
        code = 503 if isinstance(error, StoreError) else 404
        return JSONResponse({"error": one_line(" ".join(str(error).split()))}, code, headers=headers)

    return Starlette(
        routes=[*(Route(path, text) for path in texts), Route("/data", data), Route("/match", match)],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"], www_redirect=False)],
        exception_handlers={LeagueError: refused},
    )


def serve(
    *,
    port: int = PORT,
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] = lambda message: None,
    begun: Callable[[str], None] = lambda address: None,
) -> None:
    """Serves the live page of a store on 127.0.0.1 until a signal ends it.

    Args:
        port: of the page; 0: a free one.
        store: the store's file, which is only read.
        say: receives a line about what cannot be shown.
        begun: receives the page's address once it can be opened.

    Raises:
        UsageError: the port, or a package is missing.
        StoreError: the store cannot be read as it is.
    """
    missing = [package for package in ("starlette", "uvicorn") if find_spec(package) is None]
    if missing:
        raise UsageError(f"league serve needs {' and '.join(missing)}; run pip install 'league-engine[serve]'")
    import uvicorn

    check_number("port", port, 0, MAX_PORT, f"a port of this machine, {PORT} if not given; 0: a free one")
    views = PageCache(Path(store), say)
    config = uvicorn.Config(make_app(views), log_level="error", access_log=False, lifespan="off", server_header=False)
    logging.getLogger("uvicorn.error").addFilter(_is_no_broken_request)
    with _listening(port) as listener:
        begun(f"http://{HOST}:{listener.getsockname()[1]}/")
        uvicorn.Server(config).run(sockets=[listener])


def _is_no_broken_request(record: logging.LogRecord) -> bool:
    """Whether a line of the server's log tells more than that a client broke HTTP, which it has been answered."""
    error = record.exc_info[1] if record.exc_info else None
    return not type(error).__module__.startswith("h11")


def _listening(port: int) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()  # else another process could still take the port
    except OSError as error:
        listener.close()
        raise UsageError(f"port={port}: {error.strerror or error}; pass another --port, or 0 for a free one") from None
    return listener
