"""Small limit poker for two, with any deck: the rules behind `kuhn` and `leduc`. Numpy only, every match at once.

Who is to act has the moves of the table; the other waits, with `wait` its only legal action. A player who does not
call loses what it staked. A raise calls first, then adds the round's bet; `call` without a bet to call is a check. What
is not legal counts as the first action that is: a fold or, without a bet to call, a check. From the second round on one
card lies open; at the showdown a pair with it wins, else the higher card.

In a match's first deal the match's seed draws which seat acts first; the seats take turns in that from deal to deal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from league.envs.classic import drawings
from league.envs.classic.shared import (
    GOLDEN,
    UInts,
    digest,
    mix64,
    need_possible,
    pack,
    regroup,
    row_seeds,
    streams,
    uniform,
    unpack,
)
from league.envs.drawing import Drawing
from league.types import DRAW, EXTERNAL, SEATS, ActionSpec, FloatArray, GameSpec, GameTree, Utility, result_dtype

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


def drawing(batch: PokerBatch, row: int, seat: int | None = None) -> Drawing:
    """A row as it stands, as shapes; for a seat without the other's card."""
    return drawings.poker(batch, row, seat)


class PokerBatch:
    """`MatchBatch` of a poker game; the fields are described there.

    Args:
        rows: matches.
        rules: the game.
        bots: name -> strategy, in the order of the spec's bots.
        options: those of the game, for the state's digest.
        deals: deals of a match.
    """

    def __init__(self, rows: int, rules: PokerRules, bots: dict[str, Strategy], options: BaseModel, deals: int) -> None:
        self.spec = make_spec(rules, tuple(bots), deals)
        self.num_rows = rows
        self._rules, self._table, self._deals = rules, betting(rules), deals
        self._bots = np.cumsum(np.stack(list(bots.values())), axis=-1)
        self._magic = rules.name.encode().ljust(7)[:7] + b"1"
        self._digest = digest(options)
        self._match = np.zeros(rows, MATCH)
        self._row = np.arange(rows)
        self.obs = np.zeros((rows, SEATS, self.spec.obs_size), np.float32)
        self.final_obs = np.zeros_like(self.obs)
        self.mask = np.zeros((rows, SEATS, len(ACTIONS)), np.bool_)
        self.actions = np.zeros((rows, SEATS, 1), np.int32)
        self.reward_terms = np.zeros((rows, SEATS, len(self.spec.reward_terms)), np.float32)
        self.terminated = np.zeros(rows, np.bool_)
        self.truncated = np.zeros(rows, np.bool_)
        self.result = np.zeros(rows, result_dtype(len(self.spec.metrics)))
        self.controllers = np.full((rows, SEATS), EXTERNAL, np.int16)
        self.reset(0)

    def reset(self, seed: int | UInts) -> None:
        """Starts a new match in every row: row i from a seed derived from (`seed`, i), or from `seed[i]` itself."""
        self._start(np.ones(self.num_rows, np.bool_), row_seeds(seed, self.num_rows))
        self.terminated[:] = self.truncated[:] = False
        self._observe(self.obs)

    def step(self) -> None:
        """One action of the acting seat, in every match.

        Raises:
            ValueError: an action, or a bot's id, that the game does not have.
        """
        match, table = self._match, self._table
        mover = self._seat(table.mover[match["node"]])
        action = self._choose()[self._row, mover]
        match["counts"][self._row, mover] += np.stack([action == RAISE, action == FOLD], axis=1)
        match["node"] = table.child[match["node"], action]
        match["step"] += 1

        over = table.mover[match["node"]] == OVER
        ranks = np.concatenate([match["cards"], match["board"][:, None]], axis=1).astype(np.int64)
        gain = gains(table, match["node"].astype(np.int64), ranks, len(self._rules.bets) > 1)
        payoff = np.where(match["first"] == 0, gain, -gain)[:, None] * np.array([1.0, -1.0])
        match["payoff"] += payoff
        match["deal"] += over
        ended = match["deal"] >= self._deals
        lead = np.sign(match["payoff"][:, 0]).astype(np.int8)
        self.reward_terms[:, :, 0] = payoff
        self.reward_terms[:, :, 1] = np.where(ended, lead, 0)[:, None] * np.array([1, -1])
        self.terminated[:] = ended
        self._observe(self.obs)
        if over.any():
            self.final_obs[ended] = self.obs[ended]
            self._write_result(ended, lead)
            match["first"] = np.where(over, 1 - match["first"], match["first"])
            self._deal(over & ~ended)
            self._start(ended, mix64(match["seed"] + GOLDEN))
            self._observe(self.obs)

    def facts(self, row: int) -> dict[str, Any]:
        """What can be drawn of a row: cards, stakes and winnings by seat, who is to move, what was said."""
        match, table = self._match[row], self._table
        node, first = int(match["node"]), int(match["first"])
        roles = [int(seat != first) for seat in range(SEATS)]
        said, place = [], node
        while table.parent[place] >= 0:
            role = int(table.mover[table.parent[place]])
            said.append(f"{role if first == 0 else 1 - role}: {ACTIONS[int(table.action[place])]}")
            place = int(table.parent[place])
        return {
            "cards": [int(match["cards"][role]) for role in roles],
            "stakes": [int(table.stakes[node][role]) for role in roles],
            "won": match["payoff"].tolist(),
            "board": int(match["board"]) if table.round[node] > 0 else None,
            "mover": int(self._seat(table.mover[self._match["node"]])[row]),
            "said": ", ".join(said[::-1]),
            "deal": int(match["deal"]),
            "deals": self._deals,
        }

    def get_state(self) -> bytes:
        """Header, matches, controllers."""
        return pack(self._magic, self._digest, self._match, self.controllers)

    def set_state(self, state: bytes) -> None:
        """Restores `get_state()` of a batch with the same options and rows.

        Raises:
            ValueError: the blob is damaged or of another game, version, options or size; nothing is changed.
        """
        unpack(state, self._magic, self._digest, self._match, self.controllers, self._check)
        self._observe(self.obs)

    def regroup(self, states: Sequence[bytes], num_rows: Sequence[int]) -> list[bytes]:
        """The matches of `states`, in their order, as states of batches of `num_rows` rows each.

        Raises:
            ValueError: a blob is damaged or of another game, version or options, or the rows differ in number.
        """
        return regroup(states, num_rows, self._magic, self._digest, self._match.dtype)

    def _check(self, match: npt.NDArray[Any], controllers: npt.NDArray[np.int16]) -> None:
        """Refuses values that no match of these options can have."""
        node, ranks = match["node"], self._rules.ranks
        is_place = (node >= 0) & (node < len(self._table.mover))
        need_possible(
            step=match["step"] >= 0,
            deal=(match["deal"] >= 0) & (match["deal"] < self._deals),
            first=(match["first"] >= 0) & (match["first"] < SEATS),
            node=is_place & (self._table.mover[np.where(is_place, node, 0)] != OVER),
            cards=(match["cards"] >= 0) & (match["cards"] < ranks),
            board=(match["board"] >= 0) & (match["board"] < ranks),
            payoff=np.isfinite(match["payoff"]),
            counts=match["counts"] >= 0,
            controllers=((controllers >= 0) & (controllers < len(self.spec.bots))) | (controllers == EXTERNAL),
        )

    def _start(self, which: npt.NDArray[np.bool_], seeds: UInts) -> None:
        fresh = np.zeros(self.num_rows, MATCH)
        fresh["seed"] = seeds
        drawn = streams(seeds, SEATS + 1)
        fresh["streams"], fresh["dealer"] = drawn[:, :SEATS], drawn[:, SEATS]
        fresh["first"] = uniform(fresh["dealer"], np.zeros(self.num_rows)) < 0.5
        self._match[which] = fresh[which]
        self._deal(which)

    def _deal(self, which: npt.NDArray[np.bool_]) -> None:
        """New cards and betting in the rows `which`: a Fisher-Yates shuffle of the deck's first three."""
        match, size = self._match, self._rules.ranks * self._rules.suits
        deck = np.tile(np.arange(size), (self.num_rows, 1))
        for place in range(min(3, size)):
            unit = uniform(match["dealer"], 3 * match["deal"] + place + 1)
            other = place + np.floor(unit * (size - place)).astype(np.int64)
            deck[self._row, place], deck[self._row, other] = deck[self._row, other], deck[self._row, place].copy()
        ranks = deck // self._rules.suits
        match["cards"][which] = ranks[which, :2]
        match["board"][which] = ranks[which, 2] if len(self._rules.bets) > 1 else 0
        match["node"][which] = 0

    def _seat(self, player: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The seat (B,) of a role; the first seat's where the deal is over."""
        return np.where(player == 1, 1 - self._match["first"], self._match["first"]).astype(np.int64)

    def _choose(self) -> npt.NDArray[np.int32]:
        """The legal action of each seat (B, 2): the engine's, or the bot's."""
        match = self._match
        by_engine = self.controllers == EXTERNAL
        if (self.controllers[~by_engine] < 0).any() or (self.controllers >= len(self._bots)).any():
            raise ValueError(f"a controller is no bot of this game: ids are 0 to {len(self._bots) - 1}, or EXTERNAL")
        given = self.actions[:, :, 0]
        if ((given < 0) | (given >= len(ACTIONS)))[by_engine].any():
            raise ValueError(f"an action is outside 0 to {len(ACTIONS) - 1}")
        unit = uniform(match["streams"], match["step"][:, None])
        role = np.arange(SEATS) != match["first"][:, None]
        shown = np.where(self._table.round[match["node"]] > 0, match["board"], 0)[:, None]
        own = np.take_along_axis(match["cards"], role.astype(np.int64), axis=1)
        chances = self._bots[np.maximum(self.controllers, 0), match["node"][:, None], own, shown]
        drawn = (unit[:, :, None] * chances[:, :, -1:] >= chances).sum(axis=2)
        chosen = np.where(by_engine, given, drawn)[:, :, None]
        is_legal = np.take_along_axis(self.mask, chosen, axis=2)
        return np.where(is_legal, chosen, self.mask.argmax(axis=2, keepdims=True))[:, :, 0].astype(np.int32)

    def _observe(self, out: FloatArray) -> None:
        """Writes what both seats see (B, 2, 2 half), and what is legal."""
        match, table = self._match, self._table
        node, board = match["node"].astype(np.int64), match["board"].astype(np.int64)
        self.mask[:] = False
        for seat in range(SEATS):
            role = (match["first"] != seat).astype(np.int64)
            own = match["cards"][self._row, role].astype(np.int64)
            out[:, seat] = view(self._rules, table, node, role, own, board)
            moves = (table.mover[node] == role)[:, None]
            self.mask[:, seat] = np.where(moves, table.child[node] >= 0, np.arange(len(ACTIONS)) == WAIT)

    def _write_result(self, ended: npt.NDArray[np.bool_], lead: npt.NDArray[np.int8]) -> None:
        match = self._match[ended]
        result: npt.NDArray[Any] = np.zeros(int(ended.sum()), self.result.dtype)
        result["winner"] = np.select([lead[ended] > 0, lead[ended] < 0], [0, 1], default=DRAW)
        result["ticks"] = match["step"]
        result["seed"] = match["seed"]
        result["metrics"][:, :, 0] = match["payoff"]
        result["metrics"][:, :, 1:] = match["counts"]
        self.result[ended] = result
