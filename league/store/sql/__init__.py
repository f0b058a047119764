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
    files = sorted(resources.files(__name__).iterdir(), key=lambda file: file.name)
    texts = {file.name: file.read_text(encoding="utf-8") for file in files if file.name.endswith(".sql")}
    return MappingProxyType(named_queries(texts))


def named_queries(files: dict[str, str]) -> dict[str, str]:
    """The named queries of files, given as file name -> content.

    Raises:
        ValueError: a name stands twice or is none, a query has no comment that says what it answers, or something
            stands before the first name.
    """
    found: dict[str, str] = {}
    for file, content in files.items():
        before, *parts = _NAME_LINE.split(content)
        if before.strip():
            raise ValueError(f"{file}: a query without a name; begin it with `-- name: NAME`")
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if not re.fullmatch(r"[a-z]\w*", name):
                raise ValueError(f"{file}: `{name}` cannot name a query; use small letters, digits and _")
            if name in found:
                raise ValueError(f"{file}: there is a query `{name}` already; give this one another name")
            if not text.startswith("-- "):
                raise ValueError(f"{file}: query `{name}` does not say what it answers; add a comment below its name")
            found[name] = text.strip()
    return found
