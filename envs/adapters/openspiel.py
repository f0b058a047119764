"""Games of OpenSpiel (Lanctot et al. 2019, arXiv:1908.09453): `openspiel:kuhn_poker`, `openspiel:leduc_poker(...)`.

Games of two players, in turns, at once or both, with whatever chance the game tells the odds of. A seat sees the game's
information state where there is one, else its observation, and which player it is. A tensor of three axes is a board
(`spielboards.py`). Which seat is player 0 is drawn by the match's seed, so that seats are fair. Repeated rock, paper,
scissors has bots of its own (`spielbots.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyspiel
from pydantic import BaseModel

from league.envs.adapters.isolation import silent
from league.envs.adapters.probing import reason
from league.envs.adapters.spielboards import board_of, cells_of, parts_of
from league.envs.adapters.spielbots import players_of
from league.envs.adapters.spieltrees import grow
from league.envs.matches.match import Match, MatchGame
from league.envs.matches.row import MatchError
from league.errors import ConfigError, nearest
from league.types import BOT_PREFIX, SEATS, ActionSpec, GameTree, Utility
from league.types.observations import slices_of
from league.types.spaces import LARGE

PAYOFF = "payoff"
"""The reward term of what the game pays."""
REPEATED_RPS = "repeated_rps"
SHORT = {REPEATED_RPS: "repeated_game(stage_game=matrix_rps(),num_repetitions=1000,recall=1)"}
"""Games of which many speak, by a shorter name."""
THROWS = 3
LOOKS = 2_000
"""Decisions of random matches that tell whether a game has turns."""
LOOKS_INTO = 200
"""Of these, those that tell which numbers are large."""
_TENSORS = "observation_tensor", "information_state_tensor"
OBS_BOUND = 1e6
"""Of what is observed: OpenSpiel gives no bounds."""


class SpielMatch(Match):
    """One match of a game of OpenSpiel; `open` makes a subclass for each game."""

    game: ClassVar[Any]
    """The `pyspiel.Game`."""
    tensor: ClassVar[str]
    """The method of a state that gives what a player sees."""
    planes: ClassVar[tuple[int, int, int] | None]
    """(planes, rows, columns) of the tensor; None where it is no board."""
    reward_terms = (PAYOFF,)
    obs_range = (-OBS_BOUND, OBS_BOUND)

    def reset(self, rng: np.random.Generator) -> None:
        """Begins a match; which seat is which player is drawn first."""
        self._rng, self._swap = rng, int(rng.integers(SEATS))
        self._state = self.game.new_initial_state()
        self._go_on()

    @property
    def state(self) -> Any:
        """The `pyspiel.State`."""
        return self._state

    def player_of(self, seat: int) -> int:
        """Which player of the game a seat is in this match."""
        return seat ^ self._swap

    def observe(self, seat: int) -> npt.ArrayLike:
        """The game's tensor for the seat's player, a board's planes last, then which player it is, one-hot."""
        player = self.player_of(seat)
        seen = getattr(self._state, self.tensor)(player)
        if self.planes is not None:
            seen = np.array(seen, np.float32).reshape(self.planes[0], -1).T.ravel()
        return np.concatenate((seen, (player == 0, player == 1)), dtype=np.float32)

    def legal(self, seat: int) -> Sequence[int]:
        """The legal actions of the seat's player; the first of all where it has none while the other decides, too."""
        return list(self._state.legal_actions(self.player_of(seat))) or [0]

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
            player = self.player_of(seat)
            has_any = bool(self._state.legal_actions(player))
            players[player] = int(action) if has_any else pyspiel.INVALID_ACTION
        self._state.apply_actions(players)
        self._settle()

    def _settle(self) -> None:
        """What the decision brought."""
        self._go_on()
        rewards = self._state.rewards()
        for seat in range(SEATS):
            if amount := rewards[self.player_of(seat)]:
                self.reward(seat, PAYOFF, float(amount))
        if self._state.is_terminal():
            first, second = (self._state.returns()[self.player_of(seat)] for seat in range(SEATS))
            self.end(None if first == second else int(second > first))

    def _go_on(self) -> None:
        """Draws what chance decides, and sees whose turn it is."""
        state = self._state
        while state.is_chance_node():
            outcomes, odds = zip(*state.chance_outcomes(), strict=True)
            state.apply_action(int(outcomes[self._rng.choice(len(outcomes), p=np.array(odds) / sum(odds))]))
        is_alone = not state.is_terminal() and not state.is_simultaneous_node()
        self.to_move = self.player_of(state.current_player()) if is_alone else None


class RepeatedRps(SpielMatch):
    """Rock, paper, scissors again and again: a seat sees its own last throw, then the other's, both zero at first.

    That is what OpenSpiel's observation with recall 1 shows, in the order of the seat.
    """

    opponent_slice = (0, 2 * THROWS)
    """Both throws are public, and what a bot throws follows from both."""
    metrics = (PAYOFF,)

    legal = Match.legal

    def reset(self, rng: np.random.Generator) -> None:
        """Begins a match."""
        self._last: tuple[list[float], list[float]] = ([0.0] * THROWS, [0.0] * THROWS)
        super().reset(rng)

    def observe(self, seat: int) -> npt.ArrayLike:
        """The last throws, each one-hot."""
        return [*self._last[seat], *self._last[1 - seat]]

    def step(self, actions: tuple[int, int]) -> None:
        """Both throws."""
        super().step(actions)
        own, other = ([float(throw == action) for throw in range(THROWS)] for action in actions)
        self._last = (own, other)
        if self.is_over:
            for seat, player in enumerate((self.player_of(0), self.player_of(1))):
                self.measure(seat, PAYOFF, self._state.returns()[player])


def open(rest: str) -> MatchGame:
    """The game that `openspiel:REST` names, `rest` being as `pyspiel.load_game` takes it.

    Raises:
        ConfigError: OpenSpiel has no such game, or it is of a kind that cannot be played here.
    """
    names = pyspiel.registered_names()
    name = rest.partition("(")[0]
    if name not in {*names, *SHORT}:
        raise ConfigError(f"env=openspiel:{rest}: OpenSpiel has no game {name!r}{nearest(name, names)}")
    if name in SHORT and rest != name:
        raise ConfigError(f"env=openspiel:{rest}: {name} is short for {SHORT[name]}; write that with other parameters")
    try:
        with silent():
            game = pyspiel.load_game(SHORT.get(rest, rest))
            kind = game.get_type()
            wrong = _why_not(game, kind)
            has_turns = not wrong and _has_turns(game)
            unbounded = () if wrong else _unbounded(game, kind)
    except Exception as error:  # a SpielError, or what the games' own code raises, of C++ and of Python
        known = next(kind for kind in pyspiel.registered_games() if kind.short_name == name)
        own = ", ".join(known.parameter_specification) or "none"
        raise ConfigError(
            f"env=openspiel:{rest}: {reason(error)}; mend its parameters, NAME(key=value,...): {own}"
        ) from None
    if wrong:
        raise ConfigError(f"env=openspiel:{rest}: {wrong}; take a game of two players whose odds are told")
    is_rps = rest == REPEATED_RPS
    players = players_of(game)
    brought = {
        "name": f"openspiel-{REPEATED_RPS}" if is_rps else _name(game, kind),
        "game": game,
        "tensor": _TENSORS[kind.provides_information_state_tensor],
        "obs_size": 2 * THROWS if is_rps else _tensor_size(game, kind) + SEATS,
        "unbounded": () if is_rps else unbounded,
        "action": game.num_distinct_actions(),
        **_board(game, kind, unbounded),
        "players": players,
        "utility": _utility(game, kind),
        "imperfect_information": _is_imperfect(kind),
        "defaults": _rps_defaults(players) if is_rps else _defaults(players),
        **_without(kind, has_turns),
    }
    found: Any = type("OpenSpielMatch", (RepeatedRps if is_rps else SpielMatch,), brought)
    found.__module__ = f"{__name__}.{brought['name']}"
    made: MatchGame = found.as_game()

    def tree(options: BaseModel) -> GameTree:
        try:
            return grow(game)
        except ValueError as error:
            raise ValueError(f"env=openspiel:{rest}: {error}") from None

    made.tree = tree
    return made


def _is_imperfect(kind: pyspiel.GameType) -> bool:
    """Whether a player decides without knowing all of the state, the other's decision at the same time included."""
    is_at_once = kind.dynamics == pyspiel.GameType.Dynamics.SIMULTANEOUS
    return bool(is_at_once or kind.information == pyspiel.GameType.Information.IMPERFECT_INFORMATION)


def _defaults(players: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a run of any game."""
    return {
        **({"pool": _rps_pool(players)} if players else {}),
        "rewards": {PAYOFF: 1.0, "win": 0.0},
        "agent": {"opponent_encoder": False},
    }


def _utility(game: Any, kind: Any) -> Utility | None:
    """What the game pays; None where that is 1 for a win and -1 for a loss."""
    least, most = float(game.min_utility()), float(game.max_utility())
    is_won = kind.utility == pyspiel.GameType.Utility.ZERO_SUM and (least, most) == (-1.0, 1.0)
    return None if is_won else Utility(PAYOFF, (most - least) / 2.0 or None)


def _rps_defaults(players: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a run of repeated rock, paper, scissors: what counts are the next throws, against bots above all."""
    return {
        "rewards": {PAYOFF: 1.0, "win": 0.0},
        "agent": {"history_frames": 32},
        "learner": {"gamma": 0.9},
        "pool": _rps_pool(players),
    }


def _rps_pool(players: Mapping[str, Any]) -> dict[str, Any]:
    """The bots of the competition as one group, where this OpenSpiel has them."""
    if not players:
        return {"mix": {"self_play": 0.8, f"{BOT_PREFIX}random": 0.2}}
    return {"mix": {"self_play": 0.2, "roshambo": 0.8}, "groups": {"roshambo": [BOT_PREFIX + bot for bot in players]}}


def _without(kind: Any, has_turns: bool) -> dict[str, Any]:
    """The method that the game's matches do not have: in turns `step`, always at once `play`."""
    if kind.dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL:
        return {"step": Match.step}
    return {} if has_turns else {"play": Match.play}


def _met(game: Any) -> Iterator[Any]:
    """The states in which somebody decides, of `LOOKS` decisions in random matches of a game.

    Raises:
        ValueError: a match has no decision.
    """
    rng, looks, before = np.random.default_rng(0), 0, -1
    while looks < LOOKS:
        if looks == before:
            raise ValueError("a match of it is over before anybody decides")
        state, before = game.new_initial_state(), looks
        while not state.is_terminal() and looks < LOOKS:
            if state.is_chance_node():
                state.apply_action(int(rng.choice([outcome for outcome, _ in state.chance_outcomes()])))
                continue
            yield state
            looks += 1
            if state.is_simultaneous_node():
                legal = [state.legal_actions(player) or [pyspiel.INVALID_ACTION] for player in range(SEATS)]
                state.apply_actions([int(rng.choice(actions)) for actions in legal])
            else:
                state.apply_action(int(rng.choice(state.legal_actions())))


def _has_turns(game: Any) -> bool:
    """Whether some decision of a game, of those met in random matches, is one player's alone."""
    return any(not state.is_simultaneous_node() for state in _met(game))


def _unbounded(game: Any, kind: Any) -> tuple[tuple[int, int], ...]:
    """The numbers of a player's tensor that the network standardises, told by random matches.

    Of a board those that are large; of a flat tensor all that take other values than 0 and 1, since shares, such as
    Oware's seeds of 48, are as small as large numbers are large.
    """
    tensor = _TENSORS[kind.provides_information_state_tensor]
    is_board = board_of(_tensor_shape(game, kind)) is not None
    found = np.zeros(_tensor_size(game, kind), np.bool_)
    for state in islice(_met(game), LOOKS_INTO):
        for player in range(SEATS):
            seen = np.abs(getattr(state, tensor)(player))
            found |= seen > LARGE if is_board else (seen != 0) & (seen != 1)
    return slices_of(found)


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
    if game.num_distinct_actions() < 2 or _tensor_size(game, kind) < 1:
        return "it has fewer than two actions, or a tensor without numbers"
    return ""


def _tensor_size(game: Any, kind: Any) -> int:
    """How many numbers a player sees."""
    return int(np.prod(_tensor_shape(game, kind)))


def _tensor_shape(game: Any, kind: Any) -> list[int]:
    has_memory = kind.provides_information_state_tensor
    return list(game.information_state_tensor_shape() if has_memory else game.observation_tensor_shape())


def _board(game: Any, kind: Any, unbounded: tuple[tuple[int, int], ...]) -> dict[str, Any]:
    """What a match says of the game's board; large numbers are none, since only `numbers` are standardised."""
    board = board_of(_tensor_shape(game, kind))
    if board is None or unbounded:
        return {"planes": None}
    found = {"planes": board, "observation": parts_of(board)}
    cells = cells_of(game, board, _TENSORS[kind.provides_information_state_tensor])
    return found | ({"action": ActionSpec("multi_discrete", (len(cells),), pointers=cells)} if cells else {})


def _name(game: Any, kind: Any) -> str:
    """`openspiel-NAME`, with a mark of the parameters where there are any beside the usual ones."""
    canonical = str(game)
    mark = "" if canonical == f"{kind.short_name}()" else "-" + hashlib.sha256(canonical.encode()).hexdigest()[:8]
    return f"openspiel-{kind.short_name[:28]}{mark}"
