"""The app, and the options that commands share: a dataclass of them is a parameter of a command (`subcommand`)."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperOption

import league.commands.completion as completion
from league.errors import DEFAULT_STORE, UsageError, code_told, quoted
from league.printing import print_json, say
from league.runtime.process import settings_kept

if TYPE_CHECKING:
    from league.store.store import Store

app = typer.Typer(
    help="Train an agent against its own past and scripted bots; rank everyone with error bars.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class _Command(TyperCommand):
    """A command that refuses a second value of an option that has one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click's.

        Raises:
            UsageError: an option is given twice.
        """
        if not ctx.resilient_parsing:
            *_, order = self.make_parser(ctx).parse_args([*args])
            for option in (each for each in order if isinstance(each, TyperOption)):
                if order.count(option) > 1 and not (option.multiple or option.is_flag):
                    raise UsageError(
                        f"{option.opts[0]} is given {order.count(option)} times, and takes one value; keep one"
                    )
        return super().parse_args(ctx, args)


def subcommand(
    panel: str, name: str | None = None, *, group: typer.Typer = app
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command of a function, in a panel of the help.

    A parameter whose type is a dataclass brings the options that are its fields, and is given them as one value.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        group.command(name, cls=_Command, rich_help_panel=panel)(code_told()(settings_kept()(_unbundled(function))))
        return function

    return register


def group(panel: str, name: str, about: str) -> typer.Typer:
    """A command with commands of its own, in a panel of the help."""
    made = typer.Typer(help=about, no_args_is_help=True)
    app.add_typer(made, name=name, rich_help_panel=panel)
    return made


def _unbundled(function: Callable[..., None]) -> Callable[..., None]:
    """`function` as typer reads it: with the fields of its dataclasses, the last dataclass first, after its own."""
    hints = get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    bundles: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    own = inspect.signature(function).parameters.values()
    parameters = [p.replace(annotation=hints[p.name], kind=p.KEYWORD_ONLY) for p in own if p.name not in bundles]
    for kind in reversed(bundles.values()):
        options = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=options[field.name]
                )
            )

    @wraps(function)
    def call(**given: Any) -> None:
        given = {name: _in_utf8(value) for name, value in given.items()}
        for name, kind in bundles.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        function(**given)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _in_utf8(value: Any) -> Any:
    """Words as their bytes say in UTF-8, also where the locale lacks letters of them; names of files stay, but for `~`.

    Raises:
        UsageError: they are not UTF-8.
    """
    if isinstance(value, list):
        return [_in_utf8(each) for each in value]
    if isinstance(value, Path):
        return Path(os.path.expanduser(value))
    if not isinstance(value, str) or value.isascii() or os.path.lexists(value):
        return value
    try:
        return os.fsencode(value).decode() if any("\udc80" <= letter <= "\udcff" for letter in value) else value
    except UnicodeDecodeError:
        raise UsageError(f"{quoted(value)} is not UTF-8; pass it in UTF-8") from None


def counted(option: str, text: str | int) -> int:
    """A count of steps or games as somebody typed it, or a default: 300k, 1.5M, 2_000_000.

    Raises:
        UsageError: it is none.
    """
    from league.types.schema import count_of

    try:
        return count_of(text)
    except ValueError as error:
        raise UsageError(f"{option} {text!r}: {error}") from None


def option(metavar: str, help: str, *names: str, offers: completion.Complete | None = None) -> Any:
    """An option that takes a value; `offers`: what a shell offers for it."""
    return typer.Option(*names, metavar=metavar, help=help, autocompletion=offers)


def argument(metavar: str, help: str, offers: completion.Complete | None = None) -> Any:
    """An argument; `offers`: what a shell offers for it."""
    return typer.Argument(metavar=metavar, help=help, autocompletion=offers)


def flag(name: str, help: str) -> Any:
    """An option that is given or not."""
    return typer.Option(name, metavar="", help=help)


def count_option(name: str, help: str, metavar: str = "N", offers: completion.Complete | None = None) -> Any:
    """An option that takes a count of steps or games; `offers`: what a shell offers for it."""
    return typer.Option(
        name, parser=lambda text: counted(name, text), metavar=metavar, help=help, autocompletion=offers
    )


StoreOption = Annotated[
    Path,
    option(
        "FOLDER", "Has a folder for each run and all that was played; or its address, s3://BUCKET/FOLDER.", "--store"
    ),
]
JsonOption = Annotated[bool, flag("--json", "One JSON document on stdout.")]
QuietOption = Annotated[bool, flag("--quiet", "Say nothing on stderr but errors.")]
DeviceOption = Annotated[str | None, option("DEVICE", "auto, cuda, mps or cpu.", "--device", offers=completion.devices)]
SeedOption = Annotated[int, option("N", "Random seed.", "--seed")]
StageOption = Annotated[str, option("STAGE", "How long: smoke, test50k or 10m.", "--stage", offers=completion.stages)]
PresetOption = Annotated[
    str,
    option("PRESET", "How wide: fast, heavy, beast or auto (by the device).", "--preset", offers=completion.presets),
]
AgentOption = Annotated[
    str | None,
    option(
        "SIZE", "How large a network: small; the game's own if not given.", "--agent", offers=completion.agent_sizes
    ),
]
GameOption = Annotated[
    str | None,
    option(
        "GAME",
        "The game: a name such as kuhn, game.py[:NAME] or package.module[:NAME].",
        "--env",
        offers=completion.games,
    ),
]
AgainOption = Annotated[
    str | None, option("GAME", "Where the game is, to name its code again.", "--env", offers=completion.games)
]
ConfigOption = Annotated[Path | None, option("FILE", "A TOML file, laid over preset and stage.", "--config")]
SetOption = Annotated[
    list[str] | None, option("A.B=VALUE", "One setting; repeatable.", "--set", offers=completion.setting_names)
]
BotOption = Annotated[
    list[str] | None, option("[NAME=]ADDRESS", "A bot, bots.py:greedy or program:./bot; repeatable.", "--bot")
]
SamplerOption = Annotated[
    str | None, option("[NAME=]ADDRESS", "A sampler of your own, file.py:NAME, for pool.sampler.", "--sampler")
]
PolicyOption = Annotated[
    str | None, option("[NAME=]ADDRESS", "A network of your own, file.py:NAME, for agent.policy.", "--policy")
]
PoliciesOption = Annotated[
    list[str] | None, option("[NAME=]ADDRESS", "Code of an agent's network, file.py:NAME; repeatable.", "--policy")
]
OnOption = Annotated[
    str | None, option("CLUSTER", "On a Ray cluster: HOST:PORT, ray://HOST:PORT, auto or local.", "--on")
]
GreedyGamesOption = Annotated[bool, flag("--greedy", "Use greedy games instead of sampled ones.")]
RunArgument = Annotated[str | None, argument("[RUN]", "Only this run's; else all.", offers=completion.runs)]
RunOption = Annotated[str | None, option("RUN", "Only this run's.", "--run", offers=completion.runs)]
AGENT_WORDS = "RUN, RUN@STEP, RUN@best, RUN@stopped, bot:NAME or a folder."


@dataclass(frozen=True)
class Output:
    """Where a command reads its rows, and what it says."""

    store: StoreOption = DEFAULT_STORE
    as_json: JsonOption = False
    quiet: QuietOption = False

    def say(self, message: str) -> None:
        """Talk, unless `quiet`."""
        say(message, self.quiet)

    def answer(self, data: Any, shown: Callable[[], object], nothing: str = "") -> None:
        """Data on stdout: `data` as one JSON document, or what `shown` prints; talk that there is `nothing` instead."""
        if nothing:
            self.say(nothing)
        if self.as_json:
            print_json(data)
        elif not nothing:
            shown()

    def open(self) -> Store:
        """The store; what cannot be read of it is said."""
        from league.store.store import Store

        return Store.open(self.store, self.say)


@dataclass(frozen=True)
class TrainingOutput(Output):
    """What a training shows, beside what it is."""

    json_lines: Annotated[bool, flag("--json-lines", "Print one JSON object per event.")] = False
    log: Annotated[
        list[str] | None,
        option(
            "TRACKER[=FOLDER]",
            "tensorboard, wandb, csv or none; repeatable.",
            "--log",
            offers=completion.words("tensorboard", "wandb", "csv", "none"),
        ),
    ] = None


@dataclass(frozen=True)
class Play:
    """How agents play that are named."""

    greedy: Annotated[bool, flag("--greedy", "All play their likeliest action instead of sampling.")] = False
    env: Annotated[
        str | None,
        option("GAME", "The game; needed between bots, or to name its code again.", "--env", offers=completion.games),
    ] = None
    bot: BotOption = None
    policy: PoliciesOption = None
    device: Annotated[str, option("DEVICE", "auto, cuda, mps or cpu.", "--device", offers=completion.devices)] = "auto"

    def as_keywords(self, bots: str = "bots") -> dict[str, Any]:
        """As the library takes it; `bots`: what it calls the bots in Python there."""
        return {
            **{"greedy": self.greedy, "env": self.env, bots: self.bot},
            **{"policy": self.policy, "device": self.device},
        }
