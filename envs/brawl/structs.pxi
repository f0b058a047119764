# Brawl's structs and the orders of its tables. Included by brawl.pyx.

cdef enum:
    NUM_KEYS = 10
    NUM_TERMS = 12
    NUM_METRICS = 13
    NUM_BOTS = 8
    NUM_WEAPONS = 3
    NUM_KINDS = 11
    NUM_STYLE = 12
    HALF = 32
    MAX_STRIKES = 64
    CHUNK = 32  # rows that a thread takes at a time

cdef enum:  # key bits, the order of rules.KEYS
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
    FRESH_ONLY = 16 + 32 + 64 + 512  # these act on a new press, not while held

cdef enum:  # state.AIR, GROUND, PLATFORM
    AIR
    GROUND
    PLATFORM

cdef enum:  # the order of rules.TERMS
    DAMAGE_DEALT
    DAMAGE_TAKEN
    KNOCK_OUT
    STOCK_LOST
    WIN
    COMBO
    WEAPON_TAKEN
    WEAPON_LOST
    DANGER_ZONE
    APPROACH
    ATTACK
    HIT

cdef enum:  # the order of moves.KINDS
    NEUTRAL_LIGHT
    SIDE_LIGHT
    DOWN_LIGHT
    NEUTRAL_HEAVY
    SIDE_HEAVY
    DOWN_HEAVY
    NEUTRAL_AIR
    SIDE_AIR
    DOWN_AIR
    RECOVERY
    GROUND_POUND

cdef enum:  # the order of moves.WEAPONS
    UNARMED
    SPEAR
    HAMMER

cdef enum:  # the order of rules.BOTS
    EXTERNAL = -1
    CONSTANT = 0
    RANDOM = 1
    BASED = 2
    RUSHER = 3
    ZONER = 4
    EDGE_GUARDER = 5
    PUNISHER = 6
    CHARGER = 7

cdef enum:  # the order of rules.END_REASONS, after "goes on"
    ONGOING = -1
    BY_KNOCK_OUT = 0
    BY_TIME_LIMIT = 1

cdef enum:  # what a fighter's keys ask of the match
    NO_WISH
    TAKE
    DROP

cdef struct Rules:
    int32_t ticks_per_step
    int32_t time_limit
    int32_t stocks
    double tick_seconds
    double edge_inner
    double edge_outer
    double platform_low
    double platform_high
    double platform_speed
    double drop_depth
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
    double dash_speed
    int32_t dash_ticks
    double back_dash_speed
    int32_t back_dash_ticks
    int32_t dash_cooldown
    int32_t turn_ticks
    double air_turn
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
    int32_t respawn_ticks
    int32_t protection_ticks
    int32_t credit_ticks
    int32_t max_charge
    double charge_power
    double stun_per_speed
    int32_t max_stun
    int32_t min_stun
    int32_t combo_decay
    double bounce
    double bounce_speed
    int32_t weapons
    int32_t weapon_ticks
    int32_t item_ticks
    int32_t item_first_min
    int32_t item_first_max
    int32_t item_wait_min
    int32_t item_wait_max
    double item_near
    double item_far
    double pickup_reach
    double bot_reach_x
    double bot_reach_y
    double bot_spear_reach_x
    double bot_margin
    int32_t bot_styles

cdef struct Strike:
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
    int32_t weight
    int32_t aim
    int32_t charges
    int32_t air
    int32_t on_hit
    int32_t on_miss
    int32_t on_land

cdef struct Style:  # the fields of styles.Style, in order, doubles throughout
    double pause
    double reach
    double distance
    double territory
    double hesitation
    double heaviness
    double aim
    double caution
    double jumpiness
    double return_height
    double favourite
    double habit

cdef struct Range:  # the bounds of styles.Range
    double far_low
    double low
    double high
    double far_high

cdef enum:  # the order of styles.STYLES
    STYLES_OFF
    STYLES_TRAIN
    STYLES_HELD_OUT

cdef enum:  # the order of styles.FAVOURITES
    LIKES_LIGHT
    LIKES_WAIT
    LIKES_HEAVY
    LIKES_DODGE
    LIKES_RIPOSTE

cdef struct Game:
    Rules rules
    Style standard
    Range ranges[NUM_STYLE]
    Strike strikes[MAX_STRIKES]
    int32_t starts[NUM_WEAPONS][NUM_KINDS]  # the strike that begins each attack
    int32_t taunt

# The fields of Fighter, Item and Match, in order, are those of state.STATE_DTYPE.
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
    int32_t support
    int32_t stocks
    int32_t jumps_left
    int32_t recovery_left
    int32_t stun
    int32_t invulnerable
    int32_t dodge
    int32_t dash
    int32_t direction
    int32_t dodge_cooldown
    int32_t turn
    int32_t respawn
    int32_t credit
    int32_t move
    int32_t move_tick
    int32_t move_hit
    int32_t landed
    int32_t charge
    int32_t combo
    int32_t weapon
    int32_t weapon_left
    int32_t run_ticks
    int32_t keys
    int32_t knock_outs
    int32_t self_destructs
    int32_t attacks
    int32_t hits
    int32_t combos
    int32_t dodges
    int32_t dashes
    int32_t pickups
    int32_t air_ticks
    int32_t field_ticks
    int32_t controller

cdef struct Item:
    double x
    int64_t left
    int32_t kind
    int32_t ticks

cdef struct Match:
    Fighter fighters[2]
    Item items[2]
    double platform_y
    double platform_direction
    uint64_t seed
    uint64_t rng
    int64_t tick

cdef packed struct Result:  # the fields of types.result_dtype(NUM_METRICS)
    int8_t winner
    int8_t end_reason
    int32_t ticks
    uint64_t seed
    float metrics[2][NUM_METRICS]

cdef struct Blow:
    bint lands
    bint combo  # the target was stunned
    int32_t row  # hits that it had taken in that stun
    int32_t stun
    double damage
    double vx
    double vy

cdef struct Row:  # where one match's arrays begin
    Match* match
    int32_t* actions          # (2, NUM_KEYS)
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


cdef inline double draw_unit(uint64_t* state) noexcept nogil:
    """Uniform in [0, 1), a multiple of 2**-53."""
    return <double>(draw(state) >> 11) * (1.0 / 9007199254740992.0)


cdef inline int32_t draw_between(uint64_t* state, int32_t low, int32_t high) noexcept nogil:
    return low + <int32_t>((draw(state) >> 33) % <uint64_t>(high - low + 1))


# Small helpers.

cdef inline double toward(double value, double target, double most) noexcept nogil:
    if value < target:
        return target if value + most > target else value + most
    return target if value - most < target else value - most


cdef inline double clip(double value) noexcept nogil:
    return 1.0 if value > 1.0 else (-1.0 if value < -1.0 else value)


cdef inline double distance(double ax, double ay, double bx, double by) noexcept nogil:
    return sqrt((ax - bx) * (ax - bx) + (ay - by) * (ay - by))


cdef inline int32_t direction_of(int32_t keys) noexcept nogil:
    return (1 if keys & RIGHT else 0) - (1 if keys & LEFT else 0)


cdef inline bint over_ground(double x, const Game* g) noexcept nogil:
    return fabs(x) >= g.rules.edge_inner and fabs(x) <= g.rules.edge_outer


cdef inline int32_t ground_of(double x) noexcept nogil:
    """Which ground's item is meant at x: 0 the left one's, 1 the right one's."""
    return 0 if x < 0.0 else 1
