/* Products of float32 matrices by AVX-512, for processors on which MKL leaves it unused.
 *
 * The right side is packed in panels of PANEL columns; the left side is copied a block at a time, so that it is in the
 * second cache and its rows do not evict each other from the first. TALL rows and PANEL columns of the result are summed
 * in 24 registers, enough to hide how long an addition takes. Each number is the sum of its products in their order,
 * whatever rows and threads there are.
 */
#ifndef LEAGUE_WIDE_PRODUCTS_H
#define LEAGUE_WIDE_PRODUCTS_H

#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#define THIS_THREAD omp_get_thread_num()
#else
#define THIS_THREAD 0
#endif

#include "vector_math.h"

#define SMALLER(x, y) ((x) < (y) ? (x) : (y))

enum {
    TALL = 12,
    SHORT = 4,              /* rows at a time of what is left of a block */
    PANEL = 2 * LANES,
    DEEP = 512,             /* depth that is multiplied at a time */
    WIDE = 512,             /* columns, where the right side is not packed yet */
    BLOCK = 12 * TALL,      /* rows of a block, at most */
    APART = DEEP + LANES,   /* floats from one row of a block to the next: no power of two */
    SPACE = BLOCK * APART,  /* floats of a block */
};

typedef struct {
    const float *left;   /* (rows, depth), left_row and left_depth floats apart, one of them 1 */
    const float *right;  /* (depth, columns), right_depth and right_column floats apart, one of them 1; not read if packed */
    const float *packed; /* `packed_size` floats: all of `right` as `pack_panels` leaves it; NULL: none */
    const float *bias;   /* (columns,), added; NULL: none */
    float *out;          /* (rows, columns), a row's together, out_row floats apart */
    int64_t rows, columns, depth, left_row, left_depth, right_depth, right_column, out_row;
    int adds;            /* to what `out` holds, and then no bias */
} Product;

/* Whether this processor has what `WIDEST` builds its widest form for. */
static inline int has_wide(void) {
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return 0;
#endif
}

static int64_t num_panels(int64_t columns) { return (columns + PANEL - 1) / PANEL; }

static int64_t packed_size(int64_t depth, int64_t columns) { return num_panels(columns) * PANEL * depth; }

/* Writes the panel of `columns` (depth, PANEL), 0 beyond what there is of them. */
WIDEST static void pack_panel(const float *right, int64_t right_depth, int64_t right_column, int64_t depth,
                              int64_t columns, float *panel) {
    if (columns < PANEL) memset(panel, 0, depth * PANEL * sizeof(float));
    if (right_column == 1)
        for (int64_t k = 0; k < depth; k++) copy(right + k * right_depth, columns, 1.0f, panel + k * PANEL);
    else
        for (int64_t k = 0; k < depth; k += LANES) /* a line of each column is read at a time */
            for (int64_t j = 0; j < columns; j++)
                for (int64_t l = k; l < SMALLER(k + LANES, depth); l++) panel[l * PANEL + j] = right[j * right_column + l];
}

/* The panels of p's right side in this depth and these columns, one after the other. */
static void pack_panels(const Product *p, int64_t deep, int64_t depth, int64_t wide, int64_t columns, float *panels,
                        int threads) {
    const float *right = p->right + deep * p->right_depth + wide * p->right_column;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t j = 0; j < num_panels(columns); j++)
        pack_panel(right + j * PANEL * p->right_column, p->right_depth, p->right_column, depth,
                   SMALLER(PANEL, columns - j * PANEL), panels + j * PANEL * depth);
}

/* out (rows, width) = begin (rows, width), begin_row floats apart, + left (rows, depth) * panel (depth, PANEL). */
PART void multiply_tile(const float *left, int64_t row, int64_t column, const float *panel, int64_t depth,
                        const float *begin, int64_t begin_row, float *out, int64_t out_row, int64_t width, int rows) {
    lanes sum[TALL][2];
    for (int i = 0; i < rows; i++) {
        sum[i][0] = load(begin + i * begin_row, width);
        sum[i][1] = width > LANES ? load(begin + i * begin_row + LANES, width - LANES) : (lanes){0};
    }
    for (int64_t k = 0; k < depth; k++) {
        const lanes first = LANES_AT(panel + k * PANEL), second = LANES_AT(panel + k * PANEL + LANES);
        for (int i = 0; i < rows; i++) {
            sum[i][0] += left[i * row + k * column] * first;
            sum[i][1] += left[i * row + k * column] * second;
        }
    }
    for (int i = 0; i < rows; i++) {
        store(sum[i][0], out + i * out_row, width);
        if (width > LANES) store(sum[i][1], out + i * out_row + LANES, width - LANES);
    }
}

/* A block's rows times one panel. */
PART void multiply_rows(const float *left, int64_t row, int64_t column, const float *panel, int64_t depth,
                        const float *begin, int64_t begin_row, float *out, int64_t out_row, int64_t width, int64_t rows) {
    int64_t i = 0;
#define ROWS(count)                                                                                                    \
    for (; i + count <= rows; i += count)                                                                              \
        multiply_tile(left + i * row, row, column, panel, depth, begin + i * begin_row, begin_row, out + i * out_row,  \
                      out_row, width, count);
    ROWS(TALL)
    ROWS(SHORT)
    ROWS(1)
#undef ROWS
}

/* At most BLOCK rows of p's left side, DEEP of its depth and these columns of the right side, whose panels are
 * panel_step floats apart; `space` holds SPACE floats. Begins anew or goes on with what `out` holds. */
WIDEST static void multiply_block(const Product *p, int64_t first, int64_t rows, int64_t deep, int64_t depth,
                                  int64_t wide, int64_t columns, const float *panels, int64_t panel_step, float *space) {
    static const float nothing[PANEL];
    const int is_by_rows = p->left_depth == 1, goes_on = p->adds || deep > 0;
    const float *left = p->left + first * p->left_row + deep * p->left_depth;
    if (is_by_rows)
        for (int64_t i = 0; i < rows; i++) copy(left + i * p->left_row, depth, 1.0f, space + i * APART);
    else
        for (int64_t k = 0; k < depth; k++) copy(left + k * p->left_depth, rows, 1.0f, space + k * BLOCK);
    for (int64_t j = 0; j < columns; j += PANEL) {
        const float *panel = panels + j / PANEL * panel_step;
        float *out = p->out + first * p->out_row + wide + j;
        const float *begin = goes_on ? out : p->bias ? p->bias + wide + j : nothing;
        const int64_t begin_row = goes_on ? p->out_row : 0, width = SMALLER(PANEL, columns - j);
        if (is_by_rows)
            multiply_rows(space, APART, 1, panel, depth, begin, begin_row, out, p->out_row, width, rows);
        else
            multiply_rows(space, 1, BLOCK, panel, depth, begin, begin_row, out, p->out_row, width, rows);
    }
}

/* These rows of a product whose right side is packed. */
static inline void multiply_packed(const Product *p, int64_t first, int64_t rows, float *space) {
    for (int64_t deep = 0; deep < p->depth; deep += DEEP)
        multiply_block(p, first, rows, deep, SMALLER(DEEP, p->depth - deep), 0, p->columns, p->packed + deep * PANEL,
                       p->depth * PANEL, space);
}

/* Rows that a thread takes at a time. */
static int64_t rows_of_block(int64_t rows, int threads) {
    const int64_t share = (rows + threads - 1) / threads;
    return SMALLER(BLOCK, (share + SHORT - 1) / SHORT * SHORT);
}

/* Writes a product; 0 where there was no memory for it. */
static int multiply_wide(const Product *p, int threads) {
    const int64_t block = rows_of_block(p->rows, threads), wide_step = p->packed ? p->columns : WIDE;
    const int64_t room = p->packed ? 0 : packed_size(SMALLER(DEEP, p->depth), SMALLER(WIDE, p->columns));
    float *panels = aligned_alloc(64, (room + (int64_t)threads * SPACE) * sizeof(float)), *spaces = panels + room;
    if (!panels) return 0;
    for (int64_t deep = 0; deep < p->depth; deep += DEEP)
        for (int64_t wide = 0; wide < p->columns; wide += wide_step) {
            const int64_t depth = SMALLER(DEEP, p->depth - deep), columns = SMALLER(wide_step, p->columns - wide);
            const float *piece = p->packed ? p->packed + deep * PANEL : panels;
            const int64_t panel_step = (p->packed ? p->depth : depth) * PANEL;
            if (!p->packed) pack_panels(p, deep, depth, wide, columns, panels, threads);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
            for (int64_t i = 0; i < p->rows; i += block)
                multiply_block(p, i, SMALLER(block, p->rows - i), deep, depth, wide, columns, piece, panel_step,
                               spaces + THIS_THREAD * SPACE);
        }
    free(panels);
    return 1;
}

/* Writes a product of each net, whose matrices lie so many floats from those of the one before; 0 as above. */
static inline int multiply_nets(const Product *first, int64_t nets, int64_t left, int64_t right, int64_t packed, int64_t bias,
                         int64_t out, int threads) {
    int is_done = 1;
    if (nets == 1) return multiply_wide(first, threads);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1) reduction(&& : is_done)
    for (int64_t net = 0; net < nets; net++) {
        Product p = *first;
        p.left += net * left, p.out += net * out;
        if (p.packed) p.packed += net * packed;
        else p.right += net * right;
        if (p.bias) p.bias += net * bias;
        is_done = multiply_wide(&p, 1) && is_done;
    }
    return is_done;
}
#endif
