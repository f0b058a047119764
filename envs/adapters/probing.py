"""What random play of a library's environment shows before it is a game: that it plays again, what it draws from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from league.envs.adapters.isolation import Drawn
from league.envs.adapters.replies import ReplyError
from league.envs.adapters.spaces import SpaceError
from league.envs.user_code import line_of
from league.errors import CodeError, ConfigError, LeagueError, described
from league.runtime.phases import advance

FactsOf = TypeVar("FactsOf", bound=Any)
STEPS = 256
"""Of random play."""
AGAIN = 64
"""Of the first episode that is played a second time in the same object."""
BROUGHT_BY = {
    **dict.fromkeys(("chess", "rlcard"), "'pettingzoo[classic]'"),
    "pygame": "pygame-ce",
    "pymunk": "'pettingzoo[butterfly]'",
    "Box2D": "'gymnasium[box2d]'",
    "multi_agent_ale_py": "'pettingzoo[atari]'",
    "shimmy": "'pettingzoo[classic]'",
    "pyspiel": "'league-engine[openspiel]'",
}
"""Module -> what installs it."""


MISSING = re.compile(r"(__init__|env)\(\) missing \d+ required|missing \d+ required .* from the environment creator")
"""What says that an environment is not made without arguments."""


class ProbedCopy(Protocol):
    """One copy of an environment as the probe plays it."""

    @property
    def is_over(self) -> bool:
        """Whether the episode is over."""

    @property
    def has_mask(self) -> bool:
        """Whether it tells what is legal now."""

    def begin(self, seed: int) -> None:
        """Begins an episode."""

    def act_at_random(self, rng: np.random.Generator) -> float:
        """Plays a random legal action of the acting agent; returns the rewards."""

    def show(self) -> npt.NDArray[Any]:
        """All that is seen."""

    def drawn_since(self, seed: int) -> Drawn:
        """As `Apart.drawn_since`."""


@dataclass(frozen=True)
class ProbeResult:
    """What a probe found."""

    problem: str
    """Why its matches could not be played again; empty where they can."""
    remembers: bool
    """Whether what was before shows in an episode of a seed, as in Box2D's worlds: each needs a new environment."""
    drawn: Drawn
    has_mask: bool
    """Whether it told what is legal at some time."""
    is_won: bool
    """Whether every episode paid a player the same amount, the negative of that or nothing, as wins and losses do."""


def probe(make: Callable[[], ProbedCopy]) -> ProbeResult:
    """Plays two copies side by side by the same seeds and actions.

    make: a copy; it seeds the generators of its own with 0 before it is made.
    """
    one, two = make(), make()
    drawn = Drawn(*(any(pair) for pair in zip(one.drawn_since(0), two.drawn_since(0), strict=True)))
    opening, problem, seed, is_new = list[tuple[npt.NDArray[Any], tuple[float, bool]]](), "", 1, True
    rngs, has_mask, paid, returns = [np.random.default_rng(0) for _ in range(2)], False, [0.0, 0.0], [0.0]
    for step in range(STEPS):
        advance("steps of a first trial", step, STEPS)
        if is_new:
            one.begin(seed)
            two.begin(seed)
            is_new = False
        has_mask |= one.has_mask
        views = one.show(), two.show()
        if not np.array_equal(*views, equal_nan=True):
            problem = f"two copies of one seed differ after {step} random steps"
            break
        if paid[0] != paid[1]:
            problem = f"two copies of one seed pay {paid[0]:g} and {paid[1]:g} for random step {step}"
            break
        seen = views[0].copy()
        paid = [each.act_at_random(rng) for each, rng in zip((one, two), rngs, strict=True)]
        if seed == 1 and len(opening) < AGAIN:
            opening.append((seen, (paid[0], one.is_over)))
        returns[-1] += paid[0]
        if one.is_over or two.is_over:
            drawn = Drawn(*(any(pair) for pair in zip(drawn, one.drawn_since(seed), strict=True)))
            seed, is_new = seed + 1, True
            returns.append(0.0)
    drawn = Drawn(*(any(pair) for pair in zip(drawn, one.drawn_since(seed), strict=True)))
    remembers = not problem and not _plays_again(one, opening)
    is_won = len({abs(amount) for amount in returns[:-1]} - {0.0}) == 1
    return ProbeResult(problem, remembers, drawn, has_mask, is_won)


def examined(
    where: str,
    look: Callable[[], tuple[FactsOf, Callable[[], ProbedCopy], bool]],
    hint: str,
    given: Mapping[str, Any],
) -> FactsOf:
    """The facts of an environment, completed with what a trial of it shows.

    Args:
        where: how errors call it.
        look: gives the facts, what makes a copy by them, and whether each episode needs a new environment.
        hint: what would make it deterministic.
        given: the keywords that are set, for errors of its own.

    Raises:
        CodeError: its own code fails.
        ConfigError: its spaces cannot be, or it is not deterministic.
    """
    try:
        facts, make, remembers = look()
        found = probe(make)
    except ReplyError as error:
        raise ConfigError(f"env={where}: {error}; mend the environment, or wrap it{_with(given)}") from None
    except LeagueError:
        raise
    except SpaceError as error:
        raise ConfigError(f"env={where}: {error}; take another environment, or wrap it") from None
    except Exception as error:  # whatever its own code raises
        raise failed(where, error, given) from error
    if found.problem:
        raise ConfigError(f"env={where}: {found.problem}, so a match could not be played again; {hint}")
    remembers = found.remembers or remembers
    shown = {"drawn": found.drawn, "is_won": found.is_won, "has_mask": found.has_mask}
    return replace(facts, remembers=remembers, **shown)


def has_box2d(env: Any) -> bool:
    """Whether a world of Box2D is in an environment, which shows now and then what was in it before."""
    inner = getattr(env, "unwrapped", env)
    worlds = [getattr(each, "world", None) for each in (inner, getattr(inner, "env", None))]
    return any(type(world).__module__.startswith("Box2D") for world in worlds)


def failed(where: str, error: Exception, given: Mapping[str, Any] | None = None) -> LeagueError:
    """What an environment's code raised: a setting's error if something is not installed or keywords are given."""
    kind = ConfigError if given or isinstance(error, ModuleNotFoundError) else CodeError
    step = "then try again" if isinstance(error, ModuleNotFoundError) else "mend it"
    if isinstance(error, TypeError) and MISSING.search(str(error)):
        step = "give what it needs behind the address, as in NAME(size=5), or mend it"
    step = f"change {' or '.join(given)}, or mend it" if given else step
    return kind(f"env={where}: {reason(error)}{_with(given)}{line_of(error)}; {step}")


def _with(given: Mapping[str, Any] | None) -> str:
    told = ", ".join(f"env.{word}={value!r}" for word, value in (given or {}).items())
    return f" (with {told})" if told else ""


def reason(error: Exception) -> str:
    """What a library's own code raised, on a line; of what is missing, what to install."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        top = error.name.partition(".")[0]
        return f"{top} is not installed; pip install {BROUGHT_BY.get(top, f'what brings {top}')}"
    return described(error)


def _plays_again(one: ProbedCopy, opening: list[tuple[npt.NDArray[Any], tuple[float, bool]]]) -> bool:
    """Whether a copy that has played other episodes plays the first again."""
    for seeds in (0, 1, 1), (1,):  # what is begun and not played counts, too; twice, since episodes may alternate
        for seed in seeds:
            one.begin(seed)
        rng = np.random.default_rng(0)
        for seen, after in opening:
            if not np.array_equal(one.show(), seen, equal_nan=True) or (one.act_at_random(rng), one.is_over) != after:
                return False
    return True
