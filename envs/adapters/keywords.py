"""Keywords of a library's environment: those in an address, and those that are options of the game."""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model

from league.envs.options import COMMON_ENV_KEYS
from league.errors import ConfigError

UNSET = ("self", "render_mode", "kwargs", "args")
"""Keywords that the engine decides, and catch-alls."""
CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
MOST_LETTERS = 32
"""Of the part of a game's name that is the environment's."""


def parse_call(where: str, rest: str) -> tuple[str, dict[str, Any]]:
    """An environment's name, and the keywords in brackets behind it, as in `pistonball_v6(n_pistons=2)`.

    where: the address, for errors.

    Raises:
        ConfigError: what is in the brackets is not `name=value, ...` with plain values, or is league's own to choose.
    """
    name, bracket, given = rest.partition("(")
    if not bracket:
        return rest, {}
    try:
        call = ast.parse(f"f({given}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not all(word.arg for word in call.keywords):
            raise ValueError
        keywords = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}
    except (SyntaxError, ValueError):
        raise ConfigError(f"env={where}: behind the name stands (keyword=value, ...), with plain values") from None
    if "render_mode" in keywords:  # one that waits for a screen would take hours
        raise ConfigError(f"env={where}: render_mode is chosen where a match is drawn; leave it out")
    return name, keywords


def game_name(scheme: str, name: str, keywords: Mapping[str, Any]) -> str:
    """`SCHEME-NAME`, of letters that a run's name can have, and a mark of the keywords where there are any."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
    is_whole = plain == name and len(name) <= MOST_LETTERS and not keywords
    text = json.dumps([name, dict(keywords)], sort_keys=True, default=repr)
    mark = "" if is_whole or (len(plain) <= MOST_LETTERS and not keywords) else "-" + _mark(text)
    return f"{scheme}-{plain[:MOST_LETTERS]}{mark}"


def keywords_of(make: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Keyword -> (type, default) of a constructor, those alone whose values can be written in a configuration.

    Args:
        make: a class or a function.
        given: values that are not the constructor's own defaults.
    """
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        return {}
    try:
        hints = get_type_hints(make.__init__ if inspect.isclass(make) else make)
    except Exception:  # a hint may name what is not imported
        hints = {}
    found = {}
    for name, parameter in parameters.items():
        if name in (*UNSET, *COMMON_ENV_KEYS) or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        default = given.get(name, parameter.default)
        if default is parameter.empty or not _is_plain(default) or name.startswith(("_", "model_")):
            continue
        found[name] = (_type_of(hints.get(name), default), default)
    return found


def options_model(
    name: str, keywords: Mapping[str, tuple[Any, Any]], own: Mapping[str, tuple[Any, Any, str]]
) -> type[BaseModel]:
    """The model of a game's options.

    Args:
        name: the game's.
        keywords: the environment's, as of `keywords_of`.
        own: the adapter's options, which hide keywords of the same name: name -> (type, default, description).
    """
    fields: dict[str, Any] = {
        word: (kind, Field(default, description=f"a keyword of the environment, {default!r} by itself"))
        for word, (kind, default) in keywords.items()
        if word not in own
    }
    fields |= {word: (kind, Field(default, description=text)) for word, (kind, default, text) in own.items()}
    return create_model(f"{name}Options", __config__=CONFIG, **fields)


def changed(options: BaseModel, own: Sequence[str]) -> dict[str, Any]:
    """The keywords among `options` that do not have their defaults."""
    fields = type(options).model_fields
    return {
        name: getattr(options, name)
        for name in fields
        if name not in own and getattr(options, name) != fields[name].default
    }


def _type_of(hint: Any, default: Any) -> Any:
    """What a keyword's value must be: its hint where that can be checked and the default fits it."""
    for kind in (hint, None if default is None else type(default), Any):
        if kind is None:
            continue
        try:
            TypeAdapter(kind).validate_json(json.dumps(default), strict=True)
        except Exception:  # pydantic has many for a hint that it cannot check
            continue
        return kind
    return Any


def _is_plain(value: Any) -> bool:
    try:
        text = json.dumps(value, allow_nan=False)
        return "{" not in text and bool(json.loads(text) == (list(value) if type(value) is tuple else value))
    except (TypeError, ValueError):
        return False


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
