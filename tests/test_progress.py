"""What a training looks like: a dashboard in a terminal, plain lines elsewhere, JSON lines where asked for."""

import io
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch

import league
from league import phases
from league.boards.leaderboards import Rated
from league.play.summaries import Summary
from league.printing import progress
from league.printing.progress import TerminalCallback
from league.printing.sampling import Machine
from league.store.rows import RewardTerm
from league.training.run import Report
from tests.helpers.runs import PAIR
from tests.helpers.sizes import SMALL

METRICS = {"entropy": 6.931, "approx_kl": 0.00421, "clip_share": 0.123}
REWARDS = (
    RewardTerm("damage_dealt", 2.0, 100, 90, 1.207, 1.0),
    RewardTerm("win", -0.1, 100, 100, 0.01, 0.0),
    RewardTerm("hit", 0.0, 100, 50, 3.0, 3.0),
)
RATES = {"bot:based": 0.3, "bot:constant": 1.0, "self_play": 0.5}
SUMMARY = Summary(10, 5, 5, {}, {}, 100.0)


class Tty(io.StringIO):
    """A terminal that is a string."""

    def isatty(self) -> bool:
        """It says that it is one."""
        return True


def text(out: io.StringIO) -> str:
    """What a terminal got, without the escapes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())


def report(update: int, steps: int = 2048, total: int = 50_000, seconds: float = 4000.4, rewards: Any = ()) -> Report:
    """An update of brawl's."""
    return Report(steps, total, update, 1234.5, seconds, METRICS, RATES, rewards, "brawl-1")


@contextmanager
def writing(out: io.StringIO, width: int = 80, **environment: str) -> Iterator[None]:
    """Within it stderr is `out`, a terminal of that width if it is one."""
    size = {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "40", **environment}
    with mock.patch.dict(os.environ, size), mock.patch.object(sys, "stderr", out):
        yield


def watch(verbosity: int, reports: list[Report], out: io.StringIO | None = None, **environment: str) -> str:
    """What a callback writes."""
    out = out or io.StringIO()
    with writing(out, **environment), TerminalCallback(verbosity) as callback:
        for each in reports:
            callback.report(each)
    return out.getvalue()


def test_a_terminal_gets_the_dashboard_and_keeps_it() -> None:
    """Its last picture remains, words stand above it, and the cursor is never hidden: nothing is left to be mended."""
    out = Tty()
    with writing(out, NO_COLOR="1"), TerminalCallback() as callback:
        callback.say("pool.mix [bold]")
        callback.evaluated(0, "bot:constant", SUMMARY)
        callback.report(report(488, 9_999_360, 10_000_000, 0.4))
        callback.rated(488, [Rated("brawl-1@5", 1100.0, 1000.0, 1200.0, True)])
    shown = text(out)
    assert "9,999,360 of 10,000,000 steps" in shown and "1,234 steps/s" in shown and "0:00 left" in shown
    assert re.search(r"constant +100% +█ +62 \[41, 80\]", shown) and "own rating 1100 ±100" in shown
    assert "pool.mix [bold]" in shown and "\x1b[?25l" not in out.getvalue() and shown.endswith("\n")
    assert not phases._listeners and not phases._gauges


def test_it_is_drawn_again_and_again_within_its_share() -> None:
    """Without a word from the run the clock goes on; the thread takes next to nothing of a processor."""
    out = Tty()
    with (
        mock.patch.object(progress, "DRAWN_EVERY", 0.01),
        mock.patch.object(progress, "SAMPLED_EVERY", 0.01),
        writing(out),
        TerminalCallback() as callback,
    ):
        callback.report(report(1))
        until = time.monotonic() + 20
        while out.getvalue().count("brawl-1") < 4 and time.monotonic() < until:
            time.sleep(0.01)
        assert callback._screen is not None and callback._screen._thread.is_alive()
        before, began = time.process_time(), time.monotonic()
        time.sleep(1.0)
        spent, seconds = time.process_time() - before, time.monotonic() - began
    assert out.getvalue().count("brawl-1") >= 4
    assert spent < 0.25 * seconds, "even a hundred looks a second are cheap"


def test_a_terminal_that_becomes_narrower_is_drawn_over() -> None:
    """What it has folded meanwhile is erased: as many rows as the lines take at the new width."""
    out = Tty()
    with writing(out, width=100) as _, TerminalCallback() as callback:
        screen = callback._screen
        assert screen is not None
        screen._is_over.set()
        screen._thread.join()
        callback.report(report(1))
        screen._draw()
        rows = sum(-(-max(width, 1) // 40) for width in screen._widths)
        assert rows > len(screen._widths)
        os.environ["COLUMNS"] = "40"
        callback.console._width = None
        out.truncate(0)
        with mock.patch.object(type(callback.console), "size", property(lambda _: _Size(40, 40))):
            screen._draw()
        assert out.getvalue().count("\x1b[1A") == rows - 1


class _Size(tuple[int, int]):
    """Width and height, as rich has them."""

    def __new__(cls, width: int, height: int) -> "_Size":
        return super().__new__(cls, (width, height))

    @property
    def width(self) -> int:
        """Columns."""
        return self[0]

    @property
    def height(self) -> int:
        """Rows."""
        return self[1]


@pytest.mark.parametrize("kind", ["pipe", "dumb"])
def test_plain_lines_have_two_columns_and_fixed_keys(kind: str) -> None:
    """Without a terminal that can be written over, an update is six lines, a key and what it is, without escapes."""
    out = io.StringIO() if kind == "pipe" else Tty()
    lines = watch(1, [report(1)], out, TERM="dumb" if kind == "dumb" else "xterm").splitlines()
    assert [line[:9].strip() for line in lines] == ["steps", "time", "rate", "won", "learning", "machine"]
    assert lines[0] == "steps     2,048 of 50,000, 4%" and lines[1].endswith("elapsed, 1:06:40 left")
    assert lines[2].startswith("rate      1,234 steps/s; waiting 100%")
    assert lines[3] == "won       based 30%, constant 100%, self_play 50%"
    assert lines[4] == "learning  entropy 6.93, KL 0.0042, clipped 12%" and "\x1b" not in "".join(lines)


def test_a_crowded_machine_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where several threads wait for cores, one line says so and what helps; one thread has nothing to wait for."""
    monkeypatch.setattr(Machine, "crowding", lambda _: 0.6)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    told = "its 2 threads wait for one 60% of their time, and then for each other; OMP_NUM_THREADS=1 in the environment"
    assert watch(1, [report(1), report(2)], io.StringIO()).count(told) == 1
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert "OMP_NUM_THREADS" not in watch(1, [report(1)], io.StringIO())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    monkeypatch.setattr(Machine, "crowding", lambda _: 0.1)
    assert "OMP_NUM_THREADS" not in watch(1, [report(1)], io.StringIO())


def test_plain_lines_are_few_unless_asked_for() -> None:
    """Without a terminal: the first, every fifth and the last update at verbosity 1, all at 2, none at 0."""
    reports = [report(update, 2_000 * update, 24_000) for update in range(1, 13)]
    for verbosity, updates in ((0, []), (1, [1, 5, 10, 12]), (2, list(range(1, 13)))):
        lines = [line for line in watch(verbosity, reports, width="40").splitlines() if line.startswith("steps")]
        assert [line.split()[1] for line in lines] == [f"{2_000 * update:,}" for update in updates]


def test_an_evaluation_is_one_line_in_80_columns() -> None:
    """Score, interval and counts of an evaluation of usual size fit, and names with brackets are left alone."""
    out = io.StringIO()
    with writing(out):
        callback = TerminalCallback()
        callback.evaluated(50_176, "bot:constant", SUMMARY)
        callback.say("pool.mix [bold]")
    assert out.getvalue().splitlines() == [
        "at 50,176 against bot:constant: score 62% [41%, 80%], 10 won, 5 drawn, 5 lost",
        "pool.mix [bold]",
    ]


def test_rewards_are_told_ten_times_a_stage_and_with_its_evaluations() -> None:
    """One line with what every weighted term brought; never the same line twice."""
    out = io.StringIO()

    def told() -> list[str]:
        lines = [line for line in out.getvalue().splitlines() if " reward a match " in line]
        out.seek(0)
        out.truncate()
        return lines

    with writing(out), TerminalCallback() as callback:
        for update in range(1, 101):
            callback.report(report(update, 100 * update, 10_000, rewards=REWARDS))
        lines = told()
        assert [line.split(" ")[1] for line in lines] == [f"{1_000 * tenth:,}" for tenth in range(1, 11)]
        assert lines[0] == ("at 1,000 reward a match 2.41 (last 100):  damage_dealt +2.41")
        callback.report(report(101, 10_050, 20_000, rewards=REWARDS))
        assert len(told()) == 1, "another tenth"
        callback.report(report(102, 10_060, 20_000, rewards=REWARDS))
        assert told() == []
        callback.evaluated(10_060, "bot:constant", SUMMARY)
        callback.evaluated(10_060, "bot:random", SUMMARY)
        assert len(told()) == 1
        callback.report(report(103, 10_070, 20_000, rewards=REWARDS))
    assert len(told()) == 1, "a run that stops tells where it stood"


def test_without_a_match_nothing_is_told_of_rewards() -> None:
    """A run whose first match is not over, and a quiet one, have no line about rewards."""
    reports = [report(update, 2_000 * update, 24_000) for update in range(1, 13)]
    assert "reward a match" not in watch(1, reports)
    loud = [report(update, 2_000 * update, 24_000, rewards=REWARDS) for update in range(1, 13)]
    assert "reward a match" not in watch(0, loud) and "reward a match" in watch(1, loud)


# Real runs

TINY = [*SMALL, "run.total_steps=512", "pool.snapshot_every=128"]


def train(folder: Path, callback: Any, **how: Any) -> str:
    """The agent id of a tiny run's last snapshot."""
    store = folder
    return league.train("smoke", env="matrix", overrides=TINY, store=store, callback=callback, **how).newest


def test_who_watches_changes_no_bit(tmp_path: Path) -> None:
    """With a dashboard, with plain lines and with nobody the same weights are learned; the dashboard has all of it."""
    out = Tty()
    with writing(out, width=120, NO_COLOR="1"), TerminalCallback() as callback:
        watched = train(tmp_path / "a", callback)
    with writing(io.StringIO()), TerminalCallback(2) as plain:
        assert train(tmp_path / "b", plain) == watched
    assert train(tmp_path / "c", None) == watched
    shown = text(out)
    last = shown[shown.rindex("matrix-1  100%") :]
    assert "512 of 512 steps" in last and "own rating" in last and "time goes to" in last and "learning" in last
    assert all(name in last for name in ("biased", "random", "self_play", "entropy", "KL", "processor"))


def test_json_lines_are_an_object_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Updates, evaluations, ratings, words and the result, on stdout, with the run's name; stderr has nothing."""
    with TerminalCallback(json_lines=True) as callback:
        result = league.train("smoke", env="matrix", overrides=TINY, store=tmp_path, callback=callback)
    callback.result(result)
    out, err = capsys.readouterr()
    events = [json.loads(line) for line in out.splitlines()]
    kinds = [event["event"] for event in events]
    assert set(kinds) == {"said", "update", "evaluating", "evaluated", "rated", "result"} and err == ""
    updates = [event for event in events if event["event"] == "update"]
    assert [event["steps"] for event in updates] == [128, 256, 384, 512] and updates[0]["run"] == "matrix-1"
    assert sum(updates[-1]["time_goes_to"].values()) == pytest.approx(1.0)
    rated = [event for event in events if event["event"] == "rated"][-1]["ratings"]
    assert [x["name"] for x in rated if x["is_newest"]] == ["matrix-1@512"] and len(rated) > 2
    assert kinds[-1] == "result" and events[-1]["status"] == "finished"


def test_a_league_has_a_row_a_learner(tmp_path: Path) -> None:
    """Each learner's updates reach the dashboard under its name; without a terminal a turn is a line."""
    sets = [*SMALL, "run.total_steps=128", "run.evaluate_games=2"]
    (tmp_path / "pair.toml").write_text(PAIR)
    call: dict[str, Any] = {"stage": "smoke", "env": "matrix", "overrides": sets, "store": tmp_path}
    out = Tty()
    with writing(out, width=120, NO_COLOR="1"), TerminalCallback() as callback:
        done = league.train(league=tmp_path / "pair.toml", **call, callback=callback)
    learners = [learner.run for learner in done.learners]
    assert list(callback.view.learners) == learners and len(learners) == 2
    assert all(x.report is not None and x.report.run == name for name, x in callback.view.learners.items())
    shown = text(out)
    last = shown[shown.rindex("\nlearner ") :]
    assert all(f"\n{name.rpartition('.')[2]} " in last for name in learners)


def test_an_evaluation_says_how_far_it_is_without_a_terminal() -> None:
    """One line before its first game, one with the rate half a second later, then one every few seconds; the games of
    a new snapshot, which are few, say nothing in their first half second."""
    out, clock = io.StringIO(), mock.Mock(return_value=100.0)
    with writing(out), mock.patch.object(progress.time, "perf_counter", clock), TerminalCallback():
        for after, done, steps in ((0.0, 0, 0), (0.1, 0, 90), (0.6, 2, 300), (1.0, 4, 600), (5.7, 9, 5700)):
            clock.return_value = 100.0 + after
            phases.advance("games", done, 90, steps)
        clock.return_value = 200.0
        phases.advance("matches", 0, 4, 0)
        phases.advance("matches", 4, 4, 50)
    assert out.getvalue().splitlines() == [
        "evaluation: 0 of 90 games",
        "evaluation: 2 of 90 games, 500 steps/s",
        "evaluation: 9 of 90 games, 1,000 steps/s",
    ]
