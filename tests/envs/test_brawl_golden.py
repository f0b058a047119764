"""Brawl's golden playthroughs: short scripted scenes of the compiled game, kept as text that a reviewer can follow.

`python tests/envs/test_brawl_golden.py --write` writes them again into tests/envs/golden/; read the difference before
you commit.
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from league.envs.brawl.env import KEYS, SPEC, Options, make, options_hash, rules_of
from league.envs.brawl.moves import NAMES, STRIKES, WEAPONS
from league.envs.brawl.state import AIR, GROUND, PLATFORM, pack_state, unpack_state

FOLDER = Path(__file__).parent / "golden"
OPTIONS = Options(ticks_per_step=1, stocks=2, respawn_seconds=0.5, protection_seconds=1.0)
SUPPORTS = {AIR: "air", GROUND: "ground", PLATFORM: "platform"}
DRIPPING = ("approach", "danger_zone")
"""Terms that come in every tick: only their sums are shown."""
RULES = rules_of(OPTIONS)
SPEAR, HAMMER = WEAPONS.index("spear"), WEAPONS.index("hammer")


@dataclass(frozen=True)
class Scene:
    """A beginning and what both hold from then on."""

    title: str
    fighters: dict[str, tuple[float, float]]
    """State fields of seats 0 and 1 at the beginning."""
    script: list[tuple[int, str, str]]
    """Ticks, and the keys that seat 0 and seat 1 hold meanwhile."""
    items: dict[str, tuple[float, float]] = field(default_factory=dict)
    platform: tuple[float, float] = (-2.0, 1.0)
    """Height and direction."""
    options: Options = OPTIONS
    shows: tuple[str, ...] = ()
    """What the text must have, so that new numbers of the game do not empty the scene unseen."""


SCENES = {
    "bare_hands": Scene(
        "Bare hands: a light and its follow-up, a dash, a combo into the air, a knock-out, a charged heavy.",
        {"x": (2.5, 3.5), "facing": (1, -1), "damage": (0, 49)},
        [
            (1, "light", ""),
            (20, "", "left"),
            (1, "right dodge", "left"),
            (6, "right", "left"),
            (1, "down light", "left"),
            (14, "", "left"),
            (1, "right jump", "left"),
            (2, "right heavy", "left"),
            (15, "right", "left"),
            (28, "left", ""),
            (44, "left heavy", "down"),
            (1, "left heavy", "down light"),
            (40, "", ""),
        ],
        shows=("neutral_light_2 hits", "dashes", "combo 1.00", "knock_out 1.00", "protected", "side_heavy charges"),
    ),
    "weapons": Scene(
        "Weapons: a hammer wears out, both want the spear, one uses and drops it, the other takes and uses it.",
        {"x": (2.8, 3.4), "facing": (1, -1), "weapon": (HAMMER, 0), "weapon_left": (4, 0)},
        [
            (5, "", ""),
            (1, "pickup", "pickup"),
            (1, "", ""),
            (1, "pickup", ""),
            (1, "", ""),
            (1, "right light", ""),
            (26, "", ""),
            (1, "pickup", ""),
            (7, "left", "left"),
            (6, "", "left"),
            (1, "", "pickup"),
            (1, "", "left heavy"),
            (50, "", ""),
        ],
        items={"kind": (0, SPEAR), "x": (0, 3.2), "ticks": (0, 300), "left": (0, 450)},
        shows=(
            "weapon worn out",
            "spear lies",
            "weapon_taken 1.00",
            "weapon_lost 1.00",
            "side_light_2 hits",
            "spear.side_heavy_3 hits",
        ),
    ),
    "platform": Scene(
        "The platform and the pit: a ride, a drop through, a jump, a wall, the recovery; a fall past the outer wall.",
        {"x": (1.6, 7.2), "facing": (-1, 1)},
        [
            (5, "left", "right"),
            (50, "", "left"),
            (4, "down", ""),
            (8, "right", ""),
            (1, "jump right", ""),
            (12, "right", ""),
            (1, "up heavy right", ""),
            (30, "right", ""),
            (10, "", ""),
        ],
        shows=("platform", "at the wall", "recovery strikes", "stock_lost 1.00", "protected"),
    ),
}


def play(scene: Scene) -> list[str]:
    """The scene as lines of text."""
    batch = make(1, 1, scene.options)
    batch.set_state(beginning(batch, scene))
    before, lines = record(batch, scene), [*head(scene)]
    sums = np.zeros((2, len(SPEC.reward_terms)))
    held = ("", "")
    for ticks, *keys in scene.script:
        for _ in range(ticks):
            batch.actions[0] = [[key in seat.split() for key in KEYS] for seat in keys]
            batch.step()
            after, terms = record(batch, scene), batch.reward_terms[0]
            sums += terms
            if batch.terminated[0]:
                return [*lines, *ending(batch, before["tick"] + 1, keys, sums)]
            events = happened(before, after, terms)
            if events or tuple(keys) != held or words(before) != words(after):
                lines.append(line(after, keys, events))
            before, held = after, tuple(keys)
    return [*lines, *summary(sums)]


def beginning(batch: Any, scene: Scene) -> bytes:
    """The state in which the scene starts."""
    records = unpack_state(batch.get_state(), 1, options_hash(scene.options))
    fighters = {"y": (0, 0), "support": (GROUND, GROUND), "side": (-1, 1), **scene.fighters}
    for name, values in fighters.items():
        records["fighters"][name][0] = values
    for name, values in {"kind": (0, 0), "ticks": (0, 0), **scene.items}.items():
        records["items"][name][0] = values
    records["platform_y"], records["platform_direction"] = scene.platform
    return pack_state(records, options_hash(scene.options))


def record(batch: Any, scene: Scene) -> Any:
    """The match's state."""
    return unpack_state(batch.get_state(), 1, options_hash(scene.options))[0]


def head(scene: Scene) -> list[str]:
    """What a reader must know before the first line."""
    options = ", ".join(f"{name} {value}" for name, value in scene.options.model_dump(exclude_defaults=True).items())
    start = {**scene.fighters, **{f"items.{name}": values for name, values in scene.items.items()}}
    seat = f"{'keys':16} {'x':>6} {'y':>6}  {'is and does':36}"
    return [
        f"# {scene.title}",
        "# Written by `python tests/envs/test_brawl_golden.py --write`."
        " One line for each tick in which something happened.",
        "# Keys are those held in the tick; places of the feet, states and damage are those after it.",
        f"# Options: {options}.",
        f"# Beginning, seats 0 and 1: {'; '.join(f'{name} {a:g} {b:g}' for name, (a, b) in start.items())}.",
        f"# Platform: y {scene.platform[0]:g}, direction {scene.platform[1]:g}.",
        "#",
        f"tick | 0: {seat} | 1: {seat} | what happened".rstrip(),
    ]


def words(state: Any) -> tuple[str, ...]:
    """What each fighter is and does, without numbers."""
    return tuple(condition(f) for f in state["fighters"])


def condition(f: Any) -> str:
    """A fighter's state in words."""
    if f["respawn"]:
        return "absent"
    said = [SUPPORTS[int(f["support"])]]
    for name, word in (("weapon", WEAPONS[f["weapon"]]), ("stun", "stunned"), ("dodge", "dodges"), ("turn", "turns")):
        said += [word] if f[name] else []
    if f["dash"]:
        said.append("dashes" if f["direction"] == f["facing"] else "dashes back")
    at_wall = f["y"] < 0 and abs(f["x"]) in (RULES.edge_inner, RULES.edge_outer)
    said += ["at the wall"] if at_wall and f["support"] == AIR else []
    said += ["protected"] if f["invulnerable"] else []
    return ", ".join([*said, *doing(f)])


def doing(f: Any) -> list[str]:
    """The strike and its phase."""
    if f["move"] < 0:
        return []
    strike, name = STRIKES[f["move"]], NAMES[f["move"]].partition(".")[2]
    if f["charge"] and f["move_tick"] == strike.startup - 1:
        return [f"{name} charges"]
    if f["move_tick"] < strike.startup:
        return [f"{name} starts"]
    return [f"{name} {'strikes' if f['move_tick'] < strike.startup + strike.active else 'recovers'}"]


def happened(before: Any, after: Any, terms: Any) -> list[str]:
    """The events of one tick, then its reward terms by seat."""
    said = []
    for seat in (0, 1):
        was, f, other = before["fighters"][seat], after["fighters"][seat], after["fighters"][1 - seat]
        dealt = f["damage_dealt"] - was["damage_dealt"]
        if dealt > 0:
            charge = f", charged {was['charge']} ticks" if was["charge"] else ""
            blow = f"{NAMES[was['move']]} hits seat {1 - seat}: {dealt:.2f} damage{charge}"
            said.append(f"{blow}, now {other['damage']:.2f}, {other['stun']} ticks of stun, combo {other['combo']}")
        said += [f"seat {seat}'s weapon worn out"] if was["weapon_left"] == 1 else []
        bounces = was["stun"] and was["vy"] < 0 < f["vy"] and f["damage"] == was["damage"]
        said += [f"seat {seat} bounces"] if bounces else []
    for side, (was, item) in enumerate(zip(before["items"], after["items"], strict=True)):
        if was["kind"] != item["kind"]:
            what = f"{WEAPONS[item['kind']]} lies at {item['x']:.2f}" if item["kind"] else "weapon gone"
            said.append(f"{('left', 'right')[side]} ground: {what}")
    for seat in (0, 1):
        shown = [
            f"{name} {value:.2f}"
            for name, value in zip(SPEC.reward_terms, terms[seat], strict=True)
            if value and name not in DRIPPING
        ]
        said += [f"terms {seat}: {', '.join(shown)}"] if shown else []
    return said


def line(after: Any, keys: list[str], events: list[str]) -> str:
    """One tick."""
    seats = [
        f"{held.replace(' ', '+'):16} {f['x']:6.2f} {f['y']:6.2f}  {condition(f):36}"
        for f, held in zip(after["fighters"], keys, strict=True)
    ]
    return f"{after['tick']:4d} |    {seats[0]} |    {seats[1]} | {'; '.join(events)}".rstrip()


def summary(sums: Any) -> list[str]:
    """The terms of the whole scene."""
    return [
        f"all terms of seat {seat}: "
        + ", ".join(f"{name} {value:.2f}" for name, value in zip(SPEC.reward_terms, sums[seat], strict=True) if value)
        for seat in (0, 1)
    ]


def ending(batch: Any, tick: int, keys: list[str], sums: Any) -> list[str]:
    """The last tick and the result of a match that ended."""
    result = batch.result[0]
    said = f"{tick:4d} | the match ends: {SPEC.end_reasons[result['end_reason']]}, winner seat {result['winner']}"
    metrics = [
        f"metrics of seat {seat}: "
        + ", ".join(f"{name} {value:.2f}" for name, value in zip(SPEC.metrics, result["metrics"][seat], strict=True))
        for seat in (0, 1)
    ]
    return [said, *summary(sums), *metrics]


def path_of(name: str) -> Path:
    return FOLDER / f"brawl_{name}.txt"


@pytest.mark.parametrize("name", SCENES)
def test_golden_playthrough(name: str) -> None:
    wanted = path_of(name).read_text(encoding="utf-8").splitlines()
    assert play(SCENES[name]) == wanted
    assert [words for words in SCENES[name].shows if words not in "\n".join(wanted)] == []


if __name__ == "__main__":
    for scene_name, scripted in SCENES.items():
        text = "\n".join(play(scripted)) + "\n"
        if sys.argv[1:] == ["--write"]:
            path_of(scene_name).write_text(text, encoding="utf-8")
        else:
            print(text)
