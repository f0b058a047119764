"""A large file of matches: it is said beforehand what memory it takes, and it takes no more."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from league.store import exchange
from league.store.exchange import import_matches
from league.store.store import Store

CODE = r"""
import re, sys
from league.store.exchange import import_matches
done = import_matches(sys.argv[1], game_id="g", store=sys.argv[2], say=print)
peak = re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())  # `ru_maxrss` counts its parent's
print(done.imported, int(peak[1]) // 1024)
"""


def write(path: Path, games: int) -> Path:
    """A file of games between 300 agents."""
    rows = (f"p{i % 300},p{i * 7 % 299 + 300},{i % 2},{i},game over\n" for i in range(games))
    path.write_text("seat0,seat1,winner,seed,end_reason\n" + "".join(rows))
    return path


def test_a_large_file_is_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is read, and of a small file nothing; batches keep every match in its order."""
    said: list[str] = []
    file = write(tmp_path / "m.csv", 50)
    run = import_matches(file, game_id="g", store=tmp_path / "a", say=said.append).run
    assert not said
    monkeypatch.setattr(exchange, "LARGE", 50)
    monkeypatch.setattr("league.store.formats.PART", 7)
    import_matches(file, game_id="g", store=tmp_path / "b", say=said.append)
    assert len(said) == 1 and re.search(r"51 lines; importing them takes up to \d+ MiB of memory", said[0])
    found = [Store.open(tmp_path / name).matches(run, "evaluation") for name in ("a", "b")]
    assert found[0] == found[1] and [match.seed for match in found[1]] == list(range(50))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read as Linux has it")
@pytest.mark.parametrize("games", [150_000, 1_000_000])
def test_a_large_file_takes_the_memory_that_was_told(games: int, tmp_path: Path) -> None:
    """The process's peak is at most the announced memory, and a million games take less than 900 MiB."""
    file = write(tmp_path / "m.csv", games)
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(file), str(tmp_path / "s")], capture_output=True, text=True, check=True
    )
    imported, peak = map(int, done.stdout.splitlines()[-1].split())
    told = re.search(r"up to ([0-9,]+) MiB", done.stdout)
    assert told and imported == games and peak <= int(told[1].replace(",", "")) <= 900, done.stdout
