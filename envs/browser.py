"""Games whose rules there are in JavaScript, too, for a page without a server (`league export --format page`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class BrowserRules:
    """A game's rules for `static.js`: modules with `open(data)`, the one that the page opens first."""

    scripts: tuple[str, ...]
    package: str
    words: str
    """About the game, on the page."""
    by_seed: bool
    """Whether a match begins by its seed; else by the seat of the first player, the last number of an observation."""
    data: dict[str, Any] = field(default_factory=dict)

    def read(self) -> dict[str, bytes]:
        """File -> content."""
        folder = resources.files(self.package)
        return {name: folder.joinpath(name).read_bytes() for name in self.scripts}


GAMES = ("brawl", "openspiel:connect_four")
"""Those that have them, as users name them."""


def browser_rules(name: str, options: Mapping[str, Any]) -> BrowserRules | None:
    """The rules of a registered game with these options; None where there are none for a browser."""
    if name == "brawl":
        return BrowserRules(
            ("brawl.js", "brawl_frame.js"), "league.envs.brawl", "brawl, in this browser alone", True, _brawl(options)
        )
    if name == "openspiel-connect_four":
        return BrowserRules(("connect_four.js",), "league.envs.adapters", "connect four: click a column", False)
    return None


def _brawl(options: Mapping[str, Any]) -> dict[str, Any]:
    """Brawl's numbers, as `brawl.js` reads them."""
    from league.envs.brawl import env, moves

    return {
        "rules": asdict(env.rules_of(env.Options(**options))),
        "strikes": [asdict(strike) for strike in moves.STRIKES],
        "starts": [[moves.IDS[f"{weapon}.{kind}"] for kind in moves.KINDS] for weapon in moves.WEAPONS],
        "taunt": moves.IDS[moves.TAUNT],
        "keys": env.KEYS,
        "keyboard": env.KEYBOARD,
    }
