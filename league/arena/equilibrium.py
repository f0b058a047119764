"""How far an agent is from an equilibrium, exactly, in games that are small enough to be solved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from league.arena.agents import Where, find_agent
from league.envs import registry
from league.errors import DEFAULT_STORE, ConfigError, UsageError
from league.maths.behaviour import behaviour
from league.maths.nashconv import nash_conv, uniform
from league.types.results import Grid, Result


@dataclass(frozen=True, repr=False)
class Equilibrium(Result):
    """The NashConv of an agent, in the game's payoff a match."""

    agent: str
    game: str
    nashconv: float
    """What best responses against it gain in both roles together; 0 at an equilibrium."""
    gains: tuple[float, float]
    """Of a best response as player 0 and as player 1."""
    value: float
    """What player 0 gets where the agent plays itself."""
    uniform: float
    """NashConv where every legal action is played alike, for comparison."""

    def grids(self) -> list[Grid]:
        """One row."""
        columns = ("agent", "game", "nashconv", "gain as player 0", "gain as player 1", "value", "uniform")
        return [Grid(columns, [(self.agent, self.game, self.nashconv, *self.gains, self.value, self.uniform)])]

    def __repr__(self) -> str:
        return f"Equilibrium({self.agent!r} in {self.game}: NashConv {self.nashconv:.4f}, uniform {self.uniform:.4f})"


def nashconv(
    agent: str,
    *,
    env: object = None,
    policy: object = None,
    store: str | Path = DEFAULT_STORE,
    say: Callable[[str], None] | None = None,
) -> Equilibrium:
    """NashConv of an agent that samples its actions (Lanctot et al. 2017, arXiv:1711.00832, section 2); plays nothing.

    Args:
        agent: its name (`league.arena.agents.find_agent`).
        env, policy: as for `league.evaluate`.
        store: its folder.
        say: receives a line where the game has changed since the agent was trained.

    Raises:
        UsageError: no such agent, a bot, which tells no probabilities, or a game without a tree.
        StoreError, SnapshotError: as `league.evaluate`.
    """
    where = Where(env, None, policy, "cpu", store, say)
    named = find_agent(opened := where.open(agent), agent)
    if named.folder is None:
        raise UsageError(f"agent {agent!r}: a bot tells no probabilities; name a run, a snapshot or a folder")
    meeting = where.gather(opened, agent)
    game = meeting.game
    try:
        tree = registry.tree(game.name, game.options)
    except ConfigError as error:
        raise UsageError(f"agent {named.label}: {error}") from None
    if tree is None:
        raise UsageError(
            f"agent {named.label}: {game.name} has no tree to work NashConv out on, as small games have"
            f" (docs/bring.md); `league exploit` bounds what can be gained on it"
        )
    found = nash_conv(tree, behaviour(meeting.nets[named.agent_id][1], tree))
    return Equilibrium(
        named.label, game.name, found.total, found.gains, found.value, nash_conv(tree, uniform(tree)).total
    )
