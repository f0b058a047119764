"""Matches of brawl set up by hand, for its tests: one match, stepped tick by tick, with any field written."""

from __future__ import annotations

import numpy as np

from league.envs.brawl.env import KEYS, SPEC, Options, make
from league.envs.brawl.moves import NONE
from league.envs.brawl.rules import BrawlRules
from league.envs.brawl.state import AIR, GROUND, pack_state, unpack_state

RULES = BrawlRules()
TICK = Options(ticks_per_step=1)
TERM = {name: i for i, name in enumerate(SPEC.reward_terms)}
METRIC = {name: i for i, name in enumerate(SPEC.metrics)}
FRESH = ("jump", "pickup", "dodge", "taunt")
"""Keys that act only on a new press."""
APART = {"x": (-4.0, 4.0), "y": (0, 0), "support": (GROUND, GROUND), "facing": (1, -1), "side": (-1, 1)}


def bits_of(*keys):
    """The keys as a fighter's `keys` holds them."""
    return sum(1 << KEYS.index(key) for key in keys)


def records_of(batch):
    """A copy of the matches' states (B,)."""
    blob = batch.get_state()
    return unpack_state(blob, batch.num_rows, blob[8:24])


def restore(batch, records):
    """Writes the matches' states; the options' hash is the batch's own."""
    batch.set_state(pack_state(records, batch.get_state()[8:24]))


def edit(batch, *, items=None, match=None, **fields):
    """Writes numbers of every match of the batch.

    Args:
        items: (x, left, kind, ticks) of the left and of the right ground's.
        match: fields of the match itself.
        fields: of the fighters, (seat 0's, seat 1's).
    """
    records = records_of(batch)
    for name, values in fields.items():
        records["fighters"][name] = values
    if items is not None:
        records["items"] = np.array(list(items), records["items"].dtype)
    for name, value in (match or {}).items():
        records[name] = value
    restore(batch, records)
    return batch


def scene(options=TICK, *, items=((0, 0, 0, 0), (0, 0, 0, 0)), match=None, **fields):
    """One match: fighters apart on their grounds, the platform rising past -1, no weapon to come; then as `edit`."""
    match = {"platform_y": -1.0, "platform_direction": 1.0, **(match or {})}
    return edit(make(1, 1, options), items=items, match=match, **{**APART, **fields})


def press(batch, seat, *keys):
    batch.actions[0, seat] = [key in keys for key in KEYS]


def run(batch, steps=1):
    """The fighters (2,) after some steps."""
    for _ in range(steps):
        batch.step()
    return batch.record(0)["fighters"]


def play(batch, *keys, seat=0, steps=1):
    """The fighters (2,) after some steps in which a seat held these keys."""
    press(batch, seat, *keys)
    return run(batch, steps)


def terms_of(batch, steps):
    """Summed reward terms (2, R) of the one match over some steps."""
    total = np.zeros((2, len(TERM)))
    for _ in range(steps):
        batch.step()
        total += batch.reward_terms[0]
    return total


def random_keys(rng, rows):
    """Actions (rows, 2, 10) whose chance of each key differs by row, seat and key."""
    return (rng.random((rows, 2, len(KEYS))) < rng.uniform(0.1, 0.7, (rows, 2, len(KEYS)))).astype(np.int32)


def stir(records, rng):
    """Makes rare things likely in a third of the states (B,): close fights, on grounds and off them, weapons about."""
    rows = np.flatnonzero(rng.random(len(records)) < 0.33)
    fighters = records["fighters"][rows]
    shape = fighters.shape
    on_ground = rng.random((len(rows), 1)) < 0.5
    centre = np.where(on_ground, rng.choice([-1, 1], (len(rows), 1)) * rng.uniform(2.5, 6.5), rng.uniform(-8, 8))
    fighters["x"] = centre + rng.uniform(-0.8, 0.8, shape)
    fighters["y"] = np.where(on_ground, 0.0, rng.uniform(0.2, 3.0, shape))
    fighters["support"] = np.where(on_ground, GROUND, AIR)
    fighters["damage"] = rng.uniform(0, 200, shape)
    fighters["weapon"] = rng.integers(0, 3, (len(rows), 1))
    fighters["weapon_left"] = rng.integers(1, 200, shape)
    fighters["stun"] = rng.integers(0, 20, shape) * (rng.random(shape) < 0.3)
    fighters["dodge"] = fighters["dodge_cooldown"] = fighters["keys"] = 0
    fighters["move"] = np.where(rng.random((len(rows), 1)) < 0.5, NONE, fighters["move"])
    records["fighters"][rows] = fighters
    items = records["items"][rows]
    items["x"] = centre + rng.uniform(-0.5, 0.5, items.shape)
    items["left"] = rng.integers(1, 200, items.shape)
    items["kind"] = rng.integers(0, 3, items.shape)
    items["ticks"] = rng.integers(1, 300, items.shape)
    records["items"][rows] = items
