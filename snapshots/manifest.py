"""What a snapshot says of itself: `manifest.json`, checked strictly when read."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_serializer,
)

from league import __version__
from league.errors import SnapshotError
from league.types import RUN_NAME, GameSpec, Source
from league.types.schema import MAX_ADDRESS, MAX_HISTORY, FrozenModel, Natural, PartSource

FORMAT: Literal[3] = 3
_SPEC = TypeAdapter(GameSpec)

Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Seed = Annotated[int, Field(ge=0, lt=2**64)]


def utc_now() -> str:
    """The time now, UTC, as ISO 8601 to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class SourceRecord(FrozenModel):
    """Where a game came from: `league.types.Source`, which says what the fields are."""

    address: Annotated[str, Field(max_length=MAX_ADDRESS)]
    version: Annotated[str, Field(max_length=MAX_ADDRESS)] = ""
    sha256: Annotated[str, Field(pattern=r"^([0-9a-f]{64})?$")] = ""


class GameRecord(FrozenModel):
    """Which game an agent plays."""

    name: str
    version: Natural
    game_id: str
    """Hash of name, version and options: ratings never mix two."""
    options: dict[str, Any]
    source: SourceRecord | None = None
    """Where it came from; None where it came with the library, or is not known. It is no part of what the game is."""

    @classmethod
    def of(cls, spec: GameSpec, game_id: str, options: dict[str, Any], source: Source) -> GameRecord:
        """The record of a game with these options."""
        record = SourceRecord(**asdict(source)) if source.address else None
        return cls(name=spec.name, version=spec.version, game_id=game_id, options=options, source=record)

    @property
    def came_from(self) -> Source:
        """`source` as the games have it."""
        return Source() if self.source is None else Source(**self.source.model_dump())

    @model_serializer(mode="wrap")
    def _without_none(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `source` where there is none: earlier leagues read it, too."""
        return {key: value for key, value in write(self).items() if key != "source" or value is not None}


class OwnPolicy(FrozenModel):
    """In place of the library's architecture: a custom policy. None of its code runs unless its user named it."""

    policy: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,47}$")]
    """What the run called it."""
    source: PartSource
    type: Annotated[str, Field(max_length=MAX_ADDRESS)]
    """Module and class of the network that it made."""
    agent: dict[str, Any]
    """[agent] of the configuration, which it was made with."""


class About(FrozenModel):
    """A snapshot's manifest before its weights are hashed: what the trainer knows."""

    run: Annotated[str, Field(pattern=f"^{RUN_NAME.pattern}$")]
    """The run's name, which stands in tables and becomes an agent's label."""
    step: Natural
    """Learner steps at which the weights were frozen."""
    update: Natural
    seed: Seed
    """Of the run."""
    fingerprint: Sha256
    """Of the resolved configuration."""
    game: GameRecord
    spec: dict[str, Any]
    """The `GameSpec` as JSON: `spec_to_json`, `spec_from_json`."""
    architecture: dict[str, Any]
    """The network's sizes; of a custom policy an `OwnPolicy`."""
    config: dict[str, Any]
    """The whole resolved configuration."""
    history_tokens: Annotated[int, Field(ge=0, le=MAX_HISTORY)]
    """H: decisions of opponent history."""
    return_size: Annotated[float, Field(gt=0, le=1e300, allow_inf_nan=False)] = 1.0
    """The running size of returns in training, which the network's values are in: times it they are discounted weighted
    reward."""
    parent: Sha256 | None = None
    """The agent from which training went on."""
    created_at: str = Field(default_factory=utc_now)
    """UTC, ISO 8601."""
    league_version: str = __version__

    @property
    def own_policy(self) -> OwnPolicy | None:
        """The policy of one's own that this is of; None: the library's."""
        return OwnPolicy.model_validate(self.architecture) if "policy" in self.architecture else None

    @field_validator("architecture")
    @classmethod
    def _is_whole(cls, value: dict[str, Any]) -> dict[str, Any]:
        if "policy" in value:
            OwnPolicy.model_validate(value)
        return value

    @field_validator("created_at")
    @classmethod
    def _is_utc(cls, value: str) -> str:
        offset = datetime.fromisoformat(value).utcoffset()
        if offset is None or offset.total_seconds():
            raise ValueError("must be a UTC time")
        return value

    @field_validator("spec")
    @classmethod
    def _is_spec(cls, value: dict[str, Any]) -> dict[str, Any]:
        spec_from_json(value)
        return value


class Manifest(About):
    """`manifest.json`."""

    format: Literal[3] = FORMAT
    agent_id: Sha256
    """sha256 of the bytes of the weights file."""


def spec_to_json(spec: GameSpec) -> dict[str, Any]:
    """A `GameSpec` as a dict of JSON values."""
    return _SPEC.dump_python(spec, mode="json")  # type: ignore[no-any-return]


def spec_from_json(data: dict[str, Any]) -> GameSpec:
    """The `GameSpec` that `spec_to_json` wrote.

    Raises:
        ValueError: a field is missing, unknown or not of its type.
    """
    unknown = set(data) - {field.name for field in fields(GameSpec)}
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: unknown")
    try:
        return _SPEC.validate_json(json.dumps(data), strict=True)
    except ValidationError as errors:
        error = errors.errors(include_url=False)[0]
    raise ValueError(f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}")


def parse(text: bytes, where: str) -> Manifest:
    """The manifest in `text`; `where` names the file in errors.

    Raises:
        SnapshotError: it is not JSON, of another format, or a field is missing, unknown or wrong.
    """
    try:
        manifest = Manifest.model_validate_json(text)
        json.loads(text, object_pairs_hook=_unique)
        return manifest
    except ValidationError as errors:
        found = errors.errors(include_url=False)
        first = next((error for error in found if error["loc"] == ("format",)), found[0])
        field = ".".join(str(part) for part in first["loc"])
        problem = " ".join(f"{field}: {first['msg']}".split()).removeprefix(": ")
        if field == "format":
            problem = f"format={first['input']!r} is not {FORMAT}, the one that league {__version__} reads"
    except ValueError as error:
        problem = str(error)
    raise SnapshotError(f"{where} is not a snapshot's manifest ({problem}); take the snapshot from its source again")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object in which no key stands twice: of two values each reader might take another one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands in it twice")
    return found
