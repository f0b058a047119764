"""Is a test stage worth carrying on? A verdict on a run, by its own curves and by runs that were measured.

The curves speak for every game: whether the newest snapshots score more than the first ones against the bots, and than
an even score against the first snapshot. Of one game and agent it is also known what such runs came to:
`foretold.json` beside this file has them, with what they showed at the end of the test stage and how strong they became
(`python -m benchmarks.foretell` made it; lab/experiments.md has the whole table).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scipy.special import ndtr

from league.boards.readings import BY_METRIC, LAST, Read, Remark, read
from league.maths.record import wilson
from league.store.reading import Reader
from league.store.rows import RunRow
from league.types import BOT_PREFIX

MEASURED = Path(__file__).with_name("foretold.json")
LENGTH = 0.1
"""How far a run's steps may be from those of the measured test stages, as a share."""
SURE = 0.95
"""The chance from which on a run is said to learn."""
SCORE = "score"
"""Of the newest snapshot against the game's anchor, 0 to 1, among the measured readings."""
NO_LEAD = Remark("no lead", "it does not beat the anchor yet", "train longer")


class MeanScore(NamedTuple):
    """A mean score, 0 to 1, and the games that it is of; a payoff is scaled to it."""

    score: float
    games: int

    @property
    def variance(self) -> float:
        """Of the mean, at most; of few games with half a win and half a loss more (Jeffreys' prior)."""
        share = (self.score * self.games + 0.5) / (self.games + 1.0)
        return share * (1.0 - share) / self.games


@dataclass(frozen=True)
class Rise:
    """What a run's evaluations say of its learning.

    bots: each that the first and the newest snapshots met, with both. first: the newest against the first snapshot.
    chance: that the mean of all these differences is above 0; None where nothing was played twice.
    """

    bots: Mapping[str, tuple[MeanScore, MeanScore]]
    first: MeanScore | None
    chance: float | None

    @property
    def word(self) -> Literal["learning", "unclear", "getting worse"]:
        """What the chance comes to."""
        if self.chance is None or 1.0 - SURE < self.chance < SURE:
            return "unclear"
        return "learning" if self.chance >= SURE else "getting worse"

    @property
    def line(self) -> str:
        """The word, the chance and what it is made of."""
        told = []
        if self.bots:
            before, now = (sum(pair[i].score for pair in self.bots.values()) / len(self.bots) for i in (0, 1))
            named = f"{len(self.bots)} bots" if len(self.bots) > 1 else "one bot"
            told.append(f"mean score against {named} {before:.0%} at first, {now:.0%} now")
        if self.first is not None:
            low, high = wilson(*self.first)
            told.append(f"{self.first.score:.0%} [{low:.0%}, {high:.0%}] against its first snapshot")
        if self.chance is None:
            return "unclear: no snapshot has met the bots or the first snapshot twice; raise run.evaluate_games"
        return f"{self.word}: {'; '.join(told)}; the chance that it has become stronger is {_percent(self.chance)}"


@dataclass(frozen=True)
class Verdict:
    """What a test stage foretells.

    rise: by its own curves. readings: by metric. word: None where runs of this game, agent and length were not
    measured. signs: what is wrong. runs, strong: measured runs with the same word, and those that became strong.
    """

    rise: Rise
    readings: Mapping[str, Read]
    word: Literal["promising", "sick"] | None = None
    signs: tuple[Remark, ...] = ()
    strong: int = 0
    runs: int = 0

    def lines(self) -> tuple[str, ...]:
        """What it says: the curves, the measured runs, the readings, and what each unusual one means."""
        found = [self.rise.line]
        if self.word is not None:
            table = measured()
            low, high = wilson(self.strong / self.runs, self.runs)
            odds = (
                f"of {self.runs} measured runs like it {self.strong} were strong after"
                f" {table['steps'] / 1e6:.2g} million steps [{low:.0%}, {high:.0%}]"
            )
            found.append(f"{self.word}: {'; '.join((*(sign.words for sign in self.signs), odds))}")
        told = (f"{x.reading.label} {x.value:{x.reading.form}}" for x in self.readings.values())
        return (*found, f"readings: {', '.join(told)}", *(x.line for x in self.readings.values() if x.remark))


def _percent(chance: float) -> str:
    return "over 99.9 %" if chance > 0.999 else "below 0.1 %" if chance < 0.001 else f"{100 * chance:.1f} %"


@cache
def measured() -> dict[str, Any]:
    """The runs that were measured: `name`, `game_id`, `agent`, `short` and `steps` (how long the test stage and the run
    were), `strong` (a score), and `runs`."""
    return dict(json.loads(MEASURED.read_text(encoding="utf-8")))


def signs_of(readings: Mapping[str, float]) -> tuple[Remark, ...]:
    """What is unusual: metric -> value in the units of its limits, and `SCORE`; nothing where nothing is."""
    found = [BY_METRIC[name].remark(value) for name, value in readings.items() if name != SCORE]
    found += [NO_LEAD] if readings.get(SCORE, 1.0) < 0.5 else []
    return tuple(remark for remark in found if remark is not None)


def judge(store: Reader, run: str) -> Verdict | None:
    """The verdict on a run as it stands; None where it has made no update.

    Raises:
        UsageError: no such run.
        StoreError: the store cannot be read.
    """
    with store.reading():
        row = store.find_run(run)
        config = json.loads(row.config)
        anchor = store.game(row.game_id).anchor or ""
        readings = read(store, row, config)
        if not readings:
            return None
        rise, score = risen(store, row), score_of(store, row, anchor)
    table, values = measured(), {name: x.value for name, x in readings.items()}
    signs = signs_of({name: values[name] for name in table["runs"][0]["readings"] if name in values} | score)
    is_known = row.game_id == table["game_id"] and table["agent"].items() <= config["agent"].items()
    is_known &= abs(row.steps / table["short"] - 1.0) < LENGTH
    like = [x["strength"] for x in table["runs"] if bool(signs_of(x["readings"])) == bool(signs)]
    if not is_known or not like:
        return Verdict(rise, readings)
    strong = sum(x >= table["strong"] for x in like)
    return Verdict(rise, readings, "sick" if signs else "promising", signs, strong, len(like))


def risen(store: Reader, run: RunRow) -> Rise:
    """How a run's snapshots score against the bots and its first one, at first and in the last fifth of its steps.

    Raises:
        StoreError: the store cannot be read.
    """
    met: dict[str, dict[int, MeanScore]] = {}
    for against, step, games, score in store.scores_over_steps(run.run, run.game_id):
        met.setdefault(against, {})[step] = MeanScore(score, games)
    last = (1.0 - LAST) * max((step for scores in met.values() for step in scores), default=0)
    bots = {
        against: (scores[min(scores)], _mean([x for step, x in scores.items() if step >= last]))
        for against, scores in met.items()
        if against.startswith(BOT_PREFIX) and min(scores) < last <= max(scores)
    }
    late = [x for step, x in met.get(f"{run.run}@0", {}).items() if step >= last > 0]
    first = _mean(late) if late else None
    gains = [(now.score - before.score, now.variance + before.variance) for before, now in bots.values()]
    gains += [(first.score - 0.5, first.variance)] if first is not None else []
    if not gains:
        return Rise(bots, first, None)
    mean, error = sum(gain for gain, _ in gains), math.sqrt(sum(variance for _, variance in gains))
    return Rise(bots, first, float(ndtr(mean / error)))


def _mean(found: list[MeanScore]) -> MeanScore:
    games = sum(x.games for x in found)
    return MeanScore(sum(x.score * x.games for x in found) / games, games)


def score_of(store: Reader, run: RunRow, anchor: str, until: float = math.inf) -> dict[str, float]:
    """The newest snapshot's score against the anchor as `SCORE`; empty where they have not met."""
    scores = store.scores_over_steps(run.run, run.game_id)
    met = [(step, score) for against, step, _, score in scores if against == anchor and step <= until]
    return {SCORE: max(met)[1]} if met else {}
