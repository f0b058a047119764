"""The door: a game by its address, found again for a run or an agent, and its settings.

A file's code, a module's or a scheme's runs only where this user names it (`enter`) or has named it with this hash
(`find_again`). What a store or a manifest says is only looked up in that list.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from types import ModuleType

from league import config as settings
from league.arena import consent, curriculum
from league.arena.consent import spelt
from league.arena.fitting import check_mix, default_layer, describe
from league.config import Layer, updates
from league.config.models import Config
from league.envs import adapters, registry
from league.envs.loading import open_game
from league.envs.sources import GoneError, Located, address_of, locate, parse
from league.errors import ConfigError, LeagueError, UsageError, one_line, plain, rule_of
from league.types import Source

Say = Callable[[str], None]


def enter(env: object, say: Say | None = None) -> str | None:
    """The name of the game that `env` is or addresses; it is registered from then on. None gives None.

    Its code runs, which is remembered: this user has named it.

    Args:
        env: a registered name, an address (docs/bring.md), or a game: a module, a class or an object.
        say: receives a line if it cannot be remembered.

    Raises:
        CodeError: its code raises something.
        ConfigError: there is no such game, or it is none.
    """
    if env is None:
        return None
    env = str(env) if isinstance(env, Path) else env
    if not isinstance(env, str):
        return _enter_object(env, say)
    if registry.is_known(env):
        _check_defaults(env, env)
        return env
    address = parse(env)
    if address.kind == "name":
        if hint := _hint(env):
            raise ConfigError(f"env={env!r} is not a registered game; you named it before as {hint}: pass --env {hint}")
        for file in (f"{env}.py", f"{env}/__init__.py"):
            if Path(file).is_file():
                raise ConfigError(f"env={env!r} is not a registered game; a file is named by its path: --env {file}")
        registry.options_model(env)  # says that there is none
    found = locate(address)
    name = _open(found)
    _remember(name, found, say)
    return name


def need_game(game: object) -> str:
    """As `enter`, where a game is needed.

    Raises:
        UsageError: it is None.
    """
    name = enter(game)
    if name is None:
        raise UsageError("game=None: a game is needed; pass its name, its address or its class")
    return name


def _enter_object(env: object, say: Say | None) -> str:
    """As `enter`, of a module, a class or an object: one that lies in a file is the game of that file's address."""
    address, scheme = address_of(env), adapters.scheme_of(env)
    home = env if inspect.ismodule(env) else sys.modules.get(str(getattr(env, "__module__", "")))
    if scheme and inspect.isclass(env):
        if address:
            name = enter(f"{scheme}:{address}", say)
            assert name is not None, "only None has no name"
            return name
        alone = ModuleType(env.__module__)
        setattr(alone, env.__name__, env)
        return registry.adopt(adapters.open_game(scheme, env.__name__, alone), _shown(env))
    found = locate(parse(address)) if address and parse(address).kind != "name" else None  # a package has no dot
    source = None if found is None else found.source
    carrier = None if home is env else home
    name = registry.adopt(env, _shown(env), source, carrier, partial(_check_defaults, where=_shown(env)))
    if found is not None:
        _remember(name, found, say)
    return name


def _remember(name: str, found: Located, say: Say | None) -> None:
    told = consent.remember(name, found.source, _file_of(found))
    if told and say is not None:
        say(told)


def find_again(name: str, then: Source, whose: str, env: object = None, say: Say | None = None) -> str:
    """Makes sure that the game of a run or an agent is registered.

    Args:
        name: the game's own.
        then: where it came from.
        whose: the run or agent, for errors.
        env: what the user names for it now, if anything.
        say: as for `enter`; it also hears what has changed.

    Returns:
        A sentence of what is not as it was then; empty where all is.

    Raises:
        UsageError: it is gone, it has changed since this user named it, or was never named here.
    """
    if env is not None:
        given = enter(env, say)
        if given != name:
            raise UsageError(
                f"env={_shown(env)}: is the game {given}, and {whose} plays {spelt(name)}; leave --env out"
            )
    elif not registry.is_known(name):
        _open_named(name, then, whose)
    told = difference(name, then, whose)
    if told and say is not None:
        say(told)
    return told


def difference(name: str, then: Source, whose: str) -> str:
    """What of a registered game is not as it was when it came from `then`, in a sentence; empty where all is.

    whose: the run or agent of that time.
    """
    now = registry.source(name)
    if then == now or not (then.address or now.address):
        return ""
    if not then.address:
        return f"game {spelt(name)}: {whose} had it from no file; now it comes from {spelt(now.address)}, maybe another"
    if not now.address:
        return (
            f"game {spelt(name)}: {whose} had it from {spelt(then.address)}; it is the one registered in this process"
        )
    if then.sha256 != now.sha256:
        marks = f"sha256 {spelt(then.sha256[:12] or 'unknown')}, now {now.sha256[:12] or 'unknown'}"
        return f"game {spelt(name)}: {spelt(now.address)} is not what {whose} began with ({marks})"
    if then.address != now.address:
        return (
            f"game {spelt(name)}: it came from {spelt(then.address)} and now comes from {spelt(now.address)}, unchanged"
        )
    before, after = (spelt(source.version or "unknown") for source in (then, now))
    return f"game {spelt(name)}: {spelt(now.address)} is of version {after}, and was of {before}"


def load_settings(
    stage: str = "test50k",
    preset: str = "fast",
    env: str | None = None,
    config_file: str | Path | None = None,
    overrides: Iterable[str] = (),
    sizes: Layer | None = None,
    layer: Layer | None = None,
) -> tuple[Config, str]:
    """The settings of a call, as `league.config.load` has them, for any game; its options are checked and completed.

    A game that the hyperparameter source does not know brings its `DEFAULTS`. What these leave out follows from its
    spec (`league.arena.fitting`).

    Returns:
        The settings, and a sentence that says what follows from the spec; empty where nothing does.

    Raises:
        ConfigError: as `league.config.load`, or the game refuses an option.
    """
    overrides = list(overrides)
    given = (stage, preset, env, config_file, overrides, sizes, layer)
    name = settings.game_of(env, config_file, overrides, layer)
    brought = registry.defaults(name)
    config = settings.load(*given, defaults=brought)
    told = ""
    if not settings.has_game(name):
        spec = registry.spec(name, config.env.options)
        follows = default_layer(spec, brought, registry.carried_bots(name))
        config = settings.load(*given, defaults=settings.laid_over(follows, brought))
        told = describe(spec, brought, config)
    config = settings.with_options(config, registry.check_options(name, config.env.options))
    return settings.with_options(config, config.env.options, curriculum.completed(config)), told


def _open(found: Located) -> str:
    """Runs what was located and registers its game; returns its name."""
    return open_game(found, partial(_check_defaults, where=found.source.address))


def _open_named(name: str, then: Source, whose: str) -> None:
    """Opens the game of a run or an agent, if this user has named it as it is now.

    Raises:
        UsageError: he has not, or it is gone.
    """
    again = f"pass --env {spelt(then.address)}"
    try:
        address = parse(then.address) if then.address else None
        found = None if address is None or address.kind == "name" else locate(address)
    except GoneError:
        found = None
    except ConfigError as error:
        raise UsageError(
            f"{whose}: its game {spelt(name)} came from {spelt(then.address)}, which cannot be used: {error}"
        ) from None
    found = found or _named_elsewhere(name, then)
    if found is None:
        if not then.address:
            reason = "is not registered here, and where it came from is not known; pass --env ADDRESS"
        elif address is not None and address.kind == "name":
            reason = "is not installed here; install what brings it, or pass --env ADDRESS"
        else:
            reason = f"came from {spelt(then.address)}, which is gone; put it back, or pass --env with where it is now"
        raise UsageError(f"{whose}: its game {spelt(name)} {reason}")
    if not consent.is_named(name, found.source, _file_of(found)):
        where, why = spelt(found.source.address), consent.refusal(found.source)
        raise UsageError(f"{whose}: its game {spelt(name)} comes from {where}, which {why} {again}")
    own = _open(found)
    if own != name:
        raise UsageError(
            f"{whose}: its game {spelt(name)} came from {spelt(found.source.address)}, which has the game {own} now;"
            f" pass the --env of {spelt(name)}"
        )


def _named_elsewhere(name: str, then: Source) -> Located | None:
    """A game of this name that this user has named and that lies there unchanged: best the same file, else the last."""
    entries = [entry for entry in consent.named()[::-1] if entry.game == name]
    for entry in sorted(entries, key=lambda entry: entry.sha256 != then.sha256):
        try:
            address = parse(entry.address)
            found = None if address.kind == "name" else locate(address, entry.file)
        except ConfigError:
            continue
        if found is not None and consent.is_named(name, found.source, _file_of(found)):
            return found
    return None


def _check_defaults(name: str, where: str) -> None:
    """Refuses `DEFAULTS` that could not stand in the hyperparameter source.

    Raises:
        ConfigError: with the module.
    """
    brought = registry.defaults(name)
    if not brought:
        return
    try:
        config, _ = load_settings("smoke", env=name)
        spec = registry.spec(name, config.env.options)
        updates.check_rewards(config, spec)
        check_mix(config, spec)
    except ConfigError as error:
        problem = one_line(rule_of(error)).removeprefix("DEFAULTS: ")
        raise ConfigError(f"env={where}: its DEFAULTS: {problem}; mend them there") from None


def _file_of(found: Located) -> str:
    return "" if found.path is None or found.kind == "file" else str(found.path)


def _hint(name: str) -> str:
    try:
        return plain(address) if (address := consent.address_of(name)) else ""
    except LeagueError:
        return ""


def _shown(env: object) -> str:
    return plain(env) if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
