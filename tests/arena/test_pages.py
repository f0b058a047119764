"""The player in the browser: one page that needs nothing else, shows what was played, and obeys no name."""

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import config
from league.arena import pages, raster
from league.arena.frames import Course, Insights, chances_of, course_of, marks_of, rows_of
from league.arena.networks import make_policy
from league.arena.replays import Playback, parse
from league.commands.look import BUNDLED
from league.envs import Match, registry
from league.envs.drawing import Drawing, to_json
from league.errors import LeagueError, UsageError
from league.play.recording import FORMAT, body_hash
from league.policies.insight import look
from league.types import ActionSpec
from tests.arena.test_replays import GAMES, random_match
from tests.helpers import processes
from tests.helpers.browser import browser, needs_chromium, wait_for
from tests.helpers.refusals import refusal
from tests.helpers.sizes import SMALL

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[2J$policy"


def made(game: str, seed: int = 1, *, thinks: bool = False) -> tuple[Playback, Course]:
    """A match of random play and its course, with the thoughts of an untrained net in seat 0 if wanted."""
    playback = Playback(parse(random_match(game, seed)[0], "f"), "f")
    nets = {}
    if thinks:
        torch.manual_seed(0)
        nets = {0: (make_policy(config.load(env=game, overrides=SMALL), playback.spec), 1.0)}
    return playback, course_of(playback, Insights(nets))


@pytest.mark.parametrize("game", GAMES)
def test_each_game_of_ours_gives_its_shapes(game: str) -> None:
    """Every moment has a drawing with shapes in view; none of their numbers is none."""
    playback, course = made(game)
    assert len(course.frames) == playback.replay.steps
    for frame in course.frames:
        assert isinstance(frame, Drawing) and frame.shapes
        left, top, right, bottom = frame.view
        assert left < right and top != bottom
        for shape in frame.shapes:
            assert np.isfinite(shape.points).all() and to_json(shape)[0] in range(4)


@pytest.mark.parametrize("game", ["brawl", "cards", "matrix"])
def test_what_is_shown_of_a_net_is_what_it_played_by(game: str) -> None:
    """Its value is that of `step`, its attention a distribution over the past, its chances those it draws from."""
    settings = config.load(env=game, overrides=SMALL)
    spec = registry.spec(game, settings.env.options)
    torch.manual_seed(1)
    policy: Any = make_policy(settings, spec)
    playback = Playback(parse(random_match(game, 2)[0], "f"), "f")
    seen, own = policy.initial_state(400), policy.initial_state(1)
    checked = 0
    for moment in playback.moments():
        if not moment.deciding[0] or moment.step > 35:
            continue
        batch = moment.batch
        obs = torch.from_numpy(batch.obs[:, 0].copy())
        mask = None if batch.mask is None else torch.from_numpy(batch.mask[:, 0].copy())
        insight = look(policy, obs, own, mask)
        rows = obs.expand(400, -1), None if mask is None else mask.expand(400, -1)
        action, _, value = policy.step(rows[0], seen, mask=rows[1], generator=torch.Generator().manual_seed(checked))
        assert insight.value == pytest.approx(float(value[0]), abs=1e-5)
        played = np.mean([marks_of(spec.action, one) for one in action.numpy().astype(spec.action.dtype)], 0)
        assert chances_of(spec.action, insight) == pytest.approx(played, abs=0.12)
        if policy.encoder is not None:
            checked += 1
            assert sum(insight.attention) == pytest.approx(1, abs=1e-5)
            assert len(insight.attention) == min(checked, policy.architecture.history_tokens)


def test_actions_of_every_kind_have_a_row_each() -> None:
    """Keys, choices, real numbers and legal tuples: as many names as marks, and the played one is marked."""
    keys = ActionSpec("multi_binary", (2, 2))
    aim = ActionSpec("box", bounds=((-1.0, 1.0),))
    both = ActionSpec("mixture", parts=(keys, ActionSpec("multi_discrete", (3,)), aim))
    assert marks_of(both, np.array([1, 0, 2, 0.5])) == [1, 0, 0, 0, 1, 0.75]
    assert rows_of(both, ()) == ["key 0", "key 1", "2: 0", "2: 1", "2: 2", "number 3"]
    card = ActionSpec("legal_tuples", (3, 10), max_tuples=4)
    assert marks_of(card, np.array([1, 7])) == [0, 1, 0] and rows_of(card, ("a", "b", "c")) == ["a", "b", "c"]


def content(page: str) -> dict[str, Any]:
    """What a page's script is given."""
    found = re.search(r'id="match">([A-Za-z0-9+/=]*)</script>', page)
    assert found is not None
    return dict(json.loads(zlib.decompress(base64.b64decode(found[1]))))


def test_a_page_is_whole_and_allows_itself_alone() -> None:
    """No address of anything else is in it; its policy names its one script and one style by their hashes."""
    playback, course = made("matrix")
    page = pages.page(pages.document(playback.replay, course), "a match")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|eval\(|innerHTML|new Function", page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None and policy[1].startswith("default-src 'none'; ") and "unsafe" not in policy[1]
    for tag in ("script", "style"):
        text = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(text) == 1
        digest = base64.b64encode(hashlib.sha256(text[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy[1]
    assert len(content(page)["frames"]["list"]) == playback.replay.steps


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """Names with markup, escapes and placeholders stand in a page as data, and in its title escaped."""
    text, _ = random_match("matrix", 1)
    replay = parse(text, "f")
    seats = [seat.model_copy(update={"name": HOSTILE}) for seat in replay.seats]
    replay = replay.model_copy(update={"seats": seats})
    course = course_of(Playback(replay, "f"))
    page = pages.page(pages.document(replay, course), HOSTILE)
    assert page.count("</script>") == 2 and "<img" not in page and "&lt;img" in page
    assert "\x1b" not in content(page)["seats"][0]["name"]
    hostile = tmp_path / "hostile.replay"
    body = replay.model_dump(mode="json")
    for seat in body["seats"]:
        seat["name"] = "a\nb" + HOSTILE
    hostile.write_text(json.dumps({"format": FORMAT, "sha256": body_hash(body), "match": body}))
    for kind in ("gif", "html"):
        assert league.watch(str(hostile), None, tmp_path / f"a.{kind}").pictures == replay.steps


class Painted(Match):
    """A game that draws itself as a picture."""

    action, obs_size = 2, 1

    def reset(self, rng: np.random.Generator) -> None:
        self.left = 5

    def observe(self, seat: int) -> Any:
        return [0.5]

    def step(self, actions: tuple[Any, Any]) -> None:
        self.left -= 1
        if not self.left:
            self.end(None)

    def render(self) -> Any:
        return np.full((40, 60, 3), 40 * self.left, np.uint8)


class Told(Painted):
    """A game without any drawing."""

    render = Match.render


@pytest.mark.parametrize(("kind", "how"), [(Painted, "pictures"), (Told, "words")])
def test_any_game_is_shown(kind: type[Match], how: str, tmp_path: Path) -> None:
    """One with pictures by these, one without anything by what its seats see."""
    film = league.watch("bot:random", "bot:random", tmp_path / "a.html", env=kind)
    frames = content((tmp_path / "a.html").read_text())["frames"]
    assert frames["kind"] == how and len(frames["list"]) == film.pictures == 5
    assert frames["list"][0].startswith("data:image/webp" if how == "pictures" else "step 0")


@pytest.mark.parametrize("thing", [None, 5, ValueError("no ink\nleft")])
def test_a_drawing_that_is_none_is_one_line(thing: object, tmp_path: Path) -> None:
    """With what was given in its place, or what its code raised; nothing is written."""

    def drawing(self: Match, seat: int | None = None) -> Any:
        if isinstance(thing, Exception):
            raise thing
        return thing

    odd = type("Odd", (Painted,), {"drawing": drawing})
    said = refusal(lambda: league.watch("bot:random", "bot:random", tmp_path / "a.html", env=odd))
    assert re.search(r"game odd: (its drawing fails|drawing\(\)) at step 0: ", said) and not list(tmp_path.iterdir())
    assert "a match has two" in refusal(lambda: league.watch("bot:random", None, tmp_path / "a.html"))


@needs_chromium
@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (400, 860)], ids=["desktop", "phone"])
def test_the_player_plays(width: int, height: int, tmp_path: Path) -> None:
    """In Chromium: the page loads, its canvas is drawn, scrubbing and playing change it, the console is silent."""
    playback, course = made("brawl", thinks=True)
    path = tmp_path / "match.html"
    pages.save(pages.document(playback.replay, course, boxes=True), "a match", path)
    ink = "document.getElementById('picture').toDataURL()"
    with browser(width, height) as page:
        page.get(path.as_uri())
        wait_for(page, "document.body.dataset.ready === 'yes'")
        first = page.execute_script(f"return {ink}")
        colours = page.execute_script(
            "const c = document.getElementById('picture');"
            "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
            "const s = new Set(); for (let i = 0; i < d.length; i += 400) s.add(d[i] + ',' + d[i + 1]); return s.size"
        )
        assert colours > 10
        page.execute_script(
            "const s = document.getElementById('scrub'); s.value = '60'; s.dispatchEvent(new Event('input'))"
        )
        assert page.execute_script("return document.body.dataset.step") == "60"
        assert page.execute_script(f"return {ink}") != first
        boxed = page.execute_script(f"return {ink}")
        page.execute_script("document.getElementById('boxes').click()")
        assert page.execute_script(f"return {ink}") != boxed
        page.execute_script("document.getElementById('speed').value = '4'; document.getElementById('play').click()")
        wait_for(page, "Number(document.body.dataset.step) > 70")
        page.execute_script("document.getElementById('play').click()")
        assert page.execute_script("return document.body.dataset.playing") == "no"
        assert page.execute_script("return document.querySelectorAll('#seat0 canvas').length") == 3
        wide = page.execute_script("return document.documentElement.scrollWidth")
        assert wide <= page.execute_script("return document.documentElement.clientWidth")
        assert page.get_log("browser") == []


# Films


def frames_of(path: Path) -> tuple[int, tuple[int, int], np.ndarray[Any, Any]]:
    """How many pictures a video has, its size, and one of its middle."""
    import imageio_ffmpeg

    count, _ = imageio_ffmpeg.count_frames_and_secs(str(path))
    reader = imageio_ffmpeg.read_frames(str(path))
    wide, high = next(reader)["size"]
    pictures = [np.frombuffer(data, np.uint8).reshape(high, wide, 3) for data in reader]
    return count, (wide, high), pictures[len(pictures) // 2]


def test_a_film_shows_what_was_drawn(tmp_path: Path) -> None:
    """Both have 20 pictures a second, the video holds its end for a second; they show the same."""
    from PIL import Image

    for kind in ("mp4", "gif"):
        film = league.watch("bot:based", "bot:rusher", tmp_path / f"a.{kind}", seconds=2, seed=3, env="brawl")
        assert film.pictures == 40 and film.seconds == 2
    count, size, middle = frames_of(tmp_path / "a.mp4")
    assert count == 60 and size == (960, 540)
    with Image.open(tmp_path / "a.gif") as gif:
        gif.seek(30)
        small = np.asarray(gif.convert("RGB").resize((96, 54)), float)
    large = np.asarray(Image.fromarray(middle).resize((96, 54)), float)
    assert np.abs(small - large).mean() < 6 and large.std() > 20


def test_films_move_smoothly_between_decisions() -> None:
    """A picture between two drawings is neither of them; a shape that jumped, or is of another kind, does not glide."""
    a, b = Drawing((0, 0, 10, 10)), Drawing((2, 0, 12, 10))
    with a.within("x"):
        a.oval((1.0, 1.0), (1.0, 1.0), (255, 0, 0))
        a.oval((1.0, 1.0), (1.0, 1.0), (255, 0, 0))
    with b.within("x"):
        b.oval((2.0, 1.0), (1.0, 1.0), (255, 0, 0))
        b.oval((9.0, 1.0), (1.0, 1.0), (255, 0, 0))
    middle = raster.between(a, b, 0.5)
    assert middle.view == (1, 0, 11, 10)
    assert [shape.points[0] for shape in middle.shapes] == [1.5, 1.0]


def test_without_ffmpeg_a_video_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is played, with what to install and what else there is."""
    import imageio_ffmpeg

    def missing() -> str:
        raise RuntimeError("No ffmpeg exe could be found")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", missing)
    with pytest.raises(UsageError, match=r"needs ffmpeg, .*pip install imageio-ffmpeg.*--out FILE\.gif"):
        league.watch("bot:based", "bot:rusher", tmp_path / "a.mp4", env="brawl")
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: "/bin/false")
    with pytest.raises(LeagueError, match=r"ffmpeg failed"):
        league.watch("bot:based", "bot:rusher", tmp_path / "a.mp4", seconds=0.2, env="brawl")
    assert not list(tmp_path.iterdir())


def test_values_are_shown_in_the_games_units() -> None:
    """What a net expects is multiplied by the size of the returns that it was trained with."""
    playback = Playback(parse(random_match("matrix", 1)[0], "f"), "f")
    torch.manual_seed(0)
    net = make_policy(config.load(env="matrix", overrides=SMALL), playback.spec)
    plain, large = (course_of(playback, Insights({0: (net, size)})) for size in (1.0, 50.0))
    values = [[both[0].value for both in course.insights if both[0]] for course in (plain, large)]
    assert any(values[0]) and values[1] == pytest.approx([50.0 * x for x in values[0]])


@pytest.mark.slow
def test_the_demo_is_a_match_of_the_agents_that_come_with_league(tmp_path: Path) -> None:
    """In a folder without a store: ten seconds, two agents of under 2 MB, and three commands to go on."""
    done = processes.run("demo", "--out", tmp_path / "m.html", "--store", tmp_path / "none", cwd=tmp_path)
    assert done.returncode == 0 and "demo@1003520 against demo@51200" in done.stdout
    assert [line.split()[2] for line in done.stderr.splitlines() if line.startswith("next:")] == [
        "train",
        "leaderboard",
        "report",
    ]
    assert (tmp_path / "m.html").exists() and not (tmp_path / "none").exists()
    assert sum(path.stat().st_size for path in BUNDLED.rglob("*")) < 2e6
