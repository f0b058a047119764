"""A custom part out of a file, a module or an installed distribution: its code runs, where that is allowed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from league.arena.code_hash import mark_of
from league.arena.program_parts import locate_program, open_program
from league.envs import entry_points
from league.envs.matches.members import takes
from league.envs.sources import Located, What, load, locate, parse
from league.errors import ConfigError, nearest
from league.play.instances import is_stateful
from league.types.schema import PartSource, is_program

Kind = Literal["bot", "sampler", "policy"]
HOW = "docs/bring.md tells how it is named"
KINDS: dict[Kind, What] = {kind: What(kind, kind, HOW) for kind in ("bot", "sampler", "policy")}
GROUPS: dict[Kind, str] = {"bot": "league.bots", "sampler": "league.samplers", "policy": "league.policies"}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")


@dataclass(frozen=True)
class Part:
    """A custom part in this process."""

    kind: Kind
    name: str
    thing: Any
    """The bot, the sampler, or what makes the policy; a `league.play.programs.Program`."""
    source: PartSource


def open_part(kind: Kind, name: str, found: Located) -> Part:
    """Runs what was located and takes the part out of it; a program runs only when it plays."""
    if found.kind == "scheme":
        word = Path(found.part).stem if found.place != "kaggle" else "kaggle"
        source = PartSource(address=found.source.address, sha256=found.source.sha256, thing=found.place)
        return Part(kind, checked_name(kind, name or name_of(kind, word)), open_program(found), source)
    module = load(found)
    where = found.source.address
    word = found.part or _only(kind, module, where)
    own = {key: x for key, x in vars(module).items() if key[0] != "_" and callable(x)}
    if not hasattr(module, word):
        raise ConfigError(f"{kind}={where}: it has no {word!r}{nearest(word, own)}")
    address = where if found.part else f"{where}:{word}"
    source = PartSource(address=address, version=found.source.version, sha256=found.source.sha256, thing=word)
    thing = checked(kind, getattr(module, word), address)
    return Part(kind, checked_name(kind, name or name_of(kind, word)), thing, source)


def located(kind: Kind, text: str) -> Located | None:
    """What lies at an address; None where it is a name.

    Raises:
        ConfigError: nothing does, or it cannot be an address.
    """
    if kind == "bot" and is_program(text):
        return locate_program(text, KINDS[kind])
    address = parse(text, KINDS[kind])
    return None if address.kind == "name" else locate(address)


def find_offered(kind: Kind, name: str) -> Part | None:
    """What an installed distribution offers under this name."""
    offered = entry_points.load(GROUPS[kind], name)
    if offered is None:
        return None
    thing = checked(kind, offered.found, name)
    source = mark_of(thing)
    told = {"address": name, "version": offered.source.version, "sha256": offered.source.sha256 or source.sha256}
    return Part(kind, name, thing, source.model_copy(update=told))


def _only(kind: Kind, module: ModuleType, where: str) -> str:
    """The one public function or class that a module defines."""
    own = [
        name
        for name, x in vars(module).items()
        if name[0] != "_" and (inspect.isfunction(x) or inspect.isclass(x)) and x.__module__ == module.__name__
    ]
    if len(own) == 1:
        return own[0]
    if not own:
        raise ConfigError(f"{kind}={where}: it defines no function or class; {HOW}")
    raise ConfigError(f"{kind}={where}: it defines several things; add one, :{' or :'.join(sorted(own))}")


def checked(kind: Kind, thing: Any, where: str) -> Callable[..., Any]:
    """`thing`, which can be such a part.

    Raises:
        ConfigError: it cannot.
    """
    forms = {
        "bot": "a bot is a function (observation, legal, rng) -> action, or a class with act(obs, mask, info)",
        "sampler": "a sampler is a function of what is known, which gives one weight a member",
        "policy": "a policy is a function or class (GameSpec, AgentConfig) -> nn.Module",
    }
    is_net = kind == "policy" and not inspect.isclass(thing) and hasattr(thing, "state_dict")
    if is_net or not callable(thing):
        raise ConfigError(f"{kind}={where}: is {shown(thing)}; {forms[kind]} ({HOW})")
    if kind == "bot" and is_stateful(thing):
        return thing  # type: ignore[no-any-return]
    words = {"bot": ("observation", "legal", "rng"), "sampler": ("known",), "policy": ("spec", "agent")}
    if not takes(thing, *words[kind]):
        raise ConfigError(f"{kind}={where}: {shown(thing)} takes {inspect.signature(thing)}; {forms[kind]} ({HOW})")
    return thing  # type: ignore[no-any-return]


def checked_name(kind: Kind, name: str) -> str:
    """`name`, which a part can have.

    Raises:
        ConfigError: it cannot.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(
            f"{kind}={name!r}: a name has letters, digits, '_' and '-', at most 48, a letter or digit first; call it"
            f" otherwise, NAME=ADDRESS"
        )
    return name


def name_of(kind: Kind, thing: str) -> str:
    """What a part is called that was given no name: as its function, or where that has none, as its kind."""
    name = thing.rpartition(".")[2]
    return name if NAME.fullmatch(name) else kind


def file_of(found: Located) -> str:
    """Where a module's file lies, as `league.arena.consent` has it."""
    return str(found.path) if found.kind == "module" else ""


def shown(thing: object) -> str:
    """An object by what it is called, or of what type it is."""
    return str(getattr(thing, "__qualname__", type(thing).__qualname__))
