"""What is seen of a match while it is played back: its drawings, pictures or words, and what its agents think."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from league.arena.agents import find_agent
from league.arena.networks import load_net
from league.arena.raster import Picture
from league.arena.replays import Playback, Replay, ReplayMoment
from league.envs import appearance, registry
from league.envs.drawing import Drawing, as_picture, problem_of
from league.errors import ContractError, LeagueError, code_told, one_line
from league.policies.actor_critic import ActorCritic
from league.policies.insight import Insight, look
from league.runtime.device import choose_device
from league.runtime.phases import phase
from league.runtime.process import settings_kept
from league.store.store import Store
from league.types import SEATS, ActionSpec, BoolArray, GameSpec, MatchBatch, Policy, Turns

SMOOTH = 7
"""Frames over which a camera's way is averaged."""
CORE = 0.8
"""Share of a view, about its middle, that the averaged one shows in any case."""
MOST_NUMBERS = 40
"""Of an observation in words."""


@dataclass
class Course:
    """A match, moment by moment."""

    spec: GameSpec
    seconds: float
    """Of the game's own time between two moments."""
    frames: list[Drawing | Picture | str] = field(default_factory=list)
    played: list[tuple[npt.NDArray[Any] | None, ...]] = field(default_factory=list)
    """Each seat's action (A,); None where it does not decide, and where a native bot keeps it to itself."""
    insights: list[tuple[Insight | None, ...]] = field(default_factory=list)
    in_turns: bool = False

    def skip(self, moments: int) -> None:
        """Leaves out so many at its beginning."""
        del self.frames[:moments], self.played[:moments], self.insights[:moments]


class Insights:
    """The nets of a match's seats, which see what they saw when it was played.

    Args:
        nets: seat -> its net, and the size of returns that the net's values are in (`Manifest.return_size`); other
            seats show nothing.
    """

    def __init__(self, nets: Mapping[int, tuple[Policy, float]]) -> None:
        self._nets = dict(nets)
        self._states: dict[int, Any] = {seat: net.initial_state(1) for seat, (net, _) in nets.items()}
        self._before: BoolArray | None = None

    def look(self, moment: ReplayMoment) -> tuple[Insight | None, ...]:
        """What each seat's net shows at a moment; to be called at each, in order. None: it does not decide."""
        batch = moment.batch
        found: list[Insight | None] = []
        for seat in range(SEATS):
            if seat not in self._nets:
                found.append(None)
                continue
            net, return_size = self._nets[seat]
            device = next(iter(net.parameters())).device
            obs = torch.from_numpy(batch.obs[:, seat].copy()).to(device)
            if moment.deciding[seat]:
                mask = None if batch.mask is None else torch.from_numpy(batch.mask[:, seat].copy()).to(device)
                seen = self._see(net, obs, self._states[seat], mask)
                found.append(replace(seen, value=seen.value * return_size))
            else:
                if self._before is not None and self._before[1 - seat]:
                    net.watch(obs, self._states[seat])
                found.append(None)
        self._before = moment.deciding
        return tuple(found)

    @staticmethod
    def _see(net: Policy, obs: torch.Tensor, state: Any, mask: torch.Tensor | None) -> Insight:
        if isinstance(net, ActorCritic):
            return look(net, obs, state, mask)
        with torch.no_grad():  # of a custom network no more is known than what `Policy` has
            _, _, value = net.step(obs, state, mask=mask, greedy=True)
        return Insight(float(value[0]), (), ())


def insights_of(replay: Replay, store: Store | None) -> Insights:
    """Of the agents of a replay that the store has with their files; the others show nothing."""
    nets: dict[int, tuple[Policy, float]] = {}
    for seat, record in enumerate(replay.seats):
        folder = None if store is None or record.bot is not None else _folder_of(store, record.agent)
        if folder is None:
            continue
        try:
            manifest, net = load_net(folder, choose_device("cpu"), record.agent)
            nets[seat] = net, manifest.return_size
        except LeagueError:  # its code was not named by this user, or its files are not whole
            continue
    return Insights(nets)


def _folder_of(store: Store, agent_id: str) -> Path | None:
    for run in store.runs():
        for row in store.snapshots(run.run):
            if row.agent_id == agent_id and row.pruned_at is None:
                return find_agent(store, f"{run.run}@{row.step}").folder
    return None


@phase("film")
def course_of(
    playback: Playback, nets: Insights | None = None, most: int | None = None, how: Mapping[str, Any] | None = None
) -> Course:
    """Plays a match back to its end and looks at each of its first `most` moments (None: all).

    how: of a game that is drawn as pictures, the keywords of `appearance.Render`.

    Raises:
        LeagueError: it cannot be played back.
        CodeError: the game's drawing fails.
    """
    game = playback.replay.game.name
    names = registry.action_names(game, playback.replay.game.options)
    course = Course(playback.spec, playback.seconds_per_step)
    frame = framer(game, how)
    for moment in playback.moments():
        if most is not None and moment.step >= most:
            continue
        course.frames.append(frame(moment.batch, moment.step))
        insights: tuple[Insight | None, ...] = (None,) * SEATS if nets is None else nets.look(moment)
        course.insights.append(insights)
        course.in_turns |= isinstance(moment.batch, Turns)
        is_known = [moment.deciding[seat] and playback.replay.seats[seat].bot is None for seat in range(SEATS)]
        course.played.append(tuple(moment.actions[seat] if is_known[seat] else None for seat in range(SEATS)))
    _tell_bots(course, playback, names)
    _steady(course.frames)
    return course


def _tell_bots(course: Course, playback: Playback, names: Sequence[str]) -> None:
    """What native bots did, where the drawing after it tells."""
    for step, frame in enumerate(course.frames[1:]):
        is_told = isinstance(frame, Drawing) and course.spec.action.kind == "multi_binary" and names
        held = frame.held if isinstance(frame, Drawing) and is_told else ()
        told = [np.array([name in own for name in names], np.int32) for own in held]
        if told:
            seats = zip(playback.replay.seats, course.played[step], told, strict=True)
            course.played[step] = tuple(keys if seat.bot is not None else own for seat, own, keys in seats)


def framer(
    game: str, how: Mapping[str, Any] | None = None, seat: int | None = None
) -> Callable[[MatchBatch, int], Drawing | Picture | str]:
    """What gives the frame of row 0 of a batch at a step: a drawing, else a picture, else words.

    seat: what this seat may see, as far as the game's drawing tells it apart; None: everything.
    """
    draw, render = appearance.drawer(game), appearance.renderer(game)

    def frame(batch: MatchBatch, step: int) -> Drawing | Picture | str:
        with settings_kept(), code_told(f"game {game}: its drawing fails at step {step}"):
            if draw is not None:
                drawing = draw(batch, 0) if seat is None else draw(batch, 0, seat=seat)
                if problem := problem_of(drawing):
                    raise ContractError(f"game {game}: drawing() at step {step}: {problem}")
                return drawing
            if render is not None:
                return as_picture(render(batch, 0, **(how or {})))
        return words(batch, step, seat)

    return frame


def words(batch: MatchBatch, step: int, only: int | None = None) -> str:
    """What both seats see, or one alone, for a game that has no drawing."""
    spec, lines = batch.spec, [f"step {step}"]
    to_act = getattr(batch, "to_act", None)
    for seat in range(SEATS) if only is None else (only,):
        turn = "" if to_act is None else ", to act" if to_act[0, seat] else ", waits"
        lines += ["", f"seat {seat}{turn} sees"]
        parts = spec.observation or ()
        if not parts:
            lines.append(_numbers(batch.obs[0, seat]))
        for part in parts:
            lines.append(f"{one_line(part.name)}: {_numbers(batch.obs[0, seat, part.start : part.stop])}")
    return "\n".join(lines)


def rows_of(spec: ActionSpec, names: Sequence[str]) -> list[str]:
    """What the rows of a strip of actions are called: a key, a choice of a part, or a real number each."""
    leaves = (ActionSpec("multi_discrete", spec.choices[:1]),) if spec.kind == "legal_tuples" else spec.leaves
    rows: list[str] = []
    parts = sum(len(leaf.bounds or leaf.choices) for leaf in leaves)
    number = 0
    for leaf in leaves:
        if leaf.kind == "multi_binary":
            rows += [f"key {number + i}" for i in range(len(leaf.choices))]
            number += len(leaf.choices)
        elif leaf.kind == "box":
            rows += [f"number {number + i}" for i in range(len(leaf.bounds))]
            number += len(leaf.bounds)
        else:
            for choices in leaf.choices:
                rows += [f"{number}: {c}" if parts > 1 else str(c) for c in range(choices)]
                number += 1
    if spec.kind == "legal_tuples" and len(names) == sum(spec.choices):
        names = names[: len(rows)]
    return [one_line(name)[:24] for name in names] if len(names) == len(rows) else rows


def marks_of(spec: ActionSpec, action: npt.NDArray[Any]) -> list[float]:
    """What an action (A,) is in each row of `rows_of`: 1 where played; of a real number its share of its bounds."""
    if spec.kind == "legal_tuples":
        return [float(c == int(action[0])) for c in range(spec.choices[0])]
    marks: list[float] = []
    index = 0
    for leaf in spec.leaves:
        if leaf.kind == "box":
            for low, high in leaf.bounds:
                marks.append((float(action[index]) - low) / (high - low))
                index += 1
            continue
        for choices in leaf.choices:
            own = int(action[index])
            marks += [float(own)] if leaf.kind == "multi_binary" else [float(c == own) for c in range(choices)]
            index += 1
    return marks


def chances_of(spec: ActionSpec, insight: Insight) -> list[float] | None:
    """The probability of each row of `rows_of`; of a real number 0. None where nothing is known."""
    if not insight.chances:
        return None
    if spec.kind == "legal_tuples":
        return list(insight.chances[0])
    found: list[float] = []
    parts = iter(insight.chances)
    for leaf in spec.leaves:
        if leaf.kind == "multi_binary":
            found += next(parts)
        else:
            for _ in leaf.bounds or leaf.choices:
                part = next(parts)
                found += [0.0] if leaf.kind == "box" else part
    return found


def _numbers(values: npt.NDArray[Any]) -> str:
    shown = " ".join(f"{float(x):.3g}" for x in values.ravel()[:MOST_NUMBERS])
    return shown + (f" ... ({values.size:,} in all)" if values.size > MOST_NUMBERS else "")


def _steady(frames: Sequence[Drawing | Picture | str]) -> None:
    """Averages the camera's way, so that it does not jump."""
    seen = [frame for frame in frames if isinstance(frame, Drawing)]
    if len(seen) < 2 or all(frame.view == seen[0].view for frame in seen):
        return
    views = np.array([frame.view for frame in seen])
    half = SMOOTH // 2
    padded = np.concatenate([np.repeat(views[:1], half, 0), views, np.repeat(views[-1:], half, 0)])
    total = np.cumsum(np.concatenate([np.zeros((1, 4)), padded]), 0)
    smooth = (total[SMOOTH:] - total[:-SMOOTH]) / SMOOTH
    for axis in (0, 1):  # what was in the middle of a view remains there, however fast it moves
        wanted, given = (np.sort(way[:, [axis, axis + 2]], 1).T for way in (views, smooth))
        middle, reach = wanted.mean(0), CORE * (wanted[1] - wanted[0]) / 2
        shift = np.minimum(0, middle - reach - given[0]) + np.maximum(0, middle + reach - given[1])
        smooth[:, [axis, axis + 2]] += shift[:, None]
    for frame, view in zip(seen, smooth.tolist(), strict=True):
        frame.view = tuple(view)
