"""The live page: the report's numbers over HTTP, to this machine alone, read once for all, writing nothing."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

import pytest

from league.errors import StoreError, UsageError
from league.faces import live
from league.faces.live import LONGEST_SECONDS, PageCache, make_app, serve
from league.faces.readings import read
from league.faces.records import to_json
from league.store.store import Store
from tests.faces.test_report import drawn, play_a_match
from tests.helpers.browser import browser, needs_chromium, wait_for
from tests.helpers.faces import make_runs
from tests.helpers.stores import Filled, files_of


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to be shown."""
    return make_runs(tmp_path_factory.mktemp("live"))


@contextmanager
def served(views: PageCache) -> Iterator[str]:
    """The address at which the page of `views` is served."""
    import uvicorn

    with live._listening(0) as listener:
        config = uvicorn.Config(make_app(views), log_level="error", access_log=False, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join()


def fetch(address: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an answer."""
    asked = urllib.request.Request(address, method=method, headers=headers)
    try:
        with urllib.request.urlopen(asked, timeout=300) as answer:
            return answer.status, dict(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def test_it_serves_what_the_report_has_and_writes_nothing(store: Path) -> None:
    """The numbers are those of `read`; other hosts, other methods and unknown names are refused; no file changes."""
    before = files_of(store)
    with served(PageCache(store, print)) as address:
        status, headers, body = fetch(f"{address}data?run=m-0&run=k-1")
        found = json.loads(body)
        expected = json.loads(json.dumps(to_json(read(Store.open(store), ["m-0", "k-1"]))))
        for game in (*found["games"], *expected["games"]):
            game["sections"] = [section for section in game["sections"] if section["id"] != "actions"]
        assert status == 200 and found["games"] == expected["games"] and found["listed"] == expected["listed"]
        assert fetch(f"{address}data?run=m-0&run=k-1", **{"If-None-Match": headers["etag"]})[0] == 304

        status, headers, body = fetch(address)
        policy = headers["content-security-policy"]
        assert status == 200 and policy.startswith("default-src 'none'; script-src 'self' 'sha256-")
        assert "unsafe-eval" not in policy and "frame-ancestors 'none'" in policy
        for name in ("uplot.js", "report.js", "uplot.css", "report.css"):
            assert fetch(f"{address}{name}")[0] == 200 and name.encode() in body

        key = found["games"][0]["matches"][0]["key"]
        status, _, body = fetch(f"{address}match?{urlencode({'key': key})}")
        assert status == 200 and json.loads(body)["match"]
        assert fetch(address, Host="evil.example")[0] == 400
        assert fetch(f"{address}data", method="POST")[0] == fetch(f"{address}data", method="PUT")[0] == 405
        assert fetch(f"{address}league.duckdb")[0] == fetch(f"{address}../league.duckdb")[0] == 404
        for words in ("data?run=nobody", "match?key=1", "match?" + urlencode({"key": '["m-0","evaluation",-1,0,0]'})):
            status, _, body = fetch(f"{address}{words}")
            assert status == 404 and json.loads(body)["error"]
    assert files_of(store) == before


def test_many_readers_are_one_reading(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is due, and while it is worked out again, all get what there is; it is due when the store changes."""
    clock, calls = [0.0], []
    monkeypatch.setattr(live, "read", lambda *given: calls.append(given) or read(*given))
    views = PageCache(store, print, lambda: clock[0])
    with ThreadPoolExecutor(8) as pool:
        first = list(pool.map(lambda _: views.view(["m-0"]), range(8)))
    assert len(calls) == 1 and len(set(map(id, first))) == 1
    clock[0] += LONGEST_SECONDS - 1
    assert views.view(["m-0"]) is first[0], "the store has not changed"
    opened = Filled.open(store)
    opened.add_event("m-0", 1, "alarm:seats", "one wins")
    opened.flush(force=True)
    with views._working:
        assert views.view(["m-0"]) is first[0], "another reader is at it"
    newer = views.view(["m-0"])
    assert len(calls) == 2 and newer.tag != first[0].tag and b"one wins" in newer.body
    clock[0] += LONGEST_SECONDS + 1
    assert views.view(["m-0"]).tag == newer.tag and len(calls) == 3, "read again, and the same"


def test_choices_in_turn_take_their_share_of_a_core(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """28 choices that nobody has made yet, one after the other, take 5 % of a core, and so do mistakes."""
    clock, found = [0.0], read(Store.open(store), ["m-0"])

    def busy(_: Store, names: tuple[str, ...], films: object) -> object:
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        if "nobody" in names:
            raise UsageError("no run `nobody`")
        return found

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(live, "read", busy)
    views = PageCache(store, print, lambda: clock[0] + time.process_time(), sleep)
    views.view([])
    began, begun = clock[0] + time.process_time(), time.process_time()
    for number in range(28):
        views.view([f"run-{number}"])
    for _ in range(5):
        with pytest.raises(UsageError):
            views.view(["nobody"])
    spent = time.process_time() - begun
    assert spent > 33 * 0.02
    assert spent / (views._free_at - began) <= live.SHARE * 1.05


def test_requests_beyond_those_that_wait_are_refused(store: Path) -> None:
    """While eight requests wait for the store, the ninth is refused, and not at once."""
    slept: list[float] = []
    views = PageCache(store, print, sleep=slept.append)
    with views._working, ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(views.view, [name]) for name in ("m-0", "m-1") * 4]
        while views._waiting < 8:
            time.sleep(0.01)
        with pytest.raises(StoreError, match="8 requests wait already; try again"):
            views.view(["k-1"])
        assert slept == [live.REFUSED_SECONDS], "a client that asks again at once waits, too"
        views._working.release()
        try:
            assert all(x.result() for x in asked)
        finally:
            views._working.acquire()


@pytest.mark.parametrize(("port", "words"), [(None, "pass another --port, or 0"), (70_000, "port=70000")])
def test_a_port_that_cannot_be_had_is_one_line(port: int | None, words: str, store: Path) -> None:
    """One in use, and one that is none."""
    with live._listening(0) as taken, pytest.raises(UsageError, match=words):
        serve(port=taken.getsockname()[1] if port is None else port, store=store)


@needs_chromium
@pytest.mark.slow
def test_the_live_page_in_chromium(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It draws what is there, plays a match, follows the store while it is looked at, and the console is silent."""
    monkeypatch.setattr(live, "LEAST_SECONDS", 0.5)
    monkeypatch.setattr(live, "SHARE", 1e6)
    with served(PageCache(store, print)) as address, browser(1280, 900) as driver:
        driver.get(address)
        drawn(driver)
        play_a_match(driver)
        opened = Filled.open(store)
        opened.add_event("m-0", 1, "alarm:seats", "seen while it ran")
        opened.flush(force=True)
        wait_for(driver, "document.body.textContent.includes('seen while it ran')", 120)
        driver.execute_script(
            "document.querySelector('#runs input[value=\"m-1\"]').checked = false;"
            "document.querySelector('#runs button').click()"
        )
        wait_for(driver, "document.querySelector('#picker summary').textContent === 'Runs: 2 of 3 shown'", 120)
        assert driver.title == "k-1, m-0 - league, live"
        time.sleep(0.5)
        assert driver.get_log("browser") == []
