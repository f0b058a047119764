"""`env.strict_masks`: quiet on a sound game, loud on a wrong mask, a stale observation or an illegal action."""

import dataclasses
import math
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import league
from league.envs import Match, lastaction, registry
from league.envs.classic import matrix
from league.errors import LeagueError
from league.play import strict
from league.play.checks import BatchError
from league.play.strict import StrictMasks
from league.types import MatchBatch, Turns
from tests.helpers.matches import Hands
from tests.helpers.sizes import TINY


def started() -> tuple[MatchBatch, StrictMasks]:
    """A brawl batch some steps into its matches, and its check."""
    batch, twin = (registry.make("brawl", rows=4, threads=1, options={}) for _ in range(2))
    batch.controllers[:] = -1
    batch.reset(0)
    rng = np.random.default_rng(0)
    check = StrictMasks(batch, lambda rows: twin)
    for _ in range(200):
        assert batch.mask is not None
        batch.actions[:] = rng.integers(0, 2, batch.actions.shape) * batch.mask
        check.check()
        batch.step()
    batch.actions[:] = 0
    return batch, check


@pytest.mark.parametrize("name", ["mask", "obs"])
def test_a_mask_or_observation_that_differs_from_the_state_stops(name: str) -> None:
    batch, check = started()
    array = getattr(batch, name)
    array[2, 1, 5] = ~array[2, 1, 5] if name == "mask" else array[2, 1, 5] + 0.25
    owner = "" if name == "mask" else " (the seat's own)"
    with pytest.raises(LeagueError, match=re.escape(f"row 2, seat 1: {name}[5]{owner} is")):
        check.check()


def test_an_illegal_action_stops_unless_a_bot_plays_the_seat() -> None:
    batch, check = started()
    batch.actions[3, 0, 5] = 1
    with pytest.raises(LeagueError, match=r"row 3, seat 0: action .* is not legal"):
        check.check()
    batch.controllers[3, 0] = 0
    check.check()


@pytest.mark.parametrize("name", ["obs", "mask", "terminated", "reward_terms", "result"])
def test_an_array_that_moves_stops(name: str) -> None:
    """The engine holds the arrays that it was given: one that is another is read by nobody, however right it is."""
    batch, twin = (matrix.make(4, 1, matrix.Options()) for _ in range(2))
    if name == "mask":
        batch.mask, twin.mask = (np.ones((4, 2, 3), np.bool_) for _ in range(2))  # type: ignore[misc]
    check = StrictMasks(batch, lambda rows: twin)
    check.check()
    batch.step()
    setattr(batch, name, getattr(batch, name).copy())
    with pytest.raises(LeagueError, match=rf"matrix: {name} moved, .*write self.{name}\[:\] = "):
        check.check()


def test_an_observation_outside_its_range_stops() -> None:
    batch, twin = (matrix.make(4, 1, matrix.Options()) for _ in range(2))
    batch.spec = twin.spec = dataclasses.replace(batch.spec, obs_range=(0.0, 0.05))
    check = StrictMasks(batch, lambda rows: twin)
    check.check()
    batch.step()
    with pytest.raises(LeagueError, match=r"row 0, seat 0: obs\[0\] \(the seat's own\) is 1.0, outside obs_range"):
        check.check()


def test_of_a_game_in_turns_waiting_seats_are_not_looked_at() -> None:
    batch, twin = (Hands.as_game().make(rows, 1, Hands.as_game().Options()) for rows in (4, 1))
    assert isinstance(batch, Turns) and batch.mask is not None
    check = StrictMasks(batch, lambda rows: twin)
    for step in range(12):
        batch.actions[:] = -5
        firsts = batch.mask.reshape(4, 2, 8, 2)[:, :, 0]
        batch.actions[batch.to_act] = firsts[batch.to_act]
        batch.held[:] = np.arange(4) == step % 5
        batch.actions[batch.held] = -5
        batch.mask[~batch.to_act] = -9
        check.check(step % 4)
        batch.step()
    batch.held[:] = False
    row, seat = np.argwhere(batch.to_act)[0].tolist()
    batch.actions[:] = -5
    with pytest.raises(LeagueError, match=rf"row {row}, seat {seat}: action .* is not legal"):
        check.check()
    batch.to_act[row] = ~batch.to_act[row]
    with pytest.raises(LeagueError, match=f"row {row}, seat 0: to_act is .*, rebuilt from the state"):
        check.check(row)


LENGTH = 600
FEW = ("pool.snapshot_every=100_000",)
"""Snapshots, which take longer than play."""


class Clock:
    """Seconds that pass by what is done alone."""

    now = 0.0

    def perf_counter(self) -> float:
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
        self.places, self.made, self.start = [0, 0], 0, float(rng.random())

    def observe(self, seat: int) -> list[float]:
        CLOCK.now += 1e-5
        mine, theirs = (self.places[i] / (2 * LENGTH) for i in (seat, 1 - seat))
        lie = CHANCE.random() if self.flaw == "obs" and self.made >= self.begins else 0.0
        return [mine, self.start, theirs, 0.5 * lie]

    def legal(self, seat: int) -> list[int]:
        lie = CHANCE.randrange(3) if self.flaw == "mask" and self.made >= self.begins else 0
        return sorted({(self.made + lie) % 3, (self.made + 1) % 3})

    def step(self, actions: tuple[int, int]) -> None:
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
    counts, check = play(24, 2_000, kind)
    played = clock.now - 2_000 // 32 - 1
    assert 0 < check._spent < 0.05 * played and 0.95 * played < check._played <= played + 1
    rows = [name for name in counts if name.startswith("row ")]
    assert counts["checks"] > 500 and counts["late"] > 50 and len(rows) >= 3, counts


@pytest.mark.parametrize("flaw", ["mask", "obs"])
@pytest.mark.parametrize("begins", [0, 500])
def test_what_is_not_of_the_matchs_own_is_found(flaw: str, begins: int, clock: Clock, monkeypatch: Any) -> None:
    monkeypatch.setattr(Long, "flaw", flaw)
    monkeypatch.setattr(Long, "begins", begins)
    CHANCE.seed(0)
    with pytest.raises(BatchError, match=r"(mask|obs)\[\d\].* is .*, rebuilt from the state") as caught:
        play(24, 3 * LENGTH)
    before = caught.value.before
    assert not begins or (before is not None and before.row == caught.value.entry.row and len(before.actions) == 1)


def test_a_flaw_of_a_long_game_stops_a_training_with_a_file_to_replay(tmp_path: Path, monkeypatch: Any) -> None:
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


def test_the_first_checks_do_not_wait_for_time(clock: Clock, monkeypatch: Any) -> None:
    """From then on the check waits for its share of the time."""
    monkeypatch.setattr(strict, "SHARE", 0.0)
    assert play(24, 200)[0] == {"checks": strict.FIRST, "late": 0, "row 0": strict.FIRST}
