# What is legal: `is_legal` judges one decision, `list_legal` lists them all. Included by cards.pyx.

cdef inline bint is_wounded(const Creature* c) noexcept nogil:
    return c.card > 0 and c.health < c.most


cdef bint can_target(const Match* m, int32_t seat, int32_t effect, int32_t kind, int32_t target,
                     const Game* g) noexcept nogil:
    """Whether `seat` may choose `target` for an effect with a target of this kind."""
    cdef const Keeper* me = &m.keepers[seat]
    cdef const Keeper* other = &m.keepers[1 - seat]
    cdef const Creature* c
    if kind == NOBODY:
        return target == 0
    if kind == ENEMY or kind == ENEMY_CREATURE:
        if target == OTHER_KEEPER:
            return kind == ENEMY
        if target < OTHER_SLOT or target > OTHER_KEEPER:
            return False
        c = &other.board[target - OTHER_SLOT]
        return c.card > 0 and not (effect == SNARE and c.snared)
    if target == OWN_KEEPER:
        return kind == OWN and (effect != HEAL or me.health < g.rules.health)
    if target < OWN_SLOT or target > OWN_KEEPER:
        return False
    c = &me.board[target - OWN_SLOT]
    return is_wounded(c) if effect == HEAL else c.card > 0


cdef bint can_attack(const Match* m, int32_t seat, int32_t slot, int32_t target, const Game* g) noexcept nogil:
    """Whether the creature in `slot` (0 to SLOTS - 1), which may act, may attack `target`.

    It needs power. Creatures at most one slot aside; the keeper past an empty slot, unless a bulwark stands beside it;
    who soars goes past anybody who does not.
    """
    cdef const Creature* c = &m.keepers[seat].board[slot]
    cdef const Creature* others = &m.keepers[1 - seat].board[0]
    if c.power <= 0:
        return False
    if target == OTHER_KEEPER:
        if has(c, SOARING, g):
            return not has(&others[slot], SOARING, g)
        if others[slot].card > 0:
            return False
        return not ((slot > 0 and has(&others[slot - 1], BULWARK, g))
                    or (slot < SLOTS - 1 and has(&others[slot + 1], BULWARK, g)))
    if target < OTHER_SLOT or target > OTHER_KEEPER:
        return False
    target -= OTHER_SLOT
    return others[target].card > 0 and -1 <= target - slot <= 1


cdef inline bint can_stoke(const Keeper* k, const Game* g) noexcept nogil:
    return not k.stoked and k.lamps < g.rules.most_lamps


cdef inline bint can_use(const Keeper* k, const Creature* c, const Game* g) noexcept nogil:
    """Whether a creature that may act has an ability, and its keeper the oil."""
    return g.cards[c.card].ability != NO_EFFECT and k.oil >= g.cards[c.card].ability_cost


cdef bint is_legal(const Match* m, const Action* a, const Game* g) noexcept nogil:
    """Whether the seat that is to act may decide so."""
    cdef int32_t seat = m.acting
    cdef const Keeper* k = &m.keepers[seat]
    cdef const Card* card
    cdef const Creature* c
    cdef int32_t i
    cdef bint is_held = False
    if a.kind < END or a.kind > ABILITY or a.slot < 0 or a.slot > SLOTS or a.card < 0 or a.card > NUM_CARDS:
        return False
    if a.target < 0 or a.target >= NUM_TARGETS:
        return False
    if a.kind == END:
        return a.card == 0 and a.slot == 0 and a.target == 0
    if a.kind == ATTACK or a.kind == ABILITY:
        if a.card != 0 or a.slot == 0:
            return False
        c = &k.board[a.slot - 1]
        if not c.acts:
            return False
        if a.kind == ATTACK:
            return can_attack(m, seat, a.slot - 1, a.target, g)
        card = &g.cards[c.card]
        return can_use(k, c, g) and can_target(m, seat, card.ability, card.ability_target, a.target, g)
    for i in range(k.hand_size):
        is_held |= k.hand[i] == a.card
    if not is_held:
        return False
    card = &g.cards[a.card]
    if a.kind == STOKE:
        return can_stoke(k, g) and a.slot == 0 and a.target == 0
    if k.oil < card.cost:
        return False
    if a.kind == PLAY:
        return not card.is_spell and a.slot > 0 and k.board[a.slot - 1].card == 0 and a.target == 0
    return card.is_spell and a.slot == 0 and can_target(m, seat, card.arrival, card.target, a.target, g)


cdef inline int16_t* put(int16_t* out, int32_t kind, int32_t card, int32_t slot, int32_t target) noexcept nogil:
    out[0] = <int16_t>kind
    out[1] = <int16_t>card
    out[2] = <int16_t>slot
    out[3] = <int16_t>target
    return out + NUM_PARTS


cdef int16_t* put_targets(int16_t* out, const Match* m, int32_t kind, int32_t card_id, int32_t slot, int32_t effect,
                          int32_t target, const Game* g) noexcept nogil:
    """A decision for every target that may be chosen."""
    cdef int32_t t
    cdef int32_t low = 0
    cdef int32_t high = 0
    if target == ENEMY or target == ENEMY_CREATURE:
        low, high = OTHER_SLOT, OTHER_KEEPER
    elif target != NOBODY:
        low, high = OWN_SLOT, OWN_KEEPER
    for t in range(low, high + 1):
        if can_target(m, m.acting, effect, target, t, g):
            out = put(out, kind, card_id, slot, t)
    return out


cdef int32_t list_legal(const Match* m, const Game* g, int16_t* out) noexcept nogil:
    """Writes the legal decisions of the seat that is to act, each once, and gives their number."""
    cdef const int16_t* first = out
    cdef int32_t seat = m.acting
    cdef const Keeper* k = &m.keepers[seat]
    cdef const Creature* c
    cdef const Card* card
    cdef int32_t i, s, t, id
    cdef bint stokes = can_stoke(k, g)
    out = put(out, END, 0, 0, 0)
    for i in range(k.hand_size):
        id = k.hand[i]
        if i > 0 and k.hand[i - 1] == id:
            continue
        card = &g.cards[id]
        if stokes:
            out = put(out, STOKE, id, 0, 0)
        if k.oil < card.cost:
            continue
        if card.is_spell:
            out = put_targets(out, m, CAST, id, 0, card.arrival, card.target, g)
            continue
        for s in range(SLOTS):
            if k.board[s].card == 0:
                out = put(out, PLAY, id, s + 1, 0)
    for s in range(SLOTS):
        c = &k.board[s]
        if not c.acts:
            continue
        for t in range(OTHER_SLOT, OTHER_KEEPER + 1):
            if can_attack(m, seat, s, t, g):
                out = put(out, ATTACK, 0, s + 1, t)
        if can_use(k, c, g):
            card = &g.cards[c.card]
            out = put_targets(out, m, ABILITY, 0, s + 1, card.ability, card.ability_target, g)
    return <int32_t>((out - first) // NUM_PARTS)
