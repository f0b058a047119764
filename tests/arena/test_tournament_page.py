"""The page of a tournament shows what the result holds, in a browser at the widths of a desk and of a phone."""

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from league.arena.tournament_page import page, save
from league.arena.tournament_results import TournamentResult
from league.arena.tournaments import tournament
from tests.helpers.browser import browser, needs_chromium
from tests.helpers.commands import call, need_refusal

BOTS = ["bot:constant", "bot:random", "bot:biased"]


@pytest.fixture(scope="module")
def result() -> TournamentResult:
    """A double elimination without a store."""
    return tournament(BOTS, env="matrix", device="cpu", store="nowhere", games=4, format="double-elimination")


def cells(text: str) -> list[list[str]]:
    """The words of each row of each table."""
    rows = re.findall(r"<tr>(.*?)</tr>", text, re.S)
    return [
        [unescape(re.sub(r"<[^>]+>", " ", x)).strip() for x in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows
    ]


def test_the_page_has_standings_bracket_and_meetings(result: TournamentResult) -> None:
    """Each number is the result's; a grid's cell and the one across the diagonal add up to nothing in this game."""
    text = page(result)
    rows = cells(text)
    for s in result.standings:
        assert [str(s.rank), s.name] in [row[:2] for row in rows] and f"{s.rating:.3f}" in text
    assert text.count('<div class="match">') == len(result.bracket)
    assert f"<b>{result.bracket[-1].winner}</b> wins" in text
    (e, *_) = [e for e in result.encounters if e.payoff is not None]
    assert e.payoff is not None
    grid = {row[0].rpartition(" ")[0]: row[1:] for row in rows[-len(BOTS) :]}
    at = {s.name: place for place, s in enumerate(result.standings)}
    assert grid[e.a][at[e.b]].split() == [f"{e.payoff.mean:+.3f}", str(e.games)]
    assert grid[e.b][at[e.a]].split() == [f"{-e.payoff.mean:+.3f}", str(e.games)]


def test_names_are_words_and_forfeits_are_shown(result: TournamentResult) -> None:
    """A name of markup is shown as it is written; a column of forfeits is there where somebody forfeited."""
    first, *others = result.standings
    text = page(replace(result, standings=(replace(first, name="<b>x", forfeits=3), *others)))
    assert "&lt;b&gt;x" in text and "<b>x" not in text and "<th>forfeits</th>" in text
    assert "forfeits" not in page(result) and "<script" not in page(result)


def test_a_command_writes_it_and_refuses_a_file_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is played where the page could not be written."""
    monkeypatch.chdir(tmp_path)
    given = ["tournament", *BOTS, "--env", "matrix", "--games", "2", "--out", "t.html"]
    call(*given)
    assert "Who met whom" in (tmp_path / "t.html").read_text()
    need_refusal(call(*given, "--json"), 2, "t.html: is there already")


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize("width", [1280, 400])
def test_it_fits_into_a_browser(width: int, result: TournamentResult, tmp_path: Path) -> None:
    """No word of the browser about the content policy, and nothing but tables and brackets scrolls sideways."""
    save(result, tmp_path / "t.html")
    with browser(width, 900) as driver:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get((tmp_path / "t.html").as_uri())
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert driver.execute_script("return getComputedStyle(document.querySelector('.match')).borderRadius") == "7px"
        assert driver.get_log("browser") == []
