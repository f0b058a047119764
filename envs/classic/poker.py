"""Small limit poker for two, with any deck: the rules behind `kuhn` and `leduc`. Numpy only, every match at once.

Who is to act has the moves of the table; the other waits, with `wait` its only legal action. A player who does not
call loses what it staked. A raise calls first, then adds the round's bet; `call` without a bet to call is a check. What
is not legal counts as the first action that is: a fold or, without a bet to call, a check. From the second round on one
card lies open; at the showdown a pair with it wins, else the higher card.

In a match's first deal the match's seed draws which seat acts first; the seats take turns in that from deal to deal.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from league.envs.classic import drawings
from league.envs.drawing import Drawing
from league.types import SEATS, ActionSpec, FloatArray, GameSpec, GameTree, MatchBatch, Utility

ACTIONS = ("wait", "fold", "call", "raise")
WAIT, FOLD, CALL, RAISE = range(len(ACTIONS))
OVER = -1
"""In `Betting.mover`: the deal has ended."""
NOBODY = -1
"""In `Betting.folder`: the cards decide."""
ANTE = 1

MATCH = np.dtype(
    [
        ("seed", np.uint64),
        ("dealer", np.uint64),  # its random numbers
        ("streams", np.uint64, (SEATS,)),  # each seat's
        ("step", np.int32),  # steps played
        ("deal", np.int32),  # deals finished
        ("first", np.int32),  # the seat that acts first in this deal
        ("node", np.int32),  # of the betting
        ("cards", np.int32, (SEATS,)),  # ranks: of who acts first, of the other
        ("board", np.int32),  # rank of the open card, dealt from the start and shown later; 0 where there is none
        ("payoff", np.float64, (SEATS,)),  # of the finished deals, by seat
        ("counts", np.int32, (SEATS, 2)),  # raises and folds, by seat
    ]
)
"""The state of one match, as it lies in `get_state()` behind the header."""

Strategy = npt.NDArray[np.float64]
"""(P, ranks, ranks, 4): probability of each action by node of the betting, own rank and open card (0 if none)."""


@dataclass(frozen=True)
class PokerRules:
    """A game of this family. `bets`: what a raise adds, one figure a round; the open card comes before the second."""

    name: str
    ranks: int
    suits: int
    bets: tuple[int, ...]
    raises: int
    """Most raises of a round."""

    @property
    def slots(self) -> int:
        """The most actions of a round."""
        return self.raises + 2

    @property
    def half(self) -> int:
        """Size of one half of an observation."""
        return 2 * self.ranks + 3 * self.slots * len(self.bets) + 2


@dataclass(frozen=True)
class Betting:
    """All ways that the betting can go, as a tree of P nodes; a node comes before those that follow it."""

    mover: npt.NDArray[np.int64]  # (P,), 0: who acts first in the deal; OVER
    round: npt.NDArray[np.int64]  # (P,)
    child: npt.NDArray[np.int64]  # (P, 4), -1 where illegal
    parent: npt.NDArray[np.int64]  # (P,), -1 at the start
    action: npt.NDArray[np.int64]  # (P,), taken at the parent
    folder: npt.NDArray[np.int64]  # (P,), who folded, or NOBODY
    stakes: npt.NDArray[np.int64]  # (P, 2), chips in the pot, of who acts first and of the other
    history: FloatArray  # (P, 2, 3 slots rounds), each player's actions so far: fold, call, raise at each slot


@dataclass(frozen=True)
class _Place:
    """Where the betting stands."""

    round: int
    mover: int
    stakes: tuple[int, int]
    raises: int
    actions: tuple[tuple[int, int, int, int], ...]
    """(round, slot, player, action) of all so far."""
    folder: int = NOBODY

    def slot(self) -> int:
        return sum(action[0] == self.round for action in self.actions)


def betting(rules: PokerRules) -> Betting:
    """The betting of `rules`, worked out from what each action does."""
    places, parent, took, child = [_Place(0, 0, (ANTE, ANTE), 0, ())], [-1], [-1], []
    for number, place in enumerate(places):  # grows on the way
        children = [-1] * len(ACTIONS)
        for action in _legal(rules, place):
            children[action] = len(places)
            places.append(_after(rules, place, action))
            parent.append(number)
            took.append(action)
        child.append(children)
    history = np.zeros((len(places), SEATS, len(rules.bets), rules.slots, 3), np.float32)
    for number, place in enumerate(places):
        for at, slot, player, action in place.actions:
            history[number, player, at, slot, action - FOLD] = 1.0
    return Betting(
        mover=np.array([place.mover for place in places]),
        round=np.array([place.round for place in places]),
        child=np.array(child),
        parent=np.array(parent),
        action=np.array(took),
        folder=np.array([place.folder for place in places]),
        stakes=np.array([place.stakes for place in places]),
        history=history.reshape(len(places), SEATS, -1),
    )


def _legal(rules: PokerRules, place: _Place) -> list[int]:
    if place.mover == OVER:
        return []
    behind = place.stakes[place.mover] < place.stakes[1 - place.mover]
    return [FOLD] * behind + [CALL] + [RAISE] * (place.raises < rules.raises)


def _after(rules: PokerRules, place: _Place, action: int) -> _Place:
    """The node that `action` of the mover leads to."""
    mover, slot = place.mover, place.slot()
    actions = (*place.actions, (place.round, slot, mover, action))
    if action == FOLD:
        return _Place(place.round, OVER, place.stakes, place.raises, actions, mover)
    stake = place.stakes[1 - mover] + (rules.bets[place.round] if action == RAISE else 0)
    stakes = (stake, place.stakes[1]) if mover == 0 else (place.stakes[0], stake)
    if action == RAISE:
        return _Place(place.round, 1 - mover, stakes, place.raises + 1, actions)
    if slot == 0:  # a check that the other may still answer
        return _Place(place.round, 1 - mover, stakes, place.raises, actions)
    if place.round + 1 < len(rules.bets):
        return _Place(place.round + 1, 0, stakes, 0, actions)
    return _Place(place.round, OVER, stakes, place.raises, actions)


def deals(rules: PokerRules) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Ranks (D, 3) of who acts first, of the other and of the open card (0 if none), and their probabilities (D,)."""
    has_board = len(rules.bets) > 1
    ranks, ways = [], []
    for cards in product(range(rules.ranks), repeat=2 + has_board):
        taken = [cards[:i].count(card) for i, card in enumerate(cards)]
        number = int(np.prod([rules.suits - n for n in taken]))
        if number > 0:
            ranks.append((*cards, 0)[:3])
            ways.append(number)
    return np.array(ranks), np.array(ways) / sum(ways)


def gains(table: Betting, node: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64], has_board: bool) -> Strategy:
    """What the first to act wins (n,) at the ends `node` (n,) of deals `ranks` (n, 3); 0 at other nodes."""
    own, other, board = ranks.T
    higher = np.sign(own - other)
    paired = (own == board).astype(np.int64) - (other == board)
    better = np.where(has_board & (paired != 0), paired, higher)
    sign = np.select([table.folder[node] == 0, table.folder[node] == 1], [-1, 1], default=better)
    lost = np.where(sign > 0, table.stakes[node, 1], table.stakes[node, 0])
    return np.where(table.mover[node] == OVER, sign * lost, 0).astype(np.float64)


def view(
    rules: PokerRules,
    table: Betting,
    node: npt.NDArray[np.int64],
    player: npt.NDArray[np.int64],
    own: npt.NDArray[np.int64],
    board: npt.NDArray[np.int64],
) -> FloatArray:
    """What `player` (n,) sees at the nodes `node` (n,): (n, 2 half), its own half first.

    A half: own card (one-hot; zero for the opponent's, which is never shown), open card (one-hot, zero before it is
    shown), that player's actions (fold, call or raise at each slot of each round), whether it acts first in the deal,
    whether it is to move.
    """
    halves = []
    board_shown = (board[:, None] == np.arange(rules.ranks)) & (table.round[node] > 0)[:, None]
    for who in (player, 1 - player):
        card = (own[:, None] == np.arange(rules.ranks)) & (who is player)
        flags = np.stack([who == 0, table.mover[node] == who], axis=1)
        halves += [card, board_shown, table.history[node, who], flags]
    return np.concatenate(halves, axis=1, dtype=np.float32)


def game_tree(rules: PokerRules) -> GameTree:
    """One deal as a tree: a root for each way to deal, below it the betting. Suits do not matter and are left out."""
    table, (ranks, probability) = betting(rules), deals(rules)
    num_places, num_deals = len(table.mover), len(ranks)
    node = np.tile(np.arange(num_places), num_deals)
    deal = np.repeat(np.arange(num_deals), num_places)
    start = deal * num_places
    player = table.mover[node]
    own = ranks[deal, np.maximum(player, 0)]
    board = np.where(table.round[node] > 0, ranks[deal, 2], 0)
    keys = np.stack([node, own, board], axis=1)
    moves = player != OVER
    known, infoset = np.unique(keys[moves], axis=0, return_inverse=True)
    infosets = np.full(len(node), -1)
    infosets[moves] = infoset.ravel()
    paths = [_path(table, place) for place in known[:, 0]]
    longest = max(map(len, paths))
    obs = np.zeros((len(known), longest, 2 * rules.half), np.float32)
    for i, ((place, card, open_card), path) in enumerate(zip(known, paths, strict=True)):
        same = np.ones(len(path), np.int64)
        seen = view(rules, table, np.array(path), same * table.mover[place], same * card, same * open_card)
        obs[i, : len(path)] = seen
    return GameTree(
        parent=np.where(table.parent[node] < 0, -1, start + table.parent[node]),
        action=table.action[node],
        player=player,
        infoset=infosets,
        chance=probability[deal],
        payoff=gains(table, node, ranks[deal], len(rules.bets) > 1),
        legal=table.child[known[:, 0]] >= 0,
        obs=obs,
        length=np.array([len(path) for path in paths]),
    )


def _path(table: Betting, place: int) -> list[int]:
    """The nodes from the start to `place`."""
    path = [place]
    while table.parent[path[0]] >= 0:
        path.insert(0, int(table.parent[path[0]]))
    return path


BOT_MEANINGS = {
    "fold": "folds where it can, else checks",
    "call": "calls where it can, else checks; never bets",
    "random": "any legal action, each as likely",
}


def simple_bots(rules: PokerRules, table: Betting) -> dict[str, Strategy]:
    """Bots that every game of the family has: `fold` (folds where it can, else checks), `call`, `random`."""
    legal = (table.child >= 0).astype(np.float64)
    legal[table.mover == OVER, WAIT] = 1.0
    random = legal / legal.sum(axis=1, keepdims=True)
    shape = (len(legal), rules.ranks, rules.ranks, len(ACTIONS))
    bots = {"fold": np.eye(len(ACTIONS))[legal.argmax(axis=1)], "call": np.eye(len(ACTIONS))[_calls(legal)]}
    return {name: np.broadcast_to(bot[:, None, None, :], shape) for name, bot in (bots | {"random": random}).items()}


def _calls(legal: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    return np.where(legal[:, CALL] > 0, CALL, legal.argmax(axis=1))


def make_spec(rules: PokerRules, bots: tuple[str, ...], deals: int) -> GameSpec:
    """The figures of a match of `deals` deals; `view` says what is observed."""
    return GameSpec(
        name=rules.name,
        version=1,
        obs_size=2 * rules.half,
        opponent_slice=(rules.half, 2 * rules.half),
        obs_range=(0.0, 1.0),
        action=ActionSpec("multi_discrete", (len(ACTIONS),)),
        reward_terms=("payoff", "win"),
        metrics=("payoff", "raises", "folds"),
        end_reasons=("deals",),
        bots=bots,
        tick_rate=1.0,
        floor="random",
        imperfect_information=True,
        utility=Utility("payoff", float(deals * betting(rules).stakes.max())),
    )


def drawing(batch: MatchBatch, row: int, seat: int | None = None) -> Drawing:
    """A row as it stands, as shapes; for a seat without the other's card."""
    return drawings.poker(batch, row, seat)
