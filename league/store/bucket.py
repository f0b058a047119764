"""The objects at an address of fsspec: what of its file systems a store needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from league.errors import LeagueError, StoreError


class Object(NamedTuple):
    """What is known of a file at the address."""

    mark: str
    """Another one where its content is."""
    size: int
    at: float
    """When it was written, in seconds."""


class Bucket:
    """The objects at an address, by their paths there. Within `reached` alone.

    Args:
        name: the address.
        place: a file system of fsspec, and the path of the store in it.
        remedy: what to do about it where it cannot be reached.
    """

    def __init__(self, name: str, place: tuple[Any, str], remedy: str) -> None:
        self.name, self._remedy = name, remedy
        self._fs, root = place
        self._root = root.rstrip("/")

    def list(self, folder: str = "") -> dict[str, Object]:
        """All of them, or those in a folder; a `StoreError` where there is no such bucket."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self._key(folder).rstrip("/"), detail=True)
        except FileNotFoundError:
            raise StoreError(f"store {self.name}: no such bucket; make it, or pass another --store") from None
        return {key[len(self._key("")) :]: _object(info) for key, info in found.items()}

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Their content, but for those that have gone."""
        found = {}
        for path in paths:
            with suppress(FileNotFoundError):
                found[path] = self._fs.cat_file(self._key(path))
        return found

    def write(self, path: str, data: bytes) -> None:
        """Makes or replaces one."""
        self._fs.pipe_file(self._key(path), data)

    def make(self, path: str, data: bytes) -> bool:
        """Whether this call made one that was not there."""
        try:
            self._fs.pipe_file(self._key(path), data, mode="create")
        except FileExistsError:
            return False
        return True

    def delete(self, path: str) -> None:
        """Removes one, where it is there."""
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._key(path))

    def _key(self, path: str) -> str:
        return f"{self._root}/{path}"

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Within it an error of the address's library is a `StoreError`."""
        try:
            yield
        except (LeagueError, BlockingIOError):
            raise
        except Exception as error:  # fsspec's file systems raise what their libraries do
            why = str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
            raise StoreError(f"store {self.name}: cannot be reached ({why}); {self._remedy}") from None


def _object(info: dict[str, Any]) -> Object:
    at = next((info[key] for key in ("LastModified", "mtime", "created", "last_modified") if info.get(key)), 0.0)
    seconds = at.timestamp() if hasattr(at, "timestamp") else float(at)
    return Object(str(info.get("ETag") or info.get("etag") or (seconds, info["size"])), int(info["size"]), seconds)
