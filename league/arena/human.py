"""A person in a seat: what may be done, what was done, and the match in the store once it has ended."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from league.arena.agents import Meeting, introduce
from league.arena.bouts import Bout
from league.arena.frames import framer
from league.arena.raster import Picture
from league.arena.templates import PLAIN_KEYS
from league.envs import registry
from league.envs.drawing import Drawing
from league.errors import UsageError, one_line
from league.store.folder import Folder
from league.store.formats import OUTSIDE_PREFIX, name_problem
from league.store.rows import AgentRow, ImportRow, now
from league.store.store import Store
from league.store.view import Cursor
from league.types import BOT_PREFIX, DRAW, ActionSpec, Turns

MOST_CHOICES = 400
"""Actions of a decision that a person can choose among."""
OTHER_KEYS = "asdwqezxcfvrtgbyhnuiop"
"""For keys that neither the game nor `PLAIN_KEYS` names: in this order."""


@dataclass(frozen=True)
class Ended:
    """A match that a person has played."""

    run: str | None
    """Its name in the store, as an import; None where it was not finished."""
    person: str
    agent: str
    seat: int
    """The person's."""
    winner: str
    """A name, or `draw`."""
    end_reason: str
    steps: int
    seed: int
    replay: str
    """The text of its replay."""


class HumanMatch:
    """A match of a person against an agent, step by step.

    Args:
        meeting: the game, and the agent as its one side.
        seat: the person's.
        seed: of the match and of the agent's draws.
        greedy: the agent plays its likeliest action.
        name: the person's.

    Raises:
        UsageError: nobody can play such actions by keyboard, or the name cannot be one.
    """

    def __init__(self, meeting: Meeting, seat: int, seed: int, *, greedy: bool, name: str) -> None:
        problem = name_problem(name) or ("" if not name.startswith((BOT_PREFIX, OUTSIDE_PREFIX)) else "has a prefix")
        if problem or len(name) > 60:
            raise UsageError(f"name={one_line(name)[:80]!r}: {problem or 'is too long'}; pass another --name")
        if seat not in (0, 1):
            raise UsageError(f"seat={seat}: must be 0 or 1; pass another --seat")
        spec = meeting.spec
        self._words = registry.action_names(meeting.game.name, meeting.game.options)
        self.keys = self._words if spec.action.kind == "multi_binary" else ()
        if spec.action.has_real or (spec.action.kind == "mixture" and not self.keys):
            raise UsageError(
                f"{meeting.game.name}: its actions are real numbers or parts of several kinds, which no keyboard has;"
                f" watch its agents instead"
            )
        if spec.action.kind == "multi_binary" and not self.keys:
            self.keys = tuple(f"key {i}" for i in range(spec.action.num_parts))
        self.name, self.seat, self.spec, self.meeting = name, seat, spec, meeting
        agent = meeting.sides[0]
        sides = (None, agent) if seat == 0 else (agent, None)
        self.agent = agent.label
        self.bout = Bout(meeting, sides, seed, greedy=greedy)
        self.is_live = bool(self.keys) and not isinstance(self.bout.batch, Turns)
        """Whether the match goes on at its own pace, the keys that are held being what is played."""
        self.seconds = spec.ticks_per_step / spec.tick_rate
        self._frame = framer(meeting.game.name, seat=seat)
        self.frame: Drawing | Picture | str = self._frame(self.bout.batch, 0)

    @property
    def names(self) -> tuple[str, str]:
        """Of the seats."""
        return (self.name, self.agent) if self.seat == 0 else (self.agent, self.name)

    @property
    def is_over(self) -> bool:
        """Whether the match has ended."""
        return self.bout.is_over

    @property
    def is_asked(self) -> bool:
        """Whether the person decides in the next step."""
        return not self.is_over and bool(self.bout.to_act[self.seat])

    def keyboard(self) -> dict[str, str]:
        """Key of the game -> key of the keyboard, as browsers call it."""
        own: Mapping[str, str] = getattr(registry.game(self.meeting.game.name), "KEYBOARD", {})
        found: dict[str, str] = {key: own.get(key) or PLAIN_KEYS.get(key, "") for key in self.keys}
        free = [key for key in OTHER_KEYS if key not in found.values()]
        for key in self.keys:
            if not found[key]:
                found[key] = free.pop(0) if free else ""
        return found

    def choices(self) -> list[tuple[str, list[int]]]:
        """What may be done now, in words and as an action; of keys nothing, these are held.

        Raises:
            UsageError: it is more than a person can choose among.
        """
        if self.keys or not self.is_asked:
            return []
        batch = self.bout.batch
        mask = None if batch.mask is None else batch.mask[0, self.seat]
        found = legal_actions(self.spec.action, mask)
        if len(found) > MOST_CHOICES:
            raise UsageError(
                f"{self.spec.name}: more than {MOST_CHOICES} actions are legal, too many to choose among; watch its"
                " agents instead"
            )
        return [(self._told(action), action) for action in found]

    def step(self, action: Sequence[int] | None = None) -> None:
        """One step of the match; `action` (A,) is the person's, where it decides. What is not legal is left out.

        Raises:
            UsageError: it decides, and this is no action.
        """
        batch = self.bout.batch
        if self.is_asked:
            batch.actions[0, self.seat] = self._checked(action)
        self.bout.step()
        if not self.is_over:
            self.frame = self._frame(batch, self.bout.tape.steps)

    def go_on(self) -> list[Drawing | Picture | str]:
        """Steps until the person decides or the match ends; what was seen on the way."""
        seen = []
        while not self.is_over and not self.is_asked:
            self.step()
            seen.append(self.frame)
        return seen

    def ended(self, store: str | Path | None, say: Callable[[str], None] | None = None) -> Ended:
        """The match as it ended, written into the store as an import, if there is one to write.

        Raises:
            StoreError: the store cannot be written.
        """
        agent_id, own_id = self.meeting.sides[0].agent_id, OUTSIDE_PREFIX + self.name
        agents = (own_id, agent_id) if self.seat == 0 else (agent_id, own_id)
        match = self.bout.result("import", agents, self.names)
        run = None
        if store is not None:
            opened = Store.create(store, say)
            digest = hashlib.sha256(match.replay.encode() + str(now()).encode()).hexdigest()
            run = f"import-{digest[:12]}"

            def fill(folder: Folder, con: Cursor) -> tuple[int, list[ImportRow]]:
                folder.add_matches([replace(match, run=run)])
                folder.add_agent(AgentRow(own_id, "import", self.name, match.game_id))
                introduce(folder, self.meeting)
                return 1, []

            opened.add_import(ImportRow(run, digest, f"played by {self.name}", 1), fill)
        winner = "draw" if match.winner == DRAW else self.names[match.winner]
        return Ended(
            run,
            self.name,
            self.agent,
            self.seat,
            winner,
            match.end_reason,
            match.steps,
            match.seed,
            match.replay,
        )

    def close(self) -> None:
        """Lets go of what the game holds."""
        self.bout.close()

    def _checked(self, action: Sequence[int] | None) -> npt.NDArray[Any]:
        spec, batch = self.spec.action, self.bout.batch
        given: Any = [0] * spec.num_parts if action is None else action
        is_whole = isinstance(given, Sequence) and all(type(x) is int and abs(x) < 2**31 for x in given)
        if not is_whole or len(given) != spec.num_parts:
            raise UsageError(f"action={str(given)[:80]}: must be {spec.num_parts} whole numbers")
        played = np.array(given, spec.dtype)
        mask = None if batch.mask is None else batch.mask[0, self.seat]
        if self.keys:
            return np.asarray((played != 0) & (True if mask is None else mask), spec.dtype)
        if not spec.is_legal(played, mask):
            raise UsageError(f"action={given}: is not legal here")
        return played

    def _told(self, action: list[int]) -> str:
        """An action in words."""
        teller = getattr(registry.game(self.meeting.game.name), "tell", None)
        if teller is not None:
            return one_line(str(teller(self.bout.batch, 0, self.seat, action)))
        choices, at, told = self.spec.action.choices, 0, []
        for index, (count, choice) in enumerate(zip(choices, action, strict=True)):
            is_named = len(self._words) == sum(choices) or (index == 0 and len(self._words) == count)
            told.append(one_line(self._words[at + choice]) if is_named else str(choice))
            at += count
        return " ".join(told)


def legal_actions(spec: ActionSpec, mask: npt.NDArray[Any] | None) -> list[list[int]]:
    """The actions (A,) that a mask (M,) allows, of choices or legal tuples; more than can be listed are cut."""
    if spec.kind == "legal_tuples":
        assert mask is not None, "legal tuples have a mask"
        tuples = mask.reshape(-1, len(spec.choices))
        return [list(map(int, one)) for one in tuples if one[0] >= 0]
    parts = [range(n) for n in spec.choices] if mask is None else [np.flatnonzero(x) for x in spec.split(mask)]
    found = []
    for one in product(*parts):
        found.append([int(x) for x in one])
        if len(found) > MOST_CHOICES:
            break
    return found
