<<<<<<< HEAD
"""Frozen agents on disk: manifest, weights, export, and the stand-alone `Agent`."""
=======
"""Frozen agents on disk: manifest, weights, export, the stand-alone `Agent`."""
>>>>>>> cli

from typing import TYPE_CHECKING, Any

if __name__ == "snapshots":
    raise ImportError("import league.snapshots, not snapshots")

if TYPE_CHECKING:
    from league.snapshots.agent import Agent

__all__ = ["Agent"]


def __getattr__(name: str) -> Any:
<<<<<<< HEAD
    """Imports torch only when an agent is wanted."""
=======
    """Imports `Agent`, and with it torch, only when it is used."""
>>>>>>> cli
    if name == "Agent":
        from league.snapshots.agent import Agent

        return Agent
    raise AttributeError(f"module 'league.snapshots' has no attribute {name!r}")
