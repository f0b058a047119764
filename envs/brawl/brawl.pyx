"""The compiled rules of brawl and the batch that steps them. `reference.py` is the slow twin: the same bits.

Only + - * / and sqrt on float64 decide anything, and the build forbids fused multiply-add.
"""

from cython.parallel cimport prange
from libc.math cimport fabs, sqrt
from libc.stdint cimport int16_t, int32_t, int64_t, int8_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from dataclasses import asdict

import numpy as np

from league.envs.brawl.moves import MOVES
from league.envs.brawl.rules import BOTS, KEYS, METRICS, TERMS
from league.envs.brawl.state import STATE_DTYPE, pack_state, unpack_state
from league.types import result_dtype

cdef enum:
    NUM_KEYS = 10
    NUM_TERMS = 9
    NUM_METRICS = 8
    HALF = 32
    MAX_MOVES = 16

cdef enum:  # key bits
    UP = 1
    LEFT = 2
    DOWN = 4
    RIGHT = 8
    JUMP = 16
    PICKUP = 32
    DODGE = 64
    LIGHT = 128
    HEAVY = 256
    TAUNT = 512
    FRESH_ONLY = 16 + 64 + 512  # jump, dodge, taunt: they act when pressed anew, not while held

cdef enum:  # the order of rules.TERMS
    DAMAGE_DEALT
    DAMAGE_TAKEN
    KNOCK_OUT
    STOCK_LOST
    WIN
    DANGER_ZONE
    APPROACH
    ATTACK
    HIT

cdef enum:  # the order of moves.MOVES
    NEUTRAL_LIGHT
    SIDE_LIGHT
    DOWN_LIGHT
    NEUTRAL_HEAVY
    SIDE_HEAVY
    DOWN_HEAVY
    NEUTRAL_AIR
    DOWN_AIR
    RECOVERY
    GROUND_POUND

cdef enum:  # the order of rules.BOTS
    EXTERNAL = -1
    CONSTANT = 0
    RANDOM = 1
    BASED = 2

cdef enum:  # the order of rules.END_REASONS, after "goes on"
    ONGOING = -1
    BY_KNOCK_OUT = 0
    BY_TIME_LIMIT = 1

cdef struct Rules:
    int32_t ticks_per_step
    int32_t time_limit
    int32_t stocks
    double tick_seconds
    double edge
    double blast_side
    double blast_top
    double blast_bottom
    double spawn_x
    double respawn_x
    double respawn_y
    double body_half_width
    double body_half_height
    double gravity
    double fast_fall
    double max_fall
    double max_fast_fall
    double walk_speed
    double run_speed
    int32_t run_after
    double ground_acceleration
    double ground_friction
    double stun_friction
    double air_speed
    double air_acceleration
    double air_drag
    double stun_drag
    double jump_speed
    double air_jump_speed
    int32_t air_jumps
    int32_t dodge_ticks
    double dodge_speed
    int32_t dodge_cooldown_ground
    int32_t dodge_cooldown_air
    int32_t taunt_ticks
    int32_t respawn_ticks
    int32_t protection_ticks
    int32_t credit_ticks
    double stun_per_speed
    int32_t max_stun
    double bounce
    double bounce_speed
    double bot_reach_x
    double bot_reach_y
    double bot_margin

cdef struct Move:
    int32_t startup
    int32_t active
    int32_t recovery
    double damage
    double knockback
    double growth
    double angle_x
    double angle_y
    double offset_x
    double offset_y
    double half_width
    double half_height
    int32_t stun
    double lunge_x
    double lunge_y
    int32_t heavy
    int32_t aim

cdef struct Game:
    Rules rules
    Move moves[MAX_MOVES]

# The fields of Fighter and Match, in order, are those of state.STATE_DTYPE.
cdef struct Fighter:
    double x
    double y
    double vx
    double vy
    double damage
    double damage_dealt
    uint64_t rng
    int32_t facing
    int32_t side
    int32_t on_ground
    int32_t stocks
    int32_t jumps_left
    int32_t recovery_left
    int32_t stun
    int32_t invulnerable
    int32_t dodge
    int32_t dodge_direction
    int32_t dodge_cooldown
    int32_t respawn
    int32_t taunt
    int32_t credit
    int32_t move
    int32_t move_tick
    int32_t move_hit
    int32_t run_ticks
    int32_t keys
    int32_t knock_outs
    int32_t self_destructs
    int32_t attacks
    int32_t hits
    int32_t dodges
    int32_t air_ticks
    int32_t controller

cdef struct Match:
    Fighter fighters[2]
    uint64_t seed
    uint64_t rng
    int64_t tick

cdef packed struct Result:  # the fields of types.result_dtype(NUM_METRICS)
    int8_t winner
    int8_t end_reason
    int32_t ticks
    uint64_t seed
    float metrics[2][NUM_METRICS]

cdef struct Strike:
    bint lands
    double damage
    double vx
    double vy
    int32_t stun

cdef struct Row:  # where one match's arrays begin
    Match* match
    const int32_t* actions    # (2, NUM_KEYS)
    const int16_t* controllers  # (2,)
    float* obs                # (2, 2 * HALF)
    float* final_obs          # (2, 2 * HALF)
    uint8_t* mask             # (2, NUM_KEYS)
    float* terms              # (2, NUM_TERMS)
    uint8_t* terminated
    Result* result


# Random numbers: splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").

cdef inline uint64_t mix(uint64_t z) noexcept nogil:
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline uint64_t draw(uint64_t* state) noexcept nogil:
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    return mix(state[0])


# Small helpers.

cdef inline double toward(double value, double target, double most) noexcept nogil:
    if value < target:
        return target if value + most > target else value + most
    return target if value - most < target else value - most


cdef inline double clip(double value) noexcept nogil:
    return 1.0 if value > 1.0 else (-1.0 if value < -1.0 else value)


cdef inline double distance(double ax, double ay, double bx, double by) noexcept nogil:
    return sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))


cdef inline bint can_act(const Fighter* f) noexcept nogil:
    return f.respawn == 0 and f.stun == 0 and f.dodge == 0 and f.move < 0 and f.taunt == 0


cdef int32_t legal_keys(const Fighter* f) noexcept nogil:
    """The keys that may do something in the next tick."""
    cdef int32_t keys
    if f.respawn > 0:
        return 0
    keys = UP | LEFT | DOWN | RIGHT
    if can_act(f):
        keys |= LIGHT | HEAVY
        if f.on_ground or f.jumps_left > 0:
            keys |= JUMP
        if f.dodge_cooldown == 0:
            keys |= DODGE
        if f.on_ground:
            keys |= TAUNT
        keys &= ~(f.keys & FRESH_ONLY)
    return keys


# A fighter's own tick: its keys, its motion, the stage. It never looks at the other fighter.

cdef void start_move(Fighter* f, int32_t move) noexcept nogil:
    f.move = move
    f.move_tick = 0
    f.move_hit = 0
    f.invulnerable = 0
    f.attacks += 1


cdef int32_t chosen_move(const Fighter* f, int32_t keys, int32_t dx) noexcept nogil:
    """The move that these keys start, or -1. Heavy beats light, up beats down, down beats the sides."""
    cdef int32_t aim = 1 if keys & UP else (-1 if keys & DOWN else (0 if dx != 0 else 1))
    if f.on_ground:
        if keys & HEAVY:
            return NEUTRAL_HEAVY if aim == 1 else (SIDE_HEAVY if aim == 0 else DOWN_HEAVY)
        if keys & LIGHT:
            return NEUTRAL_LIGHT if aim == 1 else (SIDE_LIGHT if aim == 0 else DOWN_LIGHT)
        return -1
    if keys & HEAVY:
        if aim == -1:
            return GROUND_POUND
        if f.recovery_left > 0:
            return RECOVERY
    if keys & LIGHT:
        return DOWN_AIR if aim == -1 else NEUTRAL_AIR
    return -1


cdef void obey(Fighter* f, int32_t keys, int32_t dx, const Game* g) noexcept nogil:
    """Starts what the keys ask for: a dodge, else a jump, else an attack, else a taunt."""
    cdef int32_t fresh = keys & ~f.keys
    cdef int32_t move
    if dx != 0:
        f.facing = dx
    if fresh & DODGE and f.dodge_cooldown == 0:
        f.dodge = g.rules.dodge_ticks
        f.dodge_direction = dx
        f.dodge_cooldown = g.rules.dodge_cooldown_ground if f.on_ground else g.rules.dodge_cooldown_air
        f.dodges += 1
        return
    if fresh & JUMP and (f.on_ground or f.jumps_left > 0):
        if f.on_ground:
            f.vy = g.rules.jump_speed
            f.on_ground = 0
        else:
            f.vy = g.rules.air_jump_speed
            f.jumps_left -= 1
        return
    move = chosen_move(f, keys, dx)
    if move >= 0:
        if move == RECOVERY:
            f.recovery_left = 0
        start_move(f, move)
    elif fresh & TAUNT and f.on_ground:
        f.taunt = g.rules.taunt_ticks


cdef void accelerate(Fighter* f, int32_t keys, int32_t dx, bint walks, const Game* g) noexcept nogil:
    """Changes the velocity: walking, air control, friction, gravity, a move's lunge."""
    cdef const Rules* r = &g.rules
    cdef double dt = r.tick_seconds
    cdef double limit
    cdef bint dives = f.move >= 0 and g.moves[f.move].lunge_y < 0.0
    if f.dodge > 0:
        f.vx = f.dodge_direction * r.dodge_speed
        f.vy = 0.0
        return
    if f.on_ground:
        if walks and dx != 0:
            f.vx = toward(f.vx, dx * (r.run_speed if f.run_ticks >= r.run_after else r.walk_speed),
                          r.ground_acceleration * dt)
            if f.run_ticks < r.run_after:
                f.run_ticks += 1
        else:
            f.vx = toward(f.vx, 0.0, (r.stun_friction if f.stun > 0 else r.ground_friction) * dt)
            f.run_ticks = 0
    else:
        f.run_ticks = 0
        if f.stun > 0:
            f.vx = toward(f.vx, 0.0, r.stun_drag * dt)
        elif dx != 0:
            f.vx = toward(f.vx, dx * r.air_speed, r.air_acceleration * dt)
        else:
            f.vx = toward(f.vx, 0.0, r.air_drag * dt)
        f.vy -= r.gravity * dt
        limit = r.max_fall
        if f.stun > 0 or dives:
            limit = r.max_fast_fall
        elif keys & DOWN and f.vy < 0.0:
            f.vy -= r.fast_fall * dt
            limit = r.max_fast_fall
        if f.vy < -limit:
            f.vy = -limit
    if f.move >= 0 and f.move_tick == g.moves[f.move].startup:
        if g.moves[f.move].lunge_x != 0.0:
            f.vx = f.facing * g.moves[f.move].lunge_x
        if g.moves[f.move].lunge_y != 0.0:
            f.vy = g.moves[f.move].lunge_y


cdef void land(Fighter* f, const Game* g) noexcept nogil:
    """Feet meet the stage from above: a bounce while stunned and fast, else a landing that cuts an air move short."""
    cdef int32_t last
    f.y = 0.0
    if f.stun > 0 and f.vy < -g.rules.bounce_speed:
        f.vy = -f.vy * g.rules.bounce
        return
    f.vy = 0.0
    f.on_ground = 1
    f.jumps_left = g.rules.air_jumps
    f.recovery_left = 1
    if f.move >= NEUTRAL_AIR:
        last = g.moves[f.move].startup + g.moves[f.move].active
        if f.move_tick < last:
            f.move_tick = last


cdef void travel(Fighter* f, const Game* g) noexcept nogil:
    """Moves the fighter one tick along and meets the stage: its top from above, its walls from the side."""
    cdef double old_x = f.x
    cdef double old_y = f.y
    f.x += f.vx * g.rules.tick_seconds
    f.y += f.vy * g.rules.tick_seconds
    if f.on_ground:
        if fabs(f.x) > g.rules.edge:
            f.on_ground = 0
    elif fabs(f.x) <= g.rules.edge and f.y <= 0.0:
        if old_y >= 0.0:
            land(f, g)
        else:
            f.x = g.rules.edge if old_x > 0.0 else -g.rules.edge
            f.vx = 0.0
    if not f.on_ground:
        f.air_ticks += 1


cdef void fighter_tick(Fighter* f, int32_t keys, const Game* g) noexcept nogil:
    cdef int32_t dx = (1 if keys & RIGHT else 0) - (1 if keys & LEFT else 0)
    cdef bint acts
    if f.respawn > 0:
        f.respawn -= 1
        f.keys = keys & FRESH_ONLY
        if f.respawn == 0:
            f.invulnerable = g.rules.protection_ticks
        return
    acts = can_act(f)
    if acts:
        obey(f, keys, dx, g)
    accelerate(f, keys, dx, acts and f.move < 0 and f.taunt == 0, g)
    travel(f, g)
    f.keys = keys


cdef inline void count_down(int32_t* ticks) noexcept nogil:
    if ticks[0] > 0:
        ticks[0] -= 1


cdef void run_timers(Fighter* f, const Game* g) noexcept nogil:
    if f.respawn > 0:
        return
    count_down(&f.stun)
    count_down(&f.invulnerable)
    count_down(&f.dodge)
    count_down(&f.dodge_cooldown)
    count_down(&f.taunt)
    count_down(&f.credit)
    if f.move >= 0:
        f.move_tick += 1
        if f.move_tick >= g.moves[f.move].startup + g.moves[f.move].active + g.moves[f.move].recovery:
            f.move = -1
            f.move_tick = 0
            f.move_hit = 0


# What the fighters do to each other. Both strikes are read from the same state, then both are applied.

cdef Strike strike(const Fighter* a, const Fighter* b, const Game* g) noexcept nogil:
    """What `a`'s move does to `b` in this tick."""
    cdef Strike s
    cdef const Move* m
    cdef double speed
    s.lands = False
    s.damage = s.vx = s.vy = 0.0
    s.stun = 0
    if a.move < 0 or a.move_hit or b.respawn > 0 or b.invulnerable > 0 or b.dodge > 0:
        return s
    m = &g.moves[a.move]
    if a.move_tick < m.startup or a.move_tick >= m.startup + m.active:
        return s
    if fabs(a.x + a.facing * m.offset_x - b.x) > m.half_width + g.rules.body_half_width:
        return s
    if fabs(a.y + m.offset_y - (b.y + g.rules.body_half_height)) > m.half_height + g.rules.body_half_height:
        return s
    speed = m.knockback + m.growth * (b.damage + m.damage) / 100.0
    s.lands = True
    s.damage = m.damage
    s.vx = a.facing * m.angle_x * speed
    s.vy = m.angle_y * speed
    s.stun = m.stun + <int32_t>(speed * g.rules.stun_per_speed)
    if s.stun > g.rules.max_stun:
        s.stun = g.rules.max_stun
    return s


cdef void take_strike(Fighter* f, const Strike* s, const Game* g) noexcept nogil:
    f.damage += s.damage
    f.vx = s.vx
    f.vy = s.vy
    if f.on_ground:
        if f.vy < 0.0:
            f.vy = -f.vy * g.rules.bounce
        f.on_ground = 0
    f.stun = s.stun
    f.move = -1
    f.move_tick = 0
    f.move_hit = 0
    f.taunt = 0
    f.credit = g.rules.credit_ticks


cdef void place(Fighter* f, double x, double y, const Game* g) noexcept nogil:
    """Puts a fresh fighter at x on its own side, facing the middle."""
    f.x = f.side * x
    f.y = y
    f.vx = 0.0
    f.vy = 0.0
    f.damage = 0.0
    f.facing = -f.side
    f.on_ground = 1 if y == 0.0 else 0
    f.jumps_left = g.rules.air_jumps
    f.recovery_left = 1
    f.stun = f.invulnerable = f.dodge = f.dodge_direction = f.dodge_cooldown = f.respawn = f.taunt = f.credit = 0
    f.move = -1
    f.move_tick = f.move_hit = f.run_ticks = f.keys = 0


cdef inline bint is_out(const Fighter* f, const Game* g) noexcept nogil:
    return fabs(f.x) > g.rules.blast_side or f.y > g.rules.blast_top or f.y < g.rules.blast_bottom


cdef void lose_stock(Fighter* f, Fighter* other, double* own, double* others, const Game* g) noexcept nogil:
    f.stocks -= 1
    own[STOCK_LOST] += 1.0
    if f.credit > 0:
        other.knock_outs += 1
        others[KNOCK_OUT] += 1.0
    else:
        f.self_destructs += 1
    place(f, g.rules.respawn_x, g.rules.respawn_y, g)
    f.respawn = g.rules.respawn_ticks


cdef void match_tick(Match* m, const Game* g, const int32_t* keys, double* terms) noexcept nogil:
    """One tick of both fighters; adds to terms (2, NUM_TERMS)."""
    cdef Fighter* f = m.fighters
    cdef Fighter before[2]
    cdef Strike strikes[2]
    cdef bint out[2]
    cdef int s
    before[0] = f[0]
    before[1] = f[1]
    for s in range(2):
        fighter_tick(&f[s], keys[s], g)
        terms[s * NUM_TERMS + ATTACK] += f[s].attacks - before[s].attacks
    for s in range(2):
        strikes[s] = strike(&f[s], &f[1 - s], g)
    for s in range(2):
        run_timers(&f[s], g)
    for s in range(2):
        if strikes[s].lands:
            f[s].move_hit = 1 if f[s].move >= 0 else 0
    for s in range(2):
        if strikes[s].lands:
            take_strike(&f[1 - s], &strikes[s], g)
            f[s].hits += 1
            f[s].damage_dealt += strikes[s].damage
            terms[s * NUM_TERMS + HIT] += 1.0
            terms[s * NUM_TERMS + DAMAGE_DEALT] += strikes[s].damage / 100.0
            terms[(1 - s) * NUM_TERMS + DAMAGE_TAKEN] += strikes[s].damage / 100.0
    for s in range(2):
        out[s] = f[s].respawn == 0 and is_out(&f[s], g)
        if f[s].respawn == 0 and fabs(f[s].x) > g.rules.edge:
            terms[s * NUM_TERMS + DANGER_ZONE] += g.rules.tick_seconds
    if before[0].respawn == 0 and before[1].respawn == 0 and not out[0] and not out[1]:
        add_approach(before, f, terms)
    for s in range(2):
        if out[s]:
            lose_stock(&f[s], &f[1 - s], terms + s * NUM_TERMS, terms + (1 - s) * NUM_TERMS, g)
    m.tick += 1


cdef void add_approach(const Fighter* before, const Fighter* after, double* terms) noexcept nogil:
    """Splits the decrease of the distance between the two who moved; the shares sum to it (Shapley's split).

    A share is what the own motion changes, averaged over the other having moved already or not yet.
    """
    cdef double old = distance(before[0].x, before[0].y, before[1].x, before[1].y)
    cdef double first = distance(after[0].x, after[0].y, before[1].x, before[1].y)
    cdef double second = distance(before[0].x, before[0].y, after[1].x, after[1].y)
    cdef double new = distance(after[0].x, after[0].y, after[1].x, after[1].y)
    terms[APPROACH] += ((old - first) + (second - new)) * 0.5
    terms[NUM_TERMS + APPROACH] += ((old - second) + (first - new)) * 0.5


cdef int32_t end_of_match(const Match* m, const Game* g, int32_t* winner) noexcept nogil:
    """The end reason, or ONGOING; `winner` is a seat or -1."""
    cdef const Fighter* f = &m.fighters[0]
    winner[0] = -1
    if f[0].stocks > 0 and f[1].stocks > 0 and m.tick < g.rules.time_limit:
        return ONGOING
    if f[0].stocks != f[1].stocks:
        winner[0] = 0 if f[0].stocks > f[1].stocks else 1
    elif f[0].stocks > 0 and f[0].damage != f[1].damage:
        winner[0] = 0 if f[0].damage < f[1].damage else 1
    return BY_KNOCK_OUT if f[0].stocks == 0 or f[1].stocks == 0 else BY_TIME_LIMIT


cdef void start_match(Match* m, uint64_t seed, const Game* g) noexcept nogil:
    """A fresh match; the controllers stay."""
    cdef int s
    cdef int32_t side
    cdef int32_t controller
    m.seed = seed
    m.rng = mix(seed ^ <uint64_t>0xD1B54A32D192ED03)
    m.tick = 0
    side = 1 if draw(&m.rng) >> 63 else -1
    for s in range(2):
        controller = m.fighters[s].controller
        memset(&m.fighters[s], 0, sizeof(Fighter))
        m.fighters[s].controller = controller
        m.fighters[s].side = side if s == 0 else -side
        m.fighters[s].stocks = g.rules.stocks
        m.fighters[s].rng = draw(&m.rng)
        place(&m.fighters[s], g.rules.spawn_x, 0.0, g)


# Bots: one decision, from the state that an agent would see, with draws from the fighter's own stream.

cdef int32_t based_keys(Fighter* me, const Fighter* other, const Game* g) noexcept nogil:
    """Comes back to the stage, walks up to the opponent, jumps when below it, strikes lightly when near."""
    cdef uint64_t luck = draw(&me.rng)
    cdef double dx = other.x - me.x
    cdef double dy = other.y - me.y
    cdef bint absent = other.respawn > 0
    cdef bint off_stage = fabs(me.x) > g.rules.edge
    cdef int32_t keys = 0
    if fabs(me.x) > g.rules.edge - g.rules.bot_margin:
        keys |= LEFT if me.x > 0.0 else RIGHT
    elif not absent and other.stun == 0 and fabs(dx) > 0.3:
        keys |= RIGHT if dx > 0.0 else LEFT
    if off_stage and me.vy <= 0.0 and me.y < 2.0:
        keys |= JUMP
    elif not absent and not off_stage and dy > 1.5 and me.vy <= 0.0 and luck & 3 == 0:
        keys |= JUMP
    keys &= ~(me.keys & JUMP)
    if not absent and fabs(dx) < g.rules.bot_reach_x and fabs(dy) < g.rules.bot_reach_y and (luck >> 8) & 7 < 5:
        keys |= LIGHT
    return keys


cdef int32_t decide(Match* m, int seat, const Row* row, const Game* g) noexcept nogil:
    """The keys that this seat holds in this step, those that may do nothing left out.

    A key that acts only when pressed anew stays in: it must be seen as held, and the rules keep it from acting.
    """
    cdef Fighter* f = &m.fighters[seat]
    cdef int32_t keys = 0
    cdef int32_t controller = f.controller
    cdef int k
    if controller == EXTERNAL:
        for k in range(NUM_KEYS):
            keys |= row.actions[seat * NUM_KEYS + k] << k
    elif controller == RANDOM:
        keys = <int32_t>(draw(&f.rng) >> 54)
    elif controller == BASED:
        keys = based_keys(f, &m.fighters[1 - seat], g)
    return keys & (legal_keys(f) | FRESH_ONLY)


# What the players see.

cdef void write_half(const Match* m, int seat, const Game* g, float* o) noexcept nogil:
    """One half of an observation: the HALF numbers of env.FIELDS."""
    cdef const Rules* r = &g.rules
    cdef const Fighter* f = &m.fighters[seat]
    cdef const Fighter* e = &m.fighters[1 - seat]
    cdef const Move* move
    cdef double dx = e.x - f.x
    cdef double dy = e.y - f.y
    cdef int32_t k = f.keys
    cdef int32_t left
    memset(o, 0, HALF * sizeof(float))
    o[0] = <float>clip(f.x / r.blast_side)
    o[1] = <float>clip(f.y / r.blast_top)
    o[2] = <float>clip(f.vx / 20.0)
    o[3] = <float>clip(f.vy / 20.0)
    o[4] = f.facing
    o[5] = f.on_ground
    o[6] = <float>(dx / (fabs(dx) + 2.0))
    o[7] = <float>(dy / (fabs(dy) + 2.0))
    o[8] = <float>clip(f.damage / 150.0)
    o[9] = <float>clip(<double>f.stocks / r.stocks)
    o[10] = <float>clip(<double>(f.on_ground + f.jumps_left) / (r.air_jumps + 1))
    o[11] = f.recovery_left
    o[12] = <float>clip(f.stun / 30.0)
    o[13] = <float>clip((f.invulnerable if f.invulnerable > f.dodge else f.dodge) / 30.0)
    o[14] = <float>clip(<double>f.dodge_cooldown / r.dodge_cooldown_air)
    o[15] = <float>clip(f.respawn / 45.0)
    if f.move >= 0:
        move = &g.moves[f.move]
        left = move.startup - f.move_tick
        o[16] = <float>clip((left if left > 0 else 0) / 10.0)
        left = move.startup + move.active - f.move_tick
        left = move.active if left > move.active else left
        o[17] = 0.0 if f.move_hit or left <= 0 else <float>clip(left / 10.0)
        left = move.startup + move.active + move.recovery - f.move_tick
        left = move.recovery if left > move.recovery else left
        o[18] = <float>clip(left / 16.0)
        o[19] = 0.0 if move.heavy else 1.0
        o[20] = 1.0 if move.heavy else 0.0
        o[21] = move.aim
    o[22] = <float>clip((r.edge - fabs(f.x)) / r.edge)
    o[23] = <float>clip(<double>(r.time_limit - m.tick) / r.time_limit)
    o[24] = (1 if k & RIGHT else 0) - (1 if k & LEFT else 0)
    o[25] = (1 if k & UP else 0) - (1 if k & DOWN else 0)
    o[26] = 1.0 if k & JUMP else 0.0
    o[27] = 1.0 if k & LIGHT else 0.0
    o[28] = 1.0 if k & HEAVY else 0.0
    o[29] = 1.0 if k & DODGE else 0.0
    o[30] = 1.0 if can_act(f) else 0.0
    o[31] = <float>clip(<double>f.credit / r.credit_ticks)


cdef void write_obs(const Match* m, const Game* g, float* obs) noexcept nogil:
    """Both seats' views, (2, 2 * HALF)."""
    write_half(m, 0, g, obs)
    write_half(m, 1, g, obs + 2 * HALF)
    memcpy(obs + HALF, obs + 2 * HALF, HALF * sizeof(float))
    memcpy(obs + 3 * HALF, obs, HALF * sizeof(float))


cdef void write_mask(const Match* m, uint8_t* mask) noexcept nogil:
    cdef int s, k
    cdef int32_t keys
    for s in range(2):
        keys = legal_keys(&m.fighters[s])
        for k in range(NUM_KEYS):
            mask[s * NUM_KEYS + k] = (keys >> k) & 1


cdef void write_result(const Match* m, int32_t reason, int32_t winner, const Game* g, Result* out) noexcept nogil:
    cdef const Fighter* f
    cdef int s
    out.winner = <int8_t>winner
    out.end_reason = <int8_t>reason
    out.ticks = <int32_t>m.tick
    out.seed = m.seed
    for s in range(2):
        f = &m.fighters[s]
        out.metrics[s][0] = <float>f.damage_dealt
        out.metrics[s][1] = <float>f.knock_outs
        out.metrics[s][2] = <float>f.self_destructs
        out.metrics[s][3] = <float>f.stocks
        out.metrics[s][4] = <float>f.attacks
        out.metrics[s][5] = <float>f.hits
        out.metrics[s][6] = <float>f.dodges
        out.metrics[s][7] = <float>(f.air_ticks * g.rules.tick_seconds)


cdef void step_row(const Row* row, const Game* g) noexcept nogil:
    """One decision of one match, and the next match's start if it ends."""
    cdef Match* m = row.match
    cdef double terms[2 * NUM_TERMS]
    cdef int32_t keys[2]
    cdef int32_t winner = -1
    cdef int32_t reason = ONGOING
    cdef int s, i
    memset(terms, 0, sizeof(terms))
    for s in range(2):
        m.fighters[s].controller = row.controllers[s]
    for s in range(2):
        keys[s] = decide(m, s, row, g)
    for _ in range(g.rules.ticks_per_step):
        match_tick(m, g, keys, terms)
        reason = end_of_match(m, g, &winner)
        if reason != ONGOING:
            break
    row.terminated[0] = reason != ONGOING
    if reason != ONGOING:
        if winner >= 0:
            terms[winner * NUM_TERMS + WIN] = 1.0
            terms[(1 - winner) * NUM_TERMS + WIN] = -1.0
        write_result(m, reason, winner, g, row.result)
        write_obs(m, g, row.final_obs)
        start_match(m, mix(m.seed + <uint64_t>0x9E3779B97F4A7C15), g)
    for i in range(2 * NUM_TERMS):
        row.terms[i] = <float>terms[i]
    write_obs(m, g, row.obs)
    write_mask(m, row.mask)


def row_seeds(seed: int, rows: int):
    """The seed of each row, (rows,) uint64, from one seed."""
    cdef uint64_t base = mix(<uint64_t>seed + <uint64_t>0x9E3779B97F4A7C15)
    cdef uint64_t[::1] seeds = np.empty(rows, dtype=np.uint64)
    cdef Py_ssize_t i
    for i in range(rows):
        seeds[i] = mix(base + <uint64_t>(i + 1) * <uint64_t>0x9E3779B97F4A7C15)
    return np.asarray(seeds)


cdef class BrawlBatch:
    """`rows` matches of brawl stepped together in up to `threads` threads; a `league.types.MatchBatch`.

    Args:
        spec: kept as the attribute `spec`.
        rules: `rules.Rules`, every number of the game.
        options_hash: 16 bytes that the state blob carries; a blob with others is refused.

    Raises:
        ValueError: a count below 1, or rules or moves that the compiled code cannot hold.
    """

    cdef readonly object spec, obs, actions, mask, reward_terms, terminated, truncated, final_obs, result, controllers
    cdef readonly Py_ssize_t num_rows
    cdef readonly int threads
    cdef object records
    cdef bytes options_hash
    cdef Game game
    cdef Row first

    def __init__(self, Py_ssize_t rows, int threads, *, spec, rules, bytes options_hash):
        if rows < 1:
            raise ValueError(f"rows={rows} must be at least 1")
        if threads < 1:
            raise ValueError(f"threads={threads} must be at least 1")
        if sizeof(Match) != STATE_DTYPE.itemsize or sizeof(Result) != result_dtype(NUM_METRICS).itemsize:
            raise ValueError("the compiled structs differ from their dtypes; build the extension again")
        if (len(KEYS), len(TERMS), len(METRICS)) != (NUM_KEYS, NUM_TERMS, NUM_METRICS) or len(MOVES) > MAX_MOVES:
            raise ValueError("the compiled tables differ from rules.py or moves.py; build the extension again")
        self.spec = spec
        self.num_rows = rows
        self.threads = threads
        self.options_hash = options_hash
        self.game.rules = asdict(rules)
        for i, move in enumerate(MOVES.values()):
            self.game.moves[i] = asdict(move)
        self._allocate()
        self.reset(0)

    def _allocate(self):
        rows = self.num_rows
        self.obs = np.zeros((rows, 2, 2 * HALF), np.float32)
        self.final_obs = np.zeros((rows, 2, 2 * HALF), np.float32)
        self.actions = np.zeros((rows, 2, NUM_KEYS), np.int32)
        self.mask = np.zeros((rows, 2, NUM_KEYS), np.bool_)
        self.reward_terms = np.zeros((rows, 2, NUM_TERMS), np.float32)
        self.terminated = np.zeros(rows, np.bool_)
        self.truncated = np.zeros(rows, np.bool_)
        self.result = np.zeros(rows, result_dtype(NUM_METRICS))
        self.controllers = np.full((rows, 2), EXTERNAL, np.int16)
        self.records = np.zeros(rows, STATE_DTYPE)
        self.first.match = <Match*>address(self.records)
        self.first.actions = <int32_t*>address(self.actions)
        self.first.controllers = <int16_t*>address(self.controllers)
        self.first.obs = <float*>address(self.obs)
        self.first.final_obs = <float*>address(self.final_obs)
        self.first.mask = <uint8_t*>address(self.mask)
        self.first.terms = <float*>address(self.reward_terms)
        self.first.terminated = <uint8_t*>address(self.terminated)
        self.first.result = <Result*>address(self.result)

    cdef Row _row(self, Py_ssize_t i) noexcept nogil:
        cdef Row row
        row.match = self.first.match + i
        row.actions = self.first.actions + i * 2 * NUM_KEYS
        row.controllers = self.first.controllers + i * 2
        row.obs = self.first.obs + i * 4 * HALF
        row.final_obs = self.first.final_obs + i * 4 * HALF
        row.mask = self.first.mask + i * 2 * NUM_KEYS
        row.terms = self.first.terms + i * 2 * NUM_TERMS
        row.terminated = self.first.terminated + i
        row.result = self.first.result + i
        return row

    cdef void _step_one(self, Py_ssize_t i) noexcept nogil:
        cdef Row row = self._row(i)
        step_row(&row, &self.game)

    def reset(self, seed):
        """Starts every match anew: row i from a seed derived from (`seed`, i), or from `seed[i]` itself.

        Args:
            seed: an int within [0, 2**64), or a uint64 array (B,). Controllers are left as they are.

        Raises:
            ValueError: the seed is neither.
        """
        cdef Py_ssize_t i
        cdef const uint64_t[::1] seeds = self._seeds(seed)
        self._clear()
        for i in range(self.num_rows):
            start_match(self.first.match + i, seeds[i], &self.game)
        self._show()

    def _seeds(self, seed):
        if isinstance(seed, np.ndarray):
            if seed.dtype != np.uint64 or seed.shape != (self.num_rows,):
                raise ValueError(f"seed: array of {seed.dtype} {seed.shape} must be uint64 ({self.num_rows},)")
            return np.ascontiguousarray(seed)
        if isinstance(seed, (bool, np.bool_)) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
            raise ValueError(f"seed={seed!r} must be an int within [0, 2**64) or a uint64 array of one seed a row")
        return row_seeds(int(seed), self.num_rows)

    def _clear(self):
        for array in (self.reward_terms, self.terminated, self.truncated, self.final_obs):
            array.fill(0)
        self.result.view(np.uint8).fill(0)

    cdef void _show(self) noexcept:
        cdef Py_ssize_t i
        cdef Row row
        for i in range(self.num_rows):
            row = self._row(i)
            write_obs(row.match, &self.game, row.obs)
            write_mask(row.match, row.mask)

    cdef int _check_inputs(self) except -1:
        cdef Py_ssize_t i
        cdef int k
        cdef int16_t controller
        cdef int32_t bits
        cdef const int32_t* a
        for i in range(self.num_rows * 2):
            controller = self.first.controllers[i]
            if controller < EXTERNAL or controller > BASED:
                raise ValueError(f"controllers[{i // 2}, {i % 2}]={controller} must be -1 (external) or a bot's id, "
                                 f"0 to {len(BOTS) - 1}")
            if controller == EXTERNAL:
                a = self.first.actions + i * NUM_KEYS
                bits = 0
                for k in range(NUM_KEYS):
                    bits |= a[k]
                if bits & ~1:
                    raise ValueError(f"actions[{i // 2}, {i % 2}]={[a[k] for k in range(NUM_KEYS)]} "
                                     f"must hold 0 or 1 for each key")
        return 0

    def step(self):
        """One decision of every match: `ticks_per_step` ticks with the keys of `actions` held.

        Raises:
            ValueError: a controller is unknown, or an external seat's action is not 0 or 1; nothing has moved then.
        """
        cdef Py_ssize_t i
        self._check_inputs()
        if self.threads == 1:
            with nogil:
                for i in range(self.num_rows):
                    self._step_one(i)
        else:
            for i in prange(self.num_rows, nogil=True, num_threads=self.threads, schedule="static"):
                self._step_one(i)

    def get_state(self):
        """Everything that the next steps depend on, as `state.py` lays it out; controllers included."""
        self.records["fighters"]["controller"] = self.controllers
        return pack_state(self.records, self.options_hash)

    def set_state(self, state):
        """Restores `get_state()` of a batch of the same options and size; writes controllers, obs and mask.

        Raises:
            ValueError: the blob is damaged or of another game, version, size or set of options.
        """
        self.records[:] = unpack_state(state, self.num_rows, self.options_hash)
        self.controllers[:] = self.records["fighters"]["controller"]
        self._clear()
        self._show()


cdef void* address(array) except NULL:
    cdef uint8_t[::1] view = array.reshape(-1).view(np.uint8)
    return &view[0]
