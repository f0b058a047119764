"""A GPU, looked at from all sides in half an hour: `python -m benchmarks.gpu --out FOLDER`.

Is it right, how fast is it, where does the time go, what fits into its memory? Each section is a process of its own
with a time limit, so a fault costs one section. After each of them FOLDER has `gpu.json`, all figures, and `gpu.md`,
a page of them with the goals; what a process said is in `NAME.log`. Called again it goes on with the sections that have
no figures yet, so it may be cut into calls of ten minutes (`--seconds 580`); `--only NAME ...` does these again.

`--tiny` runs all of it at toy sizes, on a CPU too, where sections that need a GPU say so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import gpu_checks, gpu_speed
from benchmarks.gpu_bench import Bench, Figures, Skipped
from benchmarks.gpu_page import page
from league.errors import UsageError
from league.runtime.device import describe_device

SECTIONS = {**gpu_checks.SECTIONS, **gpu_speed.SECTIONS}
NAMES = {section.__name__: section for section in SECTIONS}
WORDS = {name: (section.__doc__ or "").strip() for name, section in NAMES.items()}
ROOT = Path(__file__).resolve().parent.parent
MARGIN = 5.0
"""Seconds between a section's limit and that of everything."""


def head(is_tiny: bool) -> Figures:
    """What is measured, and with what."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name() if device.type == "cuda" else describe_device(device)
    versions = {"torch": torch.__version__, "python": platform.python_version(), "cores": os.cpu_count()}
    return {"device": name, **versions, "tiny": is_tiny}


def run_all(folder: Path, names: Sequence[str], seconds: float, is_tiny: bool, limit: float | None = None) -> Figures:
    """The sections of these names, or all that have no figures yet, each in a process of its own.

    Args:
        folder: of `gpu.json` and `gpu.md`; what an earlier call found there is kept.
        names: sections to be done, done before or not; empty: what is left.
        seconds: for all of them; a section whose limit is more than what is left waits for the next call.
        is_tiny: toy sizes.
        limit: of each section, instead of its own.

    Raises:
        UsageError: the folder has another device's figures, or of other sizes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = read(folder) or {"bench": "gpu", **head(is_tiny), "sections": {}}
    now = head(is_tiny)
    for key in ("device", "torch", "tiny"):
        if found[key] != now[key]:
            raise UsageError(
                f"--out {folder}: its figures are of {key} {found[key]}, not {now[key]}; give another folder"
            )
    until = time.monotonic() + seconds
    for name, section in NAMES.items():
        has_figures = name in found["sections"] and "failed" not in found["sections"][name]
        if (name not in names) if names else has_figures:
            continue
        allowed = limit or SECTIONS[section]
        if time.monotonic() + allowed + MARGIN > until:
            print(f"{name}: waits for a call with {allowed:.0f} s left", file=sys.stderr, flush=True)
            continue
        begun = time.monotonic()
        figures = _apart(folder, name, allowed, is_tiny)
        found["sections"][name] = {**figures, "section_seconds": round(time.monotonic() - begun, 1)}
        found["sections"] = {key: found["sections"][key] for key in NAMES if key in found["sections"]}
        _write(folder / "gpu.json", json.dumps(found) + "\n")
        _write(folder / "gpu.md", page(found, WORDS))
        how = figures.get("failed") or figures.get("skipped") or "done"
        print(f"{name}: {how}, {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
    return found


def read(folder: Path) -> Figures | None:
    """What `gpu.json` has; None where there is none."""
    path = folder / "gpu.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _apart(folder: Path, name: str, limit: float, is_tiny: bool) -> Figures:
    """A section's figures, or those it had when it was cut short, with what went wrong."""
    kept = folder / f"{name}.part.json"
    kept.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.gpu", "--section", name, "--out", str(folder)]
    with (folder / f"{name}.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, *(["--tiny"] if is_tiny else [])],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
            problem = f"its process ended with {code}; see {name}.log" if code else ""
        except subprocess.TimeoutExpired:
            problem = f"it took more than its {limit:g} s"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # it and what it started
                process.wait()
    figures: Figures = json.loads(kept.read_text(encoding="utf-8")) if kept.is_file() else {}
    kept.unlink(missing_ok=True)
    return {"failed": problem, **figures} if problem else figures


def section(folder: Path, name: str, is_tiny: bool) -> None:
    """One section in this process; each figure is written as it comes."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    bench, figures = Bench(device, is_tiny), Figures()
    try:
        for key, value in NAMES[name](bench):
            figures[key] = value
            _write(folder / f"{name}.part.json", json.dumps(figures))
            print(f"{key}: {value}", flush=True)
        figures |= bench.memory()
    except Skipped as reason:
        figures["skipped"] = str(reason)
    except Exception as error:  # what a section came to is kept with its error, whatever that is
        traceback.print_exc()
        figures["failed"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    _write(folder / f"{name}.part.json", json.dumps(figures))


def _write(path: Path, text: str) -> None:
    """All of it, or the file of before."""
    aside = path.with_suffix(".new")
    aside.write_text(text, encoding="utf-8")
    aside.replace(path)


def main() -> None:
    """Runs the sections on the best device there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a folder for gpu.json and gpu.md")
    parser.add_argument("--seconds", type=float, default=1_800.0, help="for this call")
    parser.add_argument("--only", nargs="+", default=[], choices=list(NAMES), metavar="SECTION", help=", ".join(NAMES))
    parser.add_argument("--tiny", action="store_true", help="toy sizes, to see that it works")
    parser.add_argument("--section", choices=list(NAMES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.section:
        section(arguments.out, arguments.section, arguments.tiny)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no section is left behind
    try:
        found = run_all(arguments.out, arguments.only, arguments.seconds, arguments.tiny)
    except UsageError as error:
        raise SystemExit(f"error: {error}") from None
    print(page(found, WORDS))


if __name__ == "__main__":
    main()
