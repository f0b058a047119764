"""Pictures of brawl, and `league watch`: what is drawn where, in any state, into files."""

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import league
import league.arena.film
from league.arena.raster import picture
from league.cli import main
from league.envs import registry
from league.envs.brawl import env
from league.envs.brawl.drawing import drawing
from league.envs.brawl.moves import IDS, STRIKES, WEAPONS
from league.envs.brawl.rules import BrawlRules
from league.envs.brawl.state import AIR, GROUND, STATE_DTYPE
from league.envs.drawing import HUD_SIZE
from league.errors import UsageError
from league.printing.answers import print_film

RULES = BrawlRules()
SIZE = (640, 360)
JAB = IDS["unarmed.side_light"]
SPEAR, HAMMER = WEAPONS.index("spear"), WEAPONS.index("hammer")


def record(*changes: dict[str, Any], **match: Any) -> Any:
    """Two fighters who stand at x = -4 and x = 4 and face each other, but for `changes` of each."""
    state = np.zeros((), STATE_DTYPE)
    for seat, side in enumerate((-1, 1)):
        fighter = {"x": 4.0 * side, "facing": -side, "side": side, "support": GROUND, "stocks": 3, "move": -1}
        for name, value in (fighter | (changes[seat] if seat < len(changes) else {})).items():
            state["fighters"][seat][name] = value
    for name, value in ({"platform_y": 0.5, "platform_direction": 1.0} | match).items():
        state[name] = value
    return state[()]


STAGE = drawing(record({"respawn": 1}, {"respawn": 1}), RULES).view
"""What is seen while nobody is there: all of it."""
SCALE = SIZE[0] / (STAGE[2] - STAGE[0])
"""Pixels of a unit."""


def draw(*changes: dict[str, Any], boxes: bool = False, **match: Any) -> np.ndarray[Any, Any]:
    """The picture of `record(*changes, **match)` by a camera that shows the whole stage."""
    seen = drawing(record(*changes, **match), RULES)
    seen.view = STAGE
    return picture(seen, SIZE, boxes=boxes)


def area(shown: np.ndarray[Any, Any], low: tuple[float, float], high: tuple[float, float]) -> np.ndarray[Any, Any]:
    """The part of a picture between two corners in the world's units."""
    (left, bottom), (right, top) = (((x - STAGE[0]) * SCALE, (STAGE[1] - y) * SCALE) for x, y in (low, high))
    return shown[max(0, int(top)) : int(bottom) + 1, max(0, int(left)) : int(right) + 1]


def changed(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[float, float, float, float]:
    """The least and the greatest x, then y, in units, of what differs between two pictures."""
    rows, columns = np.nonzero((a != b).any(axis=2))
    assert len(rows), "nothing differs"
    x, y = columns / SCALE + STAGE[0], STAGE[1] - rows / SCALE
    return x.min(), x.max(), y.min(), y.max()


def count(shown: np.ndarray[Any, Any], colour: Any) -> int:
    """The pixels of nearly this colour."""
    return int((np.abs(shown.astype(int) - colour[:3]).max(axis=2) < 12).sum())


@pytest.mark.parametrize(
    ("change", "low", "high"),
    [
        ({"weapon": SPEAR, "weapon_left": 300}, (-4.0, 1.6), (-2.0, 3.5)),
        ({"weapon": HAMMER, "weapon_left": 300}, (-4.0, 1.2), (-2.0, 3.0)),
        ({"stun": 9}, (-5.0, 1.6), (-3.0, 2.3)),
        ({"invulnerable": 9}, (-5.1, 0.5), (-4.8, 1.5)),
        ({"dodge": 9}, (-4.4, 0.0), (-3.6, 1.6)),
        ({"dash": 5, "direction": 1, "vx": 10.0}, (-6.5, 0.2), (-4.6, 1.5)),
        ({"move": JAB, "move_tick": 1}, (-5.2, 0.0), (-4.4, 1.6)),
        ({"move": JAB, "move_tick": 5}, (-3.5, 0.4), (-2.0, 1.2)),
        ({"move": JAB, "move_tick": 8}, (-4.4, 0.0), (-3.0, 1.6)),
        ({"move": IDS["unarmed.side_heavy"], "move_tick": 9, "charge": 20}, (-5.3, 0.2), (-4.8, 2.0)),
        ({"move": IDS["unarmed.taunt"]}, (-3.8, 1.6), (-2.0, 2.6)),
        ({"vx": 7.5}, (-4.6, 0.0), (-3.4, 1.6)),
    ],
)
def test_each_state_shows_in_its_place(change: dict[str, Any], low: Any, high: Any) -> None:
    """Weapons, stun, protection, dodge, dash, the parts of a blow, charge, taunt and run are seen."""
    assert (area(draw(), low, high) != area(draw(change), low, high)).any(axis=2).sum() > 10
    assert changed(draw(), draw(change))[1] < 0, "the other half of the picture changed"


def test_boxes_are_an_option() -> None:
    """The layer `boxes` outlines the body and an active hit box; a start-up's box is broken, a spent one gone."""
    red, green = (222, 60, 60), (90, 230, 120)

    def pixels(tick: int, hit: int, colour: Any) -> int:
        shown = draw({"move": JAB, "move_tick": tick, "move_hit": hit}, boxes=True)
        return count(area(shown, (-5.2 if colour == green else -3.4, 0.0), (-1.5, 2.0)), colour)

    active, startup, spent = (pixels(*when, red) for when in ((5, 0), (1, 0), (5, 1)))
    assert active > startup > 10 and spent == 0
    assert pixels(5, 0, green) > 20
    assert count(area(draw({"move": JAB, "move_tick": 5}), (-5.2, 0.0), (-1.5, 2.0)), green) == 0


def panel(shown: np.ndarray[Any, Any], seat: int) -> np.ndarray[Any, Any]:
    """The part of a picture in which a seat's panel lies."""
    wide, high = round(34 * SIZE[0] / HUD_SIZE[0]), round(21 * SIZE[1] / HUD_SIZE[1])
    return shown[:high, :wide] if seat == 0 else shown[:high, -wide:]


def test_panels_belong_to_seats() -> None:
    """Seat 0 is on the left wherever it fights; names, clock, items and the platform show in their places."""
    swapped = draw({"x": 4.0, "facing": -1, "side": 1}, {"x": -4.0, "facing": 1, "side": -1})
    assert all(np.array_equal(panel(draw(), seat), panel(swapped, seat)) for seat in (0, 1))
    for change in ({"damage": 87.0}, {"stocks": 2}, {"stun": 20}, {"weapon": SPEAR, "weapon_left": 300}):
        assert (panel(draw(change), 0) != panel(draw(), 0)).any() and np.array_equal(
            panel(draw(change), 1), panel(draw(), 1)
        )

    def named(*names: str) -> np.ndarray[Any, Any]:
        return picture(drawing(record(), RULES), SIZE, names=(names[0], names[1]))

    plain = named("", "")
    assert (panel(named("someone", ""), 0) != panel(plain, 0)).any()
    assert np.array_equal(panel(named("someone", ""), 1), panel(plain, 1))
    assert np.array_equal(named("some\n one", ""), named("some one", ""))
    left, right, low, _ = changed(draw(), draw(tick=400))
    assert -2 < left < right < 2 and low > 7
    items = np.zeros(2, STATE_DTYPE["items"].base)
    items[1] = (6.0, 450, HAMMER, 200)
    left, right, low, high = changed(draw(), draw(items=items))
    assert 4.5 < left < right < 7.5 and -0.4 < low < high < 2
    left, right, _, _ = changed(draw(), draw(platform_y=-2.0))
    assert -1.6 < left < right < 1.6


def test_any_state_is_drawn() -> None:
    """Random play, long and odd names, each strike, the greatest values: no picture fails, and few are alike."""
    batch = registry.make("brawl", rows=8, threads=1, options={"stocks": 9, "time_limit_seconds": 20.0})
    batch.controllers[:] = np.arange(16).reshape(8, 2) % len(batch.spec.bots)
    batch.reset(5)
    seen = set()
    for step in range(60):
        batch.step()
        for row in range(8):
            shown = picture(env.drawing(batch, row), (240, 135), boxes=step % 2 == 0, names=("n" * 99, "a\nb \u2603"))
            seen.add(shown.tobytes())
    assert len(seen) > 400
    for move, strike in enumerate(STRIKES):
        for tick in {0, strike.startup, max(0, strike.ticks - 1)}:
            state = record({"move": move, "move_tick": tick, "weapon": move % 3, "charge": 99})
            picture(drawing(state, RULES), (160, 90))
    far = {"x": 1e6, "y": -1e6, "damage": 1e6, "vx": -1e6, "support": AIR, "weapon_left": 1 << 30, "weapon": SPEAR}
    state = record(far, far | {"x": 0.0, "stun": 1 << 30}, tick=1 << 30)
    assert picture(drawing(state, replace(RULES, stocks=9)), (160, 90)).any()


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `league watch bot:based --against bot:rusher --quiet ARGUMENTS`: its exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        words = ["league", "watch", "bot:based", "--against", "bot:rusher", "--quiet", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as exit_:
            main()
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return run


def test_watch_writes_a_film(call: Any, tmp_path: Path) -> None:
    """A GIF of 20 pictures a second that differ, at their pace; the same seed gives the same file."""
    from PIL import Image

    films = [tmp_path / "a.gif", tmp_path / "b.gif"]
    for film in films:
        code, out, err = call("--out", film, "--seconds", 2, "--seed", 4, "--boxes")
        assert (code, err) == (0, "") and "bot:based against bot:rusher, seed 4, the first 2.0 s of " in out
    assert films[0].read_bytes() == films[1].read_bytes()
    with Image.open(films[0]) as film:
        assert (film.size, film.info["duration"]) == ((560, 315), 50)
        assert 36 <= film.n_frames <= 40  # equal ones are one that is shown for longer
        pictures = []
        for i in range(film.n_frames):
            film.seek(i)
            pictures.append(np.asarray(film.convert("RGB")))
        assert film.info["duration"] >= 1000
    assert sum(bool((a != b).any()) for a, b in pairwise(pictures)) > 30


def test_watch_begins_where_it_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A moment looks as it does in the whole film, and the line says which part is shown; a bad start is refused."""
    replay, whole, part = (str(tmp_path / name) for name in ("m.replay", "whole.png", "part.png"))
    match = league.watch("bot:based", "bot:rusher", replay, seed=4, env="brawl")
    league.watch(replay, out=whole, seconds=3.0)
    still = league.watch(replay, out=part, start=2.5, seconds=0.5)
    assert still.seconds == 3.0 and Path(whole).read_bytes() == Path(part).read_bytes()
    film = league.watch(replay, out=str(tmp_path / "f.gif"), start=2.0, seconds=0.5)
    assert (film.start, film.seconds, film.pictures) == (2.0, 2.5, 10)
    print_film(film)
    assert "2.0 to 2.5 s of" in capsys.readouterr().out
    for start in (match.match_seconds, -1.0, float("nan")):
        with pytest.raises(UsageError, match="start="):
            league.watch(replay, out=str(tmp_path / "n.gif"), start=start)
    with pytest.raises(UsageError, match="holds the whole match"):
        league.watch(replay, out=str(tmp_path / "n.replay"), start=1.0)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--out", "film.avi"], "out=film.avi"),
        (["--out", "film"], "out=film"),
        (["--out", "there.gif"], "there.gif"),
        (["--out", "nowhere/film.gif"], "nowhere"),
        *((["--out", "film.gif", "--seconds", seconds], f"seconds={seconds}") for seconds in ("0", "nan", "301")),
        (["--out", "film.gif", "--seed", "-1"], "seed=-1"),
        (["--out", "film.gif", "--env", "matrix"], "bot:based"),
        (["--out", "film.gif", "--env", "brwl"], "`brawl`"),
    ],
)
def test_watch_refuses(
    arguments: list[str], word: str, call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Bad input is one line that names the setting, exit code 2, and no file is made or changed."""
    monkeypatch.chdir(tmp_path)
    Path("there.gif").write_text("mine")
    code, out, err = call(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1) and word in err
    assert [path.name for path in tmp_path.iterdir()] == ["there.gif"] and Path("there.gif").read_text() == "mine"
