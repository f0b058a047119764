"""What a training looks like: two lines that fit in a terminal, plain lines elsewhere."""

import io
from functools import partial
from typing import Any

import pytest
from rich.console import Console

from league import progress
from league.play.evaluation import Summary
from league.progress import TerminalWatcher
from league.store.rows import RewardTerm
from league.training.run import Report

METRICS = {"entropy": 6.931, "approx_kl": 0.00421, "clip_share": 0.123}
REWARDS = (
    RewardTerm("damage_dealt", 2.0, 100, 90, 1.207, 1.0),
    RewardTerm("win", -0.1, 100, 100, 0.01, 0.0),
    RewardTerm("hit", 0.0, 100, 50, 3.0, 3.0),
)
RATES = {"bot:based": 0.3, "bot:constant": 1.0, "self_play": 0.5}


def report(update: int, steps: int = 2048, total: int = 50_000, seconds: float = 4000.4, rewards: Any = ()) -> Report:
    """An update of brawl's."""
    return Report(steps, total, update, 1234.5, seconds, METRICS, RATES, rewards)


def watch(monkeypatch: pytest.MonkeyPatch, verbosity: int, reports: list[Report], **how: Any) -> str:
    """What a watcher writes."""
    out = io.StringIO()
    monkeypatch.setattr(progress, "_Console", partial(Console, file=out, **how))
    with TerminalWatcher(verbosity) as watcher:
        for each in reports:
            watcher.report(each)
    return out.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_lines_fit(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps, rate, time left, win-rates, entropy, KL and clip share stand in two lines; none is cut at 80 columns."""
    how = {"force_terminal": True, "width": width, "color_system": None, "legacy_windows": False}
    reports = [report(1, total=10_000_000), report(488, 9_999_360, 10_000_000, 0.4)]
    shown = watch(monkeypatch, 1, reports, **how).replace("\r", "\n").split("\n")
    assert (
        max(len(line.replace("\x1b[2K", "").replace("\x1b[1A", "").replace("\x1b[?25l", "")) for line in shown) <= width
    )
    text = "\n".join(shown)
    assert "9,999,360/10,000,000 steps" in text and "1,234/s  0:00 left" in text
    assert "won: based 30% constant 100% self_play 50%  entropy 6.93  KL 0.0042  clipped 12%" in text
    assert "\x1b[?25h" in text, "the cursor is given back"


def test_a_narrow_terminal_cuts_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 40 columns the detail ends in an ellipsis instead of running over into lines that are never erased."""
    how = {"force_terminal": True, "width": 40, "color_system": None, "legacy_windows": False}
    assert "won: based 30% constant 100% self_play …" in watch(monkeypatch, 1, [report(1)], **how)


def test_plain_lines_are_few_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal: the first, every fifth and the last update at verbosity 1, all at 2, none at 0."""
    reports = [report(update, 2_000 * update, 24_000) for update in range(1, 13)]
    for verbosity, updates in ((0, []), (1, [1, 5, 10, 12]), (2, list(range(1, 13)))):
        lines = watch(monkeypatch, verbosity, reports, width=60).splitlines()
        assert [line.split("/")[0] for line in lines] == [f"{2_000 * update:,}" for update in updates]
    assert lines[0].endswith("clipped 12%") and "1:06:40 left" in lines[0], "a line is never wrapped"


def test_an_evaluation_is_one_line_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score, interval and counts of an evaluation of usual size fit, and names with brackets are left alone."""
    out = io.StringIO()
    monkeypatch.setattr(progress, "_Console", partial(Console, file=out, width=80))
    summary = Summary(10, 5, 5, {}, {}, 100.0)
    TerminalWatcher().evaluated(50_176, "bot:constant", summary)
    TerminalWatcher().say("pool.mix [bold]")
    assert out.getvalue().splitlines() == [
        "at 50,176 against bot:constant: score 62% [41%, 80%], 10 won, 5 drawn, 5 lost",
        "pool.mix [bold]",
    ]


def test_rewards_are_told_ten_times_a_stage_and_with_its_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line with what every weighted term brought; never the same line twice."""
    out = io.StringIO()
    monkeypatch.setattr(progress, "_Console", partial(Console, file=out, width=80))
    summary = Summary(10, 5, 5, {}, {}, 100.0)

    def told() -> list[str]:
        lines = [line for line in out.getvalue().splitlines() if " reward a match " in line]
        out.seek(0)
        out.truncate()
        return lines

    with TerminalWatcher() as watcher:
        for update in range(1, 101):
            watcher.report(report(update, 100 * update, 10_000, rewards=REWARDS))
        lines = told()
        assert [line.split(" ")[1] for line in lines] == [f"{1_000 * tenth:,}" for tenth in range(1, 11)]
        assert lines[0] == ("at 1,000 reward a match 2.41 (last 100):  damage_dealt +2.41")
        watcher.report(report(101, 10_050, 20_000, rewards=REWARDS))
        assert len(told()) == 1, "another tenth"
        watcher.report(report(102, 10_060, 20_000, rewards=REWARDS))
        assert told() == []
        watcher.evaluated(10_060, "bot:constant", summary)
        watcher.evaluated(10_060, "bot:random", summary)
        assert len(told()) == 1
        watcher.report(report(103, 10_070, 20_000, rewards=REWARDS))
    assert len(told()) == 1, "a run that stops tells where it stood"


def test_without_a_match_nothing_is_told_of_rewards(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose first match is not over, and a quiet one, have no line about rewards."""
    reports = [report(update, 2_000 * update, 24_000) for update in range(1, 13)]
    assert "reward a match" not in watch(monkeypatch, 1, reports, width=60)
    loud = [report(update, 2_000 * update, 24_000, rewards=REWARDS) for update in range(1, 13)]
    assert "reward a match" not in watch(monkeypatch, 0, loud, width=60) and "reward a match" in watch(
        monkeypatch, 1, loud, width=60
    )
