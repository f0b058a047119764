"""Games of OpenSpiel (Lanctot et al. 2019, arXiv:1908.09453): `openspiel:kuhn_poker`, `openspiel:leduc_poker(...)`.

Games of two players, in turns, at once or both, with whatever chance the game tells the odds of. A seat sees the game's
information state where there is one, else its observation, and which player it is. Which seat is player 0 is drawn by
the match's seed, so that seats are fair.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyspiel

from league.envs.adapters.apart import silent
from league.envs.match import Match, MatchGame
from league.envs.row import MatchError
from league.errors import ConfigError, nearest
from league.types import SEATS

PAYOFF = "payoff"
"""The reward term of what the game pays."""
SHORT = {"repeated_rps": "repeated_game(stage_game=matrix_rps(),num_repetitions=1000,recall=1)"}
"""Games of which many speak, by a shorter name. In this one each sees the last throws."""
LOOKS = 2_000
"""Decisions of random matches that tell whether a game has turns."""
OBS_BOUND = 1e6
"""Of what is observed: OpenSpiel gives no bounds."""


class SpielMatch(Match):
    """One match of a game of OpenSpiel; `open` makes a subclass for each game."""

    game: ClassVar[Any]
    """The `pyspiel.Game`."""
    has_memory: ClassVar[bool]
    """Whether a seat sees the information state."""
    reward_terms = (PAYOFF,)
    obs_range = (-OBS_BOUND, OBS_BOUND)

    def reset(self, rng: np.random.Generator) -> None:
        """Begins a match; which seat is which player is drawn first."""
        self._rng, self._swap = rng, int(rng.integers(SEATS))
        self._state = self.game.new_initial_state()
        self._go_on()

    def observe(self, seat: int) -> npt.ArrayLike:
        """The game's tensor for the seat's player, then which player it is, one-hot."""
        player = self._player(seat)
        state = self._state
        seen = state.information_state_tensor(player) if self.has_memory else state.observation_tensor(player)
        return [*seen, player == 0, player == 1]

    def legal(self, seat: int) -> Sequence[int]:
        """The legal actions of the seat's player; the first of all where it has none while the other decides, too."""
        return list(self._state.legal_actions(self._player(seat))) or [0]

    def play(self, action: int) -> None:
        """The decision of one player."""
        self._state.apply_action(int(action))
        self._settle()

    def step(self, actions: tuple[int, int]) -> None:
        """Both players' decisions at once.

        Raises:
            MatchError: one player is to decide alone, in a game that was taken for one in which both always do.
        """
        if not self._state.is_simultaneous_node():
            raise MatchError("a player is to decide alone here, which no random match of the game had shown")
        players = [0, 0]
        for seat, action in enumerate(actions):
            player = self._player(seat)
            has_any = bool(self._state.legal_actions(player))
            players[player] = int(action) if has_any else pyspiel.INVALID_ACTION
        self._state.apply_actions(players)
        self._settle()

    def _player(self, seat: int) -> int:
        return seat ^ self._swap

    def _settle(self) -> None:
        """What the decision brought."""
        self._go_on()
        rewards = self._state.rewards()
        for seat in range(SEATS):
            if amount := rewards[self._player(seat)]:
                self.reward(seat, PAYOFF, float(amount))
        if self._state.is_terminal():
            first, second = (self._state.returns()[self._player(seat)] for seat in range(SEATS))
            self.end(None if first == second else int(second > first))

    def _go_on(self) -> None:
        """Draws what chance decides, and sees whose turn it is."""
        state = self._state
        while state.is_chance_node():
            outcomes, odds = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(outcomes[self._rng.choice(len(outcomes), p=np.array(odds) / sum(odds))]))
        is_alone = not state.is_terminal() and not state.is_simultaneous_node()
        self.to_move = self._player(state.current_player()) if is_alone else None


def open(rest: str) -> MatchGame:
    """The game that `openspiel:REST` names, `rest` being as `pyspiel.load_game` takes it.

    Raises:
        ConfigError: OpenSpiel has no such game, or it is of a kind that cannot be played here.
    """
    known = pyspiel.registered_names()
    name = rest.partition("(")[0]
    if name not in {*known, *SHORT}:
        raise ConfigError(f"env=openspiel:{rest}: OpenSpiel has no game {name!r}{nearest(name, known)}")
    try:
        with silent():
            game = pyspiel.load_game(SHORT.get(rest, rest))
    except pyspiel.SpielError as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"env=openspiel:{rest}: {reason}; mend its parameters") from None
    kind = game.get_type()
    wrong = _why_not(game, kind)
    if wrong:
        raise ConfigError(f"env=openspiel:{rest}: {wrong}; take a game of two players whose odds are told")
    has_memory = kind.provides_information_state_tensor
    shape = game.information_state_tensor_shape() if has_memory else game.observation_tensor_shape()
    highest = max(abs(game.min_utility()), abs(game.max_utility()), 1e-9)
    brought = {
        "rewards": {PAYOFF: 1.0 / highest, "win": 0.0},
        "agent": {"opponent_encoder": False},
    }
    found: Any = type(
        "OpenSpielMatch",
        (SpielMatch,),
        {
            "game": game,
            "has_memory": has_memory,
            "name": _name(game, kind),
            "obs_size": int(np.prod(shape)) + SEATS,
            "action": game.num_distinct_actions(),
            "defaults": brought,
            **_without(game, kind),
        },
    )
    found.__module__ = f"{__name__}.{_name(game, kind)}"
    made: MatchGame = found.as_game()
    return made


def _without(game: Any, kind: Any) -> dict[str, Any]:
    """The method that the game's matches do not have: in turns `step`, always at once `play`."""
    if kind.dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL:
        return {"step": Match.step}
    return {} if _has_turns(game) else {"play": Match.play}


def _has_turns(game: Any) -> bool:
    """Whether some decision of a game, of those met in random matches, is one player's alone."""
    rng, looks = np.random.default_rng(0), 0
    while looks < LOOKS:
        state = game.new_initial_state()
        while not state.is_terminal() and looks < LOOKS:
            looks += 1
            if state.is_simultaneous_node():
                legal = [state.legal_actions(player) or [pyspiel.INVALID_ACTION] for player in range(SEATS)]
                state.apply_actions([int(rng.choice(actions)) for actions in legal])
            elif state.is_chance_node():
                state.apply_action(int(rng.choice([outcome for outcome, _ in state.chance_outcomes()])))
            else:
                return True
    return False


def _why_not(game: Any, kind: Any) -> str:
    """Why a game cannot be played here; empty where it can."""
    if game.num_players() != SEATS:
        return f"it is for {game.num_players()} players"
    if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
        return "it is a mean-field game"
    if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
        return "it draws its chance by itself, so a match could not be played again"
    if not (kind.provides_information_state_tensor or kind.provides_observation_tensor):
        return "it shows no tensor"
    return ""


def _name(game: Any, kind: Any) -> str:
    """`openspiel-NAME`, with a mark of the parameters where there are any beside the usual ones."""
    canonical = str(game)
    mark = "" if canonical == f"{kind.short_name}()" else "-" + hashlib.sha256(canonical.encode()).hexdigest()[:8]
    return f"openspiel-{kind.short_name[:28]}{mark}"
