/* An LSTM over a segment, forwards and backwards, its products included: rows do not know of each other, so a thread
 * takes some of them through all steps. What is read at a step was written at the one before and is in the cache.
 */
#include "lstm_gates.h"
#include "wide_products.h"

typedef struct {
    const float *x;          /* (steps, rows, inputs) */
    const float *hidden;     /* (rows, size): the state that the segment begins with */
    const float *cell;       /* likewise */
    const uint8_t *is_first; /* (steps, rows): the state is cleared before the step */
    const float *weight_x;   /* packed, forwards as (inputs, 4 * size), backwards as (4 * size, inputs) */
    const float *weight_h;   /* packed, forwards as (size, 4 * size), backwards as (4 * size, size) */
    const float *bias;       /* (4 * size,) */
    float *before;           /* (steps, rows, size): hidden state that a step begins with, written forwards */
    float *gates;            /* (steps, rows, 4 * size): their values, written forwards */
    float *cells;            /* (steps, rows, size): the cell after a step, written forwards */
    float *out;              /* (steps, rows, size): the hidden state after a step, written forwards */
    const float *d_out;      /* (steps, rows, size): what flows back from the output */
    float *d_gates;          /* (steps, rows, 4 * size), written backwards */
    float *d_x;              /* (steps, rows, inputs), written backwards */
    int64_t steps, rows, inputs, size;
} Segment;

/* left (rows, depth) times what is packed (depth, columns), both sides of the product without gaps. */
static Product rows_times(const float *left, int64_t depth, const float *packed, int64_t columns, float *out) {
    return (Product){.left = left, .packed = packed, .out = out, .depth = depth, .columns = columns,
                     .left_row = depth, .left_depth = 1, .out_row = columns};
}

/* `num` rows from `first` on through all steps. */
static void lstm_rows(const Segment *s, int64_t first, int64_t num, float *space, const float *zeros) {
    const int64_t n = s->size;
    for (int64_t t = 0; t < s->steps; t++) {
        const int64_t at = t * s->rows + first;
        const float *hidden = t ? s->out + (at - s->rows) * n : s->hidden + first * n;
        const float *cell = t ? s->cells + (at - s->rows) * n : s->cell + first * n;
        for (int64_t i = 0; i < num; i++)
            memcpy(s->before + (at + i) * n, s->is_first[at + i] ? zeros : hidden + i * n, n * sizeof(float));
        Product of_x = rows_times(s->x + at * s->inputs, s->inputs, s->weight_x, 4 * n, s->gates + at * 4 * n);
        Product of_h = rows_times(s->before + at * n, n, s->weight_h, 4 * n, s->gates + at * 4 * n);
        of_x.bias = s->bias, of_h.adds = 1;
        multiply_packed(&of_x, 0, num, space);
        multiply_packed(&of_h, 0, num, space);
        for (int64_t i = 0; i < num; i++) {
            float *gates = s->gates + (at + i) * 4 * n;
            const GateStep step = {.given = gates, .gates = gates, .before = s->is_first[at + i] ? zeros : cell + i * n,
                                   .cell = s->cells + (at + i) * n, .hidden = s->out + (at + i) * n, .size = n};
            lstm_gates(&step, 0);
        }
    }
}

/* The same rows backwards; d_state (2, num, size), 0: what flows back into the hidden state and into the cell. */
static void lstm_rows_backwards(const Segment *s, int64_t first, int64_t num, float *space, float *d_state,
                                const float *zeros) {
    const int64_t n = s->size;
    float *d_hidden = d_state, *d_cell = d_state + num * n;
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        const int64_t at = t * s->rows + first;
        const float *cell = t ? s->cells + (at - s->rows) * n : s->cell + first * n;
        for (int64_t i = 0; i < num; i++) {
            const int64_t row = at + i;
            const GateStep step = {.gates = s->gates + row * 4 * n, .d_gates = s->d_gates + row * 4 * n,
                                   .before = s->is_first[row] ? zeros : cell + i * n, .cell = s->cells + row * n,
                                   .d_hidden = s->d_out + row * n, .d_recurrent = d_hidden + i * n,
                                   .d_cell = d_cell + i * n, .size = n};
            lstm_gates_backwards(&step, 0);
        }
        const float *d_gates = s->d_gates + at * 4 * n;
        const Product of_x = rows_times(d_gates, 4 * n, s->weight_x, s->inputs, s->d_x + at * s->inputs);
        const Product of_h = rows_times(d_gates, 4 * n, s->weight_h, n, d_hidden);
        multiply_packed(&of_x, 0, num, space);
        if (t) multiply_packed(&of_h, 0, num, space);
        for (int64_t i = 0; i < num; i++) {
            if (!s->is_first[at + i]) continue;
            memset(d_hidden + i * n, 0, n * sizeof(float));
            memset(d_cell + i * n, 0, n * sizeof(float));
        }
    }
}

/* All rows, some at a time; 0 where there was no memory for it. */
static int lstm_segment(const Segment *s, int is_backwards, int threads) {
    const int64_t block = rows_of_block(s->rows, threads), of_thread = SPACE + 2 * block * s->size;
    float *zeros = calloc(s->size + threads * of_thread, sizeof(float)), *spaces = zeros + s->size;
    if (!zeros) return 0;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int64_t first = 0; first < s->rows; first += block) {
        const int64_t num = SMALLER(block, s->rows - first);
        float *space = spaces + THIS_THREAD * of_thread, *d_state = space + SPACE;
        if (is_backwards) {
            memset(d_state, 0, 2 * num * s->size * sizeof(float));
            lstm_rows_backwards(s, first, num, space, d_state, zeros);
        } else
            lstm_rows(s, first, num, space, zeros);
    }
    free(zeros);
    return 1;
}
