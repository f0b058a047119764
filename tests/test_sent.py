"""A user's files on a machine that does not have them (`league.runtime.sent`)."""

import os
import shutil
from pathlib import Path

import pytest

import league
from league.config.layers import read_toml
from league.runtime import sent
from league.runtime.cluster import absolute, files_of
from tests.helpers.games import SUMS, SUMS_SETS, forget
from tests.helpers.sizes import TINY

GAME = f"import parts.first\nimport beside, numpy\n{SUMS}"
BOT = "def always(obs, mask, info=None):\n    return 0\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, in which the test begins."""
    folder = tmp_path / "home"
    (folder / "parts").mkdir(parents=True)
    for name, text in {
        "sums.py": GAME,
        "beside.py": "import further",
        "further.py": "import beside",
        "parts/__init__.py": "",
        "parts/first.py": "ONE = 1",
        "other.py": "",
        "bots.py": BOT,
        "set.toml": "[run]\nseed = 5",
    }.items():
        (folder / name).write_text(text)
    monkeypatch.chdir(folder)
    monkeypatch.setenv(sent.FOLDER, "")
    monkeypatch.delenv(sent.FOLDER)
    return folder


def test_what_a_file_imports_from_beside_travels_with_it(home: Path) -> None:
    found = files_of(absolute({"env": "sums.py:Sums", "bots": ["mine=bots.py:always"], "policy": None}))
    names = ["beside.py", "bots.py", "further.py", "parts/__init__.py", "parts/first.py", "sums.py"]
    assert found == {f"{home}/{name}": (home / name).read_bytes() for name in names}
    assert [*files_of(absolute("nowhere.py"))] == []
    assert [*files_of(absolute("kaggle:connectx:other.py:Encoder"))] == [f"{home}/other.py"]
    assert {*files_of("parts.first:ONE")} == {f"{home}/parts/{name}.py" for name in ("__init__", "first")}


def test_a_run_of_files_that_are_gone_here_names_them_where_they_were(home: Path, tmp_path: Path) -> None:
    """Its game plays in worker processes, too; a path means what it meant on the machine that sent the file."""
    files = files_of(absolute(["sums.py:Sums", "bots.py:always"])) | sent.collected([home / "set.toml"])
    assert sent.unpacked(files) is None and sent.FOLDER not in os.environ
    os.chdir(tmp_path)
    shutil.rmtree(home)
    forget()
    folder = sent.unpacked(files)
    assert folder is not None
    with folder:
        assert read_toml(home / "set.toml", "--config") == {"run": {"seed": 5}}
        words = {"env": f"{home}/sums.py:Sums", "bots": {"mine": f"{home}/bots.py:always"}, "run": "a"}
        overrides = (*SUMS_SETS, "env.workers=1")
        result = league.train(**words, overrides=overrides, store=tmp_path / "runs", callback=(), device="cpu")
        assert result.status == "finished"
        told = [path.read_text() for path in (tmp_path / "runs" / "a").glob("*.json")]
        assert any(f"{home}/sums.py:Sums" in text for text in told) and folder.name not in "".join(told)
        assert any(f"{home}/bots.py:always" in text for text in told)


def test_a_path_that_climbs_stays_in_the_folder(home: Path, tmp_path: Path) -> None:
    deep = f"{home}{'/..' * len(home.parts)}{home}/set.toml"
    folder = sent.unpacked({deep: b"[run]\nseed = 6"})
    assert folder is not None
    with folder:
        assert read_toml(Path(deep), "--config") == read_toml(home / "set.toml", "--config") == {"run": {"seed": 6}}
        assert [*Path(folder.name).rglob("*.toml")] == [Path(f"{folder.name}{home}/set.toml")]
    assert (home / "set.toml").read_text() == "[run]\nseed = 5"


def test_another_file_at_the_same_path_does_not_run(home: Path, tmp_path: Path) -> None:
    (home / "sums.py").write_text(f"import other\n{SUMS}")
    files = files_of(absolute("sums.py:Sums"))
    (home / "other.py").write_text("raise SystemExit")
    forget()
    folder = sent.unpacked(files)
    assert folder is not None
    with folder:
        words = {"env": "sums.py:Sums", "overrides": SUMS_SETS, "run": "a", "device": "cpu"}
        assert league.train(**words, store=tmp_path / "runs", callback=()).status == "finished"


AGENT = """
class Agent:
    def reset(self, seed):
        pass

    def act(self, observation, mask):
        return 0
"""


def test_programs_play_where_their_files_are_gone(home: Path, tmp_path: Path) -> None:
    """A Kaggle agent, a submission and an export, each a process of its own, play the same games as before."""
    (home / "main.py").write_text("def agent(observation, configuration):\n    return 1\n")
    (home / "submission").mkdir()
    (home / "submission" / "agent.py").write_text(AGENT)
    league.train(env="matrix", run="r", overrides=TINY, store=home, callback=(), device="cpu")
    league.export("r", home / "export", format="submission", store=home)
    bots = absolute({"kaggle": "kaggle:main.py", "submission": "submission:submission", "export": "export:export"})

    def found() -> list[object]:
        pairs = [("bot:kaggle", "bot:submission"), ("bot:export", "bot:kaggle")]
        return [league.evaluate(*pair, games=20, env="matrix", bots=bots, store=tmp_path / "none") for pair in pairs]

    before, files = found(), files_of(bots)
    os.chdir(tmp_path)
    shutil.rmtree(home)
    folder = sent.unpacked(files)
    assert folder is not None
    with folder:
        assert found() == before
    assert "/usr/bin/env" not in files_of("program:/usr/bin/env python3")
