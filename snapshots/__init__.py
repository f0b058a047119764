"""Frozen agents on disk: manifest, weights, export, the stand-alone `Agent`."""

from typing import TYPE_CHECKING, Any

if __name__ == "snapshots":
    raise ImportError("import league.snapshots, not snapshots")

if TYPE_CHECKING:
    from league.snapshots.agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> Any:
    """Imports `Agent`, and with it torch, only when it is used."""
    if name == "Agent":
        from league.snapshots.agent import Agent

        return Agent
    raise AttributeError(f"module 'league.snapshots' has no attribute {name!r}")
