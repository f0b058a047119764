"""The wheel: one top level, everything the library reads, and it works away from the checkout."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "runs", "*.so", "*.egg-info", "__pycache__", ".*_cache"
)


def build_wheel(folder: Path, breaks: str = "", compiled: Iterable[Path] = (), **env: str) -> Path:
    """The wheel built from a clean copy of the checkout, with these variables set and a file of it broken.

    compiled: files of the checkout's build, which are not made again.
    """
    shutil.copytree(ROOT, folder / "source", ignore=LEFT_OUT)
    for path in compiled:
        place = folder / "source" / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, place)
    if breaks:
        (folder / "source" / breaks).write_text("this is no C\n")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", folder, "."]
    done = subprocess.run(command, cwd=folder / "source", env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("league_engine-*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the checkout, with the extensions that `make build` has compiled where they are new enough."""
    compiled = [*(ROOT / "build").glob("lib.*/**/*.so"), *(ROOT / "build" / "cython").rglob("*.c")]
    return build_wheel(tmp_path_factory.mktemp("wheel"), compiled=compiled)


def test_wheel_holds_one_top_level_with_everything_in_it(wheel: Path) -> None:
    """Only `league/` and its metadata; all Python, the compiled game, SQL and TOML are inside, and no test."""
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {
        "league",
        next(n.split("/")[0] for n in names if "dist-info" in n),
    }
    expected = set()
    for folder in ("league", "envs", "policies", "snapshots"):
        prefix = "" if folder == "league" else "league/"
        files = [
            p
            for kind in ("*.py", "*.sql", "*.toml", "*.html", "*.js", "*.css", "py.typed")
            for p in (ROOT / folder).rglob(kind)
        ]
        expected |= {prefix + p.relative_to(ROOT).as_posix() for p in files}
    expected.add("league/cli.py")
    assert expected <= set(names), expected - set(names)
    for compiled in ("league/envs/brawl/brawl.", "league/policies/kernels/_ring_attention."):
        assert any(name.startswith(compiled) and name.endswith((".so", ".pyd")) for name in names)
    own = set(names) - {"league/testing.py", "league/commands/selftest.py"}  # what checks others' games, and machines
    assert not [name for name in own if "test" in name or name.endswith((".pyx", ".pxi", ".h"))]


def test_installed_wheel_works_in_a_folder_with_its_own_envs(wheel: Path, tmp_path: Path) -> None:
    """A user with folders called envs and cli gets ours under `league.` and keeps theirs."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    (tmp_path / "user" / "envs").mkdir(parents=True)
    (tmp_path / "user" / "envs" / "__init__.py").write_text("mine = True")
    code = (
        "import envs, league.cli; from league.envs import registry; from league.store.store import Store;"
        "batch = registry.make('brawl', rows=2, threads=1, options={}); batch.reset(0); batch.step();"
        "import gymnasium; gymnasium.make('league.gym:league/Brawl-v0').reset(seed=0);"
        "Store.create('s').runs(); print(envs.mine, league.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "user",
        env={"PYTHONPATH": f"{site}:.", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", str(site / "league" / "__init__.py")]


@pytest.mark.slow
def test_without_a_compiler_the_build_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"league needs a C compiler and Python.h: `apt-get install gcc"):
        build_wheel(tmp_path, CC="/nonexistent")


@pytest.mark.slow
def test_what_does_not_compile_is_an_error(tmp_path: Path) -> None:
    """Where there is a compiler, a fault in what it is given ends the build."""
    with pytest.raises(AssertionError, match="error"):
        build_wheel(tmp_path, breaks="policies/kernels/ring_attention.h")


def test_training_installs_no_test_tools(tmp_path: Path) -> None:
    """From a fresh clone `make train` takes what training needs; `make test`, `lint` and `types` the rest as well."""
    for name in ("Makefile", "pyproject.toml", "setup.py", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    extras = {}
    for target in ("train", "test", "lint", "types", "build"):
        done = subprocess.run(["make", "-n", target], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("-c constraints.txt") == done.stdout.count("pip install --quiet --dis")
        extras[target] = re.findall(r"-e '\.\[(\w+)\]'", done.stdout)
    assert extras.pop("train") == ["build"]
    assert all(found == ["build", "dev"] for found in extras.values()), extras
