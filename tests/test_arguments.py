"""What the library's functions are given in Python is of the types that they name, or refused in one line."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, product
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import league
from league import testing
from league.envs import registry
from league.errors import LeagueError, StoreError, UsageError
from league.gym import MatchEnv, MatchVectorEnv, register
from league.snapshots import Agent
from league.types import MatchBatch
from league.types.arguments import KINDS, typed
from league.zoo import ParallelMatch, TurnMatch
from tests.helpers.cases import cases
from tests.helpers.runs import SETS

STRANGE = (None, -1, 2.5, True, [], {}, object(), b"x", [None], "x\0y", "\ud800")
SHORT = [*SETS, "run.total_steps=256", "run.allow_short=true"]
FUNCTIONS = sorted({*league.__all__} - {"Callback"})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_goes_to_another_process(name: str) -> None:
    """A pool of processes takes it, since pickle finds it by its name."""
    function = getattr(league, name)
    assert ForkingPickler.loads(ForkingPickler.dumps(function)) is function is getattr(league, name)


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


class Mute:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise ValueError("no words")


ODD = (
    None,
    -1,
    10**400,
    math.nan,
    "",
    "x" * 5_000,
    "a\nb",
    ".",
    Path("no"),
    [],
    [None],
    {1: 2},
    np.zeros(3),
    Mute(),
    sys,
    league,
)


def refused_or_taken(
    function: Callable[..., Any], given: Mapping[str, Any], names: Iterable[str], every: int = 1
) -> int:
    """How many of `ODD`, each `every`-th, for the parameters `names` are refused; each in a line with a next step."""
    refused = 0
    for name, value in chain.from_iterable(product([name], ODD[i % every :: every]) for i, name in enumerate(names)):
        try:
            function(**{**given, name: value})
        except LeagueError as error:
            words, refused = str(error), refused + 1
            assert len(words.splitlines()) == 1 and "; " in words and len(words) < 2_500, words
    return refused


@pytest.mark.parametrize("name", FUNCTIONS)
def test_any_value_is_a_line_at_most(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every public function and each parameter: what it refuses, and what the system does, is a `LeagueError`."""
    monkeypatch.chdir(tmp_path)
    function = getattr(league, name)
    known = inspect.signature(function).parameters
    needed = {p.name: 1 if p.annotation == "int" else "x" for p in known.values() if p.default is p.empty}
    if name == "track":
        return
    own = {"env": "x"} if name in ("Trainer", "train") else {}
    assert refused_or_taken(function, {**needed, **own}, known, every=5) >= 2


def _vector() -> MatchVectorEnv:
    return MatchVectorEnv("kuhn", 2, "random")


def _make(rows: int, threads: int) -> MatchBatch:
    return registry.make("kuhn", rows=rows, threads=threads, options={})


DOORS: dict[str, tuple[Callable[..., Any], dict[str, Any], str]] = {
    "MatchEnv": (MatchEnv, {"game": "kuhn", "opponent": "random"}, "game opponent seat rewards render_mode nope"),
    "MatchEnv.reset": (lambda **k: MatchEnv("kuhn", "random").reset(**k), {}, "seed options"),
    "MatchVectorEnv": (MatchVectorEnv, {"game": "kuhn", "num_envs": 2}, "game num_envs opponent seat rewards nope"),
    "MatchVectorEnv.reset": (lambda **k: _vector().reset(**k), {}, "seed options"),
    "register": (register, {}, "game"),
    "ParallelMatch": (ParallelMatch, {"game": "kuhn"}, "game rewards render_mode nope"),
    "TurnMatch": (TurnMatch, {"game": "kuhn"}, "game rewards render_mode nope"),
    "TurnMatch.reset": (lambda **k: TurnMatch("kuhn").reset(**k), {}, "seed options"),
    "TurnMatch.action_space": (TurnMatch("kuhn").action_space, {}, "agent"),
    "ParallelMatch.reset": (lambda **k: ParallelMatch("matrix").reset(**k), {}, "seed options"),
    "ParallelMatch.observation_space": (ParallelMatch("matrix").observation_space, {}, "agent"),
    "check_game": (testing.check_game, {"game": "kuhn", "quick": True}, "game seed"),
    "check_bot": (testing.check_bot, {"game": "kuhn", "bot": "call", "matches": 2}, "game bot matches seed"),
    "check_match_batch": (testing.check_match_batch, {"make": _make, "steps": 40}, "make rows steps seed say"),
}


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.slow
def test_any_value_at_other_doors_is_a_line_at_most(name: str) -> None:
    """Environments of Gymnasium and PettingZoo, and checks: so it is of them."""
    function, given, names = DOORS[name]
    assert refused_or_taken(function, given, names.split())


def test_any_actions_are_a_line_at_most() -> None:
    """What steps are given is numbers of the action space, for each agent."""
    alone, both = MatchEnv("kuhn", "random"), ParallelMatch("matrix")
    alone.reset(seed=1)
    both.reset(seed=1)
    assert refused_or_taken(alone.step, {}, ["action"]) == refused_or_taken(both.step, {}, ["actions"]) == len(ODD)


@pytest.mark.parametrize("kind", cases(torch.float64, slow=[torch.bfloat16]))
@pytest.mark.slow
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


MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "device": lambda: torch.device("meta"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.slow
def test_a_mode_of_torch_around_a_call_changes_nothing(mode: str, tmp_path: Path) -> None:
    """What is learned within it is what is learned without it, and it holds again afterwards."""
    found = []
    for name, entered in (("plain", nullcontext), (mode, MODES[mode])):
        kinds = {"overrides": SHORT, "store": tmp_path / name, "callback": ()}
        with league.Trainer("smoke", env="kuhn", **kinds) as trainer:
            rollout = trainer.collect()
            with entered():
                metrics = trainer.learn(rollout)
                left = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.ones(1).device.type
        found.append({key: x for key, x in metrics.items() if not key.endswith("_seconds")})
    assert found[0] == found[1] and found[0]["gradient_norm"] > 0
    assert left == (mode in ("autocast", "device"), mode == "autocast", "meta" if mode == "device" else "cpu")


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
    assert [*map(type, typed(called)(np.int64(3), np.float32(2), None))][:2] == [int, float]
    assert typed(called)(3, 2, "~/x")[2] == str(Path.home() / "x") and typed(called)(3, 2, "x~")[2] == "x~"
    assert typed(called)(3, np.float32(2), None, 5) == [3, 2, None, 5]  # the last one's annotation is not looked at
    with pytest.raises(TypeError, match=r"called\(\) missing"):
        typed(called)(3)
