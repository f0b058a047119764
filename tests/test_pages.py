"""Pages: the commands of tutorials and guides run and print what stands below, all others can be given.

A command that a page shows takes the arguments, options, settings and SQL that stand there. The slow tests run those of
tutorials, guides and other pages, but for the pages of results: what they show takes minutes to hours, and the tests of
`benchmarks/` try it. docs/tutorial.md is one program.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
import typer

from league import config
from league.cli import app
from league.config import role_sets
from league.envs import registry
from league.store.store import Store

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
TUTORIAL = DOCS / "tutorial.md"
PAGES = [TUTORIAL, *sorted([*(DOCS / "tutorials").glob("*.md"), *(DOCS / "guides").glob("*.md")])]
PYTHON = re.compile(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", re.DOTALL)
BLOCK = re.compile(r"^```(console|toml|python)\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.M | re.S)
FILE = re.compile(r"`([\w-]+\.toml)`")
SHORTER = (
    *("run.total_steps=6_144", "run.evaluate_every=0", "run.evaluate_games=2", "run.anchor_games=0"),
    "run.evaluate_share=10.0",
    *("run.ladder_share=0", "run.allow_short=true", "pool.snapshot_every=2_000", "pool.snapshot_every_after=2_000"),
)
"""What a training of a page has here, so that its commands are tried in minutes; what it learns is not tested."""
SHORTER_SWEEP = "steps = 50_000\n", "steps = 6_144\nset.run.allow_short = true\n"
"""The same of a sweep's file."""
SMALL = ("agent.opponent_encoder=false", "agent.observation_width=32", "agent.lstm_size=32", "agent.head_sizes=[32]")
LEFT_OUT = ("--device cuda", "league play")
"""Commands that need a GPU or a person."""
UNCERTAIN = frozenset({"accepted", "stronger", "promoted", "best", "than", "weakness", "found", "exclude"})
UNCERTAIN |= {"about", "would", "seen", "excludes"}
"""Words of findings that few steps and games do not bring about."""


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with the lines printed below it."""
    parts = re.split(r"^\$ (.*)$", text, flags=re.M)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def shortened(command: str) -> str:
    """The command with fewer steps and games."""
    command = re.sub(r"--games \d+", "--games 2", re.sub(r"--steps \d+", "--steps 6144", command))
    command = command.replace("@20480", "@2048").replace("@51200", "@4096")
    if "league exploit" in command:
        command += " --games 20"
    if "league gate" in command or "--format adaptive" in command:
        command = re.sub(r" --max-games \d+", "", command) + " --max-games 20"
    if "league compare" in command:
        command = re.sub(r"--seeds \d+", "--seeds 2", command) + " --set run.allow_short=true"
        command = command.replace("compare best.toml", "compare kuhn-t001-s1")  # the best may be the shipped settings
    command = re.sub(r"--trials \d+", "--trials 4", command)
    if "league tune" in command:
        command += " --seconds 1"
    if "league train" in command:
        is_own = any(word in command for word in ("--env", "--config", "--agent"))
        sets = (*SHORTER, *(() if is_own else SMALL))
        given = "".join(f" --set {shlex.quote(setting)}" for setting in sets)
        command = re.sub(r"(league train[^;&]*)", lambda call: call[1].rstrip() + given + " ", command)
    return re.sub(r"--stage 10m|--preset auto", "", command)


def words(text: str) -> set[str]:
    """The words of four letters or more, which do not depend on a machine's numbers, but for comments and verdicts."""
    text = re.sub(r"^(#|learning:|promising:).*|\b[0-9a-f]{12}\b", "", text, flags=re.M)
    return set(re.findall(r"[A-Za-z_]{4,}", text)) - UNCERTAIN


def run(command: str, folder: Path) -> tuple[int, str]:
    """A command of a page in a shell, with this checkout's `league`, and what it writes."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **{"OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"},
    }
    script = f"set -e\n{command}\nwait"
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path) -> None:
    """Each ends well and says the words that the page quotes; TOML blocks are the files that the page names.

    Python blocks of docs/tutorial.md are one program, which the test below runs.
    """
    text = page.read_text(encoding="utf-8")
    if page.stem == "kaggle":
        pytest.importorskip("kaggle_environments", reason="needs kaggle-environments: make kaggle")
    for example in ("connect4.py", "connect4_numpy.py", "connectx.py", "connectx.toml"):
        (tmp_path / example).write_text((ROOT / "examples" / example).read_text())
    ran = 0
    for block in BLOCK.finditer(text):
        kind, code, printed = block.groups()
        if kind == "toml":
            near = FILE.findall(text[: block.start()])[-1:] or FILE.findall(text[block.end() :])[:1]
            (tmp_path / near[0]).write_text(code.replace(*SHORTER_SWEEP))
        elif kind == "python" and page != TUTORIAL:
            done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
            assert (done.returncode, done.stdout) == (0, printed), done.stderr
        elif kind == "console":
            for command, below in commands(code):
                if any(part in command for part in LEFT_OUT):
                    continue
                if "RUN" in command:  # the reader's own
                    command = command.replace("RUN", "brawl-1")
                    run(shortened("league train --run brawl-1"), tmp_path)
                status, said = run(shortened(command), tmp_path)
                assert status in ((0, 3, 4) if command.startswith("league gate") else (0,)), (command, said)
                assert words(below) <= words(said), (command, sorted(words(below) - words(said)), said)
                ran += 1
    assert ran or "console" not in text


def test_what_troubleshooting_quotes_is_in_the_code() -> None:
    """Each three words in a row of the quoted messages, but for what is filled in, stand so in the library."""
    code = "".join(
        re.sub(r'"\s+f?"', "", re.sub(r"\{[^{}]*\}", "", path.read_text(encoding="utf-8")))
        for path in (ROOT / "league").rglob("*.py")
    )
    page = (DOCS / "guides" / "troubleshooting.md").read_text(encoding="utf-8")
    lines = [line for block in re.findall(r"^```text\n(.*?)^```", page, re.M | re.S) for line in block.splitlines()]
    said = [re.sub(r"\(\[enforce.*?memory\)\)", "", line) for line in lines]  # torch's own words
    filled_in = r"\b(?:cpu|big|runs|duckdb|process|its)\b"
    phrases = [phrase for line in said for phrase in re.split(rf"[^A-Za-z' ]+|{filled_in}", line)]
    split = [phrase.split() for phrase in phrases]
    threes = [" ".join(three) for x in split for three in zip(x, x[1:], x[2:], strict=False)]
    assert len(lines) >= 8 and len(threes) >= 50
    lost = [three for three in threes if three not in code]
    assert lost == [], lost


def test_the_tutorial_prints_what_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Block by block; and what it builds plays the matches of examples/connect4.py."""
    monkeypatch.setattr(registry, "_games", dict(registry._games))
    blocks = PYTHON.findall((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert len(blocks) == 9
    names: dict[str, Any] = {"__name__": "tutorial"}
    example: dict[str, Any] = {"__name__": "example"}
    for number, (code, printed) in enumerate(blocks, 1):
        out = io.StringIO()
        with redirect_stdout(out):
            exec(compile(code, f"block {number} of docs/tutorial.md", "exec"), names)  # noqa: S102, the page's own
        assert out.getvalue() == printed, number
    exec((ROOT / "examples" / "connect4.py").read_text(), example)  # noqa: S102
    played = []
    for match in (names["ConnectFour"].as_game(), example["ConnectFour"].as_game()):
        batch = match.make(8, 1, match.Options())
        assert batch.spec == match.spec(match.Options())
        batch.controllers[:] = [(0, 1), (1, 0)] * 4
        batch.reset(5)
        steps = []
        for _ in range(60):
            batch.step()
            steps.append(b"".join(x.tobytes() for x in (batch.obs, batch.reward_terms, batch.result)))
        played.append((batch.spec, steps))
    assert played[0] == played[1]


# Commands that pages show

PARTS = ("docs", "lab", "examples")
SHOWING = sorted([*ROOT.glob("*.md"), *(page for part in PARTS for page in (ROOT / part).rglob("*.md"))])
BEGIN = re.compile(r"^(?: {4,}\S*?; do |\s{4,}|\$ )?(?P<words>league (?=[a-z-]+( |$))|python -m benchmarks\.\w+)")
SPEECH = ("league cannot go back", "league four:")
"""Lines that begin like a command: prose, and what a command prints."""
FEWEST = 140
UNTRIED = ("tutorial.md", "tutorials", "guides", "lab", "experiments.md", "performance.md")
"""Pages whose commands run elsewhere."""
WITHOUT_END = ("league serve", "league play", "league replay runs/brawl-1/failures")
"""Commands that run until somebody ends them, and one that needs a failure."""
PACKAGES = {"gymnasium:": "gymnasium", "openspiel:": "pyspiel"}
FRIENDS = "seat0,seat1,winner\nbot:based,somebody,0\nsomebody,bot:random,draw\n"
NEEDED = {
    "bring": "league train --env game.py --run five-1",
    "report": "league train --league small --run mine",
    "league": "league train --run champion-1 --env matrix; league export champion-1 champion; league train --env kuhn",
}
"""What a page takes for granted, beside runs of brawl."""


def shown(page: Path) -> Iterator[list[str]]:
    """The words of each command that a page shows on lines of its own, without pipes and what follows."""
    lines = iter(page.read_text(encoding="utf-8").splitlines())
    for line in lines:
        if not (found := BEGIN.match(line)) or line.strip().startswith(SPEECH):
            continue
        text = line[found.start("words") :]
        while (words := _split(text)) is None:  # it goes on below
            text = text.removesuffix("\\") + "\n" + next(lines)
        end = next((i for i, word in enumerate(words) if word in ("|", "&", ";", "&&", ">", "done")), len(words))
        yield [re.sub(r"\$(seed|n)\b", "1", word.rstrip(";")) for word in words[:end]]  # of a loop


def _split(text: str) -> list[str] | None:
    if text.endswith("\\"):
        return None
    try:
        return shlex.split(text, comments=True)
    except ValueError:  # a quotation is open
        return None


COMMANDS = [(page, words) for page in SHOWING for words in shown(page)]


@pytest.mark.parametrize("page", sorted({page for page, _ in COMMANDS}), ids=lambda page: page.stem)
def test_the_commands_of_a_page_can_be_given(page: Path, tmp_path: Path) -> None:
    """Each is read as the command line reads it; settings are laid over the defaults, an empty store takes the SQL."""
    assert len(COMMANDS) >= FEWEST
    for words in (words for found, words in COMMANDS if found == page):
        if words[0] == "python":
            module = ROOT.joinpath(*words[2].split("."))
            file = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
            text = file.read_text(encoding="utf-8")
            assert [word for word in words if word.startswith("--") and f'"{word}"' not in text] == [], words
            continue
        given = read_words(words)
        if overrides := given.get("overrides"):
            settings, _ = role_sets(word for word in overrides if "$" not in word)
            is_own = given.get("policy") or given.get("bot") or str(given.get("env")).endswith(".py")
            if not is_own:
                config.load(stage="10m", env=_named(given.get("env")), overrides=settings)
        if sql := given.get("sql"):
            Store.create(tmp_path).query(sql)


def read_words(words: list[str]) -> dict[str, Any]:
    """What a command line of `league` gives its command, by name."""
    command: Any = typer.main.get_command(app)
    rest = words[1:]
    while hasattr(command, "commands"):
        assert rest and rest[0] in command.commands, (words, sorted(command.commands))
        command, rest = command.commands[rest[0]], rest[1:]
    context = command.make_context(words[1], rest)
    return dict(context.params)


def _named(env: object) -> str | None:
    """A game that the settings know by its name."""
    return env if isinstance(env, str) and config.has_game(env) else None


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three short runs of brawl, the examples and the files that pages name."""
    folder = tmp_path_factory.mktemp("shown")
    for name in ("examples", "envs"):
        shutil.copytree(ROOT / name, folder / name)
    for page in ("bring", "ratings"):
        text = (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
        for name, code in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", text, re.S):
            with (folder / name).open("a", encoding="utf-8") as file:
                file.write(code)
    (folder / "friends.csv").write_text(FRIENDS)
    for seed in (1, 2, 3):
        assert run(shortened(f"league train --fresh --seed {seed}"), folder)[0] == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    sorted({page for page, _ in COMMANDS if not {*page.parts} & {*UNTRIED}}),
    ids=lambda page: page.stem,
)
def test_the_other_commands_of_a_page_end_well(page: Path, tmp_path: Path, trained: Path) -> None:
    """One after another, with fewer steps and games, in a folder where three runs of brawl are."""
    folder = shutil.copytree(trained, tmp_path / "shown")
    if page.stem in NEEDED:
        assert run(shortened(NEEDED[page.stem]), folder)[0] == 0
    for words in (words for found, words in COMMANDS if found == page):
        command = shlex.join(words)
        is_in_terminal = words[1] == "watch" and "--out" not in words
        if words[0] == "python" or command.startswith(WITHOUT_END) or is_in_terminal:
            continue
        for page_made in ("report.html", "match.html"):  # by the command before
            (folder / page_made).unlink(missing_ok=True)
        for prefix, package in PACKAGES.items():
            if prefix in command:
                pytest.importorskip(package)
        status, said = run(shortened(command).replace("=6_144", "=8_192"), folder)  # longer than any rollout
        assert status in ((0, 3, 4) if words[1] == "gate" else (0,)), (command, said)
