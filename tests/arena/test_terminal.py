"""A match in the terminal: at the game's pace, in the terminal's size, and refused where there is none."""

import io
from typing import Any

import pytest

import league
from league.arena import terminal
from league.arena.frames import course_of
from league.arena.replays import Playback, parse
from league.errors import LeagueError, UsageError
from tests.arena.test_pages import Told
from tests.arena.test_replays import random_match


class Screen(io.StringIO):
    """A terminal that keeps what is written."""

    def isatty(self) -> bool:
        """It says that it is one."""
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """A terminal of 60 x 20 letters in which no time is lost."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(terminal.time, "sleep", sleep)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "20")
    return Screen()


def pictures(text: str) -> list[list[str]]:
    """The pictures that were shown, as lines without their colours."""
    import re

    plain = re.sub(r"\x1b\[[0-9;]*m", "", text.replace(terminal.CLEAR, "").replace(terminal.HIDE, ""))
    return [shown.rstrip("\n").split("\n") for shown in plain.split(terminal.HOME)[1:]]


def test_a_match_is_shown_from_its_beginning_to_its_end(screen: Screen) -> None:
    """Ten pictures a second, as wide and high as the terminal; after it the cursor is back."""
    replay = parse(random_match("brawl", 1)[0], "f")
    course = course_of(Playback(replay, "f"), None, 20)
    terminal.play(replay, course, out=screen)
    shown = pictures(screen.getvalue())
    assert 19 <= len(shown) <= 22
    for lines in shown[:-1]:
        assert lines[0].startswith("A against B") and len(lines) == 19
        assert all(line == terminal.UPPER * 60 for line in lines[1:])
    assert screen.getvalue().endswith(terminal.SHOW + "\n") and screen.getvalue().count("\x1b[38;2;") > 1_000


def test_a_game_without_a_drawing_is_told_in_words(screen: Screen) -> None:
    """Its observations, cut to the terminal."""
    from league.envs import registry

    name = registry.adopt(Told, "told")
    replay = parse(random_match(name, 1)[0], "f")
    terminal.play(replay, course_of(Playback(replay, "f")), out=screen)
    assert "seat 0 sees" in screen.getvalue() and max(len(x) for x in pictures(screen.getvalue())[0]) <= 60


def test_columns_of_no_width_are_the_terminals(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some shells export COLUMNS=0; the size of the terminal itself counts then, and 80 x 24 where it has none."""
    for name in ("COLUMNS", "LINES"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setattr("sys.__stdout__", screen)
    assert terminal.check(screen) == (80, 24)


@pytest.mark.parametrize(("size", "words"), [(("30", "20"), "30 x 20"), (("60", "5"), "60 x 5")])
def test_a_terminal_that_is_too_small_is_one_line(
    size: tuple[str, str], words: str, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its size and the least; where there is no terminal at all, with what else there is."""
    monkeypatch.setenv("COLUMNS", size[0])
    monkeypatch.setenv("LINES", size[1])
    with pytest.raises(UsageError, match=words):
        terminal.check(screen)
    out: Any = io.StringIO()
    with pytest.raises(UsageError, match=r"needs a terminal; pass --out FILE\.html"):
        terminal.check(out)
    with pytest.raises(UsageError, match="needs a terminal"):
        league.watch("bot:based", "bot:rusher", env="brawl")
    with pytest.raises(LeagueError, match=r"NOBODY|no store"):  # what is wrong with the names comes first
        league.watch("NOBODY", "bot:rusher", env="brawl")
