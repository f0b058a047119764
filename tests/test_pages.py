"""Tutorials and guides: their commands run, one after another, and print the words that stand below."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial.md"
PAGES = [TUTORIAL, *sorted([*(DOCS / "tutorials").glob("*.md"), *(DOCS / "guides").glob("*.md")])]
BLOCK = re.compile(r"^```(console|toml|python)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.M | re.S)
FILE = re.compile(r"`([\w-]+\.toml)`")
SHORTER = (
    *("run.total_steps=6_144", "run.evaluate_every=0", "run.evaluate_games=2", "run.anchor_games=0"),
    "run.evaluate_share=10.0",
    *("run.ladder_share=0", "run.allow_short=true", "pool.snapshot_every=2_000", "pool.snapshot_every_after=2_000"),
)
"""What a training of a page has here, so that its commands are tried in minutes; what it learns is not tested."""
SMALL = ("agent.opponent_encoder=false", "agent.observation_width=32", "agent.lstm_size=32", "agent.head_sizes=[32]")
LEFT_OUT = ("--device cuda", "league play")
"""Commands that need a GPU or a person."""
UNCERTAIN = frozenset({"accepted", "stronger", "promoted", "best", "than", "weakness", "found", "exclude"})
"""Words of findings that few steps and games do not bring about."""


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with the lines printed below it."""
    parts = re.split(r"^\$ (.*)$", text, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def shortened(command: str) -> str:
    """The command with fewer steps and games."""
    command = re.sub(r"--games \d+", "--games 2", re.sub(r"--steps \d+", "--steps 6144", command))
    command = command.replace("@20480", "@2048").replace("@51200", "@4096")
    if "league exploit" in command:
        command += " --games 20"
    if "league gate" in command or "--format adaptive" in command:
        command += " --max-games 20"
    if "league tune" in command:
        command += " --seconds 1"
    if "league train" in command:
        is_own = any(word in command for word in ("--env", "--config", "--agent"))
        sets = (*SHORTER, *(() if is_own else SMALL))
        given = "".join(f" --set {shlex.quote(setting)}" for setting in sets)
        command = re.sub(r"(league train[^;&]*)", lambda call: call[1].rstrip() + given + " ", command)
    return re.sub(r"--stage 10m|--preset auto", "", command)


def words(text: str) -> set[str]:
    """The words of four letters or more, which do not depend on a machine's numbers, but for comments and verdicts."""
    text = re.sub(r"^(#|learning:|promising:).*|\b[0-9a-f]{12}\b", "", text, flags=re.M)
    return set(re.findall(r"[A-Za-z_]{4,}", text)) - UNCERTAIN


def run(command: str, folder: Path) -> tuple[int, str]:
    """A command of a page in a shell, with this checkout's `league`, and what it writes."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **{"OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"},
    }
    script = f"set -e\n{command}\nwait"
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """Each ends well and says the words that the page quotes; TOML blocks are the files that the page names.

    Python blocks of docs/tutorial.md are one program, which tests/test_tutorial.py runs.
    """
    text = page.read_text(encoding="utf-8")
    for example in ("connect4.py", "connect4_numpy.py"):
        (tmp_path / example).write_text((ROOT / "examples" / example).read_text())
    ran = 0
    for block in BLOCK.finditer(text):
        kind, code, printed = block.groups()
        if kind == "toml":
            near = FILE.findall(text[: block.start()])[-1:] or FILE.findall(text[block.end() :])[:1]
            (tmp_path / near[0]).write_text(code)
        elif kind == "python" and page != TUTORIAL:
            done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (0, printed), done.stderr
        elif kind == "console":
            for command, below in commands(code):
                if any(part in command for part in LEFT_OUT):
                    continue
                if "RUN" in command:  # the reader's own
                    command = command.replace("RUN", "brawl-1")
                    run(shortened("league train --run brawl-1"), tmp_path)
                status, said = run(shortened(command), tmp_path)
                assert status in ((0, 3, 4) if command.startswith("league gate") else (0,)), (command, said)
                assert words(below) <= words(said), (command, sorted(words(below) - words(said)), said)
                ran += 1
    assert ran or "console" not in text


def test_what_troubleshooting_quotes_is_in_the_code() -> None:
    """Each three words in a row of the quoted messages, but for what is filled in, stand so in the library."""
    code = "".join(
        re.sub(r'"\s+f?"', "", re.sub(r"\{[^{}]*\}", "", path.read_text(encoding="utf-8")))
        for path in (ROOT / "league").rglob("*.py")
    )
    page = (DOCS / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"^```text\n(.*?)^```", page, re.M | re.S) for line in block.splitlines()]
    said = [re.sub(r"\(\[enforce.*?memory\)\)", "", line) for line in lines]  # torch's own words
    filled_in = r"\b(?:cpu|big|runs|duckdb|process|its)\b"
    phrases = [phrase for line in said for phrase in re.split(rf"[^A-Za-z' ]+|{filled_in}", line)]
    split = [phrase.split() for phrase in phrases]
    threes = [" ".join(three) for x in split for three in zip(x, x[1:], x[2:], strict=False)]
    assert len(lines) >= 8 and len(threes) >= 50
    lost = [three for three in threes if three not in code]
    assert lost == [], lost
