/* Attention over a stored segment, forwards and backwards: each token of each row sees the last `history` tokens of its
 * own match, those of the memory that the row brought along (a ring, as the segment began) and those of the segment.
 *
 * Laid out in time, memory first, what a token sees is one range of places. Keys and values of a row and head are copied
 * into a workspace, where a place's score needs no sum across vector lanes. Queries go through it TILE at a time, so that
 * what is read serves several; each works over the places that any of them sees, and those that it does not see count 0.
 */
#include "vector_math.h"

#define TILE 4
#define UNROLLED _Pragma("GCC unroll 4") /* so that what is kept of each query stays in registers */

typedef struct {
    const float *query;      /* (num_queries, width) of a token, query_stride floats apart; 0: all tokens share one */
    const float *key;        /* (width,) of a token, key_stride floats apart; not rotated */
    const float *value;      /* (width,) of a token, value_stride floats apart */
    const float *cosine;     /* (rows * steps, head_width / 2): the rotary angles of each token */
    const float *sine;
    const int64_t *count;    /* (rows,): tokens of the match before the segment */
    const uint8_t *is_first; /* (rows, steps): a match begins at this token */
    const float *keys;       /* (rows, history, width): the memory, rotated; token i of a match in slot i mod history */
    const float *values;
    float *out;              /* (rows, steps, num_queries, width) */
    float *log_sum;          /* (rows, steps, num_queries, heads): log of the sum of exp(score); written forwards */
    const float *d_out;      /* gradients, of the shapes above but dense: NULL forwards */
    float *d_query;          /* (rows, steps, num_queries, width), of each token also where they share one */
    float *d_key;            /* (rows, steps, width) */
    float *d_value;
    int64_t rows, steps, query_stride, key_stride, value_stride, num_queries, history, heads, head_width;
} SegmentAttention;

/* A workspace for one row and head: places are memory tokens, oldest first, then the segment's. */
typedef struct {
    int64_t stride;         /* places that a line of the transposed arrays holds, 2 * LANES of them spare */
    int64_t span;           /* places that a line of the scores holds */
    float *keys, *values;   /* (places, head_width) */
    float *keys_by_feature, *values_by_feature; /* (head_width, stride) */
    float *d_keys, *d_values; /* (steps, head_width) */
    float *score, *d_score; /* (TILE, span) */
    float *query, *d_out;   /* (TILE, head_width) */
    float *found;           /* (TILE, head_width): the output, or the gradient of `query` */
} Workspace;

PART int64_t stride_of(int64_t history, int64_t steps) {
    return (history + steps + 3 * LANES - 1) / LANES * LANES;
}

/* A tile looks back on `history` places from its last, and as many more as its first lies before that. */
PART int64_t span_of(int64_t history) { return (history + TILE + 4 * LANES - 1) / LANES * LANES; }

PART int64_t workspace_size(int64_t history, int64_t steps, int64_t head_width) {
    const int64_t size = (4 * stride_of(history, steps) + 2 * steps + 3 * TILE) * head_width + 2 * TILE * span_of(history);
    return (size + LANES - 1) / LANES * LANES;
}

PART Workspace lay_out(float *space, int64_t history, int64_t steps, int64_t head_width) {
    Workspace w;
    w.stride = stride_of(history, steps), w.span = span_of(history);
    const int64_t places = w.stride * head_width, tokens = steps * head_width, tile = TILE * head_width;
    w.keys_by_feature = space;
    w.values_by_feature = w.keys_by_feature + places;
    w.keys = w.values_by_feature + places;
    w.values = w.keys + places;
    w.score = w.values + places;
    w.d_score = w.score + TILE * w.span;
    w.d_keys = w.d_score + TILE * w.span;
    w.d_values = w.d_keys + tokens;
    w.query = w.d_values + tokens;
    w.d_out = w.query + tile;
    w.found = w.d_out + tile;
    return w;
}

PART void transpose(const float *x, int64_t places, int64_t head_width, int64_t stride, float *out) {
    for (int64_t d = 0; d < head_width; d++) {
        for (int64_t j = 0; j < places; j++) out[d * stride + j] = x[j * head_width + d];
        for (int64_t j = places; j < stride; j++) out[d * stride + j] = 0.0f;
    }
}

/* Fills the workspace with the keys and values of `row` and head `h`; returns how many places are the memory's. */
PART int64_t gather(const SegmentAttention *a, int64_t row, int64_t h, Workspace *w) {
    const int64_t width = a->heads * a->head_width, half = a->head_width / 2, at = h * a->head_width;
    const int64_t count = a->count[row], remembered = count < a->history ? count : a->history;
    for (int64_t i = 0; i < remembered; i++) {
        const int64_t slot = (row * a->history + (count - remembered + i) % a->history) * width + at;
        copy(a->keys + slot, a->head_width, 1.0f, w->keys + i * a->head_width);
        copy(a->values + slot, a->head_width, 1.0f, w->values + i * a->head_width);
    }
    for (int64_t t = 0; t < a->steps; t++) {
        const int64_t token = row * a->steps + t, place = (remembered + t) * a->head_width;
        turn(a->key + token * a->key_stride + at, a->cosine + token * half, a->sine + token * half, half, 1.0f,
             w->keys + place);
        copy(a->value + token * a->value_stride + at, a->head_width, 1.0f, w->values + place);
    }
    transpose(w->keys, remembered + a->steps, a->head_width, w->stride, w->keys_by_feature);
    if (a->d_out) transpose(w->values, remembered + a->steps, a->head_width, w->stride, w->values_by_feature);
    return remembered;
}

/* out[i][j] = x[i] . column j of `by_feature`, for so many vectors of places j. */
PART void some_products(const float *x, const float *by_feature, int64_t stride, int64_t head_width, int64_t span,
                        const int vectors, float *out) {
    lanes sum[TILE][2] = {{{0}}};
    for (int64_t d = 0; d < head_width; d++, by_feature += stride)
        UNROLLED for (int i = 0; i < TILE; i++)
            for (int v = 0; v < vectors; v++) sum[i][v] += x[i * head_width + d] * LANES_AT(by_feature + v * LANES);
    UNROLLED for (int i = 0; i < TILE; i++)
        for (int v = 0; v < vectors; v++) *(lanes *)(out + i * span + v * LANES) = sum[i][v];
}

/* The same for j < num, and for the rest of the last LANES. */
PART void products(const float *x, const float *by_feature, int64_t stride, int64_t num, int64_t head_width, int64_t span,
                   float *out) {
    int64_t j = 0;
    for (; j + LANES < num; j += 2 * LANES) some_products(x, by_feature + j, stride, head_width, span, 2, out + j);
    if (j < num) some_products(x, by_feature + j, stride, head_width, span, 1, out + j);
}

/* out[i] = sum of weight[i][j] times row j of x (num, head_width). */
PART void weigh(const float *weight, int64_t span, const float *x, int64_t num, int64_t head_width, float *out) {
    int64_t d = 0;
    for (; d + 2 * LANES <= head_width; d += 2 * LANES) {
        lanes low[TILE] = {{0}}, high[TILE] = {{0}};
        for (int64_t j = 0; j < num; j++)
            UNROLLED for (int i = 0; i < TILE; i++) {
                low[i] += weight[i * span + j] * LANES_AT(x + j * head_width + d);
                high[i] += weight[i * span + j] * LANES_AT(x + j * head_width + d + LANES);
            }
        UNROLLED for (int i = 0; i < TILE; i++) {
            *(lanes *)(out + i * head_width + d) = low[i];
            *(lanes *)(out + i * head_width + d + LANES) = high[i];
        }
    }
    for (; d < head_width; d += LANES)
        UNROLLED for (int i = 0; i < TILE; i++) {
            lanes sum = {0};
            for (int64_t j = 0; j < num; j++) sum += weight[i * span + j] * load(x + j * head_width + d, head_width - d);
            store(sum, out + i * head_width + d, head_width - d);
        }
}

/* Row j of out (num, head_width) += sum of weight[i][j] times x[i]. */
PART void spread(const float *weight, int64_t span, const float *x, int64_t num, int64_t head_width, float *out) {
    for (int64_t d = 0; d < head_width; d += LANES) {
        lanes part[TILE];
        UNROLLED for (int i = 0; i < TILE; i++) part[i] = load(x + i * head_width + d, head_width - d);
        for (int64_t j = 0; j < num; j++) {
            float *at = out + j * head_width + d;
            lanes sum = load(at, head_width - d);
            UNROLLED for (int i = 0; i < TILE; i++) sum += weight[i * span + j] * part[i];
            store(sum, at, head_width - d);
        }
    }
}

/* -1 in the lanes of places `j` and on that lie in [skip, end), else 0. By signs: GCC 12 takes a comparison's vector apart,
 * lane by lane, where a function is built for several widths. */
PART whole_lanes lies_within(int64_t j, int64_t skip, int64_t end) {
    const whole_lanes place = (whole_lanes){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} + (int32_t)j;
    return ~((place - (int32_t)skip) >> 31) & ((place - (int32_t)end) >> 31);
}

/* TILE queries, or fewer at the end, of which `num` are there: tokens in their order, each with all its queries. */
typedef struct {
    int64_t num, base, places; /* the `places` from `base` on are worked through: all that any of them sees; `base` is a
                                  multiple of LANES, so that vectors read from there do not straddle two cache lines */
    int64_t one[TILE], token[TILE], query[TILE]; /* of all queries of all rows; its token; which of the token's */
    int64_t skip[TILE], end[TILE];               /* from `base`: what it sees; nothing where none is there */
} Tile;

/* The tile's scores of what each query sees to weights, in place, the others to 0; total: their sums; log_sum: the logs of
 * the sums of exp(score). */
PART void softmax(const Tile *tile, float *score, int64_t span, float *total, float *log_sum) {
    const lanes none = {0}, least = none - INFINITY;
    lanes largest[TILE], sum[TILE] = {{0}};
    float most[TILE];
    UNROLLED for (int i = 0; i < TILE; i++) largest[i] = least;
    for (int64_t j = 0; j < tile->places; j += LANES)
        UNROLLED for (int i = 0; i < TILE; i++) {
            const whole_lanes seen = lies_within(j, tile->skip[i], tile->end[i]);
            largest[i] = greater(choose(seen, LANES_AT(score + i * span + j), least), largest[i]);
        }
    UNROLLED for (int i = 0; i < TILE; i++) most[i] = largest_of(largest[i]);
    for (int64_t j = 0; j < tile->places; j += LANES)
        UNROLLED for (int i = 0; i < TILE; i++) {
            const whole_lanes seen = lies_within(j, tile->skip[i], tile->end[i]);
            lanes *at = (lanes *)(score + i * span + j);
            sum[i] += *at = choose(seen, exponential(*at - most[i]), none);
        }
    UNROLLED for (int i = 0; i < TILE; i++) total[i] = sum_of(sum[i]);
    for (int i = 0; i < TILE; i++) log_sum[i] = most[i] + logf(total[i]);
}

/* The tile that begins at query `at` of `row`; `begun` is the place where the match at hand began, and is moved on. */
PART Tile next_tile(const SegmentAttention *a, int64_t row, int64_t at, int64_t remembered, int64_t *begun) {
    Tile tile;
    int64_t first[TILE] = {0}, place = 0;
    const int64_t left = a->steps * a->num_queries - at;
    int64_t t = at / a->num_queries, query = at - t * a->num_queries;
    tile.num = left < TILE ? left : TILE;
    for (int64_t i = 0; i < tile.num; i++) {
        tile.token[i] = row * a->steps + t;
        tile.query[i] = query;
        tile.one[i] = tile.token[i] * a->num_queries + tile.query[i];
        place = remembered + t;
        if (a->is_first[tile.token[i]]) *begun = place;
        first[i] = place - a->history + 1 > *begun ? place - a->history + 1 : *begun;
        tile.end[i] = place + 1;
        if (++query == a->num_queries) query = 0, t++;
    }
    tile.base = first[0] / LANES * LANES; /* `first` never falls */
    tile.places = place + 1 - tile.base;
    for (int64_t i = 0; i < TILE; i++) {
        tile.skip[i] = i < tile.num ? first[i] - tile.base : 0;
        tile.end[i] = i < tile.num ? tile.end[i] - tile.base : 0;
    }
    return tile;
}

/* Asks for what the next tile reads and writes of this head, which lies a whole token ahead: too far for the processor
 * to guess. */
PART void fetch_ahead(const SegmentAttention *a, const Tile *tile, int64_t at) {
    const int64_t width = a->heads * a->head_width;
    for (int64_t one = tile->one[0] + TILE; one < tile->one[0] + 2 * TILE; one++)
        for (int64_t i = 0; i < a->head_width; i += LANES) {
            __builtin_prefetch(a->out + one * width + at + i, 1);
            if (a->d_out) {
                __builtin_prefetch(a->d_out + one * width + at + i, 0);
                __builtin_prefetch(a->d_query + one * width + at + i, 1);
            }
        }
}

/* The queries of a tile, turned and scaled; 0 where none is there. */
PART void gather_queries(const SegmentAttention *a, const Tile *tile, int64_t at, Workspace *w) {
    const int64_t d = a->head_width, width = a->heads * d, half = d / 2;
    memset(w->query, 0, TILE * d * sizeof(float));
    for (int64_t i = 0; i < tile->num; i++)
        turn(a->query + tile->token[i] * a->query_stride + tile->query[i] * width + at, a->cosine + tile->token[i] * half,
             a->sine + tile->token[i] * half, half, 1.0f / sqrtf((float)d), w->query + i * d);
}

PART void attend_segment(const SegmentAttention *a, int64_t row, int64_t h, Workspace *w) {
    const int64_t d = a->head_width, width = a->heads * d, at = h * d;
    const int64_t remembered = gather(a, row, h, w);
    int64_t begun = 0;
    float total[TILE], log_sum[TILE];
    for (int64_t next = 0; next < a->steps * a->num_queries; next += TILE) {
        const Tile tile = next_tile(a, row, next, remembered, &begun);
        fetch_ahead(a, &tile, at);
        gather_queries(a, &tile, at, w);
        products(w->query, w->keys_by_feature + tile.base, w->stride, tile.places, d, w->span, w->score);
        softmax(&tile, w->score, w->span, total, log_sum);
        weigh(w->score, w->span, w->values + tile.base * d, tile.places, d, w->found);
        for (int64_t i = 0; i < tile.num; i++) {
            copy(w->found + i * d, d, 1.0f / total[i], a->out + tile.one[i] * width + at);
            a->log_sum[tile.one[i] * a->heads + h] = log_sum[i];
        }
    }
}

PART void attend_segment_backwards(const SegmentAttention *a, int64_t row, int64_t h, Workspace *w) {
    const int64_t d = a->head_width, width = a->heads * d, half = d / 2, at = h * d;
    const float scale = 1.0f / sqrtf((float)d);
    const lanes none = {0};
    const int64_t remembered = gather(a, row, h, w);
    int64_t begun = 0;
    memset(w->d_keys, 0, a->steps * d * sizeof(float));
    memset(w->d_values, 0, a->steps * d * sizeof(float));
    for (int64_t next = 0; next < a->steps * a->num_queries; next += TILE) {
        const Tile tile = next_tile(a, row, next, remembered, &begun);
        fetch_ahead(a, &tile, at);
        gather_queries(a, &tile, at, w);
        memset(w->d_out, 0, TILE * d * sizeof(float));
        for (int64_t i = 0; i < tile.num; i++)
            copy(a->d_out + tile.one[i] * width + at, d, 1.0f, w->d_out + i * d);
        products(w->query, w->keys_by_feature + tile.base, w->stride, tile.places, d, w->span, w->score);
        products(w->d_out, w->values_by_feature + tile.base, w->stride, tile.places, d, w->span, w->d_score);
        for (int64_t i = 0; i < TILE; i++) {
            const int64_t one = tile.one[i < tile.num ? i : 0];
            const float log_sum = a->log_sum[one * a->heads + h], along = dot(w->d_out + i * d, a->out + one * width + at, d);
            for (int64_t j = 0; j < tile.places; j += LANES) {
                lanes *share = (lanes *)(w->score + i * w->span + j), *d_score = (lanes *)(w->d_score + i * w->span + j);
                const whole_lanes seen = lies_within(j, tile.skip[i], tile.end[i]);
                *share = choose(seen, exponential(*share - log_sum), none);
                *d_score = choose(seen, *share * (*d_score - along), none);
            }
        }
        weigh(w->d_score, w->span, w->keys + tile.base * d, tile.places, d, w->found);
        for (int64_t i = 0; i < tile.num; i++)
            turn_back(w->found + i * d, a->cosine + tile.token[i] * half, a->sine + tile.token[i] * half, half, scale,
                      a->d_query + tile.one[i] * width + at);
        const int64_t skip = remembered > tile.base ? remembered - tile.base : 0; /* gradients stop at the memory */
        const int64_t segment = (tile.base + skip - remembered) * d;
        spread(w->d_score + skip, w->span, w->query, tile.places - skip, d, w->d_keys + segment);
        spread(w->score + skip, w->span, w->d_out, tile.places - skip, d, w->d_values + segment);
    }
    for (int64_t t = 0; t < a->steps; t++) {
        const int64_t token = row * a->steps + t;
        turn_back(w->d_keys + t * d, a->cosine + token * half, a->sine + token * half, half, 1.0f,
                  a->d_key + token * width + at);
        copy(w->d_values + t * d, d, 1.0f, a->d_value + token * width + at);
    }
}

/* Rows [begin, end), forwards, or backwards where d_out is given; `space` has workspace_size floats. */
WIDEST static void segment_attention(const SegmentAttention *a, int64_t begin, int64_t end, float *space) {
    Workspace w = lay_out(space, a->history, a->steps, a->head_width);
    for (int64_t row = begin; row < end; row++)
        for (int64_t h = 0; h < a->heads; h++)
            if (a->d_out)
                attend_segment_backwards(a, row, h, &w);
            else
                attend_segment(a, row, h, &w);
}
