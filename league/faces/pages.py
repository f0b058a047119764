"""The page of report and live view: its parts, and a content policy that lets only these run."""

from __future__ import annotations

from importlib import resources
from importlib.util import find_spec

from league.arena.templates import empty_player, source_of
from league.errors import UsageError, one_line

NEEDED = {"report": ("plotly", "jinja2"), "serve": ("plotly", "jinja2", "starlette", "uvicorn")}
"""Command -> the packages that it needs beside the library's."""
STYLE = "'unsafe-inline'"
"""Plotly makes its style sheet as it draws, and styles texts by attributes; scripts are held by their hashes."""
COMMON = f"style-src {STYLE}; img-src data: blob:; base-uri 'none'; form-action 'none'"


def need(name: str) -> None:
    """Refuses a command whose packages are missing.

    Raises:
        UsageError: one is.
    """
    missing = [package for package in NEEDED[name] if find_spec(package) is None]
    if missing:
        raise UsageError(f"league {name} needs {' and '.join(missing)}; run pip install 'league-engine[{name}]'")


def plotly_script() -> str:
    """Plotly's JavaScript, which its Python package brings: what we draw with it evaluates no text as code."""
    return resources.files("plotly").joinpath("package_data", "plotly.min.js").read_text(encoding="utf-8")


def part(name: str) -> str:
    """A file of `league/faces/page`."""
    return resources.files("league.faces").joinpath("page", name).read_text(encoding="utf-8")


def page(title: str, summary: str, about: str, *, data: str = "") -> str:
    """The whole page, self-contained with `data` (as `league.arena.pages.packed` has it); live without it.

    The self-contained one has its content policy within itself; that of the live one is `live_policy`.
    """
    from jinja2 import Environment
    from markupsafe import Markup

    player, player_hash = empty_player()
    scripts, policy, style = ["plotly.js", "report.js"], "", ""
    if data:
        scripts, style = [plotly_script(), part("report.js")], part("report.css")
        allowed = " ".join(source_of(code) for code in scripts)
        policy = f"default-src 'none'; script-src {allowed} {player_hash}; {COMMON}"
    template = Environment(autoescape=True).from_string(part("report.html"))
    return template.render(
        title=title,
        summary=one_line(summary),
        about=one_line(about),
        is_live=not data,
        policy=Markup(policy),
        style=Markup(style),
        scripts=[Markup(script) for script in scripts],
        player=player,
        data=data,
    )


def live_policy() -> str:
    """The content policy of the live page: our own address alone, and the player's script by its hash."""
    _, player_hash = empty_player()
    own = COMMON.replace(STYLE, f"'self' {STYLE}")
    return f"default-src 'none'; script-src 'self' {player_hash}; connect-src 'self'; frame-ancestors 'none'; {own}"
