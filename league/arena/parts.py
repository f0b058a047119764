"""The door for custom parts: bots in Python, samplers and policies, by address, entry point or as objects.

A file's code or a module's runs only where this user names it (`enter`) or has named it with this hash (`find_part`).
What a store or a manifest says is only looked up in that list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from league.arena import consent
from league.arena.code_hash import mark_of
from league.arena.consent import spelt
from league.arena.loading import (
    GROUPS,
    HOW,
    KINDS,
    Kind,
    Part,
    checked,
    checked_name,
    file_of,
    find_offered,
    located,
    name_of,
    open_part,
    shown,
)
from league.config.models import OURS, Config, PartsConfig, mix_members
from league.envs import entry_points, registry
from league.envs.sources import GoneError
from league.errors import ConfigError, UsageError, nearest, plain
from league.pool import samplers
from league.types import BOT_PREFIX, Source
from league.types.schema import PartSource, is_program

Say = Callable[[str], None]
TABLES: dict[Kind, str] = {"bot": "bots", "sampler": "samplers", "policy": "policies"}
"""What they are called together in `Config.parts`."""
SETTINGS: dict[Kind, str] = {"sampler": "pool.sampler", "policy": "agent.policy"}
"""Which a run has one of."""


@dataclass(frozen=True)
class Given:
    """The parts that a call names."""

    parts: tuple[Part, ...] = ()

    @property
    def sets(self) -> list[str]:
        """The settings by which a run has them, as `--set` takes them."""
        names = {kind: [part.name for part in self.parts if part.kind == kind] for kind in KINDS}
        sets = [f"pool.bots={json.dumps(names['bot'])}"] if names["bot"] else []
        for kind, setting in SETTINGS.items():
            if len(names[kind]) > 1:
                both = " and ".join(names[kind])
                raise UsageError(f"{kind}: a run has one, and {both} are named; leave out all but one")
            sets += [f"{setting}={json.dumps(name)}" for name in names[kind]]
        return sets

    def need_in(self, names: Sequence[str], bots: object) -> None:
        """Refuses a bot that is none of the agents which play; `bots` as a mapping may name others as well."""
        if isinstance(bots, Mapping):
            return
        if idle := [part.name for part in self.parts if part.kind == "bot" and BOT_PREFIX + part.name not in names]:
            raise UsageError(f"bot={idle[0]}: bot:{idle[0]} is not among {', '.join(names)}, which play; leave it out")

    def find(self, kind: Kind, name: str) -> Part | None:
        """The part of that name."""
        return next((part for part in self.parts if (part.kind, part.name) == (kind, name)), None)


_known: dict[tuple[Kind, str], list[Part]] = {}
"""All that this process has, by name, the latest last."""


def enter(bots: object = None, sampler: object = None, policy: object = None, say: Say | None = None) -> Given:
    """What a call names, found and loaded; it is known by its name from then on.

    Code of files and modules runs, which is remembered: this user has named it.

    Args:
        bots, sampler, policy: each an address (docs/bring.md), NAME=ADDRESS, the name of an installed one, an object
            (a function, a class), several of these, or a mapping of names to them.
        say: receives a line if something cannot be remembered.

    Raises:
        CodeError: its code raises something.
        ConfigError: there is no such part, or it is none.
    """
    things_given: dict[Kind, object] = {"bot": bots, "sampler": sampler, "policy": policy}
    parts: list[Part] = []
    for kind, things in things_given.items():
        for name, thing in _each(things):
            part = _enter(kind, name, thing, say)
            if any((part.kind, part.name) == (other.kind, other.name) for other in parts):
                raise ConfigError(f"{kind}={part.name}: two of that name are given; call one otherwise, NAME=ADDRESS")
            parts.append(part)
    return Given(tuple(parts))


def resolved(config: Config) -> Config:
    """The settings with all custom parts that they name, and the bots that the game carries, in `parts`.

    Raises:
        ConfigError: one is not known here, or a bot has the name of a native one.
    """
    game, native = config.env.name, registry.spec(config.env.name, config.env.options).bots
    carried = registry.carried_bots(game)
    for name in (*config.pool.bots, *carried):
        if name in native:
            raise ConfigError(f"bot={name}: {game} has a bot of that name itself; call yours otherwise, NAME=ADDRESS")
    met = [name.removeprefix(BOT_PREFIX) for name in mix_members(config.pool) if name.startswith(BOT_PREFIX)]
    names: dict[Kind, list[str]] = {
        "bot": [name for name in (*config.pool.bots, *met, *carried) if name not in native],
        "sampler": [name for name in (config.pool.sampler, config.pool.group_sampler) if name not in OURS],
        "policy": [config.agent.policy] if config.agent.policy else [],
    }
    found = {
        TABLES[kind]: {
            name: _current(kind, name, game, _setting(kind, name, config)).source for name in dict.fromkeys(own)
        }
        for kind, own in names.items()
    }
    return config.model_copy(update={"parts": PartsConfig.model_validate(found)})


def find_again(config: Config, whose: str, given: Given, say: Say | None = None) -> tuple[Config, str]:
    """The parts of a run, found as they are now.

    Args:
        config: the run's.
        whose: the run, for errors.
        given: what the user names now, if anything.
        say: hears of what has changed.

    Returns:
        The settings with what was found, and a sentence of what is not as it was then; empty where all is.

    Raises:
        UsageError: one is gone, has changed since this user named it, or was never named here; or something is named
            that the run does not have.
    """
    then = config.parts.model_dump()
    for part in given.parts:
        if part.name not in then[TABLES[part.kind]]:
            raise UsageError(
                f"{part.kind}={part.name}: {whose} has no {part.kind} of that name"
                f"{nearest(part.name, then[TABLES[part.kind]])}"
            )
    told: list[str] = []
    found: dict[str, dict[str, PartSource]] = {table: {} for table in TABLES.values()}
    for kind, table in TABLES.items():
        for name, source in getattr(config.parts, table).items():
            part = given.find(kind, name) or find_part(kind, name, source, whose, game=config.env.name)
            found[table][name] = part.source
            told += [line for line in [difference(part, source, f"{whose} began with")] if line]
    if say is not None and told:
        say("; ".join(told))
    return config.model_copy(update={"parts": PartsConfig.model_validate(found)}), "; ".join(told)


def find_part(kind: Kind, name: str, then: PartSource, whose: str, given: Given = Given(), game: str = "") -> Part:
    """A part of a run or an agent, as it is now.

    Args:
        kind, name: which.
        then: where it came from.
        whose: the run or agent, for errors.
        given: what the user names now; another one of the name is taken where this very code is not known here.
        game: of the run; it may carry a bot itself.

    Raises:
        UsageError: it is gone, has changed since this user named it, or was never named here.
    """
    known = _known.get((kind, name), [])
    same = [part for part in known if (part.source.sha256, part.source.thing) == (then.sha256, then.thing)]
    now = next(iter(reversed(same)), None) or given.find(kind, name) or _carried(kind, name, game)
    if now is None and then.address:
        now = _open_named(kind, name, then, whose, is_needed=not known)
    now = now or next(iter(reversed(known)), None)
    if now is None:
        raise UsageError(
            f"{whose}: its {kind} {spelt(name)} came as an object in Python and is not known in this process; name it"
            f" again with --{kind} {plain(name)}=ADDRESS, or {TABLES[kind] if kind == 'bot' else kind}= in Python"
        )
    _use(now)
    return now


def difference(now: Part, then: PartSource, since: str) -> str:
    """What of a part is not as it was when it came from `then`, in a sentence; empty where all is.

    since: what was done with it then, such as "run r began with".
    """
    words = f"{now.kind} {spelt(now.name)}"
    if (now.source.sha256, now.source.thing) != (then.sha256, then.thing):
        where = spelt(now.source.address or now.source.thing)
        marks = f"sha256 {then.sha256[:12]}, now {now.source.sha256[:12]}"
        return f"{words}: {where} is not what {since} ({marks})"
    if then.address and now.source.address and now.source.address != then.address:
        return f"{words}: it came from {spelt(then.address)} and now comes from {spelt(now.source.address)}, unchanged"
    return ""


def bot_of(name: str, game: str) -> Part | None:
    """The bot in Python called `name` that this process has, the game carries or a distribution offers."""
    try:
        return _current("bot", name, game)
    except ConfigError:
        if name in entry_points.names(GROUPS["bot"]):
            raise
        return None


def thing_of(kind: Kind, name: str, source: PartSource) -> Any:
    """What was found as this part before: by `resolved`, `find_again` or `find_part`."""
    for part in reversed(_known[kind, name]):
        if part.source == source:
            return part.thing
    raise KeyError(name)


def unmet(config: Config) -> str:
    """A sentence about bots in Python that no training match meets; empty where there are none."""
    met = mix_members(config.pool)
    names = [name for name in config.pool.bots if BOT_PREFIX + name not in met]
    if not names:
        return ""
    shown = ", ".join(BOT_PREFIX + name for name in names)
    return f"{shown}: met in evaluations only; to train against one, give it a share of pool.mix"


def unpromised(config: Config) -> str:
    """A sentence about programs that training meets, as which a run cannot be repeated bit for bit; empty: none."""
    met = mix_members(config.pool)
    names = [BOT_PREFIX + name for name, source in config.parts.bots.items() if is_program(source.address)]
    shown = ", ".join(name for name in names if name in met)
    return f"{shown}: what programs answer is outside of the bit-for-bit promise" if shown else ""


def words_for(config: Config) -> list[str]:
    """The words of a command line that name a run's parts again."""
    return [
        word
        for kind, table in TABLES.items()
        for name, source in getattr(config.parts, table).items()
        if source.address
        for word in (f"--{kind}", f"{name}={source.address}")
    ]


def _each(given: object) -> list[tuple[str, object]]:
    """What is given, each with its name or without one."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [(str(name), thing) for name, thing in given.items()]
    if isinstance(given, Sequence) and not isinstance(given, str):
        return [("", thing) for thing in given]
    return [("", given)]


def _enter(kind: Kind, name: str, given: object, say: Say | None) -> Part:
    if not isinstance(given, str):
        thing = checked(kind, given, name or shown(given))
        source = mark_of(thing)
        return _use(Part(kind, checked_name(kind, name or name_of(kind, source.thing)), thing, source))
    before, equals, address_text = given.partition("=")
    if equals and "/" not in before and not name:  # a path with = in it begins with ./
        name, given = checked_name(kind, before), address_text
    found = located(kind, given)
    if found is None:
        known = _known.get((kind, given), [])
        part = known[-1] if known else find_offered(kind, given)
        if part is None:
            offered = [*entry_points.names(GROUPS[kind]), *(own for k, own in _known if k == kind)]
            hint = nearest(given, offered) if offered else f"; give FILE.py:NAME or MODULE:NAME ({HOW})"
            raise ConfigError(f"{kind}={given!r}: no installed {kind} is called so{hint}")
        return _use(Part(kind, checked_name(kind, name or given), part.thing, part.source))
    part = _use(open_part(kind, name, found))
    told = consent.remember("", _as_source(part.source), file_of(found), kind)
    if told and say is not None:
        say(told)
    return part


def _open_named(kind: Kind, name: str, then: PartSource, whose: str, *, is_needed: bool) -> Part | None:
    """Opens the part of a run or an agent, if this user has named it as it is now, or it is installed.

    is_needed: what is gone or not named is refused; else it gives None.

    Raises:
        UsageError: he has not, or it is gone.
    """
    shown, again = spelt(then.address), f"pass --{kind} {plain(name)}={spelt(then.address)}"
    try:
        found = located(kind, then.address)
        if found is None:
            offered = find_offered(kind, then.address)
            if offered is None and is_needed:
                raise UsageError(
                    f"{whose}: its {kind} {spelt(name)} is not installed here; install what brings {shown}, or pass"
                    f" --{kind} {plain(name)}=ADDRESS"
                )
            return None if offered is None else Part(kind, name, offered.thing, offered.source)
    except GoneError:
        if not is_needed:
            return None
        raise UsageError(
            f"{whose}: its {kind} {spelt(name)} came from {shown}, which is gone; put it back, or pass --{kind}"
            f" {plain(name)}= with where it is now"
        ) from None
    except ConfigError as error:
        raise UsageError(
            f"{whose}: its {kind} {spelt(name)} came from {shown}, which cannot be used: {error}"
        ) from None
    if consent.is_named("", found.source, file_of(found), kind):
        return _use(open_part(kind, name, found))
    if not is_needed:
        return None
    reason = consent.refusal(found.source, kind)
    raise UsageError(f"{whose}: its {kind} {spelt(name)} comes from {shown}, which {reason} {again}")


def _setting(kind: Kind, name: str, config: Config) -> str:
    """The setting that names a part, with its value."""
    pool, bot = config.pool, BOT_PREFIX + name
    if kind == "sampler":
        return f"pool.{'sampler' if pool.sampler == name else 'group_sampler'}={name!r}"
    if kind == "policy":
        return f"agent.policy={name!r}"
    if bot in pool.mix:
        return f"pool.mix.{bot}={pool.mix[bot]:g}"
    return next(
        (f"pool.groups.{group} lists {bot}" for group, x in pool.groups.items() if bot in x), f"pool.bots: {bot}"
    )


def _current(kind: Kind, name: str, game: str, setting: str = "") -> Part:
    """The part that a setting names now.

    Raises:
        ConfigError: none is known here.
    """
    known = _known.get((kind, name), [])
    part = known[-1] if known else _carried(kind, name, game) or find_offered(kind, name)
    if part is None and kind == "sampler" and (own := samplers.registered(name)) is not None:
        part = Part(kind, name, own, mark_of(own))
    if part is not None:
        return _use(part)
    offered = [*entry_points.names(GROUPS[kind]), *(own for k, own in _known if k == kind)]
    rule = f"{game} has no such bot" if kind == "bot" else f"is no {kind} that is known here"
    word = name
    if kind == "bot":
        word, offered = BOT_PREFIX + name, [BOT_PREFIX + own for own in (*offered, *registry.spec(game, {}).bots)]
    raise ConfigError(
        f"{setting}: {rule} (one of your own is named by --{kind} {name}=FILE.py:NAME)"
        f"{nearest(word, offered) if offered else ''}"
    )


def _carried(kind: Kind, name: str, game: str) -> Part | None:
    """A bot that a game's module carries."""
    if kind != "bot" or not game or not registry.is_known(game):
        return None
    thing = registry.carried_bots(game).get(name)
    if thing is None:
        return None
    source = mark_of(checked(kind, thing, name))
    return Part(kind, checked_name(kind, name), thing, source.model_copy(update={"address": ""}))


def _use(part: Part) -> Part:
    """Makes a part the one of its name."""
    known = _known.setdefault((part.kind, part.name), [])
    known[:] = [*(other for other in known if other.source != part.source), part]
    if part.kind == "sampler":
        if part.name in OURS:
            raise ConfigError(
                f"sampler={part.name}: the library has one of that name; call yours otherwise, NAME=ADDRESS"
            )
        samplers.register(part.name, part.thing, replaces=True)
    return part


def _as_source(source: PartSource) -> Source:
    return Source(source.address, source.version, source.sha256)
