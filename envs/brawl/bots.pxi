# Bots: one decision, from the state that an agent would see, with draws from the fighter's own stream.
# Included by brawl.pyx. `luck` is one draw; different bits of it serve different choices.

cdef inline int32_t toward_x(double dx) noexcept nogil:
    return RIGHT if dx > 0.0 else LEFT


cdef inline bint pressable(const Fighter* me, int32_t key) noexcept nogil:
    """A key that acts on a new press acts only if it is not held."""
    return not me.keys & key


cdef inline bint in_danger(const Fighter* f, const Game* g) noexcept nogil:
    """Off the outer edges, or low in the pit."""
    return f.support == AIR and (f.y < 0.0 or fabs(f.x) > g.rules.edge_outer
                                 or (fabs(f.x) < g.rules.edge_inner and f.y < 0.5))


cdef int32_t return_keys(const Fighter* me, bint knows_recovery, const Style* style, const Game* g) noexcept nogil:
    """Back to a ground: in from outside, out of the pit the way it looks; jumps while it falls, then the recovery."""
    cdef int32_t keys = toward_x(-me.x) if fabs(me.x) > g.rules.edge_inner else toward_x(me.facing)
    if me.vy > 0.0 or me.y > style.return_height or busy_ticks(me, g) > 0:
        return keys
    if me.jumps_left > 0:
        return keys | (JUMP if pressable(me, JUMP) else 0)
    return keys | UP | HEAVY if knows_recovery and me.recovery_left > 0 else keys


cdef int32_t walk_keys(const Fighter* me, double target, const Game* g) noexcept nogil:
    """Toward `target` (x), over the pit with a jump, never past an outer edge's margin."""
    cdef double limit = g.rules.edge_outer - g.rules.bot_margin
    cdef double dx
    cdef int32_t keys
    if target > limit:
        target = limit
    elif target < -limit:
        target = -limit
    dx = target - me.x
    if fabs(dx) < 0.3:
        return 0
    keys = toward_x(dx)
    if me.support == GROUND and fabs(me.x) < g.rules.edge_inner + 1.0 and dx * me.x < 0.0 and pressable(me, JUMP):
        keys |= JUMP
    return keys


cdef inline double sign_of(double dx) noexcept nogil:
    return 1.0 if dx > 0.0 else -1.0


cdef int32_t seek_keys(const Fighter* me, double target, double dx, const Style* style, const Game* g) noexcept nogil:
    """Toward `target` (x), where it would meet the opponent, dx from here, if its style drew it nowhere else."""
    cdef double home = sign_of(style.territory) * me.side * g.rules.spawn_x
    target = target - sign_of(dx) * style.distance
    return walk_keys(me, target + fabs(style.territory) * (home - target), g)


cdef inline bint has_room(const Fighter* me, double dx, double room, const Game* g) noexcept nogil:
    """Whether `room` units the way of dx there is still the same ground below."""
    return over_ground(me.x, g) and over_ground(me.x + sign_of(dx) * room, g) and me.x * (me.x + sign_of(dx) * room) > 0


cdef int32_t strike_keys(const Fighter* me, double dx, bint heavy, const Game* g) noexcept nogil:
    """A strike the way of dx; near an edge the light one on the spot, which does not carry over it."""
    if me.support == AIR:
        return toward_x(dx) | LIGHT
    if not has_room(me, dx, 1.2, g):
        return LIGHT
    return toward_x(dx) | (HEAVY if heavy else LIGHT)


cdef inline double reach_of(const Fighter* me, const Style* style, const Game* g) noexcept nogil:
    return (g.rules.bot_spear_reach_x if me.weapon == SPEAR else g.rules.bot_reach_x) * style.reach


cdef inline bint is_near(const Fighter* me, const Fighter* other, double reach, const Game* g) noexcept nogil:
    return other.respawn == 0 and fabs(other.x - me.x) < reach and fabs(other.y - me.y) < g.rules.bot_reach_y


cdef inline bint threatens(const Fighter* f, const Game* g) noexcept nogil:
    """It winds up a strike or strikes."""
    return f.move >= 0 and f.move_tick < g.strikes[f.move].startup + g.strikes[f.move].active


cdef int32_t based_keys(const Fighter* me, const Fighter* other, uint64_t luck, const Style* style,
                        const Game* g) noexcept nogil:
    """Walks up to the opponent, jumps when below it, strikes lightly when near. Knows no recovery."""
    cdef int32_t keys = 0
    if in_danger(me, g):
        return return_keys(me, False, style, g)
    if other.respawn == 0 and other.stun == 0:
        keys = seek_keys(me, other.x, other.x - me.x, style, g)
    if other.respawn == 0 and other.y - me.y > 1.5 and me.vy <= 0.0 and luck & 3 == 0 and pressable(me, JUMP):
        keys |= JUMP
    if is_near(me, other, g.rules.bot_reach_x * style.reach, g) and (luck >> 8) & 7 < 5:
        keys |= LIGHT
    return keys


cdef int32_t rusher_keys(const Fighter* me, const Fighter* other, uint64_t luck, const Style* style,
                         const Game* g) noexcept nogil:
    """Always at the opponent: dashes in, hardly hesitates, strikes with heavies once the opponent is worn."""
    cdef int32_t keys
    cdef double dx = other.x - me.x
    if in_danger(me, g):
        return return_keys(me, True, style, g)
    if other.respawn > 0:
        return walk_keys(me, me.side * g.rules.spawn_x, g)
    if is_near(me, other, reach_of(me, style, g), g):
        if (luck >> 32) & 7 == 0:
            return toward_x(dx)
        if me.support != AIR and other.y - me.y > 1.0:
            return UP | (HEAVY if luck & 3 == 0 else LIGHT)
        return strike_keys(me, dx, other.damage > 40.0 and (luck >> 8) & 3 > 0, g)
    keys = seek_keys(me, other.x, dx, style, g)
    if me.support != AIR and fabs(dx) > 3.0 and me.dodge_cooldown == 0 and dx * me.facing > 0.0:
        if pressable(me, DODGE) and has_room(me, dx, 3.0, g):
            keys |= DODGE
    if other.y - me.y > 1.5 and me.vy <= 0.0 and (luck >> 24) & 1 and pressable(me, JUMP):
        keys |= JUMP
    return keys


cdef double item_for(const Fighter* me, const Match* m) noexcept nogil:
    """x of the weapon nearest to `me`, or its own x where none lies."""
    cdef double best = me.x
    cdef double d = 1e9
    cdef int i
    for i in range(2):
        if m.items[i].kind > 0 and fabs(m.items[i].x - me.x) < d:
            d = fabs(m.items[i].x - me.x)
            best = m.items[i].x
    return best


cdef int32_t zoner_keys(const Fighter* me, const Fighter* other, uint64_t luck, const Match* m,
                        const Style* style, const Game* g) noexcept nogil:
    """Fetches weapons, keeps at the end of its reach, steps back from who comes too near."""
    cdef double dx = other.x - me.x
    cdef double reach = reach_of(me, style, g)
    cdef double target
    if in_danger(me, g):
        return return_keys(me, True, style, g)
    if me.weapon == UNARMED:
        if item_in_reach(me, m, g) >= 0 and pressable(me, PICKUP):
            return PICKUP
        target = item_for(me, m)
        if target != me.x and (fabs(dx) > reach or luck & 3):
            return walk_keys(me, target, g)
    if other.respawn > 0:
        return walk_keys(me, me.side * g.rules.spawn_x, g)
    if is_near(me, other, reach, g):
        if fabs(dx) < reach * 0.4 and me.support != AIR and me.dodge_cooldown == 0 and luck & 3 == 0:
            if pressable(me, DODGE) and dx * me.facing > 0.0 and has_room(me, -dx, 2.5, g):
                return toward_x(-dx) | DODGE
        return strike_keys(me, dx, (luck >> 16) & 7 < 2, g)
    return seek_keys(me, other.x - sign_of(dx) * reach * 0.8, dx, style, g)


cdef int32_t edge_guarder_keys(const Fighter* me, const Fighter* other, uint64_t luck,
                               const Style* style, const Game* g) noexcept nogil:
    """Waits on the ground it likes; whoever is off it is met at the edge, in the air or from above."""
    cdef double dx = other.x - me.x
    cdef double dy = other.y - me.y
    if in_danger(me, g):
        return return_keys(me, True, style, g)
    if other.respawn > 0:
        return walk_keys(me, me.side * g.rules.spawn_x, g)
    if in_danger(other, g):
        if fabs(dx) < 1.2 and dy < -0.5:
            return DOWN | LIGHT if me.support == AIR else (JUMP if pressable(me, JUMP) else 0)
        if is_near(me, other, g.rules.bot_reach_x * style.reach + 0.4, g):
            return strike_keys(me, dx, luck & 1, g)
        return walk_keys(me, other.x, g)
    if is_near(me, other, reach_of(me, style, g), g) and luck & 3:
        if me.support != AIR and (luck >> 8) & 3 == 0:
            return DOWN | HEAVY
        return strike_keys(me, dx, (luck >> 16) & 7 < 3, g)
    return seek_keys(me, other.x if fabs(dx) < 4.0 else (me.x + other.x) * 0.5, dx, style, g)


cdef int32_t punisher_keys(const Fighter* me, const Fighter* other, uint64_t luck, const Style* style,
                           const Game* g) noexcept nogil:
    """Stays just out of reach, dodges what is swung at it and strikes into the recovery."""
    cdef double dx = other.x - me.x
    cdef double reach = reach_of(me, style, g)
    cdef int32_t left
    if in_danger(me, g):
        return return_keys(me, True, style, g)
    if other.respawn > 0:
        return walk_keys(me, me.side * g.rules.spawn_x, g)
    if is_near(me, other, reach + 0.8, g):
        if threatens(other, g) and not other.move_hit:
            if me.dodge_cooldown == 0 and pressable(me, DODGE) and luck & 7 < 4:
                return DODGE
            return toward_x(-dx)
        if is_near(me, other, reach, g):
            left = busy_ticks(other, g)
            if left > 0 or luck & 3 == 0:
                return strike_keys(me, dx, left > 10, g)
            return toward_x(-dx) if (luck >> 8) & 1 else 0
    return seek_keys(me, other.x - sign_of(dx) * reach * 0.9, dx, style, g)


cdef int32_t charger_keys(const Fighter* me, const Fighter* other, uint64_t luck, const Style* style,
                          const Game* g) noexcept nogil:
    """Stands on its ground and holds heavy attacks until somebody comes near."""
    cdef double dx = other.x - me.x
    cdef double home = sign_of(me.x) * g.rules.spawn_x
    if in_danger(me, g):
        return return_keys(me, True, style, g)
    if me.support == AIR:
        return walk_keys(me, home, g)
    if me.move >= 0 and g.strikes[me.move].charges and me.move_tick < g.strikes[me.move].startup:
        return 0 if luck & 7 == 0 and is_near(me, other, reach_of(me, style, g), g) else HEAVY
    if other.respawn > 0:
        return walk_keys(me, home, g)
    if fabs(dx) > (6.0 if (luck >> 4) & 3 > 0 else 2.0):
        return seek_keys(me, other.x - sign_of(dx), dx, style, g)
    if other.y - me.y > 1.2:
        return UP | HEAVY
    if (luck >> 8) & 3 == 0 and has_room(me, dx, 1.2, g):
        return toward_x(dx) | HEAVY
    return DOWN | HEAVY


cdef int32_t bot_keys(Match* m, int seat, const Game* g) noexcept nogil:
    """The keys of a bot that has a style."""
    cdef Fighter* f = &m.fighters[seat]
    cdef const Fighter* other = &m.fighters[1 - seat]
    cdef uint64_t luck = draw(&f.rng)
    cdef int32_t controller = f.controller
    cdef int32_t keys
    cdef Style style
    draw_style(m, f, g, &style)
    if not looks(m, &style, g):
        return f.keys
    if controller == BASED:
        keys = based_keys(f, other, luck, &style, g)
    elif controller == RUSHER:
        keys = rusher_keys(f, other, luck, &style, g)
    elif controller == ZONER:
        keys = zoner_keys(f, other, luck, m, &style, g)
    elif controller == EDGE_GUARDER:
        keys = edge_guarder_keys(f, other, luck, &style, g)
    elif controller == PUNISHER:
        keys = punisher_keys(f, other, luck, &style, g)
    else:
        keys = charger_keys(f, other, luck, &style, g)
    if in_danger(f, g):
        return keys
    return in_style(f, other, keys, mix(luck), reach_of(f, &style, g), &style, g)


cdef int32_t decide(Match* m, int seat, const Row* row, const Game* g) noexcept nogil:
    """The keys that this seat holds in this step, those that may do nothing left out.

    A key that acts only on a new press is kept: it must be seen as held, and the rules keep it from acting. What a bot
    holds that its mask allows is written into `actions`.
    """
    cdef Fighter* f = &m.fighters[seat]
    cdef int32_t keys = 0
    cdef int32_t controller = f.controller
    cdef int32_t legal = legal_keys(f, m, g)
    cdef int k
    if controller == EXTERNAL:
        for k in range(NUM_KEYS):
            keys |= row.actions[seat * NUM_KEYS + k] << k
    elif controller == RANDOM:
        keys = <int32_t>(draw(&f.rng) >> 54)
    elif controller != CONSTANT:
        keys = bot_keys(m, seat, g)
    if controller != EXTERNAL:
        for k in range(NUM_KEYS):
            row.actions[seat * NUM_KEYS + k] = ((keys & legal) >> k) & 1
    return keys & (legal | FRESH_ONLY)
