"""What a training looks like: the dashboard at several widths and what feeds it, plain lines, JSON lines, bars."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from rich.text import Text

import league
from league.boards.leaderboards import Rated
from league.boards.readings import READINGS, health
from league.play.summaries import Summary
from league.printing import bars, progress, sampling
from league.printing.bars import Bar
from league.printing.dashboard import Screen, picture
from league.printing.figures import LearnerFigures
from league.printing.progress import TerminalCallback
from league.printing.sampling import KINDS, Machine, Meter
from league.runtime import phases
from league.store.rows import RewardTerm
from league.training.run import Report
from tests.helpers.runs import PAIR
from tests.helpers.sizes import SMALL
from tests.helpers.words import has_row

RUN = [
    *("brawl-1 40%", "20,480 of 51,200 steps", "634 steps/s 3:28 elapsed, 0:52 left", "time goes to game 21%"),
    *("processor 3.2 of 8 cores", "memory 0.92 GiB", "GPU 43%", "memory 2.1 of 79.0 GiB", "own rating 1060 ±100"),
    *("against won", "based 30% ▂▂▂▂▂▃▃▃▃▃ 70", "self_play 50%", "punisher 13", "entropy 2.5 ▁▂▃▃▄▅▆▆▇█"),
    *("KL 0.011 ▁▂▃▃▄▅▆▆▇█ 0.0005 to 0.03", "stock_lost -2.48 74 of 80", "last alarm step 12,288: KL above 0.1 nats"),
]
LEAGUE = [
    *("kuhn-league-1 17%", "26,624 of 153,600 steps", "learner done", "main 40%", "main_exploiter 12%"),
    *("league_exploiter_1 waits", "last alarm kuhn-league-1.main_exploiter: step 12,288:"),
]
"""Words that stand in one line, in this order, at every width."""
METRICS = {
    **{"entropy": 1.25, "approx_kl": 0.0055, "clip_share": 0.068, "value_loss": 0.172, "gradient_norm": 0.34},
    **{"explained_variance": 0.303, "reward_per_step": 0.00535},
}
REWARDS = (
    RewardTerm("stock_lost", -2.0, 80, 74, 1.24, 1.0),
    RewardTerm("knock_out", 2.0, 80, 52, 0.525, 0.6),
    RewardTerm("hit", 0.0, 80, 79, 3.0, 3.0),
)
SUMMARY = Summary(10, 5, 5, {}, {}, 100.0)


class Tty(io.StringIO):
    """A terminal that is a string."""

    def isatty(self) -> bool:
        """It says that it is one."""
        return True


def text(out: io.StringIO) -> str:
    """What a terminal got, without the escapes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())


@contextmanager
def writing(out: io.StringIO, width: int = 80, **environment: str) -> Iterator[None]:
    """Within it stderr is `out`, a terminal of that width if it is one."""
    size = {"TERM": "xterm-256color", "COLUMNS": str(width), "LINES": "40", **environment}
    with mock.patch.dict(os.environ, size), mock.patch.object(sys, "stderr", out):
        yield


def report(update: int, steps: int = 2048, total: int = 51_200, run: str = "brawl-1", rewards: Any = REWARDS) -> Report:
    """An update of brawl's."""
    metrics = {name: value * (1 + update / 10) for name, value in METRICS.items()}
    rates = {"bot:based": 0.1 + 0.02 * update, "self_play": 0.5}
    return Report(steps * update, total, update, 634.2, 52.0, metrics, rates, rewards, run)


def watch(verbosity: int, reports: list[Report], out: io.StringIO | None = None, **environment: str) -> list[str]:
    """The lines that a callback writes."""
    out = out or io.StringIO()
    with writing(out, **environment), TerminalCallback(verbosity) as callback:
        for each in reports:
            callback.report(each)
    return out.getvalue().splitlines()


# The dashboard


def told(name: str = "brawl-1", updates: int = 10) -> LearnerFigures:
    """A learner after some updates and two evaluations."""
    learner = LearnerFigures(name)
    for update in range(1, updates + 1):
        learner.add(report(update, run=name))
    for wins in (5, 20):
        learner.add_evaluation("bot:based", Summary(wins, 2, 28 - wins, {}, {}, 100.0))
        learner.add_evaluation("bot:punisher", Summary(wins // 5, 0, 30 - wins // 5, {}, {}, 100.0))
        rated = [Rated(f"{name}@{wins}", 900.0 + 8 * wins, 800.0 + 8 * wins, 1000.0 + 8 * wins, True)]
        rated.append(Rated("bot:punisher", 1434.2, 1253.0, 1615.0, False))
        learner.add_ratings([*rated, Rated("bot:based", 1000.0, 1000.0, 1000.0, False)])
    learner.add_words("alarm at step 12,288: KL above 0.1 nats in 3 updates in a row; lower learner.learning_rate")
    return learner


def view(*, is_league: bool = False) -> Screen:
    """All that a picture may show, of a machine with a GPU and eight cores."""
    machine = Machine()
    machine.cores, machine.gpu = deque([1.0, 7.5, 3.25] * 10), deque([0.1, 0.9, 0.43] * 10)
    machine.memory, machine.gpu_memory = 945 * 2**20, (int(2.1 * 2**30), 79 * 2**30)
    shares = dict(zip(KINDS, (0.21, 0.28, 0.02, 0.29, 0.15, 0.05), strict=True))
    learners = {"": told()}
    if is_league:
        names = [f"kuhn-league-1.{role}" for role in ("main", "main_exploiter", "league_exploiter_1")]
        learners = {names[0]: told(names[0]), names[1]: told(names[1], 3), names[2]: LearnerFigures(names[2])}
    return Screen(learners, shares, "evaluation", ("matches", 120, 300, 0.0), machine, 208.0, is_league)


def plain(lines: list[Text]) -> str:
    """Without colours."""
    return "\n".join(line.plain for line in lines) + "\n"


@pytest.mark.parametrize(("width", "height"), [(60, 40), (80, 40), (100, 30), (140, 30)])
@pytest.mark.parametrize("is_league", [False, True])
def test_the_dashboard_has_its_figures(is_league: bool, width: int, height: int) -> None:
    """Of the run and its machine at every width; from 100 columns on two sections stand side by side."""
    with mock.patch.object(Machine, "num_cores", 8):
        shown = plain(picture(view(is_league=is_league), width, height))
    assert [row for row in (LEAGUE if is_league else RUN) if not has_row(shown, row)] == [], shown
    assert is_league or has_row(shown, "opponents learning history") == (width >= 100)


@pytest.mark.parametrize("is_league", [False, True])
def test_it_fits_every_terminal(is_league: bool) -> None:
    """No line is wider than the terminal and none is too many, down to a single letter; ASCII alone where asked."""
    for width in (1, 7, 20, 39, 61, 80, 99, 100, 133, 200):
        for height in (1, 3, 8, 24, 60):
            for is_ascii in (False, True):
                lines = picture(view(is_league=is_league), width, height, is_ascii)
                assert len(lines) <= height and max(line.cell_len for line in lines) <= width
                assert not is_ascii or plain(lines).isascii()
    assert plain(picture(Screen(now="evaluation", seconds=5.0), 80, 24)).startswith(
        "starting  0:05 elapsed  evaluation"
    )


def test_figures_are_coloured_by_health() -> None:
    """Green within the healthy range, red beyond the alarm's limit, yellow between, nothing where the game alone tells.

    Limits of the gradient are multiples of a setting. docs/training.md has a row for each reading, with its range.
    """
    assert [health("approx_kl", [x]) for x in (0.01, 0.0001, 0.05, 0.2)] == ["green", "yellow", "yellow", "red"]
    assert [health("explained_variance", [x]) for x in (0.3, -0.2, -0.6)] == ["green", "yellow", "red"]
    assert [health("entropy", [2.0, x]) for x in (1.0, 0.3, 0.05)] == ["green", "green", "yellow"]
    assert [health("value_loss", [0.1, 0.1, x]) for x in (0.2, 2.0, 20.0)] == ["", "yellow", "red"]
    assert [health("gradient_norm", [x], 0.5) for x in (1.0, 2.0, 60.0)] == ["green", "yellow", "red"]
    assert health("reward_per_step", [1e9]) == ""
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for x in READINGS:
        assert f"| `{x.metric}` | {x.healthy[0]:g} to {x.healthy[1]:g} |" in page, x.metric


def test_a_terminal_gets_the_dashboard_and_keeps_it() -> None:
    """Its last picture remains, words stand above it, and the cursor is never hidden: nothing is left to be mended."""
    out = Tty()
    with writing(out, NO_COLOR="1"), TerminalCallback() as callback:
        callback.say("pool.mix [bold]")
        callback.evaluated(0, "bot:constant", SUMMARY)
        callback.report(report(5))
        callback.rated(488, [Rated("brawl-1@5", 1100.0, 1000.0, 1200.0, True)])
    shown = text(out)
    assert "10,240 of 51,200 steps" in shown and "634 steps/s" in shown and "own rating 1100 ±100" in shown
    assert "pool.mix [bold]" in shown and "\x1b[?25l" not in out.getvalue() and shown.endswith("\n")
    assert not phases._listeners and not phases._gauges


# Where the time goes


def test_the_meter_counts_each_moment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time goes to the innermost phase that has a kind; what lies in learning or an evaluation is theirs."""
    now = [0.0]
    monkeypatch.setattr(sampling.time, "perf_counter", lambda: now[0])
    meter = Meter()
    steps = [
        *(("play", True, 1), ("game", True, 2), ("game", False, 4), ("play_net", True, 8), ("play_net", False, 16)),
        *(("play", False, 32), ("evaluate", True, 64), ("game", True, 128), ("game", False, 256)),
        *(("evaluate", False, 512), ("write rows", True, 1024), ("write rows", False, 2048), ("learn", True, 4096)),
    ]
    spent = dict.fromkeys(KINDS, 0)
    kinds = ["waiting", "play nets", "game", "play nets", "play nets", "play nets", "waiting"]
    kinds += ["evaluation"] * 3 + ["waiting"] * 3
    for (name, begins, seconds), kind in zip(steps, kinds, strict=True):
        now[0] += seconds
        spent[kind] += seconds
        meter(name, begins)
    now[0] += 8192
    spent["learning"] += 8192
    assert meter.shares() == pytest.approx({kind: seconds / sum(spent.values()) for kind, seconds in spent.items()})
    other = threading.Thread(target=meter, args=("game", True))
    other.start()
    other.join()
    assert meter.now == "learning", "another thread's phases are not this one's"


CROWD = """
import hashlib, os, threading
from league.printing import sampling

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # threads that begin from here on have one core between them
sampling.SETTLED = 0.1
found, data = sampling.Machine(), bytes(2**24)
assert found.crowding() == 0.0  # nothing was done yet
threads = [threading.Thread(target=lambda: [hashlib.sha256(data) for _ in range(40)]) for _ in range(3)]
for thread in threads:
    thread.start()
while (share := found.crowding()) == 0.0 and any(thread.is_alive() for thread in threads):
    threads[0].join(0.05)
print(share)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="this system does not say who waits for a core")
def test_threads_that_wait_for_a_core_are_seen() -> None:
    """Three busy threads on one core wait two thirds of their time."""
    made = subprocess.run([sys.executable, "-c", CROWD], capture_output=True, text=True, check=True)
    assert 0.4 < float(made.stdout) < 1.0


@pytest.mark.parametrize(("crowding", "threads", "is_told"), [(0.6, 2, True), (0.6, 1, False), (0.1, 2, False)])
def test_a_crowded_machine_is_told_once(
    crowding: float, threads: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where several threads wait for cores, one line says so and what helps; one thread has nothing to wait for."""
    monkeypatch.setattr(Machine, "crowding", lambda _: crowding)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert "\n".join(watch(1, [report(1), report(2)])).count("OMP_NUM_THREADS=1") == is_told


def test_a_gpu_is_read_by_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Busy share and memory, as nvidia-smi prints them every half second; the process ends with the dashboard."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '43, 2150, 81559'\necho 'N/A, x'\necho '90, 2160, 81559'\nexec sleep 60\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = Machine()
    found._begin_gpu(0)
    until = time.monotonic() + 20
    while len(found.gpu) < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert list(found.gpu) == [0.43, 0.9] and found.gpu_memory == (2160 * 2**20, 81559 * 2**20)
    found.close()
    assert found._watch is not None and found._watch.returncode is not None


# Plain lines


@pytest.mark.parametrize("kind", ["pipe", "dumb"])
def test_plain_lines_have_two_columns_and_fixed_keys(kind: str) -> None:
    """Without a terminal that can be written over, an update is some lines, a key and what it is, without escapes."""
    out, term = (io.StringIO(), "xterm") if kind == "pipe" else (Tty(), "dumb")
    metrics, rates = {"entropy": 6.931, "approx_kl": 0.00421, "clip_share": 0.123}, {"bot:based": 0.3, "self_play": 0.5}
    lines = watch(1, [Report(2048, 50_000, 1, 1234.5, 4000.4, metrics, rates, (), "brawl-1")], out, TERM=term)
    assert [line[:9].strip() for line in lines] == ["steps", "time", "rate", "won", "learning", "machine"]
    assert lines[0] == "steps     2,048 of 50,000, 4%" and lines[1].endswith("elapsed, 1:06:40 left")
    assert lines[2].startswith("rate      1,234 steps/s") and lines[3] == "won       based 30%, self_play 50%"
    assert lines[4] == "learning  entropy 6.93, KL 0.0042, clipped 12%" and "\x1b" not in "".join(lines)


@pytest.mark.parametrize(("verbosity", "updates"), [(0, []), (1, [1, 5, 10, 12]), (2, list(range(1, 13)))])
def test_plain_lines_are_few_unless_asked_for(verbosity: int, updates: list[int]) -> None:
    """The first, every fifth and the last update at verbosity 1, all at 2, none at 0."""
    reports = [report(update, 2_000, 24_000) for update in range(1, 13)]
    lines = [line for line in watch(verbosity, reports, width="40") if line.startswith("steps")]
    assert [line.split()[1] for line in lines] == [f"{2_000 * update:,}" for update in updates]


def test_rewards_are_told_ten_times_a_stage_and_with_its_evaluations() -> None:
    """One line with what every weighted term brought; never the same line twice, and none before a match is over."""
    out = io.StringIO()

    def lines() -> list[str]:
        found = [line for line in out.getvalue().splitlines() if " reward a match " in line]
        out.seek(0)
        out.truncate()
        return found

    with writing(out), TerminalCallback() as callback:
        callback.report(report(0, 100, 10_000, rewards=()))
        for update in range(1, 101):
            callback.report(report(update, 100, 10_000))
        found = lines()
        assert [line.split(" ")[1] for line in found] == [f"{1_000 * tenth:,}" for tenth in range(1, 11)]
        assert "stock_lost -2.48" in found[0] and "hit" not in found[0]
        callback.evaluated(10_060, "bot:constant", SUMMARY)
        assert "at 10,060 against bot:constant: score 62% [41%, 80%], 10 won, 5 drawn, 5 lost" in out.getvalue()
        callback.report(report(101, 100, 20_000))
        assert len(lines()) == 1
        callback.report(report(102, 100, 20_000))
        assert lines() == []
    assert len(lines()) == 1, "a run that stops tells where it stood"


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


# Real runs

TINY = [*SMALL, "run.total_steps=512", "pool.snapshot_every=128"]


def train(store: Path, callback: Any) -> Any:
    """A tiny run's result."""
    return league.train("smoke", env="matrix", overrides=TINY, store=store, callback=callback)


@pytest.mark.slow
def test_who_watches_changes_no_bit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a dashboard, plain lines, JSON lines and nobody the same weights are learned; each has all of it."""
    out = Tty()
    with writing(out, width=120, NO_COLOR="1"), TerminalCallback() as callback:
        watched = train(tmp_path / "a", callback).newest
    with writing(io.StringIO()), TerminalCallback(2) as lines:
        assert train(tmp_path / "b", lines).newest == watched == train(tmp_path / "c", None).newest
    last = text(out)[text(out).rindex("matrix-1  100%") :]
    assert "512 of 512 steps" in last and "own rating" in last and "time goes to" in last and "learning" in last
    assert all(name in last for name in ("biased", "random", "self_play", "entropy", "KL", "processor"))
    capsys.readouterr()
    with TerminalCallback(json_lines=True) as callback:
        result = train(tmp_path / "d", callback)
    callback.result(result)
    shown, err = capsys.readouterr()
    events = [json.loads(line) for line in shown.splitlines()]
    assert {x["event"] for x in events} == {"said", "update", "evaluating", "evaluated", "rated", "result"} and not err
    updates = [event for event in events if event["event"] == "update"]
    assert [event["steps"] for event in updates] == [128, 256, 384, 512] and updates[0]["run"] == "matrix-1"
    assert sum(updates[-1]["time_goes_to"].values()) == pytest.approx(1.0) and result.newest == watched
    rated = [event for event in events if event["event"] == "rated"][-1]["ratings"]
    assert [x["name"] for x in rated if x["is_newest"]] == ["matrix-1@512"] and len(rated) > 2
    assert events[-1]["event"] == "result" and events[-1]["status"] == "finished"


def test_a_league_has_a_row_a_learner(tmp_path: Path) -> None:
    """Each learner's updates reach the dashboard under its name."""
    sets = [*SMALL, "run.total_steps=128", "run.evaluate_games=2"]
    (tmp_path / "pair.toml").write_text(PAIR)
    how: dict[str, Any] = {"stage": "smoke", "env": "matrix", "overrides": sets, "store": tmp_path}
    out = Tty()
    with writing(out, width=120, NO_COLOR="1"), TerminalCallback() as callback:
        done = league.train(league=tmp_path / "pair.toml", **how, callback=callback)
    learners = [learner.run for learner in done.learners]
    assert list(callback.view.learners) == learners and len(learners) == 2
    assert all(x.report is not None and x.report.run == name for name, x in callback.view.learners.items())
    last = text(out)[text(out).rindex("\nlearner ") :]
    assert all(f"\n{name.rpartition('.')[2]} " in last for name in learners)


# Bars


@pytest.mark.parametrize("kind", ["terminal", "pipe", "quiet", "dumb"])
def test_a_bar_shows_batches_within_the_whole(kind: str) -> None:
    """Games of the batch under way move the bar of all; it goes when the command is over, and hides no cursor.

    A pipe, a dumb terminal and --quiet get no bar; the first two the words.
    """
    out = io.StringIO() if kind == "pipe" else Tty()
    with (
        writing(out, TERM="dumb" if kind == "dumb" else "xterm-256color"),
        mock.patch.object(bars, "SHOWN_EVERY", 0.0),
        Bar(kind == "quiet") as bar,
    ):
        bar.say("playing 100 games")
        for done in (0, 40):
            phases.advance("games", done, 100)
            phases.advance("matches", 20, 40)
            if bar._progress is not None:
                bar._progress.refresh()
    shown = out.getvalue()
    assert phases._gauges == []
    if kind == "terminal":
        assert "playing 100 games" in shown and "20 of 100" in shown and "60 of 100" in shown
        assert "\x1b[?25l" not in shown and shown.rstrip(" \n").endswith("\x1b[2K")
    else:
        assert shown == ("" if kind == "quiet" else "playing 100 games\n")
