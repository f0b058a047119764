"""A person plays in the browser: a small server on this machine alone, of one page and one match."""

from __future__ import annotations

import errno
import json
import secrets
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from league.arena import pages
from league.arena.frames import Course
from league.arena.hands import Ended, Table
from league.arena.templates import filled
from league.errors import LeagueError, UsageError, one_line
from league.schema import check_number

HOST = "127.0.0.1"
MOST_BYTES = 65_536
"""Of a request."""
GRACE_SECONDS = 0.5
"""In which the last reply is fetched, before the server ends."""


class Server(ThreadingHTTPServer):
    """Serves one match to whoever knows its address, which has a word in it that nobody guesses.

    Args:
        table: the match.
        port: 0 takes a free one.
        finish: called once when the match has ended; what it gives is told on the page.

    Raises:
        UsageError: the port is in use, or may not be taken.
    """

    daemon_threads = True
    allow_reuse_address = False

    def __init__(self, table: Table, port: int, finish: Callable[[], Ended]) -> None:
        check_number("port", port, 0, 65_535, "the port")
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be taken ({error.strerror})"
            raise UsageError(f"port={port}: {reason}; pass another --port, or none for a free one") from None
        self.table, self.finish = table, finish
        self.word = secrets.token_urlsafe(16)
        self.lock = threading.Lock()
        self.ended: Ended | None = None
        self.problem: BaseException | None = None
        self.course = Course(table.spec, table.seconds)

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
        table = self.table
        with self.lock:
            seen = [table.frame]
            if asked == "step":
                if not isinstance(body, dict) or self.ended is not None:
                    raise UsageError("the match is over" if self.ended is not None else "no such request")
                table.step(body.get("action"))
                seen.append(table.frame)
            if not table.is_live:
                seen += table.go_on()
            found: dict[str, Any] = {"frames": self._frames(seen), "step": table.bout.tape.steps}
            if asked == "begin":
                found |= self._told()
            if table.is_over and self.ended is None:
                try:
                    self.ended = self.finish()
                except LeagueError as error:
                    self.problem = error
                    raise
                finally:
                    threading.Timer(GRACE_SECONDS, self.shutdown).start()
            found["choices"] = table.choices()
            if self.ended is not None:
                reason = one_line(self.ended.end_reason).replace("_", " ")
                won = "a draw" if self.ended.winner == "draw" else f"{one_line(self.ended.winner)} wins"
                found["ending"] = f"{won} ({reason})"
                found["stored"] = f"stored as {self.ended.run}" if self.ended.run else "not stored"
            return found

    def _told(self) -> dict[str, Any]:
        table = self.table
        return {
            "names": [one_line(name) for name in table.names],
            "about": f"{one_line(table.spec.name)}: you are {one_line(table.name)}, in seat {table.seat}",
            "isLive": table.is_live,
            "seconds": table.seconds,
            "keys": list(table.keys),
            "keyboard": table.keyboard(),
            "aspect": self._frames([table.frame])["aspect"],
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
        title = " against ".join(one_line(name) for name in self.server.table.names)
        text = filled("hands.html", ("draw.js", "hands.js"), "player.css", connects="'self'", title=title)
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
                threading.Timer(GRACE_SECONDS, self.server.shutdown).start()
        except BaseException as error:
            self.server.problem = error
            threading.Timer(GRACE_SECONDS, self.server.shutdown).start()
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


def play(table: Table, port: int, finish: Callable[[], Ended], say: Callable[[str], None]) -> Ended | None:
    """Serves the match until it has ended; None where it was broken off.

    Raises:
        UsageError: the port.
        LeagueError: the match, or storing it, failed.
    """
    with Server(table, port, finish) as server:
        say(f"open {server.address} in a browser; Ctrl+C breaks the match off")
        server.serve_forever(poll_interval=0.1)
        if server.problem is not None:
            raise server.problem
        return server.ended
