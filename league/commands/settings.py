"""What there is to train with: games, bots and settings, in the panel Train."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import league.commands.completion as completion
from league.commands.completion import known_settings
from league.commands.options import (
    AgentOption,
    ConfigOption,
    GameOption,
    Output,
    SetOption,
    argument,
    flag,
    option,
    subcommand,
)
from league.commands.train import PANEL
from league.errors import ConfigError, UsageError, nearest, quoted, unused
from league.printing import print_json, show

if TYPE_CHECKING:
    from league.config.models import Config

DEFAULTS = {"stage": "test50k", "preset": "fast"}


@subcommand(PANEL)
def games(output: Output) -> None:
    """List the games that are there by name: ours, and those that installed distributions offer."""
    from league.envs.listing import listed_games
    from league.printing.lists import print_games

    found = listed_games()
    output.answer({"games": found}, lambda: print_games(found))
    output.say("a game of your own needs no name: --env game.py (docs/tutorial.md)")


@subcommand(PANEL)
def bots(
    output: Output,
    game: Annotated[
        str | None, argument("[GAME]", "Only this game's: a name or an address.", offers=completion.games)
    ] = None,
) -> None:
    """List the scripted bots of the games, and what each does."""
    from league.arena.games import enter
    from league.envs.listing import listed_bots
    from league.printing.lists import print_bots

    found = listed_bots(None if game is None else enter(game, output.say))
    output.answer({"bots": found}, lambda: print_bots(found), "" if found else "it has no bots")


@subcommand(PANEL)
def settings(
    output: Output,
    what: Annotated[
        str | None,
        argument(
            "[SECTION]",
            "A section, learner, or one setting, learner.clip, explained; or a run, whose settings they are.",
            offers=completion.sections,
        ),
    ] = None,
    run: Annotated[str | None, option("RUN", "Those of this run; else of a new one.", offers=completion.runs)] = None,
    stage: Annotated[str | None, option("STAGE", "How long; test50k if not given.", offers=completion.stages)] = None,
    preset: Annotated[
        str | None, option("PRESET", "How wide, auto before it is sized; fast if not given.", offers=completion.presets)
    ] = None,
    agent: AgentOption = None,
    env: GameOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
    is_explained: Annotated[bool, flag("--explain", "What each setting means, above it.")] = False,
) -> None:
    """Print every setting as a TOML file that --config takes, or a section with what may be set and what it means."""
    from league.config import to_json
    from league.config.models import SECTIONS
    from league.config.written import written

    section = what if what is not None and what.partition(".")[0] in SECTIONS else None
    unused(f"the run is {what}", run=section is None and what and run)
    run = what if section is None and what is not None else run
    if run is not None and run == what:
        _need_run(run, output)
    given = {
        **{"stage": stage, "preset": preset, "agent": agent, "env": env},
        **{"config": config, "set": overrides},
    }
    found = _of_run(run, output, given) if run is not None else _of_call(given, output)
    if section is not None:
        _explain(section, found, output)
    elif output.as_json:
        print_json(to_json(found))
    else:
        for line in written(found, is_explained=is_explained, notes=_notes(found)):
            show(line)


def _need_run(run: str, output: Output) -> None:
    """Refuses a word that is no section where it names no run.

    Raises:
        UsageError: the reason, and the sections.
    """
    from league.config.models import SECTIONS

    reason = f"there is no store at {output.store} with a run of that name"
    if output.store.exists():
        try:
            output.open().find_run(run)
            return
        except UsageError as error:
            reason = str(error)
    raise UsageError(f"settings {quoted(run)}: is no section ({', '.join(SECTIONS)}), and {reason}")


def _of_run(run: str, output: Output, given: dict[str, Any]) -> Config:
    """The settings of a run in the store.

    Raises:
        UsageError: there is no such run, or the call says what settings it should have.
    """
    from league.config import of_run

    unused(f"the settings of {run} are as they are", **given)
    return of_run(run, output.open().find_run(run).config)


def _of_call(given: dict[str, Any], output: Output) -> Config:
    """The settings that a new run would have."""
    from league.arena.games import enter, load_settings
    from league.config.written import as_words

    stage, preset = (given[name] or DEFAULTS[name] for name in ("stage", "preset"))
    file: Path | None = given["config"]
    overrides = as_words(given["set"] or (), given["agent"])
    found, told = load_settings(stage, preset, enter(given["env"], output.say), file, overrides)
    if told:
        output.say(told)
    return found


def _notes(found: Config) -> dict[str, str]:
    """What settings that follow from the game are for it: `agent.torso` of the library's network."""
    from league.envs import registry
    from league.policies.torso import in_words

    game = found.env.name
    if found.agent.policy or game not in registry.games():
        return {}
    try:
        spec = registry.spec(game, found.env.options)
    except ConfigError:  # a run's whose file was changed: they are shown as they are
        return {}
    return {"agent.torso": in_words(found.agent.torso, spec, found.agent.observation_width)}


def _explain(what: str, found: Config, output: Output) -> None:
    """Shows a section or one setting with value, bounds and meaning.

    Raises:
        UsageError: the section has no such setting.
    """
    from league.config.written import by_section, toml
    from league.envs import registry
    from league.printing.lists import print_settings

    game = found.env.name if found.env.name in registry.games() else None
    there = [x for x in known_settings(game) if x.name == what or x.name.startswith(f"{what}.")]
    if not there:
        section, _, key = what.partition(".")
        keys = [x.name.removeprefix(f"{section}.") for x in known_settings(game) if x.name.startswith(f"{section}.")]
        raise UsageError(f"settings {what}: [{section}] has no `{key}`{nearest(key, keys)}")
    sections = by_section(found)
    now = {f"{name}.{key}": value for name, table in sections.items() for key, value in table.items()}
    notes = _notes(found)
    if output.as_json:
        listed = [
            {
                **{"name": x.name, "value": now.get(x.name), "allowed": x.allowed, "meaning": x.meaning},
                "may_change_on_resume": x.is_changeable,
                **({"note": notes[x.name]} if x.name in notes else {}),
            }
            for x in there
        ]
        print_json({"settings": listed})
    else:
        values = {
            name: f"{toml(value)} ({notes[name]})" if name in notes else toml(value) for name, value in now.items()
        }
        print_settings(there, values)
