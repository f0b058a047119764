"""`league.validate`: a submission plays whole matches in a process that is shut in; a verdict says what is wrong."""

from __future__ import annotations

import os
import stat
import statistics
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from league.arena.agreement import need_agreement
from league.arena.games import enter, find_again, load_settings
from league.arena.program_parts import APART, ONE, RUN_CODE, RUNNER_SECONDS, SUBMISSION
from league.envs import registry
from league.envs.matches.mixtures import choices_of
from league.envs.matches.row import RANDOM
from league.errors import ConfigError, UsageError, quoted
from league.play.evaluation import play
from league.play.histories import Failure, StatefulPolicy
from league.play.pairings import Contestant, Pairing
from league.play.programs import Program, ProgramHost
from league.play.summaries import check_games
from league.runtime import sandbox
from league.runtime.interpreter import python
from league.snapshots.files import MANIFEST, MAX_MANIFEST_BYTES
from league.snapshots.manifest import parse
from league.types import BOT_PREFIX, SEATS, FloatArray, GameSpec, Mask, Origin
from league.types.results import Grid, Result
from league.types.schema import check_number, read_file

MATCHES, TIME_LIMIT, MEMORY = 20, 0.05, 1024
"""Matches, seconds of a decision, and MiB of a process, where a call does not say."""
MOST_FILES, MOST_BYTES = 1_000, 2**30
"""Of a zip, once unpacked."""
MOST_REQUIREMENTS = 3


@dataclass(frozen=True)
class RuleCheck:
    """One rule for submissions and what was measured; next: what to do, where the rule is broken."""

    rule: str
    found: str
    next: str = ""


@dataclass(frozen=True, repr=False)
class Validation(Result):
    """What a submission did in its matches.

    is_fit: whether all rules hold. median_ms, worst_ms: of a decision, the way to the process and back included.
    peak_mib: the most memory of a process. is_isolated: whether the process was shut in.
    """

    submission: str
    game: str
    is_fit: bool
    is_isolated: bool
    checks: tuple[RuleCheck, ...]
    decisions: int = 0
    median_ms: float = 0.0
    worst_ms: float = 0.0
    peak_mib: float = 0.0

    def grids(self) -> list[Grid]:
        """A row a rule."""
        rows = [
            (x.rule, "BROKEN" if x.next else "holds", f"{x.found}. Next: {x.next}" if x.next else x.found)
            for x in self.checks
        ]
        verdict = "fit to submit" if self.is_fit else "not fit"
        return [Grid(("rule", "", "found"), rows, f"{self.submission}, {self.game}: {verdict}")]


def validate(
    submission: str | Path,
    *,
    env: object = None,
    matches: int = MATCHES,
    time_limit: float = TIME_LIMIT,
    memory: int = MEMORY,
    seed: int = 0,
    trust: bool = False,
    say: Callable[[str], None] | None = None,
) -> Validation:
    """Plays a submission as a referee would: whole matches of both seats, against random play.

    Its code runs in processes without network, other programs and changes of files; they read Python, the submission
    and the system's libraries. One agent plays all matches of a process, with `reset` between them.

    Args:
        submission: a folder or zip with an `agent.py` (docs/guides/export.md) or a `main.py` of Kaggle's form.
        env: the game, where the submission has no `manifest.json`, or to name its code again.
        matches: an even number.
        time_limit: seconds of a decision.
        memory: MiB of a process.
        seed: of the matches.
        trust: runs the code also where this machine cannot shut a process in.
        say: receives a line a while.

    Returns:
        The verdict; a rule that is broken is no error.

    Raises:
        UsageError: there is no submission or game, a number breaks its rule, or the machine cannot shut a process in.
        SnapshotError: its manifest is none.
    """
    check_games(matches, "matches")
    check_number("memory", memory, 64, 2**20, "MiB of a process")
    if not 0 < time_limit <= 60:
        raise UsageError(f"time_limit={time_limit}: must be above 0 and at most 60 s; pass another one")
    if not (is_isolated := sandbox.is_possible()) and not trust:
        raise UsageError(
            "this machine cannot shut a process in, which takes Linux with Landlock and seccomp; read the code of"
            " the submission, and pass --trust if you would run it"
        )
    with _unpacked(Path(submission)) as folder:
        spec, options = _game_of(folder, str(submission), env, say)
        host = _Referee(folder, spec, options, is_isolated=is_isolated, memory=memory)
        try:
            checks = _judged(host, matches, time_limit, seed, say or (lambda line: None))
        finally:
            host.close()
    held = "no network, no programs, no changes of files" if is_isolated else "not isolated: its code could do anything"
    checks.append(RuleCheck("isolation", held))
    times = host.seconds or [0.0]
    return Validation(
        submission=str(submission),
        game=spec.name,
        is_fit=not any(check.next for check in checks),
        is_isolated=is_isolated,
        checks=tuple(checks),
        decisions=len(host.seconds),
        median_ms=1e3 * statistics.median(times),
        worst_ms=1e3 * max(times),
        peak_mib=host.peak_mib,
    )


class _Referee(ProgramHost):
    """The processes of a submission, of one match each at a time; measures decisions, and keeps what the first saw."""

    def __init__(
        self, folder: Path, spec: GameSpec, options: Mapping[str, Any], *, is_isolated: bool, memory: int
    ) -> None:
        words = [SUBMISSION, str(folder), ONE, *([APART] if is_isolated else [])]
        program = Program(f"{SUBMISSION}:{folder.name}", tuple(python(RUN_CODE, *words)), RUNNER_SECONDS)
        super().__init__(folder.name, program, spec, SEATS, mib=memory)
        self.folder, self.spec, self.options = folder, spec, options
        self.seconds, self.failures = list[float](), list[str]()
        self.start_seconds = self.peak_mib = 0.0
        self.first: tuple[int, list[tuple[Any, ...]]] | None = None
        """Seed of the first match, and what it saw and did: (obs, mask, action), or (obs,) while it waited."""
        self._is_first = False

    def begin(self, seeds: Mapping[int, int]) -> dict[int, Failure]:
        """See `Host.begin`."""
        began = time.monotonic()
        failed = super().begin(seeds)
        self.start_seconds = max(self.start_seconds, time.monotonic() - began)
        if 0 in seeds:
            self._is_first = self.first is None
            self.first = self.first or (seeds[0], [])
        self.failures += failed.values()
        return failed

    def watch(self, match: int, obs: FloatArray) -> None:
        """See `Host.watch`."""
        super().watch(match, obs)
        if match == 0 and self._is_first and self.first is not None:
            self.first[1].append((obs.copy(),))

    def act(self, seen: Mapping[int, tuple[FloatArray, Mask | None]]) -> dict[int, list[float] | Failure]:
        """See `Host.act`: one after the other, each measured."""
        answers: dict[int, list[float] | Failure] = {}
        for match, (obs, mask) in seen.items():
            began = time.perf_counter()
            answers |= super().act({match: (obs, mask)})
            self.seconds.append(time.perf_counter() - began)
            answer = answers.get(match)
            if isinstance(answer, Failure):
                self.failures.append(str(answer))
            elif match == 0 and self._is_first and self.first is not None:
                self.first[1].append((obs.copy(), None if mask is None else mask.copy(), answer))
        self.peak_mib = max([self.peak_mib, *map(_peak_mib, self.pids)])
        return answers

    def end(self, match: int) -> None:
        """See `Host.end`."""
        super().end(match)
        self._is_first = self._is_first and match != 0

    def replay(self) -> str:
        """Shows the agent the first match again, after `reset` with its seed; how it differs, if it does."""
        assert self.first is not None
        seed, looks = self.first
        if failed := ProgramHost.begin(self, {0: seed}):
            return failed[0]
        for number, (obs, *rest) in enumerate(looks):
            if not rest:
                ProgramHost.watch(self, 0, obs)
                continue
            mask, before = rest
            now = ProgramHost.act(self, {0: (obs, mask)})[0]
            if now != before:
                return f"decision {number + 1} was {before}, and is {now}"
        return ""


def _judged(host: _Referee, matches: int, time_limit: float, seed: int, say: Callable[[str], None]) -> list[RuleCheck]:
    """Plays the matches; a check each rule, up to the first that ends it all."""
    folder, spec, options = host.folder, host.spec, dict(host.options)
    checks = [_check_requirements(folder)]
    rival = Contestant(BOT_PREFIX + (RANDOM if RANDOM in spec.bots else spec.bots[0]))
    choices, played, told_at = choices_of(spec.action), 0, time.monotonic()
    make = partial(registry.make, spec.name, threads=0, options=options)
    try:
        for number in range(matches // SEATS):
            policy = StatefulPolicy(folder.name, host, choices, torch.device("cpu"), spec)
            pairing = Pairing(Contestant("submission", policy), rival, SEATS, seed + number)
            play(lambda rows: make(rows=rows), [pairing], Origin("validation", ""), update=0)
            if host.failures:
                break
            played += SEATS
            if time.monotonic() > told_at + 2:
                told_at = time.monotonic()
                say(f"{played} of {matches} matches, {len(host.seconds):,} decisions")
    except ConfigError as error:
        text = str(error).partition("at its start: ")[2].rpartition("; mend it")[0] or str(error)
        return [*checks, RuleCheck("starts", text, "mend it, and try `python agent.py` in its folder")]
    checks.append(RuleCheck("starts", f"within {host.start_seconds:.1f} s"))
    if host.failures:
        return [*checks, RuleCheck("whole matches", host.failures[0], "mend it: a referee would take the match")]
    checks.append(RuleCheck("whole matches", f"{played} of {matches}, {len(host.seconds):,} decisions"))
    if not host.seconds:
        return checks
    median, worst = 1e3 * statistics.median(host.seconds), 1e3 * max(host.seconds)
    slow = (
        "load and warm up in __init__, use one thread or a smaller network, and keep the machine quiet"
        if worst > 1e3 * time_limit
        else ""
    )
    checks.append(RuleCheck("time", f"median {median:.2f} ms, worst {worst:.1f} of {1e3 * time_limit:g} ms", slow))
    checks.append(RuleCheck("memory", f"at most {host.peak_mib:,.0f} of {host.mib:,.0f} MiB"))
    if differs := host.replay():
        cure = "forget the match in reset(), and draw from generators that reset(seed) seeds"
        return [*checks, RuleCheck("reset and seed", differs, cure)]
    return [*checks, RuleCheck("reset and seed", "the first match, shown again after all others, has the same answers")]


def _game_of(
    folder: Path, name: str, env: object, say: Callable[[str], None] | None
) -> tuple[GameSpec, Mapping[str, Any]]:
    """The game that a submission plays, with its options."""
    try:
        data = _read(folder / MANIFEST, MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        if env is None:
            raise UsageError(f"{name}: has no {MANIFEST} that names its game; pass --env") from None
        config, _ = load_settings(env=enter(env, say))
        return registry.spec(config.env.name, config.env.options), config.env.options
    manifest = parse(data, str(folder / MANIFEST))
    find_again(manifest.game.name, manifest.game.came_from, name, env, say)
    return need_agreement(manifest), manifest.game.options


@contextmanager
def _unpacked(path: Path) -> Iterator[Path]:
    """The folder of a submission; a zip is unpacked into one that goes with the end.

    Raises:
        UsageError: there is none, or a zip would write elsewhere or become too large.
    """
    if path.is_dir():
        yield _need_code(path.absolute(), path)
        return
    if not path.is_file() or not zipfile.is_zipfile(path):
        raise UsageError(f"{path}: is no folder and no zip; give one of `league export AGENT OUT --format submission`")
    with tempfile.TemporaryDirectory(prefix="league-") as home:
        folder = Path(home) / path.stem
        with zipfile.ZipFile(path) as packed:
            entries = packed.infolist()
            if len(entries) > MOST_FILES or sum(entry.file_size for entry in entries) > MOST_BYTES:
                raise UsageError(f"{path}: has more than {MOST_FILES:,} files or 1 GiB; leave some out")
            if bad := [entry.filename for entry in entries if stat.S_ISLNK(entry.external_attr >> 16)]:
                raise UsageError(f"{path}: {quoted(bad[0])} is a link; pack the file itself")
            try:
                packed.extractall(folder)
            except (OSError, RuntimeError, zipfile.BadZipFile, NotImplementedError) as error:
                raise UsageError(f"{path}: cannot be unpacked ({error}); pack it again") from None
        inner = sorted(folder.iterdir())
        yield _need_code(inner[0] if len(inner) == 1 and inner[0].is_dir() else folder, path)


def _need_code(folder: Path, named: Path) -> Path:
    if not any((folder / name).is_file() for name in ("agent.py", "main.py")):
        raise UsageError(f"{named}: has no agent.py and no main.py; give the folder that has one")
    return folder


def _check_requirements(folder: Path) -> RuleCheck:
    rule, file = "requirements", folder / "requirements.txt"
    try:
        text = _read(file, MAX_MANIFEST_BYTES).decode() if os.path.lexists(file) else ""
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return RuleCheck(rule, f"{file.name} is no text in UTF-8", "write a requirement a line, or remove it")
    names = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    too_many = f"a referee installs at most {MOST_REQUIREMENTS}; drop some" if len(names) > MOST_REQUIREMENTS else ""
    return RuleCheck(rule, f"{len(names)}: {', '.join(names)}"[:200] if names else "none named", too_many)


def _read(path: Path, limit: int) -> bytes:
    try:
        return read_file(path, limit)
    except ValueError as error:
        raise UsageError(f"{path}: {error}; give a regular file") from None


def _peak_mib(pid: int) -> float:
    """The most memory that a process has had; 0 where the system does not tell."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return next((float(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmHWM")), 0.0)
