"""Brawl's slow honest twin: one match in plain Python, written from the rules, equal to the compiled one bit for bit.

Python floats are IEEE doubles and never fuse a multiplication with an addition, so the same expressions give the same
bits. Here keys are names, a fighter is an object, and an attack's phase is asked for by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields

from league.envs.brawl.moves import MOVES, Move
from league.envs.brawl.rules import BOTS, END_REASONS, KEYS, METRICS, TERMS, Rules
from league.types import DRAW, EXTERNAL, SEATS

_MOVE_NAMES = tuple(MOVES)
_AIR_MOVES = ("neutral_air", "down_air", "recovery", "ground_pound")
_FRESH_ONLY = frozenset({"jump", "dodge", "taunt"})
_DIRECTIONS = frozenset({"up", "left", "down", "right"})
_U64 = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15

Keys = frozenset[str]


def mix(z: int) -> int:
    """splitmix64's output function (Steele, Lea, Flood 2014)."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _U64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _U64
    return z ^ (z >> 31)


def next_seed(seed: int) -> int:
    """The seed of the match after the one started with `seed`."""
    return mix((seed + _GOLDEN) & _U64)


def row_seed(seed: int, row: int) -> int:
    """What `reset(seed)` starts row `row` with."""
    return mix((next_seed(seed) + (row + 1) * _GOLDEN) & _U64)


def _toward(value: float, target: float, most: float) -> float:
    if value < target:
        return min(value + most, target)
    return max(value - most, target)


def _unit(value: float) -> float:
    return max(-1.0, min(1.0, value))


@dataclass
class Fighter:
    """One fighter; names, units and ranges as in `state.FIGHTER_DTYPE`, but the keys are names and a move is one."""

    side: int
    stocks: int
    rng: int
    x: float = 0.0
    y: float = 0.0
    vx: float = 0.0
    vy: float = 0.0
    damage: float = 0.0
    damage_dealt: float = 0.0
    facing: int = 1
    on_ground: bool = False
    jumps_left: int = 0
    recovery_left: bool = True
    stun: int = 0
    invulnerable: int = 0
    dodge: int = 0
    dodge_direction: int = 0
    dodge_cooldown: int = 0
    respawn: int = 0
    taunt: int = 0
    credit: int = 0
    move: str | None = None
    move_tick: int = 0
    move_hit: bool = False
    run_ticks: int = 0
    keys: Keys = frozenset()
    knock_outs: int = 0
    self_destructs: int = 0
    attacks: int = 0
    hits: int = 0
    dodges: int = 0
    air_ticks: int = 0
    controller: int = EXTERNAL

    def draw(self) -> int:
        """The next 64 random bits of this fighter's own stream."""
        self.rng = (self.rng + _GOLDEN) & _U64
        return mix(self.rng)

    @property
    def present(self) -> bool:
        """Is it on the field, rather than waiting to come back?"""
        return self.respawn == 0

    @property
    def can_act(self) -> bool:
        """May it start something in the next tick?"""
        busy = self.stun > 0 or self.dodge > 0 or self.taunt > 0 or self.move is not None
        return self.present and not busy

    def legal_keys(self) -> Keys:
        """The keys that may do something in the next tick."""
        if not self.present:
            return frozenset()
        legal = set(_DIRECTIONS)
        if self.can_act:
            legal |= {"light", "heavy"}
            legal |= {"jump"} if self.on_ground or self.jumps_left > 0 else set()
            legal |= {"dodge"} if self.dodge_cooldown == 0 else set()
            legal |= {"taunt"} if self.on_ground else set()
            legal -= self.keys & _FRESH_ONLY
        return frozenset(legal)

    def record(self) -> tuple[float | int, ...]:
        """The values of `state.FIGHTER_DTYPE`, in its order."""
        bits = sum(1 << i for i, key in enumerate(KEYS) if key in self.keys)
        move = -1 if self.move is None else _MOVE_NAMES.index(self.move)
        floats = (self.x, self.y, self.vx, self.vy, self.damage, self.damage_dealt)
        timers = (self.stun, self.invulnerable, self.dodge, self.dodge_direction, self.dodge_cooldown, self.respawn)
        attack = (self.taunt, self.credit, move, self.move_tick, int(self.move_hit), self.run_ticks, bits)
        counts = (self.knock_outs, self.self_destructs, self.attacks, self.hits, self.dodges, self.air_ticks)
        body = (self.facing, self.side, int(self.on_ground), self.stocks, self.jumps_left, int(self.recovery_left))
        return (*floats, self.rng, *body, *timers, *attack, *counts, self.controller)


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


class ReferenceMatch:
    """One match of brawl under `rules`, started from `seed`; after its end the next one starts by itself."""

    def __init__(self, rules: Rules, seed: int) -> None:
        self.rules = rules
        self._start(seed, (EXTERNAL, EXTERNAL))

    def _start(self, seed: int, controllers: Sequence[int]) -> None:
        self.seed = seed
        self.tick = 0
        draws = []
        self.rng = mix(seed ^ 0xD1B54A32D192ED03)
        for _ in range(3):
            self.rng = (self.rng + _GOLDEN) & _U64
            draws.append(mix(self.rng))
        side = 1 if draws[0] >= 1 << 63 else -1
        self.fighters = [
            Fighter(side, self.rules.stocks, draws[1], controller=controllers[0]),
            Fighter(-side, self.rules.stocks, draws[2], controller=controllers[1]),
        ]
        for f in self.fighters:
            self._put(f, self.rules.spawn_x, 0.0)

    def _put(self, f: Fighter, x: float, y: float) -> None:
        kept = ("side", "stocks", "rng", "damage_dealt", "controller")
        counted = ("knock_outs", "self_destructs", "attacks", "hits", "dodges", "air_ticks")
        for item in fields(Fighter):
            if item.name not in kept + counted:
                setattr(f, item.name, item.default)
        f.x, f.y, f.facing = f.side * x, y, -f.side
        f.on_ground = y == 0.0
        f.jumps_left = self.rules.air_jumps

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
        out.ticks, out.seed = self.tick, self.seed
        out.final_obs = [self.observe(seat) for seat in range(SEATS)]
        out.metrics = [self._metrics(f) for f in self.fighters]

    def _metrics(self, f: Fighter) -> list[float]:
        values = {
            "damage_dealt": f.damage_dealt,
            "knock_outs": f.knock_outs,
            "self_destructs": f.self_destructs,
            "stocks_left": f.stocks,
            "attacks": f.attacks,
            "hits": f.hits,
            "dodges": f.dodges,
            "air_time": f.air_ticks * self.rules.tick_seconds,
        }
        return [values[name] for name in METRICS]

    # Who presses what

    def _decide(self, seat: int, action: Sequence[int]) -> Keys:
        me, other = self.fighters[seat], self.fighters[1 - seat]
        pressed: Iterable[str]
        if me.controller == EXTERNAL:
            pressed = (key for key, value in zip(KEYS, action, strict=True) if value)
        elif BOTS[me.controller] == "random":
            bits = me.draw() >> 54
            pressed = (key for i, key in enumerate(KEYS) if bits >> i & 1)
        elif BOTS[me.controller] == "based":
            pressed = self._based(me, other)
        else:
            pressed = ()
        return frozenset(pressed) & (me.legal_keys() | _FRESH_ONLY)

    def _based(self, me: Fighter, other: Fighter) -> set[str]:
        luck = me.draw()
        r = self.rules
        across, above = other.x - me.x, other.y - me.y
        off_stage = abs(me.x) > r.edge
        pressed = set()
        if abs(me.x) > r.edge - r.bot_margin:
            pressed.add("left" if me.x > 0 else "right")
        elif other.present and other.stun == 0 and abs(across) > 0.3:
            pressed.add("right" if across > 0 else "left")
        if off_stage:
            if me.vy <= 0 and me.y < 2.0:
                pressed.add("jump")
        elif other.present and above > 1.5 and me.vy <= 0 and luck % 4 == 0:
            pressed.add("jump")
        if "jump" in me.keys:
            pressed.discard("jump")
        near = abs(across) < r.bot_reach_x and abs(above) < r.bot_reach_y
        if other.present and near and (luck >> 8) % 8 < 5:
            pressed.add("light")
        return pressed

    # A tick

    def _play_tick(self, held: Sequence[Keys], out: Outcome) -> None:
        places = [(f.x, f.y) for f in self.fighters]
        both_present = all(f.present for f in self.fighters)
        for f, keys, terms in zip(self.fighters, held, out.terms, strict=True):
            attacks = f.attacks
            self._move_fighter(f, keys)
            terms["attack"] += f.attacks - attacks
        a, b = self.fighters
        forces = [self._force(a, b), self._force(b, a)]
        for f in self.fighters:
            self._run_timers(f)
        self._apply(forces, out)
        lost = [f.present and self._is_out(f) for f in self.fighters]
        for f, terms in zip(self.fighters, out.terms, strict=True):
            if f.present and abs(f.x) > self.rules.edge:
                terms["danger_zone"] += self.rules.tick_seconds
        if both_present and all(f.present for f in self.fighters) and not any(lost):
            self._credit_approach(places, out)
        for seat in range(SEATS):
            if lost[seat]:
                self._lose_stock(seat, out)
        self.tick += 1

    def _credit_approach(self, places: Sequence[tuple[float, float]], out: Outcome) -> None:
        """Each seat gets what its own motion took off the distance, averaged over the other moving first or second."""
        (p, q), (a, b) = places, [(f.x, f.y) for f in self.fighters]

        def apart(one: tuple[float, float], two: tuple[float, float]) -> float:
            across, up = one[0] - two[0], one[1] - two[1]
            return math.sqrt(across * across + up * up)

        old, new = apart(p, q), apart(a, b)
        out.terms[0]["approach"] += ((old - apart(a, q)) + (apart(p, b) - new)) * 0.5
        out.terms[1]["approach"] += ((old - apart(p, b)) + (apart(a, q) - new)) * 0.5

    def _run_timers(self, f: Fighter) -> None:
        if not f.present:
            return
        for name in ("stun", "invulnerable", "dodge", "dodge_cooldown", "taunt", "credit"):
            setattr(f, name, max(0, getattr(f, name) - 1))
        if f.move is not None:
            f.move_tick += 1
            move = MOVES[f.move]
            if f.move_tick == move.startup + move.active + move.recovery:
                self._end_move(f)

    @staticmethod
    def _end_move(f: Fighter) -> None:
        f.move, f.move_tick, f.move_hit = None, 0, False

    def _is_out(self, f: Fighter) -> bool:
        r = self.rules
        return abs(f.x) > r.blast_side or not r.blast_bottom <= f.y <= r.blast_top

    def _lose_stock(self, seat: int, out: Outcome) -> None:
        f, other = self.fighters[seat], self.fighters[1 - seat]
        f.stocks -= 1
        out.terms[seat]["stock_lost"] += 1.0
        if f.credit:
            other.knock_outs += 1
            out.terms[1 - seat]["knock_out"] += 1.0
        else:
            f.self_destructs += 1
        self._put(f, self.rules.respawn_x, self.rules.respawn_y)
        f.respawn = self.rules.respawn_ticks

    # Hits

    def _force(self, a: Fighter, b: Fighter) -> tuple[Move, float, float, int] | None:
        """(move, vx, vy, stun) of the blow that `a` deals `b` in this tick, if any."""
        r = self.rules
        safe = not b.present or b.invulnerable > 0 or b.dodge > 0
        if a.move is None or a.move_hit or safe:
            return None
        move = MOVES[a.move]
        if not move.startup <= a.move_tick < move.startup + move.active:
            return None
        reach_x, reach_y = move.half_width + r.body_half_width, move.half_height + r.body_half_height
        off_x = a.x + a.facing * move.offset_x - b.x
        off_y = a.y + move.offset_y - (b.y + r.body_half_height)
        if abs(off_x) > reach_x or abs(off_y) > reach_y:
            return None
        speed = move.knockback + move.growth * (b.damage + move.damage) / 100.0
        stun = min(r.max_stun, move.stun + int(speed * r.stun_per_speed))
        return move, a.facing * move.angle_x * speed, move.angle_y * speed, stun

    def _apply(self, forces: Sequence[tuple[Move, float, float, int] | None], out: Outcome) -> None:
        for seat, force in enumerate(forces):
            f = self.fighters[seat]
            if force is not None and f.move is not None:
                f.move_hit = True
        for seat, force in enumerate(forces):
            if force is None:
                continue
            move, vx, vy, stun = force
            hitter, target = self.fighters[seat], self.fighters[1 - seat]
            target.damage += move.damage
            target.vx, target.vy, target.stun = vx, vy, stun
            if target.on_ground and vy < 0.0:
                target.vy = -vy * self.rules.bounce
            target.on_ground = False
            self._end_move(target)
            target.taunt, target.credit = 0, self.rules.credit_ticks
            hitter.hits += 1
            hitter.damage_dealt += move.damage
            out.terms[seat]["hit"] += 1.0
            out.terms[seat]["damage_dealt"] += move.damage / 100.0
            out.terms[1 - seat]["damage_taken"] += move.damage / 100.0

    # A fighter's own tick

    def _move_fighter(self, f: Fighter, keys: Keys) -> None:
        if not f.present:
            f.keys = keys & _FRESH_ONLY
            f.respawn -= 1
            if f.present:
                f.invulnerable = self.rules.protection_ticks
            return
        direction = ("right" in keys) - ("left" in keys)
        could_act = f.can_act
        if could_act:
            self._begin(f, keys, direction)
        self._accelerate(f, keys, direction, could_act and f.move is None and f.taunt == 0)
        self._lunge(f)
        self._travel(f)
        f.keys = keys

    def _begin(self, f: Fighter, keys: Keys, direction: int) -> None:
        r = self.rules
        fresh = keys - f.keys
        f.facing = direction or f.facing
        if "dodge" in fresh and f.dodge_cooldown == 0:
            f.dodge, f.dodge_direction = r.dodge_ticks, direction
            f.dodge_cooldown = r.dodge_cooldown_ground if f.on_ground else r.dodge_cooldown_air
            f.dodges += 1
        elif "jump" in fresh and f.on_ground:
            f.vy, f.on_ground = r.jump_speed, False
        elif "jump" in fresh and f.jumps_left > 0:
            f.vy = r.air_jump_speed
            f.jumps_left -= 1
        elif (move := self._pick(f, keys, direction)) is not None:
            f.move, f.move_tick, f.move_hit = move, 0, False
            f.recovery_left = f.recovery_left and move != "recovery"
            f.invulnerable = 0
            f.attacks += 1
        elif "taunt" in fresh and f.on_ground:
            f.taunt = r.taunt_ticks

    @staticmethod
    def _pick(f: Fighter, keys: Keys, direction: int) -> str | None:
        if "up" in keys or ("down" not in keys and direction == 0):
            aim = "neutral"
        else:
            aim = "down" if "down" in keys else "side"
        if f.on_ground:
            weight = "heavy" if "heavy" in keys else "light" if "light" in keys else None
            return f"{aim}_{weight}" if weight else None
        if "heavy" in keys and aim == "down":
            return "ground_pound"
        if "heavy" in keys and f.recovery_left:
            return "recovery"
        if "light" in keys:
            return "down_air" if aim == "down" else "neutral_air"
        return None

    def _accelerate(self, f: Fighter, keys: Keys, direction: int, walks: bool) -> None:
        r, dt = self.rules, self.rules.tick_seconds
        if f.dodge > 0:
            f.vx, f.vy = f.dodge_direction * r.dodge_speed, 0.0
            return
        if f.on_ground and walks and direction:
            speed = r.run_speed if f.run_ticks >= r.run_after else r.walk_speed
            f.vx = _toward(f.vx, direction * speed, r.ground_acceleration * dt)
            f.run_ticks = min(f.run_ticks + 1, r.run_after)
            return
        f.run_ticks = 0
        if f.on_ground:
            f.vx = _toward(f.vx, 0.0, (r.stun_friction if f.stun else r.ground_friction) * dt)
            return
        if f.stun:
            f.vx = _toward(f.vx, 0.0, r.stun_drag * dt)
        elif direction:
            f.vx = _toward(f.vx, direction * r.air_speed, r.air_acceleration * dt)
        else:
            f.vx = _toward(f.vx, 0.0, r.air_drag * dt)
        f.vy -= r.gravity * dt
        dives = f.move is not None and MOVES[f.move].lunge_y < 0
        fast = f.stun > 0 or dives
        if not fast and "down" in keys and f.vy < 0:
            f.vy -= r.fast_fall * dt
            fast = True
        f.vy = max(f.vy, -(r.max_fast_fall if fast else r.max_fall))

    @staticmethod
    def _lunge(f: Fighter) -> None:
        if f.move is None or f.dodge > 0 or f.move_tick != MOVES[f.move].startup:
            return
        move = MOVES[f.move]
        if move.lunge_x:
            f.vx = f.facing * move.lunge_x
        if move.lunge_y:
            f.vy = move.lunge_y

    def _travel(self, f: Fighter) -> None:
        r = self.rules
        x, y = f.x, f.y
        f.x, f.y = x + f.vx * r.tick_seconds, y + f.vy * r.tick_seconds
        over_stage = abs(f.x) <= r.edge
        if f.on_ground:
            f.on_ground = over_stage
        elif over_stage and f.y <= 0.0 and y >= 0.0:
            self._land(f)
        elif over_stage and f.y <= 0.0:
            f.x, f.vx = math.copysign(r.edge, x), 0.0
        f.air_ticks += not f.on_ground

    def _land(self, f: Fighter) -> None:
        r = self.rules
        f.y = 0.0
        if f.stun and f.vy < -r.bounce_speed:
            f.vy = -f.vy * r.bounce
            return
        f.vy, f.on_ground, f.jumps_left, f.recovery_left = 0.0, True, r.air_jumps, True
        if f.move in _AIR_MOVES:
            move = MOVES[f.move]
            f.move_tick = max(f.move_tick, move.startup + move.active)

    # What is seen

    def legal(self, seat: int) -> list[bool]:
        """The mask of `seat`: one entry a key."""
        return [key in self.fighters[seat].legal_keys() for key in KEYS]

    def observe(self, seat: int) -> list[float]:
        """The 64 numbers that `seat` sees, before rounding to float32."""
        return self._half(self.fighters[seat], self.fighters[1 - seat]) + self._half(
            self.fighters[1 - seat], self.fighters[seat]
        )

    def _half(self, f: Fighter, other: Fighter) -> list[float]:
        r = self.rules
        across, above = other.x - f.x, other.y - f.y
        safe = max(f.invulnerable, f.dodge)
        motion = [f.x / r.blast_side, f.y / r.blast_top, f.vx / 20.0, f.vy / 20.0, f.facing, f.on_ground]
        to_other = [across / (abs(across) + 2.0), above / (abs(above) + 2.0)]
        left = [
            f.damage / 150.0,
            f.stocks / r.stocks,
            (f.on_ground + f.jumps_left) / (r.air_jumps + 1),
            f.recovery_left,
            f.stun / 30.0,
            safe / 30.0,
            f.dodge_cooldown / r.dodge_cooldown_air,
            f.respawn / 45.0,
        ]
        place = [(r.edge - abs(f.x)) / r.edge, (r.time_limit - self.tick) / r.time_limit]
        held = [("right" in f.keys) - ("left" in f.keys), ("up" in f.keys) - ("down" in f.keys)]
        held += [key in f.keys for key in ("jump", "light", "heavy", "dodge")]
        values = motion + to_other + left + self._attack(f) + place + held + [f.can_act, f.credit / r.credit_ticks]
        return [_unit(float(value)) for value in values]

    @staticmethod
    def _attack(f: Fighter) -> list[float]:
        if f.move is None:
            return [0.0] * 6
        move = MOVES[f.move]
        until_end = move.startup + move.active + move.recovery - f.move_tick
        active = min(move.active, max(0, until_end - move.recovery))
        return [
            max(0, move.startup - f.move_tick) / 10.0,
            0.0 if f.move_hit else active / 10.0,
            min(move.recovery, until_end) / 16.0,
            float(not move.heavy),
            float(move.heavy),
            float(move.aim),
        ]

    def record(self) -> tuple[object, ...]:
        """The values of `state.STATE_DTYPE`, in its order."""
        first, second = (f.record() for f in self.fighters)
        return ([first, second], self.seed, self.rng, self.tick)
