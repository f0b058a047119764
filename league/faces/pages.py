"""The page of report and live view: its parts, and a content policy that lets only these run."""

from __future__ import annotations

import html
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from string import Template

from league.arena.templates import empty_player, source_of
from league.errors import one_line

CHARTS = "uplot"
"""The package that brings uPlot, which draws curves; it is read and not imported."""
BROUGHT = {"uplot.js": "uPlot.iife.js", "uplot.css": "uPlot.min.css"}
"""What a page calls a file of that package."""
SCRIPTS, STYLES = ("uplot.js", "report.js"), ("uplot.css", "report.css")
COMMON = "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
"""The player of a match has a style of its own; scripts are held by their hashes."""


def part(name: str) -> str:
    """A file of `league/faces/page`, or one that is `BROUGHT`."""
    if name not in BROUGHT:
        return resources.files("league.faces").joinpath("page", name).read_text(encoding="utf-8")
    found = find_spec(CHARTS)
    assert found is not None and found.submodule_search_locations, "it is a package, and there"
    return Path(found.submodule_search_locations[0], "static", BROUGHT[name]).read_text(encoding="utf-8")


def page(title: str, summary: str, about: str, *, data: str = "") -> str:
    """The whole page, self-contained with `data` (as `league.arena.templates.packed` has it); live without it.

    The self-contained one has its content policy within itself; that of the live one is `live_policy`.
    """
    player, player_hash = empty_player()
    if data:
        scripts = [part(name) for name in SCRIPTS]
        allowed = " ".join(map(source_of, scripts))
        policy = f"default-src 'none'; script-src {allowed} {player_hash}; {COMMON}"
        head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        head += f"<style>{''.join(map(part, STYLES))}</style>"
        code = "\n".join(f"<script>{script}</script>" for script in scripts)
    else:
        head = "\n".join(f'<link rel="stylesheet" href="{name}">' for name in STYLES)
        code = "\n".join(f'<script src="{name}"></script>' for name in SCRIPTS)
    texts = {"title": one_line(title), "summary": one_line(summary), "about": one_line(about), "player": player}
    shown = {name: html.escape(text) for name, text in texts.items()}
    is_live = "no" if data else "yes"
    return Template(part("report.html")).substitute(shown, is_live=is_live, head=head, code=code, data=data)


def live_policy() -> str:
    """The content policy of the live page: our own address alone, and the player's script by its hash."""
    _, player_hash = empty_player()
    own = COMMON.replace("style-src", "style-src 'self'")
    return f"default-src 'none'; script-src 'self' {player_hash}; connect-src 'self'; frame-ancestors 'none'; {own}"
