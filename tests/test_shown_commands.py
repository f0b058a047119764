"""Every command that a page shows can be given: it takes the arguments, options, settings and SQL that stand there.

All are read. `tests/test_pages.py` runs those of tutorials and guides, the slow test here those of the other pages, but
for the pages of results: what they show takes minutes to hours, and the tests of `benchmarks/` try it.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from league import config
from league.cli import app
from league.config import role_sets
from league.store.store import Store
from tests.test_pages import run, shortened

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("docs", "lab", "examples")
PAGES = sorted([*ROOT.glob("*.md"), *(page for part in PARTS for page in (ROOT / part).rglob("*.md"))])
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


COMMANDS = [(page, words) for page in PAGES for words in shown(page)]


def test_most_pages_show_commands() -> None:
    """The reader of this test finds them."""
    assert len(COMMANDS) >= FEWEST and len({page for page, _ in COMMANDS}) >= 20


@pytest.mark.parametrize("page", sorted({page for page, _ in COMMANDS}), ids=lambda page: page.stem)
def test_the_commands_of_a_page_can_be_given(page: Path, tmp_path: Path) -> None:
    """Each is read as the command line reads it; settings are laid over the defaults, an empty store takes the SQL."""
    for words in (words for found, words in COMMANDS if found == page):
        if words[0] == "python":
            module = ROOT.joinpath(*words[2].split("."))
            file = module / "__main__.py" if module.is_dir() else module.with_suffix(".py")
            text = file.read_text(encoding="utf-8")
            assert [word for word in words if word.startswith("--") and f'"{word}"' not in text] == [], words
            continue
        given = _read(words)
        if overrides := given.get("overrides"):
            settings, _ = role_sets(word for word in overrides if "$" not in word)
            is_own = given.get("policy") or given.get("bot") or str(given.get("env")).endswith(".py")
            if not is_own:
                config.load(stage="10m", env=_named(given.get("env")), overrides=settings)
        if sql := given.get("sql"):
            Store.create(tmp_path).query(sql)


def _read(words: list[str]) -> dict[str, Any]:
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
def test_the_commands_of_a_page_end_well(page: Path, tmp_path: Path, trained: Path) -> None:
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
