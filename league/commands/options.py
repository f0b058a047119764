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
from league.printing import say
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
    """Words as their bytes say in UTF-8, also where the locale lacks letters of them; names of files stay.

    Raises:
        UsageError: they are not UTF-8.
    """
    if isinstance(value, list):
        return [_in_utf8(each) for each in value]
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


def flag(name: str, *, help: str) -> Any:
    """An option that is given or not."""
    return typer.Option(name, metavar="", help=help)


def count_option(*names: str, help: str, metavar: str = "N", autocompletion: Any = None) -> Any:
    """An option that takes a count of steps or games."""
    return typer.Option(
        *names,
        parser=lambda text: counted(names[0], text),
        metavar=metavar,
        help=help,
        autocompletion=autocompletion,
    )


StoreOption = Annotated[
    Path,
    typer.Option(
        "--store",
        metavar="FOLDER",
        help="Has a folder for each run and all that was played; or its address, s3://BUCKET/FOLDER.",
    ),
]
JsonOption = Annotated[bool, flag("--json", help="One JSON document on stdout.")]
QuietOption = Annotated[bool, flag("--quiet", help="Say nothing on stderr but errors.")]
DeviceOption = Annotated[
    str | None,
    typer.Option("--device", metavar="DEVICE", help="auto, cuda, mps or cpu.", autocompletion=completion.devices),
]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")]
StageOption = Annotated[
    str,
    typer.Option("--stage", metavar="STAGE", help="How long: smoke, test50k or 10m.", autocompletion=completion.stages),
]
PresetOption = Annotated[
    str,
    typer.Option(
        "--preset",
        metavar="PRESET",
        help="How wide: fast, heavy, beast or auto (by the device).",
        autocompletion=completion.presets,
    ),
]
AgentOption = Annotated[
    str | None,
    typer.Option(
        "--agent",
        metavar="SIZE",
        help="How large a network: small; the game's own if not given.",
        autocompletion=completion.agent_sizes,
    ),
]
GameOption = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="GAME",
        help="The game: a name such as kuhn, game.py[:NAME] or package.module[:NAME].",
        autocompletion=completion.games,
    ),
]
AgainOption = Annotated[
    str | None,
    typer.Option(
        "--env",
        metavar="GAME",
        help="Where the game is, to name its code again.",
        autocompletion=completion.games,
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A TOML file, laid over preset and stage.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="A.B=VALUE", help="One setting; repeatable.", autocompletion=completion.setting_names
    ),
]
BotOption = Annotated[
    list[str] | None,
    typer.Option("--bot", metavar="[NAME=]ADDRESS", help="A bot, bots.py:greedy or program:./bot; repeatable."),
]
SamplerOption = Annotated[
    str | None,
    typer.Option("--sampler", metavar="[NAME=]ADDRESS", help="A sampler of your own, file.py:NAME, for pool.sampler."),
]
PolicyOption = Annotated[
    str | None,
    typer.Option("--policy", metavar="[NAME=]ADDRESS", help="A network of your own, file.py:NAME, for agent.policy."),
]
PoliciesOption = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar="[NAME=]ADDRESS", help="Code of an agent's network, file.py:NAME; repeatable."),
]
OnOption = Annotated[
    str | None,
    typer.Option("--on", metavar="CLUSTER", help="On a Ray cluster: HOST:PORT, ray://HOST:PORT, auto or local."),
]
GreedyGamesOption = Annotated[bool, flag("--greedy", help="Use greedy games instead of sampled ones.")]
RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Only this run's; else all.", autocompletion=completion.runs),
]
RunOption = Annotated[
    str | None,
    typer.Option("--run", metavar="RUN", help="Only this run's.", autocompletion=completion.runs),
]
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

    def open(self) -> Store:
        """The store; what cannot be read of it is said."""
        from league.store.store import Store

        return Store.open(self.store, self.say)


@dataclass(frozen=True)
class TrainingOutput(Output):
    """What a training shows, beside what it is."""

    json_lines: Annotated[bool, flag("--json-lines", help="Print one JSON object per event.")] = False
    log: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="TRACKER[=FOLDER]",
            help="tensorboard, wandb, csv or none; repeatable.",
            autocompletion=completion.words("tensorboard", "wandb", "csv", "none"),
        ),
    ] = None


@dataclass(frozen=True)
class Play:
    """How agents play that are named."""

    greedy: Annotated[bool, flag("--greedy", help="All play their likeliest action instead of sampling.")] = False
    env: Annotated[
        str | None,
        typer.Option(
            "--env",
            metavar="GAME",
            help="The game; needed between bots, or to name its code again.",
            autocompletion=completion.games,
        ),
    ] = None
    bot: BotOption = None
    policy: PoliciesOption = None
    device: Annotated[
        str,
        typer.Option("--device", metavar="DEVICE", help="auto, cuda, mps or cpu.", autocompletion=completion.devices),
    ] = "auto"

    def as_keywords(self, bots: str = "bots") -> dict[str, Any]:
        """As the library takes it; `bots`: what it calls the bots in Python there."""
        return {
            **{"greedy": self.greedy, "env": self.env, bots: self.bot},
            **{"policy": self.policy, "device": self.device},
        }
