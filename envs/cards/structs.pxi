# The duel's structs and the orders of its tables. Included by cards.pyx.

cdef enum:
    NUM_PARTS = 4
    NUM_TYPES = 6
    NUM_CARDS = 28
    NUM_TARGETS = 11
    NUM_TERMS = 8
    NUM_METRICS = 13
    NUM_BOTS = 3
    SLOTS = 4
    HAND = 6
    MAX_DECK = 40
    COPIES = 2
    MAX_TUPLES = 64
    OTHER_SLOT = 1
    OTHER_KEEPER = 5
    OWN_SLOT = 6
    OWN_KEEPER = 10
    CREATURE = 11  # numbers that show a creature
    PRIVATE = 37  # floats of the parts in layout.py
    PUBLIC = 104
    OBS = 245
    CHUNK = 32  # rows that a thread takes at a time
    WINS = 1000  # what bots gain by the last blow
    LAST_LAMP_TURN = 9
    LAMP_GAIN = 22

cdef enum:  # the order of rules.TYPES
    END
    STOKE
    PLAY
    CAST
    ATTACK
    ABILITY

cdef enum:  # the order of rules.TERMS
    WIN
    DAMAGE_DEALT
    DAMAGE_TAKEN
    CREATURE_DESTROYED
    CREATURE_LOST
    CARD_PLAYED
    CARD_BURNT
    LAMP

cdef enum:  # the order of rules.BOTS
    EXTERNAL = -1
    RANDOM = 0
    GREEDY = 1
    CURVE = 2

cdef enum:  # the order of rules.END_REASONS, after "goes on"
    ONGOING = -1
    BY_FALL = 0
    BY_TIME_LIMIT = 1

cdef enum:  # the bits of catalogue.KEYWORDS
    SOARING = 1
    BULWARK = 2
    SWIFT = 4
    SHELL = 8
    VENOM = 16
    DRAIN = 32

cdef enum:  # the order of catalogue.EFFECTS
    NO_EFFECT
    DAMAGE
    HEAL
    DRAW
    BOLSTER
    SNARE
    RETURN
    SWEEP
    OIL

cdef enum:  # the order of catalogue.TARGETS
    NOBODY
    ENEMY_CREATURE
    ENEMY
    OWN_CREATURE
    OWN

cdef struct Rules:
    int32_t health
    int32_t decision_limit
    int32_t deck
    int32_t first_hand
    int32_t second_hand
    int32_t second_oil
    int32_t income
    int32_t most_oil
    int32_t most_lamps

cdef struct Card:
    int32_t cost
    int32_t is_spell
    int32_t power
    int32_t health
    int32_t keywords
    int32_t arrival
    int32_t arrival_amount
    int32_t target
    int32_t ability
    int32_t ability_amount
    int32_t ability_cost
    int32_t ability_target
    int32_t farewell
    int32_t farewell_amount
    int32_t bonus

cdef struct Game:
    Rules rules
    Card cards[NUM_CARDS + 1]

# The fields of Creature, Keeper and Match, in order, are those of state.STATE_DTYPE.
cdef struct Creature:
    int16_t card  # 0: the slot is empty
    int16_t power
    int16_t health
    int16_t most
    int16_t acts
    int16_t snared

cdef struct Keeper:
    uint64_t rng
    int16_t controller
    int16_t health
    int16_t oil
    int16_t lamps
    int16_t stoked
    int16_t tired
    int16_t hand_size
    int16_t deck_size
    int16_t last[NUM_PARTS]
    int16_t damage_dealt
    int16_t destroyed
    int16_t lost
    int16_t played
    int16_t cast
    int16_t attacks
    int16_t abilities
    int16_t oil_spent
    int16_t burnt
    int16_t turns
    Creature board[SLOTS]
    int16_t hand[HAND]
    int16_t deck[MAX_DECK]

cdef struct Match:
    uint64_t seed
    uint64_t rng
    Keeper keepers[2]
    int16_t acting
    int16_t decisions
    int16_t began
    int16_t spare

cdef packed struct Result:  # the fields of types.result_dtype(NUM_METRICS)
    int8_t winner
    int8_t end_reason
    int32_t ticks
    uint64_t seed
    float metrics[2][NUM_METRICS]

cdef struct Action:
    int32_t kind
    int32_t card
    int32_t slot  # 1 to SLOTS, 0: none
    int32_t target

cdef struct Row:  # where one match's arrays begin
    Match* match
    int32_t* actions          # (2, NUM_PARTS)
    const int16_t* controllers  # (2,)
    float* obs                # (2, OBS)
    float* final_obs          # (2, OBS)
    int16_t* mask             # (2, MAX_TUPLES, NUM_PARTS)
    float* terms              # (2, NUM_TERMS)
    uint8_t* terminated
    uint8_t* to_act           # (2,)
    const uint8_t* held
    Result* result


# Random numbers: splitmix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators").

cdef inline uint64_t mix(uint64_t z) noexcept nogil:
    z = (z ^ (z >> 30)) * <uint64_t>0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * <uint64_t>0x94D049BB133111EB
    return z ^ (z >> 31)


cdef inline uint64_t draw(uint64_t* state) noexcept nogil:
    state[0] += <uint64_t>0x9E3779B97F4A7C15
    return mix(state[0])


cdef inline int32_t draw_below(uint64_t* state, int32_t bound) noexcept nogil:
    return <int32_t>((draw(state) >> 33) % <uint64_t>bound)
