# One tick of a match: what the fighters do to each other, the items, the end. Included by brawl.pyx.
# Both sides of everything are read from the same state before either is written: seats never matter.

cdef void move_platform(Match* m, const Game* g) noexcept nogil:
    m.platform_y += m.platform_direction * g.rules.platform_speed * g.rules.tick_seconds
    if m.platform_y >= g.rules.platform_high:
        m.platform_y = g.rules.platform_high
        m.platform_direction = -1.0
    elif m.platform_y <= g.rules.platform_low:
        m.platform_y = g.rules.platform_low
        m.platform_direction = 1.0


cdef void lay_item(Item* item, int32_t kind, double x, int32_t left, const Game* g) noexcept nogil:
    item.kind = kind
    item.x = x
    item.left = left
    item.ticks = g.rules.item_ticks


cdef void clear_item(Item* item, uint64_t* rng, const Game* g) noexcept nogil:
    """Nothing lies there until the next one appears."""
    item.kind = 0
    item.left = 0
    item.ticks = draw_between(rng, g.rules.item_wait_min, g.rules.item_wait_max)


cdef void grant_wishes(Match* m, const int32_t* wish, const int32_t* taken, const Game* g) noexcept nogil:
    """Pick-ups and drops. A thing that both want, or a place where both drop, goes to neither.

    taken (2,): the item within each seat's reach when it asked for it.
    """
    cdef Fighter* f
    cdef int32_t falls_on[2]
    cdef int s, i
    for s in range(2):
        f = &m.fighters[s]
        i = ground_of(f.x)
        falls_on[s] = i if wish[s] == DROP and over_ground(f.x, g) and f.y >= 0.0 and m.items[i].kind == 0 else -1
    for i in range(2):
        if (wish[0] == TAKE and taken[0] == i) == (wish[1] == TAKE and taken[1] == i):
            continue
        f = &m.fighters[0 if wish[0] == TAKE and taken[0] == i else 1]
        f.weapon = m.items[i].kind
        f.weapon_left = <int32_t>m.items[i].left
        f.pickups += 1
        clear_item(&m.items[i], &m.rng, g)
    for s in range(2):
        if wish[s] == DROP:
            f = &m.fighters[s]
            if falls_on[s] >= 0 and falls_on[s] != falls_on[1 - s]:
                lay_item(&m.items[falls_on[s]], f.weapon, f.x, f.weapon_left, g)
            f.weapon = f.weapon_left = 0


cdef void run_items(Match* m, const Game* g) noexcept nogil:
    """Weapons vanish from the grounds and new ones appear."""
    cdef Item* item
    cdef double x
    cdef int32_t kind
    cdef int i
    for i in range(2):
        item = &m.items[i]
        if item.ticks == 0:
            continue
        item.ticks -= 1
        if item.ticks > 0:
            continue
        if item.kind > 0:
            clear_item(item, &m.rng, g)
        else:
            kind = SPEAR + <int32_t>(draw(&m.rng) >> 63)
            x = g.rules.item_near + (g.rules.item_far - g.rules.item_near) * draw_unit(&m.rng)
            lay_item(item, kind, -x if i == 0 else x, g.rules.weapon_ticks, g)


cdef void read_blow(const Fighter* a, const Fighter* b, const Game* g, Blow* blow) noexcept nogil:
    """What `a`'s strike does to `b` in this tick."""
    cdef const Strike* s
    cdef const Rules* r = &g.rules
    cdef double power, speed
    memset(blow, 0, sizeof(Blow))
    if a.move < 0 or a.move_hit or b.respawn > 0 or b.invulnerable > 0 or b.dodge > 0:
        return
    s = &g.strikes[a.move]
    if a.move_tick < s.startup or a.move_tick >= s.startup + s.active:
        return
    if fabs(a.x + a.facing * s.offset_x - b.x) > s.half_width + r.body_half_width:
        return
    if fabs(a.y + s.offset_y - (b.y + r.body_half_height)) > s.half_height + r.body_half_height:
        return
    power = 1.0 + r.charge_power * a.charge / r.max_charge
    blow.lands = True
    blow.combo = b.stun > 0
    blow.row = b.combo if b.stun > 0 else 0
    blow.damage = s.damage * power
    speed = (s.knockback + s.growth * (b.damage + blow.damage) / 100.0) * power
    blow.vx = a.facing * s.angle_x * speed
    blow.vy = s.angle_y * speed
    blow.stun = s.stun + <int32_t>(speed * r.stun_per_speed) - r.combo_decay * blow.row
    if blow.stun < r.min_stun:
        blow.stun = r.min_stun
    if blow.stun > r.max_stun:
        blow.stun = r.max_stun


cdef void mark_hit(Fighter* f, const Blow* blow, double* terms) noexcept nogil:
    """The hitter's side of a blow."""
    f.move_hit = 1
    f.damage_dealt += blow.damage
    terms[DAMAGE_DEALT] += blow.damage / 100.0
    if f.landed:
        return
    f.landed = 1
    f.hits += 1
    terms[HIT] += 1.0
    if blow.combo:
        f.combos += 1
        terms[COMBO] += 1.0


cdef void take_blow(Fighter* f, const Blow* blow, double* terms, const Game* g) noexcept nogil:
    """The target's side of a blow."""
    terms[DAMAGE_TAKEN] += blow.damage / 100.0
    f.damage += blow.damage
    f.vx = blow.vx
    f.vy = blow.vy
    if f.support != AIR:
        if f.vy < 0.0:
            f.vy = -f.vy * g.rules.bounce
        f.support = AIR
    f.stun = blow.stun
    f.combo = blow.row + 1
    end_attack(f)
    f.dash = f.turn = 0
    f.credit = g.rules.credit_ticks


cdef void place(Fighter* f, double x, double y, const Game* g) noexcept nogil:
    """Puts a fresh fighter at x on its own side, facing the middle."""
    f.x = f.side * x
    f.y = y
    f.vx = f.vy = f.damage = 0.0
    f.facing = -f.side
    f.support = GROUND if y == 0.0 else AIR
    f.jumps_left = g.rules.air_jumps
    f.recovery_left = 1
    f.stun = f.invulnerable = f.dodge = f.dash = f.direction = f.dodge_cooldown = f.turn = f.respawn = f.credit = 0
    end_attack(f)
    f.combo = f.weapon = f.weapon_left = f.run_ticks = f.keys = 0


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


cdef void add_approach(const double* old_x, const double* old_y, const Fighter* f, double* terms) noexcept nogil:
    """Splits the decrease of the distance between the two who moved; the shares sum to it (Shapley's split).

    A share is what the own motion changes, averaged over the other having moved already or not yet.
    """
    cdef double old = distance(old_x[0], old_y[0], old_x[1], old_y[1])
    cdef double first = distance(f[0].x, f[0].y, old_x[1], old_y[1])
    cdef double second = distance(old_x[0], old_y[0], f[1].x, f[1].y)
    cdef double new = distance(f[0].x, f[0].y, f[1].x, f[1].y)
    terms[APPROACH] += ((old - first) + (second - new)) * 0.5
    terms[NUM_TERMS + APPROACH] += ((old - second) + (first - new)) * 0.5


cdef void exchange_blows(Match* m, const Game* g, double* terms) noexcept nogil:
    cdef Fighter* f = m.fighters
    cdef Blow blows[2]
    cdef int s
    for s in range(2):
        read_blow(&f[s], &f[1 - s], g, &blows[s])
    for s in range(2):
        if blows[s].lands:
            mark_hit(&f[s], &blows[s], terms + s * NUM_TERMS)
    for s in range(2):
        run_timers(&f[s], g)
    for s in range(2):
        if blows[s].lands:
            take_blow(&f[1 - s], &blows[s], terms + (1 - s) * NUM_TERMS, g)


cdef void match_tick(Match* m, const Game* g, const int32_t* keys, double* terms) noexcept nogil:
    """One tick of both fighters; adds to terms (2, NUM_TERMS)."""
    cdef Fighter* f = m.fighters
    cdef double old_platform = m.platform_y
    cdef double old_x[2]
    cdef double old_y[2]
    cdef int32_t wish[2]
    cdef int32_t reach[2]
    cdef int32_t attacks[2]
    cdef int32_t pickups[2]
    cdef int32_t armed[2]
    cdef int32_t taken
    cdef bint present[2]
    cdef bint out[2]
    cdef int s
    move_platform(m, g)
    for s in range(2):
        old_x[s] = f[s].x
        old_y[s] = f[s].y
        attacks[s] = f[s].attacks
        pickups[s] = f[s].pickups
        armed[s] = f[s].weapon > 0
        present[s] = f[s].respawn == 0
        f[s].field_ticks += present[s]
        reach[s] = ground_of(f[s].x)
        wish[s] = fighter_tick(&f[s], keys[s], old_platform, m, g)
    if wish[0] != NO_WISH or wish[1] != NO_WISH:
        grant_wishes(m, wish, reach, g)
    exchange_blows(m, g, terms)
    for s in range(2):
        out[s] = f[s].respawn == 0 and is_out(&f[s], g)
        if f[s].respawn == 0 and f[s].support == AIR and (fabs(f[s].x) > g.rules.edge_outer or f[s].y < 0.0):
            terms[s * NUM_TERMS + DANGER_ZONE] += g.rules.tick_seconds
    if present[0] and present[1] and not out[0] and not out[1]:
        add_approach(old_x, old_y, f, terms)
    for s in range(2):
        if out[s]:
            lose_stock(&f[s], &f[1 - s], terms + s * NUM_TERMS, terms + (1 - s) * NUM_TERMS, g)
    for s in range(2):
        terms[s * NUM_TERMS + ATTACK] += f[s].attacks - attacks[s]
        taken = f[s].pickups - pickups[s]
        terms[s * NUM_TERMS + WEAPON_TAKEN] += taken
        terms[s * NUM_TERMS + WEAPON_LOST] += armed[s] + taken - (f[s].weapon > 0)
    run_items(m, g)
    m.tick += 1


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


cdef void settle(const Match* m, int32_t winner, double* terms) noexcept nogil:
    """The terms (2, NUM_TERMS) of the end itself: the win, and weapons laid down."""
    cdef int s
    for s in range(2):
        if winner >= 0:
            terms[s * NUM_TERMS + WIN] = 1.0 if s == winner else -1.0
        if m.fighters[s].weapon > 0:
            terms[s * NUM_TERMS + WEAPON_LOST] += 1.0


cdef void start_match(Match* m, uint64_t seed, const Game* g) noexcept nogil:
    """A fresh match; the controllers stay."""
    cdef int s, i
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
    m.platform_y = g.rules.platform_low + (g.rules.platform_high - g.rules.platform_low) * draw_unit(&m.rng)
    m.platform_direction = 1.0 if draw(&m.rng) >> 63 else -1.0
    for i in range(2):
        m.items[i].x = 0.0
        m.items[i].left = m.items[i].kind = m.items[i].ticks = 0
        if g.rules.weapons:
            m.items[i].ticks = draw_between(&m.rng, g.rules.item_first_min, g.rules.item_first_max)
