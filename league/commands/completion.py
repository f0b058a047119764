"""What a shell offers for a word that is being typed: agents, runs, games, settings.

Runs are read off the store's folders, and a store that is absent offers nothing. torch and DuckDB are not loaded.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import wraps
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from league.errors import DEFAULT_STORE
from league.printing import put
from league.store.files import store_folder

if TYPE_CHECKING:
    from league.config.reference import SettingDoc

Offer = tuple[str, str]
"""A word, and what it is."""
CUTS = ":=@"
"""Where bash cuts a word that is being typed, as in `bot:NAME`, `RUN@STEP` and `--set A.B=VALUE`."""
Complete = Callable[[typer.Context, str], list[Offer]]


@contextmanager
def as_typed() -> Iterator[None]:
    """Within it a line that bash has cut at `:`, `=` and `@` is whole again, and only the last piece is answered.

    bash cuts words there (`COMP_WORDBREAKS`) and replaces what stands behind the last cut; other shells do neither.
    """
    if os.environ.get("_LEAGUE_COMPLETE") != "complete_bash":
        yield
        return
    pieces, number = os.environ.get("COMP_WORDS", "").split(), os.environ.get("COMP_CWORD", "")
    at = int(number) if number.isdecimal() else 0
    words: list[str] = []
    was_cut = False
    for piece in pieces[: at + 1]:
        is_cut = set(piece) <= set(CUTS)
        if words and (is_cut or was_cut):
            words[-1] += piece
        else:
            words.append(piece)
        was_cut = is_cut
    if at >= len(pieces):
        words.append("")
    last = "" if was_cut or at >= len(pieces) else pieces[at]
    before = words[-1].removesuffix(last) if words and at < len(pieces) else ""
    os.environ |= {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    answer = StringIO()
    try:
        with redirect_stdout(answer):
            yield
    finally:
        put("".join(f"{line.removeprefix(before)}\n" for line in answer.getvalue().splitlines()))


def _silent(find: Callable[[typer.Context, str], Iterator[Offer]]) -> Complete:
    """What `find` gives that begins with the word; whatever goes wrong offers nothing: a prompt is being typed."""

    @wraps(find)
    def complete(ctx: typer.Context, incomplete: str) -> list[Offer]:
        try:
            return [offer for offer in find(ctx, incomplete) if offer[0].startswith(incomplete)]
        except Exception:
            return []

    complete.__annotations__ = {"ctx": typer.Context, "incomplete": str, "return": list[Offer]}
    return complete


@_silent
def runs(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """The runs beside the store."""
    return ((folder.name, "") for folder in _folders(ctx))


@_silent
def agents(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """RUN, RUN@best and RUN@stopped; of a run that is typed out its snapshots; bots from `bot:` on."""
    run, at, _ = incomplete.partition("@")
    for folder in _folders(ctx):
        if not at:
            yield folder.name, "its newest snapshot"
        elif folder.name == run:
            yield f"{run}@best", "its champion, else the best rated by its lower bound"
            if (folder / "stopped").is_dir():
                yield f"{run}@stopped", "its weights when it was stopped last"
            yield from ((f"{run}@{step}", "") for step in _steps(folder))
    if not at:
        yield from _bots(ctx) if incomplete.startswith("bot:") else [("bot:", "a scripted bot")]


@_silent
def states(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """The steps that a run which is named already can be rewound to."""
    from league.snapshots.kept import states_of

    # An option without its value hides the arguments in `ctx`, so the line itself tells which run is named.
    words = (os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")).split()
    for folder in _folders(ctx):
        if folder.name in words:
            yield from ((str(step), "a kept state") for step in states_of(folder / "state"))


@_silent
def sections(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """The sections of the settings, and the runs that have settings of their own."""
    from league.config.models import SECTIONS

    yield from ((name, f"the section [{name}]") for name in SECTIONS)
    yield from ((folder.name, "a run") for folder in _folders(ctx))


@_silent
def setting_names(ctx: typer.Context, incomplete: str) -> Iterator[Offer]:
    """`SECTION.KEY=`, and of a setting that is typed out the words that it takes."""
    name, equals, _ = incomplete.partition("=")
    for setting in known_settings(_game(ctx)):
        if ctx.info_name == "resume" and not setting.is_changeable:
            continue
        if not equals:
            yield f"{setting.name}=", setting.meaning
        elif setting.name == name:
            yield from ((f"{name}={word}", "") for word in setting.words)


def words(*known: str) -> Complete:
    """One of these."""
    return _silent(lambda ctx, incomplete: ((word, "") for word in known))


def _listed(find: Callable[[], Iterable[str]]) -> Complete:
    """What `find` lists; what it loads is loaded when a word is typed."""
    return _silent(lambda ctx, incomplete: ((name, "") for name in find()))


@_listed
def games() -> Iterable[str]:
    """The games that are registered."""
    from league.envs import registry

    return registry.games()


@_listed
def stages() -> Iterable[str]:
    """The stages, the shortest first."""
    from league import config

    return config.stages()


@_listed
def presets() -> Iterable[str]:
    """The presets."""
    from league import config

    return config.presets()


@_listed
def agent_sizes() -> Iterable[str]:
    """How large an agent may be."""
    from league import config

    return config.agents()


devices = words("auto", "cuda", "mps", "cpu")


def known_settings(game: str | None) -> list[SettingDoc]:
    """Every setting with its bounds and meaning, of a registered game those of its own, too."""
    from league.config.reference import settings_of
    from league.envs import registry
    from league.envs.listing import reward_meanings

    if game is None:
        return list(settings_of())
    return list(settings_of(registry.options_model(game), reward_meanings(game)))


def _folders(ctx: typer.Context) -> Iterator[Path]:
    """The folders of the runs in the store, by name."""
    store: Any = ctx.params.get("store") or DEFAULT_STORE
    return (mark.parent for mark in sorted(store_folder(store).glob("*/run.json")) if _is_run(mark))


def _is_run(mark: Path) -> bool:
    try:
        return mark.is_file() and bool(json.loads(mark.read_bytes())["kind"] == "run")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # damaged
        return False


def _steps(run: Path) -> list[int]:
    """The steps of a run's snapshots, the newest first."""
    return sorted((int(path.name) for path in (run / "snapshots").glob("*") if path.name.isdigit()), reverse=True)


def _game(ctx: typer.Context) -> str | None:
    """The game that is named in the same command."""
    env = ctx.params.get("env")
    return env if isinstance(env, str) else None


def _bots(ctx: typer.Context) -> Iterator[Offer]:
    """The bots of the game that is named, else of all that are registered."""
    from league import config
    from league.envs import registry

    game = _game(ctx)
    found: dict[str, list[str]] = {}
    for name in [game] if game in registry.games() else registry.games():
        for bot in registry.spec(name, config.load(env=name).env.options).bots:
            found.setdefault(f"bot:{bot}", []).append(name)
    return ((bot, ", ".join(games)) for bot, games in found.items())
