"""Trackers that people have: a training's numbers, by name, for TensorBoard, Weights & Biases or a CSV file.

A tracker watches. What it writes goes through a thread of its own, so a disk or a service that is slow keeps no
training waiting; what fails is one line, and training goes on.
"""

from __future__ import annotations

import math
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from league.errors import LeagueError, UsageError, as_known, nearest, one_line
from league.faces.sinks import CsvFile, Sink, TensorBoard, WeightsAndBiases
from league.training.run import Callback, Report, Start
from league.types.schema import read_file

if TYPE_CHECKING:
    from league.boards.leaderboards import Rated
    from league.play.summaries import Summary

SINKS: Mapping[str, type[Sink]] = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases, "csv": CsvFile}
NONE = "none"
MARK = ".league-run"
"""The file that says whose a folder outside the run's own is."""
END_SECONDS = 60.0
"""That the end of a run waits for a tracker to take what is left."""
GROUPS = {"action": "actions", "match": "stats", "pool": "league", "reward": "reward"}
"""What a metric's name begins with in the store, and in a tracker; all others are `train/`."""


def track(*names: str) -> Tracking:
    """Gives a training's numbers to trackers: `league.train(..., callback=league.track("tensorboard"))`.

    Args:
        names: `tensorboard`, `wandb` or `csv`, each with `=FOLDER` if its files shall not lie in the run's own folder
            but in FOLDER/RUN. Those whose files are in the run's folder go on in any case; `none`: no tracker at all.

    Raises:
        UsageError: no such tracker, one is named twice, or its package is not installed.
    """
    folders: dict[str, Path | None] = {}
    for word in names:
        name, equals, folder = word.partition("=")
        if name not in (*SINKS, NONE):
            raise UsageError(f"log={word}: no such tracker{nearest(name, [*SINKS, NONE])}")
        if equals and name == NONE:
            raise UsageError(f"log={word}: `{NONE}` has no folder; write {NONE}")
        if equals and not folder:
            raise UsageError(f"log={word}: names no folder; write {name}=FOLDER, or {name} for the run's own")
        if name in folders or (folders and NONE in (name, *folders)):
            raise UsageError(
                f"log={word}: named beside {', '.join(folders)}; name each tracker once, or `{NONE}` alone"
            )
        if problem := _missing(name):
            raise UsageError(problem)
        folders[name] = Path(folder) if folder else None
    return Tracking(folders)


def _missing(name: str) -> str:
    """Why a tracker cannot be used here; empty where it can."""
    package = SINKS[name].package if name in SINKS else ""
    if not package or find_spec(package) is not None:
        return ""
    return f"log={name}: needs {package}, which is not installed; run `pip install 'league-engine[{name}]'`"


class Tracking(Callback):
    """The trackers of one run, or of each learner of a league; `track` makes it.

    Args:
        folders: name -> where its files lie, below it in a folder of the run's name; None: in the run's own folder.
    """

    def __init__(self, folders: Mapping[str, Path | None]) -> None:
        self._folders = folders
        self._learners: dict[str, Tracking] = {}
        self._writers: dict[str, _Writer] = {}
        self._run, self._league = "", ""
        self._steps = -1
        """Of the newest that was told."""

    def of(self, name: str) -> Tracking:
        """Those of one learner of a league."""
        return self._learners.setdefault(name, Tracking(self._folders))

    def began(self, start: Start) -> None:
        """Opens them, or goes on; what they have of later steps than the run's is forgotten."""
        if self._writers and start.steps == self._steps:  # a learner's next turn
            return
        self._close("stopped")
        self._run, self._league, self._steps = start.run, start.league, start.steps
        problems = []
        for name, sink in SINKS.items():
            chosen = self._folders.get(name)
            folder = start.folder if chosen is None else chosen / start.run
            if name not in self._folders and (NONE in self._folders or not sink.is_in(folder)):
                continue
            if problem := _missing(name):
                problems.append(f"{problem}, to go on with it; left out")
            elif chosen is not None and (problem := _claim(folder, start)):
                problems.append(f"log={name}={chosen}: {problem}")
            else:
                self._writers[name] = _Writer(name, lambda sink=sink, folder=folder: sink(folder, start))  # type: ignore[misc]
        if problems:
            raise LeagueError("; ".join(problems))

    def report(self, report: Report) -> None:
        """The update's metrics and the scores of training."""
        values = {tracked(name): value for name, value in report.metrics.items()}
        values |= {f"win_rate/training/{group}": rate for group, rate in report.win_rates.items()}
        values["train/update"] = report.update
        values["train/steps_per_second"] = report.steps_per_second
        self._write(report.steps, values)

    def evaluated(self, steps: int, opponent: str, summary: Summary) -> None:
        """The score against one opponent, with its interval."""
        name = self._named("win_rate", "win_rate/evaluation", opponent)
        self._write(steps, {name: summary.score, f"{name}_lower": summary.lower, f"{name}_upper": summary.upper})

    def rated(self, steps: int, ratings: Sequence[Rated]) -> None:
        """The ratings of the run's newest snapshot, of bots and of a league's others, with their intervals."""
        values: dict[str, float] = {}
        for rated in ratings:
            if rated.name.startswith(f"{self._run}@") and not rated.is_newest:
                continue
            name = "rating/own" if rated.is_newest else self._named("rating", "rating", rated.name)
            values |= {name: rated.rating, f"{name}_lower": rated.lower, f"{name}_upper": rated.upper}
        self._write(steps, values)

    def saved(self, steps: int) -> None:
        """What was told so far will not be told again."""
        self._do(lambda sink: sink.save())

    def ended(self, steps: int, status: str) -> None:
        """Closes them.

        Raises:
            LeagueError: one could not take all.
        """
        self._close(status)

    def _named(self, kind: str, own: str, agent: str) -> str:
        """What a number of an agent is called: of a league's other learner `league/KIND/LEARNER`."""
        agent = one_line(agent)
        if self._league and agent.startswith(f"{self._league}.") and not agent.startswith(f"{self._run}@"):
            return f"league/{kind}/{agent.removeprefix(f'{self._league}.').partition('@')[0]}"
        return f"{own}/{agent.removeprefix(self._run) if agent.startswith(f'{self._run}@') else agent}"

    def _write(self, steps: int, values: Mapping[str, float]) -> None:
        self._steps = max(self._steps, steps)
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        self._do(lambda sink: sink.write(steps, finite))

    def _do(self, what: Callable[[Sink], None]) -> None:
        for writer in self._writers.values():
            writer.put(what)
        self._tell_errors()

    def _close(self, status: str) -> None:
        writers, self._writers = self._writers, {}
        for writer in writers.values():
            writer.put(lambda sink: sink.close(status))
            writer.put(None)
        for writer in writers.values():
            writer.wait(END_SECONDS)
        self._writers = {name: writer for name, writer in writers.items() if writer.error}
        self._tell_errors()

    def _tell_errors(self) -> None:
        failed = {name: writer.error for name, writer in self._writers.items() if writer.error}
        for name in failed:
            del self._writers[name]
        if failed:
            raise LeagueError("; ".join(f"log={name}: {error}" for name, error in failed.items()))


def tracked(metric: str) -> str:
    """What a metric of the store is called in a tracker."""
    group, _, rest = metric.partition("/")
    return f"{GROUPS[group]}/{rest}" if rest and group in GROUPS else f"train/{metric}"


def _claim(folder: Path, start: Start) -> str:
    """Marks a folder outside the run's own as this run's; why it cannot be had, empty where it can."""
    mark = folder / MARK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not mark.exists():
            mark.write_text(start.identity, encoding="utf-8")
        is_ours = read_file(mark).decode() == start.identity
    except (OSError, ValueError) as error:
        return f"{as_known(error) or error} (training goes on without it)"
    return "" if is_ours else f"{folder} is of another store's run; name another folder (training goes on without it)"


class _Writer:
    """Makes a sink and writes into it, in a thread of its own; after an error it takes nothing more."""

    def __init__(self, name: str, make: Callable[[], Sink]) -> None:
        self.error = ""
        self._waiting: queue.SimpleQueue[Callable[[Sink], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(make,), name=f"log {name}", daemon=True)
        self._thread.start()

    def put(self, what: Callable[[Sink], None] | None) -> None:
        """Has it done after what was put before; None: no more follows."""
        self._waiting.put(what)

    def wait(self, seconds: float) -> None:
        """Until all is done, but not longer."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self.error = f"it has not taken all within {seconds:g} s of the run's end, which does not wait for it"

    def _run(self, make: Callable[[], Sink]) -> None:
        try:
            sink = make()
            while (what := self._waiting.get()) is not None:
                what(sink)
        except Exception as error:
            known = as_known(error) or f"{type(error).__name__}: {error}"
            words = one_line(" ".join(str(known).split()))[:300]
            self.error = f"{words} (training goes on without it; the store has all numbers)"
