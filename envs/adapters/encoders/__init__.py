"""Encoders of environments of Kaggle, each a file that needs numpy alone, and what a submission has beside an agent."""

from __future__ import annotations

from pathlib import Path

from league.envs.adapters import file_of
from league.envs.sources import locate, parse
from league.errors import UsageError, plain
from league.types import Source

HERE = Path(__file__).parent
MAIN = HERE / "main.py"
"""Kaggle's agent."""
ENCODERS = {"connectx": "ConnectxEncoder", "planet_wars": "PlanetWarsEncoder", "rps": "RpsEncoder"}
"""Environment -> the class in the file of its name."""


def submission_files(then: Source) -> dict[str, bytes]:
    """The files by which Kaggle runs an agent of a game that came from `then`; none for a game that is not Kaggle's.

    Nothing of an encoder runs.

    Raises:
        ConfigError, UsageError: the encoder's file is gone, or is not what the agent was trained with.
    """
    scheme, _, rest = then.address.partition(":")
    if scheme != "kaggle":
        return {}
    _, file, part = file_of(scheme, rest)
    if file:
        found = locate(parse(then.address))
        if found.source.sha256 != then.sha256:
            raise UsageError(f"{plain(then.address)}: the agent was trained with another file; put that back")
        name, data = part.removeprefix(":") or "Encoder", found.data
    else:
        name, data = ENCODERS[rest], (HERE / f"{rest}.py").read_bytes()
    return {"main.py": MAIN.read_bytes().replace(b'"Encoder"', f'"{name}"'.encode()), "encoder.py": data}
