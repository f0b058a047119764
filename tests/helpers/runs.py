"""Short runs, stopped and resumed, and what is compared of them."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import league
from league import config
from league.config import SOURCE
from league.store.store import Store
from league.training import training
from league.training.run import Report, Run
from tests.helpers.sizes import SMALL

ROOT = Path(__file__).resolve().parents[2]
SETS = (
    *(*SMALL, "pool.snapshot_every=128", "learner.magnet=0.1"),
    'pool.mix={current=0.3, self_play=0.4, "bot:random"=0.3}',
)
STAGES = """
[stage.short]
run.total_steps = 640
run.allow_short = true

[stage.long]
run.continues = "short"
run.total_steps = 1_280
run.evaluate_every = 256
run.allow_short = true
"""

PAIR = """
turn_steps = 20_000
[learners.main]
role = "main"
[learners.main_exploiter]
role = "main_exploiter"
"""
"""A league of two learners, each of which has one turn in a short run."""


@contextmanager
def stages(folder: Path) -> Iterator[None]:
    """Within it the source of settings, a file in `folder`, has two tiny stages, of which `long` carries on `short`."""
    path = folder / "hyperparameters.toml"
    path.write_text(SOURCE.read_text(encoding="utf-8") + STAGES, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config, "SOURCE", path)
        yield


class Notes:
    """A callback that keeps what it is told and, at update `at` (0: the first it sees), raises the signal `what`."""

    def __init__(self, at: int | None = None, what: int = signal.SIGINT) -> None:
        self.said: list[str] = []
        self.at, self.what = at, what

    def report(self, report: Report) -> None:
        """Interrupts where that is wanted."""
        if self.at in (0, report.update):
            signal.raise_signal(self.what)

    def evaluated(self, steps: int, opponent: str, summary: object) -> None:
        """Ignored."""

    def say(self, message: str) -> None:
        """Kept."""
        self.said.append(message)


@contextmanager
def at_update(update: int, what: Callable[[], object]) -> Iterator[None]:
    """Within it the loop calls `what` once an update is made and written down."""
    original = training.report

    def report(run: Run, *arguments: Any) -> Report:
        if run.counters.update == update:
            what()
        return original(run, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "report", report)
        yield


def stopping(update: int) -> AbstractContextManager[None]:
    """Within it a signal stops whatever trains after an update."""
    return at_update(update, partial(signal.raise_signal, signal.SIGINT))


def failing(update: int, error: BaseException) -> AbstractContextManager[None]:
    """Within it the loop raises `error` after an update."""

    def fail() -> None:
        raise error

    return at_update(update, fail)


def train(folder: Path, stage: str, *more: str, notes: Notes | None = None, **arguments: Any) -> tuple[Any, list[str]]:
    """A tiny matrix run whose store is in `folder`; its result and what was said."""
    notes = notes or Notes()
    overrides = (*SETS, *more)
    result = league.train(
        stage, env="matrix", device="cpu", overrides=overrides, store=folder, callback=notes, **arguments
    )
    return result, notes.said


def learned(folder: Path, run: str) -> tuple[list[Any], list[Any]]:
    """What a run's learning left in the store: (step, update, agent id) of its snapshots, and its training matches."""
    store = Store.open(folder)
    snapshots = [(row.step, row.update, row.agent_id) for row in store.snapshots(run)]
    matches = [
        {**asdict(m), "run": "", "agents": [agent.replace(run, "me") for agent in m.agents]}
        for m in store.matches(run, "training")
    ]
    return snapshots, matches


def status(folder: Path, run: str) -> tuple[str, int]:
    """A run's status and steps in the store."""
    row = Store.open(folder).find_run(run)
    return row.status, row.steps
