"""The pages that are written from the code agree with it."""

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import filter as matching
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

import league
from league import config
from league.cli import app
from league.config.models import SECTIONS
from league.envs.brawl.env import KEYS, MEANINGS, SPEC
from league.envs.cards import env as cards
from league.pool import roster
from tests.helpers.browser import CHROMIUM, DRIVER, browser

ROOT = Path(__file__).resolve().parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "lab").glob("*.md"))]


RIDDLES = re.compile(
    r"\b(whoever|whatever|whichever|(?:is|are|was|were) told|so (?:many|few|much)|one's own|of one's)\b", re.IGNORECASE
)
"""Words that hide a subject or a number; write the noun."""


def _helps(command: Any) -> Iterator[str]:
    """The help of a command and of its options, and of the commands below it."""
    yield command.help or ""
    yield from (getattr(option, "help", "") or "" for option in command.params)
    for below in getattr(command, "commands", {}).values():
        yield from _helps(below)


def test_what_users_read_has_no_riddles() -> None:
    """Pages and help texts say who does what (RIDDLES)."""
    texts = {str(page): page.read_text(encoding="utf-8") for page in PAGES}
    texts |= {text: text for text in _helps(typer.main.get_command(app))}
    assert {where: found[0] for where, text in texts.items() if (found := RIDDLES.search(text))} == {}


def test_the_games_tables_are_those_of_the_code() -> None:
    """docs/brawl.md and docs/cards.md hold what `python docs/tables.py` writes."""
    done = subprocess.run([sys.executable, ROOT / "docs/tables.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_of_brawl_has_a_meaning() -> None:
    """Keys, reward terms, metrics and bots are explained in the spec's order."""
    named = {"keys": KEYS, "reward terms": SPEC.reward_terms, "metrics": SPEC.metrics, "bots": SPEC.bots}
    assert {kind: tuple(texts) for kind, texts in MEANINGS.items()} == named


def test_every_name_of_the_card_duel_has_a_meaning() -> None:
    """Types, reward terms, metrics and bots are explained in the spec's order; an action has as many parts."""
    spec = cards.SPEC
    named = {"types": cards.TYPES, "reward terms": spec.reward_terms, "metrics": spec.metrics, "bots": spec.bots}
    assert {kind: tuple(cards.MEANINGS[kind]) for kind in named} == named
    assert len(cards.MEANINGS["action parts"]) == spec.action.num_parts


def test_every_test_that_a_promise_names_is_there() -> None:
    """The tests that docs/reliability.md puts beside its promises exist; `*` stands for the rest of a name."""
    named = re.findall(r"`(test_\w+\*?)`", (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8"))
    there = {
        name for path in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    there |= {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(named) > 20
    assert [name for name in named if not matching(there, name)] == []


def _anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_link_leads_somewhere() -> None:
    """Files and headings that a page links to exist."""
    lost, found = [], 0
    for page in PAGES:
        for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
            found += 1
            target = (page.parent / path) if path else page
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                lost.append(f"{page.name}: {path}#{anchor}")
    assert found > 30
    assert lost == []


def test_every_page_that_the_code_names_is_there() -> None:
    """Docstrings and pages name pages of docs/ and lab/ by their path from the root."""
    parts = ("league", "envs", "policies", "snapshots", "tests", "benchmarks", "examples")
    files = [path for part in parts for path in (ROOT / part).rglob("*.py")]
    named = {
        name
        for path in [*PAGES, *files]
        for name in re.findall(r"\b(?:docs|lab)/[\w/]+\.md", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 5
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_result_has_a_table_and_its_command() -> None:
    """Each section of the pages of results has one table and, indented, what prints it; their books are linked."""
    for name in ("performance", "experiments"):
        text = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        intro, *sections = re.split(r"^## ", text, flags=re.M)
        assert f"](../lab/{name}.md)" in intro
        measured = [section for section in sections if not section.startswith("Not measured")]
        assert len(measured) >= 5
        for section in measured:
            assert len(re.findall(r"^\|[-|]+\|$", section, re.M)) == 1, section
            assert re.search(r"^    (time |OMP_\S+ )?(league|python|for) ", section, re.M), section


ROOMS = ("league", "envs", "policies", "snapshots")
REPLACED = re.compile(
    r"\b(anew|hand(s|ed|ing)? (out|an agent out)|enter(ing)? gates?|leav(e|ing) gates?)\b|Of everything drawn", re.I
)
"""Words that the glossary has others for: again, exports or chooses, input and output gate, random seed."""


def test_the_glossary_leads_to_files_and_has_each_word_once() -> None:
    """Each row has a word, its meaning, the field's word or nothing, and a file or folder that exists."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("|")]
    rows = [cells for cells in rows if cells[0] != "word" and not cells[0].startswith("---")]
    words = [cells[0] for cells in rows]
    assert 30 < len(words) <= 50 and len(set(words)) == len(words)
    for word, meaning, _, where in rows:
        assert meaning.rstrip(")").endswith("."), word
        assert re.fullmatch(r"`[\w/.]+`", where) and (ROOT / where.strip("`")).exists(), word
    named = " ".join(
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "CONTRIBUTING.md", "docs/design.md")
    )
    assert named.count("glossary.md") >= 3


def test_replaced_words_are_in_no_page_and_no_docstring() -> None:
    """Pages, settings, help texts and the docstrings of public names say what the glossary says."""
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    texts["hyperparameters.toml"] = (ROOT / "league/config/hyperparameters.toml").read_text(encoding="utf-8")
    texts |= {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "league/commands").glob("*.py")}
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, documented) and not getattr(node, "name", "").startswith("_"):
                texts[f"{path.relative_to(ROOT)}: {getattr(node, 'name', '')}"] = ast.get_docstring(node) or ""
    assert len(texts) > 300
    assert {name: found[0] for name, text in texts.items() if (found := REPLACED.search(text))} == {}


def test_pages_are_at_most_100_columns_wide() -> None:
    """Lines end by column 100, so that a terminal and a diff show them whole; tables, links and what a terminal shows
    may be wider."""
    wide = []
    for page in PAGES:
        text = re.sub(r"^```(?:console|text)\n.*?^```", _emptied, page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > 100 and not line.startswith("|") and not re.search(r"\]\(\S+\)", line):
                wide.append(f"{page.name}:{number}")
    assert wide == []


def test_pages_are_short() -> None:
    """What a newcomer reads has at most 35,000 words, tables written from the code aside; design, results, lab less."""

    def words(*paths: Path) -> int:
        texts = [path.read_text(encoding="utf-8") for path in paths]
        return sum(
            len(re.sub(r"<!-- (?!end)[\w ]+ -->\n.*?<!-- end -->", "", text, flags=re.S).split()) for text in texts
        )

    docs = ROOT / "docs"
    assert (
        words(ROOT / "README.md", *(page for page in docs.rglob("*.md") if page.parent.name != "reference")) <= 35_000
    )
    assert words(docs / "design.md") <= 3_000
    assert words(docs / "experiments.md") <= 1_000
    assert words(*(ROOT / "lab").glob("*.md")) <= 10_000


def _emptied(block: re.Match[str]) -> str:
    """As many empty lines."""
    return "\n" * block[0].count("\n")


def test_the_reference_has_every_public_name() -> None:
    """docs/reference/python.md shows each name of the library but its version."""
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: league\.(\w+)$", page, re.M)
    assert [name for name in league.__all__ if not name.startswith("_") and name not in shown] == []


def test_the_site_has_every_page_once() -> None:
    """`nav` of mkdocs.yml lists each page of docs/ and lab/, and those of the root that the site has."""
    listed = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    there = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    books = [f"lab/{page.name}" for page in (ROOT / "lab").glob("*.md")]
    assert sorted(listed) == sorted([*there, *books, "CHANGELOG.md", "CONTRIBUTING.md"])


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    """What `make docs` runs; every setting and command is on it, and pages name no other host but in links to read."""
    pytest.importorskip("zensical", reason="needs the extra `docs`: make docs")
    for part in ("docs", "lab", "league", "envs", "policies", "snapshots", "examples", "benchmarks"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("cli.py", "mkdocs.yml", "CHANGELOG.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    typed = tmp_path / "build" / "typed" / "league"
    shutil.copytree(tmp_path / "league", typed)
    for part in ("envs", "policies", "snapshots", "cli.py"):
        (typed / part).symlink_to(tmp_path / part)
    subprocess.run([sys.executable, "docs/pages.py", "build/pages"], cwd=tmp_path, check=True)
    build = [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})
    said = done.stdout + done.stderr
    assert done.returncode == 0 and "No issues found" in said and "griffe" not in said, said
    site = tmp_path / "build" / "site"
    loaded = re.compile(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=\"(?:https?:)?//[^\"]+")
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert {page.name: found[0] for page in pages if (found := loaded.search(page.read_text(encoding="utf-8")))} == {}
    settings = (site / "reference" / "settings.html").read_text(encoding="utf-8")
    names = [f"{section}.{name}" for section, model in SECTIONS.items() if model for name in model.model_fields]
    assert [name for name in names if name not in settings and name not in ("env.options",)] == []
    commands = (site / "reference" / "commands.html").read_text(encoding="utf-8")
    assert all(f"league {name}" in commands for name in ("train", "bench learner", "snapshots prune", "imports list"))
    assert "tensorboard|wandb|csv" in commands and "\\|" not in commands
    if not (CHROMIUM and DRIVER):
        return
    wide = "return [...document.querySelectorAll('article table')].filter((x) => x.scrollWidth > x.clientWidth).length"
    with browser(1280, 900) as driver:
        for name in ("commands", "settings"):
            driver.get((site / "reference" / f"{name}.html").as_uri())
            assert driver.execute_script("return document.querySelectorAll('article table').length") > 5
            assert driver.execute_script(wide) == 0, f"a table of {name} is wider than the page"


def test_what_the_league_page_has_as_files_can_be_given(tmp_path: Path) -> None:
    """Settings for `--config`, and a league for `--league`."""
    page = (ROOT / "docs" / "league.md").read_text(encoding="utf-8")
    pool, learners = re.findall(r"```toml\n(.*?)```", page, re.S)
    (tmp_path / "pool.toml").write_text(pool)
    (tmp_path / "two.toml").write_text(learners)
    assert config.load(config_file=tmp_path / "pool.toml").pool.group_sampler == "quality"
    assert [learner.name for learner in roster.load(tmp_path / "two.toml").learners] == ["main", "exploiter"]


def test_the_drawing_that_the_page_shows_draws() -> None:
    """Two runners, in groups of their own."""
    page = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
    [code] = re.findall(r"```python\n(.*?)```", page, re.S)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/watching.md", "exec"), names)  # noqa: S102, the page's own
    drawn = names["drawing"](SimpleNamespace(places=(3, 40)))
    assert {shape.group for shape in drawn.shapes} == {"runner 0", "runner 1"}
