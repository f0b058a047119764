"""Frozen agents on disk: manifest, weights, export, and the stand-alone `Agent`."""

from typing import TYPE_CHECKING, Any

if __name__ == "snapshots":
    raise ImportError("import league.snapshots, not snapshots")

if TYPE_CHECKING:
    from league.snapshots.agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> Any:
    """Imports torch only when an agent is wanted."""
    if name == "Agent":
        from league.snapshots.agent import Agent

        return Agent
    raise AttributeError(f"module 'league.snapshots' has no attribute {name!r}")
