"""docs/tutorial.md is one program: its blocks run in order and print what stands below them."""

import io
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from league.envs import registry

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)


def test_the_tutorial_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block; and what it builds plays the matches of examples/connect4.py."""
    monkeypatch.setattr(registry, "_games", dict(registry._games))
    blocks = BLOCK.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert len(blocks) == 9
    names: dict[str, Any] = {"__name__": "tutorial"}
    example: dict[str, Any] = {"__name__": "example"}
    for number, (code, printed) in enumerate(blocks, 1):
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, f"block {number} of docs/tutorial.md", "exec"), names)  # noqa: S102, the page's own
        assert out.getvalue() == printed, number
    exec((ROOT / "examples" / "connect4.py").read_text(), example)  # noqa: S102
    played = []
    for match in (names["ConnectFour"].as_game(), example["ConnectFour"].as_game()):
        batch = match.make(8, 1, match.Options())
        assert batch.spec == match.spec(match.Options())
        batch.controllers[:] = [(0, 1), (1, 0)] * 4
        batch.reset(5)
        steps = []
        for _ in range(60):
            batch.step()
            steps.append(b"".join(x.tobytes() for x in (batch.obs, batch.reward_terms, batch.result)))
        played.append((batch.spec, steps))
    assert played[0] == played[1]
