/* Products of float32 matrices on the tile units of a processor (AMX), which multiply bf16 and add in float32.
 *
 * Each number is the sum of two bf16, high and low: 16 bits of significand, where TF32 keeps 11 and float32 24. Of the
 * four products of two such sums the smallest, low times low, is left out. A result depends on nothing but its own row
 * and column: neither on the number of rows nor on that of threads.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const float *left;  /* (rows, depth), left_row and left_depth floats apart, one of them 1 */
    const float *right; /* (depth, columns), right_depth and right_column floats apart, one of them 1; not read if packed */
    uint16_t *packed;   /* packed_size numbers, aligned to 64 bytes: all of `right` as `pack_right` leaves it; NULL: none */
    int is_far;         /* what is packed comes from memory, not from a cache */
    const float *bias;  /* (columns,), added; NULL: none */
    float *out;         /* (rows, columns), a row's together, out_row floats apart */
    int64_t rows, columns, depth, left_row, left_depth, right_depth, right_column, out_row;
    int adds;           /* to what `out` holds, and then no bias */
} Product;

#if defined(__x86_64__) && defined(__linux__) && (defined(__clang__) ? __clang_major__ >= 12 : __GNUC__ >= 11)
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ON_TILES __attribute__((target("avx512f,amx-tile,amx-bf16")))
#define SMALLER(x, y) ((x) < (y) ? (x) : (y))

enum {
    LINES = 16,           /* of a tile, and floats of a vector */
    PLACES = 32,          /* bf16 of a tile's line */
    TILE = LINES * PLACES,
    STEP = 4 * TILE,      /* what a block reads of a side at a step: two tiles, high and low of each */
    SIDE = 2 * LINES,     /* rows and columns of a block of results */
    DEEP = 256,           /* depth that is multiplied at a time: the left side of a block stays in the first cache */
    WIDE = 1024,          /* columns: the right side stays in the second */
    HIGH = 128,           /* rows that a right side from memory meets at once: their left side is in the second */
    TILE_DATA = 18,       /* the state that Linux has to be asked for, and how (arch_prctl) */
    REQUEST = 0x1023,
};

/* Whether this processor has tiles for bf16, and the system lets this process use them. */
static int has_tiles(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1)) return 0; /* AMX-BF16, AMX-TILE */
    return __builtin_cpu_supports("avx512f") && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* What eight tiles of full size are: the layout that the processor reads. */
typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t lines[16];
} TileLayout;

/* 16 pairs of bf16, each nearest to a number (halves go away from zero): one of `first` below that of `second`; and what
 * that leaves of the numbers. */
ON_TILES static inline __m512i divide(__m512 *first, __m512 *second) {
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32((int)0xffff0000);
    const __m512i one = _mm512_add_epi32((__m512i)*first, half), other = _mm512_add_epi32((__m512i)*second, half);
    *first = _mm512_sub_ps(*first, (__m512)_mm512_and_si512(one, upper));
    *second = _mm512_sub_ps(*second, (__m512)_mm512_and_si512(other, upper));
    return _mm512_ternarylogic_epi32(_mm512_srli_epi32(one, 16), other, upper, 0xf8); /* one | (other & upper) */
}

/* (16, 16) numbers of 32 bits, rows and columns exchanged. */
ON_TILES static inline void exchange(__m512i v[LINES]) {
    __m512i t[LINES];
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_epi32(v[2 * i], v[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_epi32(v[2 * i], v[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) {
        v[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
        v[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
        v[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0x88);
        t[4 + i] = _mm512_shuffle_i32x4(v[i], v[4 + i], 0xdd);
        t[8 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0x88);
        t[12 + i] = _mm512_shuffle_i32x4(v[8 + i], v[12 + i], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        v[i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0x88);
        v[8 + i] = _mm512_shuffle_i32x4(t[i], t[8 + i], 0xdd);
    }
}

/* The first n of 16 lanes. */
static inline __mmask16 lanes_up_to(int64_t n) { return n >= LINES ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1); }

/* Two tiles, high and low, of 16 rows (or columns) and 32 places of the depth, with zeros for what is not there.
 *
 * Place i of the depth is paired with place 16 + i. The left side's tiles have a row a line, the right side's a pair.
 */
ON_TILES static void pack(const float *from, int64_t apart, int64_t depth_apart, int64_t count, int64_t depth, int is_left,
                          uint16_t *tiles) {
    __m512i high[LINES], low[LINES];
    const int64_t next = depth_apart == 1 ? apart : depth_apart, pair = LINES * depth_apart, ahead = PLACES * depth_apart;
    if (count >= LINES && depth >= PLACES) {
        for (int i = 0; i < LINES; i++, from += next) {
            __m512 first = _mm512_loadu_ps(from), second = _mm512_loadu_ps(from + pair);
            _mm_prefetch((const char *)(from + ahead), _MM_HINT_T0);
            _mm_prefetch((const char *)(from + ahead + pair), _MM_HINT_T0);
            high[i] = divide(&first, &second);
            low[i] = divide(&first, &second);
        }
    } else {
        for (int i = 0; i < LINES; i++, from += next) {
            const int64_t near = depth_apart == 1 ? (i < count ? depth : 0) : (i < depth ? count : 0);
            const int64_t far = depth_apart == 1 ? (i < count ? depth - LINES : 0) : (LINES + i < depth ? count : 0);
            __m512 first = _mm512_maskz_loadu_ps(lanes_up_to(near), from);
            __m512 second = _mm512_maskz_loadu_ps(lanes_up_to(far), from + pair);
            high[i] = divide(&first, &second);
            low[i] = divide(&first, &second);
        }
    }
    if (is_left != (depth_apart == 1)) exchange(high), exchange(low);
    for (int i = 0; i < LINES; i++) {
        _mm512_store_si512((void *)(tiles + PLACES * i), high[i]);
        _mm512_store_si512((void *)(tiles + TILE + PLACES * i), low[i]);
    }
}

/* A block of results, (SIDE, SIDE) or, with but one tile of rows, (LINES, SIDE), from packed sides of so many steps.
 *
 * Each tile is loaded once a step; a result is added to again as late as can be, in the same order in every row. At each
 * step so many lines of the cache are asked for, from `ahead` on.
 */
ON_TILES static inline __attribute__((always_inline)) void multiply_block(
    const uint16_t *left, const uint16_t *right, int64_t steps, int adds, const float *bias, float *out, int64_t out_row,
    const uint16_t *ahead, int lines, const int has_two) {
    const int64_t apart = 4 * out_row; /* in bytes */
    float *below = out + LINES * out_row;
    if (adds) {
        _tile_loadd(0, out, apart); _tile_loadd(1, out + LINES, apart);
        if (has_two) { _tile_loadd(2, below, apart); _tile_loadd(3, below + LINES, apart); }
    } else if (bias) {
        _tile_loadd(0, bias, 0); _tile_loadd(1, bias + LINES, 0);
        if (has_two) { _tile_loadd(2, bias, 0); _tile_loadd(3, bias + LINES, 0); }
    } else {
        _tile_zero(0); _tile_zero(1); _tile_zero(2); _tile_zero(3);
    }
    for (; steps > 0; steps--, left += STEP, right += STEP) { /* low times high, high times high, high times low */
        for (int i = 0; i < lines; i++, ahead += PLACES) _mm_prefetch((const char *)ahead, _MM_HINT_T1);
        _tile_loadd(4, left + TILE, 64); _tile_loadd(6, right, 64); _tile_loadd(7, right + 2 * TILE, 64);
        _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7);
        if (has_two) {
            _tile_loadd(5, left + 3 * TILE, 64);
            _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
        }
        _tile_loadd(4, left, 64);
        _tile_dpbf16ps(0, 4, 6); _tile_dpbf16ps(1, 4, 7);
        if (has_two) {
            _tile_loadd(5, left + 2 * TILE, 64);
            _tile_dpbf16ps(2, 5, 6); _tile_dpbf16ps(3, 5, 7);
        }
        _tile_loadd(6, right + TILE, 64);
        _tile_dpbf16ps(0, 4, 6);
        if (has_two) _tile_dpbf16ps(2, 5, 6);
        _tile_loadd(7, right + 3 * TILE, 64);
        _tile_dpbf16ps(1, 4, 7);
        if (has_two) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, apart); _tile_stored(1, out + LINES, apart);
    if (has_two) { _tile_stored(2, below, apart); _tile_stored(3, below + LINES, apart); }
}

/* So many rows and columns of a block, at most SIDE of either: what is not there is left out at the edges. */
ON_TILES static void multiply_some(const uint16_t *left, const uint16_t *right, int64_t steps, int adds, const float *bias,
                                   float *out, int64_t out_row, int64_t rows, int64_t columns, const uint16_t *ahead,
                                   int lines) {
    const int has_two = rows > LINES, is_whole = rows % LINES == 0 && columns == SIDE;
    const size_t bytes = columns * sizeof(float);
    float block[SIDE * SIDE], all_bias[SIDE], *to = is_whole ? out : block;
    const int64_t to_row = is_whole ? out_row : SIDE;
    for (int64_t i = 0; adds && !is_whole && i < rows; i++) memcpy(block + SIDE * i, out + i * out_row, bytes);
    if (bias && !is_whole) bias = memcpy(all_bias, bias, bytes);
    if (has_two)
        multiply_block(left, right, steps, adds, bias, to, to_row, ahead, lines, 1);
    else
        multiply_block(left, right, steps, adds, bias, to, to_row, ahead, lines, 0);
    for (int64_t i = 0; !is_whole && i < rows; i++) memcpy(out + i * out_row, block + SIDE * i, bytes);
}

/* A step of a side, packed: SIDE rows or columns and PLACES of the depth. */
ON_TILES static inline void pack_step(const float *from, int64_t apart, int64_t depth_apart, int64_t count, int64_t depth,
                                      int is_left, uint16_t *to) {
    pack(from, apart, depth_apart, count, depth, is_left, to);
    if (is_left && count <= LINES) return;
    pack(from + LINES * apart, apart, depth_apart, count - LINES, depth, is_left, to + 2 * TILE);
}

static inline int64_t num_steps(int64_t depth) { return (depth + PLACES - 1) / PLACES; }
static inline int64_t num_blocks(int64_t length) { return (length + SIDE - 1) / SIDE; }

/* A step of a block of the right side, of a piece of it that begins at (deep, wide), into the piece's place. */
ON_TILES static void pack_right_step(const Product *p, int64_t deep, int64_t wide, int64_t depth, int64_t columns, int64_t k,
                                     int64_t j, uint16_t *piece) {
    const int64_t row = deep + k * PLACES, column = wide + j * SIDE;
    pack_step(p->right + row * p->right_depth + column * p->right_column, p->right_column, p->right_depth,
              columns - j * SIDE, depth - k * PLACES, 0, piece + (j * num_steps(depth) + k) * STEP);
}

/* Numbers that the whole right side takes, packed: piece by piece of the depth. */
static int64_t packed_size(int64_t depth, int64_t columns) { return num_steps(depth) * num_blocks(columns) * STEP; }

/* Packs the right side into p->packed, for several products. */
static void pack_right(const Product *p) {
    for (int64_t deep = 0; deep < p->depth; deep += DEEP) {
        const int64_t depth = SMALLER(DEEP, p->depth - deep);
        uint16_t *piece = p->packed + deep / PLACES * num_blocks(p->columns) * STEP;
        for (int64_t k = 0; k < num_steps(depth); k++)
            for (int64_t j = 0; j < num_blocks(p->columns); j++)
                pack_right_step(p, deep, 0, depth, p->columns, k, j, piece);
    }
}

/* One piece of the depth and of the columns, from (deep, wide) on; `space` holds the right side of it, packed here where
 * it is not yet. */
ON_TILES static void multiply_piece(const Product *p, int64_t deep, int64_t wide, uint16_t *space, int threads) {
    const TileLayout layout = {.palette = 1,
                               .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                               .lines = {LINES, LINES, LINES, LINES, LINES, LINES, LINES, LINES}};
    const int64_t depth = SMALLER(DEEP, p->depth - deep), columns = SMALLER(WIDE, p->columns - wide);
    const int64_t steps = num_steps(depth), size = steps * STEP, at_once = p->is_far ? HIGH : SIDE;
    const float *left = p->left + deep * p->left_depth, *bias = p->bias && deep == 0 ? p->bias + wide : NULL;
    const int adds = p->adds || deep > 0;
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        if (!p->packed) {
#pragma omp for schedule(dynamic, 8) collapse(2)
            for (int64_t k = 0; k < steps; k++)
                for (int64_t j = 0; j < num_blocks(columns); j++)
                    pack_right_step(p, deep, wide, depth, columns, k, j, space);
        }
        _tile_loadconfig(&layout);
#pragma omp for schedule(dynamic)
        for (int64_t first = 0; first < p->rows; first += at_once) {
            uint16_t packed[HIGH / SIDE * DEEP / PLACES * STEP] __attribute__((aligned(64)));
            const int64_t last = SMALLER(first + at_once, p->rows);
            for (int64_t i = first; i < last; i += SIDE)
                for (int64_t k = 0; k < steps; k++)
                    pack_step(left + i * p->left_row + k * PLACES * p->left_depth, p->left_row, p->left_depth,
                              SMALLER(SIDE, last - i), depth - k * PLACES, 1,
                              packed + ((i - first) / SIDE * steps + k) * STEP);
            const int lines = p->is_far ? STEP / PLACES / (int)num_blocks(last - first) : 0;
            for (int64_t j = 0; j < columns; j += SIDE) {
                const uint16_t *side = space + j / SIDE * size, *own = packed, *ahead = side + size;
                for (int64_t i = first; i < last; i += SIDE, own += size, ahead += lines * steps * PLACES)
                    multiply_some(own, side, steps, adds, bias ? bias + j : NULL, p->out + i * p->out_row + wide + j,
                                  p->out_row, SMALLER(SIDE, last - i), SMALLER(SIDE, columns - j), ahead, lines);
            }
        }
        _tile_release();
    }
}

/* Writes a product; 0 where there was no memory for it. */
static int multiply_on_tiles(const Product *p, int threads) {
    const int64_t blocks = num_blocks(p->columns);
    threads = (int)SMALLER(threads, num_blocks(p->rows));
    uint16_t *space = NULL;
    if (!p->packed) {
        space = aligned_alloc(64, packed_size(SMALLER(DEEP, p->depth), SMALLER(WIDE, p->columns)) * sizeof(uint16_t));
        if (!space) return 0;
    }
    for (int64_t deep = 0; deep < p->depth; deep += DEEP)
        for (int64_t wide = 0; wide < p->columns; wide += WIDE) {
            const int64_t steps = num_steps(SMALLER(DEEP, p->depth - deep));
            uint16_t *piece = space ? space : p->packed + (deep / PLACES * blocks + wide / SIDE * steps) * STEP;
            multiply_piece(p, deep, wide, piece, threads);
        }
    free(space);
    return 1;
}

/* Writes a product of each net, whose matrices lie so many numbers from those of the one before; 0 as above. */
static int multiply_nets(const Product *first, int64_t nets, int64_t left, int64_t right, int64_t packed, int64_t bias,
                         int64_t out, int threads) {
    int is_done = 1;
    if (nets == 1) return multiply_on_tiles(first, threads);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1) reduction(&& : is_done)
    for (int64_t net = 0; net < nets; net++) {
        Product p = *first;
        p.left += net * left, p.out += net * out;
        if (p.packed) p.packed += net * packed;
        else p.right += net * right;
        if (p.bias) p.bias += net * bias;
        is_done = multiply_on_tiles(&p, 1) && is_done;
    }
    return is_done;
}
#else
static int has_tiles(void) { return 0; }

static int64_t packed_size(int64_t depth, int64_t columns) { return (void)depth, (void)columns, 0; }

static void pack_right(const Product *p) { (void)p; }

static int multiply_nets(const Product *first, int64_t nets, int64_t left, int64_t right, int64_t packed, int64_t bias,
                         int64_t out, int threads) {
    return (void)first, (void)nets, (void)left, (void)right, (void)packed, (void)bias, (void)out, (void)threads, 0;
}
#endif
