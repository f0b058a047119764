"""The report: what the store has, in one page that needs no network and runs nothing but its own scripts."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import league
from league import config as settings
from league.boards.payoff import payoffs
from league.boards.standings import leaderboard
from league.errors import LeagueError, UsageError
from league.faces import live, pages
from league.faces import report as reports
from league.faces.live import serve
from league.faces.report import MAX_BYTES, report
from league.store.rows import GameRow
from league.store.store import Store
from tests.helpers.browser import browser, needs_chromium, wait_for
from tests.helpers.faces import HOSTILE, content, make_runs
from tests.helpers.games import new_user
from tests.helpers.sizes import TINY
from tests.helpers.stores import empty_store, files_of, make_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store to be shown, which nobody may change."""
    return make_runs(tmp_path_factory.mktemp("faces"))


@pytest.fixture(scope="module")
def page(store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its report."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    before = files_of(store)
    done = report(out=out, store=store)
    assert files_of(store) == before, "a report writes nothing into the store"
    assert done.runs == ("m-0", "m-1", "k-1") and done.matches > 2
    assert done.num_bytes == out.stat().st_size < MAX_BYTES
    one = league.report("k-1", out.with_name("one.html"), matches=0, store=store)
    assert one.runs == ("k-1",) and Path(one.path).is_file()
    return out


def test_a_report_has_what_the_store_has(store: Path, page: Path) -> None:
    """Ratings, payoffs, figures of learning and commands are those that other commands print."""
    found, opened = content(page.read_text(encoding="utf-8")), Store.open(store)
    matrix, kuhn = found["games"]
    assert [line["members"] for line in matrix["lines"]] == [["m-0", "m-1"]] and kuhn["lines"][0]["members"] == ["k-1"]
    sections = {section["id"]: section["panels"] for section in matrix["sections"]}
    assert {"strength", "opponents", "learning", "actions", "behaviour", "seats"} <= sections.keys()

    rated = {x.name: x for x in leaderboard(opened, game_id=matrix["game_id"]).entries}
    [strength] = sections["strength"]
    own, middle = strength["series"][0], strength["series"][-1]
    assert own["y"] == [rated[f"m-0@{step}"].rating for step in own["x"]] and own["faint"]
    assert middle["name"].endswith("(2 seeds): mean") and middle["low"][0] == min(
        x["y"][0] for x in strength["series"][:2]
    )

    table = next(x for x in payoffs(opened) if x.game_id == matrix["game_id"])
    index = {row.name: i for i, row in enumerate(table.rows)}
    names = [name if name in index else HOSTILE for name in matrix["map"]["names"]]
    assert len(names) == len(index)
    for i, a in enumerate(names):
        for j, b in enumerate(names):
            assert matrix["map"]["score"][i][j] == table.score[index[a]][index[b]]
            assert matrix["map"]["games"][i][j] == table.games[index[a]][index[b]]

    sql = "SELECT steps, value FROM metric WHERE run = 'k-1' AND name = 'entropy' ORDER BY steps"
    [entropy] = [p for s in kuhn["sections"] for p in s["panels"] if p["title"] == "entropy, nats"]
    assert list(zip(entropy["series"][0]["x"], entropy["series"][0]["y"], strict=True)) == opened.query(sql)[1]
    assert entropy["healthy"] == [0.05 * max(entropy["series"][0]["y"]), max(entropy["series"][0]["y"])]


def test_its_command_makes_the_same_run(store: Path, page: Path) -> None:
    """Settings and fingerprint of what the command says are those of the run, but for where it is trained."""
    for game in content(page.read_text(encoding="utf-8"))["games"]:
        for run in game["runs"]:
            words = shlex.split(run["made"]["command"])
            options = dict(zip(words[2::2], words[3::2], strict=True))
            sets = [value for name, value in zip(words[2::2], words[3::2], strict=True) if name == "--set"]
            again = settings.load(options["--stage"], env=options["--env"], overrides=sets)
            row = Store.open(store).find_run(run["run"])
            options_of = settings.from_json(json.loads(row.config)).env.options
            again = settings.with_options(again, options_of)
            assert settings.fingerprint(again) == row.fingerprint == run["fingerprint"]
            assert int(options["--seed"]) == row.seed and options["--run"] == row.run


def test_a_page_runs_its_own_scripts_alone(page: Path) -> None:
    """Its policy has no `unsafe-eval` and no address; a name from outside is text wherever it is."""
    text = page.read_text(encoding="utf-8")
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert "unsafe-eval" not in policy and "http" not in policy and "'self'" not in policy
    assert (
        policy.startswith("default-src 'none'; script-src 'sha256-")
        and "unsafe-inline" not in policy.split("; style")[0]
    )
    own = text.replace(pages.part("uplot.js"), "")
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", own)
    assert "onerror" not in own and any(
        name.startswith("</script>") for name in content(text)["games"][0]["map"]["names"]
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"runs": ["m-9"]}, "no run `m-9`"),
        ({"out": "there.html"}, "is there already"),
        ({"matches": -1}, "matches=-1"),
        ({"store": "none"}, "no run to report on yet; make one with `league train"),
        ({"store": "begun"}, "a: no update is made yet"),
    ],
)
def test_bad_input_is_one_line(
    given: dict[str, Any], words: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it is, and what to do; nothing is written."""
    monkeypatch.chdir(tmp_path)
    Path("there.html").write_text("mine")
    empty_store(Path("none")).add_game(GameRow("g"))
    empty_store(Path("begun")).begin_run(make_run())
    before = sorted(tmp_path.iterdir())
    with pytest.raises(LeagueError, match=re.escape(words)):
        report(**{"store": store, **given})
    assert sorted(tmp_path.iterdir()) == before and Path("there.html").read_text() == "mine"


def test_the_live_page_names_its_extra(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a server `league serve` says what to install."""
    monkeypatch.setattr(live, "find_spec", lambda name: None)
    words = "needs starlette and uvicorn; run pip install 'league-engine[serve]'"
    with pytest.raises(UsageError, match=re.escape(words)):
        serve(store=store)


def test_it_has_no_more_matches_than_fit(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no room for another match the page is written without it, which is said."""
    said: list[str] = []
    empty = report(out=tmp_path / "none.html", matches=0, store=store)
    monkeypatch.setattr(reports, "MAX_BYTES", empty.num_bytes + 4_000)
    done = report(out=tmp_path / "some.html", store=store, say=said.append)
    assert 0 < done.matches < 12 and done.num_bytes <= empty.num_bytes + 4_000
    assert any("matches fit into" in line for line in said)


def test_matches_that_are_left_out_for_one_reason_are_a_line(tmp_path: Path) -> None:
    """Those of a game that this user has not named."""
    game = Path(__file__).resolve().parents[2] / "examples" / "units.py"
    said: list[str] = []
    with new_user(tmp_path / "owner"):
        league.train("smoke", env=game, overrides=(*TINY, "run.replays=4"), store=tmp_path / "s", callback=())
    with new_user(tmp_path / "other"):
        assert report(out=tmp_path / "x.html", store=tmp_path / "s", say=said.append).matches == 0
    assert len([line for line in said if line.startswith("a kept match is left out: ")]) == 1, said


# In Chromium


def drawn(driver: Any) -> None:
    """Every figure has its axes and something in them, nothing is wider than the page, and the console is silent."""
    wait_for(driver, "document.body.dataset.ready === 'yes' && document.querySelector('.plot canvas')", 120)
    inked = (  # axes are grey, and the healthy band is pale
        "const inked = (canvas) => {"
        " const dots = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        " for (let i = 0; i < dots.length; i += 4) if (dots[i + 3] > 120 && Math.max(...dots.slice(i, i + 3)) -"
        " Math.min(...dots.slice(i, i + 3)) > 60) return true; return false; };"
        "return [...document.querySelectorAll('.plot:not(.bars)')].filter((x) => !x.querySelector('canvas') ||"
        " !inked(x.querySelector('canvas'))).map((x) => x.parentNode.textContent)"
    )
    assert driver.execute_script(inked) == []
    assert driver.execute_script("return document.querySelectorAll('.bars .fill').length") > 2
    assert driver.execute_script("return document.querySelectorAll('#games table.map td[data-tip]').length") > 8
    assert driver.execute_script("return document.querySelectorAll('.plot').length") > 12
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert driver.execute_script(f"return {wide}")
    assert driver.execute_script("return document.title") != "harmed"
    assert driver.execute_script("return document.querySelectorAll('img, a[href^=\"javascript\"]').length") == 0
    assert driver.get_log("browser") == []


def play_a_match(driver: Any) -> None:
    """A click on a button opens the player, which is ready."""
    driver.execute_script("document.querySelectorAll('details').forEach((x) => { x.open = true; })")
    driver.execute_script("document.querySelector('button.play').click()")
    inner = "(document.getElementById('screen').contentDocument || {}).body"
    wait_for(driver, f"{inner} && {inner}.dataset.ready === 'yes'", 120)
    assert driver.execute_script(f"return {inner}.querySelectorAll('canvas').length > 0")
    driver.execute_script("document.getElementById('close').click()")


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_the_report_in_chromium(width: int, height: int, page: Path) -> None:
    """It loads, its figures are drawn, a match plays, text is not run as code, and the console is silent."""
    with browser(width, height) as driver:
        driver.get(page.as_uri())
        drawn(driver)
        play_a_match(driver)
        table = "document.querySelector('[data-key=\"board\"] table')"
        assert driver.execute_script(f"return {table}.closest('details') === null && {table}.clientHeight > 100")
        driver.execute_script("document.querySelector('table.map button').click()")
        wait_for(driver, "document.getElementById('player').open")
        driver.execute_script("document.getElementById('close').click()")
        over = (
            "const over = document.querySelector('[data-key=\"strength\"] .u-over');"
            "const box = over.getBoundingClientRect();"
            "for (let x = 0; x < box.width && document.getElementById('tip').hidden; x += 8)"
            " for (let y = 0; y < box.height && document.getElementById('tip').hidden; y += 8)"
            " over.dispatchEvent(new MouseEvent('mousemove', { clientX: box.left + x, clientY: box.top + y }));"
        )
        driver.execute_script(over)
        wait_for(driver, "/ at step /.test(document.getElementById('tip').textContent)")
        assert driver.get_log("browser") == []
        run = "const s = document.createElement('script'); s.textContent = 'document.title = \"run\"';"
        driver.execute_script(f"{run} document.body.append(s)")
        assert driver.execute_script("return document.title") == "m-0, m-1, k-1 - league report", "the policy holds"
