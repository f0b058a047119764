"""Pages that hold all they need: the files of `page/` put together, under a policy that lets only these run."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

PLAYER = ("draw.js", "player.js")
"""The scripts of a match's player."""
PLAIN_KEYS = {"up": "ArrowUp", "down": "ArrowDown", "left": "ArrowLeft", "right": "ArrowRight", "jump": " "}
"""Key of a game -> key of the keyboard, as browsers call it, where the game names no other."""


def packed(found: Mapping[str, Any]) -> str:
    """A document as a page's script unpacks it: JSON, zlib, base64."""
    data = zlib.compress(json.dumps(found, separators=(",", ":"), allow_nan=False).encode(), 9)
    return base64.b64encode(data).decode()


def filled(
    template: str, scripts: Sequence[str], style: str, *, connects: str = "", body: str = "", **values: str
) -> str:
    """A page of this folder with its scripts, its style and the policy that allows just these.

    connects: where the script may connect to, if anywhere. body: HTML, as it is; values are escaped.
    """
    code, look = _joined(scripts), _part(style)
    policy = f"default-src 'none'; script-src {source_of(code)}; style-src {source_of(look)}; img-src data:"
    policy += f"; connect-src {connects}" if connects else ""
    policy += "; base-uri 'none'; form-action 'none'"
    shown = {name: html.escape(value) for name, value in values.items()}
    return Template(_part(template)).substitute(shown, policy=policy, script=code, style=look, body=body)


def empty_player() -> tuple[str, str]:
    """The player's page without a match, and what a content policy calls its script.

    For pages that show a match within themselves: they put what `packed` gives into its element `match`.
    """
    page = filled("player.html", PLAYER, "player.css", title="a match", data="")
    return page, source_of(_joined(PLAYER))


def source_of(text: str) -> str:
    """What a content policy calls a script or a style that stands in the page: its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _joined(names: Sequence[str]) -> str:
    return "".join(map(_part, names))


def _part(name: str) -> str:
    return resources.files("league.arena").joinpath("page", name).read_text(encoding="utf-8")
