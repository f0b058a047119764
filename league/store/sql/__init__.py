"""Named queries, one `.sql` file a noun.

A query begins with the line `-- name: NAME`, after which a comment says what it answers; it ends where the next begins.
"""

from __future__ import annotations

import functools
import re
from importlib import resources
from types import MappingProxyType

from league.errors import nearest

_NAME_LINE = re.compile(r"^-- name: (.*)$\n", re.MULTILINE)


def sql(name: str) -> str:
    """The text of the named query `name`.

    Raises:
        KeyError: there is none.
    """
    known = queries()
    if name not in known:
        raise KeyError(f"no query `{name}` in league/store/sql{nearest(name, known)}")
    return known[name]


@functools.cache
def queries() -> MappingProxyType[str, str]:
    """Name -> text of all named queries."""
    found: dict[str, str] = {}
    for file in sorted(resources.files(__name__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            _, *parts = _NAME_LINE.split(file.read_text(encoding="utf-8"))
            found |= {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return MappingProxyType(found)
