"""The dashboard's pictures at several widths, what feeds them, and that nothing of a run depends on who watches."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from unittest import mock

import pytest
from rich.text import Text

from league import phases
from league.boards.leaderboards import Rated
from league.boards.readings import READINGS, health
from league.play.summaries import Summary
from league.printing import bars, sampling
from league.printing.bars import Bar
from league.printing.dashboard import Screen, picture, spark
from league.printing.figures import LearnerFigures
from league.printing.sampling import KINDS, Machine, Meter
from league.store.rows import RewardTerm
from league.training.run import Report
from tests.helpers.words import has_row

SIZES = ((60, 40), (80, 40), (100, 30), (140, 30))
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


def report(update: int, run: str = "brawl-1", total: int = 51_200) -> Report:
    """An update of 2,048 steps."""
    metrics = {name: value * (1 + update / 10) for name, value in METRICS.items()}
    rates = {"bot:based": 0.1 + 0.02 * update, "self_play": 0.5}
    return Report(2048 * update, total, update, 634.2, 52.0, metrics, rates, REWARDS, run)


def told(name: str = "brawl-1", updates: int = 10) -> LearnerFigures:
    """A learner after some updates and two evaluations."""
    learner = LearnerFigures(name)
    for update in range(1, updates + 1):
        learner.add(report(update, name))
    for wins in (5, 20):
        learner.add_evaluation(2048 * wins, "bot:based", Summary(wins, 2, 28 - wins, {}, {}, 100.0))
        learner.add_evaluation(2048 * wins, "bot:punisher", Summary(wins // 5, 0, 30 - wins // 5, {}, {}, 100.0))
        rated = [Rated(f"{name}@{wins}", 900.0 + 8 * wins, 800.0 + 8 * wins, 1000.0 + 8 * wins, True)]
        rated.append(Rated("bot:punisher", 1434.2, 1253.0, 1615.0, False))
        learner.add_ratings([*rated, Rated("bot:based", 1000.0, 1000.0, 1000.0, False)])
    learner.add_words("alarm at step 12,288: KL above 0.1 nats in 3 updates in a row; lower learner.learning_rate")
    return learner


def machine() -> Machine:
    """One with a GPU and eight cores."""
    made = Machine()
    made.cores, made.gpu = deque([1.0, 7.5, 3.25] * 10), deque([0.1, 0.9, 0.43] * 10)
    made.memory, made.gpu_memory = 945 * 2**20, (int(2.1 * 2**30), 79 * 2**30)
    return made


def view(*, is_league: bool = False) -> Screen:
    """All that a picture may show."""
    shares = dict(zip(KINDS, (0.21, 0.28, 0.02, 0.29, 0.15, 0.05), strict=True))
    learners = {"": told()}
    if is_league:
        names = [f"kuhn-league-1.{role}" for role in ("main", "main_exploiter", "league_exploiter_1")]
        learners = {names[0]: told(names[0]), names[1]: told(names[1], 3), names[2]: LearnerFigures(names[2])}
    return Screen(learners, shares, "evaluation", ("matches", 120, 300, 0.0), machine(), 208.0, is_league)


def text(lines: list[Text]) -> str:
    """Without colours."""
    return "\n".join(line.plain for line in lines) + "\n"


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("is_league", [False, True])
def test_the_dashboard_has_its_figures(is_league: bool, width: int, height: int) -> None:
    """Of the run and its machine at every width; from 100 columns on two sections stand side by side."""
    with mock.patch.object(Machine, "num_cores", 8):
        shown = text(picture(view(is_league=is_league), width, height))
    assert [row for row in (LEAGUE if is_league else RUN) if not has_row(shown, row)] == [], shown
    assert is_league or has_row(shown, "opponents learning history") == (width >= 100)


@pytest.mark.parametrize("is_league", [False, True])
def test_it_fits_every_terminal(is_league: bool) -> None:
    """No line is wider than the terminal and none is too many, down to a single letter; ASCII alone where asked."""
    for width in (1, 7, 20, 39, 61, 80, 99, 100, 133, 200):
        for height in (1, 3, 8, 24, 60):
            for plain in (False, True):
                lines = picture(view(is_league=is_league), width, height, plain)
                assert len(lines) <= height and max(line.cell_len for line in lines) <= width
                assert not plain or text(lines).isascii()


def test_before_the_first_update_something_is_shown() -> None:
    """It begins with what is done and for how long."""
    assert text(picture(Screen(now="evaluation", seconds=5.0), 80, 24)).startswith("starting  0:05 elapsed  evaluation")


def test_figures_are_coloured_by_health() -> None:
    """Green within the healthy range, red beyond the alarm's limit, yellow between, nothing where the game alone tells.

    Limits of the gradient are multiples of a setting.
    """
    assert [health("approx_kl", [x]) for x in (0.01, 0.0001, 0.05, 0.2)] == ["green", "yellow", "yellow", "red"]
    assert [health("explained_variance", [x]) for x in (0.3, -0.2, -0.6)] == ["green", "yellow", "red"]
    assert [health("clip_share", [x]) for x in (0.1, 0.4, 0.6)] == ["green", "yellow", "red"]
    assert [health("entropy", [2.0, x]) for x in (1.0, 0.3, 0.05)] == ["green", "green", "yellow"]
    assert [health("value_loss", [0.1, 0.1, x]) for x in (0.2, 2.0, 20.0)] == ["", "yellow", "red"]
    assert [health("gradient_norm", [x], 0.5) for x in (1.0, 2.0, 60.0)] == ["green", "yellow", "red"]
    assert health("reward_per_step", [1e9]) == ""


def test_the_page_has_the_limits_of_every_reading() -> None:
    """docs/training.md has a row for each, with its healthy range."""
    page = (Path(__file__).parents[2] / "docs" / "training.md").read_text(encoding="utf-8")
    for x in READINGS:
        low, high = (f"{limit:g}" for limit in x.healthy)
        assert f"| `{x.metric}` | {low} to {high} |" in page, x.metric


def test_a_curve_is_a_letter_a_value() -> None:
    """The lowest bar for the least, the highest for the most; within a span by the span; the newest values."""
    assert spark([0, 1, 2, 3], 4, False) == "▁▃▆█" and spark([5, 5], 4, False) == "▁▁"
    assert spark([0.5, 2.0, -1.0], 3, False, (0.0, 1.0)) == "▅█▁" and spark(range(9), 2, False) == "▁█"
    assert spark([], 4, True) == "" and spark([0, 1], 4, True) == "_@"


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
    assert meter.now == "learning"
    assert meter.shares() == pytest.approx({kind: seconds / sum(spent.values()) for kind, seconds in spent.items()})
    other = threading.Thread(target=meter, args=("game", True))
    other.start()
    other.join()
    assert meter.now == "learning", "another thread's phases are not this one's"


def test_the_machine_is_read() -> None:
    """Processor seconds a second and the memory of this process; without a GPU nothing of one."""
    found = Machine()
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    found.sample()
    assert found.cores[-1] > 0.0 and found.memory > 2**20 and not found.gpu and found.num_cores >= 1
    found.close()


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


# Bars


class Tty(io.StringIO):
    """A terminal that is a string."""

    def isatty(self) -> bool:
        """It says that it is one."""
        return True


def show_bar(out: io.StringIO, quiet: bool = False) -> str:
    """What a bar writes over a tournament of two batches."""
    with mock.patch.object(bars, "SHOWN_EVERY", 0.0), mock.patch.object(sys, "stderr", out), Bar(quiet) as bar:
        bar.say("playing 100 games")
        for done in (0, 40):
            phases.advance("games", done, 100)
            phases.advance("matches", 20, 40)
            if bar._progress is not None:
                bar._progress.refresh()
    return out.getvalue()


def test_a_bar_shows_batches_within_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Games of the batch under way move the bar of all; it goes when the command is over, and hides no cursor."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    shown = show_bar(Tty())
    assert "playing 100 games" in shown and "20 of 100" in shown and "60 of 100" in shown
    assert "\x1b[?25l" not in shown and shown.rstrip(" \n").endswith("\x1b[2K")
    assert phases._gauges == []


@pytest.mark.parametrize("kind", ["pipe", "quiet", "dumb"])
def test_no_bar_where_nobody_could_see_it(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, a dumb terminal and --quiet get no bar; the first two the words."""
    monkeypatch.setenv("TERM", "dumb" if kind == "dumb" else "xterm")
    shown = show_bar(io.StringIO() if kind == "pipe" else Tty(), quiet=kind == "quiet")
    assert shown == ("" if kind == "quiet" else "playing 100 games\n")
