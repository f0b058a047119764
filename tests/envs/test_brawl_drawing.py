"""Pictures of brawl, and `league watch`: what is drawn where, in any state, into files."""

import json
import re
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
from league.envs.brawl import env, figure
from league.envs.brawl.drawing import drawing
from league.envs.brawl.moves import IDS, KINDS, STRIKES, WEAPONS
from league.envs.brawl.rules import BrawlRules
from league.envs.brawl.state import AIR, GROUND, STATE_DTYPE
from league.envs.drawing import HUD_SIZE, SEATS
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


def test_shape_and_the_same_picture_again() -> None:
    """A picture is (H, W, 3) uint8 of the asked size, and depends on the record alone."""
    for size in ((160, 90), (640, 360), (400, 500)):
        shown = picture(drawing(record(), RULES), size)
        assert (shown.shape, shown.dtype) == ((size[1], size[0], 3), np.uint8)
        assert np.array_equal(shown, picture(drawing(record(), RULES), size))


def test_a_fighter_is_drawn_where_it_is() -> None:
    """Its colour fills its body's place and no other; moving changes only the two places."""
    here, there = draw(), draw({"x": -6.0, "y": 3.0, "support": AIR})
    body = (-4.4, 0.1), (-3.6, 1.6)
    assert count(area(here, *body), SEATS[0]) > 60 and count(area(there, *body), SEATS[0]) == 0
    assert count(area(there, (-6.4, 3.1), (-5.6, 4.6)), SEATS[0]) > 60
    left, right, low, high = changed(here, there)
    assert left > -7 and right < -3 and low > -0.2 and high < 5


def test_facing_shows() -> None:
    """A fighter that faces left is the mirror image of one that faces right."""
    right = area(draw({"x": -4.0}), (-5.0, 0.05), (-3.0, 2.0)).astype(int)
    left = area(draw({"x": -4.0, "facing": -1}), (-5.0, 0.05), (-3.0, 2.0)).astype(int)
    assert np.abs(right - left).mean() > 2 * np.abs(right - left[:, ::-1]).mean()


def fighter(change: dict[str, Any]) -> Any:
    """A fighter's fields as attributes, of `record(change)`."""
    return np.rec.array(record(change)["fighters"])[0]


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


def test_the_parts_of_a_blow_differ() -> None:
    """Start-up, hit, after a hit, and recovery of one strike are four pictures; so is each longer hold."""
    blow = [draw({"move": JAB, "move_tick": tick, "move_hit": hit}) for tick, hit in ((1, 0), (5, 0), (5, 1), (9, 0))]
    heavy = {"move": IDS["hammer.side_heavy"], "move_tick": 13, "weapon": HAMMER}
    held = [draw(heavy | {"charge": charge}) for charge in (1, 8, 16, 24)]
    for pictures in (blow, held):
        assert all(changed(a, b) for a, b in pairwise(pictures))


@pytest.mark.parametrize("weapon", range(len(WEAPONS)))
def test_weapons_reach_their_hit_boxes(weapon: int) -> None:
    """In the active ticks of every attack the spear's tip lies at the box's far side, the hammer's head near it."""
    for kind in KINDS:
        move = IDS[f"{WEAPONS[weapon]}.{kind}"]
        strike = STRIKES[move]
        pose = figure.pose(fighter({"move": move, "move_tick": strike.startup, "weapon": weapon}))
        assert (pose.weapon is None) == (weapon == 0)
        if pose.weapon:
            off = np.abs(np.array(pose.weapon[1]) - (strike.offset_x, strike.offset_y))
            half = np.array((strike.half_width, strike.half_height))
            assert (off <= half + (0.35 if weapon == SPEAR else 1.0)).all(), kind
            assert weapon == HAMMER or (off / half).max() > 0.8, kind


def test_boxes_are_an_option() -> None:
    """The layer `boxes` outlines the body and an active hit box; a start-up's box is broken, a spent one gone."""
    red, green = (222, 60, 60), (90, 230, 120)

    def pixels(tick: int, hit: int, colour: Any) -> int:
        shown = draw({"move": JAB, "move_tick": tick, "move_hit": hit}, boxes=True)
        return count(area(shown, (-5.2, 0.0), (-1.5, 2.0)), colour)

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


def test_absent_and_beyond_the_picture() -> None:
    """An absent fighter and one without stocks are not drawn; an arrow points to one beyond the view."""
    for change in ({"respawn": 9, "y": 4.0, "support": AIR}, {"stocks": 0}):
        assert count(area(draw(change), (-14.0, 0.1), (14.0, 5.0)), SEATS[0]) == 0
    for x, y in ((-20.0, 3.0), (2.0, 12.5), (0.0, -9.0)):
        seen = drawing(record({"x": x, "y": y, "support": AIR}), RULES)
        left, top, right, bottom = seen.view
        [arrow] = [
            shape for shape in seen.shapes if shape.kind == "polygon" and not shape.group and len(shape.points) == 6
        ]
        tip = arrow.points[:2]
        assert left < tip[0] < right and bottom < tip[1] < top and arrow.fill == SEATS[0]
        below_clock = top - 0.14 * (top - bottom)
        assert min(tip[0] - left, right - tip[0], tip[1] - bottom, abs(below_clock - tip[1])) < 0.5, (x, y)
    assert not [shape for shape in drawing(record(), RULES).shapes if not shape.group]


def test_any_state_of_random_play_is_drawn() -> None:
    """Random keys and all bots, hundreds of states, long and odd names: no picture fails, and none repeats for long."""
    batch = registry.make("brawl", rows=8, threads=1, options={"stocks": 9, "time_limit_seconds": 20.0})
    batch.controllers[4:] = np.arange(8).reshape(4, 2) % len(batch.spec.bots)
    batch.reset(5)
    rng = np.random.default_rng(5)
    seen = set()
    for step in range(60):
        unit = rng.random((8, 2, batch.spec.action.mask_size))
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, unit)
        batch.step()
        for row in range(8):
            names = "n" * 99, "a\nb \u00e9\u2603"
            shown = picture(env.drawing(batch, row), (240, 135), boxes=step % 2 == 0, names=names)
            seen.add(shown.tobytes())
    assert len(seen) > 400


def test_every_strike_and_far_values_are_drawn() -> None:
    """Each tick of every strike, and the greatest values that a state may hold."""
    for move, strike in enumerate(STRIKES):
        for tick in {0, strike.startup, max(0, strike.ticks - 1)}:
            state = record({"move": move, "move_tick": tick, "weapon": move % 3, "charge": 99})
            picture(drawing(state, RULES), (160, 90))
    far = {"x": 1e6, "y": -1e6, "damage": 1e6, "vx": -1e6, "support": AIR, "weapon_left": 1 << 30, "weapon": SPEAR}
    many = replace(RULES, stocks=9)
    assert picture(drawing(record(far, far | {"x": 0.0, "stun": 1 << 30}, tick=1 << 30), many), (160, 90)).any()


def test_faces_show_the_picture() -> None:
    """`rgb_array` of the Gymnasium face is the row's picture."""
    gym = pytest.importorskip("league.gym")
    face = gym.MatchEnv("brawl", render_mode="rgb_array")
    face.reset(seed=3)
    assert face.render().shape == (540, 960, 3)


# league watch


def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Runs `league watch bot:based --against bot:rusher ARGUMENTS`: its exit code, stdout and stderr."""
    monkeypatch.setattr(sys, "argv", ["league", "watch", "bot:based", "--against", "bot:rusher", *arguments])
    with pytest.raises(SystemExit) as exit_:
        main()
    out, err = capsys.readouterr()
    return int(exit_.value.code or 0), out, err


def test_watch_writes_a_film(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A GIF of 20 pictures a second that differ, at their pace; the same seed gives the same file."""
    from PIL import Image

    films = [tmp_path / "a.gif", tmp_path / "b.gif"]
    for film in films:
        code, out, err = call(
            monkeypatch, capsys, "--out", str(film), "--seconds", "2", "--seed", "4", "--boxes", "--quiet"
        )
        assert (code, err) == (0, "") and "bot:based against bot:rusher, seed 4, the first 2.0 s of " in out
        assert " s left out (leave --seconds out); the match is won by bot:" in out
    assert films[0].read_bytes() == films[1].read_bytes()
    with Image.open(films[0]) as film:
        assert (film.size, film.info["duration"]) == ((560, 315), 50)
        assert 36 <= film.n_frames <= 40  # equal ones are one that is shown for longer
        pictures = []
        for i in range(film.n_frames):
            film.seek(i)
            pictures.append(np.asarray(film.convert("RGB")))
        assert film.info["duration"] >= 1000
    changes = [bool((a != b).any()) for a, b in pairwise(pictures)]
    assert sum(changes) > 30


@pytest.mark.slow
def test_watch_shows_the_whole_match(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Without --seconds the film ends with the match, and the line says how long both are; so does --json."""
    from PIL import Image

    code, out, _ = call(monkeypatch, capsys, "--out", str(tmp_path / "a.gif"), "--seed", "4", "--quiet")
    assert code == 0
    code, document, _ = call(monkeypatch, capsys, "--out", str(tmp_path / "b.gif"), "--seed", "4", "--quiet", "--json")
    film = json.loads(document)
    assert film["seconds"] == film["match_seconds"] > 20 and film["pictures"] == round(20 * film["seconds"])
    assert f"seed 4, all {film['seconds']:.1f} s; the match is won by {film['winner']}" in out
    with Image.open(tmp_path / "a.gif") as picture:
        assert 0.9 * film["pictures"] <= picture.n_frames <= film["pictures"]


def test_watch_leaves_nothing_out_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Where a match is longer than a film may be, the line says by how much and that no more can be had."""
    monkeypatch.setattr(league.arena.film, "MAX_SECONDS", 3)
    code, out, _ = call(monkeypatch, capsys, "--out", str(tmp_path / "a.gif"), "--seed", "4", "--quiet")
    found = re.search(r"the first 3\.0 s of ([\d.]+) s, ([\d.]+) s left out \(--seconds 3 is the most\)", out)
    assert code == 0 and found is not None and float(found[1]) == pytest.approx(3 + float(found[2]))


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


@pytest.mark.slow
def test_watch_to_the_end_and_a_still(tmp_path: Path) -> None:
    """A match that ends says who won; a PNG is the last picture, or the one at --seconds; an agent may meet itself."""
    from PIL import Image

    shots = []
    for name, seconds in (("m.png", None), ("n.png", 5)):
        film = league.watch("bot:random", "bot:random", tmp_path / name, seconds=seconds, seed=1, env="brawl")
        assert film.winner in ("bot:random", "draw") and film.pictures == 1
        with Image.open(film.path) as picture:
            assert picture.size == (960, 540)
            shots.append(picture.tobytes())
    assert film.seconds == 5 < film.match_seconds and shots[0] != shots[1]


@pytest.mark.slow
def test_watch_plays_trained_agents(tmp_path: Path) -> None:
    """A run's agent and an exported folder play either seat, also against themselves; the seed decides the film."""
    store = tmp_path / "league.duckdb"
    small = ("env.rows=4", "env.time_limit_seconds=5", "learner.rollout_steps=16", "learner.minibatches=2")
    small += ("run.evaluate_games=2", "agent.opponent_encoder=false", "agent.lstm_size=32")
    league.train("smoke", env="brawl", device="cpu", overrides=(*small, "run.total_steps=64"), store=store)
    league.export("brawl-1", tmp_path / "out", store=store)
    before = store.read_bytes()

    def film(name: str, a: str, b: str, seed: int = 1) -> bytes:
        shot = league.watch(a, b, tmp_path / name, seconds=1, seed=seed, device="cpu", store=store)
        assert (shot.pictures, shot.seconds) == (20, 1.0)
        return Path(shot.path).read_bytes()

    folder = str(tmp_path / "out")
    first = film("a.gif", "brawl-1", "bot:based")
    assert first == film("b.gif", folder, "bot:based") and first != film("c.gif", folder, "bot:based", seed=2)
    assert film("d.gif", "bot:based", folder) and film("e.gif", "brawl-1", folder)
    assert store.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "film.avi"], ["out=film.avi", ".gif", "--out"]),
        (["--out", "film"], ["out=film", ".gif"]),
        (["--out", "there.gif"], ["there.gif: is there already", "--out"]),
        (["--out", "nowhere/film.gif"], ["nowhere", "folder"]),
        (["--out", "film.gif", "--seconds", "0"], ["seconds=0", "300"]),
        (["--out", "film.gif", "--seconds", "nan"], ["seconds=nan", "300"]),
        (["--out", "film.gif", "--seconds", "301"], ["seconds=301", "300"]),
        (["--out", "film.gif", "--seed", "-1"], ["seed=-1"]),
        (["--out", "film.gif", "--env", "matrix"], ["bot:based", "matrix"]),
        (["--out", "film.gif", "--env", "brwl"], ["`brawl`"]),
    ],
)
def test_watch_refuses(
    arguments: list[str],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Bad input is one line, exit code 2, and no file is made or changed."""
    monkeypatch.chdir(tmp_path)
    Path("there.gif").write_text("mine")
    code, out, err = call(monkeypatch, capsys, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("error: ")
    assert all(word in err for word in words), err
    assert [path.name for path in tmp_path.iterdir()] == ["there.gif"]
    assert Path("there.gif").read_text() == "mine"


def test_without_pillow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where Pillow is missing, both the film and the picture name the command that installs it."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UsageError, match="pip install pillow"):
        league.watch("bot:based", "bot:rusher", tmp_path / "m.gif")
    with pytest.raises(UsageError, match="pip install pillow"):
        picture(drawing(record(), RULES), SIZE)
