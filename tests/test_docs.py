"""The pages that are written from the code agree with it."""

import re
import subprocess
import sys
from fnmatch import filter as matching
from pathlib import Path

from league.envs.brawl.env import KEYS, MEANINGS, SPEC

ROOT = Path(__file__).resolve().parent.parent


def test_brawls_tables_are_those_of_the_code() -> None:
    """docs/brawl.md holds what `python docs/tables.py` writes."""
    done = subprocess.run([sys.executable, ROOT / "docs/tables.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_of_brawl_has_a_meaning() -> None:
    """Keys, reward terms, metrics and bots are explained in the spec's order."""
    named = {"keys": KEYS, "reward terms": SPEC.reward_terms, "metrics": SPEC.metrics, "bots": SPEC.bots}
    assert {kind: tuple(texts) for kind, texts in MEANINGS.items()} == named


def test_every_test_that_a_promise_names_is_there() -> None:
    """The tests that docs/reliability.md puts beside its promises exist; `*` stands for the rest of a name."""
    named = re.findall(r"`(test_\w+\*?)`", (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8"))
    there = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    there |= {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) > 20
    assert [name for name in named if not matching(there, name)] == []
