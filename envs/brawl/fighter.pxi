# A fighter's own tick: its keys, its motion, the stage. It never looks at the other fighter. Included by brawl.pyx.

cdef int32_t busy_ticks(const Fighter* f, const Game* g) noexcept nogil:
    """Coming ticks without control, at least; 0: it can act now."""
    cdef const Strike* s
    cdef int32_t busy, rest
    if f.respawn > 0:
        return f.respawn
    busy = f.stun if f.stun > f.dodge else f.dodge
    if f.move >= 0:
        s = &g.strikes[f.move]
        rest = s.startup + s.active + s.recovery - f.move_tick
        if s.air and rest > s.recovery:
            rest = s.recovery
        if rest > busy:
            busy = rest
    return busy


cdef inline int32_t item_in_reach(const Fighter* f, const Match* m, const Game* g) noexcept nogil:
    """The ground whose item `f` can take, or -1."""
    cdef int32_t i = ground_of(f.x)
    if f.support == GROUND and m.items[i].kind > 0 and fabs(f.x - m.items[i].x) <= g.rules.pickup_reach:
        return i
    return -1


cdef int32_t legal_keys(const Fighter* f, const Match* m, const Game* g) noexcept nogil:
    """The keys that may do something within the next step."""
    cdef int32_t ticks = g.rules.ticks_per_step
    cdef int32_t busy = busy_ticks(f, g)
    cdef int32_t keys = 0
    cdef int32_t once = 0
    if busy < ticks:
        keys = UP | LEFT | DOWN | RIGHT | LIGHT | HEAVY
    elif f.respawn > 0:
        return 0
    elif f.support == AIR and f.stun < ticks and f.dodge < ticks:
        keys = LEFT | DOWN | RIGHT
    if f.move >= 0 and g.strikes[f.move].charges and f.move_tick < g.strikes[f.move].startup:
        if f.charge < g.rules.max_charge:
            keys |= HEAVY
    if busy == 0:
        if f.support != AIR or f.jumps_left > 0:
            once |= JUMP
        if f.dodge_cooldown == 0:
            once |= DODGE
        if f.support != AIR:
            once |= TAUNT
        if f.weapon > 0 or item_in_reach(f, m, g) >= 0:
            once |= PICKUP
        keys |= once & ~f.keys
    return keys


cdef inline void begin_strike(Fighter* f, int32_t move) noexcept nogil:
    f.move = move
    f.move_tick = 0
    f.move_hit = 0


cdef inline void end_attack(Fighter* f) noexcept nogil:
    f.move = -1
    f.move_tick = f.move_hit = f.landed = f.charge = 0


cdef inline void begin_attack(Fighter* f, int32_t move) noexcept nogil:
    begin_strike(f, move)
    f.landed = f.charge = f.dash = 0


cdef int32_t chosen_kind(const Fighter* f, int32_t keys, int32_t dx) noexcept nogil:
    """The attack that these keys start, or -1. Heavy beats light, up beats down, down beats the sides."""
    cdef int32_t aim = 1 if keys & UP else (-1 if keys & DOWN else (0 if dx != 0 else 1))
    if f.support != AIR:
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
        return NEUTRAL_AIR if aim == 1 else (SIDE_AIR if aim == 0 else DOWN_AIR)
    return -1


cdef void start_dodge(Fighter* f, int32_t dx, const Game* g) noexcept nogil:
    """A dash along the ground where a direction is held, else a dodge."""
    f.direction = dx
    if f.support != AIR and dx != 0:
        f.dash = g.rules.dash_ticks if dx == f.facing else g.rules.back_dash_ticks
        f.dodge_cooldown = g.rules.dash_cooldown
        f.dashes += 1
        return
    f.dash = 0
    f.dodge = g.rules.dodge_ticks
    f.dodge_cooldown = g.rules.dodge_cooldown_ground if f.support != AIR else g.rules.dodge_cooldown_air
    f.dodges += 1


cdef void turn_around(Fighter* f, int32_t dx, const Game* g) noexcept nogil:
    f.facing = dx
    if f.support != AIR:
        f.turn = g.rules.turn_ticks
        f.dash = f.run_ticks = 0
    elif f.vx * dx < 0.0:
        f.vx = f.vx * g.rules.air_turn


cdef void jump(Fighter* f, const Game* g) noexcept nogil:
    if f.support != AIR:
        f.vy = g.rules.jump_speed
        f.support = AIR
    else:
        f.vy = g.rules.air_jump_speed
        f.jumps_left -= 1
    f.dash = 0


cdef int32_t obey(Fighter* f, int32_t keys, int32_t dx, const Match* m, const Game* g) noexcept nogil:
    """Starts what the keys ask for: the first of dodge, jump, pick-up, attack, drop, taunt, falling through.

    Returns what it wishes of the items.
    """
    cdef int32_t fresh = keys & ~f.keys
    cdef int32_t kind
    if fresh & DODGE and f.dodge_cooldown == 0:
        start_dodge(f, dx, g)
        return NO_WISH
    if dx != 0 and dx != f.facing and not (f.dash > 0 and dx == f.direction):
        turn_around(f, dx, g)
    if fresh & JUMP and (f.support != AIR or f.jumps_left > 0):
        jump(f, g)
        return NO_WISH
    if fresh & PICKUP and f.weapon == UNARMED and item_in_reach(f, m, g) >= 0:
        return TAKE
    kind = chosen_kind(f, keys, dx)
    if kind >= 0:
        if kind == RECOVERY:
            f.recovery_left = 0
        begin_attack(f, g.starts[f.weapon][kind])
        f.invulnerable = 0
        f.attacks += 1
        return NO_WISH
    if fresh & PICKUP and f.weapon != UNARMED:
        return DROP
    if fresh & TAUNT and f.support != AIR:
        begin_attack(f, g.taunt)
    elif fresh & DOWN and f.support == PLATFORM:
        f.support = AIR
        f.y -= g.rules.drop_depth
    return NO_WISH


cdef void accelerate_standing(Fighter* f, int32_t dx, bint walks, const Game* g) noexcept nogil:
    cdef const Rules* r = &g.rules
    if f.dash > 0:
        f.vx = f.direction * (r.dash_speed if f.direction == f.facing else r.back_dash_speed)
        f.run_ticks = r.run_after if f.direction == f.facing else 0
    elif walks and dx != 0 and f.turn == 0:
        f.vx = toward(f.vx, dx * (r.run_speed if f.run_ticks >= r.run_after else r.walk_speed),
                      r.ground_acceleration * r.tick_seconds)
        if f.run_ticks < r.run_after:
            f.run_ticks += 1
    else:
        f.vx = toward(f.vx, 0.0, (r.stun_friction if f.stun > 0 else r.ground_friction) * r.tick_seconds)
        f.run_ticks = 0


cdef void accelerate_in_air(Fighter* f, int32_t keys, int32_t dx, const Game* g) noexcept nogil:
    cdef const Rules* r = &g.rules
    cdef double dt = r.tick_seconds
    cdef double limit = r.max_fall
    f.run_ticks = f.dash = 0
    if f.stun > 0:
        f.vx = toward(f.vx, 0.0, r.stun_drag * dt)
    elif dx != 0:
        f.vx = toward(f.vx, dx * r.air_speed, r.air_acceleration * dt)
    else:
        f.vx = toward(f.vx, 0.0, r.air_drag * dt)
    f.vy -= r.gravity * dt
    if f.stun > 0 or (f.move >= 0 and g.strikes[f.move].lunge_y < 0.0):
        limit = r.max_fast_fall
    elif keys & DOWN and f.vy < 0.0:
        f.vy -= r.fast_fall * dt
        limit = r.max_fast_fall
    if f.vy < -limit:
        f.vy = -limit


cdef void accelerate(Fighter* f, int32_t keys, int32_t dx, bint walks, const Game* g) noexcept nogil:
    """Changes the velocity: walking, dashing, air control, friction, gravity, a strike's lunge."""
    cdef const Strike* s
    if f.dodge > 0:
        f.vx = f.direction * g.rules.dodge_speed
        f.vy = 0.0
        return
    if f.support != AIR:
        accelerate_standing(f, dx, walks, g)
    else:
        accelerate_in_air(f, keys, dx, g)
    if f.move >= 0:
        s = &g.strikes[f.move]
        if f.move_tick == s.startup:
            if s.lunge_x != 0.0:
                f.vx = f.facing * s.lunge_x
            if s.lunge_y != 0.0:
                f.vy = s.lunge_y


cdef void land(Fighter* f, int32_t support, double level, const Game* g) noexcept nogil:
    """Feet come down on something: a bounce while stunned and fast, else a landing that cuts an air strike short."""
    cdef const Strike* s
    cdef int32_t last
    f.y = level
    if f.stun > 0 and f.vy < -g.rules.bounce_speed:
        f.vy = -f.vy * g.rules.bounce
        return
    f.vy = 0.0
    f.support = support
    f.jumps_left = g.rules.air_jumps
    f.recovery_left = 1
    if f.move >= 0 and g.strikes[f.move].air:
        s = &g.strikes[f.move]
        last = s.startup + s.active
        if f.move_tick < last:
            if s.on_land >= 0:
                begin_strike(f, s.on_land)
            else:
                f.move_tick = last


cdef void meet_stage(Fighter* f, double old_x, double old_y, double old_platform, const Match* m,
                     const Game* g) noexcept nogil:
    """Of a fighter in the air after its motion: the grounds from above, their walls, the platform from above."""
    cdef double sign
    if over_ground(f.x, g) and f.y <= 0.0:
        if old_y >= 0.0:
            land(f, GROUND, 0.0, g)
            return
        sign = 1.0 if f.x > 0.0 else -1.0
        f.x = sign * (g.rules.edge_outer if fabs(old_x) > (g.rules.edge_inner + g.rules.edge_outer) * 0.5
                      else g.rules.edge_inner)
        f.vx = 0.0
    if fabs(f.x) <= g.rules.edge_inner and old_y >= old_platform and f.y <= m.platform_y and f.vy <= 0.0:
        land(f, PLATFORM, m.platform_y, g)


cdef void travel(Fighter* f, double old_platform, const Match* m, const Game* g) noexcept nogil:
    """Moves the fighter one tick along and meets the stage."""
    cdef double old_x = f.x
    cdef double old_y = f.y
    f.x += f.vx * g.rules.tick_seconds
    if f.support == AIR:
        f.y += f.vy * g.rules.tick_seconds
    elif f.support == GROUND:
        if not over_ground(f.x, g):
            f.support = AIR
    else:
        f.y = m.platform_y
        if fabs(f.x) > g.rules.edge_inner:
            f.support = AIR
    if f.support == AIR:
        meet_stage(f, old_x, old_y, old_platform, m, g)
    if f.support == AIR:
        f.air_ticks += 1


cdef int32_t fighter_tick(Fighter* f, int32_t keys, double old_platform, const Match* m, const Game* g) noexcept nogil:
    """Returns what it wishes of the items."""
    cdef int32_t dx = direction_of(keys)
    cdef int32_t wish = NO_WISH
    cdef bint acts
    if f.respawn > 0:
        f.respawn -= 1
        f.keys = keys & FRESH_ONLY
        if f.respawn == 0:
            f.invulnerable = g.rules.protection_ticks
        return wish
    acts = busy_ticks(f, g) == 0
    if acts:
        wish = obey(f, keys, dx, m, g)
    accelerate(f, keys, dx, acts and f.move < 0, g)
    travel(f, old_platform, m, g)
    f.keys = keys
    return wish


cdef inline void count_down(int32_t* ticks) noexcept nogil:
    ticks[0] -= ticks[0] > 0


cdef void run_strike(Fighter* f, const Game* g) noexcept nogil:
    """One tick on in the attack: held, on, into a follow-up, or over."""
    cdef const Strike* s = &g.strikes[f.move]
    cdef int32_t next_strike
    if s.charges and f.move_tick == s.startup - 1 and f.keys & HEAVY and f.charge < g.rules.max_charge:
        f.charge += 1
        return
    f.move_tick += 1
    if f.move_tick == s.startup + s.active:
        next_strike = s.on_hit if f.move_hit else s.on_miss
        if next_strike >= 0:
            begin_strike(f, next_strike)
            return
    if f.move_tick >= s.startup + s.active + s.recovery:
        end_attack(f)


cdef void run_timers(Fighter* f, const Game* g) noexcept nogil:
    if f.respawn > 0:
        return
    count_down(&f.stun)
    count_down(&f.invulnerable)
    count_down(&f.dodge)
    count_down(&f.dash)
    count_down(&f.dodge_cooldown)
    count_down(&f.turn)
    count_down(&f.credit)
    if f.weapon_left > 0:
        f.weapon_left -= 1
        if f.weapon_left == 0:
            f.weapon = UNARMED
    if f.move >= 0:
        run_strike(f, g)
