"""One thread a process, those that tests start included: small tensors gain nothing from more, and on a busy machine
threads wait for each other. And signals that end a process do so, also where the tests themselves run in the background
of a script, which ignores Ctrl+C: `league` leaves ignored what was ignored before it. Matrices are multiplied exactly,
whatever a test before set."""

import functools
import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

for name in ("COLUMNS", "LINES"):  # readline, which pytest imports, gives them to the workers
    os.environ.pop(name, None)
os.environ["OMP_NUM_THREADS"] = "1"
_HOME = tempfile.TemporaryDirectory(prefix="league-config-")
os.environ["XDG_CONFIG_HOME"] = _HOME.name  # the list of games that a user has named
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    number = getattr(signal, name, None)
    if number is not None and signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)


@pytest.fixture(autouse=True)
def exact_products() -> None:
    """float32 throughout, as a process begins."""
    import torch  # here, since the number of threads above must be set before

    torch.set_float32_matmul_precision("highest")


@pytest.fixture(autouse=True)
def no_user_code() -> Iterator[None]:
    """A game that a test has loaded from this package or folder does not make all tests code of a user."""
    yield
    if errors := sys.modules.get("league.errors"):
        errors._user_modules.discard("tests")
        errors._user_folders -= {folder for folder in errors._user_folders if __file__.startswith(folder)}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 12 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12m", "none", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("no right to mount a small disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture(autouse=True, scope="session")
def _one_command() -> None:
    """The command line is made from its signatures once, not at every call in this process."""
    typer.main.get_command = functools.cache(typer.main.get_command)


def pytest_collection_finish() -> None:
    """What was imported remains: the collector of garbage need not go through it again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """At the end everything is looked at, as without it."""
    gc.unfreeze()
