# What the players see, and what a finished match tells. Included by brawl.pyx.

cdef inline double sign_of_kind(int32_t weapon) noexcept nogil:
    return -1.0 if weapon == SPEAR else (1.0 if weapon == HAMMER else 0.0)


cdef void write_item(const Match* m, const Fighter* f, float* o) noexcept nogil:
    """item_x and item: the weapon on the grounds that is nearest along x."""
    cdef const Item* near = NULL
    cdef const Item* item
    cdef double d
    cdef int i
    for i in range(2):
        item = &m.items[i]
        if item.kind > 0 and (near == NULL or fabs(item.x - f.x) < fabs(near.x - f.x)):
            near = item
    if near == NULL:
        o[0] = o[1] = 0.0
        return
    d = near.x - f.x
    o[0] = <float>(d / (fabs(d) + 2.0))
    o[1] = <float>sign_of_kind(near.kind)


cdef void write_strike(const Fighter* f, const Game* g, float* o) noexcept nogil:
    """startup, active, recovery, weight, aim, charge."""
    cdef const Strike* s
    cdef int32_t left
    if f.move < 0:
        o[0] = o[1] = o[2] = o[3] = o[4] = o[5] = 0.0
        return
    s = &g.strikes[f.move]
    left = s.startup - f.move_tick
    o[0] = <float>clip((left if left > 0 else 0) / 20.0)
    left = s.startup + s.active - f.move_tick
    left = s.active if left > s.active else (left if left > 0 else 0)
    o[1] = <float>clip((-left if f.move_hit else left) / 20.0)
    left = s.startup + s.active + s.recovery - f.move_tick
    left = s.recovery if left > s.recovery else left
    o[2] = <float>clip(left / 20.0)
    o[3] = s.weight
    o[4] = s.aim
    o[5] = <float>clip(<double>f.charge / g.rules.max_charge)


cdef void write_half(const Match* m, int seat, const Game* g, float* o) noexcept nogil:
    """One half of an observation: the HALF numbers of env.FIELDS."""
    cdef const Rules* r = &g.rules
    cdef const Fighter* f = &m.fighters[seat]
    cdef const Fighter* e = &m.fighters[1 - seat]
    cdef double dx = e.x - f.x
    cdef double dy = e.y - f.y
    cdef int32_t k = f.keys
    o[0] = <float>clip(f.x / r.blast_side)
    o[1] = <float>clip(f.y / r.blast_top)
    o[2] = <float>clip(f.vx / 20.0)
    o[3] = <float>clip(f.vy / 20.0)
    o[4] = f.facing
    o[5] = 1.0 if f.support == GROUND else (0.5 if f.support == PLATFORM else 0.0)
    o[6] = <float>(dx / (fabs(dx) + 2.0))
    o[7] = <float>(dy / (fabs(dy) + 2.0))
    o[8] = <float>clip(f.damage / 150.0)
    o[9] = <float>clip(<double>f.stocks / r.stocks)
    o[10] = <float>clip(<double>((f.support != AIR) + f.jumps_left) / (r.air_jumps + 1))
    o[11] = f.recovery_left
    o[12] = <float>clip(<double>f.stun / r.max_stun)
    o[13] = <float>clip((-f.respawn if f.respawn > 0 else
                         (f.invulnerable if f.invulnerable > f.dodge else f.dodge)) / 60.0)
    o[14] = <float>clip(<double>f.dodge_cooldown / r.dodge_cooldown_air)
    o[15] = <float>sign_of_kind(f.weapon)
    o[16] = <float>clip(<double>f.weapon_left / r.weapon_ticks)
    write_strike(f, g, o + 17)
    write_item(m, f, o + 23)
    o[25] = <float>clip(m.platform_y / 2.0)
    o[26] = <float>m.platform_direction
    o[27] = <float>clip(<double>(r.time_limit - m.tick) / r.time_limit)
    o[28] = direction_of(k)
    o[29] = (1 if k & UP else 0) - (1 if k & DOWN else 0)
    o[30] = <float>(((1 if k & LIGHT else 0) + (2 if k & HEAVY else 0)) / 3.0)
    o[31] = <float>(((1 if k & JUMP else 0) + (2 if k & DODGE else 0) + (4 if k & PICKUP else 0)
                     + (8 if k & TAUNT else 0)) / 15.0)


cdef void write_obs(const Match* m, const Game* g, float* obs) noexcept nogil:
    """Both seats' views, (2, 2 * HALF)."""
    write_half(m, 0, g, obs)
    write_half(m, 1, g, obs + 2 * HALF)
    memcpy(obs + HALF, obs + 2 * HALF, HALF * sizeof(float))
    memcpy(obs + 3 * HALF, obs, HALF * sizeof(float))


cdef void write_mask(const Match* m, const Game* g, uint8_t* mask) noexcept nogil:
    cdef int s, k
    cdef int32_t keys
    for s in range(2):
        keys = legal_keys(&m.fighters[s], m, g)
        for k in range(NUM_KEYS):
            mask[s * NUM_KEYS + k] = (keys >> k) & 1


cdef void write_result(const Match* m, int32_t reason, int32_t winner, const Game* g, Result* out) noexcept nogil:
    cdef const Fighter* f
    cdef int32_t lives
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
        out.metrics[s][6] = <float>(<double>f.hits / f.attacks) if f.attacks > 0 else 0.0
        out.metrics[s][7] = <float>f.combos
        out.metrics[s][8] = <float>f.dodges
        out.metrics[s][9] = <float>f.dashes
        out.metrics[s][10] = <float>f.pickups
        out.metrics[s][11] = <float>(f.air_ticks * g.rules.tick_seconds)
        lives = g.rules.stocks - f.stocks + (f.stocks > 0)
        out.metrics[s][12] = <float>(f.field_ticks * g.rules.tick_seconds / (lives if lives > 1 else 1))
