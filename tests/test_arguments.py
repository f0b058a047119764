"""What the library's functions are given in Python is of the types that they name, or refused in one line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league.errors import StoreError, UsageError
from league.snapshots import Agent
from league.types.arguments import KINDS, typed
from tests.helpers.runs import SETS

STRANGE = (None, -1, 2.5, True, [], {}, object(), b"x", [None], "x\0y", "\ud800")
SHORT = [*SETS, "run.total_steps=256", "run.allow_short=true"]
FUNCTIONS = sorted({*league.__all__} - {"Callback"})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_strange_argument_is_refused_by_name(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every public function, each parameter of a plain type: the line names it, and nothing is done."""
    monkeypatch.chdir(tmp_path)
    function = getattr(league, name)
    known = inspect.signature(function).parameters
    for parameter in known.values():
        kinds = str(parameter.annotation).split(" | ")
        if not set(kinds) <= KINDS.keys():
            continue
        for value in STRANGE:
            is_name = isinstance(value, str)
            if any(KINDS[kind][1](value) for kind in kinds) and not is_name:
                continue
            needed = [p for p in known.values() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
            given: dict[str, Any] = {p.name: 1 if p.annotation == "int" else "x" for p in needed}
            given[parameter.name] = value
            listed = (given.pop(parameter.name),) if parameter.kind is parameter.VAR_POSITIONAL else ()
            with pytest.raises(UsageError, match=rf"^{parameter.name}=.*; pass another {parameter.name}$"):
                function(*listed, **given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_another_default_type_of_torch_changes_nothing(kind: torch.dtype, tmp_path: Path) -> None:
    """What is learned is the same, bit for bit, what is loaded plays, and the default is as it was."""
    learned = []
    for name, default in (("plain", torch.float32), ("other", kind)):
        torch.set_default_dtype(default)
        try:
            result = league.train("smoke", env="kuhn", overrides=SHORT, store=tmp_path / name, callback=())
            with league.Trainer("smoke", env="kuhn", overrides=SHORT, store=tmp_path / name, fresh=True) as trainer:
                trainer.learn(trainer.collect())
            league.export(result.run, tmp_path / f"{name}.agent", store=tmp_path / name)
            learned.append(Agent.load(tmp_path / f"{name}.agent").manifest.agent_id)
            assert torch.get_default_dtype() is default
        finally:
            torch.set_default_dtype(torch.float32)
    assert learned[0] == learned[1]


def test_a_name_that_is_no_unicode_is_told_in_text_that_is(tmp_path: Path) -> None:
    """As of a path that the system gave: the error can be printed."""
    with pytest.raises(StoreError) as caught:
        league.metrics("\udcff", store=tmp_path / "\udcff")
    assert "\\udcff" in str(caught.value) and str(caught.value).encode()


def test_what_serves_as_a_number_or_a_path_is_taken() -> None:
    """NumPy's numbers, a whole number as a real one, a path, None where it is named; a wrong call is Python's error."""

    def called(a: int, b: float, c: str | Path | None, d: Mapping[str, int] | None = None) -> list[object]:
        return [a, b, c, d]

    assert typed(called)(np.int64(3), 2, Path("x")) == [3, 2, Path("x"), None]
    assert typed(called)(3, np.float32(2), None, 5) == [3, 2, None, 5]  # the last one's annotation is not looked at
    with pytest.raises(TypeError, match=r"called\(\) missing"):
        typed(called)(3)
