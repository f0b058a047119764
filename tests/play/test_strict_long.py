"""`env.strict_masks` on a long game in plain Python, whose state grows with its matches: what it costs and finds."""

import math
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import league
from league.config import changed, load
from league.envs import Match, lastaction
from league.errors import LeagueError
from league.phases import listening
from league.play import strict
from league.play.checks import BatchError
from league.play.strict import StrictMasks
from league.printing.sampling import Meter
from league.store.store import Store
from league.training.run import Callback, Report
from tests.helpers.sizes import TINY

LENGTH = 600
FEW = ("pool.snapshot_every=100_000",)
"""Snapshots, which take longer than play."""


class Clock:
    """Seconds that pass by what is done alone."""

    now = 0.0

    def perf_counter(self) -> float:
        """As `time.perf_counter`."""
        return self.now


CLOCK = Clock()


CHANCE = random.Random(0)
"""Of nobody's match. The global generators would be seeded by the match that uses them."""


class Long(Match):
    """The seat with the higher number after 600 steps wins. A step takes a millisecond of `CLOCK`."""

    obs_size, obs_range, action, max_steps = 4, (0.0, 1.0), 3, LENGTH
    opponent_slice = (2, 4)
    flaw: ClassVar[str] = ""
    """What is not of the match's own: `mask` or `obs`, from step `begins` on."""
    begins: ClassVar[int] = 0

    def reset(self, rng: np.random.Generator) -> None:
        """Both at 0."""
        self.places, self.made, self.start = [0, 0], 0, float(rng.random())

    def observe(self, seat: int) -> list[float]:
        """How far both are."""
        CLOCK.now += 1e-5
        mine, theirs = (self.places[i] / (2 * LENGTH) for i in (seat, 1 - seat))
        lie = CHANCE.random() if self.flaw == "obs" and self.made >= self.begins else 0.0
        return [mine, self.start, theirs, 0.5 * lie]

    def legal(self, seat: int) -> list[int]:
        """Two of three, by turns."""
        lie = CHANCE.randrange(3) if self.flaw == "mask" and self.made >= self.begins else 0
        return sorted({(self.made + lie) % 3, (self.made + 1) % 3})

    def step(self, actions: tuple[int, int]) -> None:
        """Each moves by its action."""
        CLOCK.now += 1e-3
        self.made += 1
        self.places = [place + action for place, action in zip(self.places, actions, strict=True)]
        if self.made == LENGTH - 1 - int(20 * self.start):
            self.end(None if self.places[0] == self.places[1] else int(self.places[1] > self.places[0]))


class Shown(Long):
    """The same with the opponent's last action added to what is seen."""

    opponent_slice, public_actions = (0, 0), True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Within it `strict` and the game have this clock, and the game no flaw."""
    monkeypatch.setattr(strict.time, "perf_counter", CLOCK.perf_counter)
    monkeypatch.setattr(Long, "flaw", "")
    monkeypatch.setattr(CLOCK, "now", 0.0)
    yield CLOCK


def play(rows: int, num_steps: int, kind: type[Long] = Long) -> tuple[dict[str, int], StrictMasks]:
    """Plays that many steps as a lane does; how often what was done, and the check."""
    game = kind.as_game()

    def make(rows: int) -> Any:
        batch = game.make(rows, 1, game.Options())
        return lastaction.wrap(batch) if kind is Shown else batch

    batch, counts = make(rows), {"checks": 0, "late": 0}
    batch.controllers[:] = -1
    batch.reset(1)
    check, steps, rng = StrictMasks(batch, make), np.zeros(rows, np.int64), np.random.default_rng(0)
    whole = check.check

    def counted(row: int = 0) -> None:
        counts["checks"] += 1
        counts["late"] += steps[row] > LENGTH / 2
        counts[f"row {row}"] = counts.get(f"row {row}", 0) + 1
        whole(row)

    check.check = counted  # type: ignore[method-assign]
    for step in range(num_steps):
        if step % 32 == 0:
            CLOCK.now += 1.0  # an update, which is no time of play
            check.resume()
        batch.actions[:] = batch.spec.action.legal_actions(batch.mask, rng.random((rows, 2, 1)))
        CLOCK.now += rows * 1e-3  # the nets
        check.sample(steps)
        batch.step()
        steps = np.where(batch.terminated | batch.truncated, 0, steps + 1)
    return counts, check


@pytest.mark.parametrize("kind", [Long, pytest.param(Shown, marks=pytest.mark.slow)])
def test_the_check_takes_its_share_of_the_time_however_long_matches_are(kind: type[Long], clock: Clock) -> None:
    """2,000 steps of 24 rows: under 5 % of the time of play, hundreds of checks, of late steps and of other rows."""
    counts, check = play(24, 2_000, kind)
    played = clock.now - 2_000 // 32 - 1
    assert 0 < check._spent < 0.05 * played and 0.95 * played < check._played <= played + 1
    rows = [name for name in counts if name.startswith("row ")]
    assert counts["checks"] > 500 and counts["late"] > 50 and len(rows) >= 3, counts


@pytest.mark.slow
def test_with_few_rows_the_check_is_rarer_and_still_sees_late_steps(clock: Clock) -> None:
    """Of two rows one is half of the game's time: following it does not fit, single looks at random places do."""
    counts, check = play(2, 20_000)
    assert check._spent < 0.05 * (clock.now - 20_000 // 32 - 1)
    assert counts["checks"] > 10 and counts["late"] >= 1 and {"row 0", "row 1"} <= counts.keys(), counts


@pytest.mark.parametrize("flaw", ["mask", "obs"])
@pytest.mark.parametrize("begins", [0, 500])
def test_what_is_not_of_the_matchs_own_is_found(flaw: str, begins: int, clock: Clock, monkeypatch: Any) -> None:
    """A mask or observation drawn outside the match's generator, from the beginning or late, stops within three
    matches, with the moment before it."""
    monkeypatch.setattr(Long, "flaw", flaw)
    monkeypatch.setattr(Long, "begins", begins)
    CHANCE.seed(0)
    with pytest.raises(BatchError, match=r"(mask|obs)\[\d\].* is .*, rebuilt from the state") as caught:
        play(24, 3 * LENGTH)
    before = caught.value.before
    assert not begins or (before is not None and before.row == caught.value.entry.row and len(before.actions) == 1)


def test_an_illegal_action_is_found_in_any_row(clock: Clock, monkeypatch: Any) -> None:
    """Rows that are not rebuilt are held to the masks that the nets saw."""
    game = Long.as_game()
    batch = game.make(8, 1, game.Options())
    check = StrictMasks(batch, lambda rows: game.make(rows, 1, game.Options()))
    batch.controllers[:] = -1
    batch.actions[:] = batch.spec.action.legal_actions(batch.mask, np.zeros((8, 2, 1)))
    check.sample(np.zeros(8, np.int64))
    batch.actions[6, 1] = 2
    with pytest.raises(BatchError, match=r"row 6, seat 1: action \[2\] is not legal; allowed by the mask as seen: "):
        check.check()


class Shares(Callback):
    """Keeps where the time went."""

    def __init__(self) -> None:
        self.meter = Meter()
        self.shares: dict[str, float] = {}

    def report(self, report: Report) -> None:
        """The last update's."""
        self.shares = self.meter.shares()


@pytest.mark.slow
def test_its_share_has_a_name_of_its_own_and_a_resume_may_leave_it_out(tmp_path: Path, monkeypatch: Any) -> None:
    """Of a training with the check it is under 5 % of the time; `--set env.strict_masks=false` goes on without."""
    monkeypatch.setattr(sys.modules[__name__], "LENGTH", 100)
    sets, callback = [*TINY, *FEW, "env.rows=32", "run.total_steps=4096"], Shares()
    call: dict[str, Any] = {"store": tmp_path / "league.duckdb", "callback": callback}
    with listening(callback.meter):
        league.train("smoke", env=Long, run="r", overrides=sets, **call)
    assert 0 < callback.shares["strict masks"] < 0.05, callback.shares
    row = Store.open(call["store"]).find_run("r")
    callback.meter = Meter()
    with listening(callback.meter):
        league.resume("r", env=Long, overrides=["env.strict_masks=false", "run.total_steps=4352"], **call)
    assert callback.shares["strict masks"] == 0 and callback.shares["game"] > 0
    assert Store.open(call["store"]).find_run("r").fingerprint == row.fingerprint


def test_strict_masks_may_change_when_a_run_goes_on() -> None:
    """It is a setting of how one looks at a run, as the fingerprint says."""
    assert not changed(load("test50k"), ["env.strict_masks=false"]).env.strict_masks


def test_a_flaw_of_a_long_game_stops_a_training_with_a_file_to_replay(tmp_path: Path, monkeypatch: Any) -> None:
    """In one line with the match, seed and step; the file shows it again, from its row alone. Every step is checked
    here, since a sample's luck depends on the machine."""
    monkeypatch.setattr(strict, "SHARE", math.inf)
    monkeypatch.setattr(Long, "flaw", "obs")
    monkeypatch.setattr(Long, "begins", 90)
    monkeypatch.setattr(sys.modules[__name__], "LENGTH", 200)
    sets = [*TINY, *FEW, "env.rows=8", "run.total_steps=16384"]
    with pytest.raises(LeagueError, match=r"strict_masks: long, match .*obs\[3\].*rebuilt from the state"):
        league.train("smoke", env=Long, run="r", overrides=sets, store=tmp_path / "league.duckdb")
    (path,) = (tmp_path / "r" / "failures").iterdir()
    found = league.replay(path, env=Long)
    assert found.differences and found.stepped is not None and found.step >= 90
