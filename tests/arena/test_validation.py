"""Submissions before they are submitted: good ones hold all rules, bad ones break one in a line and hurt nothing."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import zipfile
from pathlib import Path

import pytest

import league
from league.arena.validation import Validation, validate
from league.errors import LeagueError, UsageError
from league.runtime import sandbox
from tests.helpers.cases import cases
from tests.helpers.commands import call

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not sandbox.is_possible(), reason="this machine cannot shut a process in"),
]
GAME = str(Path(__file__).parents[2] / "examples/tictactoe.py")
GOOD = """
import random

class Agent:
    def reset(self, seed):
        self.rng, self.count = random.Random(seed), 0

    def act(self, observation, mask):
        {act}
        return self.rng.choice([i for i, legal in enumerate(mask) if legal])
"""
BAD = {
    "imports what is not there": ("import torchvision_of_mars", "starts", "No module named 'torchvision_of_mars'"),
    "does not compile": ("def x(:", "starts", "invalid syntax"),
    "has no agent": ("class Agnet: pass", "starts", "no class Agent or LeagueAgent"),
    "ends": ("raise SystemExit(0)", "starts", "exit code 0"),
    "is killed": ("import os; os.kill(os.getpid(), 9)", "starts", "sends a signal"),
    "raises": (GOOD.format(act="1 / 0"), "whole matches", "ZeroDivisionError"),
    "answers nan": (GOOD.format(act="return float('nan')"), "whole matches", "no legal action"),
    "answers an illegal action": (GOOD.format(act="return 77"), "whole matches", "77] is no legal action"),
    "answers nothing": (GOOD.format(act="return None"), "whole matches", "no legal action"),
    "loops": (GOOD.format(act="\n        while True: pass"), "whole matches", "no answer within 1 s"),
    "sleeps": (GOOD.format(act="__import__('time').sleep(0.2)"), "time", "of 100 ms"),
    "forks": (GOOD.format(act="__import__('os').fork()"), "whole matches", "forks (os.fork)"),
    "forks natively": (
        GOOD.format(act="if __import__('ctypes').CDLL(None).fork() < 0: raise OSError('refused')"),
        "whole matches",
        "refused",
    ),
    "starts a program": (GOOD.format(act="__import__('os').system('true')"), "whole matches", "starts a program"),
    "eats memory": (GOOD.format(act="self.all = bytearray(2**31)"), "whole matches", "MemoryError"),
    "writes": (GOOD.format(act="open('PLACE', 'w')"), "whole matches", "writes the file"),
    "writes natively": (
        GOOD.format(act="if __import__('ctypes').CDLL(None).creat(b'PLACE', 0o600) < 0: raise OSError('refused')"),
        "whole matches",
        "refused",
    ),
    "removes": (GOOD.format(act="__import__('os').remove('PLACE')"), "whole matches", "removes a file"),
    "reads": (GOOD.format(act="open('PLACE')"), "whole matches", "reads the file"),
    "opens a socket": (GOOD.format(act="__import__('socket').socket()"), "whole matches", "opens a socket"),
    "prints a gigabyte": (
        GOOD.format(act="[print('x' * 2**20) for _ in range(1024)]"),
        "whole matches",
        "exit code 1",
    ),
    "remembers": (
        GOOD.format(act="self.n = getattr(self, 'n', 0) + 1; self.rng.seed(self.n)"),
        "reset and seed",
        "decision 1 was",
    ),
    "ignores the seed": (GOOD.replace("Random(seed)", "Random()").format(act="pass"), "reset and seed", "was"),
}
"""What it does -> its agent.py, the rule that it breaks, words of what was found."""


def write(folder: Path, code: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "agent.py").write_text(code)
    return folder


def broken(found: Validation) -> dict[str, str]:
    return {check.rule: check.found for check in found.checks if check.next}


USUAL = (
    "imports what is not there",
    "answers nan",
    "loops",
    "forks natively",
    "eats memory",
    "writes",
    "opens a socket",
)


@pytest.mark.parametrize("what", cases(*USUAL, "prints a gigabyte", "remembers", slow=BAD))
def test_a_bad_submission_is_one_line(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that it breaks is named, files outside are as they were, and nothing of it goes on."""
    monkeypatch.setenv("LEAGUE_PROGRAM_SECONDS", "1" if what == "loops" else "60")
    place = tmp_path / "place"
    if what in ("removes", "reads"):
        place.write_text("kept")
    code, rule, words = BAD[what]
    folder = write(tmp_path / "bad", code.replace("PLACE", str(place)))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    found = validate(folder, env=GAME, matches=4, time_limit=0.1 if what == "sleeps" else 30.0)
    assert not found.is_fit and words in broken(found)[rule], found.checks
    assert len(broken(found)) == 1 and "\n" not in broken(found)[rule]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def test_good_submissions_hold_all_rules(tmp_path: Path) -> None:
    """A class of the user's, as a folder and as a zip with one folder in it; a main.py; an export of league."""
    folder = write(tmp_path / "mine", GOOD.format(act="self.count += 1"))
    (folder / "requirements.txt").write_text("# two\nnumpy\nonnxruntime>=1.17\n")
    main = tmp_path / "kaggle"
    main.mkdir()
    (main / "main.py").write_text("def agent(observation, configuration):\n    return observation.mask.index(1)\n")
    packed = tmp_path / "mine.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for path in folder.iterdir():
            file.write(path, f"inner/{path.name}")
    for submission in (folder, packed, main):
        found = validate(submission, env=GAME, matches=4, time_limit=30.0)
        assert found.is_fit and found.is_isolated, found.checks
        assert found.decisions >= 4 * 2 and 0 < found.median_ms <= found.worst_ms and found.peak_mib > 1
    run = league.train("smoke", env="matrix", device="cpu", store=tmp_path / "runs", callback=()).run
    league.export(run, tmp_path / "out.zip", format="submission", store=tmp_path / "runs")
    assert validate(tmp_path / "out.zip", matches=4, time_limit=30.0).is_fit
    for told in (b"a\nb\nc\nd\n", b"numpy\n\xff\xfe", b"numpy\0"):
        (folder / "requirements.txt").write_bytes(told)
        assert set(broken(validate(folder, env=GAME, matches=2, time_limit=30.0))) == {"requirements"}


def test_what_cannot_be_validated_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "mine", GOOD.format(act="pass"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.zip").write_text("no zip")
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as file:
        link = zipfile.ZipInfo("agent.py")
        link.external_attr = 0o120777 << 16
        file.writestr(link, "/etc/passwd")
    for path, words in (
        ("none", "is no folder and no zip"),
        ("empty", "has no agent.py and no main.py"),
        ("text.zip", "is no folder and no zip"),
        ("link.zip", "is a link"),
        ("mine", "pass --env"),
    ):
        with pytest.raises(UsageError, match=words):
            validate(tmp_path / path)
    for given, words in (
        ({"matches": 3}, "matches=3"),
        ({"time_limit": 0.0}, "time_limit=0"),
        ({"memory": 1}, "memory=1"),
    ):
        with pytest.raises(UsageError, match=words):
            validate(folder, env="kuhn", **given)
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(LeagueError, match=r"manifest\.json"):
        validate(folder)
    monkeypatch.setattr(sandbox, "is_possible", lambda: False)
    with pytest.raises(UsageError, match="--trust"):
        validate(folder, env="kuhn")
    (folder / "manifest.json").unlink()
    found = validate(folder, env="kuhn", matches=2, trust=True)
    assert not found.is_isolated and "not isolated" in found.checks[-1].found


def test_the_command_ends_with_the_verdict(tmp_path: Path) -> None:
    write(tmp_path / "mine", GOOD.format(act="pass"))
    done = call("validate", "mine", "--env", GAME, "--matches", 4, "--time-limit", 30_000, cwd=tmp_path)
    assert done.code == 0 and done.out.endswith("mine is fit to submit\n")
    write(tmp_path / "bad", "1 / 0")
    done = call("validate", "bad", "--env", GAME, "--json", cwd=tmp_path)
    assert done.code == 1 and '"is_fit": false' in done.out


def test_compiled_files_in_a_folder_of_their_own_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PYTHONPYCACHEPREFIX lies outside what a submission may read."""
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path / "compiled"))
    found = validate(write(tmp_path / "mine", GOOD.format(act="pass")), env=GAME, matches=2, time_limit=30)
    assert found.is_fit, found.checks


def test_a_submission_plays_in_tournaments(tmp_path: Path) -> None:
    """As a bot, many matches at once, each with an agent of its own."""
    write(tmp_path / "mine", GOOD.format(act="pass"))
    found = league.tournament(
        bots=True, own_bots=f"mine=submission:{tmp_path / 'mine'}", env=GAME, games=8, store=tmp_path / "runs"
    )
    assert any(standing.name == "bot:mine" for standing in found.standings)


@pytest.mark.slow
def test_folders_of_submissions_are_entrants(tmp_path: Path) -> None:
    """Beside agents of league; one that would write loses its matches, and the tournament goes on."""
    place, runs = tmp_path / "place", tmp_path / "runs"
    run = league.train("smoke", env=GAME, device="cpu", store=runs, callback=()).run
    folders = [
        write(tmp_path / name, GOOD.format(act=act))
        for name, act in (("fair", "pass"), ("bad", f"open('{place}', 'w')"))
    ]
    found = league.tournament([run, *map(str, folders)], games=4, store=runs)
    wins = {standing.name: standing for standing in found.standings}
    assert {"bot:fair", "bot:bad"} < set(wins) and wins["bot:bad"] == found.standings[-1] and not place.exists()
    with pytest.raises(UsageError, match="no agent of league among them tells their game; pass --env GAME"):
        league.tournament([*map(str, folders)], games=4, store=runs)
    with pytest.raises(UsageError, match="two folders have one name"):
        league.tournament([str(folders[0]), str(write(tmp_path / "x" / "fair", "1"))], games=4, env=GAME, store=runs)


def test_a_shut_process_reaches_nothing(tmp_path: Path) -> None:
    """By the kernel alone, as native code of a submission would meet it: no audit hook looks on."""
    kept = tmp_path / "kept"
    kept.touch()
    attempts = (
        lambda: (tmp_path / "new").touch(),
        lambda: kept.read_text(),
        lambda: kept.chmod(0o777),
        lambda: os.utime(kept),
        lambda: os.truncate(kept, 0),
        lambda: kept.unlink(),
        socket.socket,
        os.fork,
        lambda: os.kill(os.getppid(), 0),
        lambda: os.execv("/bin/true", ["true"]),
    )
    if (pid := os.fork()) == 0:
        reached = 99
        try:
            sandbox._hold_files([os.path.realpath(sys.prefix)])
            sandbox._hold_calls()
            reached = 0
            for attempt in attempts:
                with contextlib.suppress(PermissionError):
                    attempt()
                    reached += 1
            os.kill(os.getpid(), 0)
        finally:
            os._exit(reached)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
