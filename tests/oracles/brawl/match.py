"""Brawl's slow reference: one match in plain Python, written from the rules, equal to the compiled one bit for bit.

Python floats are IEEE doubles and never fuse a multiplication with an addition, so the same expressions give the same
bits. Keys, strikes and weapons go by name here, and a fighter is an object: `state.py` has these nouns,
`motion.py` a fighter's own tick, `view.py` what is seen, `bots.py` the bots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from league.envs.brawl.moves import Strike
from league.envs.brawl.rules import BOTS, END_REASONS, KEYS, METRICS, TERMS, BrawlRules
from league.envs.brawl.styles import WITHOUT
from league.types import DRAW, EXTERNAL, SEATS
from tests.oracles.brawl import bots, styles
from tests.oracles.brawl.motion import FRESH, legal_keys, own_tick
from tests.oracles.brawl.state import Fighter, Item, Keys, Stage, name_of
from tests.oracles.brawl.view import half
from tests.oracles.shared import Stream, mix, next_seed

_TIMERS = ("stun", "invulnerable", "dodge", "dash", "dodge_cooldown", "turn", "credit")


@dataclass
class Outcome:
    """What one step gave: reward terms by seat and name, and how the match ended, if it did."""

    terms: list[dict[str, float]] = field(default_factory=lambda: [dict.fromkeys(TERMS, 0.0) for _ in range(SEATS)])
    end_reason: str | None = None
    winner: int = DRAW
    ticks: int = 0
    seed: int = 0
    metrics: list[list[float]] = field(default_factory=list)
    final_obs: list[list[float]] = field(default_factory=list)


@dataclass
class Blow:
    """What a strike does to its target."""

    damage: float
    vx: float
    vy: float
    stun: int
    combo: int
    """Hits that the target has taken in a row, this one included."""


class ReferenceMatch:
    """One match of brawl under `rules`, started from `seed`; after its end the next one starts by itself."""

    def __init__(self, rules: BrawlRules, seed: int) -> None:
        self.rules = rules
        self._start(seed, (EXTERNAL, EXTERNAL))

    def _start(self, seed: int, controllers: Sequence[int]) -> None:
        r = self.rules
        self.seed, self.tick = seed, 0
        self.rng = Stream(mix(seed ^ 0xD1B54A32D192ED03))
        side = 1 if self.rng.coin() else -1
        self.fighters = [
            Fighter(side, r.stocks, Stream(self.rng.draw()), controller=controllers[0]),
            Fighter(-side, r.stocks, Stream(self.rng.draw()), controller=controllers[1]),
        ]
        for f in self.fighters:
            f.place(r.spawn_x, 0.0, r)
        platform_y = r.platform_low + (r.platform_high - r.platform_low) * self.rng.unit()
        self.stage = Stage(r, platform_y, 1.0 if self.rng.coin() else -1.0)
        if r.weapons:
            for item in self.stage.items:
                item.ticks = self.rng.between(r.item_first_min, r.item_first_max)

    @classmethod
    def of_record(cls, rules: BrawlRules, record: Any) -> ReferenceMatch:
        """The match whose `record()` has these values, a STATE_DTYPE scalar."""
        match = cls(rules, int(record["seed"]))
        match.tick, match.rng = int(record["tick"]), Stream(int(record["rng"]))
        match.fighters = [Fighter.of_record(fighter) for fighter in record["fighters"]]
        items = [Item.of_record(item) for item in record["items"]]
        platform = float(record["platform_y"]), float(record["platform_direction"])
        match.stage = Stage(rules, *platform, items=items)
        return match

    # A step

    def step(self, actions: Sequence[Sequence[int]]) -> Outcome:
        """One decision: `actions` (2, 10) of 0 or 1, read for external seats only, held for `ticks_per_step` ticks."""
        out = Outcome()
        held = [self._decide(seat, actions[seat]) for seat in range(SEATS)]
        for _ in range(self.rules.ticks_per_step):
            self._play_tick(held, out)
            if self._is_over():
                self._finish(out)
                self._start(next_seed(self.seed), [f.controller for f in self.fighters])
                break
        return out

    def _decide(self, seat: int, action: Sequence[int]) -> Keys:
        me, other = self.fighters[seat], self.fighters[1 - seat]
        if me.controller == EXTERNAL:
            pressed = {key for key, value in zip(KEYS, action, strict=True) if value}
        else:
            pressed = self._bot_keys(me, other)
        return frozenset(pressed) & (legal_keys(me, self.stage) | FRESH)

    def _bot_keys(self, me: Fighter, other: Fighter) -> set[str]:
        bot = BOTS[me.controller]
        style = styles.drawn(self.seed, me.side, self.rules.bot_styles)
        pressed = bots.PRESSED[bot](me, other, self.stage, style)
        if bot in WITHOUT:
            return pressed
        if not bots.looks(self.tick, style, self.rules):
            return set(me.keys)
        whims = mix(mix(me.rng.state))
        return bots.in_style(me, other, pressed, whims, style, self.stage)

    def _is_over(self) -> bool:
        return self.tick >= self.rules.time_limit or any(f.stocks == 0 for f in self.fighters)

    def _finish(self, out: Outcome) -> None:
        a, b = self.fighters
        knocked_out = a.stocks == 0 or b.stocks == 0
        out.end_reason = END_REASONS[0] if knocked_out else END_REASONS[1]
        if a.stocks != b.stocks:
            out.winner = 0 if a.stocks > b.stocks else 1
        elif not knocked_out and a.damage != b.damage:
            out.winner = 0 if a.damage < b.damage else 1
        if out.winner != DRAW:
            out.terms[out.winner]["win"] = 1.0
            out.terms[1 - out.winner]["win"] = -1.0
        for f, terms in zip(self.fighters, out.terms, strict=True):
            terms["weapon_lost"] += f.armed
        out.ticks, out.seed = self.tick, self.seed
        out.final_obs = [self.observe(seat) for seat in range(SEATS)]
        out.metrics = [self._metrics(f) for f in self.fighters]

    def _metrics(self, f: Fighter) -> list[float]:
        lives = max(1, self.rules.stocks - f.stocks + (1 if f.stocks > 0 else 0))
        values = {
            "damage_dealt": f.damage_dealt,
            "knock_outs": f.knock_outs,
            "self_destructs": f.self_destructs,
            "stocks_left": f.stocks,
            "attacks": f.attacks,
            "hits": f.hits,
            "hit_share": f.hits / f.attacks if f.attacks else 0.0,
            "combos": f.combos,
            "dodges": f.dodges,
            "dashes": f.dashes,
            "pickups": f.pickups,
            "air_time": f.air_ticks * self.rules.tick_seconds,
            "survival": f.field_ticks * self.rules.tick_seconds / lives,
        }
        return [values[name] for name in METRICS]

    # A tick

    def _play_tick(self, held: Sequence[Keys], out: Outcome) -> None:
        self.stage.move_platform()
        places = [(f.x, f.y) for f in self.fighters]
        present = [f.present for f in self.fighters]
        armed, pickups = [f.armed for f in self.fighters], [f.pickups for f in self.fighters]
        self._act(held, out)
        blows = self._strikes(out)
        for f in self.fighters:
            self._run_timers(f)
        self._apply(blows, out)
        lost = [f.present and self._is_out(f) for f in self.fighters]
        self._credit_places(places, all(present) and not any(lost), out)
        for seat in range(SEATS):
            if lost[seat]:
                self._lose_stock(seat, out)
        for seat, f in enumerate(self.fighters):
            taken = f.pickups - pickups[seat]
            out.terms[seat]["weapon_taken"] += taken
            out.terms[seat]["weapon_lost"] += armed[seat] + taken - f.armed
            f.field_ticks += present[seat]
        for side, item in enumerate(self.stage.items):
            self._run_item(side, item)
        self.tick += 1

    def _act(self, held: Sequence[Keys], out: Outcome) -> None:
        """Each fighter's own tick, then what both wish of the weapons."""
        grounds = [f.half for f in self.fighters]
        attacks = [f.attacks for f in self.fighters]
        wishes = [own_tick(f, keys, self.stage) for f, keys in zip(self.fighters, held, strict=True)]
        for seat, f in enumerate(self.fighters):
            out.terms[seat]["attack"] += f.attacks - attacks[seat]
        takers = [f if wish == "take" else None for f, wish in zip(self.fighters, wishes, strict=True)]
        droppers = [f for f, wish in zip(self.fighters, wishes, strict=True) if wish == "drop"]
        empty = [not item.lies for item in self.stage.items]
        self._take(takers, grounds)
        self._drop(droppers, empty)

    def _take(self, takers: Sequence[Fighter | None], grounds: Sequence[int]) -> None:
        """Each taker gets what lies on its ground; two who want the same get nothing."""
        for ground, item in enumerate(self.stage.items):
            wanted_by = [f for f, own in zip(takers, grounds, strict=True) if f is not None and own == ground]
            if len(wanted_by) == 1:
                f = wanted_by[0]
                f.weapon, f.weapon_left = item.kind, item.left
                f.pickups += 1
                self._clear(item)

    def _drop(self, droppers: Sequence[Fighter], empty: Sequence[bool]) -> None:
        """A dropped weapon comes to lie on an empty ground under or below it; two on the same ground are both lost."""
        for ground, item in enumerate(self.stage.items):
            fallen = [f for f in droppers if f.half == ground and self.stage.over_ground(f.x) and f.y >= 0.0]
            if empty[ground] and len(fallen) == 1:
                item.kind, item.left = fallen[0].weapon, fallen[0].weapon_left
                item.x, item.ticks = fallen[0].x, self.rules.item_ticks
        for f in droppers:
            f.weapon, f.weapon_left = "unarmed", 0

    def _clear(self, item: Item) -> None:
        item.kind, item.left = "unarmed", 0
        item.ticks = self.rng.between(self.rules.item_wait_min, self.rules.item_wait_max)

    def _run_item(self, side: int, item: Item) -> None:
        """A weapon on the ground vanishes after a while; some time later the next one appears."""
        r = self.rules
        if item.ticks == 0:
            return
        item.ticks -= 1
        if item.ticks > 0:
            return
        if item.lies:
            self._clear(item)
            return
        item.kind = "hammer" if self.rng.coin() else "spear"
        item.x = (-1 if side == 0 else 1) * (r.item_near + (r.item_far - r.item_near) * self.rng.unit())
        item.ticks, item.left = r.item_ticks, r.weapon_ticks

    def _run_timers(self, f: Fighter) -> None:
        if not f.present:
            return
        for name in _TIMERS:
            setattr(f, name, max(0, getattr(f, name) - 1))
        if f.weapon_left > 0:
            f.weapon_left -= 1
            if f.weapon_left == 0:
                f.weapon = "unarmed"
        strike = f.strike
        if strike is None:
            return
        waits = strike.charges and f.move_tick == strike.startup - 1
        if waits and "heavy" in f.keys and f.charge < self.rules.max_charge:
            f.charge += 1
            return
        f.move_tick += 1
        follow_up = name_of(strike.on_hit if f.move_hit else strike.on_miss)
        if f.move_tick == strike.startup + strike.active and follow_up is not None:
            f.go_on_with(follow_up)
        elif f.move_tick >= strike.ticks:
            f.end_move()

    def _credit_places(self, places: Sequence[tuple[float, float]], both_on_field: bool, out: Outcome) -> None:
        """The terms of being where it is dangerous, and of coming nearer."""
        for f, terms in zip(self.fighters, out.terms, strict=True):
            if f.present and f.in_air and (abs(f.x) > self.rules.edge_outer or f.y < 0.0):
                terms["danger_zone"] += self.rules.tick_seconds
        if both_on_field:
            self._credit_approach(places, out)

    def _credit_approach(self, places: Sequence[tuple[float, float]], out: Outcome) -> None:
        """Each seat gets what its own motion took off the distance, averaged over the other moving first or second."""
        (p, q), (a, b) = places, [(f.x, f.y) for f in self.fighters]

        def apart(one: tuple[float, float], two: tuple[float, float]) -> float:
            across, up = one[0] - two[0], one[1] - two[1]
            return math.sqrt(across * across + up * up)

        old, new = apart(p, q), apart(a, b)
        out.terms[0]["approach"] += ((old - apart(a, q)) + (apart(p, b) - new)) * 0.5
        out.terms[1]["approach"] += ((old - apart(p, b)) + (apart(a, q) - new)) * 0.5

    def _is_out(self, f: Fighter) -> bool:
        r = self.rules
        return abs(f.x) > r.blast_side or not r.blast_bottom <= f.y <= r.blast_top

    def _lose_stock(self, seat: int, out: Outcome) -> None:
        f, other = self.fighters[seat], self.fighters[1 - seat]
        f.stocks -= 1
        out.terms[seat]["stock_lost"] += 1.0
        if f.credit > 0:
            other.knock_outs += 1
            out.terms[1 - seat]["knock_out"] += 1.0
        else:
            f.self_destructs += 1
        f.place(self.rules.respawn_x, self.rules.respawn_y, self.rules)
        f.respawn = self.rules.respawn_ticks

    # Hits

    def _strikes(self, out: Outcome) -> list[Blow | None]:
        """The blow that each seat deals in this tick, both read from the same state; marks those who hit."""
        a, b = self.fighters
        blows = [self._blow(a, b), self._blow(b, a)]
        for seat, blow in enumerate(blows):
            if blow is not None:
                self._mark_hit(self.fighters[seat], self.fighters[1 - seat], out.terms[seat])
        return blows

    def _blow(self, a: Fighter, b: Fighter) -> Blow | None:
        """What `a` deals `b`, if it hits."""
        r = self.rules
        strike = a.strike
        safe = not b.present or b.invulnerable > 0 or b.dodge > 0
        if strike is None or a.move_hit or safe or not self._touches(a, strike, b):
            return None
        power = 1.0 + r.charge_power * a.charge / r.max_charge
        damage = strike.damage * power
        speed = (strike.knockback + strike.growth * (b.damage + damage) / 100.0) * power
        row = b.combo if b.stun > 0 else 0
        stun = strike.stun + int(speed * r.stun_per_speed) - r.combo_decay * row
        stun = min(r.max_stun, max(r.min_stun, stun))
        return Blow(damage, a.facing * strike.angle_x * speed, strike.angle_y * speed, stun, row + 1)

    def _touches(self, a: Fighter, strike: Strike, b: Fighter) -> bool:
        """Is the strike active, and does its box meet the body?"""
        r = self.rules
        if not strike.startup <= a.move_tick < strike.startup + strike.active:
            return False
        off_x = a.x + a.facing * strike.offset_x - b.x
        off_y = a.y + strike.offset_y - (b.y + r.body_half_height)
        near_x = abs(off_x) <= strike.half_width + r.body_half_width
        return near_x and abs(off_y) <= strike.half_height + r.body_half_height

    @staticmethod
    def _mark_hit(hitter: Fighter, target: Fighter, terms: dict[str, float]) -> None:
        """An attack counts as a hit once, whatever follows up."""
        hitter.move_hit = True
        if hitter.landed:
            return
        hitter.landed = True
        hitter.hits += 1
        terms["hit"] += 1.0
        if target.stun > 0:
            hitter.combos += 1
            terms["combo"] += 1.0

    def _apply(self, blows: Sequence[Blow | None], out: Outcome) -> None:
        for seat, blow in enumerate(blows):
            if blow is None:
                continue
            self._strike_down(self.fighters[1 - seat], blow)
            self.fighters[seat].damage_dealt += blow.damage
            out.terms[seat]["damage_dealt"] += blow.damage / 100.0
            out.terms[1 - seat]["damage_taken"] += blow.damage / 100.0

    def _strike_down(self, f: Fighter, blow: Blow) -> None:
        f.damage += blow.damage
        f.vx, f.vy = blow.vx, blow.vy
        if not f.in_air and f.vy < 0.0:
            f.vy = -f.vy * self.rules.bounce
        f.support = "air"
        f.stun, f.combo = blow.stun, blow.combo
        f.dash = f.turn = 0
        f.end_move()
        f.credit = self.rules.credit_ticks

    # What is seen

    def legal(self, seat: int) -> list[bool]:
        """The mask of `seat`: one entry a key."""
        legal = legal_keys(self.fighters[seat], self.stage)
        return [key in legal for key in KEYS]

    def observe(self, seat: int) -> list[float]:
        """The 64 numbers that `seat` sees, before rounding to float32."""
        me, other = self.fighters[seat], self.fighters[1 - seat]
        return half(me, other, self.stage, self.tick) + half(other, me, self.stage, self.tick)

    def record(self) -> tuple[object, ...]:
        """The values of `state.STATE_DTYPE`, in its order."""
        fighters, items = [f.record() for f in self.fighters], [item.record() for item in self.stage.items]
        platform = (self.stage.platform_y, self.stage.platform_direction)
        return (fighters, items, *platform, self.seed, self.rng.state, self.tick)
