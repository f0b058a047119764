# The rules: what a decision does. Included by cards.pyx.

cdef inline int32_t least(int32_t a, int32_t b) noexcept nogil:
    return a if a < b else b


cdef inline bint has(const Creature* c, int32_t keyword, const Game* g) noexcept nogil:
    return c.card > 0 and g.cards[c.card].keywords & keyword != 0


cdef inline int32_t felt(const Creature* c, int32_t amount, const Game* g) noexcept nogil:
    """What a creature feels of so much damage."""
    amount -= has(c, SHELL, g)
    return amount if amount > 0 else 0


cdef inline int32_t hit_creature(Creature* c, int32_t amount, const Game* g) noexcept nogil:
    amount = felt(c, amount, g)
    c.health -= <int16_t>amount
    return amount


cdef inline void hit_keeper(Match* m, int32_t seat, int32_t amount) noexcept nogil:
    """Damage to a seat's keeper, dealt by the other."""
    m.keepers[seat].health -= <int16_t>amount
    m.keepers[1 - seat].damage_dealt += <int16_t>amount


cdef inline void heal_keeper(Keeper* k, int32_t amount, const Game* g) noexcept nogil:
    k.health = <int16_t>least(g.rules.health, k.health + amount)


cdef inline void give_oil(Keeper* k, int32_t amount, const Game* g) noexcept nogil:
    k.oil = <int16_t>least(g.rules.most_oil, k.oil + amount)


cdef void take_card(Keeper* k, int32_t card) noexcept nogil:
    """A card into the hand, which is in the order of ids; a full hand burns it."""
    cdef int32_t i = k.hand_size
    if i == HAND:
        k.burnt += 1
        return
    while i > 0 and k.hand[i - 1] > card:
        k.hand[i] = k.hand[i - 1]
        i -= 1
    k.hand[i] = <int16_t>card
    k.hand_size += 1


cdef void lose_card(Keeper* k, int32_t card) noexcept nogil:
    """A card that is in the hand leaves it."""
    cdef int32_t i = 0
    while k.hand[i] != card:
        i += 1
    k.hand_size -= 1
    while i < k.hand_size:
        k.hand[i] = k.hand[i + 1]
        i += 1
    k.hand[i] = 0


cdef void draw_card(Keeper* k) noexcept nogil:
    """The top card of the deck; an empty one costs health, each time one more."""
    cdef int32_t card
    if k.deck_size == 0:
        k.tired += 1
        k.health -= k.tired
        return
    k.deck_size -= 1
    card = k.deck[k.deck_size]
    k.deck[k.deck_size] = 0
    take_card(k, card)


cdef inline void clear_slot(Creature* c) noexcept nogil:
    memset(c, 0, sizeof(Creature))


cdef inline Creature* creature_at(Match* m, int32_t seat, int32_t target) noexcept nogil:
    """The slot of a target as `seat` numbers them; NULL for a keeper and for nobody."""
    cdef int32_t other = target - OTHER_SLOT
    cdef int32_t own = target - OWN_SLOT
    if 0 <= other < SLOTS:
        return &m.keepers[1 - seat].board[other]
    if 0 <= own < SLOTS:
        return &m.keepers[seat].board[own]
    return NULL


cdef void run_effect(Match* m, int32_t seat, int32_t effect, int32_t amount, int32_t target,
                     const Game* g) noexcept nogil:
    """One effect of `seat` on a target as this seat numbers them. Who dies of it is buried later."""
    cdef Keeper* me = &m.keepers[seat]
    cdef Keeper* other = &m.keepers[1 - seat]
    cdef Creature* c = creature_at(m, seat, target)
    cdef int32_t i
    if effect == DAMAGE:
        if target == OTHER_KEEPER:
            hit_keeper(m, 1 - seat, amount)
        else:
            hit_creature(c, amount, g)
    elif effect == HEAL:
        if target == OWN_KEEPER:
            heal_keeper(me, amount, g)
        else:
            c.health = <int16_t>least(c.most, c.health + amount)
    elif effect == DRAW:
        for i in range(amount):
            draw_card(me)
    elif effect == BOLSTER:
        c.power += <int16_t>amount
        c.health += <int16_t>amount
        c.most += <int16_t>amount
    elif effect == SNARE:
        c.snared = 1
    elif effect == RETURN:
        take_card(other, c.card)
        clear_slot(c)
    elif effect == SWEEP:
        for i in range(SLOTS):
            if other.board[i].card > 0:
                hit_creature(&other.board[i], amount, g)
    elif effect == OIL:
        give_oil(me, amount, g)


cdef void run_arrival(Match* m, int32_t seat, int32_t slot, const Card* card, const Game* g) noexcept nogil:
    """What a creature does when it is played into a slot: its targets follow from the slot."""
    cdef bint is_faced = m.keepers[1 - seat].board[slot].card > 0
    cdef int32_t i
    if card.arrival == DAMAGE:
        run_effect(m, seat, DAMAGE, card.arrival_amount, OTHER_SLOT + slot if is_faced else OTHER_KEEPER, g)
    elif card.arrival == SNARE:
        if is_faced:
            run_effect(m, seat, SNARE, card.arrival_amount, OTHER_SLOT + slot, g)
    elif card.arrival == BOLSTER:
        for i in range(SLOTS):
            if (i == slot - 1 or i == slot + 1) and m.keepers[seat].board[i].card > 0:
                run_effect(m, seat, BOLSTER, card.arrival_amount, OWN_SLOT + i, g)
    elif card.arrival != NO_EFFECT:
        run_effect(m, seat, card.arrival, card.arrival_amount, OWN_KEEPER, g)


cdef void bury(Match* m, int32_t seat, const Game* g) noexcept nogil:
    """Destroyed creatures leave, those of `seat` first, and do what they do then."""
    cdef int32_t s, i, side
    cdef Creature* c
    cdef const Card* card
    for side in range(2):
        s = seat if side == 0 else 1 - seat
        for i in range(SLOTS):
            c = &m.keepers[s].board[i]
            if c.card > 0 and c.health <= 0:
                card = &g.cards[c.card]
                clear_slot(c)
                m.keepers[s].lost += 1
                m.keepers[1 - s].destroyed += 1
                if card.farewell != NO_EFFECT:
                    run_effect(m, s, card.farewell, card.farewell_amount,
                               OTHER_KEEPER if card.farewell == DAMAGE else OWN_KEEPER, g)


cdef void fight(Match* m, int32_t seat, int32_t slot, int32_t target, const Game* g) noexcept nogil:
    """The creature in `slot` attacks; two creatures hit each other at once."""
    cdef Creature* c = &m.keepers[seat].board[slot]
    cdef Creature* o
    cdef int32_t dealt, taken
    c.acts = 0
    m.keepers[seat].attacks += 1
    if target == OTHER_KEEPER:
        hit_keeper(m, 1 - seat, c.power)
        if has(c, DRAIN, g):
            heal_keeper(&m.keepers[seat], c.power, g)
        return
    o = &m.keepers[1 - seat].board[target - OTHER_SLOT]
    dealt = hit_creature(o, c.power, g)
    taken = hit_creature(c, o.power, g)
    if dealt > 0 and has(c, VENOM, g):
        o.health = 0
    if taken > 0 and has(o, VENOM, g):
        c.health = 0
    if has(c, DRAIN, g):
        heal_keeper(&m.keepers[seat], dealt, g)
    if has(o, DRAIN, g):
        heal_keeper(&m.keepers[1 - seat], taken, g)


cdef void start_turn(Match* m, int32_t seat, const Game* g) noexcept nogil:
    """Oil, creatures that may act again, a card."""
    cdef Keeper* k = &m.keepers[seat]
    cdef Creature* c
    cdef int32_t i
    m.acting = <int16_t>seat
    k.turns += 1
    k.stoked = 0
    give_oil(k, g.rules.income + k.lamps, g)
    for i in range(SLOTS):
        c = &k.board[i]
        c.acts = c.card > 0 and not c.snared
        c.snared = 0
    draw_card(k)


cdef void pay(Keeper* k, int32_t cost) noexcept nogil:
    k.oil -= <int16_t>cost
    k.oil_spent += <int16_t>cost


cdef void perform(Match* m, const Action* a, const Game* g) noexcept nogil:
    """A legal decision of the seat that is to act."""
    cdef int32_t seat = m.acting
    cdef Keeper* k = &m.keepers[seat]
    cdef const Card* card = &g.cards[a.card]
    cdef Creature* c
    m.decisions += 1
    k.last[0], k.last[1], k.last[2], k.last[3] = a.kind, a.card, a.slot, a.target
    if a.kind == END:
        start_turn(m, 1 - seat, g)
        return
    if a.kind == STOKE:
        lose_card(k, a.card)
        k.lamps += 1
        k.stoked = 1
        return
    if a.kind == PLAY:
        lose_card(k, a.card)
        pay(k, card.cost)
        k.played += 1
        c = &k.board[a.slot - 1]
        c.card = <int16_t>a.card
        c.power = <int16_t>card.power
        c.health = c.most = <int16_t>card.health
        c.acts = card.keywords & SWIFT != 0
        run_arrival(m, seat, a.slot - 1, card, g)
    elif a.kind == CAST:
        lose_card(k, a.card)
        pay(k, card.cost)
        k.cast += 1
        run_effect(m, seat, card.arrival, card.arrival_amount, a.target, g)
    elif a.kind == ATTACK:
        fight(m, seat, a.slot - 1, a.target, g)
    else:
        c = &k.board[a.slot - 1]
        card = &g.cards[c.card]
        c.acts = 0
        pay(k, card.ability_cost)
        k.abilities += 1
        run_effect(m, seat, card.ability, card.ability_amount, a.target, g)
    bury(m, seat, g)


cdef int32_t end_of_match(const Match* m, const Game* g, int32_t* winner) noexcept nogil:
    """The end reason, or ONGOING; `winner` is a seat or -1."""
    cdef int32_t left = m.keepers[0].health
    cdef int32_t right = m.keepers[1].health
    winner[0] = -1
    if left > 0 and right > 0:
        if m.decisions < g.rules.decision_limit:
            return ONGOING
        if left != right:
            winner[0] = 0 if left > right else 1
        return BY_TIME_LIMIT
    if left > 0:
        winner[0] = 0
    elif right > 0:
        winner[0] = 1
    return BY_FALL


cdef void shuffle(int16_t* cards, int32_t count, uint64_t* rng) noexcept nogil:
    """Fisher and Yates."""
    cdef int32_t i, j
    cdef int16_t kept
    for i in range(count - 1, 0, -1):
        j = draw_below(rng, i + 1)
        kept = cards[i]
        cards[i] = cards[j]
        cards[j] = kept


cdef void start_match(Match* m, uint64_t seed, const Game* g) noexcept nogil:
    """A new match; the controllers remain. Both keepers have the same cards, each in an order of its own."""
    cdef int16_t all_cards[COPIES * NUM_CARDS]
    cdef int32_t i, s, deals
    cdef int16_t controller
    cdef Keeper* k
    m.seed = seed
    m.rng = mix(seed ^ <uint64_t>0xD1B54A32D192ED03)
    m.decisions = m.spare = 0
    m.began = <int16_t>(draw(&m.rng) >> 63)
    for i in range(COPIES * NUM_CARDS):
        all_cards[i] = <int16_t>(1 + i % NUM_CARDS)
    shuffle(all_cards, COPIES * NUM_CARDS, &m.rng)
    for i in range(2):
        s = m.began if i == 0 else 1 - m.began
        k = &m.keepers[s]
        controller = k.controller
        memset(k, 0, sizeof(Keeper))
        k.controller = controller
        k.rng = draw(&m.rng)
        k.health = <int16_t>g.rules.health
        k.last[0] = -1
        k.deck_size = <int16_t>g.rules.deck
        memcpy(k.deck, all_cards, g.rules.deck * sizeof(int16_t))
        shuffle(k.deck, g.rules.deck, &m.rng)
        k.oil = <int16_t>(0 if i == 0 else g.rules.second_oil)
        for deals in range(g.rules.first_hand if i == 0 else g.rules.second_hand):
            draw_card(k)
    start_turn(m, m.began, g)
