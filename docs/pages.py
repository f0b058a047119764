"""Lays out the pages of the documentation site for `zensical build`: `python docs/pages.py FOLDER` (`make docs`).

The folder gets the pages of docs/ and of the root, the reference's tables written from the code, and each other file
that a page links to as a page of its own. What GitHub's Markdown reads and Python-Markdown does not is written out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic.fields import FieldInfo

from league import config
from league.cli import app
from league.config.models import SECTIONS
from league.config.written import toml
from league.pool.roles import ROLES

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = ("CHANGELOG.md", "CONTRIBUTING.md", "lab/experiments.md", "lab/performance.md")
"""Pages of the site that are not in docs/, by their path from the root."""
LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)\s]*)?\))")
CODE = re.compile(r"`[^`]+`")
LANGUAGES = {".py": "python", ".toml": "toml"}
ITEM = re.compile(r" *([-*]|\d+\.) ")
SIGNS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below", "multiple_of": "a multiple of"}
UNBOUNDED = 1e12
"""A bound above this one only keeps numbers in their type."""


def lay_out(folder: Path) -> None:
    """Writes every page, picture and style into the folder, which is new afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for name in ELSEWHERE:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shown: set[Path] = set()
    for page in sorted(folder.rglob("*.md")):
        path = page.relative_to(folder)
        source = ROOT / path if str(path) in ELSEWHERE else ROOT / "docs" / path
        text = filled(page.read_text(encoding="utf-8"))
        text = LINK.sub(lambda link, source=source: _linked(link, source, shown), text)
        page.write_text("\n".join(_plain(text.splitlines())) + "\n", encoding="utf-8")
    for source in shown:
        page = folder / _shown_at(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        page.write_text(f"# {source.name}\n\n```{LANGUAGES[source.suffix]}\n{text}```\n", encoding="utf-8")


def _shown_at(source: Path) -> str:
    """The page of the site that shows a file which is no page."""
    return f"files/{source.relative_to(ROOT)}.md"


def _linked(link: re.Match[str], source: Path, shown: set[Path]) -> str:
    """A link of a page, as it is in the site: files that are no pages are noted in `shown`."""
    target = (source.parent / link[2]).resolve()
    if target.is_dir() or not target.exists():
        raise SystemExit(f"{source.relative_to(ROOT)} links to {link[2]}, which is no file")
    if target.suffix in LANGUAGES:
        shown.add(target)
        here = Path(_shown_at(target))
    else:
        here = _in_the_site(target)
    return f"{link[1]}{os.path.relpath(here, _in_the_site(source).parent)}{link[3]}"


def _in_the_site(page: Path) -> Path:
    """Where a page or picture of the checkout lies in the site; outside of it what is neither."""
    path = page.relative_to(ROOT)
    return path if str(path) in ELSEWHERE else Path(os.path.relpath(page, ROOT / "docs"))


def _plain(lines: list[str]) -> Iterator[str]:
    """The lines with an empty one above each list, whose inner lists are indented by four; rows as `_row` has them."""
    is_code, before = False, ""
    for line in lines:
        is_code ^= line.startswith("```")
        if not is_code and ITEM.match(line) and not line.startswith("    "):
            if before.strip() and not ITEM.match(before) and not before.startswith(" "):
                yield ""
            line = " " * (len(line) - len(line.lstrip())) + line
        before = line
        yield line if is_code or not line.startswith("|") else _row(line)


def _row(line: str) -> str:
    """A row of a table: in its first cell each option is code of its own, so that lines break between options alone.

    Code has no escaped `|`: GitHub needs the backslash, Python-Markdown shows it.
    """
    line = CODE.sub(lambda code: code[0].replace("\\|", "|"), line)
    first, bar, others = line.partition(" | ")
    return CODE.sub(lambda code: re.sub(r" (?=\[|--)", "` `", code[0]), first) + bar + others


def _cell(text: str) -> str:
    """Text for a table's cell."""
    return " ".join(text.split()).replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """A Markdown table, or nothing where it has no rows."""
    lines = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *lines]) if lines else ""


def commands() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    return "\n\n".join(part for part in _command("league", typer.main.get_command(app)) if part)


def _command(name: str, command: Any) -> Iterator[str]:
    """A command's section, or the sections of a group's commands."""
    inner: Mapping[str, Any] | None = getattr(command, "commands", None)
    if inner is not None:
        for word in inner:
            yield from _command(f"{name} {word}", inner[word])
        return
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    options = [p for p in command.params if p.opts[0].startswith("-") and not p.hidden]
    named = [(p, _argument(p)) for p in arguments]
    usage = [word if p.required or word.startswith("[") else f"[{word}]" for p, word in named]
    yield f"## {name}"
    yield f"    {' '.join([name, *usage, '[OPTIONS]' if options else '']).strip()}"
    yield command.help or ""
    yield _table(("argument", "meaning"), ((f"`{_argument(p)}`", p.help or "") for p in arguments))
    yield _table(("option", "meaning", "default"), ((_option(p), p.help or "", _default(p.default)) for p in options))


def _argument(argument: Any) -> str:
    """The word for an argument."""
    return str(argument.metavar or argument.name.upper())


def _option(option: Any) -> str:
    """An option as it is written, with the word for its value."""
    names = " / ".join([*option.opts, *option.secondary_opts])
    return f"`{names}`" if option.is_flag else f"`{names} {option.metavar or option.name.upper()}`"


def _default(value: Any) -> str:
    """What an option is where it is not given; nothing for a switch that is off."""
    return "" if value in (None, False, (), []) or callable(value) else f"`{getattr(value, 'value', value)}`"


def settings() -> str:
    """Every setting with what `league train` gives it, its bounds and what it means."""
    chosen = config.to_json(config.load())
    chosen["env"] |= chosen["env"].pop("options")
    chosen["learner"]["target_kl"] = chosen["learner"]["target_kl"] or "off"
    parts = []
    for section, model in SECTIONS.items():
        head = f"## {section}\n\n"
        if model is None:
            parts.append(f"{head}The weight of each reward term of the game; those of brawl are below.")
        else:
            parts.append(f"{head}{model.__doc__}")
        fields = model.model_fields if model else {}
        parts.append(_settings(section, fields, chosen[section]))
    return "\n\n".join(parts)


def roles() -> str:
    """Every figure of a league's roles."""
    chosen = config.role_figures()
    parts = [
        f"### role.{name}\n\n{model.__doc__}\n\n{_settings(f'role.{name}', model.model_fields, chosen[name])}"
        for name, model in ROLES.items()
    ]
    return "\n\n".join(parts)


def _settings(section: str, fields: Mapping[str, FieldInfo], chosen: Mapping[str, Any]) -> str:
    """The table of a section: its fields, and what a game has beside them."""

    def rows() -> Iterator[tuple[str, ...]]:
        for name, value in chosen.items():
            field = fields.get(name)
            meaning = re.sub(r"docs/(\w+\.md)", r"[\1](../\1)", (field.description or "") if field else "")
            yield f"`{section}.{name}`", f"`{toml(value)}`", _bounds(field) if field else "", meaning

    return _table(("setting", "default", "may be", "meaning"), rows())


def _bounds(field: FieldInfo) -> str:
    """What a setting may be: its choices, or its type and its bounds."""
    kind = field.annotation
    if get_origin(kind) is Literal:
        return ", ".join(f"`{toml(choice)}`" for choice in get_args(kind))
    said = [f"{SIGNS[sign]} {bound:,g}" for sign, bound in _marks(field.metadata) if abs(bound) < UNBOUNDED]
    return ", ".join([KINDS.get(kind, ""), *said]).removeprefix(", ")


KINDS: dict[Any, str] = {bool: "`true` or `false`", int: "whole", float: "a number", str: "a word"}


def _marks(metadata: list[Any]) -> Iterator[tuple[str, float]]:
    """The bounds among what pydantic keeps of a field."""
    for mark in metadata:
        for sign in SIGNS:
            if isinstance(bound := getattr(mark, sign, None), (int, float)):
                yield sign, bound


GENERATED: dict[str, Callable[[], str]] = {"commands": commands, "settings": settings, "roles": roles}
"""What is written where a page has `<!-- NAME, written by docs/pages.py -->`."""


def filled(page: str) -> str:
    """The page with what is generated of it."""
    return re.sub(r"<!-- (\w+), written by docs/pages.py -->", lambda mark: GENERATED[mark[1]](), page)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]))
