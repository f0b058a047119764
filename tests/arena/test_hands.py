"""A person against an agent: in a window, in the browser, and what is stored of it."""

import http.client
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.arena import hands_window
from league.arena.agents import find_agent, gather
from league.arena.frames import course_of
from league.arena.hands import Ended, Table, legal_actions
from league.arena.hands_browser import Server
from league.arena.pages import document
from league.arena.playing import play_by_hand
from league.arena.replays import Playback, parse
from league.envs import Match, registry
from league.envs.drawing import Drawing
from league.errors import UsageError
from league.store.store import Store
from league.types import ActionSpec
from tests.helpers.browser import browser, needs_chromium, wait_for
from tests.helpers.matches import Keys


def table(game: str, agent: str = "bot:random", seat: int = 0, name: str = "Ada") -> Table:
    """A match about to begin."""
    return Table(gather(None, (find_agent(None, agent),), game, "cpu"), seat, 3, greedy=False, name=name)


def play_any(match: Table) -> None:
    """Plays it to its end by the first action that is legal, or no key."""
    match.go_on()
    while not match.is_over:
        choices = match.choices()
        match.step(choices[len(choices) // 2][1] if choices else [0] * match.spec.action.num_parts)
        match.go_on()


@pytest.mark.parametrize("game", ["cards", "matrix", "leduc"])
@pytest.mark.parametrize("seat", [0, 1])
def test_a_match_by_hand_is_a_match_of_the_store(game: str, seat: int, tmp_path: Path) -> None:
    """It is an import of one game with both agents' names, rated, and can be played back bit for bit and taken back."""
    match = table(game, seat=seat)
    play_any(match)
    ended = match.ended(tmp_path / "s")
    opened = Store.open(tmp_path / "s")
    [row] = opened.imports()
    [played] = opened.matches(str(ended.run), "evaluation")
    assert (row.run, row.matches, row.file) == (ended.run, 1, "played by Ada")
    assert played.agents[seat] == "import:Ada" and played.agents[1 - seat] == "bot:random"
    [kept] = opened.replays(ended.run)
    playback = Playback(parse(kept.content, "f"), "f")
    assert playback.play().is_exact and playback.replay.names[seat] == "Ada" and kept.content == ended.replay
    board = league.leaderboard(store=tmp_path / "s").boards[0]
    assert {entry.name for entry in board.entries} == {"Ada", "bot:random"}
    again = table(game, seat=seat)
    play_any(again)
    assert again.ended(tmp_path / "s").run != ended.run  # the same course once more is another match
    assert league.remove_import(str(ended.run), store=tmp_path / "s").matches == 1
    assert not opened.replays(ended.run)


def test_only_what_is_legal_is_offered_and_taken() -> None:
    """Choices are those of the mask, in words; keys that may not be pressed count for nothing; others are refused."""
    match = table("cards", seat=1)
    match.go_on()
    words = [words for words, _ in match.choices()]
    mask = match.bout.batch.mask
    assert mask is not None and len(words) == int((mask[0, 1].reshape(-1, 4)[:, 0] >= 0).sum())
    assert "ends the turn" in words
    for bad in ([9, 9, 9, 9], [0], [0.5, 0, 0, 0], None):
        if bad is not None:
            with pytest.raises(UsageError, match="action="):
                match.step(bad)  # type: ignore[arg-type]
    keys = table("brawl")
    assert keys.is_live and not keys.choices()
    keys.step([1] * 10)
    legal = keys.bout.batch.actions[0, 0]
    assert set(legal.tolist()) <= {0, 1}
    board = keys.keyboard()
    assert len(set(board.values())) == 10 and board["up"] == "ArrowUp" and board["jump"] == " "
    several = ActionSpec("multi_discrete", (2, 3))
    assert legal_actions(several, np.array([True, False, True, False, True])) == [[0, 0], [0, 2]]


@pytest.mark.parametrize(("game", "shown"), [("cards", 1), ("leduc", 1), ("kuhn", 1), ("matrix", 2), ("brawl", 2)])
def test_a_person_sees_what_its_seat_may_see(game: str, shown: int) -> None:
    """What is hidden from it, the other hand, is not in what it is sent; where nothing is, all is."""
    match = table(game, seat=1)
    match.go_on()
    draw = registry.drawer(game)
    assert draw is not None
    batch = match.bout.batch
    whole, own = (" ".join(x.text for x in d.shapes) for d in (draw(batch, 0), draw(batch, 0, seat=1)))
    if shown == 2:
        assert own == whole
    else:
        assert own != whole and len(own) < len(whole) + (4 if "?" in own else 0)
    assert isinstance(match.frame, Drawing) and " ".join(x.text for x in match.frame.shapes) == own


def test_keys_without_names_have_keys_of_the_keyboard() -> None:
    """A game in plain Python with keys is played live, by letters."""
    name = registry.adopt(Keys, "keys")
    match = table(name, "bot:random")
    board = match.keyboard()
    assert match.is_live and all(board.values()) and len(set(board.values())) == len(board)
    while not match.is_over:
        match.step([1] * match.spec.action.num_parts)


@pytest.mark.parametrize("name", ["", "bot:x", "import:x", "a\nb", "x" * 99])
def test_names_that_cannot_be(name: str) -> None:
    """Are one line."""
    with pytest.raises(UsageError, match="pass another --name"):
        table("matrix", name=name)


# In the browser


class Court(Match):
    """Two parts with names; who hits hard often wins."""

    name, action, obs_size, max_steps = "court", (2, 3), 1, 2
    action_names = ("stay", "run", "soft", "hard", "lob")

    def reset(self, rng: np.random.Generator) -> None:
        """Begins."""
        self.hits = 0

    def observe(self, seat: int) -> list[float]:
        """Nothing."""
        return [0.5 * seat]

    def step(self, actions: tuple[Any, Any]) -> None:
        """Counts."""
        self.hits += 1


def test_a_match_names_its_choices() -> None:
    """Buttons say the names of all parts, and so do the charts of a film; a game without names has numbers."""
    registry.adopt(Court, "court")
    match = table("court")
    assert [words for words, _ in match.choices()][:4] == ["stay soft", "stay hard", "stay lob", "run soft"]
    match.step([0, 1])
    match.step([1, 2])
    replay = parse(match.ended(None).replay, "f")
    course = course_of(Playback(replay, "f"))
    labels = [set(seat["labels"]) for seat in document(replay, course)["seats"]]
    assert labels[0] <= set(Court.action_names) and {"stay", "hard"} <= labels[0]


@contextmanager
def served(match: Table, finish: Any) -> Iterator[Server]:
    """A server of a match, in a thread of its own."""
    with Server(match, 0, finish) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(
    server: Server, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    """What a request is answered."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    given = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, None if body is None else json.dumps(body), given)
    reply = connection.getresponse()
    data = reply.read()
    connection.close()
    return reply.status, data, reply.headers


def test_the_server_answers_its_own_page_alone() -> None:
    """Who does not know the word in its address, asks for another host or from another origin, gets nothing."""
    match = table("matrix")
    with served(match, lambda: match.ended(None)) as server:
        page = f"/{server.word}/"
        code, text, headers = asked(server, "GET", page)
        assert code == 200 and b"connect-src 'self'" in text and b"unsafe" not in text
        assert headers["Cache-Control"] == "no-store" and headers["X-Frame-Options"] == "DENY"
        assert [asked(server, "GET", path)[0] for path in ("/", "/x/", page + "../", page + "begin")] == [404] * 4
        assert asked(server, "GET", page, Host="evil.example")[0] == 404
        assert asked(server, "POST", page + "begin", {}, Origin="http://evil.example")[0] == 404
        assert asked(server, "POST", page + "begin", {}, Content_Type="text/plain")[0] == 404
        assert asked(server, "POST", page + "begin", {}, Content_Length="9999999")[0] == 413
        assert match.bout.tape.steps == 0
        code, data, _ = asked(server, "POST", page + "begin", {})
        assert code == 200 and json.loads(data)["names"] == ["Ada", "bot:random"]
        code, data, _ = asked(server, "POST", page + "step", {"action": [7]})
        assert code == 400 and "not legal" in json.loads(data)["error"] and match.bout.tape.steps == 0


def test_a_match_over_http_ends_and_is_stored(tmp_path: Path) -> None:
    """Step by step; the last answer says who won and where it is kept, and nothing is taken after it."""
    match = table("leduc", seat=1)
    with served(match, lambda: match.ended(tmp_path / "s")) as server:
        page = f"/{server.word}/"
        found = json.loads(asked(server, "POST", page + "begin", {})[1])
        while "ending" not in found:
            action = found["choices"][-1][1]
            found = json.loads(asked(server, "POST", page + "step", {"action": action})[1])
        assert found["stored"].startswith("stored as import-") and found["ending"]
        assert asked(server, "POST", page + "step", {"action": [0]})[0] == 400
        assert isinstance(server.ended, Ended)
    assert Store.open(tmp_path / "s").imports()[0].matches == 1


def test_a_port_in_use_is_one_line() -> None:
    """With the port and what to do."""
    match = table("matrix")
    with served(match, lambda: match.ended(None)) as server:
        port = server.server_port
        with pytest.raises(UsageError, match=rf"port={port}: is in use; pass another --port"):
            play_by_hand("bot:random", env="matrix", browser=True, port=port, store="none", say=lambda _: None)
    with pytest.raises(UsageError, match="port=70000"):
        play_by_hand("bot:random", env="matrix", browser=True, port=70_000, store="none", say=lambda _: None)


@needs_chromium
@pytest.mark.slow
def test_a_person_plays_in_chromium(tmp_path: Path) -> None:
    """Buttons play a game in turns to its end; held keys play brawl live; the console is silent."""
    match = table("cards")
    with served(match, lambda: match.ended(tmp_path / "s")) as server, browser() as page:
        page.get(server.address)
        wait_for(page, "document.body.dataset.ready === 'yes'")
        for _ in range(200):
            script = "const b = document.querySelector('#choices button:not(:disabled)'); if (b) b.click(); return !!b"
            page.execute_script(script)
            if page.execute_script("return document.body.dataset.over"):
                break
        wait_for(page, "document.body.dataset.over")
        assert "stored as import-1" in page.execute_script("return document.getElementById('about').textContent")
        assert page.get_log("browser") == []
    match = table("brawl")
    with served(match, lambda: match.ended(None)) as server, browser() as page:
        page.get(server.address)
        wait_for(page, "document.body.dataset.ready === 'yes'")
        page.execute_script("window.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))")
        page.execute_script("document.getElementById('play').click()")
        wait_for(page, "Number(document.body.dataset.step) > 12")
        page.execute_script("document.getElementById('play').click()")
        assert page.get_log("browser") == []
    assert match.bout.batch.actions[0, 0, 3] == 1  # right


# In a window


@pytest.mark.parametrize("game", ["brawl", "leduc"])
def test_a_window_plays_a_match(game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a real display: keys and Return are taken, the match ends and is stored; Escape breaks one off."""
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pygame = hands_window.load()
    monkeypatch.setattr(hands_window, "END_SECONDS", 0.1)
    match = table(game)
    monkeypatch.setattr(match, "seconds", 0.001)
    original, escapes = hands_window.Window.show, [False]

    def show(window: Any, *given: Any) -> None:
        original(window, *given)
        key = pygame.K_ESCAPE if escapes[0] else pygame.K_RETURN
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))

    monkeypatch.setattr(hands_window.Window, "show", show)
    if game == "brawl":
        monkeypatch.setattr(hands_window, "RATE", 10_000)
        monkeypatch.setattr(hands_window, "_picture", lambda *_: np.zeros((54, 96, 3), np.uint8))
    assert hands_window.play(match) and match.is_over
    escapes[0] = True
    assert not hands_window.play(table(game))


def test_without_a_window_or_pygame_it_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both say how else a person can play."""
    if sys.platform == "linux":
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(UsageError, match=r"there is no display here .*pass --browser"):
            hands_window.play(table("matrix"))
    monkeypatch.setenv("SDL_VIDEODRIVER", "nothing of that name")
    with pytest.raises(UsageError, match=r"there is no display here .*pass --browser"):
        hands_window.play(table("matrix"))
    monkeypatch.setitem(sys.modules, "pygame", None)
    with pytest.raises(UsageError, match=r"pip install pygame-ce`, or pass --browser"):
        play_by_hand("bot:random", env="matrix", store="none")
    with pytest.raises(UsageError, match=r"pass --browser, too"):
        monkeypatch.setattr(hands_window, "play", lambda _: True)
        play_by_hand("bot:random", env="matrix", store="none", port=4_000)


def test_what_libraries_write_themselves_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    """Where SDL looks for a display only our own line is said; afterwards stderr is as it was."""
    with hands_window._silenced():
        os.write(2, b"error: XDG_RUNTIME_DIR is invalid\n")
    os.write(2, b"ours\n")
    assert capfd.readouterr().err == "ours\n"
