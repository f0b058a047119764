/* Attention over a stored segment, forwards and backwards: each token of each row sees the last `history` tokens of its
 * own match, those of the memory that the row brought along (a ring, as the segment began) and those of the segment.
 *
 * Laid out in time, memory first, what a token sees is one range of places. Keys and values of a row and head are copied
 * into a workspace, where a place's score needs no sum across vector lanes.
 */
#include "vector_math.h"

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
    int64_t stride;         /* places that a line of the transposed arrays holds, LANES of them spare */
    float *keys, *values;   /* (places, head_width) */
    float *keys_by_feature, *values_by_feature; /* (head_width, stride) */
    float *d_keys, *d_values; /* (steps, head_width) */
    float *score, *d_score; /* (history + 3 * LANES,) */
    float *query, *d_query; /* (head_width,) */
} Workspace;

PART int64_t stride_of(int64_t history, int64_t steps) {
    return (history + steps + 2 * LANES - 1) / LANES * LANES;
}

PART int64_t workspace_size(int64_t history, int64_t steps, int64_t head_width) {
    const int64_t size = (4 * stride_of(history, steps) + 2 * steps + 2) * head_width + 2 * (history + 3 * LANES);
    return (size + LANES - 1) / LANES * LANES;
}

PART Workspace lay_out(float *space, int64_t history, int64_t steps, int64_t head_width) {
    Workspace w;
    w.stride = stride_of(history, steps);
    const int64_t places = w.stride * head_width, tokens = steps * head_width;
    w.keys_by_feature = space;
    w.values_by_feature = w.keys_by_feature + places;
    w.keys = w.values_by_feature + places;
    w.values = w.keys + places;
    w.d_keys = w.values + places;
    w.d_values = w.d_keys + tokens;
    w.query = w.d_values + tokens;
    w.d_query = w.query + head_width;
    w.score = w.d_query + head_width;
    w.d_score = w.score + history + 3 * LANES;
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
        memcpy(w->keys + i * a->head_width, a->keys + slot, a->head_width * sizeof(float));
        memcpy(w->values + i * a->head_width, a->values + slot, a->head_width * sizeof(float));
    }
    for (int64_t t = 0; t < a->steps; t++) {
        const int64_t token = row * a->steps + t, place = (remembered + t) * a->head_width;
        turn(a->key + token * a->key_stride + at, a->cosine + token * half, a->sine + token * half, half, 1.0f,
             w->keys + place);
        memcpy(w->values + place, a->value + token * a->value_stride + at, a->head_width * sizeof(float));
    }
    transpose(w->keys, remembered + a->steps, a->head_width, w->stride, w->keys_by_feature);
    if (a->d_out) transpose(w->values, remembered + a->steps, a->head_width, w->stride, w->values_by_feature);
    return remembered;
}

/* out[j] = x . column `first + j` of `by_feature`, for j < num, and for the rest of the last LANES. */
PART void products(const float *x, const float *by_feature, int64_t stride, int64_t first, int64_t num,
                   int64_t head_width, float *out) {
    int64_t j = 0;
    for (; j + LANES < num; j += 2 * LANES) {
        const float *column = by_feature + first + j;
        lanes low = {0}, high = {0}, odd_low = {0}, odd_high = {0}; /* head_width is even */
        for (int64_t d = 0; d < head_width; d += 2, column += 2 * stride) {
            low += x[d] * LANES_AT(column);
            high += x[d] * LANES_AT(column + LANES);
            odd_low += x[d + 1] * LANES_AT(column + stride);
            odd_high += x[d + 1] * LANES_AT(column + stride + LANES);
        }
        *(lanes *)(out + j) = low + odd_low;
        *(lanes *)(out + j + LANES) = high + odd_high;
    }
    if (j < num) {
        const float *column = by_feature + first + j;
        lanes even = {0}, odd = {0};
        for (int64_t d = 0; d < head_width; d += 2, column += 2 * stride) {
            even += x[d] * LANES_AT(column);
            odd += x[d + 1] * LANES_AT(column + stride);
        }
        *(lanes *)(out + j) = even + odd;
    }
}

/* out = sum of weight[j] times row j of x (num, head_width). */
PART void weigh(const float *weight, const float *x, int64_t num, int64_t head_width, float *out) {
    int64_t d = 0;
    for (; d + LANES <= head_width; d += LANES) {
        const float *row = x + d;
        lanes even = {0}, odd = {0};
        int64_t j = 0;
        for (; j + 2 <= num; j += 2, row += 2 * head_width) {
            even += weight[j] * LANES_AT(row);
            odd += weight[j + 1] * LANES_AT(row + head_width);
        }
        if (j < num) even += weight[j] * LANES_AT(row);
        *(lanes *)(out + d) = even + odd;
    }
    for (; d < head_width; d++) {
        out[d] = 0.0f;
        for (int64_t j = 0; j < num; j++) out[d] += weight[j] * x[j * head_width + d];
    }
}

/* out += scale times x (n,). */
PART void add_scaled(float scale, const float *x, int64_t n, float *out) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) *(lanes *)(out + i) += scale * LANES_AT(x + i);
    for (; i < n; i++) out[i] += scale * x[i];
}

/* Scores from `skip` to `num` to shares that sum to 1, in place; returns log of the sum of exp(score). */
PART float softmax(float *score, int64_t skip, int64_t num) {
    const int64_t padded = (num + LANES - 1) / LANES * LANES;
    for (int64_t j = 0; j < skip; j++) score[j] = -INFINITY; /* each adds exp(-80) */
    for (int64_t j = num; j < padded; j++) score[j] = -INFINITY;
    lanes largest = LANES_AT(score), sum = {0};
    for (int64_t j = LANES; j < padded; j += LANES) largest = greater(LANES_AT(score + j), largest);
    const float most = largest_of(largest);
    for (int64_t j = 0; j < padded; j += LANES) sum += *(lanes *)(score + j) = exponential(LANES_AT(score + j) - most);
    const float total = sum_of(sum);
    for (int64_t j = 0; j < padded; j += LANES) *(lanes *)(score + j) *= 1.0f / total;
    return most + logf(total);
}

/* Where a token looks: places `first` to its own; `base` is the nearest multiple of LANES below, so that vectors read
 * from there do not straddle two lines of the cache, and `skip` of the `num` places from there are not seen. */
typedef struct {
    int64_t first, base, skip, num, seen;
} Range;

PART Range range_of(int64_t place, int64_t begun, int64_t history) {
    Range r;
    r.first = place - history + 1 > begun ? place - history + 1 : begun;
    r.base = r.first / LANES * LANES;
    r.skip = r.first - r.base;
    r.num = place - r.base + 1;
    r.seen = r.num - r.skip;
    return r;
}

/* Asks for what the next token reads and writes of this head, which lies a whole token ahead: too far for the processor
 * to guess. */
PART void fetch_ahead(const SegmentAttention *a, int64_t token, int64_t at) {
    const int64_t width = a->heads * a->head_width;
    for (int64_t one = (token + 1) * a->num_queries; one < (token + 2) * a->num_queries; one++)
        for (int64_t i = 0; i < a->head_width; i += LANES) {
            __builtin_prefetch(a->out + one * width + at + i, 1);
            if (a->d_out) {
                __builtin_prefetch(a->d_out + one * width + at + i, 0);
                __builtin_prefetch(a->d_query + one * width + at + i, 1);
            }
        }
}

PART void attend_segment(const SegmentAttention *a, int64_t row, int64_t h, Workspace *w) {
    const int64_t d = a->head_width, width = a->heads * d, half = d / 2, at = h * d;
    const float scale = 1.0f / sqrtf((float)d);
    const int64_t remembered = gather(a, row, h, w);
    int64_t begun = 0;
    for (int64_t t = 0; t < a->steps; t++) {
        const int64_t token = row * a->steps + t, place = remembered + t;
        const float *cosine = a->cosine + token * half, *sine = a->sine + token * half;
        if (a->is_first[token]) begun = place;
        fetch_ahead(a, token, at);
        const Range r = range_of(place, begun, a->history);
        for (int64_t q = 0; q < a->num_queries; q++) {
            const int64_t one = token * a->num_queries + q;
            turn(a->query + token * a->query_stride + q * width + at, cosine, sine, half, scale, w->query);
            products(w->query, w->keys_by_feature, w->stride, r.base, r.num, d, w->score);
            a->log_sum[one * a->heads + h] = softmax(w->score, r.skip, r.num);
            weigh(w->score + r.skip, w->values + r.first * d, r.seen, d, a->out + one * width + at);
        }
    }
}

PART void attend_segment_backwards(const SegmentAttention *a, int64_t row, int64_t h, Workspace *w) {
    const int64_t d = a->head_width, width = a->heads * d, half = d / 2, at = h * d;
    const float scale = 1.0f / sqrtf((float)d);
    const int64_t remembered = gather(a, row, h, w);
    int64_t begun = 0;
    memset(w->d_keys, 0, a->steps * d * sizeof(float));
    memset(w->d_values, 0, a->steps * d * sizeof(float));
    for (int64_t t = 0; t < a->steps; t++) {
        const int64_t token = row * a->steps + t, place = remembered + t;
        const float *cosine = a->cosine + token * half, *sine = a->sine + token * half;
        if (a->is_first[token]) begun = place;
        fetch_ahead(a, token, at);
        const Range r = range_of(place, begun, a->history);
        const int64_t segment = r.first > remembered ? r.first : remembered; /* gradients stop at the memory */
        for (int64_t q = 0; q < a->num_queries; q++) {
            const int64_t one = token * a->num_queries + q;
            const float *d_out = a->d_out + one * width + at, log_sum = a->log_sum[one * a->heads + h];
            const float along = dot(d_out, a->out + one * width + at, d);
            turn(a->query + token * a->query_stride + q * width + at, cosine, sine, half, scale, w->query);
            products(w->query, w->keys_by_feature, w->stride, r.base, r.num, d, w->score);
            products(d_out, w->values_by_feature, w->stride, r.base, r.num, d, w->d_score);
            for (int64_t j = 0; j < r.num; j += LANES) {
                *(lanes *)(w->score + j) = exponential(LANES_AT(w->score + j) - log_sum);
                *(lanes *)(w->d_score + j) = LANES_AT(w->score + j) * (LANES_AT(w->d_score + j) - along);
            }
            weigh(w->d_score + r.skip, w->keys + r.first * d, r.seen, d, w->d_query);
            turn_back(w->d_query, cosine, sine, half, scale, a->d_query + one * width + at);
            for (int64_t j = segment; j <= place; j++) {
                add_scaled(w->d_score[j - r.base], w->query, d, w->d_keys + (j - remembered) * d);
                add_scaled(w->score[j - r.base], d_out, d, w->d_values + (j - remembered) * d);
            }
        }
    }
    for (int64_t t = 0; t < a->steps; t++) {
        const int64_t token = row * a->steps + t;
        turn_back(w->d_keys + t * d, a->cosine + token * half, a->sine + token * half, half, 1.0f,
                  a->d_key + token * width + at);
        memcpy(a->d_value + token * width + at, w->d_values + t * d, d * sizeof(float));
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
