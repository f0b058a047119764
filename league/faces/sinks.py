"""Where trackers put numbers: a CSV file, TensorBoard's event files, a run of Weights & Biases."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from league.runtime.disk import write_atomic
from league.training.run import Start
from league.types.schema import open_regular, read_file

FLUSH_SECONDS = 10
"""After which TensorBoard's files have what was written."""


class Sink(ABC):
    """Keeps numbers of one run by step and name. It is made where a run begins or goes on, and used by one thread.

    Args:
        folder: made if it is not there; the sink's own file or folder lies in it.
        start: where the run is; what the sink has of later steps does not count any more.
    """

    package: ClassVar[str] = ""
    """That it needs."""
    lies: ClassVar[str]
    """The name of its file or folder."""

    @classmethod
    def is_in(cls, folder: Path) -> bool:
        """Whether one was made in this folder before."""
        return (folder / cls.lies).exists()

    @abstractmethod
    def __init__(self, folder: Path, start: Start) -> None: ...

    @abstractmethod
    def write(self, steps: int, values: Mapping[str, float]) -> None:
        """Numbers at a step, which may be an earlier one than that of the last."""

    @abstractmethod
    def save(self) -> None:
        """The run has saved a state: it will not go back behind what was written so far."""

    @abstractmethod
    def close(self, status: str) -> None:
        """Nothing more follows; the run is `finished`, `stopped` or `failed`."""


class CsvFile(Sink):
    """`metrics.csv`: a row a step, a column a name; a cell is empty where there is no number.

    A number of an earlier step goes into that step's row. A new name makes a new column, for which the file is written
    again, whole or not at all.
    """

    lies = "metrics.csv"

    def __init__(self, folder: Path, start: Start) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / self.lies
        self._columns, rows = ["steps"], []
        if self._path.exists():
            with io.TextIOWrapper(open_regular(self._path), "utf-8", newline="") as file:
                found = csv.reader(file)
                self._columns = next(found, self._columns)
                rows = [row for row in found if len(row) == len(self._columns) and int(row[0]) <= start.steps]
        self._file: io.BufferedRandom | None = None
        self._write_all([dict(zip(self._columns, row, strict=True)) for row in rows])

    def write(self, steps: int, values: Mapping[str, float]) -> None:
        """Appends a row, or fills in one that is there."""
        if new := [name for name in values if name not in self._columns]:
            rows = self._read(0)
            self._columns += new
            self._write_all(rows)
        at = bisect_left(self._steps, steps)
        rows = self._read(at)
        cells = {name: repr(value) for name, value in values.items()}
        if at < len(self._steps) and self._steps[at] == steps:
            rows[0] |= cells
        else:
            rows.insert(0, {"steps": str(steps), **cells})
        self._write_from(at, rows)

    def save(self) -> None:
        """On the disk, as the run's state is."""
        assert self._file is not None
        os.fsync(self._file.fileno())

    def close(self, status: str) -> None:
        """Closes the file."""
        assert self._file is not None
        self._file.close()

    def _read(self, at: int) -> list[dict[str, str]]:
        """The rows from the index `at` on."""
        assert self._file is not None
        self._file.seek(self._offsets[at])
        text = self._file.read().decode()
        return [dict(zip(self._columns, row, strict=True)) for row in csv.reader(io.StringIO(text, newline=""))]

    def _write_all(self, rows: Sequence[Mapping[str, str]]) -> None:
        head = _line(self._columns)
        write_atomic(self._path, head + b"".join(self._line_of(row) for row in rows))
        if self._file is not None:
            self._file.close()
        self._file = open(self._path, "r+b")  # noqa: SIM115  # closed by `close`
        self._steps: list[int] = []
        self._offsets = [len(head)]
        """Where each row begins, and where the last one ends."""
        self._note(rows)

    def _write_from(self, at: int, rows: Sequence[Mapping[str, str]]) -> None:
        """Replaces the rows from the index `at` on; what is written is longer than what was there."""
        assert self._file is not None
        self._file.seek(self._offsets[at])
        self._file.write(b"".join(map(self._line_of, rows)))
        self._file.flush()
        del self._steps[at:], self._offsets[at + 1 :]
        self._note(rows)

    def _note(self, rows: Sequence[Mapping[str, str]]) -> None:
        for row in rows:
            self._steps.append(int(row["steps"]))
            self._offsets.append(self._offsets[-1] + len(self._line_of(row)))

    def _line_of(self, row: Mapping[str, str]) -> bytes:
        return _line([row.get(name, "") for name in self._columns])


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


class TensorBoard(Sink):
    """Event files in `tensorboard/`; TensorBoard leaves out what earlier files have of steps that are made again.

    TensorBoard reads files in the order of their names, which begin with a time in seconds. Earlier files are numbered
    instead, so that a run that goes on within the same second, or after its clock was set back, has the last file.
    """

    package = "tensorboard"
    lies = "tensorboard"

    def __init__(self, folder: Path, start: Start) -> None:
        from torch.utils.tensorboard import SummaryWriter

        for number, earlier in enumerate(sorted((folder / self.lies).glob("events.out.tfevents.*"))):
            earlier.rename(earlier.with_name(f"events.out.tfevents.{number:010d}.{earlier.name.split('.', 4)[4]}"))
        purged = start.steps + 1 if start.steps else 0
        self._writer = SummaryWriter(str(folder / self.lies), purge_step=purged, flush_secs=FLUSH_SECONDS)
        settings = json.dumps(start.config, indent=1)
        self._writer.add_text("settings", "\n".join(f"    {line}" for line in settings.splitlines()), start.steps)

    def write(self, steps: int, values: Mapping[str, float]) -> None:
        """A scalar each."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, steps)

    def save(self) -> None:
        """On the disk, as the run's state is."""
        self._writer.flush()

    def close(self, status: str) -> None:
        """Writes what is left."""
        self._writer.close()


class WeightsAndBiases(Sink):
    """A run of W&B, offline unless `WANDB_MODE` says something else; its agent is an artifact, a version a call.

    W&B cannot take anything back. So it is given numbers once a state is saved behind which the run never goes, and
    none twice. A run that goes on has the same id, under which W&B joins what it made before.

    An offline run whose process is killed has lost what W&B had not written yet. So what it is given is kept beside it
    until it ends; after a kill the next one is given that again, and the broken one gets a name that is not synced.
    """

    package = "wandb"
    lies = "wandb"

    def __init__(self, folder: Path, start: Start) -> None:
        import wandb

        self._given = folder / self.lies / "given.jsonl"
        self._given.parent.mkdir(parents=True, exist_ok=True)
        self._wandb, self._start = wandb, start
        mode = os.environ.get("WANDB_MODE", "offline")
        self._waiting: dict[int, dict[str, float]] = self._take_given() if mode == "offline" else {}
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "league"),
            id=hashlib.sha256(start.identity.encode()).hexdigest()[:16],
            name=start.run,
            group=start.league or None,
            dir=str(folder),
            config={**start.config},
            mode=mode,  # type: ignore[arg-type]  # W&B refuses other words
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(console="off", silent=True),
        )
        self._run.define_metric("steps")
        self._run.define_metric("*", step_metric="steps")
        self._given.write_text(json.dumps(Path(self._run.dir).parent.name) + "\n", encoding="utf-8")
        self.save()

    def _take_given(self) -> dict[int, dict[str, float]]:
        """What a run was given whose process was killed: steps -> numbers."""
        if not self._given.exists():
            return {}
        found: dict[int, dict[str, float]] = {}
        name, *lines = read_file(self._given).decode().splitlines()
        with suppress(ValueError):  # the last line may be torn
            for line in lines:
                steps, values = json.loads(line)
                found.setdefault(steps, {}).update(values)
        broken = self._given.parent / json.loads(name)
        if broken.is_dir():
            broken.rename(broken.with_name(f"killed-{broken.name}"))
        return found

    def write(self, steps: int, values: Mapping[str, float]) -> None:
        """Kept until the run's state is saved."""
        self._waiting.setdefault(steps, {}).update(values)

    def save(self) -> None:
        """Gives it what waits."""
        with open(self._given, "a", encoding="utf-8") as given:
            for steps in sorted(self._waiting):
                given.write(json.dumps([steps, self._waiting[steps]]) + "\n")
                self._run.log({"steps": steps, **self._waiting[steps]})
        self._waiting.clear()

    def close(self, status: str) -> None:
        """Gives it the agent, and ends its run."""
        if status != "failed":
            self.save()  # what was rated after the last save
            self._log_agent()
        self._run.finish(exit_code=1 if status == "failed" else 0)
        self._given.unlink()

    def _log_agent(self) -> None:
        folders = sorted(path for path in (self._start.folder / "snapshots").glob("*") if path.name.isdigit())
        if folders:
            steps, told = int(folders[-1].name), {}
            with suppress(OSError, ValueError, RecursionError):
                told = json.loads(read_file(folders[-1] / "manifest.json"))
            about = {"run": self._start.run, "steps": steps, "agent_id": told.get("agent_id", "")}
            artifact = self._wandb.Artifact(self._start.run, type="model", metadata=about)
            for path in sorted(folders[-1].iterdir()):
                artifact.add_file(str(path))
            self._run.log_artifact(artifact, aliases=["latest", f"step-{steps}"])
