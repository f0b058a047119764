"""A person plays against an agent in the browser: a small server on this machine alone, of one page and one match."""

from __future__ import annotations

import errno
import json
import secrets
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from league.arena import pages, replays
from league.arena.agents import Where, check_seed
from league.arena.frames import Course
from league.arena.human import Ended, HumanMatch
from league.arena.templates import filled
from league.errors import DEFAULT_STORE, LeagueError, UsageError, one_line
from league.store.files import check_new
from league.types.schema import check_number

HOST = "127.0.0.1"
MOST_BYTES = 65_536
"""Of a request."""
GRACE_SECONDS = 0.5
"""In which the last reply is fetched, before the server ends."""


class Server(ThreadingHTTPServer):
    """Serves one match at an address with an unguessable word.

    Args:
        match: the match.
        port: 0 takes a free one.
        finish: called once when the match has ended; what it gives is told on the page.

    Raises:
        UsageError: the port is in use, or may not be taken.
    """

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, match: HumanMatch, port: int, finish: Callable[[], Ended]) -> None:
        check_number("port", port, 0, 65_535, "the port")
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be taken ({error.strerror})"
            raise UsageError(f"port={port}: {reason}; pass another --port, or none for a free one") from None
        self.match, self.finish = match, finish
        self.word = secrets.token_urlsafe(16)
        self.lock = threading.Lock()
        self.ended: Ended | None = None
        self.problem: BaseException | None = None
        self.course = Course(match.spec, match.seconds)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is no error of the match; anything else is a bug and keeps its traceback."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/{self.word}/"

    def reply(self, asked: str, body: Any) -> dict[str, Any]:
        """What a request is answered; one at a time.

        Raises:
            LeagueError: it cannot be.
        """
        match = self.match
        with self.lock:
            seen = [match.frame]
            if asked == "step":
                if not isinstance(body, dict) or self.ended is not None:
                    raise UsageError("the match is over" if self.ended is not None else "no such request")
                match.step(body.get("action"))
                seen.append(match.frame)
            if not match.is_live:
                seen += match.go_on()
            found: dict[str, Any] = {"frames": self._frames(seen), "step": match.bout.tape.steps}
            if asked == "begin":
                found |= self._told()
            if match.is_over and self.ended is None:
                try:
                    self.ended = self.finish()
                except LeagueError as error:
                    self.problem = error
                    raise
                finally:
                    self.end_soon()
            found["choices"] = match.choices()
            if self.ended is not None:
                reason = one_line(self.ended.end_reason).replace("_", " ")
                won = "a draw" if self.ended.winner == "draw" else f"{one_line(self.ended.winner)} wins"
                found["ending"] = f"{won} ({reason})"
                found["stored"] = f"stored as {self.ended.run}" if self.ended.run else "not stored"
            return found

    def end_soon(self) -> None:
        """Ends the server once the last reply was fetched."""
        threading.Timer(GRACE_SECONDS, self.shutdown).start()

    def _told(self) -> dict[str, Any]:
        match = self.match
        return {
            "names": [one_line(name) for name in match.names],
            "about": f"{one_line(match.spec.name)}: you are {one_line(match.name)}, in seat {match.seat}",
            "isLive": match.is_live,
            "seconds": match.seconds,
            "keys": list(match.keys),
            "keyboard": match.keyboard(),
            "aspect": self._frames([match.frame])["aspect"],
        }

    def _frames(self, seen: list[Any]) -> dict[str, Any]:
        self.course.frames = seen
        return pages.frames(self.course)


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """The page."""
        if not self._is_ours() or self.path != f"/{self.server.word}/":
            self._send(404, "text/plain", b"no such page")
            return
        title = " against ".join(one_line(name) for name in self.server.match.names)
        text = filled("play.html", ("draw.js", "play.js"), "player.css", connects="'self'", title=title)
        self._send(200, "text/html; charset=utf-8", text.encode())

    def do_POST(self) -> None:
        """A step of the match."""
        asked = self.path.removeprefix(f"/{self.server.word}/")
        size = self.headers.get("Content-Length", "")
        is_json = self.headers.get("Content-Type", "") == "application/json"
        if not self._is_ours() or asked not in ("begin", "step") or not is_json:
            self._send(404, "text/plain", b"no such page")
            return
        if not (size.isascii() and size.isdigit()) or len(size) > 9 or int(size) > MOST_BYTES:
            self._send(413, "text/plain", b"too large")
            return
        try:
            code, found = 200, self.server.reply(asked, json.loads(self.rfile.read(int(size))))
        except (LeagueError, ValueError, RecursionError) as error:
            code, found = 400, {"error": one_line(" ".join(str(error).split()))}
            if isinstance(error, LeagueError) and not isinstance(error, UsageError):
                self.server.problem = error
                self.server.end_soon()
        except BaseException as error:
            self.server.problem = error
            self.server.end_soon()
            code, found = 500, {"error": "the match has broken off; see the command's own words"}
        self._send(code, "application/json", json.dumps(found, allow_nan=False).encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is said of a request."""

    def _is_ours(self) -> bool:
        """Whether the request is from our page: other pages may be tricked into asking this machine."""
        own = {f"{HOST}:{self.server.server_port}", f"localhost:{self.server.server_port}"}
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in own and (origin is None or origin.removeprefix("http://") in own)

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def play(
    agent: str,
    *,
    seat: int = 0,
    name: str = "person",
    port: int = 0,
    out: str | Path | None = None,
    seed: int | None = None,
    greedy: bool = False,
    env: object = None,
    bots: object = None,
    policy: object = None,
    device: str = "auto",
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Ended | None:
    """Serves a page of this machine on which a person plays a match against an agent, until it has ended.

    When it ends it is written into the store as an import, so it counts for the leaderboard, and `league imports
    remove` takes it back. A match that is broken off is not.

    Args:
        agent, greedy, env, bots, policy, device, store, say: as for `evaluate`.
        seat: the person's.
        name: what the person is called there.
        port: of the page; 0 takes a free one.
        out: a new file, .replay, for the match.
        seed: of the match and of the agent's draws; None draws one.

    Returns:
        How it ended; None where it was broken off.

    Raises:
        UsageError: as `evaluate`; a game whose actions no keyboard has, or a port in use.
        StoreError, SnapshotError: as `evaluate`.
    """
    path = None if out is None else Path(out)
    if path is not None:
        if path.suffix != replays.SUFFIX:
            raise UsageError(
                f"out={path}: must end in {replays.SUFFIX}, of which the watch command makes others; pass another --out"
            )
        check_new(path, "--out")
    chosen = secrets.randbelow(2**31) if seed is None else seed
    check_seed(chosen)
    where = Where(env, bots, policy, device, store, say)
    match = HumanMatch(where.gather(where.open(agent), agent), seat, chosen, greedy=greedy, name=name)

    def finish() -> Ended:
        ended = match.ended(store, say)
        if path is not None:
            replays.save(ended.replay, path)
        return ended

    try:
        with Server(match, port, finish) as server:
            (say or print)(f"open {server.address} in a browser; Ctrl+C breaks the match off")
            server.serve_forever(poll_interval=0.1)
            if server.problem is not None:
                raise server.problem
            return server.ended
    finally:
        match.close()
