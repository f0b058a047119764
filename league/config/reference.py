"""What each setting may be, in words, read off the models: for `league settings SECTION` and for completion."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from league.config import CHANGEABLE
from league.config.layers import COMMON_ENV_KEYS
from league.config.models import MOVING, SECTIONS


@dataclass(frozen=True)
class SettingDoc:
    """One setting."""

    name: str
    """`section.key`."""
    allowed: str
    """Its kind and its bounds."""
    meaning: str
    words: tuple[str, ...] = ()
    """All that it may be, where these are few."""

    @property
    def is_changeable(self) -> bool:
        """Whether a run may have another value when it goes on."""
        return self.name in CHANGEABLE


def settings_of(
    options: type[BaseModel] | None = None, rewards: Mapping[str, str] | None = None
) -> Iterator[SettingDoc]:
    """Every setting, section by section.

    Args:
        options: the model of a game's own, which are keys of [env]; without it these are left out.
        rewards: the game's reward terms and what each pays for.
    """
    for section, model in SECTIONS.items():
        for key, schema in _fields(model):
            if section != "env" or key in COMMON_ENV_KEYS:
                yield _setting(section, key, schema)
        if section == "env":
            yield from (_setting(section, key, schema) for key, schema in _fields(options))
        if section == "rewards":
            for term, meaning in (rewards or {}).items():
                yield SettingDoc(f"rewards.{term}", "a number; may move with the steps", _sentence(meaning))


def _fields(model: type[BaseModel] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    return iter(model.model_json_schema()["properties"].items() if model else ())


def _setting(section: str, key: str, schema: Mapping[str, Any]) -> SettingDoc:
    moves = "; may move with the steps" if key in MOVING.get(section, ()) else ""
    meaning = " ".join(str(schema.get("description", "")).split())
    own = meaning if key in COMMON_ENV_KEYS or section != "env" else _sentence(meaning)
    return SettingDoc(f"{section}.{key}", allowed(schema) + moves, own, tuple(_words(schema)))


def _sentence(text: str) -> str:
    """With a capital and a full stop, however a game's author wrote it."""
    return text and text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _words(schema: Mapping[str, Any]) -> list[str]:
    if "anyOf" in schema:
        return ["off"] if any(option.get("type") == "null" for option in schema["anyOf"]) else []
    values = [True, False] if schema.get("type") == "boolean" else schema.get("enum", [])
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


def allowed(schema: Mapping[str, Any]) -> str:
    """A JSON schema in words: `a whole number from 1 to 128`."""
    if "anyOf" in schema:
        kinds = [allowed(option) for option in schema["anyOf"] if option.get("type") != "null"]
        return ", or ".join([*dict.fromkeys(kinds), *_words(schema)])
    if words := _words(schema):
        return ", ".join(words)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        whole = "an even number" if schema.get("multipleOf") == 2 else "a whole number"
        return (whole if kind == "integer" else "a number") + _bounds(schema)
    if kind == "array":
        most = f" of at most {schema['maxItems']}" if "maxItems" in schema else ""
        length = f" of at most {schema['maxLength']}" if "maxLength" in schema else most
        return f"a list{length}" + _each(schema.get("items"))
    if kind == "object":
        return "a table" + _each(schema.get("additionalProperties"))
    return "text" if kind == "string" else "a table"


def _each(schema: object) -> str:
    return f", each {allowed(schema)}" if isinstance(schema, Mapping) and schema.get("type") else ""


def _bounds(schema: Mapping[str, Any]) -> str:
    """The bounds of a number; that a float32 ends somewhere is none."""
    least, most = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if most is not None and most >= 1e30:
        most = None
    if least is not None and most is not None:
        return f" from {_number(least)} to {_number(most)}"
    texts = [("above", above), ("from", least), ("below", below), ("to", most)]
    said = [f"{word} {_number(bound)}" for word, bound in texts if bound is not None]
    return f" {' and '.join(said)}" if said else ""


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
