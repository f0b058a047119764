/* Attention of a few queries a row over a few keys and values a row, where they lie: over a ring, into which the new
 * token is written first, or over keys and values as given.
 *
 * Sums are kept in LANES independent lanes, which compilers turn into vector instructions without being allowed to
 * reorder floating-point sums; with GCC on x86-64 Linux a version for each width is built and chosen when loaded.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define MAX_HISTORY 1024
#define MAX_HEAD_WIDTH 256

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__)
#define WIDEST __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDEST
#endif

typedef struct {
    const float *query;      /* (num_queries, width) of a row; rows lie query_stride floats apart, 0: all share one */
    const float *key;        /* (width,) of a row, key_stride floats apart; not rotated. NULL: there is no new token */
    const float *value;      /* (width,) of a row, value_stride floats apart */
    const float *cosine;     /* (rows, head_width / 2): the rotary angles of each row's new token. NULL: nothing turns */
    const float *sine;
    const int64_t *count;    /* (rows,): tokens of the match before this one. NULL: every slot holds one */
    const int64_t *places;   /* (rows,): each row's place in keys and values; NULL: row i in place i */
    float *keys;             /* (places, history, token_stride), rotated; written at the new token's slot */
    float *values;
    float *out;              /* (rows, num_queries, width) */
    int64_t rows, query_stride, key_stride, value_stride, token_stride, num_queries, history, heads, head_width;
} RingAttention;

/* x (2 * half,) as two halves of complex numbers, turned by the angles, if there are any, and scaled. */
static inline void turn(const float *x, const float *cosine, const float *sine, int64_t half, float scale, float *out) {
    if (!cosine) {
        for (int64_t i = 0; i < 2 * half; i++) out[i] = x[i] * scale;
        return;
    }
    for (int64_t i = 0; i < half; i++) {
        out[i] = (x[i] * cosine[i] - x[half + i] * sine[i]) * scale;
        out[half + i] = (x[i] * sine[i] + x[half + i] * cosine[i]) * scale;
    }
}

static inline float dot(const float *a, const float *b, int64_t n) {
    float lane[LANES] = {0}, sum = 0.0f;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++) lane[l] += lane[l + width];
    for (; i < n; i++) sum += a[i] * b[i];
    return lane[0] + sum;
}

/* x[i] = exp(x[i]) for x <= 0, to 2 units in the last place: 2^n by the exponent bits times a Taylor polynomial on
 * [-ln 2 / 2, ln 2 / 2] whose first omitted term is below 1e-8. */
static inline void exponentials(float *x, int64_t n) {
    const float shift = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    for (int64_t i = 0; i < n; i++) {
        float clipped = x[i] < -87.0f ? -87.0f : x[i];
        float shifted = clipped * 1.44269504f + shift;
        float whole = shifted - shift;
        float r = (clipped - whole * 0.693359375f) + whole * 2.12194440e-4f;
        float p = 1.0f / 5040;
        int32_t bits;
        p = p * r + 1.0f / 720;
        p = p * r + 1.0f / 120;
        p = p * r + 1.0f / 24;
        p = p * r + 1.0f / 6;
        p = p * r + 0.5f;
        p = p * r + 1.0f;
        p = p * r + 1.0f;
        bits = ((int32_t)whole + 127) << 23;
        float power;
        memcpy(&power, &bits, sizeof power);
        x[i] = p * power;
    }
}

/* softmax(query . keys) values of one head; the ring's first `seen` slots hold tokens. */
static inline void attend(const float *query, const float *keys, const float *values, int64_t seen, int64_t stride,
                          int64_t head_width, float *out) {
    float weight[MAX_HISTORY], most = -INFINITY, sum = 0.0f;
    for (int64_t j = 0; j < seen; j++) {
        weight[j] = dot(query, keys + j * stride, head_width);
        most = weight[j] > most ? weight[j] : most;
    }
    for (int64_t j = 0; j < seen; j++) weight[j] -= most;
    exponentials(weight, seen);
    for (int64_t j = 0; j < seen; j++) sum += weight[j];
    memset(out, 0, head_width * sizeof(float));
    for (int64_t j = 0; j < seen; j++) {
        const float share = weight[j] / sum, *value = values + j * stride;
        for (int64_t d = 0; d < head_width; d++) out[d] += share * value[d];
    }
}

WIDEST static void ring_attention(const RingAttention *a) {
    const int64_t width = a->heads * a->head_width, half = a->head_width / 2;
    const float scale = 1.0f / sqrtf((float)a->head_width);
    float query[MAX_HEAD_WIDTH];
    for (int64_t row = 0; row < a->rows; row++) {
        const int64_t place = a->places ? a->places[row] : row, start = place * a->history * a->token_stride;
        const int64_t count = a->count ? a->count[row] : a->history - 1;
        const int64_t slot = count % a->history, seen = count < a->history ? count + 1 : a->history;
        const float *cosine = a->cosine ? a->cosine + row * half : NULL, *sine = a->sine ? a->sine + row * half : NULL;
        float *keys = a->keys + start, *values = a->values + start;
        if (a->key) {
            for (int64_t h = 0; h < a->heads; h++)
                turn(a->key + row * a->key_stride + h * a->head_width, cosine, sine, half, 1.0f,
                     keys + slot * a->token_stride + h * a->head_width);
            memcpy(values + slot * a->token_stride, a->value + row * a->value_stride, width * sizeof(float));
        }
        for (int64_t q = 0; q < a->num_queries; q++)
            for (int64_t h = 0; h < a->heads; h++) {
                const int64_t at = h * a->head_width;
                turn(a->query + row * a->query_stride + q * width + at, cosine, sine, half, scale, query);
                attend(query, keys + at, values + at, seen, a->token_stride, a->head_width,
                       a->out + (row * a->num_queries + q) * width + at);
            }
    }
}
