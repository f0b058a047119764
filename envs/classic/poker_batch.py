"""Many matches of small poker, stepped at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from league.envs.arrays import ArrayBatch, Rows, UInts, streams, uniform
from league.envs.classic.poker import (
    ACTIONS,
    FOLD,
    MATCH,
    OVER,
    RAISE,
    WAIT,
    PokerRules,
    Strategy,
    betting,
    gains,
    make_spec,
    view,
)
from league.types import DRAW, SEATS, BoolArray, Mask


class PokerBatch(ArrayBatch):
    """The matches of a poker game.

    Args:
        rows: matches.
        rules: the game.
        bots: name -> strategy, in the order of the spec's bots.
        options: those of the game.
        deals: deals of a match.
    """

    mask: Mask

    def __init__(self, rows: int, rules: PokerRules, bots: dict[str, Strategy], options: BaseModel, deals: int) -> None:
        self._rules, self._table, self._deals = rules, betting(rules), deals
        self._bots = np.cumsum(np.stack(list(bots.values())), axis=-1)
        self._row = np.arange(rows)
        super().__init__(make_spec(rules, tuple(bots), deals), rows, MATCH, options)

    def step(self) -> None:
        """One action of the acting seat, in every match.

        Raises:
            ValueError: an action, or a bot's id, that the game does not have.
        """
        match, table = self.match, self._table
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
        self.show()
        if over.any():
            match["first"] = np.where(over, 1 - match["first"], match["first"])
            self._deal(np.flatnonzero(over & ~ended))
            self._finish(np.flatnonzero(ended), lead)
            self.show()

    def facts(self, row: int) -> dict[str, Any]:
        """What can be drawn of a row: cards, stakes and winnings by seat, who is to move, what was said."""
        match, table = self.match[row], self._table
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
            "mover": int(self._seat(table.mover[self.match["node"]])[row]),
            "said": ", ".join(said[::-1]),
            "deal": int(match["deal"]),
            "deals": self._deals,
        }

    def begin(self, rows: Rows, seeds: UInts) -> None:
        """See `ArrayBatch.begin`."""
        fresh = np.zeros(len(rows), MATCH)
        fresh["seed"] = seeds
        drawn = streams(seeds, SEATS + 1)
        fresh["streams"], fresh["dealer"] = drawn[:, :SEATS], drawn[:, SEATS]
        fresh["first"] = uniform(fresh["dealer"], np.zeros(len(rows))) < 0.5
        self.match[rows] = fresh
        self._deal(rows)

    def show(self) -> None:
        """Writes what both seats see (B, 2, 2 half), and what is legal."""
        match, table = self.match, self._table
        node, board = match["node"].astype(np.int64), match["board"].astype(np.int64)
        for seat in range(SEATS):
            role = (match["first"] != seat).astype(np.int64)
            own = match["cards"][self._row, role].astype(np.int64)
            self.obs[:, seat] = view(self._rules, table, node, role, own, board)
            moves = (table.mover[node] == role)[:, None]
            self.mask[:, seat] = np.where(moves, table.child[node] >= 0, np.arange(len(ACTIONS)) == WAIT)

    def possible(self, match: npt.NDArray[Any]) -> dict[str, BoolArray]:
        """See `ArrayBatch.possible`."""
        node, ranks = match["node"], self._rules.ranks
        is_place = (node >= 0) & (node < len(self._table.mover))
        return {
            "step": match["step"] >= 0,
            "deal": (match["deal"] >= 0) & (match["deal"] < self._deals),
            "first": (match["first"] >= 0) & (match["first"] < SEATS),
            "node": is_place & (self._table.mover[np.where(is_place, node, 0)] != OVER),
            "cards": (match["cards"] >= 0) & (match["cards"] < ranks),
            "board": (match["board"] >= 0) & (match["board"] < ranks),
            "payoff": np.isfinite(match["payoff"]),
            "counts": match["counts"] >= 0,
        }

    def _deal(self, rows: Rows) -> None:
        """New cards and betting in `rows`: a Fisher-Yates shuffle of the deck's first three."""
        match, size = self.match[rows], self._rules.ranks * self._rules.suits
        deck, row = np.tile(np.arange(size), (len(rows), 1)), np.arange(len(rows))
        for place in range(min(3, size)):
            unit = uniform(match["dealer"], 3 * match["deal"] + place + 1)
            other = place + np.floor(unit * (size - place)).astype(np.int64)
            deck[row, place], deck[row, other] = deck[row, other], deck[row, place].copy()
        ranks = deck // self._rules.suits
        self.match["cards"][rows] = ranks[:, :2]
        self.match["board"][rows] = ranks[:, 2] if len(self._rules.bets) > 1 else 0
        self.match["node"][rows] = 0

    def _seat(self, player: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The seat (B,) of a role; the first seat's where the deal is over."""
        return np.where(player == 1, 1 - self.match["first"], self.match["first"]).astype(np.int64)

    def _choose(self) -> npt.NDArray[np.int32]:
        """The legal action of each seat (B, 2): the engine's, or the bot's."""
        match = self.match
        by_engine = self.by_engine()
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
        action = np.where(is_legal, chosen, self.mask.argmax(axis=2, keepdims=True))
        np.copyto(self.actions, action, where=~by_engine[:, :, None], casting="unsafe")
        return action[:, :, 0].astype(np.int32)

    def _finish(self, rows: Rows, lead: npt.NDArray[np.int8]) -> None:
        match, lead = self.match[rows], lead[rows]
        self.finish(
            rows,
            winner=np.select([lead > 0, lead < 0], [0, 1], default=DRAW),
            ticks=match["step"],
            metrics=np.concatenate([match["payoff"][:, :, None], match["counts"]], axis=2),
        )
