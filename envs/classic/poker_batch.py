"""Many matches of small poker, stepped at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

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
from league.types import DRAW, EXTERNAL, SEATS, FloatArray, result_dtype


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
        action = np.where(is_legal, chosen, self.mask.argmax(axis=2, keepdims=True))
        np.copyto(self.actions, action, where=~by_engine[:, :, None], casting="unsafe")
        return action[:, :, 0].astype(np.int32)

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
