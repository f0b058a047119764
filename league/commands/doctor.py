"""What `league doctor` looks at: this installation, this machine, and the store, and what to do about each."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from packaging.requirements import Requirement

from league.errors import LeagueError, as_known, command_line
from league.store.files import store_folder

if TYPE_CHECKING:
    from league.store.store import Store

Health = Literal["well", "note", "broken"]
DISTRIBUTION = "league-engine"
LITTLE_MEMORY, LITTLE_DISK = 2 * 2**30, 2 * 2**30
"""Bytes free below which a run of the preset `fast` hardly fits."""
SHOWN = 3
"""Snapshots that are named, of those that are wrong."""
EXTRAS = {
    "matplotlib": ("matplotlib", "`league payoff --png`"),
    "imageio_ffmpeg": ("imageio-ffmpeg", ".mp4 films"),
    "pettingzoo": ("pettingzoo", "games of PettingZoo"),
    "pyspiel": ("open_spiel", "games of OpenSpiel"),
}
"""Module -> distribution, and what needs it."""


@dataclass(frozen=True)
class HealthCheck:
    """One thing that was looked at."""

    about: str
    health: Health
    """`note`: all works, but something is slow, missing or waits; `broken`: something does not work."""
    found: str
    next: str = ""
    """What to do; empty only where it is well."""


def examine(store: Path) -> list[HealthCheck]:
    """Looks at everything. Nothing is changed, and what cannot be looked at is a finding, too."""
    checks: tuple[tuple[str, Callable[[], Iterator[HealthCheck]]], ...] = (
        *(("versions", _versions), ("extras", _extras), ("compiled parts", _compiled)),
        *(("threads", _threads), ("CUDA", _cuda), ("memory", _memory)),
        *(("disk", lambda: _disk(store)), ("store", lambda: _store(store))),
    )
    return [finding for about, check in checks for finding in _tried(about, check)]


def _tried(about: str, check: Callable[[], Iterator[HealthCheck]]) -> list[HealthCheck]:
    """What a check finds; where it fails itself, that."""
    try:
        return list(check())
    except Exception as error:
        known = as_known(error)
        told = str(known) if known else f"{type(error).__name__}: {error}"
        found, _, advice = " ".join(told.split()).partition("; ")
        return [HealthCheck(about, "broken", found, advice or "reinstall league, or report this line as a bug")]


def _versions() -> Iterator[HealthCheck]:
    """The libraries that league needs, each held to the versions that it allows."""
    from league import __version__

    python = ".".join(map(str, sys.version_info[:3]))
    there = [f"league {__version__}", f"Python {python}"]
    wrong = []
    for needed in map(Requirement, requires(DISTRIBUTION) or ()):
        if needed.marker is not None and not needed.marker.evaluate({"extra": ""}):
            continue
        try:
            has = version(needed.name)
        except PackageNotFoundError:
            wrong.append(f"{needed.name} is not installed")
            continue
        there.append(f"{needed.name} {has}")
        if not needed.specifier.contains(has, prereleases=True):
            wrong.append(f"{needed.name} {has} is not {needed.specifier}")
    yield HealthCheck("versions", "well", ", ".join(there))
    if wrong:
        advice = "reinstall league (`pip install .`, in a checkout `make build`)"
        yield HealthCheck("versions", "broken", "; ".join(wrong), advice)


def _extras() -> Iterator[HealthCheck]:
    """What some commands need and nothing else does."""
    missing = {name: why for module, (name, why) in EXTRAS.items() if find_spec(module) is None}
    there = [name for name, _ in EXTRAS.values() if name not in missing]
    yield HealthCheck("extras", "well", f"there: {', '.join(there) or 'none'}")
    if missing:
        found = ", ".join(f"{name} ({why})" for name, why in missing.items())
        yield HealthCheck("extras", "note", f"not installed: {found}", f"if you need it: `pip install {min(missing)}`")


def _compiled() -> Iterator[HealthCheck]:
    """Whether networks run on compiled parts, and which way was chosen."""
    import torch

    from league.policies.kernels import switch
    from league.policies.kernels.linear import has_tiles
    from league.runtime.device import products_of

    ways = products_of(torch.device("cpu"), "float32", has_tiles(), is_compiled=switch.IS_ON)
    capability = torch.backends.cpu.get_cpu_capability()
    found = f"products of float32: {ways}; {switch.VENDOR or platform.machine()}, {capability}"
    if switch.IS_ON:
        yield HealthCheck("networks", "well", f"compiled kernels; {found}")
        return
    advice = f"unset {switch.SETTING}"
    if "not measured" in switch.WHY_OFF:
        advice = f"try {switch.SETTING}=on, then `league selftest`"
    yield HealthCheck("networks", "note", f"plain torch: {switch.WHY_OFF}; {found}", advice)


def _threads() -> Iterator[HealthCheck]:
    import torch

    from league.envs import registry

    cores, threads = registry.num_cores(), torch.get_num_threads()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    asked = os.environ.get("OMP_NUM_THREADS")
    found = f"cores for this process: {cores}, threads of torch: {threads}" + (
        f" (OMP_NUM_THREADS={asked})" if asked else ""
    )
    if threads > cores:
        yield HealthCheck(
            "threads", "note", found, f"set OMP_NUM_THREADS={cores}: more threads than cores wait for each other"
        )
    else:
        yield HealthCheck("threads", "well", found)
    if load > 1.5 * cores:
        found = f"the load is {load:.1f}, cores: {cores}; others work here, too"
        yield HealthCheck("load", "note", found, "expect less speed, or wait until they are done")


def _cuda() -> Iterator[HealthCheck]:
    import torch

    from league.runtime.device import choose_device, describe_device

    built = torch.version.cuda
    if torch.cuda.is_available():
        device = torch.device("cuda")
        free, total = torch.cuda.mem_get_info(device)
        where = f"{describe_device(device)}, {_gib(free)} of {_gib(total)} free; torch for CUDA {built}"
        _ = torch.ones(8, device=device).sum().item()  # that it is there does not say that it works
        if free < total / 2:
            yield HealthCheck("CUDA", "note", where, "end what else uses the GPU (`nvidia-smi` lists it)")
        else:
            yield HealthCheck("CUDA", "well", where)
        return
    has_card = Path("/dev/nvidia0").exists() or shutil.which("nvidia-smi") is not None
    if has_card and built is None:
        advice = "install torch's CUDA build into this environment (pytorch.org has the command)"
        yield HealthCheck("CUDA", "note", "there is a GPU, but this torch is a build for CPUs", advice)
    elif has_card:
        advice = "compare `nvidia-smi`'s CUDA version: update the driver, or install a torch for an older CUDA"
        yield HealthCheck("CUDA", "note", f"there is a GPU, but torch for CUDA {built} cannot use it", advice)
    else:
        yield HealthCheck("CUDA", "well", f"no GPU here; `--device auto` takes {choose_device('auto').type}")


def _memory() -> Iterator[HealthCheck]:
    import torch

    from league.runtime.device import read_memory

    memory = read_memory(torch.device("cpu"))
    found = f"{_gib(memory.free)} of {_gib(memory.total)} free"
    if memory.free < LITTLE_MEMORY:
        yield HealthCheck("memory", "note", found, "end other work, or train with a lower --set env.rows")
    else:
        yield HealthCheck("memory", "well", found)


def _disk(store: Path) -> Iterator[HealthCheck]:
    wanted = store_folder(store).absolute()
    folder = next(path for path in (wanted, *wanted.parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK):
        yield HealthCheck("disk", "broken", f"{folder} cannot be written", "see to its rights, or pass another --store")
    elif free < LITTLE_DISK:
        advice = "make room; `league snapshots prune --dry-run` shows what may go"
        yield HealthCheck("disk", "note", f"{_gib(free)} free at {folder}", advice)
    else:
        yield HealthCheck("disk", "well", f"{_gib(free)} free at {folder}")


def _store(store: Path) -> Iterator[HealthCheck]:
    """Whether the store can be read, what of it is damaged, and whether each run can go on."""
    from league.printing.lists import show_size
    from league.store.store import Store

    if not Store.is_there(store):
        yield HealthCheck("store", "well", f"{store} has no run yet: `league train` makes one")
        return
    said: list[str] = []
    opened = Store.open(store, said.append)
    with opened.reading():
        counts = {table: opened.query(f"SELECT count(*) FROM {table}")[1][0][0] for table in ("run", "match")}
    size = show_size(sum(path.stat().st_size for path in opened.path.glob("*/rows/*.parquet")))
    yield HealthCheck("store", "well", f"{store}: {counts['run']:,} runs, {counts['match']:,} matches, {size} of rows")
    for line in said:
        yield HealthCheck("store", "broken", line, "put the file or folder back from a copy")
    yield from _runs(store)


def _runs(path: Path) -> Iterator[HealthCheck]:
    """The runs that cannot go on, or wait to."""
    from league.sessions.folders import has_begun
    from league.snapshots.kept import states_of
    from league.store.store import Store

    store = Store.open(path, lambda line: None)
    found = store.runs_with_status()
    resting = []
    for row, status in found:
        folder, again = store.path / row.run, command_line("resume", row.run, store=path)
        if has_begun(store, row.run) and not states_of(folder / "state"):
            told = "neither of its saved states is whole, so it cannot go on; its snapshots play"
            yield HealthCheck(f"run {row.run}", "broken", told, f"put {folder / 'state'} back from a copy")
        elif bad := sorted(one.name for one in (folder / "state").glob("*.bad-*")):
            told = f"a damaged state was set aside: {', '.join(bad)}"
            yield HealthCheck(f"run {row.run}", "note", told, "it goes on from the one before; delete it when you like")
        if lost := _lost_snapshots(store, row.run):
            told = f"{len(lost)} of its snapshots cannot play: {'; '.join(lost[:SHOWN])}{' ...' * (len(lost) > SHOWN)}"
            yield HealthCheck(f"run {row.run}", "broken", told, f"put {folder / 'snapshots'} back from a copy")
        if status in ("died", "failed"):
            why = "its process was killed" if status == "died" else "an error ended it (`league events` has more)"
            yield HealthCheck(f"run {row.run}", "note", f"{why} at step {row.steps:,}", f"`{again}` goes on")
        elif status == "stopped":
            resting.append(row.run)
    if resting:
        again = command_line("resume", resting[0], store=path)
        yield HealthCheck("runs", "note", f"stopped: {', '.join(resting)}", f"`{again}` goes on with the first")


def _lost_snapshots(store: Store, run: str) -> list[str]:
    """What is wrong with each snapshot that the store has with files: one is missing, damaged, or another agent's."""
    from league.snapshots import io as snapshot_files

    lost = []
    for row in store.snapshots(run):
        folder = store.brought(row.path)
        if row.pruned_at is not None:
            continue
        try:
            if snapshot_files.load(folder)[0].agent_id != row.agent_id:
                lost.append(f"{folder} holds another agent")
        except (OSError, LeagueError) as error:
            lost.append(str(as_known(error)).partition("; ")[0])
    return lost


def _gib(number: float) -> str:
    return f"{number / 2**30:,.1f} GiB"
