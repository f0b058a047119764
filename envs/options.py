"""A game's options: what somebody has set, checked by the game's model and completed with its defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from league.errors import ConfigError, nearest

COMMON_ENV_KEYS = ("name", "rows", "threads", "workers", "strict_masks", "curriculum")
"""The keys of [env] that every game has; named when a misspelt option may mean one of them."""


def resolve(name: str, model: type[BaseModel], options: Mapping[str, Any]) -> BaseModel:
    """The options of the game `name`, each of the type that its model names: they are JSON values, wherever from.

    Raises:
        ConfigError: an unknown option, or a value outside its rule.
    """
    for key, value in options.items():
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except (TypeError, ValueError):
            kind = type(value).__name__
            raise ConfigError(
                f"env.{key}={value!r}: must be a number, a string, a bool or a list of these, not of type {kind};"
                f" change it with --set env.{key}=VALUE or in --config"
            ) from None
    try:
        return model.model_validate_json(json.dumps(dict(options)), strict=True)
    except ValidationError as errors:
        raise ConfigError(explain(name, model, options, errors)) from None


def explain(name: str, model: type[BaseModel], options: Mapping[str, Any], errors: ValidationError) -> str:
    """The first problem on one line: the option, its value, the rule, the next step."""
    error = errors.errors(include_url=False)[0]
    rule = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    rule = rule.replace("Input should be", "must be")
    if not error["loc"]:
        return " ".join(rule.split())
    key = str(error["loc"][0])
    if error["type"] == "extra_forbidden":
        known = nearest(key, [*model.model_fields, *COMMON_ENV_KEYS])
        return " ".join(f"env.{key}={options[key]!r} is not an option of {name}{known}".split())
    meaning = model.model_fields[key].description if key in model.model_fields else None
    line = f"env.{key}={options.get(key, error['input'])!r}: {rule}" + (f" ({meaning.rstrip('.')})" if meaning else "")
    return " ".join(f"{line}; change it with --set env.{key}=VALUE or in --config".split())
