"""Games: the contract, the registry, the games, and the base class for a game of your own."""

if __name__ == "envs":
    raise ImportError("import league.envs, not envs")

from league.envs.arrays import ArrayBatch
from league.envs.matches.match import Match
from league.envs.matches.row import MatchError

__all__ = ["ArrayBatch", "Match", "MatchError"]
