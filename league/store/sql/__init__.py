"""Migrations (`001_initial.sql`, ...) and named queries of the store, one `.sql` file each."""

import functools
import re
from importlib import resources


@functools.cache
def sql(name: str) -> str:
    """The text of the migration or named query `NAME.sql`."""
    return resources.files(__name__).joinpath(f"{name}.sql").read_text(encoding="utf-8")


@functools.cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Number and name of every migration, in order."""
    names = sorted(file.name.removesuffix(".sql") for file in resources.files(__name__).iterdir())
    return tuple((int(name[:3]), name) for name in names if re.fullmatch(r"\d{3}_\w+", name))
