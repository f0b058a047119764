"""A person against an agent: in the browser, and what is stored of it."""

import http.client
import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
from league.arena.agents import find_agent, gather
from league.arena.browser import Server, play
from league.arena.frames import course_of
from league.arena.human import Ended, HumanMatch, legal_actions
from league.arena.pages import document
from league.arena.replays import Playback, parse
from league.envs import Match, registry
from league.envs.drawing import Drawing
from league.errors import UsageError
from league.store.store import Store
from league.types import ActionSpec
from tests.helpers.browser import browser, needs_chromium, wait_for
from tests.helpers.matches import Keys


def table(game: str, agent: str = "bot:random", seat: int = 0, name: str = "Ada") -> HumanMatch:
    """A match about to begin."""
    return HumanMatch(gather(None, (find_agent(None, agent),), game, "cpu"), seat, 3, greedy=False, name=name)


def play_any(match: HumanMatch) -> None:
    """Plays it to its end by the first action that is legal, or no key."""
    match.go_on()
    while not match.is_over:
        choices = match.choices()
        match.step(choices[len(choices) // 2][1] if choices else [0] * match.spec.action.num_parts)
        match.go_on()


@pytest.mark.parametrize("game", ["cards", "matrix", "leduc"])
@pytest.mark.parametrize("seat", [0, 1])
def test_a_match_of_a_person_is_a_match_of_the_store(game: str, seat: int, tmp_path: Path) -> None:
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
def served(match: HumanMatch, finish: Any) -> Iterator[Server]:
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


def test_play_serves_a_match_to_its_end(tmp_path: Path) -> None:
    """It says the address, returns how the match ended once the page has played it, and writes the replay."""
    said: list[str] = []
    with ThreadPoolExecutor(1) as pool:
        words = {"env": "leduc", "seed": 3, "store": tmp_path / "s", "out": tmp_path / "m.replay", "say": said.append}
        ended = pool.submit(play, "bot:random", **words)
        while not any("http://" in line for line in said):
            assert not ended.done(), ended.result()
            time.sleep(0.02)
        [address] = [line.split()[1] for line in said if "http://" in line]
        found: dict[str, Any] = {}
        while "ending" not in found:
            body = {"action": found["choices"][0][1]} if found else {}
            url = address + ("step" if found else "begin")
            request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
            found = json.loads(urllib.request.urlopen(request, timeout=20).read())
        result = ended.result(timeout=20)
    assert isinstance(result, Ended) and (result.person, result.agent) == ("person", "bot:random")
    assert (tmp_path / "m.replay").read_text() == result.replay and f"stored as {result.run}" == found["stored"]


def test_a_port_in_use_is_one_line() -> None:
    """With the port and what to do."""
    match = table("matrix")
    with served(match, lambda: match.ended(None)) as server:
        port = server.server_port
        with pytest.raises(UsageError, match=rf"port={port}: is in use; pass another --port"):
            play("bot:random", env="matrix", port=port, store="none", say=lambda _: None)
    with pytest.raises(UsageError, match="port=70000"):
        play("bot:random", env="matrix", port=70_000, store="none", say=lambda _: None)


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
        assert "stored as import-" in page.execute_script("return document.getElementById('about').textContent")
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
