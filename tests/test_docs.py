"""The pages that are written from the code agree with it, and say what they say in plain words."""

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
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "lab").glob("*.md"))]
TEXTS = {str(page.relative_to(ROOT)): page.read_text(encoding="utf-8") for page in PAGES}
CODE = [path for part in ("league", "envs", "policies", "snapshots") for path in (ROOT / part).rglob("*.py")]
LEAGUE_PAGES = ("league", "tutorials/league")
RIDDLES = re.compile(
    r"\b(whoever|whatever|whichever|(?:is|are|was|were) told|so (?:many|few|much)|one's own|of one's)\b", re.IGNORECASE
)
"""Words that hide a subject or a number; write the noun."""
REPLACED = re.compile(
    r"\b(anew|hand(s|ed|ing)? (out|an agent out)|enter(ing)? gates?|leav(e|ing) gates?)\b|Of everything drawn", re.I
)
"""Words that the glossary has others for: again, exports or chooses, input and output gate, random seed."""


def _helps(command: Any) -> Iterator[str]:
    """The help of a command and of its options, and of the commands below it."""
    yield command.help or ""
    yield from (getattr(option, "help", "") or "" for option in command.params)
    for below in getattr(command, "commands", {}).values():
        yield from _helps(below)


def test_what_users_read_has_no_riddles_and_the_glossarys_words() -> None:
    """Pages, settings, help texts and the docstrings of public names."""
    helps = {text: text for text in _helps(typer.main.get_command(app))}
    read = TEXTS | helps
    assert {where: found[0] for where, text in read.items() if (found := RIDDLES.search(text))} == {}
    read["hyperparameters.toml"] = (ROOT / "league/config/hyperparameters.toml").read_text(encoding="utf-8")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for path in CODE:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, documented) and not getattr(node, "name", "").startswith("_"):
                read[f"{path}: {getattr(node, 'name', '')}"] = ast.get_docstring(node) or ""
    assert len(read) > 300
    assert {where: found[0] for where, text in read.items() if (found := REPLACED.search(text))} == {}


def test_the_games_tables_are_those_of_the_code() -> None:
    """docs/brawl.md and docs/cards.md hold what `python docs/tables.py` writes."""
    done = subprocess.run([sys.executable, DOCS / "tables.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_name_of_a_game_has_a_meaning() -> None:
    """Keys or types, reward terms, metrics and bots are explained in the spec's order; an action has as many parts."""
    for spec, meanings, own in ((SPEC, MEANINGS, {"keys": KEYS}), (cards.SPEC, cards.MEANINGS, {"types": cards.TYPES})):
        named = {**own, "reward terms": spec.reward_terms, "metrics": spec.metrics, "bots": spec.bots}
        assert {kind: tuple(meanings[kind]) for kind in named} == named
    assert len(cards.MEANINGS["action parts"]) == cards.SPEC.action.num_parts


def test_every_test_that_a_promise_names_is_there() -> None:
    """The tests that docs/reliability.md puts beside its promises exist; `*` stands for the rest of a name."""
    named = re.findall(r"`(test_\w+\*?)`", TEXTS["docs/reliability.md"])
    files = list((ROOT / "tests").rglob("test_*.py"))
    there = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}
    there |= {path.stem for path in files}
    assert len(named) > 20
    assert [name for name in named if not matching(there, name)] == []


def _anchors(page: Path) -> set[str]:
    """The names that GitHub gives to a page's headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_link_and_page_that_is_named_is_there() -> None:
    """Files and headings that a page links to, and pages that code and pages name by their path from the root."""
    lost, found, named = [], 0, set()
    for page in PAGES:
        for path, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
            found += 1
            target = (page.parent / path) if path else page
            if not target.exists() or (anchor and anchor not in _anchors(target)):
                lost.append(f"{page.name}: {path}#{anchor}")
    assert found > 30 and lost == []
    more = [path for part in ("tests", "benchmarks", "examples") for path in (ROOT / part).rglob("*.py")]
    for path in [*PAGES, *CODE, *more]:
        named |= set(re.findall(r"\b(?:docs|lab)/[\w/]+\.md", path.read_text(encoding="utf-8")))
    assert len(named) > 5 and [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_result_has_a_table_and_its_command() -> None:
    """Each section of the pages of results has one table and, indented, what prints it; their books are linked."""
    for name in ("performance", "experiments"):
        intro, *sections = re.split(r"^## ", TEXTS[f"docs/{name}.md"], flags=re.M)
        assert f"](../lab/{name}.md)" in intro
        measured = [section for section in sections if not section.startswith("Not measured")]
        assert len(measured) >= 5
        for section in measured:
            assert len(re.findall(r"^\|[-|]+\|$", section, re.M)) == 1, section
            assert re.search(r"^    (time |OMP_\S+ )?(league|python|for) ", section, re.M), section


def test_the_glossary_leads_to_files_and_has_each_word_once() -> None:
    """Each row has a word, its meaning, the field's word or nothing, and a file or folder that exists."""
    rows = [
        [x.strip() for x in line.split("|")[1:-1]] for line in TEXTS["docs/glossary.md"].splitlines() if "|" in line
    ]
    rows = [cells for cells in rows if cells and cells[0] != "word" and not cells[0].startswith("---")]
    assert 30 < len(rows) <= 50 and len({cells[0] for cells in rows}) == len(rows)
    for word, meaning, _, where in rows:
        assert meaning.rstrip(")").endswith("."), word
        assert re.fullmatch(r"`[\w/.]+`", where) and (ROOT / where.strip("`")).exists(), word
    assert all("glossary.md" in TEXTS[name] for name in ("README.md", "CONTRIBUTING.md", "docs/design.md"))


def test_pages_are_at_most_100_columns_wide() -> None:
    """Lines end by column 100, so that a terminal and a diff show them whole; tables, links and what a terminal shows
    may be wider."""
    wide = []
    for name, text in TEXTS.items():
        shown = re.sub(r"^```(?:console|text)\n.*?^```", lambda x: "\n" * x[0].count("\n"), text, flags=re.M | re.S)
        for number, line in enumerate(shown.splitlines(), start=1):
            if len(line) > 100 and not line.startswith("|") and not re.search(r"\]\(\S+\)", line):
                wide.append(f"{name}:{number}")
    assert wide == []


def test_pages_are_short() -> None:
    """What a newcomer reads has at most 35,000 words, tables written from the code aside; design, results, lab less."""

    def words(pattern: str) -> int:
        tables = r"<!-- (?!end)[\w ]+ -->\n.*?<!-- end -->"
        texts = [text for name, text in TEXTS.items() if re.fullmatch(pattern, name)]
        return sum(len(re.sub(tables, "", text, flags=re.S).split()) for text in texts)

    assert 0 < words(r"README\.md|docs/(?!reference/).*") <= 35_000
    assert 0 < words(r"docs/design\.md") <= 3_000 and 0 < words(r"docs/experiments\.md") <= 1_000
    assert 0 < words(r"lab/.*") <= 10_000


def test_the_site_and_the_reference_have_everything_once() -> None:
    """`nav` of mkdocs.yml lists each page; docs/reference/python.md shows each name of the library but its version."""
    listed = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.M)
    there = [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")]
    books = [f"lab/{page.name}" for page in (ROOT / "lab").glob("*.md")]
    assert sorted(listed) == sorted([*there, *books, "CHANGELOG.md", "CONTRIBUTING.md"])
    shown = re.findall(r"^::: league\.(\w+)$", TEXTS["docs/reference/python.md"], re.M)
    assert [name for name in league.__all__ if not name.startswith("_") and name not in shown] == []


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
    pages = {page.name: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert len(list(site.rglob("*.html"))) > 30
    assert {name: found[0] for name, text in pages.items() if (found := loaded.search(text))} == {}
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


def test_what_pages_have_as_files_and_drawings_can_be_given(tmp_path: Path) -> None:
    """Settings for `--config`, a league for `--league`, and two runners in groups of their own."""
    [pool], [learners] = (re.findall(r"```toml\n(.*?)```", TEXTS[f"docs/{page}.md"], re.S) for page in LEAGUE_PAGES)
    (tmp_path / "pool.toml").write_text(pool)
    (tmp_path / "two.toml").write_text(learners)
    assert config.load(config_file=tmp_path / "pool.toml").pool.group_sampler == "quality"
    assert [learner.name for learner in roster.load(tmp_path / "two.toml").learners] == ["main", "exploiter"]
    [code] = re.findall(r"```python\n(.*?)```", TEXTS["docs/watching.md"], re.S)
    names: dict[str, Any] = {}
    exec(compile(code, "docs/watching.md", "exec"), names)  # noqa: S102, the page's own
    drawn = names["drawing"](SimpleNamespace(places=(3, 40)))
    assert {shape.group for shape in drawn.shapes} == {"runner 0", "runner 1"}
