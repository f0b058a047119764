/* Attention of a few queries a row over the row's ring of keys and values, where they lie, once a new token is in. */
#include "vector_math.h"

#define MAX_HISTORY 1024
#define MAX_HEAD_WIDTH 256

typedef struct {
    const float *query;      /* (num_queries, width) of a row; rows lie query_stride floats apart, 0: all share one */
    const float *key;        /* (width,) of a row, key_stride floats apart; not rotated */
    const float *value;      /* (width,) of a row, value_stride floats apart */
    const float *cosine;     /* (rows, head_width / 2): the rotary angles of each row's new token */
    const float *sine;
    const int64_t *count;    /* (rows,): tokens of the match before this one */
    const int64_t *places;   /* (rows,): each row's place in keys and values; NULL: row i in place i */
    float *keys;             /* (places, history, width), rotated; written at the new token's slot */
    float *values;
    float *out;              /* (rows, num_queries, width) */
    int64_t rows, query_stride, key_stride, value_stride, num_queries, history, heads, head_width;
} RingAttention;

/* softmax(query . keys) values of one head; the ring's first `seen` slots hold tokens. */
PART void attend(const float *query, const float *keys, const float *values, int64_t seen, int64_t stride,
                 int64_t head_width, float *out) {
    float weight[MAX_HISTORY + LANES], most, total;
    lanes largest, sum = {0};
    for (int l = 0; l < LANES; l++) weight[(seen - 1) / LANES * LANES + l] = -INFINITY; /* spare ones add exp(-80) */
    for (int64_t j = 0; j < seen; j++) weight[j] = dot(query, keys + j * stride, head_width);
    largest = LANES_AT(weight);
    for (int64_t j = LANES; j < seen; j += LANES) largest = greater(LANES_AT(weight + j), largest);
    most = largest_of(largest);
    for (int64_t j = 0; j < seen; j += LANES) sum += *(lanes *)(weight + j) = exponential(LANES_AT(weight + j) - most);
    total = sum_of(sum);
    memset(out, 0, head_width * sizeof(float));
    for (int64_t j = 0; j < seen; j++) {
        const float share = weight[j] / total, *value = values + j * stride;
        for (int64_t d = 0; d < head_width; d++) out[d] += share * value[d];
    }
}

WIDEST static void ring_attention(const RingAttention *a, int64_t row) {
    const int64_t width = a->heads * a->head_width, half = a->head_width / 2;
    const float scale = 1.0f / sqrtf((float)a->head_width);
    const int64_t start = (a->places ? a->places[row] : row) * a->history * width, count = a->count[row];
    const int64_t slot = count % a->history, seen = count < a->history ? count + 1 : a->history;
    const float *cosine = a->cosine + row * half, *sine = a->sine + row * half;
    float *keys = a->keys + start, *values = a->values + start, query[MAX_HEAD_WIDTH];
    for (int64_t h = 0; h < a->heads; h++)
        turn(a->key + row * a->key_stride + h * a->head_width, cosine, sine, half, 1.0f,
             keys + slot * width + h * a->head_width);
    memcpy(values + slot * width, a->value + row * a->value_stride, width * sizeof(float));
    for (int64_t q = 0; q < a->num_queries; q++)
        for (int64_t h = 0; h < a->heads; h++) {
            const int64_t at = h * a->head_width;
            turn(a->query + row * a->query_stride + q * width + at, cosine, sine, half, scale, query);
            attend(query, keys + at, values + at, seen, width, a->head_width,
                   a->out + (row * a->num_queries + q) * width + at);
        }
}
