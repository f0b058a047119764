"""One match of two agents, played step by step and recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from league.arena.agents import Meeting, Named
from league.arena.own_bots import players
from league.envs import registry
from league.errors import UsageError, code_told
from league.play.bots import BotPolicy
from league.play.courses import MAX_STEPS
from league.play.histories import forfeited_rows
from league.play.recording import Tape
from league.play.seats import forfeited, match_result
from league.runtime.phases import phase
from league.runtime.process import settings_kept
from league.snapshots.agent import Agent
from league.types import BOT_PREFIX, Closing, FloatArray, Mask, MatchResult, Turns

NOBODY = "import:person"


class SeatPlayer(Protocol):
    """Who decides for a seat: an `Agent`, or a bot."""

    def act(self, obs: FloatArray, mask: Mask | None, *, greedy: bool = False) -> npt.NDArray[Any]:
        """The action (A,) for what its seat sees and may do; a network's likeliest one if `greedy`."""

    def watch(self, obs: FloatArray) -> None:
        """What its seat sees while it waits on, in a game in turns."""


class BotPlayer:
    """A bot in Python or a program in a seat, on a CPU."""

    def __init__(self, bot: BotPolicy, seed: int, seat: int = 0) -> None:
        self._bot, self._state = bot, bot.initial_state(1)
        drawn = np.random.SeedSequence([seed, seat]).generate_state(1, np.uint64)
        self._generator = torch.Generator().manual_seed(int(drawn[0] >> np.uint64(1)))

    @property
    def has_forfeited(self) -> bool:
        """Whether it has forfeited the match."""
        rows = forfeited_rows(self._state)
        return rows is not None and bool(rows[0])

    def act(self, obs: FloatArray, mask: Mask | None, *, greedy: bool = False) -> npt.NDArray[Any]:
        """See `SeatPlayer.act`."""
        seen, legal = torch.tensor(obs)[None], None if mask is None else torch.tensor(mask)[None]
        actions, _, _ = self._bot.step(seen, self._state, mask=legal, generator=self._generator)
        return np.asarray(actions[0].numpy())

    def watch(self, obs: FloatArray) -> None:
        """See `SeatPlayer.watch`."""
        self._bot.watch(torch.tensor(obs)[None], self._state)


class Bout:
    """A match under way in a batch of one row, with its tape.

    Args:
        meeting: the game and its agents.
        sides: who sits in seat 0 and 1, of the meeting's; None: the caller writes the batch's actions.
        seed: of the match and of the actions drawn.
        greedy: nets play their likeliest action.
    """

    def __init__(self, meeting: Meeting, sides: Sequence[Named | None], seed: int, *, greedy: bool = False) -> None:
        self.meeting, self.sides, self.greedy = meeting, tuple(sides), greedy
        game, spec = meeting.game, meeting.spec
        self.batch = registry.make(game.name, rows=1, threads=1, options=game.options)
        self._turns = self.batch if isinstance(self.batch, Turns) else None
        own = players(meeting.bots, spec, torch.device("cpu"))
        self._players: list[SeatPlayer | None] = []
        for seat, named in enumerate(sides):
            player: SeatPlayer | None = None
            if named is not None and named.agent_id in own:
                player = BotPlayer(own[named.agent_id], seed, seat)
            elif named is not None and named.folder is None:
                self.batch.controllers[0, seat] = spec.bots.index(named.agent_id.removeprefix(BOT_PREFIX))
            elif named is not None:
                manifest, net = meeting.nets[named.agent_id]
                player = agent = Agent(net, manifest)
                agent.reset(seed)
            self._players.append(player)
        self.batch.reset(seed)
        self.tape = Tape(self.batch, 0)
        self.is_over = False
        self._sums = np.zeros(self.batch.reward_terms[0].shape)

    @property
    def to_act(self) -> npt.NDArray[np.bool_]:
        """(S,): who decides in the next step."""
        return np.ones(2, np.bool_) if self._turns is None else self._turns.to_act[0].copy()

    @settings_kept()
    @code_told()
    def step(self) -> None:
        """One step: the players decide, where they are to; a seat without one plays what is in the batch's actions.

        Raises:
            UsageError: the match does not end.
        """
        batch, deciding = self.batch, self.to_act
        for seat, player in enumerate(self._players):
            if player is not None and deciding[seat]:
                mask = None if batch.mask is None else batch.mask[0, seat]
                batch.actions[0, seat] = player.act(batch.obs[0, seat], mask, greedy=self.greedy)
        self.tape.before()
        batch.step()
        self.tape.after()
        self._sums += batch.reward_terms[0]
        self.is_over = bool(batch.terminated[0] or batch.truncated[0])
        if self._turns is not None and not self.is_over:
            for seat, player in enumerate(self._players):
                if player is not None and deciding[1 - seat] and not self._turns.to_act[0, seat]:
                    player.watch(batch.obs[0, seat])
        if self.tape.steps > MAX_STEPS:
            raise UsageError(
                f"game {batch.spec.name}: the match has not ended after {MAX_STEPS:,} steps; give the game a limit"
                f" after which a match is over"
            )

    @phase("film")
    def play(self) -> None:
        """Plays it to its end."""
        while not self.is_over:
            self.step()

    def result(
        self, run: str, agents: tuple[str, str] | None = None, names: tuple[str, str] | None = None
    ) -> MatchResult:
        """The match that has ended as a row of the store, with its replay.

        Args:
            run: the row's.
            agents, names: ids and labels in place of the sides' own.
        """
        ids = agents or tuple(NOBODY if side is None else side.agent_id for side in self.sides)
        labels = names or tuple("person" if side is None else side.label for side in self.sides)
        fields: dict[str, Any] = {"run": run, "kind": "evaluation", "update": 0, "ordinal": 0, "agents": ids}
        fields |= {"game_id": self.meeting.game.game_id, "steps": self.tape.steps}
        fields |= {"sampling": "greedy" if self.greedy else "sample"}
        match = match_result(self.batch, 0, self._sums, **fields)
        text = self.tape.written(self.meeting.game.model_dump(mode="json"), match, labels)
        forfeits = [isinstance(player, BotPlayer) and player.has_forfeited for player in self._players]
        return forfeited(match_result(self.batch, 0, self._sums, **fields, replay=text), forfeits, self.batch.spec)

    def close(self) -> None:
        """Lets go of what the game holds."""
        if isinstance(self.batch, Closing):
            self.batch.close()


def play_out(bout: Bout) -> MatchResult:
    """Plays a match to its end, lets go of its game, and gives its row with its replay."""
    try:
        bout.play()
        return bout.result("watch")
    finally:
        bout.close()
