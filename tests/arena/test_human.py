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
from league.arena.human import Ended, HumanMatch, legal_actions
from league.arena.replays import Playback, parse
from league.envs import appearance, registry
from league.envs.drawing import Drawing
from league.errors import UsageError
from league.store.store import Store
from league.types import ActionSpec
from tests.helpers.browser import browser, needs_chromium, wait_for
from tests.helpers.commands import call
from tests.helpers.matches import Keys
from tests.helpers.refusals import refusal


def table(game: str, seat: int = 0, name: str = "Ada") -> HumanMatch:
    """A match about to begin."""
    return HumanMatch(gather(None, (find_agent(None, "bot:random"),), game, "cpu"), seat, 3, greedy=False, name=name)


def play_any(match: HumanMatch) -> HumanMatch:
    """Plays it to its end by an action that is legal, or no key."""
    match.go_on()
    while not match.is_over:
        choices = match.choices()
        match.step(choices[len(choices) // 2][1] if choices else [0] * match.spec.action.num_parts)
        match.go_on()
    return match


@pytest.mark.parametrize("game", ["cards", "matrix", "leduc"])
@pytest.mark.parametrize("seat", [0, 1])
def test_a_match_of_a_person_is_a_match_of_the_store(game: str, seat: int, tmp_path: Path) -> None:
    """It is an import of one game with both agents' names, rated, and can be played back bit for bit and taken back."""
    ended = play_any(table(game, seat=seat)).ended(tmp_path / "s")
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
    again = play_any(table(game, seat=seat)).ended(tmp_path / "s")
    assert again.run != ended.run, "the same course once more is another match"
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
    for bad in ([9, 9, 9, 9], [0], [0.5, 0, 0, 0]):
        assert "action=" in refusal(lambda bad=bad: match.step(bad), UsageError)  # type: ignore[misc]
    single = table("kuhn")
    single.go_on()
    for odd in (5, True, 1.5, "0", {"a": 1}, [99], [-1], [10**30]):  # whatever a client may send
        assert "action" in refusal(lambda odd=odd: single.step(odd), UsageError)  # type: ignore[misc]
    keys = table("brawl")
    assert keys.is_live and not keys.choices()
    keys.step([1] * 10)
    assert set(keys.bout.batch.actions[0, 0].tolist()) <= {0, 1}
    board = keys.keyboard()
    assert len(set(board.values())) == 10 and board["up"] == "ArrowUp" and board["jump"] == " "
    plain = table(registry.adopt(Keys, "keys")).keyboard()
    assert all(plain.values()) and len(set(plain.values())) == len(plain), "keys without names have letters"
    several = ActionSpec("multi_discrete", (2, 3))
    assert legal_actions(several, np.array([True, False, True, False, True])) == [[0, 0], [0, 2]]
    assert several.is_legal(np.array([[1, 2], [2, 0], [0, 3], [-1, 0]]), np.ones((4, 5), bool)).tolist() == [
        True
    ] + 3 * [False]
    for name in ("", "bot:x", "import:x", "a\nb", "x" * 99):
        assert "pass another --name" in refusal(lambda name=name: table("matrix", name=name))  # type: ignore[misc]


@pytest.mark.parametrize(("game", "is_open"), [("cards", False), ("leduc", False), ("matrix", True), ("brawl", True)])
def test_a_person_sees_what_its_seat_may_see(game: str, is_open: bool) -> None:
    """What is hidden from it, the other hand, is not in what it is sent; where nothing is, all is."""
    match = table(game, seat=1)
    match.go_on()
    draw = appearance.drawer(game)
    assert draw is not None
    batch = match.bout.batch
    whole, own = (" ".join(x.text for x in d.shapes) for d in (draw(batch, 0), draw(batch, 0, seat=1)))
    assert (own == whole) == is_open
    assert isinstance(match.frame, Drawing) and " ".join(x.text for x in match.frame.shapes) == own


# In the browser


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
        given: dict[str, Any] = {"env": "matrix", "store": "none", "say": lambda _: None}
        for port in (server.server_port, 70_000):
            assert f"port={port}" in refusal(lambda port=port: play("bot:random", port=port, **given), UsageError)  # type: ignore[misc]


def test_play_serves_a_match_to_its_end(tmp_path: Path) -> None:
    """It says the address; the last answer says who won and where it is kept; the replay is written."""
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


def test_a_match_that_is_broken_off_is_one_document(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("league.arena.browser.play", lambda *_, **__: None)
    ended = call("play", "bot:random", "--json")
    assert ended.code == 0 and ended.json.keys() == {"schema"}
    assert ended.err == "broken off before its end; nothing is stored\n"
