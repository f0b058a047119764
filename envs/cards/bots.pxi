# Bots: one legal decision, from what their own seat sees. Included by cards.pyx.
# Gains are in points: a creature's worth is twice its power, its health, and a bonus for what else it can do.

cdef inline int32_t worth(const Creature* c, const Game* g) noexcept nogil:
    return 2 * c.power + c.health + g.cards[c.card].bonus


cdef inline int32_t card_worth(const Card* card) noexcept nogil:
    return 2 * card.cost + 1 if card.is_spell else 2 * card.power + card.health + card.bonus


cdef int32_t gain_of_hit(const Creature* c, int32_t amount, const Game* g) noexcept nogil:
    """Of damage to a creature: all its worth where it dies of it, else the damage."""
    amount = felt(c, amount, g)
    return worth(c, g) if amount >= c.health else amount


cdef int32_t gain_of_face(const Keeper* other, int32_t amount) noexcept nogil:
    """Of damage to the opponent's keeper."""
    return WINS if amount >= other.health else 2 * amount


cdef int32_t gain_of_effect(Match* m, int32_t seat, int32_t effect, int32_t amount, int32_t target,
                            const Game* g) noexcept nogil:
    cdef const Keeper* me = &m.keepers[seat]
    cdef const Keeper* other = &m.keepers[1 - seat]
    cdef const Creature* c = creature_at(m, seat, target)
    cdef int32_t i, gain
    if effect == DAMAGE:
        return gain_of_face(other, amount) if target == OTHER_KEEPER else gain_of_hit(c, amount, g)
    if effect == HEAL:
        return least(amount, g.rules.health - me.health if target == OWN_KEEPER else c.most - c.health)
    if effect == DRAW:
        return 3 * least(amount, least(HAND - me.hand_size, me.deck_size))
    if effect == BOLSTER:
        return 3 * amount
    if effect == SNARE:
        return c.power
    if effect == RETURN:
        return worth(c, g) - 3
    if effect == SWEEP:
        gain = 0
        for i in range(SLOTS):
            if other.board[i].card > 0:
                gain += gain_of_hit(&other.board[i], amount, g)
        return gain
    return amount if effect == OIL else 0


cdef int32_t gain_of_arrival(Match* m, int32_t seat, int32_t slot, const Card* card, const Game* g) noexcept nogil:
    cdef bint is_faced = m.keepers[1 - seat].board[slot].card > 0
    cdef int32_t i
    cdef int32_t gain = 0
    if card.arrival == NO_EFFECT:
        return 0
    if card.arrival == DAMAGE or card.arrival == SNARE:
        if not is_faced and card.arrival == SNARE:
            return 0
        return gain_of_effect(m, seat, card.arrival, card.arrival_amount,
                              OTHER_SLOT + slot if is_faced else OTHER_KEEPER, g)
    if card.arrival == BOLSTER:
        for i in range(SLOTS):
            if (i == slot - 1 or i == slot + 1) and m.keepers[seat].board[i].card > 0:
                gain += 3 * card.arrival_amount
        return gain
    return gain_of_effect(m, seat, card.arrival, card.arrival_amount, OWN_KEEPER, g)


cdef int32_t gain_of_fight(const Match* m, int32_t seat, int32_t slot, int32_t target, const Game* g) noexcept nogil:
    """What the attack takes from the opponent, less what it costs."""
    cdef const Creature* c = &m.keepers[seat].board[slot]
    cdef const Creature* o
    cdef int32_t gain
    if target == OTHER_KEEPER:
        return gain_of_face(&m.keepers[1 - seat], c.power)
    o = &m.keepers[1 - seat].board[target - OTHER_SLOT]
    gain = worth(o, g) if has(c, VENOM, g) and felt(o, c.power, g) > 0 else gain_of_hit(o, c.power, g)
    gain -= worth(c, g) if has(o, VENOM, g) and felt(c, o.power, g) > 0 else gain_of_hit(c, o.power, g)
    return gain


cdef int32_t greedy_gain(Match* m, const Action* a, const Game* g) noexcept nogil:
    """What a decision gains at once; little for a lamp, and only for a card that is too dear now."""
    cdef int32_t seat = m.acting
    cdef const Card* card = &g.cards[a.card]
    if a.kind == END:
        return 0
    if a.kind == PLAY:
        return card_worth(card) + gain_of_arrival(m, seat, a.slot - 1, card, g)
    if a.kind == CAST:
        return gain_of_effect(m, seat, card.arrival, card.arrival_amount, a.target, g)
    if a.kind == ATTACK:
        return gain_of_fight(m, seat, a.slot - 1, a.target, g)
    if a.kind == ABILITY:
        card = &g.cards[m.keepers[seat].board[a.slot - 1].card]
        return gain_of_effect(m, seat, card.ability, card.ability_amount, a.target, g)
    return 1 if card.cost > m.keepers[seat].oil else 0


cdef int32_t open_damage(const Match* m, int32_t seat, const Game* g) noexcept nogil:
    """What the creatures of a seat that may act can deal to the other keeper now."""
    cdef int32_t s
    cdef int32_t sum = 0
    for s in range(SLOTS):
        if m.keepers[seat].board[s].acts and can_attack(m, seat, s, OTHER_KEEPER, g):
            sum += m.keepers[seat].board[s].power
    return sum


cdef int32_t gain_of_slot(const Match* m, int32_t seat, int32_t slot, const Card* card, const Game* g) noexcept nogil:
    """Whom a creature would face there: an open way for who hits, a strong attacker for who can stand in its way."""
    cdef const Creature* o = &m.keepers[1 - seat].board[slot]
    if o.card == 0:
        return 0 if card.keywords & BULWARK else card.power
    if card.keywords & SOARING and not has(o, SOARING, g):
        return card.power
    return (2 if felt(o, card.power, g) >= o.health else 0) + o.power


cdef int32_t lamp_gain(const Match* m, int32_t seat, const Card* card, const Game* g) noexcept nogil:
    """Of burning a card for a lamp: in early turns, the less the card is worth and the later it could be played."""
    cdef const Keeper* k = &m.keepers[seat]
    if k.hand_size < 2 or k.turns > LAST_LAMP_TURN:
        return -1
    return LAMP_GAIN - card_worth(card) + 2 * (card.cost - k.oil if card.cost > k.oil else 0)


cdef int32_t curve_gain(Match* m, const Action* a, int32_t open, const Game* g) noexcept nogil:
    """Lamps early, creatures where they face the right one, spells for more than they cost, attacks by the trade."""
    cdef int32_t seat = m.acting
    cdef const Keeper* k = &m.keepers[seat]
    cdef const Card* card = &g.cards[a.card]
    if a.kind == END:
        return 0
    if a.kind == STOKE:
        return lamp_gain(m, seat, card, g)
    if a.kind == PLAY:
        return (card_worth(card) + gain_of_arrival(m, seat, a.slot - 1, card, g)
                + gain_of_slot(m, seat, a.slot - 1, card, g))
    if a.kind == CAST:
        return gain_of_effect(m, seat, card.arrival, card.arrival_amount, a.target, g) - card.cost
    if a.kind == ATTACK:
        if a.target == OTHER_KEEPER and open >= m.keepers[1 - seat].health:
            return WINS
        return gain_of_fight(m, seat, a.slot - 1, a.target, g)
    card = &g.cards[k.board[a.slot - 1].card]
    return gain_of_effect(m, seat, card.ability, card.ability_amount, a.target, g) - card.ability_cost


cdef Action nth_action(const int16_t* tuples, int32_t i) noexcept nogil:
    cdef Action a
    tuples += i * NUM_PARTS
    a.kind = tuples[0]
    a.card = tuples[1]
    a.slot = tuples[2]
    a.target = tuples[3]
    return a


cdef Action choose(Match* m, int32_t bot, const Game* g) noexcept nogil:
    """What a native bot decides: `random` any legal decision, the others that of the most gain, the first of equals."""
    cdef int16_t tuples[MAX_TUPLES * NUM_PARTS]
    cdef int32_t count = list_legal(m, g, tuples)
    cdef int32_t i, gain
    cdef int32_t best = 0
    cdef int32_t most = 0
    cdef int32_t open = 0
    cdef Action a
    if bot == RANDOM:
        return nth_action(tuples, draw_below(&m.keepers[m.acting].rng, count))
    if bot == CURVE:
        open = open_damage(m, m.acting, g)
    for i in range(1, count):
        a = nth_action(tuples, i)
        gain = greedy_gain(m, &a, g) if bot == GREEDY else curve_gain(m, &a, open, g)
        if gain > most:
            best, most = i, gain
    return nth_action(tuples, best)
