# A bot's style: its numbers in one match, drawn from the match's seed and the side that it started on, and what they
# make of the keys that the bot would press. Included by brawl.pyx.

cdef void draw_style(const Match* m, const Fighter* f, const Game* g, Style* style) noexcept nogil:
    """Writes the numbers of f's bot."""
    cdef double* values = <double*>style
    cdef const Range* r
    cdef uint64_t stream
    cdef int32_t strange, i
    cdef bint is_beyond
    cdef double unit, below, way
    style[0] = g.standard
    if g.rules.bot_styles == STYLES_OFF:
        return
    stream = mix((m.seed ^ <uint64_t>0x5BF03635F0935AD1)
                 + <uint64_t>(1 if f.side > 0 else 2) * <uint64_t>0x9E3779B97F4A7C15)
    strange = draw_between(&stream, 0, NUM_STYLE - 1)
    for i in range(NUM_STYLE):
        r = &g.ranges[i]
        is_beyond = (draw(&stream) >> 63) != 0 or i == strange
        unit = draw_unit(&stream)
        if g.rules.bot_styles == STYLES_TRAIN or not is_beyond:
            values[i] = r.low + (r.high - r.low) * unit
            continue
        below = r.low - r.far_low
        way = (below + (r.far_high - r.high)) * unit
        values[i] = r.far_low + way if way < below else r.high + (way - below)


cdef inline bint looks(const Match* m, const Style* style, const Game* g) noexcept nogil:
    """Whether a multiple of `pause` ticks has come since the decision before."""
    cdef int64_t pause = <int64_t>style.pause
    return m.tick < g.rules.ticks_per_step or m.tick // pause != (m.tick - g.rules.ticks_per_step) // pause


cdef inline bint has_whim(uint64_t whims, int32_t byte, double share) noexcept nogil:
    """True for `share` of the values of one byte."""
    return <double>((whims >> (8 * byte)) & 255) < share * 256.0


cdef int32_t favourite_keys(const Fighter* me, const Fighter* other, int32_t favourite, int32_t keys,
                            const Game* g) noexcept nogil:
    """The deed that it likes best near the opponent; `keys` while it cannot."""
    cdef double dx = other.x - me.x
    if favourite == LIKES_LIGHT:
        return strike_keys(me, dx, False, g)
    if favourite == LIKES_HEAVY:
        return strike_keys(me, dx, True, g)
    if favourite == LIKES_WAIT:
        if threatens(other, g) and not other.move_hit:
            return walk_keys(me, me.x - sign_of(dx) * 2.0, g)
        return strike_keys(me, dx, True, g) if busy_ticks(other, g) > 0 else 0
    if me.dodge_cooldown == 0 and pressable(me, DODGE):
        return DODGE
    return keys if favourite == LIKES_DODGE else strike_keys(me, dx, True, g)


cdef int32_t in_style(const Fighter* me, const Fighter* other, int32_t keys, uint64_t whims, double reach,
                      const Style* style, const Game* g) noexcept nogil:
    """What the style makes of `keys` where the bot is in no danger: what it likes, a dodge, another strike or none."""
    cdef bint near = is_near(me, other, reach + 0.8, g)
    cdef int32_t strike
    if near and has_whim(whims, 5, style.habit):
        return favourite_keys(me, other, <int32_t>style.favourite, keys, g)
    if near and has_whim(whims, 0, style.caution) and me.dodge_cooldown == 0 and pressable(me, DODGE):
        if threatens(other, g) and not other.move_hit:
            return DODGE
    if me.support != AIR and has_whim(whims, 1, style.jumpiness) and pressable(me, JUMP):
        keys |= JUMP
    strike = keys & (LIGHT | HEAVY)
    if strike == 0:
        return keys
    if has_whim(whims, 2, style.hesitation):
        return keys & ~(LIGHT | HEAVY)
    if me.support != AIR and keys & (LEFT | RIGHT):
        if strike == LIGHT and has_whim(whims, 3, style.heaviness):
            keys = (keys & ~LIGHT) | HEAVY
        elif strike & HEAVY and has_whim(whims, 3, -style.heaviness):
            keys = (keys & ~HEAVY) | LIGHT
    if has_whim(whims, 4, fabs(style.aim)):
        keys = (keys & ~(UP | LEFT | DOWN | RIGHT)) | (UP if style.aim > 0.0 else DOWN)
    return keys
